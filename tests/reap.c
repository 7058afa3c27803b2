/* SPDX-License-Identifier: MIT */
/*
 * Freeing in batches: what loses its last name goes when no lease of its own
 * rule holds it, a thousand of them in one pass over the pages; what is held
 * waits for the bell of its holder, or his end.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server.h"
#include "tests/tap.h"

#define N 1000u
#define PAGE 4096u

/* One page, as its client and as the server maps it. */
struct side {
	int fd;
	uint32_t used; /* slots */
	struct lease_page *page, *mapped;
	struct client client;
};

static struct server server;
static struct rule rules[2];
static uint64_t generations[2][N];

/* Counts the passes: linked instead of the original. */
static unsigned n_searches;
void __real_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
void __wrap_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
void __wrap_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page)
{
	n_searches++;
	__real_lease_batch_search(batch, page);
}

static void add_client(struct rule *rule, struct side *side)
{
	*side = (struct side) {.fd = -1};
	if (lease_create(&side->fd) < 0 ||
		lease_map(side->fd, &side->page) < 0 ||
		lease_map(side->fd, &side->mapped) < 0)
		bail("%s", tarn_fail_message());
	side->client.leases = &side->mapped;
	side->client.n_leases = 1;
	side->client.next = rule->clients;
	rule->clients = &side->client;
}

static void drop_client(struct rule *rule, struct side *side)
{
	struct client **p = &rule->clients;

	while (*p != &side->client)
		p = &(*p)->next;
	*p = side->client.next;
	lease_unmap(side->page);
	lease_unmap(side->mapped);
	fd_close(side->fd);
}

static void make_rule(uint32_t number)
{
	struct rule *rule = &rules[number];
	int fd = memfd_create("tarn-test", MFD_CLOEXEC);

	*rule = (struct rule) {.server = &server, .number = number};
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		rule->quota.limit[kind] = UINT64_MAX;
	if (fd < 0 || table_create(fd, 7, 4711, number, 0, &rule->table) < 0 ||
		table_writer_new(&rule->table, &rule->writer) < 0 ||
		alloc_new(&rule->alloc) < 0 || alloc_new(&rule->frozen) < 0 ||
		alloc_add(rule->alloc, 0, 2ull * N * PAGE) < 0 ||
		lease_batch_init(&rule->batch) < 0)
		bail("%s", tarn_fail_message());
	fd_close(fd);
}

static void free_rule(struct rule *rule)
{
	lease_batch_done(&rule->batch);
	rule->alloc = alloc_free(rule->alloc);
	rule->frozen = alloc_free(rule->frozen);
	rule->writer = table_writer_free(rule->writer);
	free(rule->infos);
	name_accounts_free(&rule->names);
	table_unmap(&rule->table);
}

/* N storages of one name and a page each, numbered from 0. */
static void fill_rule(struct rule *rule)
{
	for (uint32_t i = 0; i < N; i++) {
		struct table_storage entry = {.alloc_size = PAGE, .size = PAGE};
		uint32_t index;

		if (alloc_take(rule->alloc, PAGE, &entry.alloc_offset) < 0 ||
			storage_new(rule, &entry, STORAGE_LIVE, &index,
				&generations[rule->number][i]) < 0 ||
			index >= N)
			bail("%s", tarn_fail_message());
		storage_name(rule, index, 1, TABLE_NOBODY);
		generations[rule->number][index] = storage_word_generation(
			rule->table.storages[index].word);
	}
}

static uint64_t generation(const struct rule *rule, uint32_t i)
{
	return generations[rule->number][i];
}

static enum storage_state state(const struct rule *rule, uint32_t i)
{
	return storage_word_state(rule->table.storages[i].word);
}

static unsigned in_state(const struct rule *rule, enum storage_state wanted)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < N; i++)
		n += state(rule, i) == wanted;
	return n;
}

static uint32_t take(struct rule *rule, struct side *side, uint32_t i)
{
	uint32_t slot = side->used++;

	if (lease_acquire(
		    side->page, &rule->table, i, generation(rule, i), slot) < 0)
		bail("%s", tarn_fail_message());
	return slot;
}

static void unname_all(struct rule *rule)
{
	for (uint32_t i = 0; i < N; i++)
		storage_unname(rule, i, generation(rule, i), TABLE_NOBODY);
}

/* One thousand at once, a tenth of them held: half of those by the first side,
 * whose slots are noted, half by the second. */
static void take_tenth(struct rule *rule, struct side sides[2], uint32_t *slots)
{
	for (uint32_t i = 0; i < N; i += 10)
		slots[i] = take(rule, &sides[i % 20 == 0], i);
}

