/* SPDX-License-Identifier: MIT */
/*
 * The book of leases: an open-addressed map from lease word to its slot.
 *
 * Index and generation together never name two storages, so the word itself is
 * the key, and an entry lives exactly as long as its lease. Deletion moves
 * later entries of the run back, so no tombstones gather.
 */
#include "lib/store/lease_book_internal.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lib/tensor/storage.h"

#define FIRST_CAPACITY 64u /* a page and a half; doubles from here */

/* The daemon's scan for holders takes milliseconds even with thousands of
 * clients; if it takes longer, the server has died in it and is being
 * replaced. */
#define BUSY_MS 2000
#define BUSY_NAP_US 50
#define BUSY_TRIES                                                             \
	1000 /* a machine that was suspended must not use up the time */

int lease_book_init(struct lease_book *book, struct lease_page *page)
{
	*book = (struct lease_book) {.capacity = FIRST_CAPACITY};
	pthread_mutex_init(&book->lock, NULL);
	lease_slots_init(&book->slots, page);
	book->entries = calloc(book->capacity, sizeof(*book->entries));
	if (!book->entries)
		return tarn_fail(ENOMEM, "leases: out of memory");
	return 0;
}

int lease_book_add_page(struct lease_book *book, struct lease_page *page)
{
	int r;

	pthread_mutex_lock(&book->lock);
	r = lease_slots_add(&book->slots, page);
	pthread_mutex_unlock(&book->lock);
	return r;
}

bool lease_book_is_full(struct lease_book *book)
{
	bool full;

	pthread_mutex_lock(&book->lock);
	full = lease_slots_full(&book->slots);
	pthread_mutex_unlock(&book->lock);
	return full;
}

void lease_book_done(struct lease_book *book)
{
	if (!book->capacity)
		return;
	lease_pins_free(book);
	lease_slots_done(&book->slots);
	free(book->entries);
	pthread_mutex_destroy(&book->lock);
	*book = (struct lease_book) {0};
}

/* Fibonacci hashing: the index sits in the low bits and counts up. */
static uint32_t home(const struct lease_book *book, uint64_t word)
{
	return (uint32_t)((word * 0x9e3779b97f4a7c15ull) >> 32) &
	       (book->capacity - 1);
}

struct lease_entry *lease_book_find(
	const struct lease_book *book, uint64_t word)
{
	uint32_t i = home(book, word);

	while (book->entries[i].word && book->entries[i].word != word)
		i = (i + 1) & (book->capacity - 1);
	return &book->entries[i];
}

/* Makes room for one more, at most three quarters full. */
static int reserve(struct lease_book *book)
{
	struct lease_book bigger = *book;

	if ((book->n_used + 1) * 4ull <= book->capacity * 3ull)
		return 0;
	bigger.capacity *= 2;
	bigger.entries = calloc(bigger.capacity, sizeof(*bigger.entries));
	if (!bigger.entries)
		return tarn_fail(ENOMEM, "leases: no memory for %u entries",
			bigger.capacity);
	for (uint32_t i = 0; i < book->capacity; i++)
		if (book->entries[i].word)
			*lease_book_find(&bigger, book->entries[i].word) =
				book->entries[i];
	free(book->entries);
	book->entries = bigger.entries;
	book->capacity = bigger.capacity;
	return 0;
}

void lease_book_erase(struct lease_book *book, struct lease_entry *entry)
{
	uint32_t mask = book->capacity - 1;
	uint32_t hole = (uint32_t)(entry - book->entries);

	for (uint32_t i = (hole + 1) & mask; book->entries[i].word;
		i = (i + 1) & mask) {
		uint32_t want = home(book, book->entries[i].word);

		/* It may move back unless its home lies after the hole. */
		if (((i - want) & mask) >= ((i - hole) & mask)) {
			book->entries[hole] = book->entries[i];
			hole = i;
		}
	}
	book->entries[hole] = (struct lease_entry) {0};
	book->n_used--;
}

/* Takes a reference to a storage that may be losing its last one just now. With
 * the lock held: a release takes the lock before the object is freed. */
static tarn_storage *try_ref(tarn_storage *storage)
{
	unsigned refs;

	if (!storage)
		return NULL;
	/* Acquire, here and where it is counted: pairs with the release store
	 * in lease_book_finish; until then it has no reference. */
	refs = atomic_load_explicit(&storage->refs, memory_order_acquire);
	while (refs &&
		!atomic_compare_exchange_weak_explicit(&storage->refs, &refs,
			refs + 1, memory_order_acquire, memory_order_acquire))
		;
	return refs ? storage : NULL;
}

