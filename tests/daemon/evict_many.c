/* SPDX-License-Identifier: MIT */
/*
 * Many files that are all in use: the search for one that is not takes a few
 * passes over the leases, not one for each file, since all clients wait
 * meanwhile. And the file that it finds is the right one.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server/server.h"
#include "tests/kit/lease_passes.h"
#include "tests/kit/tap.h"

#define FILES 40000u
#define OTHER 7u /* the uid of every tenth */
#define PASSES 16u

static struct server server;
static struct domain domain = {.server = &server};
static struct client client = {.domain = &domain};
static struct lease_page *page;
static const struct evict_limit one = {.n = 1, .bytes = UINT64_MAX};

static void add_file(uint32_t i)
{
	struct table_storage entry = {.owner = i % 10 ? 0 : OTHER,
		.file = {.ino = i + 1},
		.flags = STORAGE_KEPT};
	uint64_t generation;
	uint32_t index;

	if (storage_new(&domain, &entry, STORAGE_LIVE, &index, &generation) < 0)
		bail("a storage: %s", tarn_fail_message());
	cache_keep(&domain, index);
	atomic_store(&page->slots[i], lease_word(index, generation));
}

static void make_domain(void)
{
	_cleanup_fd_ int fd = memfd_create("region", MFD_CLOEXEC);
	int lease = -1, r = table_create(fd, 7, 8, 0, 0, &domain.table);

	if (r == 0)
		r = lease_batch_init(&domain.storages.batch);
	if (r == 0)
		r = table_writer_new(&domain.table, &domain.writer);
	if (r == 0)
		r = alloc_new(&domain.pool.alloc);
	if (r == 0)
		r = lease_create(&lease);
	if (r == 0)
		r = lease_map(lease, &page);
	if (r < 0)
		bail("a domain: %s", tarn_fail_message());
	fd_close(lease);
	server.domains = &domain;
	memset(&domain.account.quota, 0xff, sizeof(domain.account.quota));
	client.leases = &page;
	client.n_leases = 1;
	client_join(&client, &domain);
	atomic_store(&page->used, FILES);
	for (uint32_t i = 0; i < FILES; i++)
		add_file(i);
}

static void free_domain(void)
{
	cache_free(&domain);
	lease_batch_done(&domain.storages.batch);
	table_writer_free(domain.writer);
	alloc_free(domain.pool.alloc);
	table_unmap(&domain.table);
	lease_unmap(page);
	free(domain.storages.infos);
	name_accounts_free(&domain.names);
}

static void is_quick(const char *what)
{
	ok(n_searches > 0 && n_searches <= PASSES,
		"%s: the search takes few passes over the leases: %u", what,
		n_searches);
	n_searches = 0;
}

static void test_all_held(void)
{
	is_int(UINT32_MAX, cache_look(&domain, OWNER_ANY, &one),
		"no file is evicted when all are held");
	is_quick("the oldest of all files");
	is_int(UINT32_MAX, cache_look(&domain, OTHER, &one),
		"no file of one user is evicted when all are held");
	is_quick("the oldest file of one user");
	cache_evict_idle(&domain, loop_now());
	is_int(FILES, (int64_t)domain.storages.counts.kinds[KIND_CACHED].n,
		"no held file is evicted for being idle");
	is_quick("the idle files");
}

/* Let go of by their holder. */
static void test_some_free(void)
{
	uint32_t i;

	atomic_store(&page->slots[30001], 0);
	atomic_store(&page->slots[30010], 0);
	is_int(30010, cache_look(&domain, OTHER, &one),
		"the evicted file is the oldest of that user");
	is_int(0, (int64_t)page->slots[cache_look(&domain, OWNER_ANY, &one)],
		"the evicted file is the oldest of all");
	/* The segments of a pool that grows stay: nothing would come of it. */
	domain.growth.growing = true;
	is_int(0, (int64_t)reclaim_give(&server, 1 << 20),
		"a pool that grows has no memory to reclaim");
	is_int(FILES, (int64_t)domain.storages.counts.kinds[KIND_CACHED].n,
		"a pool that grows evicts no file");
	domain.growth.growing = false;
	cache_evict_idle(&domain, loop_now());
	is_int(FILES - 2, (int64_t)domain.storages.counts.kinds[KIND_CACHED].n,
		"the remaining idle files are evicted");
	for (i = 0; i < FILES; i++)
		if (!domain.storages.infos[i].cached != !page->slots[i])
			break;
	is_int(FILES, i, "no held file is evicted");
}

int main(void)
{
	if (loop_new(&server.loop) < 0)
		bail("%s", tarn_fail_message());
	make_domain();
	test_all_held();
	test_some_free();
	free_domain();
	loop_free(server.loop);
	return done(12);
}
