/* SPDX-License-Identifier: MIT */
/* What the files of the lease book share. The caller has the book's lock. */
#pragma once

#include "lib/store/lease_book.h"

/* The entry with word, or the empty entry where it would go. */
struct lease_entry *lease_book_find(
	const struct lease_book *book, uint64_t word);
/* Later entries of the run move back. */
void lease_book_erase(struct lease_book *book, struct lease_entry *entry);
/* True: it was the last one, and the daemon must be notified. */
bool lease_book_drop_hold(struct lease_book *book, const struct table *table,
	struct lease_entry *entry);

/* ---- lease_pins.c ------------------------------------------------------ */

/* Does this process hold it itself? Otherwise only children without leases of
 * their own read by it. */
bool lease_is_held_here(const struct lease_entry *entry);
void lease_pins_free(struct lease_book *book);
/* In a child: what its parent holds for others it does not. */
void lease_pins_forget(struct lease_book *book);