/* A request to the book, and its result. */
struct wish {
	uint32_t index;
	uint64_t generation;
	tarn_storage *(*make)(void); /* NULL: no object is needed */
	tarn_storage *known;         /* a reference to one that lives */
	tarn_storage *made;
};

/* This process does not hold it; entry is where it goes. */
static int add(struct lease_book *book, const struct table *table,
	struct lease_entry *entry, struct wish *wish)
{
	uint64_t word = lease_word(wish->index, wish->generation);
	uint32_t slot, capacity = book->capacity;
	int r = reserve(book);

	if (r >= 0)
		r = lease_slots_take(&book->slots, table, wish->index,
			wish->generation, &slot);
	if (r < 0)
		return r;
	if (book->capacity != capacity)
		entry = lease_book_find(book, word);
	*entry = (struct lease_entry) {
		.word = word, .slot = slot, .count = 1, .storage = wish->made};
	book->n_used++;
	return 0;
}

static int hold_once(
	struct lease_book *book, const struct table *table, struct wish *wish)
{
	struct lease_entry *entry = lease_book_find(
		book, lease_word(wish->index, wish->generation));

	/* A lease that was held before is void. */
	if (lease_slots_closed(&book->slots))
		return -ENOTCONN;
	wish->known = try_ref(entry->storage);
	if (wish->known)
		return 0;
	if (wish->make && !wish->made)
		wish->made = wish->make();
	if (wish->make && !wish->made)
		return tarn_fail(
			ENOMEM, "storage %u: out of memory", wish->index);
	if (!entry->word)
		return add(book, table, entry, wish);
	entry->count++;
	if (wish->made)
		entry->storage = wish->made;
	return 0;
}

/* How long a caller has been waiting, and how often it has tried. */
struct patience {
	int64_t deadline;
	uint32_t tries;
};

/* False: the time is up; otherwise it has napped. */
static bool be_patient(struct patience *patience)
{
	const struct timespec nap = {.tv_nsec = BUSY_NAP_US * 1000};

	if (!patience->deadline)
		patience->deadline = clock_ms() + BUSY_MS;
	if (patience->tries++ >= BUSY_TRIES && clock_ms() > patience->deadline)
		return false;
	nanosleep(&nap, NULL);
	return true;
}

static int hold_failed(int r, uint32_t index, uint64_t generation)
{
	switch (r) {
	case -ESTALE:
		return tarn_fail(ESTALE,
			"storage %u, generation %llu: it is gone", index,
			(unsigned long long)generation);
	case -EBUSY:
		return tarn_fail(EBUSY,
			"storage %u: the daemon has been about to free it for "
			"%d ms; try again",
			index, BUSY_MS);
	case -ENOTCONN:
		return tarn_fail(ECONNRESET,
			"storage %u: the daemon has ended this connection, so "
			"a lease would not protect the bytes; open the store "
			"anew",
			index);
	case -ENOSPC:
		return tarn_fail(ENOSPC,
			"storage %u: this process holds as many storages as "
			"its connection has room for; drop some",
			index);
	default:
		return r;
	}
}

static int hold(
	struct lease_book *book, const struct table *table, struct wish *wish)
{
	struct patience patience = {0};
	int r;

	if (wish->index >= TABLE_STORAGES_MAX || wish->generation == 0 ||
		wish->generation >> TABLE_GENERATION_BITS)
		return tarn_fail(ESTALE,
			"storage %u, generation %llu: there is no such storage",
			wish->index, (unsigned long long)wish->generation);
	do {
		pthread_mutex_lock(&book->lock);
		r = hold_once(book, table, wish);
		pthread_mutex_unlock(&book->lock);
	} while (r == -EBUSY && be_patient(&patience));
	return r < 0 ? hold_failed(r, wish->index, wish->generation) : 0;
}

int lease_book_hold(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, tarn_storage **ret_storage)
{
	struct wish wish = {.index = index, .generation = generation};
	int r = hold(book, table, &wish);

	*ret_storage = wish.known;
	return r;
}

int lease_book_open(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, tarn_storage *(*make)(void),
	tarn_storage **ret)
{
	struct wish wish = {
		.index = index, .generation = generation, .make = make};
	int r = hold(book, table, &wish);

	/* It was made for nothing. */
	if (r < 0 || wish.known)
		free(wish.made);
	if (r < 0)
		return r;
	*ret = wish.known ? wish.known : wish.made;
	return wish.known ? 1 : 0;
}

