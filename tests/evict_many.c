/* SPDX-License-Identifier: MIT */
/*
 * Many files that are all in use: looking for one that is not takes a few
 * passes over the leases, not one for each file, since everybody waits
 * meanwhile. And what is found is what should be.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server.h"
#include "tests/tap.h"

#define FILES 40000u
#define OTHER 7u                /* the uid of every tenth */
#define ENOUGH_NS 1000000000ull /* of CPU; a pass for each takes a minute */

static struct server server;
static struct rule rule = {.server = &server};
static struct client client = {.rule = &rule};
static struct lease_page *page;

static void add_file(uint32_t i)
{
	struct table_storage entry = {
		.owner = i % 10 ? 0 : OTHER, .file_ino = i + 1};
	uint64_t generation;
	uint32_t index;

	if (storage_new(&rule, &entry, STORAGE_LIVE, &index, &generation) < 0)
		bail("a storage: %s", tarn_fail_message());
	cache_keep(&rule, index);
	atomic_store(&page->slots[i], lease_word(index, generation));
}

static void make_rule(void)
{
	_cleanup_fd_ int fd = memfd_create("region", MFD_CLOEXEC);
	int lease = -1, r = table_create(fd, 7, 8, 0, 0, &rule.table);

	if (r == 0)
		r = lease_batch_init(&rule.batch);
	if (r == 0)
		r = table_writer_new(&rule.table, &rule.writer);
	if (r == 0)
		r = alloc_new(&rule.alloc);
	if (r == 0)
		r = lease_create(&lease);
	if (r == 0)
		r = lease_map(lease, &page);
	if (r < 0)
		bail("a rule: %s", tarn_fail_message());
	fd_close(lease);
	server.rules = &rule;
	memset(&rule.quota, 0xff, sizeof(rule.quota));
	client.leases = &page;
	client.n_leases = 1;
	client_join(&client, &rule);
	atomic_store(&page->used, FILES);
	for (uint32_t i = 0; i < FILES; i++)
		add_file(i);
}

static void free_rule(void)
{
	cache_free(&rule);
	lease_batch_done(&rule.batch);
	table_writer_free(rule.writer);
	alloc_free(rule.alloc);
	table_unmap(&rule.table);
	lease_unmap(page);
	free(rule.infos);
	name_accounts_free(&rule.names);
}

static uint64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void is_quick(uint64_t began, const char *what)
{
	uint64_t took = cpu_now() - began;

	ok(took < ENOUGH_NS, "%s: quick", what);
	diag("%s: %.1f ms", what, (double)took / 1e6);
}

static void test_all_held(void)
{
	uint64_t began = cpu_now();

	is_int(UINT32_MAX, cache_oldest(&rule, OWNER_ANY),
		"there is none to go");
	is_quick(began, "the oldest of all");
	began = cpu_now();
	is_int(UINT32_MAX, cache_oldest(&rule, OTHER), "nor of one user");
	is_quick(began, "the oldest of one");
	began = cpu_now();
	cache_evict_idle(&rule, loop_now());
	is_int(FILES, (int64_t)rule.counts.kinds[KIND_CACHED].n,
		"nor for being idle");
	is_quick(began, "the idle ones");
}

/* Let go of by their holder. */
static void test_some_free(void)
{
	uint32_t i;

	atomic_store(&page->slots[30001], 0);
	atomic_store(&page->slots[30010], 0);
	is_int(30010, cache_oldest(&rule, OTHER), "the one of that user");
	is_int(0, (int64_t)page->slots[cache_oldest(&rule, OWNER_ANY)],
		"one of all");
	/* The segments of a pool that grows stay: nothing would come of it. */
	rule.growing = true;
	is_int(0, (int64_t)room_give(&server, 1 << 20),
		"a pool that grows gives nothing");
	is_int(FILES, (int64_t)rule.counts.kinds[KIND_CACHED].n,
		"nor does it cost a file");
	rule.growing = false;
	cache_evict_idle(&rule, loop_now());
	is_int(FILES - 2, (int64_t)rule.counts.kinds[KIND_CACHED].n,
		"the rest goes for being idle");
	for (i = 0; i < FILES; i++)
		if (!rule.infos[i].cached != !page->slots[i])
			break;
	is_int(FILES, i, "and nothing that is held");
}

int main(void)
{
	make_rule();
	test_all_held();
	test_some_free();
	free_rule();
	return done();
}
