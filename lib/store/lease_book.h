/* SPDX-License-Identifier: MIT */
/*
 * Which leases this process holds, and how often.
 *
 * The daemon sees one lease for each storage, however many storage objects and
 * tensors of this process use it; the book counts them. It also remembers the
 * storage object itself, weakly, so that two look-ups of one name share it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarn/tensor.h>

#include "lib/store/lease_pins.h"
#include "lib/store/lease_slots.h"

struct lease_entry {
	uint64_t word;         /* lease_word(index, generation); 0: empty */
	uint32_t slot;         /* index of the slot in the pages */
	uint32_t count;        /* holders in this process, and pins */
	tarn_storage *storage; /* borrowed: alive, being made, or being
			        * released */
	uint32_t guards;       /* storage objects with a twin: see guard.c */
	uint32_t pins;         /* children that read by this lease */
};

struct lease_book {
	pthread_mutex_t lock;
	struct lease_slots slots;
	uint32_t n_used;   /* entries */
	uint32_t capacity; /* of entries; a power of two */
	struct lease_entry *entries;
	struct lease_pin *_Atomic pins;
};

/* Takes the page, also on failure. */
int lease_book_init(struct lease_book *book, struct lease_page *page);
void lease_book_done(struct lease_book *book);

/* Adds a page, which it takes, also on failure. -ENOSPC: it has the maximum. */
int lease_book_add_page(struct lease_book *book, struct lease_page *page);
/* Does the next storage need another page? */
bool lease_book_is_full(struct lease_book *book);

/*
 * Adds a hold on a storage. If the book knows a live storage object of it,
 * *ret_storage is a reference to that and nothing is counted; otherwise it is
 * NULL and the count rises. -ESTALE: it is gone; -EBUSY: the daemon has been
 * looking for holders of it for too long; -ENOSPC: all pages are full;
 * -ECONNRESET: the daemon has ended their connection.
 */
int lease_book_hold(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, tarn_storage **ret_storage);

/*
 * The same for a caller that needs an object of the storage. 1: *ret is a
 * reference to a live one; 0: there is none, a hold was counted, and *ret is
 * the object that make() returned, which the book remembers already. It has no
 * reference, so no other thread finds it, until the caller has completed it and
 * calls lease_book_finish; or the caller drops the hold, and frees it (free()).
 * make may be NULL, then *ret is. -ENOMEM: it returned NULL.
 */
int lease_book_open(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, tarn_storage *(*make)(void),
	tarn_storage **ret);
/* The object is complete, and the caller gets its first reference. */
void lease_book_finish(tarn_storage *storage);

/* Makes storage the object that later holds find. */
void lease_book_remember(struct lease_book *book, uint32_t index,
	uint64_t generation, tarn_storage *storage);

/*
 * The twins of all objects of a storage in a pool are at the same place, and
 * two objects overlap for a moment when one is released while another is looked
 * up. So they are counted with the lease, and the last to be released calls
 * reset(arg) with the lock held.
 */
void lease_book_guard(
	struct lease_book *book, uint32_t index, uint64_t generation);
void lease_book_unguard(struct lease_book *book, uint32_t index,
	uint64_t generation, void (*reset)(void *arg), void *arg);

/* Drops a hold; storage, if it was remembered, is forgotten. True: it was the
 * last and the daemon must be notified. */
bool lease_book_drop(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, const tarn_storage *storage);

/* Asks the daemon to examine all storages without a name: lease_notify(). */
void lease_book_notify(struct lease_book *book);

/*
 * Forks, with the book's lock held. copy takes a lease in slots for each one in
 * the book that this process holds itself, and returns the new slots by entry;
 * when slots is full, more(arg) adds another page to it. -EBUSY as above.
 */
int lease_book_copy(const struct lease_book *book, const struct table *table,
	struct lease_slots *slots, int (*more)(void *arg), void *arg,
	uint32_t **ret_slots);
/* In a parent whose child has no leases: those in the book stay in their slots,
 * whatever is dropped, until pin, which the book takes, is over. NULL: until
 * their connection ends. */
void lease_book_leave(struct lease_book *book, struct lease_pin *pin);
/* Drops what the pins hold that are over; takes the lock itself. True: the
 * daemon must be notified, for more than one storage. */
bool lease_book_unpin(struct lease_book *book, const struct table *table);
/* In the child: the book's leases are those in slots, which it takes; by_entry
 * is the result of copy, NULL: it has no leases of its own. The parent's pages
 * are unmapped and left as they are, and its pins are the parent's alone. */
void lease_book_turn(struct lease_book *book, const struct lease_slots *slots,
	const uint32_t *by_entry);