static void test_names_go(struct rule *rule)
{
	unname_all(rule);
	is_int(N, in_state(rule, STORAGE_UNNAMED), "all names went");
	is_int((int64_t)(N * PAGE), (int64_t)alloc_used(rule->alloc),
		"and nothing is free before the turn ends");
	n_searches = 0;
	ok(reap(rule), "then memory comes back");
	is_int(2, n_searches, "for one look at each page of the rule");
	is_int(N / 10, in_state(rule, STORAGE_UNNAMED), "what is held stays");
	is_int(N - N / 10, in_state(rule, STORAGE_FREE),
		"the rest is free, though another rule's client claims it");
	is_int((int64_t)(N / 10 * PAGE), (int64_t)alloc_used(rule->alloc),
		"its memory too");
	n_searches = 0;
	ok(!reap(rule), "nothing more is to be had");
	is_int(0, n_searches, "nor is anything looked at");
}

static void test_bell(struct rule *rule, struct side *side, uint32_t slot)
{
	ok(lease_release(side->page, &rule->table, slot), "a bell");
	storage_released_by_client(rule, 10, generation(rule, 10));
	/* One that is leased still, one that was never let go of. */
	storage_released_by_client(rule, 20, generation(rule, 20));
	storage_released_by_client(rule, 20, generation(rule, 20) + 1);
	reap(rule);
	is_int(STORAGE_FREE, state(rule, 10), "frees what it was about");
	is_int(STORAGE_UNNAMED, state(rule, 20), "and nothing else");
}

static void end_of(struct rule *rule, struct side *side)
{
	drop_client(rule, side);
	reap_unnamed(rule);
	reap(rule);
}

static void test_stranger(struct rule *rule, struct side *stranger)
{
	storage_released_by_client(rule, 3, generation(rule, 3));
	reap(rule);
	is_int(N, in_state(rule, STORAGE_LIVE), "a lie frees nothing");
	unname_all(rule);
	reap(rule);
	is_int(N, in_state(rule, STORAGE_UNNAMED),
		"in its own rule the stranger's leases count");
	end_of(rule, stranger);
	is_int(N, in_state(rule, STORAGE_FREE), "until it ends");
}

static void test_batch(void)
{
	struct rule *rule = &rules[0];
	struct side sides[2], stranger;
	uint32_t slots[N];
	bool leased[2];

	fill_rule(rule);
	fill_rule(&rules[1]);
	add_client(rule, &sides[0]);
	add_client(rule, &sides[1]);
	add_client(&rules[1], &stranger);
	take_tenth(rule, sides, slots);
	/* The same index and generation, of the other rule. */
	for (uint32_t i = 0; i < N; i++)
		take(&rules[1], &stranger, i);
	reap_find_leased(rule, (uint32_t[]) {0, 5}, 2, leased);
	ok(leased[0] && !leased[1], "what is leased can be asked");
	test_names_go(rule);
	test_bell(rule, &sides[0], slots[10]);
	end_of(rule, &sides[1]);
	is_int(N / 20 - 1, in_state(rule, STORAGE_UNNAMED),
		"the end of a client frees what it held");
	end_of(rule, &sides[0]);
	is_int(N, in_state(rule, STORAGE_FREE), "of the other one too");
	is_int(0, (int64_t)alloc_used(rule->alloc), "no byte is lost");
	test_stranger(&rules[1], &stranger);
}

/* Let go of, and named again before anybody looked, or after. */
static void test_revival(void)
{
	struct rule *rule = &rules[0];
	struct side side;

	fill_rule(rule);
	add_client(rule, &side);
	take(rule, &side, 7);
	storage_unname(rule, 3, generation(rule, 3), TABLE_NOBODY);
	storage_unname(rule, 7, generation(rule, 7), TABLE_NOBODY);
	storage_name(rule, 3, 1, TABLE_NOBODY);
	reap(rule);
	is_int(STORAGE_LIVE, state(rule, 3), "it is not freed under its name");
	is_int(STORAGE_UNNAMED, state(rule, 7), "held by a lease alone");
	storage_name(rule, 7, 1, TABLE_NOBODY);
	is_int(STORAGE_LIVE, state(rule, 7), "named again");
	end_of(rule, &side);
	is_int(N, in_state(rule, STORAGE_LIVE), "it outlives its holder");
	unname_all(rule);
	reap(rule);
	is_int(N, in_state(rule, STORAGE_FREE), "until its name goes");
}

int main(void)
{
	make_rule(0);
	make_rule(1);
	test_batch();
	test_revival();
	free_rule(&rules[0]);
	free_rule(&rules[1]);
	return done();
}
