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
 * the client reads FREEING (or later) at A3 and does not use the bytes, or the
 * server finds the lease at F3 and does not free. The same holds for a release
 * (clear the slot, fence, read the word): when the word is UNNAMED or FREEING
 * the client notifies the server, which otherwise might have scanned before
 * the slot was cleared and would never scan again.
 *
 * A batch. The server does F1 for any number of storages, F2 once, and F3 once
 * for all of them. The argument is about one storage and one slot at a time:
 * each storage's F1 comes before the fence, each slot's read after it, and what
 * else is stored before or read after does not matter.
 *
 * Moving. F3 is not atomic: a lease that moved from a slot that is still to be
 * read to one that was read already would be missed. So no lease is moved. A
 * holder that hands a reference on, to another slot, page or process, keeps its
 * own lease until the new one was acquired as above, A1 to A3. If the new slot
 * was read before A1, then FREEING was stored before that, A3 sees it, and the
 * new acquire waits; the old lease, which stands all the while, is found.
 *
 * The end. When the server ends a connection, its leases end too, and the
 * server does not scan the page any more; the client may not know yet. So (C)
 * the server stores closed before it stops scanning, and after A3 the client
 * reads it (A4): if it is set the lease is void, and the client does not use
 * it. If A4 still reads 0 the lease existed before the end, and ended with the
 * others. A closed page stays closed: a server that gets such a connection from
 * the keeper ends it, too.
 *
 * Notifications. A release must neither wait nor fail, and the socket that
 * carries the notification can be full. Then the client (R1) stores notified,
 * and (R2) tries the socket once more. If it is full at R2, it holds a message
 * that the server has not read; if it is not, the client sends one there. The
 * server loads notified after each message (R3), and if it was set examines
 * all storages without a name. The client stores and then looks for room, the
 * server makes room and then loads; both fence in between, so at least one
 * sees the other: either the client finds room, or the server finds notified
 * set. So one word stands for any number of releases, and none is lost. The
 * slot was cleared before R1, so the scan (F1 to F3) finds it empty.
 *
 * Notes. Only the clients know which loaded file was used least recently, since
 * neither an acquire nor a release is a message. So a client that releases a
 * lease notes the time in the last part of the page. That is only a hint: it is
 * not ordered with anything, one note replaces another, and a wrong note makes
 * the server evict one file before another.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/page.h"
#include "shm/table.h"

#define LEASE_MAGIC 0x657361656c6e7274ull /* "trnlease" */
#define LEASE_VERSION 1
/* 1 MiB of address space; pages are touched as slots are used. */
#define LEASE_SIZE (1u << 20)
#define LEASE_SLOTS ((LEASE_SIZE - 64) / 8)

/* The last releases, by index modulo their number: 64 KiB, enough for nearly
 * all releases between two evictions. */
#define LEASE_NOTES 4096u
#define LEASE_NOTES_PART 256u /* a page */
#define LEASE_SLOTS_USED (LEASE_SLOTS - LEASE_NOTES * 2)

struct lease_note {
	_Atomic uint64_t word; /* lease_word() */
	_Atomic uint64_t at;   /* CLOCK_MONOTONIC, ns, exact to some ms */
};

struct lease_page {
	uint64_t magic;
	uint32_t version;
	/* Bit i: there is a note in the i-th part of the notes. Parts without
	 * the bit are not read, and take no memory. Written by the client; a
	 * client that writes no notes leaves it 0. */
	_Atomic uint32_t noted;
	/* Slots in use lie below this. The client writes it before the slot;
	 * the server trusts it only up to LEASE_SLOTS. */
	_Atomic uint32_t used;
	/* Written by the server: it does not scan this page any more. A server
	 * that does not support this leaves it 0. */
	_Atomic uint32_t closed;
	/* Written by the client, cleared by the server: there was a release
	 * that no message reported. See "Notifications". */
	_Atomic uint32_t notified;
	uint32_t pad2;
	uint64_t pad3[4];
	union {
		/* A client that writes no notes may use all slots. */
		_Atomic uint64_t slots[LEASE_SLOTS];
		struct {
			uint64_t pad4[LEASE_SLOTS_USED];
			struct lease_note notes[LEASE_NOTES];
		};
	};
};

static_assert(sizeof(struct lease_page) == LEASE_SIZE, "whole pages");
static_assert(offsetof(struct lease_page, notes) ==
		      LEASE_SIZE - LEASE_NOTES * sizeof(struct lease_note),
	"the last part");
static_assert(LEASE_NOTES_PART * sizeof(struct lease_note) == PAGE, "a page");
static_assert(LEASE_NOTES / LEASE_NOTES_PART <= 32, "a bit for each");

