/* SPDX-License-Identifier: MIT */
/*
 * A channel's memory: one memfd, published like a mutable storage, that all
 * participants and the server map read-write.
 *
 *	0	struct channel_head, a page
 *	4096	the ring (ring.h), to whole pages
 *	held	slots x tensors words: lease_word() of a storage of the pool
 *		that the item in that slot keeps, or 0; to whole pages
 *	records	slots x tensors descriptors: what a tensor of an item is
 *	bytes	slots x slot_bytes, at a multiple of 2 MiB
 *
 * All offsets follow from the head's few numbers, which are copied and checked
 * once: each process that maps it may write anything anywhere at any time.
 *
 * A record whose storage is CHANNEL_IN_SLOT (and whose generation is 0) lies in
 * the item's slot, base counts from the slot's first byte. Only as many sizes
 * and strides are written as it has dimensions. With the flag CHANNEL_RECORD_C,
 * which means C order with offset 0, no strides are written. Any other record
 * is of a storage of the pool, and the held word of the same number keeps that
 * storage.
 *
 * Held words are leases (lease.h) that belong to an item, not to a connection:
 * the server's scan finds those of slots that are not FREE. So they stand as
 * long as the item does, whichever process dies. They keep no channels.
 *
 * The ordering argument of lease.h holds for them. To hand a storage over to an
 * item, the producer that fills the slot (P1) stores its held word, (P2)
 * fences, (P3) reads the storage's word; as long as that word is FREEING the
 * producer waits, and keeps its own lease meanwhile. The slot became FILLING,
 * by a compare-and-swap, before P1. The scan comes after FREEING (F1) and a
 * fence (F2); it reads the slot's word, then the held word. If it read the slot
 * as FREE, or the held word as it was before P1, then P3 sees F1: the producer
 * waits with its own lease, which the scan finds or which was there throughout.
 * Otherwise the scan has found the held word. To take a storage over from an
 * item, its consumer acquires its own lease (A1 to A3) while it owns the slot;
 * only then does it give the slot back. If the scan missed that lease, it read
 * that slot of the consumer's page before A1, and A3 sees FREEING: the consumer
 * waits, and the scan finds the item.
 *
 * Held words of an earlier item are still in the slot when it is filled anew,
 * and count from then on. So a producer that acquires a slot clears the held
 * words that it finds. As after any release it then fences, reads the
 * storage's word, and notifies the server if that word is UNNAMED or FREEING,
 * or of another generation. A producer that abandons a slot, or whose
 * publication fails, does the same if it has no lease of its own any more.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarn/descriptor.h>

#include "shm/ring.h"

#define CHANNEL_MAGIC 0x6e6168636e726174ull /* "tarnchan" */
#define CHANNEL_VERSION 1u
#define CHANNEL_PAGE 4096ull
#define CHANNEL_BYTES_ALIGN (2ull << 20) /* of a huge page */

#define CHANNEL_TENSORS_MAX 1024u
/* Slots times tensors: a scan for leases reads 8 MiB of a channel at most. */
#define CHANNEL_RECORDS_MAX (1u << 20)
/* In a record: the bytes lie in the slot. No storage has that index. */
#define CHANNEL_IN_SLOT UINT32_MAX
#define CHANNEL_RECORD_C 1u

/* ring_note.tensors: how many, and a flag: some of them are not in the slot. */
#define CHANNEL_NOTE_TENSORS 0xffffu
#define CHANNEL_NOTE_HOLDS (1u << 31)

/* The channel's names are removed when the last participant has left or
 * died. */
#define CHANNEL_EPHEMERAL 1u

struct lease_batch;
struct ring_slot;

/* Written by channel_init alone. */
struct channel_head {
	uint64_t magic;
	uint32_t version;
	uint32_t flags; /* CHANNEL_* */
	uint32_t mode;  /* enum ring_mode */
	uint32_t slots;
	uint64_t slot_bytes;
	uint32_t tensors; /* of one item at most */
	uint32_t pad;     /* 0 */
	char rest[CHANNEL_PAGE - 40];
};
static_assert(sizeof(struct channel_head) == CHANNEL_PAGE, "a page");

struct channel_geometry {
	struct ring_geometry ring; /* slot_bytes: whole pages */
	uint32_t tensors;
	uint32_t flags;
};

/* A mapped channel. The struct is in private memory, so that no peer can change
 * it. */
struct channel_map {
	void *memory;
	uint64_t size;
	struct channel_geometry geometry;
	void *ring; /* for ring_attach */
	size_t ring_size;
	_Atomic uint64_t *held;          /* slot * tensors + i */
	struct tarn_descriptor *records; /* the same */
	unsigned char *bytes;            /* slot * slot_bytes */
	const struct ring_slot *slots;
	uint64_t words_size; /* of everything before the records */
};

/* The size of its memfd in bytes, whole pages. -EINVAL: no such channel. */
int channel_size(const struct channel_geometry *geometry, uint64_t *ret);
/* Makes a channel in zeroed memory of that size, before any other process sees
 * it. */
int channel_init(
	void *memory, uint64_t size, const struct channel_geometry *geometry);
/* Checks memory that another process made, and copies its geometry. The memory
 * stays the caller's and must outlive the map. -EPROTO. */
int channel_attach(struct channel_map *map, void *memory, uint64_t size);
/* Is the channel closed, so that nothing will be published any more? */
bool channel_is_closed(const struct channel_map *map);

/* Does that slot, which the caller has just published, belong to another
 * participant already? */
bool channel_went_by(const struct channel_map *map, uint32_t slot);

/* For the server: notes which of the wanted storages an item keeps. Call it
 * after the stores (F1) for all of them; it contains the fence (F2). */
void channel_search(const struct channel_map *map, struct lease_batch *batch);
