/* SPDX-License-Identifier: MIT */
/*
 * Slots of lease pages: the most recently released first, then fresh ones.
 *
 * It is a stack. The slot released last is in the cache still, and as few pages
 * as possible are touched. The stack has room for every slot that was ever used
 * before a slot is taken, so a release cannot fail.
 */
#include "lib/store/lease_slots.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

#define FIRST_CAPACITY 64u

void lease_slots_init(struct lease_slots *slots, struct lease_page *page)
{
	*slots = (struct lease_slots) {
		.n_pages = 1,
		.page_slots = LEASE_SLOTS_USED,
		.n_fresh = LEASE_SLOTS_USED,
		.pages = {page},
	};
}

void lease_slots_done(struct lease_slots *slots)
{
	for (uint32_t i = 0; i < slots->n_pages; i++)
		lease_unmap(slots->pages[i]);
	free(slots->empty);
	*slots = (struct lease_slots) {0};
}

int lease_slots_add(struct lease_slots *slots, struct lease_page *page)
{
	if (slots->n_pages == LEASE_PAGES_MAX) {
		lease_unmap(page);
		return tarn_fail(ENOSPC,
			"leases: this connection has %u pages of them, which "
			"is the limit",
			LEASE_PAGES_MAX);
	}
	/* The rest of the last page is not lost. */
	slots->pages[slots->n_pages++] = page;
	slots->n_fresh = slots->page_slots;
	return 0;
}

bool lease_slots_full(const struct lease_slots *slots)
{
	return slots->n_empty == 0 && slots->n_fresh == 0;
}

bool lease_slots_closed(const struct lease_slots *slots)
{
	/* The first page is closed before the others. */
	return slots->n_pages &&
	       lease_is_closed(slots->pages[LEASE_PAGE_FIRST]);
}

/* Makes room on the stack for all slots used so far, and one more. */
static int reserve(struct lease_slots *slots)
{
	uint32_t used = slots->n_pages * slots->page_slots - slots->n_fresh;
	uint32_t capacity = MAX(slots->empty_capacity * 2, FIRST_CAPACITY);
	uint32_t *empty;

	if (used < slots->empty_capacity)
		return 0;
	empty = reallocarray(slots->empty, capacity, sizeof(*empty));
	if (!empty)
		return tarn_fail(
			ENOMEM, "leases: no memory for %u slots", capacity);
	slots->empty = empty;
	slots->empty_capacity = capacity;
	return 0;
}

static int pick(struct lease_slots *slots, uint32_t *ret)
{
	int r;

	if (slots->n_empty) {
		*ret = slots->empty[--slots->n_empty];
		return 0;
	}
	if (!slots->n_fresh)
		return tarn_fail(ENOSPC,
			"leases: all %u slots of this connection are in use",
			slots->n_pages * slots->page_slots);
	r = reserve(slots);
	if (r < 0)
		return r;
	*ret = (slots->n_pages - 1) << LEASE_SLOT_BITS |
	       (slots->page_slots - slots->n_fresh--);
	return 0;
}

static struct lease_page *page_of(
	const struct lease_slots *slots, uint32_t slot)
{
	return slots->pages[slot >> LEASE_SLOT_BITS];
}

static uint32_t in_page(uint32_t slot)
{
	return slot & ((1u << LEASE_SLOT_BITS) - 1);
}

int lease_slots_take(struct lease_slots *slots, const struct table *table,
	uint32_t index, uint64_t generation, uint32_t *ret_slot)
{
	uint32_t slot = 0;
	int r = pick(slots, &slot);

	if (r < 0)
		return r;
	r = lease_acquire(
		page_of(slots, slot), table, index, generation, in_page(slot));
	if (r < 0)
		slots->empty[slots->n_empty++] = slot;
	else
		*ret_slot = slot;
	return r;
}

bool lease_slots_give(struct lease_slots *slots, const struct table *table,
	uint32_t slot, uint32_t index)
{
	struct lease_page *page;

	if (slot == LEASE_SLOT_NONE)
		return false;
	page = page_of(slots, slot);
	slots->empty[slots->n_empty++] = slot;
	/* Created storages are never evicted, so they need no note. The flags
	 * are read while the storage is leased, and do not change. */
	if (!(table->storages[index].flags & STORAGE_CREATED))
		lease_note(page, in_page(slot));
	return lease_release(page, table, in_page(slot));
}
