/* SPDX-License-Identifier: MIT */
/*
 * Freeing in batches: a storage without a name is freed when no lease of its
 * own domain holds it, a thousand of them in one pass over the pages; a held
 * one waits for the notification of its holder, or the holder's end.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"
#include "daemon/server/server.h"
#include "tests/kit/lease_passes.h"
#include "tests/kit/tap.h"

#define N 1000u

/* One page, as its client and as the server maps it. */
struct side {
	int fd;
	uint32_t used; /* slots */
	struct lease_page *page, *mapped;
	struct client client;
};

static struct server server;
static struct domain domains[2];
static uint64_t generations[2][N];

static void add_client(struct domain *domain, struct side *side)
{
	*side = (struct side) {.fd = -1};
	if (lease_create(&side->fd) < 0 ||
		lease_map(side->fd, &side->page) < 0 ||
		lease_map(side->fd, &side->mapped) < 0)
		bail("%s", tarn_fail_message());
	side->client.leases = &side->mapped;
	side->client.n_leases = 1;
	side->client.next = domain->clients;
	domain->clients = &side->client;
}

static void drop_client(struct domain *domain, struct side *side)
{
	struct client **p = &domain->clients;

	while (*p != &side->client)
		p = &(*p)->next;
	*p = side->client.next;
	lease_unmap(side->page);
	lease_unmap(side->mapped);
	fd_close(side->fd);
}

static void make_domain(uint32_t number)
{
	struct domain *domain = &domains[number];
	int fd = memfd_create("tarn-test", MFD_CLOEXEC);

	*domain = (struct domain) {.server = &server, .number = number};
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		domain->account.quota.limit[kind] = UINT64_MAX;
	if (fd < 0 ||
		table_create(fd, 7, 4711, number, 0, &domain->table) < 0 ||
		table_writer_new(&domain->table, &domain->writer) < 0 ||
		alloc_new(&domain->pool.alloc) < 0 ||
		alloc_new(&domain->pool.old_alloc) < 0 ||
		alloc_add(domain->pool.alloc, 0, 2ull * N * PAGE) < 0 ||
		lease_batch_init(&domain->storages.batch) < 0)
		bail("%s", tarn_fail_message());
	fd_close(fd);
}

static void free_domain(struct domain *domain)
{
	lease_batch_done(&domain->storages.batch);
	domain->pool.alloc = alloc_free(domain->pool.alloc);
	domain->pool.old_alloc = alloc_free(domain->pool.old_alloc);
	domain->writer = table_writer_free(domain->writer);
	free(domain->storages.infos);
	name_accounts_free(&domain->names);
	table_unmap(&domain->table);
}

/* N storages of one name and a page each, numbered from 0. */
static void fill_domain(struct domain *domain)
{
	for (uint32_t i = 0; i < N; i++) {
		struct table_storage entry = {.alloc_size = PAGE, .size = PAGE};
		uint32_t index;

		if (alloc_take(domain->pool.alloc, PAGE, &entry.alloc_offset) <
				0 ||
			storage_new(domain, &entry, STORAGE_LIVE, &index,
				&generations[domain->number][i]) < 0 ||
			index >= N)
			bail("%s", tarn_fail_message());
		storage_name(domain, index, 1, 0);
		generations[domain->number][index] = storage_word_generation(
			domain->table.storages[index].word);
	}
}

static uint64_t generation(const struct domain *domain, uint32_t i)
{
	return generations[domain->number][i];
}

static enum storage_state state(const struct domain *domain, uint32_t i)
{
	return storage_word_state(domain->table.storages[i].word);
}

static unsigned in_state(const struct domain *domain, enum storage_state wanted)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < N; i++)
		n += state(domain, i) == wanted;
	return n;
}

static uint32_t take(struct domain *domain, struct side *side, uint32_t i)
{
	uint32_t slot = side->used++;

	if (lease_acquire(side->page, &domain->table, i, generation(domain, i),
		    slot) < 0)
		bail("%s", tarn_fail_message());
	return slot;
}

static void unname_all(struct domain *domain)
{
	for (uint32_t i = 0; i < N; i++)
		storage_unname(domain, i, generation(domain, i), 0);
}

/* One thousand at once, a tenth of them held: half of those by the first side,
 * whose slots are noted, half by the second. */
static void take_tenth(
	struct domain *domain, struct side sides[2], uint32_t *slots)
{
	for (uint32_t i = 0; i < N; i += 10)
		slots[i] = take(domain, &sides[i % 20 == 0], i);
}