void lease_book_finish(tarn_storage *storage)
{
	/* Release: pairs with the acquire load in try_ref. */
	atomic_store_explicit(&storage->refs, 1, memory_order_release);
}

void lease_book_remember(struct lease_book *book, uint32_t index,
	uint64_t generation, tarn_storage *storage)
{
	struct lease_entry *entry;

	pthread_mutex_lock(&book->lock);
	entry = lease_book_find(book, lease_word(index, generation));
	if (entry->word)
		entry->storage = storage;
	pthread_mutex_unlock(&book->lock);
}

void lease_book_guard(
	struct lease_book *book, uint32_t index, uint64_t generation)
{
	struct lease_entry *entry;

	pthread_mutex_lock(&book->lock);
	entry = lease_book_find(book, lease_word(index, generation));
	if (entry->word)
		entry->guards++;
	pthread_mutex_unlock(&book->lock);
}

void lease_book_unguard(struct lease_book *book, uint32_t index,
	uint64_t generation, void (*reset)(void *arg), void *arg)
{
	struct lease_entry *entry;

	pthread_mutex_lock(&book->lock);
	entry = lease_book_find(book, lease_word(index, generation));
	if (!entry->word || !entry->guards || --entry->guards == 0)
		reset(arg);
	pthread_mutex_unlock(&book->lock);
}

bool lease_book_drop_hold(struct lease_book *book, const struct table *table,
	struct lease_entry *entry)
{
	uint32_t index =
		(uint32_t)(entry->word & ((1u << TABLE_INDEX_BITS) - 1));
	bool ring;

	if (--entry->count > 0)
		return false;
	ring = lease_slots_give(&book->slots, table, entry->slot, index);
	lease_book_erase(book, entry);
	return ring;
}

bool lease_book_drop(struct lease_book *book, const struct table *table,
	uint32_t index, uint64_t generation, const tarn_storage *storage)
{
	struct lease_entry *entry;
	bool ring = false;

	pthread_mutex_lock(&book->lock);
	entry = lease_book_find(book, lease_word(index, generation));
	if (entry->word) {
		if (entry->storage == storage)
			entry->storage = NULL;
		ring = lease_book_drop_hold(book, table, entry);
	}
	pthread_mutex_unlock(&book->lock);
	return ring;
}

void lease_book_notify(struct lease_book *book)
{
	pthread_mutex_lock(&book->lock);
	if (book->slots.n_pages)
		lease_notify(book->slots.pages[LEASE_PAGE_FIRST]);
	pthread_mutex_unlock(&book->lock);
}

/* ---- forks ----------------------------------------------------------- */

static int copy_one(const struct lease_entry *entry, const struct table *table,
	struct lease_slots *slots, uint32_t *ret_slot)
{
	uint32_t index =
		(uint32_t)(entry->word & ((1u << TABLE_INDEX_BITS) - 1));
	uint64_t generation = entry->word >> TABLE_INDEX_BITS;
	struct patience patience = {0};
	int r;

	/* The server's scan finds the lease that this process has, and resets
	 * the word: that does not take long unless the server dies. */
	do
		r = lease_slots_take(slots, table, index, generation, ret_slot);
	while (r == -EBUSY && be_patient(&patience));
	return r;
}

int lease_book_copy(const struct lease_book *book, const struct table *table,
	struct lease_slots *slots, int (*more)(void *arg), void *arg,
	uint32_t **ret_slots)
{
	uint32_t *by_entry = calloc(book->capacity, sizeof(*by_entry));
	int r = 0;

	if (!by_entry)
		return tarn_fail(ENOMEM, "leases: out of memory");
	for (uint32_t i = 0; i < book->capacity && r >= 0; i++) {
		if (!lease_is_held_here(&book->entries[i]))
			continue;
		if (lease_slots_full(slots))
			r = more(arg);
		if (r >= 0)
			r = copy_one(
				&book->entries[i], table, slots, &by_entry[i]);
	}
	if (r < 0)
		free(by_entry);
	else
		*ret_slots = by_entry;
	return r;
}

static void set_slots(struct lease_book *book, const uint32_t *by_entry)
{
	for (uint32_t i = 0; i < book->capacity; i++)
		if (book->entries[i].word)
			book->entries[i].slot =
				by_entry ? by_entry[i] : LEASE_SLOT_NONE;
}

void lease_book_turn(struct lease_book *book, const struct lease_slots *slots,
	const uint32_t *by_entry)
{
	set_slots(book, by_entry);
	lease_slots_done(&book->slots);
	book->slots = *slots;
	lease_pins_forget(book);
}
