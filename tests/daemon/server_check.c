/* SPDX-License-Identifier: MIT */
/*
 * self_check() finds nothing in books that are right, and each way in which
 * they can differ from the table: a server that miscounts is found out before
 * it frees what somebody reads, or keeps what nobody does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server/server.h"
#include "shm/table_check.h"
#include "tests/kit/lease_passes.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)

static struct server server;
static struct domain domain = {.server = &server};

static uint32_t add_storage(enum storage_state state, uint64_t size)
{
	struct table_storage entry = {.size = size, .alloc_size = size};
	uint64_t generation;
	uint32_t index;

	if (alloc_take(domain.pool.alloc, size, &entry.alloc_offset) < 0)
		bail("the pool is full");
	entry.base = entry.alloc_offset;
	if (storage_new(&domain, &entry, state, &index, &generation) < 0)
		bail("a storage: %s", tarn_fail_message());
	return index;
}

static void put_name(const char *name, uint32_t index)
{
	const struct table_storage *entry = &domain.table.storages[index];
	struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = 7,
		.storage = index,
		.generation = storage_word_generation(entry->word),
		.base = entry->base,
		.size = entry->size,
		.dtype = TARN_U8};

	table_begin(domain.writer);
	table_stamp(domain.writer, 0, 0);
	if (table_put(domain.writer, name, strlen(name), &d, NULL) < 0)
		bail("%s: %s", name, tarn_fail_message());
	storage_name(&domain, index, 1, 0);
	table_commit(domain.writer, NULL, NULL);
}

/* Storages 0 and 1: named, kept as a file. */
static void make_domain(void)
{
	struct table_pool pool = {.page_shift = 12, .reach = 64 * MIB};
	_cleanup_fd_ int fd = memfd_create("region", MFD_CLOEXEC);
	int r = table_create(fd, 7, 8, 0, 0, &domain.table);

	if (r == 0)
		r = lease_batch_init(&domain.storages.batch);
	if (r == 0)
		r = table_writer_new(&domain.table, &domain.writer);
	if (r == 0)
		r = alloc_new(&domain.pool.alloc);
	if (r == 0)
		r = alloc_new(&domain.pool.old_alloc);
	if (r == 0)
		r = table_add_pool(domain.writer, &pool);
	if (r == 0)
		r = table_add_segment(domain.writer, 0, 0, 0, 0, MIB);
	if (r == 0)
		r = alloc_add(domain.pool.alloc, 0, MIB);
	if (r < 0)
		bail("a domain: %s", tarn_fail_message());
	domain.pool.n_segments = 1;
	server.domains = &domain;
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		domain.account.quota.limit[kind] = UINT64_MAX;
	put_name("a", add_storage(STORAGE_LIVE, 8192));
	put_name("b", 0);
	cache_keep(&domain, add_storage(STORAGE_LIVE, 4096));
}

static void free_domain(void)
{
	cache_free(&domain);
	lease_batch_done(&domain.storages.batch);
	table_writer_free(domain.writer);
	alloc_free(domain.pool.alloc);
	alloc_free(domain.pool.old_alloc);
	table_unmap(&domain.table);
	free(domain.storages.infos);
	name_accounts_free(&domain.names);
}

static void is_found(const char *words, const char *what)
{
	struct faults faults = {0};
	struct msg_checked sum = {0};
	bool found = false;

	if (self_check(&server, NULL, &faults, &sum) < 0)
		bail("%s: %s", what, tarn_fail_message());
	for (uint32_t i = 0; i < faults.n; i++)
		found |= words && strstr(faults.lines[i], words);
	if (!ok(words ? found : !faults.n, "the check finds: %s", what))
		for (uint32_t i = 0; i < faults.n; i++)
			diag("seen: %s", faults.lines[i]);
	if (!words) {
		is_int(2, (int64_t)sum.names, "the check counts two names");
		is_int(2, (int64_t)sum.storages,
			"the check counts two storages");
		is_int(12288, (int64_t)sum.bytes,
			"the bytes of the two storages are counted");
	}
	faults_clear(&faults);
}

#define WHILE(place, value, words, what)                                       \
	do {                                                                   \
		__typeof__(place) _before = (place);                           \
		(place) = (value);                                             \
		is_found(words, what);                                         \
		(place) = _before;                                             \
	} while (0)

static void test_books(void)
{
	struct storage_info *info = domain.storages.infos;
	struct domain_counts *counts = &domain.storages.counts;

	WHILE(info[0].names, 3, "the server counts 3", "a name too many");
	WHILE(counts->device, 5, "counts 0 of 5",
		"bytes of devices that no storage has");
	WHILE(counts->n_device, 1, "counts 1 of 0",
		"a storage on a device that is none");
	WHILE(domain.table.storages[0].flags, STORAGE_OWN,
		"its descriptor is not kept",
		"a storage whose descriptor is lost");
	WHILE(info[0].names, 0, "the server counts 0", "names not counted");
	WHILE(info[1].cached, false, "nothing holds its 4096",
		"a live storage that nobody holds");
	WHILE(info[1].kind, KIND_NAMED, "counted as kind", "a wrong kind");
	WHILE(counts->kinds[KIND_NAMED].n, 2, "kind 2", "a sum");
	WHILE(counts->kinds[KIND_CACHED].bytes, 0, "kind 3", "a sum of bytes");
	WHILE(domain.storages.lists[KIND_CACHED].first, 0, "0 are listed",
		"a list");
	WHILE(domain.cache.n, 5, "it counts 5", "the cache");
	WHILE(domain.pool.n_segments, 0, "1 segments in the table", "segments");
	WHILE(domain.names.v[0].n, 7, "2 are uid 0's, the server counts 7",
		"whose names they are");
}

