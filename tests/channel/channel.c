/* SPDX-License-Identifier: MIT */
/*
 * The memory of a channel: where its parts lie, that a head which says
 * anything else is refused, and that what items keep is found as long as they
 * are there, and no longer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "shm/channel.h"
#include "shm/lease.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)

static const struct channel_geometry usual = {
	.ring = {.mode = RING_QUEUE, .slots = 8, .slot_bytes = MIB},
	.tensors = 16,
};

/* ---- sizes -------------------------------------------------------------- */

static void refused(struct channel_geometry g, int error, const char *what)
{
	uint64_t size = 7;

	is_int(-error, channel_size(&g, &size), "%s is refused", what);
	is_int(7, (int64_t)size,
		"a refused geometry leaves the size as it was");
}

static void test_sizes(void)
{
	struct channel_geometry g = usual;
	uint64_t size;

	is_int(0, channel_size(&g, &size), "a usual channel");
	is_int((int64_t)(2 * MIB + 8 * MIB), (int64_t)size,
		"its bytes begin at 2 MiB");
	g.ring.slots = 65536;
	g.ring.slot_bytes = 1ull << 30;
	is_int(0, channel_size(&g, &size), "the largest of 16 tensors");
	ok(size > 65536ull << 30 && size % 4096 == 0, "64 TiB and some more");
	g.tensors = 17;
	refused(g, EINVAL, "a record more");
	g = usual;
	g.tensors = 1024;
	g.ring.slots = 1024;
	is_int(0, channel_size(&g, &size), "the most tensors of an item");
	g.tensors = 1025;
	g.ring.slots = 1;
	refused(g, EINVAL, "a tensor more");
	g.tensors = 0;
	refused(g, EINVAL, "no tensor");
	g = usual;
	g.ring.slots = 0;
	refused(g, EINVAL, "no slot");
	g.ring.slots = 65537;
	g.tensors = 1;
	refused(g, EINVAL, "a slot more than there may be");
	g = usual;
	g.ring.slot_bytes = 4095;
	refused(g, EINVAL, "a slot of no whole pages");
	g.ring.slot_bytes = UINT64_MAX - 4095;
	refused(g, EOVERFLOW, "slots beyond all numbers");
	g.ring.slot_bytes = INT64_MAX / 8 / 8 + 1 - 4096;
	refused(g, EOVERFLOW, "slots beyond what a storage may be");
	g = usual;
	g.ring.mode = (enum ring_mode)3;
	refused(g, EINVAL, "a mode that is none");
	g = usual;
	g.flags = 2;
	refused(g, EINVAL, "a flag that is none");
}

/* ---- heads --------------------------------------------------------------- */

static struct channel_map map;

static void *make(const struct channel_geometry *g, uint64_t *ret_size)
{
	void *at = MAP_FAILED;

	if (channel_size(g, ret_size) == 0)
		at = mmap(NULL, *ret_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED || channel_init(at, *ret_size, g) < 0 ||
		channel_attach(&map, at, *ret_size) < 0)
		bail("a channel: %s", tarn_fail_message());
	return at;
}

static void test_places(void)
{
	struct channel_geometry g = usual;
	uint64_t size;
	char *at = make(&g, &size);
	char *held = (char *)map.held, *records = (char *)map.records;

	ok(memcmp(&map.geometry, &g, sizeof(g)) == 0, "its geometry is known");
	is_int(4096, (char *)map.ring - at, "the ring is behind the head");
	ok(held >= (char *)map.ring + map.ring_size && (held - at) % 4096 == 0,
		"held words in pages behind it");
	ok(records >= held + 8 * 16 * 8 && (records - at) % 4096 == 0,
		"records behind them");
	is_int(records - at, (int64_t)map.words_size,
		"all before them is words");
	ok((char *)map.bytes >= records + 8 * 16 * 256 &&
			((char *)map.bytes - at) % (2 * (long)MIB) == 0,
		"the bytes behind those");
	is_int((int64_t)size, (char *)map.bytes - at + 8 * (long)MIB,
		"the mapping ends behind the slots' bytes");
	is_int(-EINVAL, channel_init(at, size - 4096, &g),
		"none is made in a page less");
	munmap(at, size);
}

