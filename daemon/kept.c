/* SPDX-License-Identifier: MIT */
/*
 * A hash of descriptors.
 *
 * The idea: who has a descriptor has room to remember it. Records lie in one
 * mapping, by descriptor, as long as this process may have descriptors, and
 * become memory when they are used. So the keeper, who was not asked whether
 * it has room, and in whose hands is all that a dead server leaves, never
 * lacks any for what it was given.
 */
#include "daemon/kept.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"

#define ROOM_LEAST 1024u
#define CHAIN 4u /* records for a bucket, when all are there; picked */

/* ---- memory ---------------------------------------------------------- */

static void *reserve(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* The largest that it may come to, whatever the limit is at this moment. */
static uint32_t descriptors_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max > KEPT_MAX)
		return KEPT_MAX;
	return MAX((uint32_t)limit.rlim_max, ROOM_LEAST);
}

int kept_begin(struct kept_table *table)
{
	struct kept_table begun = {
		.room = descriptors_max(), .n_buckets = ROOM_LEAST / CHAIN};

	if (table->records)
		return 0;
	while (begun.n_buckets < begun.room / CHAIN)
		begun.n_buckets *= 2;
	begun.records = reserve(begun.room * sizeof(*begun.records));
	begun.buckets = reserve(begun.n_buckets * sizeof(*begun.buckets));
	if (!begun.records || !begun.buckets) {
		kept_free(&begun);
		return tarn_fail(
			ENOMEM, "no memory for %u descriptors", begun.room);
	}
	*table = begun;
	return 0;
}

/* The limit was raised under us. */
static int grow(struct kept_table *table, uint32_t room)
{
	void *more =
		mremap(table->records, table->room * sizeof(*table->records),
			room * sizeof(*table->records), MREMAP_MAYMOVE);

	if (more == MAP_FAILED)
		return tarn_fail(ENOMEM, "no memory for %u descriptors", room);
	table->records = more;
	table->room = room;
	return 0;
}

static int make_room(struct kept_table *table, int fd)
{
	int r = kept_begin(table);

	if (r == 0 && (uint32_t)fd >= table->room)
		r = grow(table, 2 * ((uint32_t)fd + 1));
	return r;
}

/* ---- the hash -------------------------------------------------------- */

static uint32_t bucket_of(
	const struct kept_table *table, const struct msg_keep *key)
{
	uint64_t h = key->a * 0x9e3779b97f4a7c15ull ^ key->b;

	h = (h ^ key->kind ^ (uint64_t)key->rule << 32) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 32) & (table->n_buckets - 1);
}

static bool same(const struct msg_keep *a, const struct msg_keep *b)
{
	return a->rule == b->rule && a->kind == b->kind && a->a == b->a &&
	       a->b == b->b;
}

/* Where it hangs, or where it would. */
static uint32_t *find(
	const struct kept_table *table, const struct msg_keep *key)
{
	uint32_t *p = &table->buckets[bucket_of(table, key)];

	while (*p && !same(&table->records[*p - 1].key, key))
		p = &table->records[*p - 1].next;
	return p;
}

int kept_put(struct kept_table *table, const struct msg_keep *key, int fd)
{
	int r;

	kept_drop(table, key);
	r = make_room(table, fd);
	if (r < 0) {
		fd_close(fd);
		return r;
	}
	table->records[fd] = (struct kept) {.key = *key, .fd = fd};
	*find(table, key) = (uint32_t)fd + 1;
	table->n++;
	return 0;
}

int kept_get(const struct kept_table *table, const struct msg_keep *key)
{
	/* The one that hangs at that place has the number of its place. */
	return table->n ? (int)*find(table, key) - 1 : -1;
}

void kept_drop(struct kept_table *table, const struct msg_keep *key)
{
	uint32_t *p = table->n ? find(table, key) : NULL;
	const struct kept *kept;

	if (!p || !*p)
		return;
	kept = &table->records[*p - 1];
	*p = kept->next;
	table->n--;
	fd_close(kept->fd);
}

void kept_each(struct kept_table *table,
	void (*fn)(void *arg, const struct kept *kept), void *arg)
{
	uint32_t next;

	for (uint32_t i = 0; i < table->n_buckets; i++)
		for (uint32_t at = table->buckets[i]; at; at = next) {
			const struct kept *kept = &table->records[at - 1];

			next = kept->next;
			fn(arg, kept);
		}
}

static void drop_it(void *arg, const struct kept *kept)
{
	struct msg_keep key = kept->key;

	kept_drop(arg, &key);
}

void kept_free(struct kept_table *table)
{
	if (table->records && table->buckets)
		kept_each(table, drop_it, table);
	if (table->records)
		munmap(table->records, table->room * sizeof(*table->records));
	if (table->buckets)
		munmap(table->buckets,
			table->n_buckets * sizeof(*table->buckets));
	*table = (struct kept_table) {0};
}
