/* SPDX-License-Identifier: MIT */
/*
 * Many small files make room for one request: the pages of all clients are
 * searched a few times for all of them, not twice for each, since everybody
 * waits meanwhile. The files go in their order, held ones stay, and a request
 * that needs a search too soon after a long one waits in the queue for memory.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"
#include "daemon/server/server.h"
#include "tests/kit/lease_passes.h"
#include "tests/kit/tap.h"

#define N 1000u
#define CLIENTS 4u
#define HELD 500u       /* leased */
#define USED_LATE 0u    /* loaded first, released last */
#define FEW_SEARCHES 12 /* of each page; one by one it would be 2,000 */
#define LATER_NS 3600000000000ull
#define SECOND_NS 1000000000ull

static struct server server = {.serving = true};
static struct domain domain = {.server = &server};
static struct client clients[CLIENTS];
static struct lease_page *pages[CLIENTS];
static uint64_t generations[N];
static int n_called, called_with;

static void add_client(uint32_t i)
{
	int fd = -1;

	if (lease_create(&fd) < 0 || lease_map(fd, &pages[i]) < 0)
		bail("%s", tarn_fail_message());
	fd_close(fd);
	clients[i].domain = &domain;
	clients[i].leases = &pages[i];
	clients[i].n_leases = 1;
	client_join(&clients[i], &domain);
}

static void add_file(uint32_t i)
{
	struct table_storage entry = {.alloc_size = PAGE,
		.size = PAGE,
		.file = {.ino = i + 1},
		.flags = STORAGE_KEPT};
	uint32_t index;

	if (alloc_take(domain.pool.alloc, PAGE, &entry.alloc_offset) < 0 ||
		storage_new(&domain, &entry, STORAGE_LIVE, &index,
			&generations[i]) < 0 ||
		index != i)
		bail("a storage: %s", tarn_fail_message());
	cache_keep(&domain, index);
}

static void begin(void)
{
	_cleanup_fd_ int fd = memfd_create("region", MFD_CLOEXEC);

	domain = (struct domain) {.server = &server};
	memset(clients, 0, sizeof(clients));
	memset(&domain.account.quota, 0xff, sizeof(domain.account.quota));
	if (table_create(fd, 7, 8, 0, 0, &domain.table) < 0 ||
		lease_batch_init(&domain.storages.batch) < 0 ||
		table_writer_new(&domain.table, &domain.writer) < 0 ||
		alloc_new(&domain.pool.alloc) < 0 ||
		alloc_new(&domain.pool.old_alloc) < 0 ||
		alloc_add(domain.pool.alloc, 0, (uint64_t)N * PAGE) < 0)
		bail("a domain: %s", tarn_fail_message());
	server.domains = &domain;
	server.turns.n_users = 0;
	for (uint32_t i = 0; i < CLIENTS; i++)
		add_client(i);
	for (uint32_t i = 0; i < N; i++)
		add_file(i);
	n_searches = 0;
	n_called = 0;
}

static void end(void)
{
	struct deadlines *all = loop_deadlines(server.loop);

	deadline_set(all, &domain.storages.next_evict, 0);
	deadline_set(all, &domain.storages.next_collect, 0);
	cache_free(&domain);
	lease_batch_done(&domain.storages.batch);
	domain.writer = table_writer_free(domain.writer);
	domain.pool.alloc = alloc_free(domain.pool.alloc);
	domain.pool.old_alloc = alloc_free(domain.pool.old_alloc);
	table_unmap(&domain.table);
	for (uint32_t i = 0; i < CLIENTS; i++)
		lease_unmap(pages[i]);
	free(domain.storages.infos);
	name_accounts_free(&domain.names);
}

static void hold(uint32_t i)
{
	if (lease_acquire(pages[0], &domain.table, i, generations[i], 0) < 0)
		bail("%s", tarn_fail_message());
	atomic_store(&pages[0]->used, 1);
}

static uint64_t n_cached(void)
{
	return domain.storages.counts.kinds[KIND_CACHED].n;
}

static bool is_kept(uint32_t i)
{
	return cache_has(&domain, i, generations[i]);
}

static void searched_rarely(const char *what)
{
	ok(n_searches <= FEW_SEARCHES * CLIENTS,
		"%s: each page is searched a few times for all files", what);
	diag("%s: %u searches of %u pages", what, n_searches, CLIENTS);
}

static void called(struct memory_wait *wait, int error)
{
	(void)wait;
	n_called++;
	called_with = error;
}

/* ---- the quota ------------------------------------------------------------ */

/* The files' owner may have N storages, and wants some more. */
static int want_storages(uint64_t n, struct memory_wait *wait)
{
	const uint64_t want[QUOTA_KINDS] = {[QUOTA_STORAGES] = n};

	domain.account.quota.limit[QUOTA_STORAGES] = N;
	return storage_fit_quota(&domain, want, wait);
}

