/* SPDX-License-Identifier: MIT */
/*
 * Leases: references that cost no message and survive kill -9.
 *
 * Each connection has one lease memfd, sealed against resizing, mapped by the
 * client and the server alone. A slot is one word: index in the low 26 bits,
 * generation in the high 38; 0 is empty (generation 0 is never used).
 *
 * The ordering argument. A client acquires by (A1) storing the word into a
 * free slot, (A2) a full fence, (A3) reading the storage's word in the table.
 * The server frees by (F1) storing FREEING into the storage's word, (F2) a
 * full fence, (F3) reading every lease slot. Both sides store, fence, then
 * read what the other stores, so at least one of them sees the other: either
 * the client reads FREEING (or later) at A3 and does not use the bytes, or
 * the server finds the lease at F3 and does not free. The same holds for a
 * release (clear the slot, fence, read the word): when the word says UNNAMED
 * or FREEING the releaser rings the server, which otherwise might have
 * scanned before the slot was cleared and would never look again.
 *
 * A batch. The server does F1 for any number of storages, F2 once, and F3 once
 * for all of them. The argument is about one storage and one slot at a time:
 * each storage's F1 comes before the fence, each slot's read after it, and
 * what else is stored before or read after does not matter.
 *
 * Moving. F3 is not atomic: a lease that moved from a slot that is still to be
 * read to one that was read already would be missed. So nobody moves one. Who
 * hands a reference on, to another slot, page or process, keeps his own until
 * the new one was acquired as above, A1 to A3. If the new slot was read before
 * A1, then FREEING was stored before that, A3 sees it, and the new acquire
 * waits; the old lease, which stands all the while, is found.
 *
 * The end. A connection that the server ends takes its leases with it, and the
 * page is looked at no more; its client may not know yet. So (C) the server
 * stores closed before it stops looking, and after A3 the client reads it (A4):
 * where it is set the lease counts for nothing, and is not used. If A4 still
 * reads 0 the lease was there before the end, and went with it as the others.
 *
 * Notes. Which loaded file was used least recently is known to those alone who
 * used them, since neither taking nor giving back a lease is a message. So who
 * gives one back notes when, in the last part of the page. That is a hint and
 * no more: it is not ordered with anything, one note takes the place of
 * another, and what is wrong in it makes some file go before some other.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/table.h"

#define LEASE_MAGIC 0x657361656c6e7274ull /* "trnlease" */
#define LEASE_VERSION 1
/* 1 MiB of address space; pages are touched as slots are used. */
#define LEASE_SIZE (1u << 20)
#define LEASE_SLOTS ((LEASE_SIZE - 64) / 8)

/* What was given back last, by index modulo their number: 64 KiB, more than
 * anybody lets go of between two evictions, or nearly. */
#define LEASE_NOTES 4096u
#define LEASE_NOTES_PART 256u /* a page */
#define LEASE_SLOTS_USED (LEASE_SLOTS - LEASE_NOTES * 2)

struct lease_note {
	_Atomic uint64_t word; /* lease_word() */
	_Atomic uint64_t at;   /* CLOCK_MONOTONIC, ns, some ms exact */
};

struct lease_page {
	uint64_t magic;
	uint32_t version;
	/* Bit i: something was noted in the i-th part of the notes; without it
	 * they are not looked at, and take no memory. Written by the client;
	 * 0 of one that knows of no notes. */
	_Atomic uint32_t noted;
	/* Slots in use lie below this; written by the client before the slot,
	 * believed by the server only up to LEASE_SLOTS. */
	_Atomic uint32_t used;
	/* Written by the server: nobody looks at this any more. One that knows
	 * of no such thing leaves it 0. */
	_Atomic uint32_t closed;
	uint64_t pad2[5];
	union {
		/* Of one that knows of no notes all may be in use. */
		_Atomic uint64_t slots[LEASE_SLOTS];
		struct {
			uint64_t pad3[LEASE_SLOTS_USED];
			struct lease_note notes[LEASE_NOTES];
		};
	};
};

static_assert(sizeof(struct lease_page) == LEASE_SIZE, "whole pages");
static_assert(offsetof(struct lease_page, notes) ==
		      LEASE_SIZE - LEASE_NOTES * sizeof(struct lease_note),
	"the last part");