static void lie(char *at, uint64_t size, size_t offset, const char *what)
{
	struct channel_map other = {.size = 7};
	char was = at[offset];

	at[offset] ^= 2;
	is_int(-EPROTO, channel_attach(&other, at, size), "a head lies: %s",
		what);
	is_int(7, (int64_t)other.size, "nothing is mapped");
	at[offset] = was;
}

static void test_heads(void)
{
	uint64_t size;
	char *at = make(&usual, &size);
	struct channel_map other;

	lie(at, size, offsetof(struct channel_head, magic), "magic");
	lie(at, size, offsetof(struct channel_head, version), "version");
	lie(at, size, offsetof(struct channel_head, flags), "flags");
	lie(at, size, offsetof(struct channel_head, mode), "mode");
	lie(at, size, offsetof(struct channel_head, slots), "slots");
	lie(at, size, offsetof(struct channel_head, slots) + 3, "many slots");
	lie(at, size, offsetof(struct channel_head, slot_bytes), "no pages");
	lie(at, size, offsetof(struct channel_head, slot_bytes) + 2, "bytes");
	lie(at, size, offsetof(struct channel_head, slot_bytes) + 7, "many");
	lie(at, size, offsetof(struct channel_head, tensors) + 2, "tensors");
	/* Eight slots, as the head says, where its ring has two more. */
	lie(at, size, 4096 + 16, "its ring has others");
	is_int(-EPROTO, channel_attach(&other, at, size - 4096), "a page less");
	is_int(-EPROTO, channel_attach(&other, at, size + 4096), "a page more");
	is_int(-EPROTO, channel_attach(&other, at, 100), "no head");
	is_int(0, channel_attach(&other, at, size), "it is right otherwise");
	munmap(at, size);
}

/* ---- what items keep --------------------------------------------------- */

#define INDEX 5u
#define GENERATION 9u

static bool is_kept(void)
{
	struct lease_batch batch;
	bool found;

	if (lease_batch_init(&batch) < 0 ||
		!lease_batch_add(&batch, INDEX, GENERATION))
		bail("no memory");
	channel_search(&map, &batch);
	found = lease_batch_found(&batch, INDEX, GENERATION);
	lease_batch_done(&batch);
	return found;
}

static void test_search(void)
{
	uint64_t size;
	char *at = make(&usual, &size);
	struct ring_note note = {.bytes = 0};
	struct ring_item item;
	struct ring ring;
	uint32_t slot = 99;

	if (ring_attach(&ring, map.ring, map.ring_size) < 0 ||
		ring_join(&ring, RING_PRODUCER | RING_CONSUMER, 1) < 0)
		bail("%s", tarn_fail_message());
	for (uint32_t i = 0; i < 8 * 16; i++)
		atomic_store(&map.held[i], lease_word(INDEX, GENERATION));
	ok(!is_kept(), "no slot is taken: what stands there is nothing");
	is_int(1, ring_acquire(&ring, &slot), "one is");
	ok(is_kept(), "its words count as soon as it is being filled");
	for (uint32_t i = 0; i < 16; i++)
		atomic_store(&map.held[slot * 16 + i], 0);
	ok(!is_kept(), "a storage with cleared words is not kept");
	atomic_store(&map.held[slot * 16 + 15], lease_word(INDEX, GENERATION));
	ok(is_kept(), "the last of its words counts");
	is_int(0, ring_publish(&ring, slot, &note), "it is published");
	ok(is_kept(), "the words of a published slot count");
	is_int(1, ring_receive(&ring, &item), "it is being read");
	ok(is_kept(), "the words of a slot that is being read count");
	ring_reap(&ring, ring.me);
	ok(is_kept(), "who read it is dead, and it counts");
	ring.me = RING_PARTICIPANTS;
	if (ring_join(&ring, RING_CONSUMER, 1) < 0 ||
		ring_receive(&ring, &item) != 1)
		bail("%s", tarn_fail_message());
	is_int(0, ring_release(&ring, &item), "the next reader is done");
	ok(!is_kept(), "now nothing is kept");
	ok(!channel_is_closed(&map), "it is open");
	ring_close(&ring);
	ok(channel_is_closed(&map), "the map reads the state closed");
	munmap(at, size);
}

int main(void)
{
	test_sizes();
	test_places();
	test_heads();
	test_search();
	return done(73);
}