static void test_quota(void)
{
	begin();
	hold(HELD);
	storage_used(&domain, USED_LATE);
	is_int(0, want_storages(N - 2, NULL),
		"a request for all but two storages of a quota succeeds");
	is_int(2, (int64_t)n_cached(), "as many files go as are needed");
	ok(is_kept(HELD), "the held file stays");
	ok(is_kept(USED_LATE), "the file that was used last stays");
	searched_rarely("the quota of storages");
	end();
}

static void test_part(void)
{
	bool in_order = true;

	begin();
	is_int(0, want_storages(N / 2, NULL),
		"a request for half of a quota succeeds");
	for (uint32_t i = 0; i < N; i++)
		in_order &= is_kept(i) == (i >= N / 2);
	ok(in_order, "the half that was used longest ago goes");
	end();
}

/* ---- memory ---------------------------------------------------------------- */

/* The keeper has none, and the budget is used up: only the pool's own files
 * are left. */
static void refuse_growth(struct memory_wait *wait, uint64_t size)
{
	*wait = (struct memory_wait) {.domain = &domain,
		.user = &domain,
		.done = called,
		.size = size};
	domain.growth.asker = wait;
	domain.growth.asked.whole = size;
	tarn_fail(ENOSPC, "the keeper has no memory");
	memory_grown(&domain, -ENOSPC, &(struct msg_grown) {0});
}

static void test_memory(void)
{
	struct memory_wait wait;

	begin();
	refuse_growth(&wait, (uint64_t)N * PAGE);
	is_int(1, n_called, "the request is called back");
	is_int(0, called_with, "all files make room for one request");
	is_int(0, (int64_t)n_cached(), "no file is left");
	searched_rarely("the memory of a pool");
	memory_cancel(&wait);
	end();
	begin();
	refuse_growth(&wait, PAGE);
	is_int(N - 1, (int64_t)n_cached(),
		"a request for a page costs a single file");
	memory_cancel(&wait);
	end();
}

/* ---- a share of the time ---------------------------------------------------- */

static void set_next(uint64_t at)
{
	deadline_set(
		loop_deadlines(server.loop), &domain.storages.next_evict, at);
}

static void test_alone(void)
{
	begin();
	set_next(loop_now() + LATER_NS);
	server.turns.n_users = 1;
	is_int(0, (int64_t)evict_at(&server, NULL),
		"a user without others waits for nobody's turn");
	end();
}

/* For hours it searched again and again, each time for a second. */
static void test_after_long(void)
{
	begin();
	server.turns.n_users = 1;
	for (int i = 0; i < 3600; i++)
		evict_spent(&domain, loop_now() - SECOND_NS);
	server.turns.n_users = 2;
	ok(evict_at(&server, NULL) <= loop_now() + 20 * SECOND_NS,
		"a second user waits for the last of its searches, not for "
		"all");
	end();
}

static void test_turn(void)
{
	struct memory_wait wait = {
		.domain = &domain, .user = &domain, .done = called};

	begin();
	server.turns.n_users = 2;
	set_next(loop_now() + LATER_NS);
	is_int(MEMORY_LATER, want_storages(1, &wait),
		"a request that needs a search too soon waits");
	ok(wait.queued, "it waits in the queue for memory");
	memory_serve(&server);
	is_int(0, n_called, "the request is not called back before its turn");
	is_int(N, (int64_t)n_cached(), "no file goes before its turn");
	is_int(0, n_searches, "nothing is searched before its turn");
	set_next(0);
	wait.resume_at = 1;
	server.memory.changed = true;
	memory_serve(&server);
	is_int(1, n_called, "the request is called back in its turn");
	is_int(0, want_storages(1, &wait), "then it succeeds");
	is_int(N - 1, (int64_t)n_cached(), "a single file goes for it");
	memory_cancel(&wait);
	end();
}

static void test_turn_of_pool(void)
{
	struct memory_wait wait;

	begin();
	server.turns.n_users = 2;
	set_next(loop_now() + LATER_NS);
	refuse_growth(&wait, PAGE);
	is_int(0, n_called, "a request for memory is not refused meanwhile");
	is_int(N, (int64_t)n_cached(), "no file goes for it before its turn");
	ok(wait.resume_at > loop_now(), "it knows when its turn is");
	end();
}

int main(void)
{
	if (loop_new(&server.loop) < 0)
		bail("%s", tarn_fail_message());
	test_quota();
	test_part();
	test_memory();
	test_alone();
	test_after_long();
	test_turn();
	test_turn_of_pool();
	loop_free(server.loop);
	return done(25);
}
