/* SPDX-License-Identifier: MIT */
/*
 * The memory of a channel: where its parts lie, that a head with any other
 * value is refused, and that storages are found as long as items keep them,
 * and no longer.
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

	is_int(-error, channel_size(&g, &size), "a geometry is refused: %s",
		what);
	is_int(7, (int64_t)size,
		"a refused geometry leaves the size as it was");
}

static void test_sizes(void)
{
	struct channel_geometry g = usual;
	uint64_t size;

	is_int(0, channel_size(&g, &size), "a usual channel has a size");
	is_int((int64_t)(2 * MIB + 8 * MIB), (int64_t)size,
		"the slots' bytes begin at a multiple of 2 MiB");
	g.ring.slots = 65536;
	g.ring.slot_bytes = 1ull << 30;
	is_int(0, channel_size(&g, &size),
		"the largest channel of 16 tensors has a size");
	ok(size > 65536ull << 30 && size % 4096 == 0,
		"the largest channel has 64 TiB and its records");
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

	ok(memcmp(&map.geometry, &g, sizeof(g)) == 0,
		"the map has the channel's geometry");
	is_int(4096, (char *)map.ring - at, "the ring lies behind the head");
	ok(held >= (char *)map.ring + map.ring_size && (held - at) % 4096 == 0,
		"the held words lie in pages behind the ring");
	ok(records >= held + 8 * 16 * 8 && (records - at) % 4096 == 0,
		"the records lie behind the held words");
	is_int(records - at, (int64_t)map.words_size,
		"the memory before the records has only words");
	ok((char *)map.bytes >= records + 8 * 16 * 256 &&
			((char *)map.bytes - at) % (2 * (long)MIB) == 0,
		"the bytes lie behind the records, at a multiple of 2 MiB");
	is_int((int64_t)size, (char *)map.bytes - at + 8 * (long)MIB,
		"the mapping ends behind the slots' bytes");
	is_int(-EINVAL, channel_init(at, size - 4096, &g),
		"no channel is made in a page less");
	munmap(at, size);
}

static void lie(char *at, uint64_t size, size_t offset, const char *what)
{
	struct channel_map other = {.size = 7};
	char was = at[offset];

	at[offset] ^= 2;
	is_int(-EPROTO, channel_attach(&other, at, size),
		"a head is refused for its %s", what);
	is_int(7, (int64_t)other.size, "a refused head leaves nothing mapped");
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
	is_int(-EPROTO, channel_attach(&other, at, size - 4096),
		"a mapping that is a page too short is refused");
	is_int(-EPROTO, channel_attach(&other, at, size + 4096),
		"a mapping that is a page too long is refused");
	is_int(-EPROTO, channel_attach(&other, at, 100),
		"a memory without a head is refused");
	is_int(0, channel_attach(&other, at, size),
		"a valid channel is attached");
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
	ok(!is_kept(), "words of a slot that no one has taken keep nothing");
	is_int(1, ring_acquire(&ring, &slot), "a slot is acquired");
	ok(is_kept(), "the words of a slot that is being filled count");
	for (uint32_t i = 0; i < 16; i++)
		atomic_store(&map.held[slot * 16 + i], 0);
	ok(!is_kept(), "a storage with cleared words is not kept");
	atomic_store(&map.held[slot * 16 + 15], lease_word(INDEX, GENERATION));
	ok(is_kept(), "the last word of a slot counts");
	is_int(0, ring_publish(&ring, slot, &note), "the slot is published");
	ok(is_kept(), "the words of a published slot count");
	is_int(1, ring_receive(&ring, &item), "the published slot is received");
	ok(is_kept(), "the words of a slot that is being read count");
	ring_reap(&ring, ring.me);
	ok(is_kept(), "the words of a slot whose reader died count");
	ring.me = RING_PARTICIPANTS;
	if (ring_join(&ring, RING_CONSUMER, 1) < 0 ||
		ring_receive(&ring, &item) != 1)
		bail("%s", tarn_fail_message());
	is_int(0, ring_release(&ring, &item),
		"the next reader releases the slot");
	ok(!is_kept(), "a released slot keeps nothing");
	ok(!channel_is_closed(&map), "the map reads the state open");
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
