/* SPDX-License-Identifier: MIT */
/*
 * The server's search for leases, and clients that hand a storage to an item
 * and take it from one, at each moment of the search: the storage is never
 * freed while an item or a client has it.
 */
#include <stdatomic.h>

#include "base/fail.h"
#include "tests/kit/server_channel.h"
#include "tests/kit/tap.h"

/* ---- steps in the midst of a search ------------------------------------ */

enum moment {
	NEVER,
	BEFORE,  /* the pages of leases */
	BETWEEN, /* pages and channels */
	AFTER,
	MOMENTS
};

static const char *const moments[] = {"after the search", "before the search",
	"between pages and channels", "at the end of the search"};

static enum moment step_at;
static void (*step)(void);
static unsigned n_pages;

void __real_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
void __wrap_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
void __real_channel_search(
	const struct channel_map *map, struct lease_batch *batch);
void __wrap_channel_search(
	const struct channel_map *map, struct lease_batch *batch);

static void take_step(enum moment now)
{
	if (step && step_at == now)
		step();
}

void __wrap_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page)
{
	if (n_pages++ == 0)
		take_step(BEFORE);
	__real_lease_batch_search(batch, page);
}

void __wrap_channel_search(
	const struct channel_map *map, struct lease_batch *batch)
{
	take_step(BETWEEN);
	__real_channel_search(map, batch);
	take_step(AFTER);
}

static void search_with(enum moment when, void (*fn)(void))
{
	step = fn;
	step_at = when;
	n_pages = 0;
	collect(&kit_server_domain);
	if (when == NEVER)
		fn();
	step = NULL;
}

/* ---- hand-over --------------------------------------------------------- */

static struct user user;
static struct side *giver = &kit_server_sides[0], *taker = &kit_server_sides[1];
static uint32_t storage, slot;
static uint64_t generation;
static struct ring_item item;
static bool given, taken;

static _Atomic uint64_t *held(void)
{
	return &user.map.held[slot * user.map.geometry.tensors];
}

/* P3: the same as A3 says; the fence pairs with F2. */
static bool is_being_freed(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	return kit_server_state(storage) == STORAGE_FREEING;
}

/* P1 to P3; only then is the giver's own lease given back. */
static void give(void)
{
	struct ring_note note = {.tensors = 1 | CHANNEL_NOTE_HOLDS};

	atomic_store(held(), lease_word(storage, generation));
	given = !is_being_freed();
	if (!given)
		return;
	if (ring_publish(&user.ring, slot, &note) < 0)
		bail("%s", tarn_fail_message());
	if (lease_release(giver->page, &kit_server_domain.table, 0))
		storage_released_by_client(
			&kit_server_domain, storage, generation);
}

static void test_give(enum moment when)
{
	storage = kit_server_storage();
	generation = kit_server_generation(storage);
	if (lease_acquire(giver->page, &kit_server_domain.table, storage,
		    generation, 0) < 0 ||
		ring_acquire(&user.ring, &slot) != 1)
		bail("%s", tarn_fail_message());
	storage_release(&kit_server_domain, storage);
	search_with(when, give);
	is_int(when == NEVER, given, "a storage is handed to an item %s%s",
		moments[when], when == NEVER ? "" : ": not yet");
	is_int(STORAGE_UNNAMED, kit_server_state(storage),
		"the storage is not freed while it is handed to the item");
	if (!given)
		give();
	ok(given, "the storage is handed to the item %s at last",
		moments[when]);
	collect(&kit_server_domain);
	is_int(STORAGE_UNNAMED, kit_server_state(storage),
		"the item alone holds the storage, given %s", moments[when]);
}

/* A1 to A3 by the taker; only then is the slot given back. */
static void take(void)
{
	taken = lease_acquire(taker->page, &kit_server_domain.table, storage,
			generation, 0) == 0;
	if (taken && ring_release(&user.ring, &item) < 0)
		bail("%s", tarn_fail_message());
}

static void test_take(enum moment when)
{
	if (ring_receive(&user.ring, &item) != 1)
		bail("%s", tarn_fail_message());
	storage_release(&kit_server_domain, storage);
	search_with(when, take);
	is_int(when == NEVER, taken, "a storage is taken from an item %s%s",
		moments[when], when == NEVER ? "" : ": not yet");
	is_int(STORAGE_UNNAMED, kit_server_state(storage),
		"the storage is not freed while it is taken from the item");
	if (!taken)
		take();
	ok(taken, "a storage is taken from an item at last");
	storage_release(&kit_server_domain, storage);
	collect(&kit_server_domain);
	is_int(STORAGE_UNNAMED, kit_server_state(storage),
		"a lease alone holds the storage, taken %s", moments[when]);
	ok(lease_release(taker->page, &kit_server_domain.table, 0),
		"releasing the lease makes a notification");
	storage_released_by_client(&kit_server_domain, storage, generation);
	collect(&kit_server_domain);
	is_int(STORAGE_FREE, kit_server_state(storage),
		"the storage without references is free");
}

static void test_hand_over(enum ring_mode mode)
{
	kit_server_begin();
	kit_server_channel(mode, 4, 0, &user);
	kit_server_join(&user, RING_PRODUCER | RING_CONSUMER, 1);
	for (enum moment give_at = NEVER; give_at < MOMENTS; give_at++)
		for (enum moment take_at = NEVER; take_at < MOMENTS;
			take_at++) {
			test_give(give_at);
			test_take(take_at);
		}
	kit_server_drop_user(&user);
	kit_server_end();
}

int main(void)
{
	test_hand_over(RING_QUEUE);
	test_hand_over(RING_BROADCAST);
	return done(320);
}
