/* SPDX-License-Identifier: MIT */
#include "lib/store/patch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"
#include "lib/cuda/cuda.h"
#include "lib/store/created.h"
#include "lib/store/own_map.h"
#include "lib/tensor/tensor.h"
#include "shm/messages.h"

static_assert(PATCH_PAGE == PAGE, "mapped one by one");

/* Of all patches over each other. */
#define RUNS_MAX (2 * PATCH_RUNS_MAX)

/* ---- mapping --------------------------------------------------------- */

struct link {
	struct patch_key key;
	struct table_storage entry;
};

/* What lies below a patch, the root last. */
struct chain {
	unsigned n;
	struct link links[TABLE_PATCHES_MAX + 1];
};

static int get_entry(const tarn_store *store, struct link *link)
{
	return table_storage_get(&store->table, link->key.index,
		link->key.generation, &link->entry);
}

static int find_chain(
	const tarn_store *store, struct link top, struct chain *ret)
{
	uint64_t size = top.entry.size;
	int r = 0;

	ret->n = 0;
	while (top.entry.flags & STORAGE_PATCH) {
		ret->links[ret->n++] = top;
		if (ret->n > TABLE_PATCHES_MAX)
			return tarn_fail(EPROTO,
				"storage %u lies below %u patches; there are "
				"%u at most",
				top.key.index, ret->n, TABLE_PATCHES_MAX);
		top.key = (struct patch_key) {
			top.entry.of, top.entry.of_generation};
		r = get_entry(store, &top);
		if (r < 0)
			return r;
		if (top.entry.size != size)
			return tarn_fail(EPROTO,
				"a patch of %llu bytes over storage %u, which "
				"has %llu",
				(unsigned long long)size, top.key.index,
				(unsigned long long)top.entry.size);
	}
	ret->links[ret->n++] = top;
	return 0;
}

static int map_root(tarn_store *store, const struct link *root,
	struct cow_map *map, void **ret_data)
{
	const struct table_storage *e = &root->entry;
	void *mapped;
	int r;

	if (e->flags & (STORAGE_MUTABLE | STORAGE_DEVICE))
		return tarn_fail(EPROTO,
			"a patch over storage %u, which can change (flags %#x)",
			root->key.index, e->flags);
	if (e->flags & STORAGE_OWN)
		return own_map_cow(store, root->key.index, root->key.generation,
			e, map, ret_data);
	/* Its segments are here then. */
	r = pool_map_range(&store->pools, e->pool, e->base, e->size, &mapped);
	return r < 0 ? r
		     : pool_map_cow(&store->pools, e->pool, e->base, e->size,
			       map, ret_data);
}

/* The pages of fd over what is mapped. */
static int map_level(int fd, struct cow_map *map, struct patch *ret)
{
	int r = patch_read(fd, map->size / PAGE, ret);

	for (uint32_t i = 0; r >= 0 && i < ret->n_runs; i++)
		r = cow_map_over(map, (uint64_t)ret->runs[i].first * PAGE, fd,
			(uint64_t)ret->runs[i].at * PAGE,
			(uint64_t)ret->runs[i].n * PAGE);
	return r;
}

static int map_link(tarn_store *store, const struct link *link,
	struct cow_map *map, struct patch *ret)
{
	_cleanup_fd_ int fd = own_fetch_checked(
		store, link->key.index, link->key.generation, &link->entry);

	return fd < 0 ? fd : map_level(fd, map, ret);
}

static void add_level(
	struct patched *p, struct patch_key key, const struct patch *patch)
{
	p->levels[p->depth++] =
		(struct patch_level) {.key = key, .patch = *patch};
	p->runs += patch->n_runs;
	p->pages += patch->n_pages;
}

/* Makers keep to PATCH_RUNS_MAX, or to half as many more where they did not sort
 * their pages; what others make must not take all mappings of this process. */
static int check_sum(const struct patched *p)
{
	if (p->runs <= RUNS_MAX)
		return 0;
	return tarn_fail(EPROTO,
		"%u runs in %u patches over each other; there are %u at most",
		p->runs, p->depth, RUNS_MAX);
}

/* All of the chain, from the root on. */
static int map_chain(tarn_store *store, const struct chain *chain,
	struct patched *p, void **ret_data)
{
	const struct link *root = &chain->links[chain->n - 1];
	int r = map_root(store, root, &p->map, ret_data);

	p->root = root->key;
	for (unsigned i = chain->n - 1; r >= 0 && i-- > 0;) {
		struct patch patch = {.runs = NULL};

		r = map_link(store, &chain->links[i], &p->map, &patch);
		add_level(p, chain->links[i].key, &patch);
		if (r >= 0)
			r = check_sum(p);
	}
	return r == -ENOTSUP ? tarn_fail_constant(EPROTO,
				       "a patch over memory that cannot be "
				       "mapped page by page")
			     : r;
}

