/* SPDX-License-Identifier: MIT */
/*
 * Where in its pages a process writes its leases. The caller serialises.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/lease.h"

#define LEASE_PAGES_MAX 64u /* the most that a daemon gives: 8 million slots */

/* A slot of any of the pages: the number of the page above, the slot's own
 * below. */
#define LEASE_SLOT_BITS 17
static_assert(LEASE_SLOTS <= 1u << LEASE_SLOT_BITS, "they fit");

/* No slot of this book: a parent's, or one that stays as it is for a child. */
#define LEASE_SLOT_NONE UINT32_MAX

struct lease_slots {
	uint32_t n_pages;
	uint32_t page_slots; /* slots of each page that are used, at most */
	uint32_t n_fresh;    /* of the last page: never used so far */
	struct lease_page *pages[LEASE_PAGES_MAX]; /* owned */
	uint32_t n_empty, empty_capacity;
	uint32_t *empty; /* used before, empty now */
};

/* Takes the page. */
void lease_slots_init(struct lease_slots *slots, struct lease_page *page);
void lease_slots_done(struct lease_slots *slots);

/* Adds a page, which it takes, also on failure. -ENOSPC: it has the maximum. */
int lease_slots_add(struct lease_slots *slots, struct lease_page *page);
bool lease_slots_full(const struct lease_slots *slots);
/* Has the daemon ended the connection of these pages? */
bool lease_slots_closed(const struct lease_slots *slots);

/* Takes a slot, and with it a lease, as lease_acquire does. -ENOSPC: all are
 * in use; -ENOMEM. */
int lease_slots_take(struct lease_slots *slots, const struct table *table,
	uint32_t index, uint64_t generation, uint32_t *ret_slot);
/* Releases the lease on storage index in that slot. True: the server must be
 * notified, as in lease_release. */
bool lease_slots_give(struct lease_slots *slots, const struct table *table,
	uint32_t slot, uint32_t index);
