/* SPDX-License-Identifier: MIT */
/*
 * table_check() finds no fault in a valid region, and finds each way in which
 * one can be damaged: every row below breaks one thing, and has the words of
 * the fault that must be reported.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/descriptor/descriptor.h"
#include "shm/record.h"
#include "shm/table_check.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define INSTANCE 99
#define MIB (1ull << 20)
#define NAMES 300 /* several buckets, some chains */

static struct table rw, ro;
static struct table_writer *writer;

/* ---- a region that is whole ------------------------------------------- */

static struct tarn_descriptor bytes_of(uint32_t index)
{
	const struct table_storage *s = &rw.storages[index];

	return (struct tarn_descriptor) {
		.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = INSTANCE,
		.pool = s->pool,
		.storage = index,
		.generation = storage_word_generation(s->word),
		.base = s->base,
		.size = s->size,
		.dtype = TARN_U8,
		.ndim = 1,
		.shape = {(int64_t)s->size},
		.stride = {1},
	};
}

static uint32_t add_storage(uint64_t at, uint64_t size)
{
	struct table_storage s = {.pool = 4,
		.base = at + 100,
		.size = size - 100,
		.alloc_offset = at,
		.alloc_size = (size + 4095) & ~4095ull};
	uint64_t generation;
	uint32_t index;

	if (table_storage_add(writer, &s, STORAGE_LIVE, &index, &generation) <
		0)
		bail("a storage: %s", tarn_fail_message());
	return index;
}

static void put(const char *name, uint32_t storage)
{
	struct tarn_descriptor d = bytes_of(storage);

	table_begin(writer);
	if (table_put(writer, name, strlen(name), &d, NULL) < 0)
		bail("%s: %s", name, tarn_fail_message());
	table_commit(writer, NULL, NULL);
}

static void fill_region(void)
{
	struct table_pool pool = {
		.id = 4, .page_shift = 12, .reach = 1ull << 36};
	uint32_t index, storages[3];
	char name[32];

	table_add_pool(writer, &pool);
	table_add_segment(writer, 0, 4, 0, 0, MIB);
	table_add_segment(writer, 1, 4, 0, MIB, MIB);
	table_add_segment(writer, 2, 4, 0, 4 * MIB, MIB);
	storages[0] = add_storage(0, 5000);
	storages[1] = add_storage(MIB - 8192, 16384); /* in two segments */
	storages[2] = add_storage(4 * MIB, MIB);
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "n/%d", i);
		put(name, storages[i % 3]);
	}
	put("n/7", storages[2]);
	table_begin(writer);
	table_remove(writer, "n/8", 3); /* leaves a hole */
	if (table_complete(writer, &(struct completed) {.client = 1}, &index))
		bail("a completion: %s", tarn_fail_message());
	table_commit(writer, NULL, NULL);
}

static void make_region(void)
{
	_cleanup_fd_ int fd = memfd_create("region", MFD_CLOEXEC);

	if (table_create(fd, INSTANCE, 12345, 0, 0, &rw) < 0 ||
		table_writer_new(&rw, &writer) < 0 ||
		table_map(fd, false, &ro) < 0)
		bail("a region: %s", tarn_fail_message());
	fill_region();
}

/* ---- damage ----------------------------------------------------------- */

/* The record of a name that stands; its place in the region. */
static struct name_record *record_named(const char *name)
{
	uint64_t end = rw.records_offset + rw.header->records_used;
	struct name_record *r;

	for (uint64_t at = rw.records_offset; at < end; at += r->size) {
		r = record_at(&rw, at);
		if (r->name_size == strlen(name) &&
			memcmp(r->name, name, r->name_size) == 0)
			return r;
	}
	bail("no record of %s", name);
}

static struct name_record *hole(void)
{
	uint64_t end = rw.records_offset + rw.header->records_used;
	struct name_record *r;

	for (uint64_t at = rw.records_offset; at < end; at += r->size) {
		r = record_at(&rw, at);
		if (!r->name_size)
			return r;
	}
	bail("no hole");
}

static uint64_t offset_of(const void *p)
{
	return (uint64_t)((const unsigned char *)p - rw.map);
}

static _Atomic uint64_t *bucket_of_name(const char *name)
{
	return &rw.buckets[bucket_of(
		record_named(name)->hash, rw.header->n_buckets)];
}

static struct name_version *stands(const char *name)
{
	struct name_record *r = record_named(name);

	return &r->versions[r->versions[0].commit < r->versions[1].commit];
}

/* One number of the region, and what it becomes. */
struct damage {
	const char *what;
	const char *told;
	void *at;
	size_t size;
	uint64_t value;
};