static struct patched *patched_alloc(bool read_only)
{
	struct patched *p = calloc(1, sizeof(*p));

	if (p)
		p->map.read_only = read_only;
	else
		tarn_fail_constant(ENOMEM, "out of memory");
	return p;
}

static int open_as(tarn_store *store, struct patch_key key,
	const struct table_storage *entry, bool read_only, struct patched **ret,
	void **ret_data)
{
	struct patched *p = patched_alloc(read_only);
	struct chain chain;
	int r;

	if (!p)
		return -ENOMEM;
	r = find_chain(store, (struct link) {key, *entry}, &chain);
	if (r >= 0)
		r = map_chain(store, &chain, p, ret_data);
	if (r < 0)
		patched_free(p);
	else
		*ret = p;
	return r;
}

int patched_open(tarn_store *store, struct patch_key key,
	const struct table_storage *entry, struct patched **ret,
	void **ret_data)
{
	int r = open_as(store, key, entry, true, ret, ret_data);

	return r < 0 ? tarn_fail_prefix(r, "storage %u: ", key.index) : 0;
}

void patched_published(
	struct patched *patched, uint32_t index, uint64_t generation)
{
	patched->levels[patched->depth - 1].key =
		(struct patch_key) {index, generation};
}

void patched_free(struct patched *patched)
{
	if (!patched)
		return;
	if (patched->map.size)
		cuda_forget(patched->map.start, patched->map.size);
	cow_map_done(&patched->map);
	for (unsigned i = 0; i < patched->depth; i++)
		free(patched->levels[i].patch.runs);
	free(patched);
}

int patched_map_cow(const struct shared_storage *shared, struct cow_map *map,
	void **ret_data)
{
	const struct patch_key key = {shared->index, shared->generation};
	struct table_storage entry;
	struct patched *p;
	int r = table_storage_get(
		&shared->store->table, key.index, key.generation, &entry);

	if (r >= 0)
		r = open_as(shared->store, key, &entry, false, &p, ret_data);
	if (r < 0)
		return r;
	*map = p->map;
	p->map = (struct cow_map) {0};
	patched_free(p);
	return 0;
}

/* ---- which storage ------------------------------------------------------- */

const struct patched *patched_of(const tarn_storage *storage)
{
	const struct shared_storage *shared = store_storage_of(storage);
	const struct created *created = created_of(storage);

	if (shared)
		return shared->patched;
	return created ? created->patched : NULL;
}

static bool is_same(struct patch_key a, struct patch_key b)
{
	return a.index == b.index && a.generation == b.generation;
}

static struct patch_key key_of(const tarn_storage *storage)
{
	const struct shared_storage *shared = store_storage_of(storage);

	return shared ? (struct patch_key) {shared->index, shared->generation}
		      : (struct patch_key) {0, 0};
}

int patch_levels_over(const tarn_storage *top, const tarn_storage *below)
{
	const struct patched *patched = patched_of(top);
	struct patch_key key = key_of(below);
	unsigned depth = patched ? patched->depth : 0;

	if (!key.generation || is_same(key, key_of(top)))
		return key.generation ? 0 : -1;
	for (unsigned i = 0; i < depth; i++)
		if (is_same(key, patched->levels[i].key))
			return (int)(depth - 1 - i);
	return depth && is_same(key, patched->root) ? (int)depth : -1;
}

/* ---- making one ------------------------------------------------------ */

int patch_may_be(const tarn_store *store, const tarn_storage *under,
	struct patch_base *ret)
{
	const uint32_t bad = STORAGE_MUTABLE | STORAGE_DEVICE | STORAGE_REPLICA;
	const struct shared_storage *shared = store_storage_of(under);
	struct table_storage entry;

	/* A machine with larger pages cannot map one of these. */
	if (sysconf(_SC_PAGESIZE) != PATCH_PAGE)
		return 0;
	if (store->version < SOURCE_PATCH_SINCE || !shared || !under->data ||
		shared->store->instance != store->instance ||
		table_storage_get(&shared->store->table, shared->index,
			shared->generation, &entry) < 0 ||
		entry.flags & bad)
		return 0;
	if (!(entry.flags & STORAGE_OWN) &&
		pool_page_size(&shared->store->pools, shared->pool) != PAGE)
		return 0;
	if (shared->patched && shared->patched->depth >= TABLE_PATCHES_MAX)
		return 0;
	ret->lead = (uintptr_t)under->data % PAGE;
	ret->pages = (ret->lead + under->size + PAGE - 1) / PAGE;
	return ret->pages <= INT32_MAX;
}

/* At first as many as a small update has, then half as many more each time. */
#define FIRST_PAGES 64u

static int make_memory(
	struct patch_maker *m, const tarn_store *store, uint64_t size)
{
	void *map;
	int r;

