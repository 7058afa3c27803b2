/* SPDX-License-Identifier: MIT */
/*
 * The cost of a large slot before its first byte is written. A producer that
 * faulted in each page of each slot spent five times as long with that as with
 * filling them. So pages are mapped in one go, in a forked child too, and
 * slots that were used before are taken first. Slots of a sparse channel have
 * no memory before; a lack of memory for one is an error, and no signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/channel/channel.h"
#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define LARGE (1 << 20)

static struct daemon server;

/* Is the machine full? */
static bool is_full;

int __real_headroom_check(uint64_t size);
int __wrap_headroom_check(uint64_t size);

int __wrap_headroom_check(uint64_t size)
{
	return is_full ? -ENOSPC : __real_headroom_check(size);
}

/* Is there no memory for so many things? 0: for any. */
static size_t denied;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	if (!n || n != denied)
		return __real_calloc(n, size);
	errno = ENOMEM;
	return NULL;
}

/* How many pages of that range this process has in its page table. */
static int64_t mapped(const void *start, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), entry;
	uint64_t first = (uint64_t)(uintptr_t)start / page;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int64_t n = 0;

	if (fd < 0)
		bail("pagemap cannot be opened");
	for (uint64_t i = 0; i < size / page; i++) {
		if (pread(fd, &entry, sizeof(entry),
			    (off_t)((first + i) * sizeof(entry))) !=
			sizeof(entry))
			bail("pagemap is short");
		/* Present, or on its way to another place (bit 62). */
		n += entry >> 62 != 0;
	}
	close(fd);
	return n;
}

static int64_t pages(uint64_t size)
{
	return (int64_t)(size / (uint64_t)sysconf(_SC_PAGESIZE));
}

static tarn_tensor *empty(tarn_slot *slot, int64_t size)
{
	tarn_tensor *t;

	if (tarn_slot_new_tensor(slot, TARN_U8, 1, &size, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

/* How many pages of a tensor are mapped before anybody has touched it. */
static int64_t mapped_of(tarn_slot *slot, int64_t size)
{
	tarn_tensor *t = empty(slot, size);
	int64_t n = mapped(tarn_tensor_data(t), (uint64_t)size);

	tarn_tensor_unref(t);
	return n;
}

/* In a process of its own, which nobody was a producer of. */
static int in_child(tarn_channel *c)
{
	int status = 0;
	pid_t child = fork();

	if (child < 0)
		bail("no child");
	if (child == 0)
		_exit(mapped_of(kit_channel_acquire(c), LARGE) == pages(LARGE)
				? 0
				: 1);
	waitpid(child, &status, 0);
	return status;
}

static void test_mapped(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 3 * LARGE};
	tarn_channel *c = kit_channel_open(store, "mapped", &options);
	tarn_slot *slot = kit_channel_acquire(c);

	is_int(pages(LARGE), mapped_of(slot, LARGE),
		"a tensor's pages are mapped before it is filled");
	is_int(pages(LARGE), mapped_of(slot, LARGE),
		"the next slot's pages are mapped, too");
	tarn_slot_abandon(slot);
	is_int(0, in_child(c), "a forked child maps the pages again");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "mapped"));
}

/* The slot of one item, from its filling to its release. */
static int64_t through(tarn_channel *c)
{
	tarn_item *item;
	int64_t slot;

	if (kit_channel_put(c, 0, 1) < 0)
		bail("%s", tarn_error_message());
	item = kit_channel_receive(c);
	slot = item->item.slot;
	tarn_item_unref(item);
	return slot;
}

/* How many slots some items went through, one after the other. */
static int64_t slots_used(tarn_store *store, uint64_t slot_bytes)
{
	const struct tarn_channel_options options = {
		.slots = 4, .slot_bytes = slot_bytes};
	tarn_channel *c = kit_channel_open(store, "used", &options);
	bool seen[4] = {false};
	int64_t n = 0;

	for (int i = 0; i < 8; i++) {
		int64_t slot = through(c);

		n += !seen[slot];
		seen[slot] = true;
	}
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "used"));
	return n;
}

static void test_order(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 4, .slot_bytes = LARGE};
	tarn_channel *c;
	tarn_slot *slot;

	is_int(1, slots_used(store, LARGE),
		"one large slot is enough if items are received at once");
	is_int(4, slots_used(store, 4096), "small slots are taken in turn");
	c = kit_channel_open(store, "order", &options);
	slot = kit_channel_acquire(c);
	is_int(1, through(c),
		"the second slot is taken while the first is in hand");
	is_int(1, through(c), "the same free slot is used again");
	tarn_slot_abandon(slot);
	is_int(0, through(c), "the first slot is used after it was given back");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "order"));
}

