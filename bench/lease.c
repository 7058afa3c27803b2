/* SPDX-License-Identifier: MIT */
/*
 * lease: nanoseconds to take and give back a lease, one thread: the slot and
 * its fences alone; by the lease book, for a storage that this process does not
 * hold yet; and for one that it holds. Beside them the cost of two full fences,
 * and of a mutex locked and unlocked twice.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "bench/times.h"
#include "lib/store/lease_book.h"
#include "shm/table_writer.h"

/* A round is shorter than a time slice, and the best fiftieth of many rounds
 * is the cost of an undisturbed thread, on a busy machine too. */
enum { ROUNDS = 1500, CALLS = 2000 };

static struct table table;
static struct lease_page *page;
static struct lease_book book;
static uint32_t storage;
static uint64_t generation;

static void fail(void)
{
	fprintf(stderr, "lease: %s\n", tarn_fail_message());
	exit(1);
}

static void measure(const char *what, void (*fn)(void))
{
	double ns[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		double start = wall_ns();

		for (int i = 0; i < CALLS; i++)
			fn();
		ns[r] = (wall_ns() - start) / CALLS;
	}
	sort_values(ns, ROUNDS);
	printf("%-44s %6.1f ns\n", what, ns[ROUNDS / 50]);
}

/* What two of them cost here; each pairs with nothing. */
static void fences(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
}

static void mutexes(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
}

static void slot_alone(void)
{
	if (lease_acquire(page, &table, storage, generation, 0) < 0)
		fail();
	lease_release(page, &table, 0);
}

static void through_book(void)
{
	tarn_storage *known;

	if (lease_book_hold(&book, &table, storage, generation, &known) < 0)
		fail();
	lease_book_drop(&book, &table, storage, generation, NULL);
}

/* A process that has threads pays for its atomics. */
static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(void)
{
	int fd = memfd_create("tarn-bench", MFD_CLOEXEC), lease = -1;
	struct table_storage s = {.size = 1};
	struct table_writer *writer;
	tarn_storage *known;
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0 || fd < 0 ||
		table_create(fd, 7, 4711, 1, 2, &table) < 0 ||
		table_writer_new(&table, &writer) < 0 ||
		table_storage_add(
			writer, &s, STORAGE_LIVE, &storage, &generation) < 0 ||
		lease_create(&lease) < 0 || lease_map(lease, &page) < 0 ||
		lease_book_init(&book, page) < 0)
		fail();
	measure("two full fences", fences);
	measure("a mutex locked and unlocked twice", mutexes);
	measure("acquire and release of a slot (at most 60)", slot_alone);
	measure("hold and drop, not held otherwise", through_book);
	if (lease_book_hold(&book, &table, storage, generation, &known) < 0)
		fail();
	measure("hold and drop, held already", through_book);
	lease_book_done(&book);
	table_writer_free(writer);
	table_unmap(&table);
	fd_close(lease);
	fd_close(fd);
	return 0;
}
