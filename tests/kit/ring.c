/* SPDX-License-Identifier: MIT */
#include "tests/kit/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "shm/ring_internal.h"
#include "tests/kit/tap.h"

const struct ring_wait kit_ring_forever = {.deadline_ns = UINT64_MAX};

void *kit_ring_memory;
size_t kit_ring_size;

static bool is_shared;

static size_t whole_pages(void)
{
	return (kit_ring_size + 4095) & ~(size_t)4095;
}

static void make(enum ring_mode mode, uint32_t slots, bool shared)
{
	const struct ring_geometry g = {mode, slots, KIT_SLOT_BYTES};

	kit_ring_drop();
	if (ring_size(&g, &kit_ring_size) < 0)
		bail("%s", tarn_fail_message());
	is_shared = shared;
	kit_ring_memory =
		shared ? mmap(NULL, whole_pages(), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0)
		       : aligned_alloc(4096, whole_pages());
	if (!kit_ring_memory || kit_ring_memory == MAP_FAILED)
		bail("no memory");
	memset(kit_ring_memory, 0, kit_ring_size);
	if (ring_init(kit_ring_memory, kit_ring_size, &g) < 0)
		bail("%s", tarn_fail_message());
}

void kit_ring_make(enum ring_mode mode, uint32_t slots)
{
	make(mode, slots, false);
}

void kit_ring_make_shared(enum ring_mode mode, uint32_t slots)
{
	make(mode, slots, true);
}

void kit_ring_drop(void)
{
	if (is_shared && kit_ring_memory)
		munmap(kit_ring_memory, whole_pages());
	else
		free(kit_ring_memory);
	kit_ring_memory = NULL;
}

struct ring kit_ring_attach(void)
{
	struct ring ring;

	if (ring_attach(&ring, kit_ring_memory, kit_ring_size) < 0)
		bail("%s", tarn_fail_message());
	return ring;
}

struct ring kit_ring_join(unsigned int kinds, uint32_t owner)
{
	struct ring ring = kit_ring_attach();

	if (ring_join(&ring, kinds, owner) < 0)
		bail("%s", tarn_fail_message());
	return ring;
}

void kit_ring_let_rest(void)
{
	for (uint32_t i = 0; i < RING_COOLDOWN; i++) {
		struct ring other = kit_ring_join(RING_PRODUCER, 4711);

		ring_leave(&other);
	}
}

uint32_t kit_ring_acquire(struct ring *ring)
{
	uint32_t slot;

	if (ring_acquire(ring, &slot) != 1)
		bail("no slot: %s", tarn_fail_message());
	return slot;
}

struct ring_item kit_ring_receive(struct ring *ring)
{
	struct ring_item item = {0};

	if (ring_receive(ring, &item) != 1)
		bail("no item: %s", tarn_fail_message());
	return item;
}

struct ring_note kit_ring_note(uint32_t number)
{
	struct ring_note note = {.bytes = number % (KIT_SLOT_BYTES + 1),
		.tensors = number,
		.tag_size = number % (RING_TAG_MAX + 1)};

	memset(note.tag, (int)(number & 0xff), note.tag_size);
	return note;
}

bool kit_ring_is_whole(const struct ring_note *note)
{
	const struct ring_note wanted = kit_ring_note(note->tensors);

	return note->bytes == wanted.bytes &&
	       note->tag_size == wanted.tag_size &&
	       memcmp(note->tag, wanted.tag, wanted.tag_size) == 0;
}

int kit_ring_put(struct ring *ring, uint32_t number)
{
	const struct ring_note note = kit_ring_note(number);
	uint32_t slot;
	int r = ring_acquire(ring, &slot);

	return r == 1 ? ring_publish(ring, slot, &note) : r == 0 ? -EAGAIN : r;
}

int kit_ring_get(struct ring *ring)
{
	struct ring_item item;
	int r = ring_receive(ring, &item);

	if (r != 1)
		return r == 0 ? -1 : r;
	if (!kit_ring_is_whole(&item.note) || ring_release(ring, &item) < 0)
		bail("item %u: %s", item.note.tensors, tarn_fail_message());
	return (int)item.note.tensors;
}

void kit_ring_must_put(struct ring *ring, uint32_t number)
{
	if (kit_ring_put(ring, number) < 0)
		bail("put %u: %s", number, tarn_fail_message());
}

void kit_ring_must_get(struct ring *ring, uint32_t number)
{
	int r = kit_ring_get(ring);

	if (r != (int)number)
		bail("item %d, not %u: %s", r, number, tarn_fail_message());
}

struct ring_stat kit_ring_stat(const struct ring *ring)
{
	struct ring_stat stat;

	ring_stat(ring, &stat);
	return stat;
}

uint32_t kit_ring_free(const struct ring *ring)
{
	return kit_ring_stat(ring).free;
}