static void test_accounts(void)
{
	WHILE(domain.account.used[QUOTA_LOADS], 3,
		"has 0 loads, and is charged for 3", "a load that has ended");
	WHILE(domain.account.used[QUOTA_DESCRIPTORS], 2,
		"has 0 descriptors, and is charged for 2",
		"descriptors that nobody has");
	WHILE(domain.account.used[QUOTA_REQUESTS], UINT64_MAX,
		"has 0 requests, and is charged for 18446744073709551615",
		"a message that was given back twice");
	WHILE(domain.account.awaited[QUOTA_BYTES], 4096,
		"awaits 0 bytes, the server counts 4096",
		"memory that nobody awaits");
	WHILE(domain.account.n_in_flight, 2,
		"0 descriptors are in flight, the server counts 2",
		"descriptors in flight to nobody");
	WHILE(domain.account.n_connected, 1,
		"0 clients are connected, the server counts 1",
		"a client that has left");
	WHILE(domain.account.admitted.n[ADMISSION_LOADS], 1,
		"0 loads are admitted, the server counts 1",
		"a load that is not under way");
	WHILE(domain.account.admitted.waiting, 1,
		"0 descriptors wait for their turn, the server counts 1",
		"a request that does not wait");
	WHILE(server.n_publishes, 1,
		"0 publications are under way, the server counts 1",
		"a publication that has ended");
	WHILE(server.in_flight.n, 5,
		"0 descriptors are in flight, the server counts 5",
		"descriptors in flight that no user has");
	WHILE(server.turns.n_users, 1,
		"0 users are connected, the server counts 1",
		"a user that has left");
	WHILE(server.admissions.n_waiting[ADMISSION_LOADS], 1,
		"0 requests wait for their turn, the server counts 1",
		"a load that waits for nothing");
	WHILE(domain.growth.n_waits, 1,
		"0 requests wait for memory, the server counts 1",
		"a request that waits for no memory");
}

static void test_memory(void)
{
	uint64_t offset;

	WHILE(domain.account.used[QUOTA_NAMES], 9, "is charged for 9",
		"an account");
	WHILE(domain.account.used[QUOTA_BYTES], 4096, "has 12288 bytes",
		"its bytes");
	alloc_take(domain.pool.alloc, 4096, &offset);
	is_found("12288 bytes, 16384 are taken", "bytes that are lost");
	alloc_give(domain.pool.alloc, offset, 4096);
	alloc_give(domain.pool.alloc, domain.table.storages[1].base, 4096);
	is_found("12288 bytes, 8192 are taken", "bytes that are free twice");
	alloc_take_at(domain.pool.alloc, domain.table.storages[1].base, 4096);
	alloc_add(domain.pool.alloc, MIB, MIB);
	is_found("the server counts 2097152", "a segment too many");
	alloc_take_at(domain.pool.alloc, MIB, MIB);
}

static void test_states(void)
{
	uint32_t i = add_storage(STORAGE_FILLING, 4096);

	is_found("being filled, by nobody", "a load that is forgotten");
	storage_set(&domain, i, STORAGE_UNNAMED);
	is_found("no name and no lease", "bytes that nobody holds");
	domain.table.storages[i].flags |= STORAGE_QUARANTINE;
	storage_recount(&domain, i);
	is_found("which is gone", "a quarantine without an end");
	/* And what the table itself says, from inside too. */
	domain.table.storages[0].size += 4096;
	is_found("taken for it", "a storage larger than its memory");
}

/* ---- its share of the time ------------------------------------------------ */

#define SLOW_US 20000u
#define SHARE 10u

/* A client makes the search for leases slow, and a release stay under way. */
static void test_share(void)
{
	static struct client client = {.domain = &domain, .user = &domain};
	struct deadline *turn = &domain.account.checks.turn;
	struct lease_page *page;
	_cleanup_fd_ int fd = -1;
	uint64_t at;

	storage_set(&domain, add_storage(STORAGE_LIVE, 4096), STORAGE_UNNAMED);
	if (lease_create(&fd) < 0 || lease_map(fd, &page) < 0 ||
		loop_new(&server.loop) < 0)
		bail("a client: %s", tarn_fail_message());
	client.leases = &page;
	client.n_leases = 1;
	client_join(&client, &domain);
	search_us = SLOW_US;
	if (check_take(&client, 1) < 0)
		bail("a check: %s", tarn_fail_message());
	at = loop_now();
	deadlines_run(loop_deadlines(server.loop), at);
	ok(n_searches > 0, "a check that is asked for looks at the leases");
	ok(turn->at >= at + (1 + SHARE) * SLOW_US * 1000ull,
		"a check that is put off leaves others their time");
	check_orphan(&client);
	is_int(0, (int64_t)turn->at, "a check for nobody is not made");
	client_leave(&client);
	search_us = 0;
	lease_unmap(page);
	loop_free(server.loop);
}

int main(void)
{
	make_domain();
	is_found(NULL, "books that are right");
	test_books();
	test_accounts();
	test_memory();
	test_states();
	test_share();
	free_domain();
	return done(42);
}
