/* SPDX-License-Identifier: MIT */
/*
 * Checks of pools, segments and storages: the bytes of each storage lie in the
 * memory allocated for it, that memory lies in segments, and no memory is
 * allocated twice.
 *
 * Ranges are collected and sorted by pool and offset; then each is compared
 * with its neighbour only.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "shm/messages.h"
#include "shm/record.h"
#include "shm/table_check.h"

#define STORAGE_FLAGS                                                          \
	(STORAGE_OWN | STORAGE_MUTABLE | STORAGE_CREATED |                     \
		STORAGE_QUARANTINE | STORAGE_CHANNEL | STORAGE_KEPT |          \
		STORAGE_REPLICA | STORAGE_DEVICE | STORAGE_PATCH)
/* The flags that a channel has too. */
#define CHANNEL_FLAGS (STORAGE_OWN | STORAGE_MUTABLE | STORAGE_CREATED)
/* All that a patch has. */
#define PATCH_FLAGS (STORAGE_PATCH | STORAGE_OWN | STORAGE_CREATED)
/* All that a device's has. */
#define DEVICE_FLAGS (STORAGE_DEVICE | STORAGE_OWN | STORAGE_CREATED)

struct range {
	uint32_t pool;
	uint32_t number; /* of the segment, or the storage */
	uint64_t offset, end;
};

struct ranges {
	struct range *v;
	uint32_t n;
};

static int by_place(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->pool != y->pool)
		return x->pool < y->pool ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static void sort(struct ranges *ranges)
{
	if (ranges->n)
		qsort(ranges->v, ranges->n, sizeof(ranges->v[0]), by_place);
}

static void check_apart(
	const struct ranges *ranges, const char *what, struct faults *faults)
{
	for (uint32_t i = 1; i < ranges->n; i++) {
		const struct range *a = &ranges->v[i - 1], *b = &ranges->v[i];

		if (a->pool == b->pool && a->end > b->offset)
			fault_add(faults,
				"%ss %u and %u overlap at byte %llu of pool %u",
				what, a->number, b->number,
				(unsigned long long)b->offset, b->pool);
	}
}

/* ---- pools and segments ----------------------------------------------- */

static const struct table_pool *pool_of(
	const struct table *table, uint32_t id, uint32_t n_pools)
{
	for (uint32_t i = 0; i < n_pools; i++)
		if (table->pools[i].id == id)
			return &table->pools[i];
	return NULL;
}

static void check_segment(const struct table *table, uint32_t i,
	uint32_t n_pools, struct ranges *ranges, struct faults *faults)
{
	const struct table_segment *s = &table->segments[i];
	/* Relaxed: the writer itself reads it. */
	uint32_t state = segment_word_state(
		atomic_load_explicit(&s->word, memory_order_relaxed));
	struct range r = {.pool = s->pool, .number = i, .offset = s->offset};
	const struct table_pool *pool = pool_of(table, r.pool, n_pools);
	uint64_t size = s->size;

	if (state != SEGMENT_READY && state != SEGMENT_DROPPED)
		fault_add(faults, "segment %u: its state is %u", i, state);
	else if (!pool)
		fault_add(faults, "segment %u: there is no pool %u", i, r.pool);
	else if (!size || size % PAGE || r.offset % PAGE ||
		 add_u64(r.offset, size, &r.end) || r.end > pool->reach)
		fault_add(faults,
			"segment %u: %llu bytes at %llu are not in the reach "
			"of pool %u",
			i, (unsigned long long)size,
			(unsigned long long)r.offset, r.pool);
	else if (state == SEGMENT_READY)
		ranges->v[ranges->n++] = r;
}

/* Joins neighbours, since a storage may span their border. */
static void join(struct ranges *ranges)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < ranges->n; i++) {
		struct range *last = kept ? &ranges->v[kept - 1] : NULL;

		if (last && last->pool == ranges->v[i].pool &&
			last->end == ranges->v[i].offset)
			last->end = ranges->v[i].end;
		else
			ranges->v[kept++] = ranges->v[i];
	}
	ranges->n = kept;
}

