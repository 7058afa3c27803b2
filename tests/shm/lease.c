/* SPDX-License-Identifier: MIT */
/*
 * Leases: taken, found, given back; refused where the storage is another; and
 * a race of takers against one who frees, which must never free what is held.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
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

	is_int(0, take(storage, generation, &slot),
		"a client takes a lease on a storage");
	ok(holds(server, storage, generation),
		"the server finds the client's lease");
	ok(!holds(server, storage, generation + 1),
		"the lease is of that generation only");
	ok(!holds(server, storage + 1, generation),
		"the lease is of that storage only");
	is_int(1, lease_count(server), "one slot of the lease page is in use");
	is_int(0, take(storage, generation, &other),
		"the client takes a second lease");
	ok(slot != other, "the second lease has a slot of its own");
	ok(!give(slot), "releasing one of two leases needs no notification");
	ok(holds(server, storage, generation), "the second lease remains");
	table_storage_set(writer, storage, STORAGE_UNNAMED);
	ok(give(other),
		"releasing an unnamed storage's lease needs a notification");
	is_int(0, lease_count(server), "no slot of the lease page is in use");
	ok(!lease_release(client, &table, 0),
		"a slot that was released is not released again");
	ok(!lease_release(client, &table, UINT32_MAX),
		"a release without a slot does nothing");
	is_int(0, take(storage, generation, &slot),
		"an unnamed storage can be leased");
	table_storage_set(writer, storage, STORAGE_FREEING);
	is_int(-EBUSY, take(storage, generation, &other),
		"a storage that is being freed cannot be leased");
	ok(give(slot),
		"releasing the unnamed storage's lease needs a notification");
	is_int(0, lease_count(server), "no slot of the page holds a lease");
	table_storage_drop(writer, storage);
	is_int(-ESTALE, take(storage, generation, &slot),
		"a freed storage's generation is stale");
	is_int(-ESTALE, take(storage, 0, &slot),
		"generation 0 is always stale");
	is_int(-ESTALE, take(UINT32_MAX, 1, &slot),
		"an index beyond the table is stale");
	is_int(0, lease_count(server), "no slot is in use after stale leases");
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
	is_int(0, take(storage, generation, &slot),
		"a named storage is leased");
	ok(!lease_noted(server, storage, generation),
		"a lease that is held is not noted");
	before = now_ns();
	give(slot);
	at = lease_noted(server, storage, generation);
	ok(before <= at && at <= now_ns(),
		"a lease that was released is noted");
	ok(!lease_noted(server, storage, generation + 1),
		"a lease of another generation is not noted");
	ok(!lease_noted(server, storage + LEASE_NOTES, generation),
		"the note is of that storage, not of one with the same bit");
	lease_each_note(server, on_note, &note);
	ok(note.n == 1 && note.word == word && note.at == at,
		"the released storage is the only note");
	/* The same words in other places: who believes them has one index
	 * twice. */
	for (uint32_t i = 0; i < LEASE_NOTES; i++)
		atomic_store(&client->notes[i].word, word);
	atomic_store(&client->noted, UINT32_MAX);
	note.n = 0;
	lease_each_note(server, on_note, &note);
	is_int(1, note.n, "a page with every note set has one storage");
	atomic_store(&client->noted, 0);
	ok(!lease_noted(server, storage, generation),
		"a page without a note is not noted");
	note.n = 0;
	lease_each_note(server, on_note, &note);
	is_int(0, note.n, "a page without a note has no storages");
	table.storages[storage].flags = STORAGE_CREATED;
	is_int(0, take(storage, generation, &slot),
		"a created storage is leased");
	give(slot);
	ok(!atomic_load(&server->noted),
		"a created storage's release is never noted");
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
	is_int(-ENOSPC, r, "a full lease page refuses another lease");
	is_int(LEASE_SLOTS_USED, n,
		"a full page has leases in all slots that may be used");
	is_int(LEASE_SLOTS_USED, lease_count(server),
		"the server counts a full page's leases");
	is_int(-ENOSPC, take(storage, generation, &slot),
		"a full page refuses a lease again");
	give(4321);
	is_int(0, take(storage, generation, &slot),
		"a slot that was released is taken again");
	is_int(4321, slot, "the next lease has the released slot");
	/* What a hostile client writes is not believed. */
	atomic_store(&client->used, UINT32_MAX);
	ok(lease_count(server) <= LEASE_SLOTS,
		"the server counts no more slots than there are");
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
			usleep(10);
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
			usleep(10);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < TAKERS; i++)
		pthread_join(threads[i], NULL);
	diag("%llu leases, freed %llu times, found held %llu times",
		(unsigned long long)taken, (unsigned long long)freed,
		(unsigned long long)held);
	is_int(0, (int64_t)pulled, "no storage was freed under a lease");
}