	m->place = own_place_of(store);
	r = own_create(size, &m->place, &m->fd, &map);
	if (r < 0)
		return r;
	m->map = map;
	/* A child that had it mapped would keep it from being sealed. */
	madvise(map, size, MADV_DONTFORK);
	return 0;
}

static int grow(struct patch_maker *m, const tarn_store *store)
{
	uint64_t size = m->size + MAX(m->size / 2, FIRST_PAGES * PAGE);
	void *map = m->map;
	int r;

	size = size & ~(PAGE - 1);
	if (m->map) {
		r = own_grow(m->fd, &map, m->size, size, &m->place);
		m->map = map; /* it has moved, also where it could not grow */
	} else {
		r = make_memory(m, store, size);
	}
	if (r >= 0)
		m->size = size;
	return r;
}

int64_t patch_take(struct patch_maker *m, const tarn_store *store)
{
	int r = 0;

	if (((uint64_t)m->n + 1) * PAGE > m->size)
		r = grow(m, store);
	return r < 0 ? r : (int64_t)m->n++;
}

/* Behind the pages; what was populated beyond is given back. */
static int write_runs(struct patch_maker *m, const tarn_store *store,
	const struct patch_run *runs, uint32_t n_runs)
{
	const struct patch_foot foot = {.n_pages = m->n,
		.n_runs = n_runs,
		.version = PATCH_VERSION,
		.magic = PATCH_MAGIC};
	uint64_t size = patch_size(m->n, n_runs), at = (uint64_t)m->n * PAGE;
	int r = 0;

	while (r >= 0 && m->size < size)
		r = grow(m, store);
	if (r < 0)
		return r;
	memset(m->map + at, 0, size - at);
	memcpy(m->map + at, runs, n_runs * sizeof(*runs));
	memcpy(m->map + size - sizeof(foot), &foot, sizeof(foot));
	return ftruncate(m->fd, (off_t)size) < 0
		       ? tarn_fail(errno, "a memfd of %llu bytes: %s",
				 (unsigned long long)size,
				 tarn_errno_text(errno))
		       : 0;
}

static void unmap(struct patch_maker *m)
{
	if (m->map)
		munmap(m->map, m->size);
	m->map = NULL;
}

void patch_drop(struct patch_maker *m)
{
	bool there = m->map || m->sealed;

	unmap(m);
	if (there)
		fd_close(m->fd);
	*m = (struct patch_maker) {0};
}

/* The new level has no key before it is published. */
static int map_new(int fd, tarn_store *store, const tarn_storage *under,
	struct patched *p, void **ret_data)
{
	struct link top = {.key = key_of(under)};
	struct patch patch = {.runs = NULL};
	struct chain chain;
	int r = get_entry(store, &top);

	if (r >= 0)
		r = find_chain(store, top, &chain);
	if (r >= 0 && chain.n > TABLE_PATCHES_MAX)
		r = tarn_fail(EINVAL, "%u patches lie over each other already",
			TABLE_PATCHES_MAX);
	if (r >= 0)
		r = map_chain(store, &chain, p, ret_data);
	if (r >= 0)
		r = map_level(fd, &p->map, &patch);
	if (patch.runs)
		add_level(p, (struct patch_key) {0, 0}, &patch);
	return r;
}

/* Takes the memfd, unless it fails. */
static int finish(
	int fd, tarn_store *store, tarn_storage *under, tarn_storage **ret)
{
	struct patched *p = patched_alloc(true);
	void *data;
	int r = p ? map_new(fd, store, under, p, &data) : -ENOMEM;

	if (r >= 0)
		r = created_patch(fd, p, data, under, ret);
	if (r < 0)
		patched_free(p);
	return r;
}

/* Only memory that is mapped writable nowhere can be sealed: neither here nor in a
 * child that was forked in the moment when the mapping was made. */
static int seal(struct patch_maker *m, const tarn_store *store,
	const struct patch_run *runs, uint32_t n_runs)
{
	int r = m->sealed ? 0 : write_runs(m, store, runs, n_runs);

	if (r < 0)
		return r;
	unmap(m);
	m->sealed = true;
	own_seal(m->fd, false);
	return own_is_sealed(m->fd)
		       ? 0
		       : tarn_fail_constant(EBUSY,
				 "another process has the pages of this "
				 "version mapped, and could change them; "
				 "commit again when it has ended");
}

int patch_end(struct patch_maker *m, tarn_store *store, tarn_storage *under,
	const struct patch_run *runs, uint32_t n_runs, tarn_storage **ret)
{
	int r = seal(m, store, runs, n_runs);

	if (r >= 0)
		r = finish(m->fd, store, under, ret);
	if (r >= 0)
		*m = (struct patch_maker) {0};
	return r;
}
