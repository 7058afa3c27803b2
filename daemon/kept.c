/* SPDX-License-Identifier: MIT */
/*
 * A hash of descriptors, twice as many buckets whenever there are more of them
 * than buckets: a hundred thousand storages may have a memfd each.
 */
#include "daemon/kept.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/fd.h"

#define BUCKETS_FIRST 64u

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
static struct kept **find(
	const struct kept_table *table, const struct msg_keep *key)
{
	struct kept **p = &table->buckets[bucket_of(table, key)];

	while (*p && !same(&(*p)->key, key))
		p = &(*p)->next;
	return p;
}

static int grow(struct kept_table *table)
{
	struct kept_table more = {.n_buckets = table->n_buckets
						       ? 2 * table->n_buckets
						       : BUCKETS_FIRST};

	more.buckets = calloc(more.n_buckets, sizeof(struct kept *));
	if (!more.buckets)
		return tarn_fail(
			ENOMEM, "no memory for %u descriptors", more.n_buckets);
	for (uint32_t i = 0; i < table->n_buckets; i++)
		while (table->buckets[i]) {
			struct kept *kept = table->buckets[i];
			uint32_t bucket = bucket_of(&more, &kept->key);

			table->buckets[i] = kept->next;
			kept->next = more.buckets[bucket];
			more.buckets[bucket] = kept;
		}
	free(table->buckets);
	table->buckets = more.buckets;
	table->n_buckets = more.n_buckets;
	return 0;
}

int kept_put(struct kept_table *table, const struct msg_keep *key, int fd)
{
	struct kept *kept;
	int r = 0;

	kept_drop(table, key);
	if (table->n >= table->n_buckets)
		r = grow(table);
	kept = r < 0 ? NULL : malloc(sizeof(*kept));
	if (!kept) {
		fd_close(fd);
		return r < 0 ? r : tarn_fail(ENOMEM, "out of memory");
	}
	*kept = (struct kept) {.key = *key, .fd = fd};
	*find(table, key) = kept;
	table->n++;
	return 0;
}

int kept_get(const struct kept_table *table, const struct msg_keep *key)
{
	const struct kept *kept = table->n ? *find(table, key) : NULL;

	return kept ? kept->fd : -1;
}

void kept_drop(struct kept_table *table, const struct msg_keep *key)
{
	struct kept **p = table->n ? find(table, key) : NULL, *kept;

	if (!p || !*p)
		return;
	kept = *p;
	*p = kept->next;
	table->n--;
	fd_close(kept->fd);
	free(kept);
}

void kept_each(struct kept_table *table,
	void (*fn)(void *arg, const struct kept *kept), void *arg)
{
	struct kept *next;

	for (uint32_t i = 0; i < table->n_buckets; i++)
		for (struct kept *kept = table->buckets[i]; kept; kept = next) {
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
	kept_each(table, drop_it, table);
	free(table->buckets);
	*table = (struct kept_table) {0};
}