static void test_names_go(struct domain *domain)
{
	unname_all(domain);
	is_int(N, in_state(domain, STORAGE_UNNAMED), "all names are removed");
	is_int((int64_t)(N * PAGE), (int64_t)alloc_used(domain->pool.alloc),
		"no storage is freed before the turn ends");
	n_searches = 0;
	ok(collect(domain), "a search after the turn gives memory back");
	is_int(2, n_searches, "each lease page of the domain is searched once");
	is_int(N / 10, in_state(domain, STORAGE_UNNAMED),
		"storages with a lease are not freed");
	is_int(N - N / 10, in_state(domain, STORAGE_FREE),
		"other storages are freed, though another domain's page has "
		"leases");
	is_int((int64_t)(N / 10 * PAGE),
		(int64_t)alloc_used(domain->pool.alloc),
		"the memory of the freed storages is given back");
	n_searches = 0;
	ok(!collect(domain), "a second search finds no memory");
	is_int(0, n_searches, "a second search looks at no lease page");
}

static void test_bell(struct domain *domain, struct side *side, uint32_t slot)
{
	ok(lease_release(side->page, &domain->table, slot),
		"a client releases a lease with a notification");
	storage_released_by_client(domain, 10, generation(domain, 10));
	/* One that is leased still, one that was never let go of. */
	storage_released_by_client(domain, 20, generation(domain, 20));
	storage_released_by_client(domain, 20, generation(domain, 20) + 1);
	collect(domain);
	is_int(STORAGE_FREE, state(domain, 10),
		"a notification frees the storage that it names");
	is_int(STORAGE_UNNAMED, state(domain, 20),
		"a notification frees no leased storage");
}

static void end_of(struct domain *domain, struct side *side)
{
	drop_client(domain, side);
	collect_unnamed(domain);
	collect(domain);
}

static void test_stranger(struct domain *domain, struct side *stranger)
{
	storage_released_by_client(domain, 3, generation(domain, 3));
	collect(domain);
	is_int(N, in_state(domain, STORAGE_LIVE), "a lie frees nothing");
	unname_all(domain);
	collect(domain);
	is_int(N, in_state(domain, STORAGE_UNNAMED),
		"a page with random leases holds storages of its own domain");
	end_of(domain, stranger);
	is_int(N, in_state(domain, STORAGE_FREE),
		"storages are freed when that page's client ends");
}

static void test_batch(void)
{
	struct domain *domain = &domains[0];
	struct side sides[2], stranger;
	uint32_t slots[N];
	bool leased[2];

	fill_domain(domain);
	fill_domain(&domains[1]);
	add_client(domain, &sides[0]);
	add_client(domain, &sides[1]);
	add_client(&domains[1], &stranger);
	take_tenth(domain, sides, slots);
	/* The same index and generation, of the other domain. */
	for (uint32_t i = 0; i < N; i++)
		take(&domains[1], &stranger, i);
	collect_find_leased(domain, (uint32_t[]) {0, 5}, 2, leased);
	ok(leased[0] && !leased[1], "what is leased can be asked");
	test_names_go(domain);
	test_bell(domain, &sides[0], slots[10]);
	end_of(domain, &sides[1]);
	is_int(N / 20 - 1, in_state(domain, STORAGE_UNNAMED),
		"the end of a client frees what it held");
	end_of(domain, &sides[0]);
	is_int(N, in_state(domain, STORAGE_FREE),
		"the end of the other client frees what it held");
	is_int(0, (int64_t)alloc_used(domain->pool.alloc),
		"all memory is given back");
	test_stranger(&domains[1], &stranger);
}

/* Let go of, and named again before anybody looked, or after. */
static void test_revival(void)
{
	struct domain *domain = &domains[0];
	struct side side;

	fill_domain(domain);
	add_client(domain, &side);
	take(domain, &side, 7);
	storage_unname(domain, 3, generation(domain, 3), 0);
	storage_unname(domain, 7, generation(domain, 7), 0);
	storage_name(domain, 3, 1, 0);
	collect(domain);
	is_int(STORAGE_LIVE, state(domain, 3),
		"a storage with a name is not freed");
	is_int(STORAGE_UNNAMED, state(domain, 7),
		"a lease alone holds a storage");
	storage_name(domain, 7, 1, 0);
	is_int(STORAGE_LIVE, state(domain, 7), "a storage gets a name again");
	end_of(domain, &side);
	is_int(N, in_state(domain, STORAGE_LIVE),
		"a storage with a new name outlives its lease");
	unname_all(domain);
	collect(domain);
	is_int(N, in_state(domain, STORAGE_FREE),
		"a storage is freed when its new name is removed");
}

int main(void)
{
	make_domain(0);
	make_domain(1);
	test_batch();
	test_revival();
	free_domain(&domains[0]);
	free_domain(&domains[1]);
	return done(24);
}