/* ---- a batch ----------------------------------------------------------- */

#define CROWD 32760u /* just under half of a table of 65,536 */
#define CROWD_PLACES 65536u

/* In a table that is half full by chance, the longest row of occupied places is
 * some dozens long; picked. */
#define ROW_MAX 400u

/* With this number as its secret, a batch would be hashed by multiplication with
 * the golden ratio. */
#define GOLDEN 0x9e3779b97f4a7c15ull

/* Where such a batch would place a word. */
static uint32_t golden(uint32_t index, uint64_t g)
{
	return (uint32_t)((lease_word(index, g) * GOLDEN) >> 44) % CROWD_PLACES;
}

/* A look at a word that is not in the batch takes as many probes as the row of
 * occupied places is long in which it begins. */
static uint32_t longest_row(const struct lease_batch *batch)
{
	uint32_t best = 0, n = 0;

	for (uint32_t i = 0; i < batch->capacity; i++) {
		n = batch->wanted[i].word ? n + 1 : 0;
		best = MAX(best, n);
	}
	return best;
}

/* The longest row of a batch whose words a client chose so that all of them
 * would crowd in one half of the table if it knew the secret; secret: what
 * it is, 0: the batch's own. */
static uint32_t crowded(uint64_t secret)
{
	struct lease_batch batch;
	uint32_t row;

	if (lease_batch_init(&batch) < 0)
		bail("%s", tarn_fail_message());
	batch.secret = secret ? secret : batch.secret;
	for (uint32_t index = 1; batch.n < CROWD; index++)
		if (golden(index, 1) < CROWD_PLACES / 2)
			lease_batch_add(&batch, index, 1);
	is_int(CROWD_PLACES, batch.capacity, "the batch is half full");
	row = longest_row(&batch);
	lease_batch_done(&batch);
	return row;
}

/* Clients choose which storages are freed together, and all words. */
static void test_chosen(void)
{
	uint32_t known = crowded(GOLDEN), chosen = crowded(0);

	ok(known >= 10 * ROW_MAX,
		"words chosen for a secret that is known make looks long: %u "
		"probes",
		known);
	ok(chosen <= ROW_MAX,
		"words cannot be chosen for a batch's own secret: %u probes",
		chosen);
}

static void fill_and_clear(struct lease_batch *batch, uint32_t n)
{
	for (uint32_t index = 1; index <= n; index++)
		lease_batch_add(batch, index, 1);
	lease_batch_clear(batch);
}

/* A batch of one must not pay for a large one before it. */
static void test_sizes(void)
{
	struct lease_batch batch;
	uint32_t first, large;

	if (lease_batch_init(&batch) < 0)
		bail("%s", tarn_fail_message());
	first = batch.capacity;
	fill_and_clear(&batch, 1000);
	large = batch.capacity;
	ok(large >= 2000, "a batch keeps its table for one of the same size");
	fill_and_clear(&batch, 900);
	is_int(large, batch.capacity, "a batch that is almost as large too");
	fill_and_clear(&batch, 1);
	is_int(first, batch.capacity,
		"after a batch of one the table is as small as the first");
	ok(!lease_batch_found(&batch, 1, 1) && lease_batch_add(&batch, 7, 1) &&
			!lease_batch_found(&batch, 7, 1),
		"the small table is empty, and can be used");
	lease_batch_done(&batch);
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
	is_int(0, lease_create(&lease), "a lease page is created");
	ok(ftruncate(lease, 0) < 0 && ftruncate(lease, 4 * LEASE_SIZE) < 0,
		"a lease page cannot be resized");
	is_int(0, lease_map(lease, &client),
		"a lease page is mapped by the client");
	is_int(0, lease_map(lease, &server),
		"a lease page is mapped by the server");
	is_int(-EPROTO, lease_map(fd, &(struct lease_page *) {NULL}),
		"a descriptor that is no lease page is refused");
	lease_slots_init(&slots, client);
	test_one();
	test_notes();
	test_full();
	test_race((struct lease_page *[]) {client, second});
	test_chosen();
	test_sizes();
	lease_slots_done(&slots);
	lease_unmap(server);
	lease_unmap(second);
	table_writer_free(writer);
	table_unmap(&table);
	fd_close(fd);
	fd_close(lease);
	fd_close(two);
	return done(53);
}
