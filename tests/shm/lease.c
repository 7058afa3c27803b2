/* SPDX-License-Identifier: MIT */
/*
 * Leases: taken, found, given back; refused where the storage is another; and
 * a race of takers against one who frees, which must never free what is held.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/lease_slots.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define TAKERS 2
#define SECONDS 0.5

static struct table table;
static struct table_writer *writer;
static struct lease_page *client, *server; /* two mappings of one page */
static uint32_t storage;
static uint64_t generation;

static struct lease_slots slots;

static int take(uint32_t index, uint64_t g, uint32_t *ret_slot)
{
	return lease_slots_take(&slots, &table, index, g, ret_slot);
}

static bool give(uint32_t slot)
{
	return lease_slots_give(&slots, &table, slot, storage);
}

static bool holds(const struct lease_page *page, uint32_t index, uint64_t g)
{
	struct lease_batch batch;
	bool found;

	if (lease_batch_init(&batch) < 0)
		bail("%s", tarn_fail_message());
	lease_batch_add(&batch, index, g);
	lease_batch_search(&batch, page);
	found = lease_batch_found(&batch, index, g);
	lease_batch_done(&batch);
	return found;
}

static void test_one(void)
{
	uint32_t slot = 99, other = 99;

	is_int(0, take(storage, generation, &slot), "a lease is taken");
	ok(holds(server, storage, generation), "the server finds it");
	ok(!holds(server, storage, generation + 1), "of that generation");
	ok(!holds(server, storage + 1, generation), "of that storage");
	is_int(1, lease_count(server), "one slot is in use");
	is_int(0, take(storage, generation, &other), "a second one");
	ok(slot != other, "has a slot of its own");
	ok(!give(slot), "given back, unheard");
	ok(holds(server, storage, generation), "the second stays");
	table_storage_set(writer, storage, STORAGE_UNNAMED);
	ok(give(other), "of an unnamed storage, the server must hear of it");
	is_int(0, lease_count(server), "no slot is in use");
	ok(!lease_release(client, &table, 0), "once is enough");
	ok(!lease_release(client, &table, UINT32_MAX), "no slot, no lease");
	is_int(0, take(storage, generation, &slot), "unnamed can be leased");
	table_storage_set(writer, storage, STORAGE_FREEING);
	is_int(-EBUSY, take(storage, generation, &other), "freeing cannot");
	ok(give(slot), "and its release is heard");
	is_int(0, lease_count(server), "nothing is left in the slots");
	table_storage_drop(writer, storage);
	is_int(-ESTALE, take(storage, generation, &slot), "freed is stale");
	is_int(-ESTALE, take(storage, 0, &slot), "generation 0 is never");
	is_int(-ESTALE, take(UINT32_MAX, 1, &slot), "nor such an index");
	is_int(0, lease_count(server), "no slot is in use");
}

struct note {
	unsigned n;
	uint64_t word, at;
};