static_assert(LEASE_NOTES_PART * sizeof(struct lease_note) == 4096, "a page");
static_assert(LEASE_NOTES / LEASE_NOTES_PART <= 32, "a bit for each");

static inline uint64_t lease_word(uint32_t index, uint64_t generation)
{
	return generation << TABLE_INDEX_BITS | index;
}

/* A memfd of LEASE_SIZE, initialised and sealed against resizing. */
int lease_create(int *ret_fd);
/* Maps one read-write after checking size and seals. */
int lease_map(int fd, struct lease_page **ret);
struct lease_page *lease_unmap(struct lease_page *page);

/*
 * The client's side; the caller serialises calls on one page, and knows which
 * of its slots are empty. acquire: 0: the storage is held by this slot.
 * -ESTALE: it has another generation, or is free; -EBUSY: the server is about
 * to free it or finds it still held, try again; -ENOTCONN: the page is closed;
 * the slot is empty then.
 */
int lease_acquire(struct lease_page *page, const struct table *table,
	uint32_t index, uint64_t generation, uint32_t slot);
/* True: the server must be told (nobody else will tell it). */
bool lease_release(struct lease_page *page, const struct table *table,
	uint32_t slot);

/* By the server: does it look at this page? */
void lease_close(struct lease_page *page, bool closed);
/* Leases in it count for nothing. */
bool lease_is_closed(const struct lease_page *page);

/* After a release and a fence: must the server be told? index is below
 * TABLE_STORAGES_MAX. */
bool lease_is_awaited(
	const struct table *table, uint32_t index, uint64_t generation);

/* Notes that the lease in this slot is about to be given back. */
void lease_note(struct lease_page *page, uint32_t slot);
/* The server's: when was one on that storage given back, as the client says?
 * CLOCK_MONOTONIC, ns; 0: it says nothing. */
uint64_t lease_noted(
	const struct lease_page *page, uint32_t index, uint64_t generation);
/* Calls fn for all that the client has noted: no index twice, but for the rest
 * whatever it likes to say. */
void lease_each_note(const struct lease_page *page,
	void (*fn)(void *arg, uint64_t word, uint64_t at), void *arg);

/* Was no slot of it ever in use, as the client says? */
bool lease_is_unused(const struct lease_page *page);
/* How many slots are in use. */
uint32_t lease_count(const struct lease_page *page);

/*
 * The server's side: a batch of storages to look for, so that one pass over
 * all pages is enough for any number of them. One thread.
 */
struct lease_wanted {
	uint64_t word;	 /* 0: empty */
	uint32_t sought; /* whose lease counts before all others' */
	uint32_t holder; /* whose was found; TABLE_NOBODY: none */
};

struct lease_batch {
	uint32_t whose; /* uid: what is looked at next; the caller's to set */
	uint32_t n;
	uint32_t capacity; /* a power of two; more than n */
	struct lease_wanted *wanted;
};

int lease_batch_init(struct lease_batch *batch);
void lease_batch_done(struct lease_batch *batch);
/* False: it is full, and there is no memory for a larger one: look for what
 * is in it first. */
bool lease_batch_add(struct lease_batch *batch, uint32_t index,
	uint64_t generation);
/* One that was added: if that user is one of its holders, he is its holder. */
void lease_batch_seek(struct lease_batch *batch, uint32_t index,
	uint64_t generation, uint32_t uid);
/* Notes which of them are leased in this page. After the stores (F1) for all
 * of them; the fence (F2) is in here. */
void lease_batch_search(struct lease_batch *batch,
	const struct lease_page *page);
/* The same for words that lie elsewhere; the fence is the caller's. */
void lease_batch_look(struct lease_batch *batch, const _Atomic uint64_t *words,
	uint32_t n);
/* It was found where it does not count. */
void lease_batch_miss(struct lease_batch *batch, uint32_t index,
	uint64_t generation);
/* Was it found in a page since it was added? */
bool lease_batch_found(const struct lease_batch *batch, uint32_t index,
	uint64_t generation);
/* Whose lease was: of the user that was sought, or else of the first one that
 * was found. TABLE_NOBODY: nobody's. */
uint32_t lease_batch_holder(const struct lease_batch *batch, uint32_t index,
	uint64_t generation);
void lease_batch_clear(struct lease_batch *batch);