/* How many pages of all slots there are, in whichever process. */
static int64_t there(tarn_channel *c)
{
	uint64_t size = 4ull * LARGE;
	unsigned char seen[4 * LARGE / 4096] = {0};
	int64_t n = 0;

	if (mincore(c->map.bytes, size, seen) < 0)
		bail("mincore");
	for (int64_t i = 0; i < pages(size); i++)
		n += seen[i] & 1;
	return n;
}

static tarn_channel *of_four(tarn_store *store, const char *name,
	uint64_t slot_bytes, unsigned flags)
{
	const struct tarn_channel_options options = {
		.slots = (uint32_t)(4 * LARGE / slot_bytes),
		.slot_bytes = slot_bytes,
		.flags = flags};

	return kit_channel_open(store, name, &options);
}

static void test_sparse(tarn_store *store)
{
	tarn_channel *c = of_four(store, "sparse", LARGE, TARN_CHANNEL_SPARSE),
		     *other = kit_channel_open(store, "sparse", NULL);
	tarn_slot *slot = kit_channel_acquire(c);

	is_int(0, there(c), "a sparse channel takes no memory for its slots");
	is_int(pages(LARGE), mapped_of(slot, LARGE),
		"the slot that is filled gets all its memory");
	/* A huge page is two slots. */
	ok(there(c) >= pages(LARGE) && there(c) <= pages(2 * LARGE),
		"only the slot that is filled has memory");
	is_int(1, through(other), "the next slot of a sparse channel works");
	ok(there(c) <= pages(2 * LARGE),
		"the next slot takes no more memory than its own");
	tarn_slot_abandon(slot);
	is_int(0, through(other), "a slot that has memory is used again");
	ok(there(c) <= pages(2 * LARGE),
		"slots with memory are used before new ones");
	tarn_channel_unref(other);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "sparse"));

	c = of_four(store, "small", 4096, TARN_CHANNEL_SPARSE);
	is_int(pages(4 * LARGE), there(c),
		"small slots have memory from the start");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "small"));
	c = of_four(store, "whole", LARGE, 0);
	is_int(pages(4 * LARGE), there(c),
		"a channel that is not sparse has all its memory");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "whole"));
}

/* What asking for a tensor says when there is no memory. */
static int empty_full(tarn_slot *slot, int64_t size)
{
	tarn_tensor *t = NULL;
	int r;

	is_full = true;
	r = tarn_slot_new_tensor(slot, TARN_U8, 1, &size, &t);
	is_full = false;
	tarn_tensor_unref(t);
	return r;
}

/* A slot of which only the beginning was needed before: its first page is
 * there, or as much as a huge page has. */
static void test_begun(tarn_store *store)
{
	const struct tarn_channel_options options = {.slots = 2,
		.slot_bytes = 6 * LARGE,
		.flags = TARN_CHANNEL_SPARSE};
	tarn_channel *c = kit_channel_open(store, "begun", &options);
	tarn_slot *slot;

	through(c);
	slot = kit_channel_acquire(c);
	is_int(-ENOMEM, empty_full(slot, 6 * LARGE),
		"no memory for the rest of a slot is an error");
	tarn_tensor_unref(empty(slot, 6 * LARGE));
	tarn_slot_abandon(slot);
	tarn_channel_unref(c);
	c = kit_channel_open(store, "begun", NULL);
	slot = kit_channel_acquire(c);
	is_int(0, empty_full(slot, 6 * LARGE),
		"a part of a slot that has memory can be used");
	tarn_channel_unref(c);
	tarn_slot_abandon(slot);
	must(tarn_store_remove(store, "begun"));
}

static void test_full(tarn_store *store)
{
	tarn_channel *c =
		of_four(store, "full", LARGE / 2, TARN_CHANNEL_SPARSE);
	tarn_slot *slot = kit_channel_acquire(c);

	is_int(-ENOMEM, empty_full(slot, LARGE / 2),
		"a small tensor cannot be filled without memory");
	tarn_slot_abandon(slot);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "full"));
}

/* A producer that could not note what is mapped would fill missing pages. */
static void test_not_noted(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 37, .slot_bytes = LARGE, .flags = TARN_CHANNEL_SPARSE};
	tarn_channel *c = kit_channel_open(store, "noted", &options),
		     *other = NULL;

	denied = 37;
	is_int(-ENOMEM, tarn_channel_open(store, "noted", NULL, &other),
		"no memory to note the slots refuses the channel");
	has_str("37 slots", tarn_error_message(),
		"the error contains '37 slots'");
	denied = 0;
	other = kit_channel_open(store, "noted", NULL);
	ok(through(other) >= 0, "a handle opened after the shortage works");
	tarn_channel_unref(other);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "noted"));
}

int main(void)
{
	tarn_store *store;

	daemon_start(&server, "pages.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_mapped(store);
	test_order(store);
	test_sparse(store);
	test_begun(store);
	test_full(store);
	test_not_noted(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(24);
}