/* Of a connection's pages, in the order in which it got them, the one whose
 * notified and closed count. Client and server must use the same one:
 * notify.pml. */
#define LEASE_PAGE_FIRST 0u

static inline uint64_t lease_word(uint32_t index, uint64_t generation)
{
	return generation << TABLE_INDEX_BITS | index;
}

/* Makes a memfd of LEASE_SIZE, initialised and sealed against resizing. */
int lease_create(int *ret_fd);
/* Maps a lease memfd read-write after checking its size and seals. */
int lease_map(int fd, struct lease_page **ret);
struct lease_page *lease_unmap(struct lease_page *page);

/*
 * The client's side; the caller serialises calls on one page, and knows which
 * of its slots are empty. acquire: 0: this slot holds the storage. -ESTALE: it
 * has another generation, or is free; -EBUSY: the server is about to free it or
 * finds it still held, try again; -ENOTCONN: the page is closed; the slot is
 * empty then.
 */
int lease_acquire(struct lease_page *page, const struct table *table,
	uint32_t index, uint64_t generation, uint32_t slot);
/* True: the client must notify the server (no other will). */
bool lease_release(
	struct lease_page *page, const struct table *table, uint32_t slot);

/* For the server: closes this page, for good. It does not scan a closed one. */
void lease_close(struct lease_page *page);
/* True: leases in this page are void. */
bool lease_is_closed(const struct lease_page *page);

/* For the client (R1): asks the server to examine all storages without a name,
 * once it has read the messages in the socket. */
void lease_notify(struct lease_page *page);
/* For the server, after each message (R3): is it to examine them? Clears the
 * word. */
bool lease_was_notified(struct lease_page *page);

/* After a release and a fence: must the client notify the server? index is
 * below TABLE_STORAGES_MAX. */
bool lease_is_awaited(
	const struct table *table, uint32_t index, uint64_t generation);

/* Notes that the lease in this slot is about to be released. */
void lease_note(struct lease_page *page, uint32_t slot);
/* For the server: when the client last released a lease on that storage, by its
 * own account. CLOCK_MONOTONIC, ns; 0: there is no note. */
uint64_t lease_noted(
	const struct lease_page *page, uint32_t index, uint64_t generation);
/* Calls fn for each note of the client. No index occurs twice; otherwise the
 * values are whatever the client wrote. */
void lease_each_note(const struct lease_page *page,
	void (*fn)(void *arg, uint64_t word, uint64_t at), void *arg);

/* Was no slot of it ever in use, by the client's account? */
bool lease_is_unused(const struct lease_page *page);
/* How many slots are in use. */
uint32_t lease_count(const struct lease_page *page);

/*
 * For the server: a batch of storages to search for, so that one pass over all
 * pages is enough for any number of them. One thread.
 */
struct lease_wanted {
	uint64_t word;   /* 0: empty */
	uint32_t sought; /* uid whose lease counts before all others' */
	uint32_t holder; /* uid whose lease was found; TABLE_NOBODY: none */
};

struct lease_batch {
	uint32_t whose; /* uid of the next page; the caller sets it */
	uint32_t n;
	uint32_t capacity; /* a power of two; more than n */
	uint64_t secret;   /* of the hash; odd */
	struct lease_wanted *wanted;
};

int lease_batch_init(struct lease_batch *batch);
void lease_batch_done(struct lease_batch *batch);
/* False: the batch is full, and there is no memory for a larger one: search for
 * its content first. */
bool lease_batch_add(
	struct lease_batch *batch, uint32_t index, uint64_t generation);
/* For a storage that was added: if that user has a lease on it, it is reported
 * as the holder. */
void lease_batch_seek(struct lease_batch *batch, uint32_t index,
	uint64_t generation, uint32_t uid);
/* Notes which of them are leased in this page. Call it after the stores (F1)
 * for all of them; it contains the fence (F2). */
void lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
/* The same for words that lie elsewhere; the fence is the caller's. */
void lease_batch_look(
	struct lease_batch *batch, const _Atomic uint64_t *words, uint32_t n);
/* Discards a lease that was found in a place where it does not count. */
void lease_batch_miss(
	struct lease_batch *batch, uint32_t index, uint64_t generation);
/* Was a lease on it found since it was added? */
bool lease_batch_found(
	const struct lease_batch *batch, uint32_t index, uint64_t generation);
/* The user whose lease was found: the one that was sought, or else the first.
 * TABLE_NOBODY: none was found. */
uint32_t lease_batch_holder(
	const struct lease_batch *batch, uint32_t index, uint64_t generation);
void lease_batch_clear(struct lease_batch *batch);
