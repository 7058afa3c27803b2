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
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "shm/ring_internal.h"
#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

enum { STEPS_MAX = 100000 };

/* Most instructions are AddressSanitizer's own there, and all take as long. */
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 7 };
#else
enum { STRIDE = 1 };
#endif

/* Behind the ring: the child has done what it is to do. */
static _Atomic bool *through;
static const struct ring_note note = {.bytes = 1, .tensors = 7};

/* One slot, again and again in the same memory, which a child shares. */
static void make(void)
{
	const struct ring_geometry g = {RING_QUEUE, 1, KIT_SLOT_BYTES};

	if (ring_size(&g, &kit_ring_size) < 0)
		bail("%s", tarn_fail_message());
	if (!kit_ring_memory)
		kit_ring_memory =
			mmap(NULL, kit_ring_size + 1, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (kit_ring_memory == MAP_FAILED)
		bail("no memory");
	memset(kit_ring_memory, 0, kit_ring_size + 1);
	through = (_Atomic bool *)kit_ring_memory + kit_ring_size;
	if (ring_init(kit_ring_memory, kit_ring_size, &g) < 0)
		bail("%s", tarn_fail_message());
}

/* ---- stepping ---------------------------------------------------------- */

static struct ring old;
static uint32_t slot;
static struct ring_item item;

static pid_t start(void (*late)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(3);
		raise(SIGSTOP);
		late();
		atomic_store(through, true);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		skip_all("a process cannot be traced here");
	if (!WIFSTOPPED(status))
		bail("the child did not stop: status %d", status);
	return pid;
}

/* False: it was through before. */
static bool step(pid_t pid, int steps)
{
	for (int i = 0; i < steps && !atomic_load(through); i++) {
		int status = 0;

		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
			skip_all("a process cannot be stepped here: %m");
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			bail("the child ended with status %d", status);
	}
	return !atomic_load(through);
}

static void finish(pid_t pid)
{
	int status = 0;

	ptrace(PTRACE_CONT, pid, NULL, NULL);
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status))
		bail("the child ended with status %d", status);
}

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
	finish(pid);
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
		finish(pid);
		return kit_ring_free(&new) == 1;
	}
	item = kit_ring_receive(&new);
	mine = word();
	finish(pid);
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

	make();
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

	for (; more && at < STEPS_MAX; at += STRIDE) {
		pid_t pid;

		hold(filling);
		pid = start(late);
		more = step(pid, at);
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
