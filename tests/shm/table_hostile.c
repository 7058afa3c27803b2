/* SPDX-License-Identifier: MIT */
/*
 * A region full of nonsense costs time and wrong answers, and nothing else: a
 * reader never leaves the mapping and never goes round for ever. An alarm
 * ends this test if one does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "shm/record.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define ROUNDS 60
#define NAMES 200

static struct table rw, ro;
static unsigned int seed = 4711;

/* The region as its writer left it. */
static unsigned char header[256], buckets[4096], *records;
static size_t records_size;

static uint64_t noise(void)
{
	return (uint64_t)rand_r(&seed) << 40 ^ (uint64_t)rand_r(&seed) << 20 ^
	       (uint64_t)rand_r(&seed);
}

static int short_name(void *arg, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	*(bool *)arg &= name_size <= NAME_SIZE_MAX && !name[name_size];
	return 0;
}

/* All that a reader can ask. */
static bool ask(void)
{
	struct table_storage storage;
	struct tarn_descriptor d;
	uint64_t version;
	bool good = true;
	char name[32];

	snprintf(name, sizeof(name), "name/%d", rand_r(&seed) % NAMES);
	if (table_lookup(&ro, name, strlen(name), &d, &version) > 0)
		good = false;
	table_list(&ro, "", 0, short_name, &good);
	table_storage_get(&ro, (uint32_t)noise(), noise(), &storage);
	table_storage_get(&ro, UINT32_MAX, 1, &storage);
	table_storage_get(&ro, TABLE_STORAGES_MAX - 1, 1, &storage);
	return good;
}

static void scribble(unsigned char *at, size_t size)
{
	for (int i = rand_r(&seed) % 64; i >= 0; i--) {
		uint64_t value =
			rand_r(&seed) % 2 ? noise() : noise() % (1u << 20) * 64;

		memcpy(at + noise() % (size / 8) * 8, &value, sizeof(value));
	}
}

static void restore(void)
{
	memcpy(rw.header, header, sizeof(header));
	memcpy((void *)rw.buckets, buckets, sizeof(buckets));
	memcpy(rw.map + rw.records_offset, records, records_size);
}

/* The first of the records. */
static struct name_record *record_of_table(void)
{
	return (void *)(rw.map + rw.records_offset);
}

static void put_names(void)
{
	struct table_writer *w = NULL;
	struct tarn_descriptor d;
	uint64_t version;

	if (table_writer_new(&rw, &w) < 0)
		bail("%s", tarn_fail_message());
	table_begin(w);
	for (int i = 0; i < NAMES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "name/%d", i);
		d = (struct tarn_descriptor) {.base = (uint64_t)i};
		table_put(w, name, strlen(name), &d, &version);
	}
	table_commit(w, NULL, NULL);
	table_writer_free(w);
}

static void save(void)
{
	records_size = rw.header->records_used;
	records = malloc(records_size);
	if (!records)
		bail("no memory");
	memcpy(header, rw.header, sizeof(header));
	memcpy(buckets, (void *)rw.buckets, sizeof(buckets));
	memcpy(records, rw.map + rw.records_offset, records_size);
}

static void test_noise(void)
{
	bool good = true;

	for (int i = 0; i < ROUNDS; i++) {
		scribble((unsigned char *)rw.header + 128, 128);
		scribble((void *)rw.buckets, sizeof(buckets));
		scribble(rw.map + rw.records_offset, records_size);
		good = ask() && good;
		restore();
	}
	ok(good, "a reader survives %d rounds of noise", ROUNDS);
}

static void test_chains(void)
{
	struct name_record *record = record_of_table();
	struct tarn_descriptor d;
	uint64_t version;

	for (uint32_t i = 0; i < 512; i++)
		atomic_store(&rw.buckets[i], rw.records_offset);
	atomic_store(&record->next, rw.records_offset);
	is_int(-EAGAIN, table_lookup(&ro, "none", 4, &d, &version),
		"a lookup in a cyclic chain ends");
	restore();

	for (uint32_t i = 0; i < 512; i++)
		atomic_store(&rw.buckets[i], UINT64_MAX - 63);
	is_int(-EAGAIN, table_lookup(&ro, "none", 4, &d, &version),
		"a lookup in a chain that leads outside ends");
	for (uint32_t i = 0; i < 512; i++)
		atomic_store(&rw.buckets[i], rw.records_offset + 8);
	is_int(-EAGAIN, table_lookup(&ro, "none", 4, &d, &version),
		"a lookup in a misaligned chain ends");
	restore();
}

static void test_counts(void)
{
	struct tarn_descriptor d;
	uint64_t version;

	atomic_store(&rw.header->n_buckets, 0);
	is_int(-EAGAIN, table_lookup(&ro, "none", 4, &d, &version),
		"a lookup without buckets asks to try again");
	atomic_store(&rw.header->n_buckets, UINT32_MAX);
	is_int(-EAGAIN, table_lookup(&ro, "none", 4, &d, &version),
		"a lookup with too many buckets asks to try again");
	restore();
}

static void test_records(void)
{
	struct name_record *record = record_of_table();
	struct table_writer *w = NULL;
	struct tarn_descriptor d;
	bool good = true;
	uint64_t version;

	record->size = 0;
	is_int(-EPROTO, table_list(&ro, "", 0, short_name, &good),
		"a listing ends at a record without a size");
	is_int(-EPROTO, table_writer_new(&rw, &w),
		"a writer refuses a record without a size");
	has_str("record's size", tarn_fail_message(),
		"the error names the record's size");
	restore();
	record->name_size = UINT32_MAX;
	is_int(-EAGAIN, table_list(&ro, "", 0, short_name, &good),
		"a listing ends at a name of 4 GiB");
	is_int(-EPROTO, table_writer_new(&rw, &w),
		"a writer refuses a name of 4 GiB");
	restore();
	is_int(0, table_lookup(&ro, "name/7", 6, &d, &version),
		"a lookup in the repaired table finds its name");
}

int main(void)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC);

	alarm(600);
	if (fd < 0 || table_create(fd, 7, 4711, 1, 2, &rw) < 0 ||
		table_map(fd, false, &ro) < 0)
		bail("%s", tarn_fail_message());
	put_names();
	save();
	test_noise();
	test_chains();
	test_counts();
	test_records();
	free(records);
	table_unmap(&ro);
	table_unmap(&rw);
	close(fd);
	return done(12);
}