static bool covered(const struct ranges *segments, const struct range *r)
{
	uint32_t low = 0, high = segments->n;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (by_place(&segments->v[mid], r) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low && segments->v[low - 1].pool == r->pool &&
	       segments->v[low - 1].end >= r->end;
}

/* ---- storages --------------------------------------------------------- */

static bool has_own_bytes(const struct table_storage *s)
{
	return s->pool == TABLE_POOL_OWN && s->base == 0 &&
	       s->alloc_offset == 0 && s->alloc_size == 0;
}

/* Do its bytes lie in the memory allocated for it? */
static bool is_inside(const struct table_storage *s, uint64_t *ret_end)
{
	uint64_t end;

	return s->alloc_offset % PAGE == 0 && s->alloc_size % PAGE == 0 &&
	       !add_u64(s->alloc_offset, s->alloc_size, ret_end) &&
	       !add_u64(s->base, s->size, &end) && s->base >= s->alloc_offset &&
	       end <= *ret_end;
}

static void check_place(const struct table_storage *s, uint32_t i,
	const struct ranges *segments, struct ranges *ranges,
	struct faults *faults)
{
	struct range r = {
		.pool = s->pool, .number = i, .offset = s->alloc_offset};

	if (s->flags & STORAGE_OWN) {
		if (!has_own_bytes(s))
			fault_add(faults,
				"storage %u: it has a descriptor of its own, and "
				"%llu bytes at %llu of pool %u",
				i, (unsigned long long)s->alloc_size,
				(unsigned long long)s->alloc_offset, s->pool);
		return;
	}
	if (!is_inside(s, &r.end)) {
		fault_add(faults,
			"storage %u: %llu bytes at %llu are not inside the "
			"%llu at %llu that were taken for it",
			i, (unsigned long long)s->size,
			(unsigned long long)s->base,
			(unsigned long long)s->alloc_size,
			(unsigned long long)s->alloc_offset);
		return;
	}
	if (!s->alloc_size)
		return;
	if (!covered(segments, &r))
		fault_add(faults,
			"storage %u: bytes %llu to %llu of pool %u are in no "
			"segment",
			i, (unsigned long long)r.offset,
			(unsigned long long)r.end, r.pool);
	ranges->v[ranges->n++] = r;
}

static bool has_sound_flags(const struct table_storage *s)
{
	if (s->flags & STORAGE_CHANNEL &&
		(s->flags & CHANNEL_FLAGS) != CHANNEL_FLAGS)
		return false;
	if (s->flags & STORAGE_DEVICE && s->flags != DEVICE_FLAGS)
		return false;
	if (s->flags & STORAGE_PATCH && s->flags != PATCH_FLAGS)
		return false;
	return !(s->flags & ~STORAGE_FLAGS);
}

/* Of a device: with its UUID, and of a size that there can be. */
static void check_device(
	const struct table_storage *s, uint32_t i, struct faults *faults)
{
	static const uint8_t none[sizeof(s->device)];

	if (!(s->flags & STORAGE_DEVICE))
		return;
	if (!memcmp(s->device, none, sizeof(none)))
		fault_add(faults,
			"storage %u: it lies on a device without a UUID", i);
	if (!s->size || s->size > DEVICE_SIZE_MAX)
		fault_add(faults, "storage %u: %llu bytes of a device", i,
			(unsigned long long)s->size);
}

/* The storage that a patch is over is as large as the patch, and the server frees
 * the patch first. */
static void check_patch(const struct table *table,
	const struct table_storage *s, uint32_t i, uint32_t n,
	struct faults *faults)
{
	const struct table_storage *of = &table->storages[s->of];
	uint64_t word;

	if (!(s->flags & STORAGE_PATCH))
		return;
	if (s->of >= n || s->of == i) {
		fault_add(faults, "storage %u: a patch over storage %u of %u",
			i, s->of, n);
		return;
	}
	/* Acquire: pairs with the release store in table_storage_add. */
	word = atomic_load_explicit(&of->word, memory_order_acquire);
	if (storage_word_generation(word) != s->of_generation ||
		storage_word_state(word) == STORAGE_FREE)
		fault_add(faults,
			"storage %u: a patch over storage %u, which is gone", i,
			s->of);
	else if (of->size != s->size || (uint64_t)s->own_pages << 12 >= s->size)
		fault_add(faults,
			"storage %u: a patch of %llu bytes, %u pages its own, "
			"over %llu",
			i, (unsigned long long)s->size, s->own_pages,
			(unsigned long long)of->size);
}

static void check_storage(const struct table *table, uint32_t i, uint32_t n,
	const struct ranges *segments, struct ranges *ranges,
	struct faults *faults, struct table_tally *tally)
{
	struct table_storage s;
	uint64_t word, again;

	/* Acquire: pairs with the release store in table_storage_add. */
	word = atomic_load_explicit(
		&table->storages[i].word, memory_order_acquire);
	s = table->storages[i];
	/* Pairs with the release fence in table_storage_add: what was copied
	 * is of this word, or the word has changed. */
	atomic_thread_fence(memory_order_acquire);
	again = atomic_load_explicit(
		&table->storages[i].word, memory_order_relaxed);
	if (storage_word_generation(word) >> TABLE_GENERATION_BITS &&
		(storage_word_state(word) != STORAGE_FREE ||
			storage_word_generation(word) !=
				1ull << TABLE_GENERATION_BITS))
		fault_add(faults, "storage %u: generation %llu is too large", i,
			(unsigned long long)storage_word_generation(word));
	if (storage_word_state(word) == STORAGE_FREE || again != word)
		return;
	if (storage_word_state(word) > STORAGE_FREEING ||
		!storage_word_generation(word)) {
		fault_add(faults, "storage %u: the word %#llx makes no sense",
			i, (unsigned long long)word);
		return;
	}
	if (!has_sound_flags(&s))
		fault_add(faults, "storage %u: flags %#x", i, s.flags);
	check_device(&s, i, faults);
	check_patch(table, &s, i, n, faults);
	if (atomic_load_explicit(&s.landed, memory_order_relaxed) > s.size)
		fault_add(
			faults, "storage %u: more bytes landed than it has", i);
	check_place(&s, i, segments, ranges, faults);
	tally->storages++;
	tally->bytes += s.size;
}

int check_storages(const struct table *table, struct faults *faults,
	struct table_tally *tally)
{
	const struct table_header *h = table->header;
	/* Acquire: pairs with the release stores in table_storages.c. */
	uint32_t n_pools = MIN(TABLE_POOLS_MAX,
		atomic_load_explicit(&h->n_pools, memory_order_acquire));
	uint32_t n_segments = MIN(TABLE_SEGMENTS_MAX,
		atomic_load_explicit(&h->n_segments, memory_order_acquire));
	uint32_t n = MIN(TABLE_STORAGES_MAX,
		atomic_load_explicit(&h->n_storages, memory_order_acquire));
	_cleanup_free_ struct range *a = calloc(n_segments + 1, sizeof(*a));
	_cleanup_free_ struct range *b = calloc(n + 1, sizeof(*b));
	struct ranges segments = {.v = a}, taken = {.v = b};

	if (!a || !b)
		return tarn_fail(ENOMEM, "check: no memory for %u storages", n);
	if (h->n_pools > TABLE_POOLS_MAX ||
		h->n_segments > TABLE_SEGMENTS_MAX ||
		h->n_storages > TABLE_STORAGES_MAX)
		fault_add(faults, "header: %u pools, %u segments, %u storages",
			h->n_pools, h->n_segments, h->n_storages);
	for (uint32_t i = 0; i < n_segments; i++)
		check_segment(table, i, n_pools, &segments, faults);
	sort(&segments);
	check_apart(&segments, "segment", faults);
	join(&segments);
	for (uint32_t i = 0; i < n; i++)
		check_storage(table, i, n, &segments, &taken, faults, tally);
	sort(&taken);
	check_apart(&taken, "storage", faults);
	return 0;
}