static bool is_told(const struct faults *faults, const char *words)
{
	for (uint32_t i = 0; i < faults->n; i++)
		if (strstr(faults->lines[i], words))
			return true;
	return false;
}

static void test_damage(const struct damage *d)
{
	struct faults faults = {0};
	struct table_tally tally;
	uint64_t before = 0;

	memcpy(&before, d->at, d->size);
	memcpy(d->at, &d->value, d->size);
	if (table_check(&ro, descriptor_agrees, &faults, &tally) < 0)
		bail("%s: %s", d->what, tarn_fail_message());
	memcpy(d->at, &before, d->size);
	if (!ok(is_told(&faults, d->told), "the check finds: %s", d->what))
		for (uint32_t i = 0; i < faults.n; i++)
			diag("seen: %s", faults.lines[i]);
	faults_clear(&faults);
}

#define FIELD(place) .at = &(place), .size = sizeof(place)

static void test_header(void)
{
	struct table_header *h = rw.header;
	const struct damage rows[] = {
		{"another magic", "no longer", FIELD(h->magic), 1},
		{"another seed", "seed", FIELD(h->hash_seed), 1},
		{"another geometry", "geometry", FIELD(h->records_offset), 0},
		{"a server that died in the middle", "restructuring",
			FIELD(h->restructuring), 7},
		{"a name too many", "it counts", FIELD(h->n_names), 1000},
		{"too many storages", "storages", FIELD(h->n_storages),
			TABLE_STORAGES_MAX + 1},
		{"too many completions", "completions", FIELD(h->n_completions),
			TABLE_COMPLETIONS_MAX + 1},
		{"a completion that was not committed", "is above",
			FIELD(rw.completions[0].commit), UINT64_MAX},
		{"a completion of nobody", "of no client",
			FIELD(rw.completions[0].request.client), 0},
		{"too many buckets", "buckets", FIELD(h->n_buckets), 1u << 30},
		{"buckets too few", "never found", FIELD(h->n_buckets), 65},
		{"records beyond the region", "records_used",
			FIELD(h->records_used), UINT64_MAX - 63},
		{"a commit taken back", "never committed", FIELD(h->committed),
			h->committed - 2},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		test_damage(&rows[i]);
}

static void test_names(void)
{
	struct name_record *a = record_named("n/1"), *gap = hole();
	struct name_version *v = stands("n/1"), *both = stands("n/7");
	const struct damage rows[] = {
		{"a record of no size", "the records after it", FIELD(a->size),
			0},
		{"a record beyond the row", "the records after it",
			FIELD(a->size), 64 * 1024},
		{"a name longer than its record", "no good name",
			FIELD(a->name_size), 600},
		{"a name with a control character", "no good name",
			FIELD(a->name[0]), 7},
		{"another name", "another hash", FIELD(a->name[0]), 'm'},
		{"another hash", "another hash", FIELD(a->hash), 1},
		{"a version out of order", "commits", FIELD(both->version), 1},
		{"a version 0", "version 0", FIELD(v->version), 0},
		{"a flag of no meaning", "flags", FIELD(v->flags), 2},
		{"a name without a version", "no version that stands",
			FIELD(v->commit), 0},
		{"a removal that nobody took out", "no version that stands",
			FIELD(v->flags), NAME_REMOVED},
		{"a hole with a version", "it has a version",
			FIELD(gap->versions[0].commit), 1},
		{"a chain into a hole", "a chain leads to it",
			FIELD(*bucket_of_name("n/1")), offset_of(gap)},
		{"a chain into nothing", "where no record begins",
			FIELD(*bucket_of_name("n/1")), offset_of(a) + 64},
		{"a chain out of the region", "where no record begins",
			FIELD(*bucket_of_name("n/1")), UINT64_MAX - 63},
		{"a chain of another bucket", "belongs to bucket",
			FIELD(rw.buckets[0]), offset_of(a)},
		{"a record in no chain", "never found",
			FIELD(*bucket_of_name("n/1")), 0},
		{"a chain in a circle", "twice", FIELD(a->next), offset_of(a)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		test_damage(&rows[i]);
}

static void test_targets(void)
{
	struct tarn_descriptor *d = &stands("n/1")->descriptor;
	_Atomic uint64_t *word = &rw.storages[1].word;
	uint64_t g = storage_word_generation(*word);
	const struct damage rows[] = {
		{"a descriptor of another daemon",
			"\"n/1\": ", FIELD(d->instance), 1},
		{"one of no storage", "no storage 1000", FIELD(d->storage),
			1000},
		{"one of another generation", "generation",
			FIELD(d->generation), 77},
		{"one that begins elsewhere", "outside", FIELD(d->base),
			3 * MIB},
		{"one that reaches too far", "outside", FIELD(d->shape[0]),
			20000},
		{"one of another size", "not 1 of", FIELD(d->size), 1},
		{"a name of a storage that is free", "was removed",
			FIELD(*word), storage_word(g, STORAGE_FREE)},
		{"a name of one that only leases hold", "in state 3",
			FIELD(*word), storage_word(g, STORAGE_UNNAMED)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		test_damage(&rows[i]);
}

static void test_memory(void)
{
	struct table_segment *g = rw.segments;
	struct table_storage *s = rw.storages;
	const struct damage rows[] = {
		{"segments that overlap", "segments 0 and 1 overlap",
			FIELD(g[1].offset), MIB - 4096},
		{"a segment of no pool", "no pool 9", FIELD(g[2].pool), 9},
		{"a segment out of reach", "reach", FIELD(g[2].offset),
			1ull << 40},
		{"a segment of no state", "its state is 5", FIELD(g[2].word),
			5},
		{"a dropped segment that is used", "in no segment",
			FIELD(g[1].word), SEGMENT_DROPPED},
		{"storages that overlap", "storages 0 and 1 overlap",
			FIELD(s[0].alloc_size), MIB},
		{"a storage past its memory", "were taken for it",
			FIELD(s[0].size), 9000},
		{"one in front of it", "were taken for it", FIELD(s[1].base),
			0},
		{"one that wraps around", "were taken for it", FIELD(s[1].size),
			UINT64_MAX},
		{"one in no segment", "in no segment", FIELD(s[2].alloc_size),
			2 * MIB},
		{"one of another pool", "in no segment", FIELD(s[2].pool), 8},
		{"a state of no meaning", "makes no sense", FIELD(s[1].word),
			storage_word(1, 9)},
		{"a generation that fits no lease", "too large",
			FIELD(s[1].word),
			storage_word(
				1ull << TABLE_GENERATION_BITS, STORAGE_LIVE)},
		{"flags of no meaning", "flags 0x100", FIELD(s[1].flags), 256},
		{"a descriptor of its own inside the pool",
			"descriptor of its own", FIELD(s[1].flags),
			STORAGE_OWN},
		{"a device's without a descriptor", "flags 0x80",
			FIELD(s[1].flags), STORAGE_DEVICE},
		{"a device's that is mutable", "flags 0x87", FIELD(s[1].flags),
			STORAGE_DEVICE | STORAGE_OWN | STORAGE_MUTABLE |
				STORAGE_CREATED},
		{"a device without a UUID", "without a UUID", FIELD(s[1].flags),
			STORAGE_DEVICE | STORAGE_OWN | STORAGE_CREATED},
		{"more landed than there is", "landed", FIELD(s[0].landed),
			1ull << 40},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		test_damage(&rows[i]);
}

/* ---- no damage -------------------------------------------------------- */

static void is_whole(const char *what)
{
	struct faults faults = {0};
	struct table_tally tally = {0};
	int r = table_check(&ro, descriptor_agrees, &faults, &tally);

	is_int(0, r, "the check succeeds on %s", what);
	if (!ok(faults.n + faults.n_more == 0, "the check finds no fault in %s",
		    what))
		diag("seen: %s", faults.n ? faults.lines[0] : "?");
	is_int(NAMES - 1, (int64_t)tally.names, "the check counts all names");
	is_int(3, (int64_t)tally.storages, "the check counts all storages");
	is_int((int64_t)(4900 + 16284 + MIB - 100), (int64_t)tally.bytes,
		"the check counts all bytes");
	faults_clear(&faults);
}

/* As many names come and go as make the row and the chains change places. */
static void churn(void)
{
	for (unsigned n = 0; n < 5000; n++) {
		char name[32];

		snprintf(name, sizeof(name), "c/%u", n % 1000);
		put(name, n % 3);
		table_begin(writer);
		table_remove(writer, name, strlen(name));
		table_commit(writer, NULL, NULL);
	}
}

static void test_many_faults(void)
{
	struct faults faults = {0};

	for (unsigned i = 0; i < FAULTS_MAX + 10; i++)
		fault_add(&faults, "fault %u", i);
	is_int(FAULTS_MAX, faults.n,
		"the check reports a bounded number of faults");
	is_int(10, (int64_t)faults.n_more,
		"the check counts the faults that it does not report");
	faults_clear(&faults);
}

int main(void)
{
	make_region();
	is_whole("a region of names and storages");
	test_header();
	test_names();
	test_targets();
	test_memory();
	is_whole("the region after it was mended");
	churn();
	is_whole("the region after 5,000 names came and went");
	test_many_faults();
	table_writer_free(writer);
	table_unmap(&rw);
	table_unmap(&ro);
	return done(75);
}
