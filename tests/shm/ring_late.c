/* SPDX-License-Identifier: MIT */
/*
 * A participant is stopped between any two instructions of giving a slot away
 * and is taken for dead. It continues when another has its place, and in that
 * place the same slot at the same position: it must not change that slot.
 *
 * A child is stepped to each instruction of the call, once for each. Its
 * registers then hold the word of a slot that was its own, of another
 * generation than the word that it finds.
 */
#include <stdatomic.h>

#include "shm/ring_internal.h"
#include "tests/kit/ring.h"
#include "tests/kit/stepped.h"
#include "tests/kit/tap.h"

enum { STEPS_MAX = 100000 };

static const struct ring_note note = {.bytes = 1, .tensors = 7};

static struct ring old;
static uint32_t slot;
static struct ring_item item;

/* ---- the successor ----------------------------------------------------- */

static uint64_t word(void)
{
	return atomic_load(&old.slots[0].word);
}

/* Another participant in the same place. */
static struct ring successor(unsigned int kind)
{
	struct ring new;

	ring_reap_owner(&old, 1);
	kit_ring_let_rest();
	new = kit_ring_join(kind, 2);
	if (new.me != old.me)
		bail("place %u, not %u", new.me, old.me);
	return new;
}

/* The successor fills the slot that the child had, and keeps it. */
static bool fills(pid_t pid)
{
	struct ring new = successor(RING_PRODUCER), c;
	uint64_t mine;
	bool right;

	/* The child published it before it was taken for dead. */
	if (slot_state(word()) == SLOT_OFFERED) {
		c = kit_ring_join(RING_CONSUMER, 3);
		item = kit_ring_receive(&c);
		ring_release(&c, &item);
		ring_leave(&c);
	}
	kit_ring_acquire(&new);
	mine = word();
	stepped_finish(pid);
	right = word() == mine && ring_publish(&new, 0, &note) == 0;
	c = kit_ring_join(RING_CONSUMER, 3);
	return right && ring_receive(&c, &item) == 1 &&
	       item.note.tensors == note.tensors &&
	       ring_release(&c, &item) == 0 && ring_receive(&c, &item) == 0;
}

static bool reads(pid_t pid)
{
	struct ring new = successor(RING_CONSUMER);
	uint64_t mine;
	bool right;

	if (slot_state(word()) == SLOT_FREE) {
		stepped_finish(pid);
		return kit_ring_free(&new) == 1;
	}
	item = kit_ring_receive(&new);
	mine = word();
	stepped_finish(pid);
	right = word() == mine && ring_release(&new, &item) == 0;
	return right && kit_ring_free(&new) == 1;
}

/* ---- what the child does ----------------------------------------------- */

static void abandon(void)
{
	ring_abandon(&old, slot);
}

static void publish(void)
{
	ring_publish(&old, slot, &note);
}

static void release(void)
{
	ring_release(&old, &item);
}

static void hold(bool filling)
{
	struct ring p;

	kit_ring_make_shared(RING_QUEUE, 1);
	if (filling) {
		old = kit_ring_join(RING_PRODUCER, 1);
		slot = kit_ring_acquire(&old);
		return;
	}
	p = kit_ring_join(RING_PRODUCER, 3);
	kit_ring_must_put(&p, 1);
	old = kit_ring_join(RING_CONSUMER, 1);
	item = kit_ring_receive(&old);
}

/* Stops a child after each instruction, until one is through before that. */
static void test(const char *what, void (*late)(void), bool filling)
{
	int wrong = 0, at = 0;
	bool more = true;

	for (; more && at < STEPS_MAX; at += STEPPED_STRIDE) {
		pid_t pid;

		hold(filling);
		pid = stepped_start(late);
		more = stepped_go(pid, at);
		if (!(filling ? fills(pid) : reads(pid)) && wrong++ == 0)
			diag("%s: instruction %d", what, at);
	}
	ok(at > 10 && wrong == 0,
		"%s: a late participant touches no slot of another, at any of "
		"%d steps",
		what, at);
}

int main(void)
{
	test("abandoning", abandon, true);
	test("publishing", publish, true);
	test("releasing", release, false);
	return done(3);
}
