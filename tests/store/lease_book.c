/* SPDX-License-Identifier: MIT */
/*
 * The book of leases: more storages than a page has slots, over several pages;
 * and many threads that hold and drop the same few storages, where each must
 * find its lease in the page as long as it holds it, and nothing stays behind.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/lease_book.h"
#include "lib/tensor/storage.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define N 1000u
#define FEW 3u
#define THREADS 4
#define TURNS 20000u

static struct table table;
static struct table_writer *writer;
static struct lease_book book;
static uint64_t generations[N];

static struct lease_page *new_page(void)
{
	struct lease_page *page;
	int fd;

	if (lease_create(&fd) < 0 || lease_map(fd, &page) < 0)
		bail("%s", tarn_fail_message());
	fd_close(fd);
	return page;
}

static int hold(uint32_t i)
{
	tarn_storage *known;

	return lease_book_hold(&book, &table, i, generations[i], &known);
}

static bool drop(uint32_t i)
{
	return lease_book_drop(&book, &table, i, generations[i], NULL);
}

static uint32_t in_pages(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < book.slots.n_pages; i++)
		n += lease_count(book.slots.pages[i]);
	return n;
}

/* As many as the pages have slots; then another page. */
static void test_pages(void)
{
	uint32_t held = 0;
	int r;

	if (lease_book_init(&book, new_page()) < 0)
		bail("%s", tarn_fail_message());
	book.slots.page_slots = book.slots.n_fresh = 300;
	while ((r = hold(held)) == 0)
		held++;
	is_int(-ENOSPC, r, "a full page refuses another storage");
	is_int(300, held, "a page holds 300 storages");
	ok(lease_book_is_full(&book), "the book reports that it is full");
	is_int(0, hold(7), "a storage that is already held needs no slot");
	drop(7);
	is_int(0, lease_book_add_page(&book, new_page()),
		"another page is added");
	while ((r = hold(held)) == 0)
		held++;
	is_int(600, held, "two pages hold 600 storages");
	is_int(300, lease_count(book.slots.pages[1]),
		"all slots of the second page are in use");
	drop(5);
	drop(450);
	is_int(0, hold(900), "a slot that was released is used again");
	is_int(0, hold(901), "a slot in either page is used again");
	is_int(-ENOSPC, hold(902),
		"the book is full again after the second page");
	for (uint32_t i = 0; i < 600; i++)
		if (i != 5 && i != 450)
			drop(i);
	drop(900);
	drop(901);
	is_int(0, in_pages(), "no lease is left in the pages");
	for (r = 0; book.slots.n_pages < LEASE_PAGES_MAX && r == 0;)
		r = lease_book_add_page(&book, new_page());
	is_int(0, r, "%u pages can be added", LEASE_PAGES_MAX);
	is_int(-ENOSPC, lease_book_add_page(&book, new_page()),
		"one page more than the limit is refused");
	lease_book_done(&book);
}

/* ---- threads ---------------------------------------------------------- */

struct held {
	uint32_t index;
	tarn_storage *storage; /* made by who has this */
};

static _Atomic unsigned missing, failed, notified;

static bool in_page(uint32_t i)
{
	const struct lease_page *page = book.slots.pages[0];

	for (uint32_t slot = 0; slot < FEW; slot++)
		if (atomic_load(&page->slots[slot]) ==
			lease_word(i, generations[i]))
			return true;
	return false;
}

static void let_go(void *arg)
{
	struct held *held = arg;

	if (!in_page(held->index))
		atomic_fetch_add(&missing, 1);
	if (lease_book_drop(&book, &table, held->index,
		    generations[held->index], held->storage))
		atomic_fetch_add(&notified, 1);
	free(held);
}

/* As a look-up does: the object that others have, or one of its own. */
static tarn_storage *get(uint32_t i)
{
	tarn_storage *known;
	struct held *held;

	if (lease_book_hold(&book, &table, i, generations[i], &known) < 0)
		return NULL;
	if (known)
		return known;
	held = malloc(sizeof(*held));
	*held = (struct held) {.index = i};
	if (tarn_storage_new(TARN_STORAGE_SHARED, &table, 1, false, let_go,
		    held, &held->storage) < 0)
		bail("%s", tarn_fail_message());
	lease_book_remember(&book, i, generations[i], held->storage);
	return held->storage;
}

static void *holder(void *arg)
{
	uint32_t x = *(uint32_t *)arg;

	for (uint32_t n = 0; n < TURNS; n++) {
		uint32_t i = (x >> 16) % FEW;
		tarn_storage *s = get(i);

		x = x * 1664525u + 1013904223u;
		if (!s)
			atomic_fetch_add(&failed, 1);
		else if (!in_page(i))
			atomic_fetch_add(&missing, 1);
		tarn_storage_unref(s);
	}
	return NULL;
}

static void test_threads(void)
{
	uint32_t seeds[THREADS];
	pthread_t threads[THREADS];

	if (lease_book_init(&book, new_page()) < 0)
		bail("%s", tarn_fail_message());
	for (uint32_t i = 0; i < THREADS; i++) {
		seeds[i] = i * 77777u;
		if (pthread_create(&threads[i], NULL, holder, &seeds[i]))
			bail("pthread_create");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_int(0, failed, "%d threads hold and drop storages", THREADS);
	is_int(0, missing,
		"each thread finds its lease as long as it holds it");
	is_int(0, in_pages(), "no lease is left in the pages");
	is_int(0, notified, "no message is sent for storages that have names");
	table_storage_set(writer, 0, STORAGE_UNNAMED);
	is_int(0, hold(0), "a storage that only leases hold is held");
	is_int(0, hold(0), "a storage that only leases hold is held twice");
	ok(!drop(0), "releasing the first of two leases sends no message");
	ok(drop(0), "the release of the last lease sends a message");
	lease_book_done(&book);
}

int main(void)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC);
	struct table_storage s = {.size = 1};
	uint32_t index;

	if (fd < 0 || table_create(fd, 7, 4711, 1, 2, &table) < 0 ||
		table_writer_new(&table, &writer) < 0)
		bail("%s", tarn_fail_message());
	for (uint32_t i = 0; i < N; i++)
		if (table_storage_add(writer, &s, STORAGE_LIVE, &index,
			    &generations[i]) < 0 ||
			index != i)
			bail("%s", tarn_fail_message());
	test_pages();
	test_threads();
	table_writer_free(writer);
	table_unmap(&table);
	fd_close(fd);
	return done(21);
}
