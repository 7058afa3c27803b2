/* SPDX-License-Identifier: MIT */
/*
 * A million names, each with its own storage, while a reader reads: no
 * published name is missed or wrong at any moment, one name costs its expected
 * memory, and when all are removed the next ones take no more memory.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/headroom.h"
#include "shm/record.h"
#include "shm/segment.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define MILLION 1000000u
#define A_COMMIT 5000u
#define AGAIN 100000u
#define ROOM (1200ull << 20)
#define LOOKS 1000u
#define PATIENCE_S 60
/* A record of a short name, a bucket, a storage; and what parts are populated
 * ahead. */
#define BYTES_A_NAME                                                           \
	(sizeof(struct name_record) + 64 + sizeof(uint64_t) +                  \
		sizeof(struct table_storage))
#define SLACK (32ull << 20)

struct shared {
	_Atomic uint32_t published; /* names below this are there */
	_Atomic uint32_t round; /* of publishing: one ends by removing all */
	_Atomic int stop;
	_Atomic uint64_t looks;
	uint64_t wrong;
};

static struct shared *shared;
static struct table table;
static struct table_writer *writer;
static int table_fd;

static size_t name_of(uint32_t i, char name[static 32])
{
	return (size_t)snprintf(name, 32, "step/%u/weight", i * 7u);
}

static struct tarn_descriptor made(uint32_t i, uint32_t storage, uint64_t g)
{
	struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC};

	d.storage = storage;
	d.generation = g;
	d.base = i;
	d.stride[TARN_NDIM_MAX - 1] = (int64_t)i * 3;
	return d;
}

static void reader(void)
{
	struct table ro;
	uint64_t random = 88172645463325252ull;

	if (table_map(table_fd, false, &ro) < 0)
		_exit(1);
	while (!atomic_load(&shared->stop)) {
		uint32_t round = atomic_load(&shared->round);
		uint32_t n = atomic_load(&shared->published), i;
		struct tarn_descriptor d;
		uint64_t version;
		char name[32];
		int r;

		/* Some thousand a second: to be there, not to race. */
		if (!n || shared->looks % 64 == 0)
			usleep(5000);
		if (!n)
			continue;
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		i = (uint32_t)(random % n);
		r = table_lookup(&ro, name, name_of(i, name), &d, &version);
		shared->looks++;
		if (r != -EAGAIN && atomic_load(&shared->round) == round)
			shared->wrong +=
				r < 0 || d.base != i ||
				d.stride[TARN_NDIM_MAX - 1] != (int64_t)i * 3;
	}
	_exit(0);
}

static void publish_some(uint32_t from, uint32_t n)
{
	struct table_storage entry = {.size = 4096, .alloc_size = 4096};
	char name[32];
	int r = table_begin(writer);

	for (uint32_t i = from; i < from + n && r >= 0; i++) {
		struct tarn_descriptor d;
		uint64_t generation;
		uint32_t index;

		entry.base = i * 4096ull;
		r = table_storage_add(
			writer, &entry, STORAGE_LIVE, &index, &generation);
		d = made(i, index, generation);
		if (r >= 0)
			r = table_put(writer, name, name_of(i, name), &d, NULL);
	}
	if (r < 0)
		bail("name %u: %s", from, tarn_fail_message());
	table_commit(writer, NULL, NULL);
	atomic_store(&shared->published, from + n);
}

static void drop_storage(
	void *arg, const struct tarn_descriptor *d, uint32_t uid)
{
	table_storage_drop(writer, d->storage);
}

static void remove_all(void)
{
	char name[32];

	atomic_fetch_add(&shared->round, 1);
	atomic_store(&shared->published, 0);
	for (uint32_t i = 0; i < MILLION; i++) {
		if (i % A_COMMIT == 0)
			table_begin(writer);
		if (table_remove(writer, name, name_of(i, name)) < 0)
			bail("%s: %s", name, tarn_fail_message());
		if (i % A_COMMIT == A_COMMIT - 1)
			table_commit(writer, drop_storage, NULL);
	}
}

static uint64_t memory(void)
{
	struct stat st;

	fstat(table_fd, &st);
	return (uint64_t)st.st_blocks * 512;
}

static double look_all(const struct table *t)
{
	double start = seconds();
	uint32_t wrong = 0;

	for (uint32_t n = 0; n < MILLION; n += 10) {
		/* Not in the order in which they lie. */
		uint32_t i = (uint32_t)(n * 7919ull % MILLION);
		struct tarn_descriptor d;
		uint64_t version;
		char name[32];

		wrong += table_lookup(t, name, name_of(i, name), &d, &version) <
				 0 ||
			 d.base != i;
	}
	is_int(0, wrong, "every tenth name is found, a tenth at a time");
	return (seconds() - start) / (MILLION / 10);
}

static void await_looks(void)
{
	double end = seconds() + PATIENCE_S;

	while (shared->looks <= LOOKS && seconds() < end)
		usleep(1000);
}

static pid_t begin(void)
{
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED ||
		segment_create("tarn-million", 4096, 12, &table_fd) < 0 ||
		table_create(table_fd, 1, 99, 0, 0, &table) < 0 ||
		table_writer_new(&table, &writer) < 0)
		bail("table: %s", tarn_fail_message());
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		reader();
	return pid;
}

int main(void)
{
	double start, taken;
	uint64_t before, used;
	int status = -1;
	pid_t pid;

	if (headroom_check(ROOM) < 0)
		skip_all(
			"a million names need memory: %s", tarn_fail_message());
	pid = begin();
	before = memory();
	start = seconds();
	for (uint32_t i = 0; i < MILLION; i += A_COMMIT)
		publish_some(i, A_COMMIT);
	taken = seconds() - start;
	is_int(MILLION, (int64_t)table.header->n_names,
		"the table counts a million names");
	is_int(MILLION, table.header->n_storages,
		"the table counts a million storages");
	diag("published in %.2f s, %.0f bytes a name", taken,
		(double)(memory() - before) / MILLION);
	ok(memory() - before <= (uint64_t)MILLION * BYTES_A_NAME + SLACK,
		"a name costs its record, a bucket and a storage");
	diag("a look-up takes %.0f ns", look_all(&table) * 1e9);
	used = table.header->records_used;
	remove_all();
	is_int(0, (int64_t)table.header->n_names, "all names are removed");
	for (uint32_t i = 0; i < AGAIN; i += A_COMMIT)
		publish_some(i, A_COMMIT);
	is_int((int64_t)used, (int64_t)table.header->records_used,
		"other names take no more room");
	is_int(MILLION, table.header->n_storages,
		"replacing a million names takes no more storages");
	await_looks();
	atomic_store(&shared->stop, 1);
	waitpid(pid, &status, 0);
	is_int(0, status, "the reader has read all the time");
	diag("%llu look-ups", (unsigned long long)shared->looks);
	ok(shared->looks > LOOKS,
		"the reader made more than a thousand rounds");
	is_int(0, (int64_t)shared->wrong, "the reader found no wrong name");
	table_writer_free(writer);
	table_unmap(&table);
	close(table_fd);
	return done(10);
}
