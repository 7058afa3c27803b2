/* SPDX-License-Identifier: MIT */
/*
 * Which leases this process holds, and how often.
 *
 * The daemon sees one lease a storage, however many storages and tensors of
 * this process stand on it; the book counts them. It also remembers the
 * storage object itself, weakly, so that two look-ups of one name share it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarn/tensor.h>

#include "lib/store/lease_slots.h"

struct lease_entry {
	uint64_t word;	       /* lease_word(index, generation); 0: empty */
	uint32_t slot;	       /* of the pages */
	uint32_t count;	       /* holders in this process */
	tarn_storage *storage; /* borrowed: alive, being made or released */
};

struct lease_book {
	pthread_mutex_t lock;
	struct lease_slots slots;
	uint32_t n_used;   /* entries */
	uint32_t capacity; /* of entries; a power of two */
	struct lease_entry *entries;
};

/* Takes the page, also when it fails. */
int lease_book_init(struct lease_book *book, struct lease_page *page);
void lease_book_done(struct lease_book *book);

/* One page more, which it takes, also when it fails. -ENOSPC: it has as many as can be. */
int lease_book_add_page(struct lease_book *book, struct lease_page *page);
/* Does the next storage need another page? */
bool lease_book_is_full(struct lease_book *book);

/*
 * One more hold on a storage. If the book knows a storage object of it that
 * lives, *ret_storage is a reference to that and nothing was counted; else it
 * is NULL and the count went up. -ESTALE: it is gone; -EBUSY: the daemon has
 * been looking for holders of it for too long; -ENOSPC: all pages are full;
 * -ECONNRESET: the daemon has ended the connection that they are of.
 */
int lease_book_hold(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, tarn_storage **ret_storage);

/*
 * The same for who needs an object of the storage. 1: *ret is a reference to
 * one that lives; 0: there is none, a hold was counted, and *ret is what make()
 * gave, remembered already: it has no reference, so that nobody finds it, until
 * the caller has finished it and says so; or it is dropped, and freed (free()).
 * make may be NULL, then *ret is. -ENOMEM: it gave NULL.
 */
int lease_book_open(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, tarn_storage *(*make)(void),
	tarn_storage **ret);
/* It is whole, and the caller's is its first reference. */
void lease_book_finish(tarn_storage *storage);

/* Makes storage the one that later holds find. */
void lease_book_remember(struct lease_book *book, uint32_t index,
	uint64_t generation, tarn_storage *storage);

/* One hold less; storage, if it was remembered, is forgotten. True: it was the
 * last and the daemon must be told. */
bool lease_book_drop(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, const tarn_storage *storage);

/*
 * Forks, with the book's lock held. copy takes a lease in slots for each that
 * the book has, and gives the new slots by entry; one more page is asked of
 * more(arg), which adds it to slots, when they are full. -EBUSY as above.
 */
int lease_book_copy(const struct lease_book *book, const struct table *table,
	struct lease_slots *slots, int (*more)(void *arg), void *arg,
	uint32_t **ret_slots);
/* In the child: the book's leases are those in slots, which it takes; by_entry
 * is what copy gave, NULL: it has none of its own. The parent's pages are
 * unmapped and left as they are. */
void lease_book_turn(struct lease_book *book, const struct lease_slots *slots,
	const uint32_t *by_entry);
