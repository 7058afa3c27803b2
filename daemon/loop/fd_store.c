/* SPDX-License-Identifier: MIT */
/*
 * A hash of descriptors.
 *
 * A process that has a descriptor always has a record for it. Records lie in
 * one mapping, indexed by descriptor, with as many as this process may have
 * descriptors, and become memory when they are used. The keeper cannot refuse a
 * descriptor, since it holds everything that a dead server leaves; so it never
 * lacks memory for one.
 */
#include "daemon/loop/fd_store.h"

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

/* The largest value that the limit may be raised to, not the present one. */
static uint32_t descriptors_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
		limit.rlim_max > FD_STORE_MAX)
		return FD_STORE_MAX;
	return MAX((uint32_t)limit.rlim_max, ROOM_LEAST);
}

int fd_store_reserve(struct fd_store *store)
{
	struct fd_store begun = {
		.room = descriptors_max(), .n_buckets = ROOM_LEAST / CHAIN};

	if (store->records)
		return 0;
	while (begun.n_buckets < begun.room / CHAIN)
		begun.n_buckets *= 2;
	begun.records = reserve(begun.room * sizeof(*begun.records));
	begun.buckets = reserve(begun.n_buckets * sizeof(*begun.buckets));
	if (!begun.records || !begun.buckets) {
		fd_store_free(&begun);
		return tarn_fail(
			ENOMEM, "no memory for %u descriptors", begun.room);
	}
	*store = begun;
	return 0;
}

/* The limit was raised under us. */
static int grow(struct fd_store *store, uint32_t room)
{
	void *more =
		mremap(store->records, store->room * sizeof(*store->records),
			room * sizeof(*store->records), MREMAP_MAYMOVE);

	if (more == MAP_FAILED)
		return tarn_fail(ENOMEM, "no memory for %u descriptors", room);
	store->records = more;
	store->room = room;
	return 0;
}

int fd_store_make_room(struct fd_store *store, int fd)
{
	int r = fd_store_reserve(store);

	if (r == 0 && (uint32_t)fd >= store->room)
		r = grow(store, 2 * ((uint32_t)fd + 1));
	return r;
}

/* ---- the hash -------------------------------------------------------- */

static uint32_t bucket_of(
	const struct fd_store *store, const struct msg_fd_key *key)
{
	uint64_t h = key->a * 0x9e3779b97f4a7c15ull ^ key->b;

	h = (h ^ key->kind ^ (uint64_t)key->domain << 32) *
	    0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 32) & (store->n_buckets - 1);
}

static bool same(const struct msg_fd_key *a, const struct msg_fd_key *b)
{
	return a->domain == b->domain && a->kind == b->kind && a->a == b->a &&
	       a->b == b->b;
}

/* Where it hangs, or where it would. */
static uint32_t *find(
	const struct fd_store *store, const struct msg_fd_key *key)
{
	uint32_t *p = &store->buckets[bucket_of(store, key)];

	while (*p && !same(&store->records[*p - 1].key, key))
		p = &store->records[*p - 1].next;
	return p;
}

int fd_store_put(struct fd_store *store, const struct msg_fd_key *key, int fd)
{
	int r;

	fd_store_drop(store, key);
	r = fd_store_make_room(store, fd);
	if (r < 0) {
		fd_close(fd);
		return r;
	}
	store->records[fd] = (struct stored_fd) {.key = *key, .fd = fd};
	*find(store, key) = (uint32_t)fd + 1;
	store->n++;
	return 0;
}

int fd_store_get(const struct fd_store *store, const struct msg_fd_key *key)
{
	/* The one that hangs at that place has the number of its place. */
	return store->n ? (int)*find(store, key) - 1 : -1;
}

int fd_store_take(struct fd_store *store, const struct msg_fd_key *key)
{
	uint32_t *p = store->n ? find(store, key) : NULL;
	const struct stored_fd *stored;

	if (!p || !*p)
		return -1;
	stored = &store->records[*p - 1];
	*p = stored->next;
	store->n--;
	return stored->fd;
}

void fd_store_drop(struct fd_store *store, const struct msg_fd_key *key)
{
	fd_close(fd_store_take(store, key));
}

void fd_store_each(struct fd_store *store,
	void (*fn)(void *arg, const struct stored_fd *stored), void *arg)
{
	uint32_t next;

	for (uint32_t i = 0; i < store->n_buckets; i++)
		for (uint32_t at = store->buckets[i]; at; at = next) {
			const struct stored_fd *stored =
				&store->records[at - 1];

			next = stored->next;
			fn(arg, stored);
		}
}

static void drop_it(void *arg, const struct stored_fd *stored)
{
	struct msg_fd_key key = stored->key;

	fd_store_drop(arg, &key);
}

void fd_store_free(struct fd_store *store)
{
	if (store->records && store->buckets)
		fd_store_each(store, drop_it, store);
	if (store->records)
		munmap(store->records, store->room * sizeof(*store->records));
	if (store->buckets)
		munmap(store->buckets,
			store->n_buckets * sizeof(*store->buckets));
	*store = (struct fd_store) {0};
}