static void on_note(void *arg, uint64_t word, uint64_t at)
{
	struct note *note = arg;

	*note = (struct note) {note->n + 1, word, at};
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* When a lease was given back, as far as its holder says. */
static void test_notes(void)
{
	uint64_t word, before, at;
	struct table_storage s = {.size = 1};
	struct note note = {0};
	uint32_t slot = 0;

	table_storage_add(writer, &s, STORAGE_LIVE, &storage, &generation);
	word = lease_word(storage, generation);
	memset((void *)client->notes, 0, sizeof(client->notes));
	atomic_store(&client->noted, 0);
	is_int(0, take(storage, generation, &slot), "a lease");
	ok(!lease_noted(server, storage, generation), "is not noted");
	before = now_ns();
	give(slot);
	at = lease_noted(server, storage, generation);
	ok(before <= at && at <= now_ns(), "until it is given back");
	ok(!lease_noted(server, storage, generation + 1),
		"a lease of another generation is not noted");
	ok(!lease_noted(server, storage + LEASE_NOTES, generation),
		"that storage, not one of the same place");
	lease_each_note(server, on_note, &note);
	ok(note.n == 1 && note.word == word && note.at == at,
		"it is the only one");
	/* The same words in other places: who believes them has one index
	 * twice. */
	for (uint32_t i = 0; i < LEASE_NOTES; i++)
		atomic_store(&client->notes[i].word, word);
	atomic_store(&client->noted, UINT32_MAX);
	note.n = 0;
	lease_each_note(server, on_note, &note);
	is_int(1, note.n, "though a liar says it everywhere");
	atomic_store(&client->noted, 0);
	ok(!lease_noted(server, storage, generation), "who notes nothing");
	note.n = 0;
	lease_each_note(server, on_note, &note);
	is_int(0, note.n, "is not listened to");
	table.storages[storage].flags = STORAGE_CREATED;
	is_int(0, take(storage, generation, &slot), "what was created");
	give(slot);
	ok(!atomic_load(&server->noted), "is never noted");
	table_storage_drop(writer, storage);
}

static void test_full(void)
{
	uint32_t slot = 0, n = 0;
	struct table_storage s = {.size = 1};
	int r;

	table_storage_add(writer, &s, STORAGE_LIVE, &storage, &generation);
	while ((r = take(storage, generation, &slot)) == 0)
		n++;
	is_int(-ENOSPC, r, "a page has an end");
	is_int(LEASE_SLOTS_USED, n, "after all its slots");
	is_int(LEASE_SLOTS_USED, lease_count(server), "which are in use");
	is_int(-ENOSPC, take(storage, generation, &slot), "it stays full");
	give(4321);
	is_int(0, take(storage, generation, &slot), "one given back");
	is_int(4321, slot, "is taken again");
	/* What a hostile client writes is not believed. */
	atomic_store(&client->used, UINT32_MAX);
	ok(lease_count(server) <= LEASE_SLOTS, "used has a limit");
	memset((void *)client->slots, 0, sizeof(client->slots));
	atomic_store(&client->used, 0);
}

/* The bytes of the storage: which generation they belong to, 0 when freed. */
static _Atomic uint64_t bytes;
static _Atomic bool stop;
static _Atomic uint64_t taken, pulled;

static void *taker(void *arg)
{
	struct lease_page *page = arg;
	while (!atomic_load(&stop)) {
		uint64_t g = storage_word_generation(
			atomic_load(&table.storages[storage].word));

		if (lease_acquire(page, &table, storage, g, 3) < 0)
			continue;
		for (int i = 0; i < 20; i++)
			if (atomic_load_explicit(
				    &bytes, memory_order_relaxed) != g)
				atomic_fetch_add(&pulled, 1);
		atomic_fetch_add(&taken, 1);
		lease_release(page, &table, 3);
	}
	return NULL;
}

static void test_race(struct lease_page *pages[TAKERS])
{
	struct table_storage s = {.size = 1};
	pthread_t threads[TAKERS];
	uint64_t freed = 0, held = 0;
	double end = seconds() + SECONDS;
	uint32_t index;

	atomic_store(&bytes, generation);
	for (int i = 0; i < TAKERS; i++)
		if (pthread_create(&threads[i], NULL, taker, pages[i]))
			bail("pthread_create");
	while (seconds() < end) {
		bool found = false;

		table_storage_set(writer, storage, STORAGE_FREEING);
		for (int i = 0; i < TAKERS; i++)
			found |= holds(pages[i], storage, generation);
		if (found) {
			held++;
			table_storage_set(writer, storage, STORAGE_UNNAMED);
			sched_yield();
			continue;
		}
		freed++;
		atomic_store(&bytes, 0);
		table_storage_drop(writer, storage);
		/* The bytes of the next generation, then its word. */
		atomic_store(&bytes, generation + 1);
		table_storage_add(
			writer, &s, STORAGE_LIVE, &index, &generation);
		if (freed % 8 == 0)
			sched_yield();
	}
	atomic_store(&stop, true);
	for (int i = 0; i < TAKERS; i++)
		pthread_join(threads[i], NULL);
	diag("%llu leases, freed %llu times, found held %llu times",
		(unsigned long long)taken, (unsigned long long)freed,
		(unsigned long long)held);
	is_int(0, (int64_t)pulled, "and nothing was freed under a lease");
}

int main(void)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC), lease = -1, two = -1;
	struct table_storage s = {.size = 1};
	struct lease_page *second;

	if (fd < 0 || table_create(fd, 7, 4711, 1, 2, &table) < 0 ||
		table_writer_new(&table, &writer) < 0 ||
		lease_create(&two) < 0 || lease_map(two, &second) < 0)
		bail("%s", tarn_fail_message());
	table_storage_add(writer, &s, STORAGE_LIVE, &storage, &generation);
	is_int(0, lease_create(&lease), "a lease page");
	ok(ftruncate(lease, 0) < 0 && ftruncate(lease, 4 * LEASE_SIZE) < 0,
		"cannot be resized");
	is_int(0, lease_map(lease, &client), "is mapped by the client");
	is_int(0, lease_map(lease, &server), "and by the server");
	is_int(-EPROTO, lease_map(fd, &(struct lease_page *) {NULL}),
		"what is no lease page is refused");
	lease_slots_init(&slots, client);
	test_one();
	test_notes();
	test_full();
	test_race((struct lease_page *[]) {client, second});
	lease_slots_done(&slots);
	lease_unmap(server);
	lease_unmap(second);
	table_writer_free(writer);
	table_unmap(&table);
	fd_close(fd);
	fd_close(lease);
	fd_close(two);
	return done(45);
}
