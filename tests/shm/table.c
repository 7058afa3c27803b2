/* SPDX-License-Identifier: MIT */
/*
 * The control region in one process: published names are found, a transaction
 * becomes visible at once or not at all, records are used again, and storages
 * keep their generations.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/segment.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define MANY 50000

static struct table rw, ro;
static struct table_writer *writer;
static struct tarn_descriptor displaced_last;
static int displaced_n;

static void displaced(
	void *arg, const struct tarn_descriptor *descriptor, uint32_t uid)
{
	displaced_last = *descriptor;
	displaced_n++;
}

static struct tarn_descriptor made(uint64_t id)
{
	struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC};

	d.version = TARN_DESCRIPTOR_VERSION;
	d.instance = 77;
	d.storage = (uint32_t)id;
	d.base = id;
	d.stride[TARN_NDIM_MAX - 1] = (int64_t)(id * 3);
	return d;
}

static int64_t committed(void)
{
	return (int64_t)rw.header->committed;
}

static int put(const char *name, uint64_t id)
{
	struct tarn_descriptor d = made(id);

	return table_put(writer, name, strlen(name), &d, NULL);
}

/* The id under a name, as a reader sees it; negative: the error. */
static int64_t look(const char *name, uint64_t *ret_version)
{
	struct tarn_descriptor d, wanted;
	uint64_t version;
	int r = table_lookup(&ro, name, strlen(name), &d, &version);

	if (r < 0)
		return r;
	wanted = made(d.base);
	if (memcmp(&wanted, &d, sizeof(d)) != 0)
		return -EBADMSG;
	if (ret_version)
		*ret_version = version;
	return (int64_t)d.base;
}

static int count_one(void *arg, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	if (strlen(name) == name_size)
		++*(int *)arg;
	return 0;
}

static int listed(const char *prefix)
{
	int n = 0, r = table_list(&ro, prefix, strlen(prefix), count_one, &n);

	return r < 0 ? r : n;
}

static int stop_at_once(void *arg, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	++*(int *)arg;
	return 17;
}

/* Nothing shows before the commit, and then all of it. */
static void test_commit(void)
{
	uint64_t version = 0;

	is_int(-ENOENT, look("a", NULL),
		"a name is not found in an empty table");
	has_str("\"a\"", tarn_fail_message(),
		"the error names the missing name");
	table_begin(writer);
	is_int(-EBUSY, table_begin(writer),
		"a second transaction at a time is refused");
	is_int(0, put("a", 1), "a name 'a' is put");
	is_int(0, put("b", 2), "a name 'b' is put");
	is_int(-ENOENT, look("a", NULL),
		"a pending name is not found before the commit");
	is_int(0, listed(""), "a pending name is not listed before the commit");
	table_commit(writer, displaced, NULL);
	is_int(1, look("a", &version), "a committed name is found");
	is_int(1, (int64_t)version, "a new name has version 1");
	is_int(2, look("b", NULL), "the second name of the commit is found");
	is_int(0, displaced_n, "a commit of new names displaces no descriptor");
	is_int(2, (int64_t)rw.header->n_names, "the table counts two names");
}

/* What is given up leaves those two as they were. */
static void test_abort(void)
{
	table_begin(writer);
	put("a", 10);
	put("a", 11);
	put("c", 3);
	is_int(0, table_remove(writer, "b", 1), "a name 'b' is removed");
	is_int(-ENOENT, table_remove(writer, "b", 1),
		"a name is removed only once");
	is_int(-ENOENT, table_remove(writer, "z", 1),
		"a name that does not exist is not removed");
	is_int(1, look("a", NULL),
		"a name is found until its removal is committed");
	is_int(2, look("b", NULL), "the second name stands until the commit");
	table_abort(writer);
	is_int(1, look("a", NULL),
		"a name is found after its removal is aborted");
	is_int(2, look("b", NULL),
		"the second name is found after the cancelled removal");
	is_int(-ENOENT, look("c", NULL),
		"the name of the cancelled transaction is not found");
	is_int(2, listed(""), "two names are listed after an abort");
}

/* The last word on each name is what counts. */
static void test_last_word(void)
{
	uint64_t version = 0;

	table_begin(writer);
	put("a", 10);
	put("a", 12);
	put("c", 3);
	table_remove(writer, "b", 1);
	put("d", 4);
	table_remove(writer, "d", 1);
	table_commit(writer, displaced, NULL);
	is_int(12, look("a", &version),
		"the last of two puts in a transaction counts");
	is_int(2, (int64_t)version,
		"two puts in a transaction make one version");
	is_int(-ENOENT, look("b", NULL), "a removed name is not found");
	is_int(3, look("c", NULL),
		"a name that was put beside a removal is found");
	is_int(-ENOENT, look("d", NULL),
		"a name that was put and removed in a transaction is not "
		"found");
	is_int(2, displaced_n, "the commit displaces two descriptors");
	is_int(2, (int64_t)displaced_last.base,
		"the last displaced descriptor is that of the removed name");
	is_int(2, (int64_t)rw.header->n_names,
		"the table counts two names after the commit");
	is_int(0, rw.header->restructuring & 1,
		"no restructuring is pending after the commit");
}

/* A name that c's transaction removes first. */
static void test_removed_and_put(void)
{
	uint64_t version = 0;

	table_begin(writer);
	table_remove(writer, "c", 1);
	put("c", 33);
	table_commit(writer, displaced, NULL);
	is_int(33, look("c", &version),
		"a name that is removed and put in one transaction is found");
	is_int(2, (int64_t)version,
		"a name that is removed and put has a new version");
	is_int(3, displaced_n,
		"a name that is removed and put displaces one descriptor");
	is_int(-EINVAL, (table_begin(writer), put("\xff", 1)),
		"a malformed name is refused");
	table_abort(writer);
}

/* Each goes on where the one before it ends. */
static void test_transactions(void)
{
	test_commit();
	test_abort();
	test_last_word();
	test_removed_and_put();
}

/* What a commit wrote is found as long as a name keeps the version. */
static void test_written(void)
{
	struct tarn_descriptor d;
	uint64_t version, first;

	table_begin(writer);
	put("w", 1);
	table_commit(writer, NULL, NULL);
	first = (uint64_t)committed();
	for (int i = 2; i <= 3; i++) {
		is_int(0, table_find_written(&rw, "w", 1, first, &d, &version),
			"what the commit wrote is found before version %d", i);
		is_int(1, (int64_t)version,
			"an older version that is found has its number");
		table_begin(writer);
		put("w", (uint64_t)i);
		table_commit(writer, NULL, NULL);
	}
	is_int(-ENOENT, table_find_written(&rw, "w", 1, first, &d, &version),
		"a version that was displaced twice is not found");
	is_int(-ENOENT, table_find_written(&rw, "v", 1, first, &d, &version),
		"a version of a name that does not exist is not found");
}

static void test_reuse(void)
{
	uint64_t used = 0;
	char name[32];
	bool same = true;

	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "again/%d", i);
		table_begin(writer);
		put(name, 5);
		table_commit(writer, NULL, NULL);
		table_begin(writer);
		table_remove(writer, name, strlen(name));
		table_commit(writer, NULL, NULL);
		if (i == 0)
			used = rw.header->records_used;
		same = same && look(name, NULL) == -ENOENT;
	}
	is_int((int64_t)used, (int64_t)rw.header->records_used,
		"memory of removed names is used again");
	ok(same, "no removed name is found in used memory");
}

static void test_long_and_short(void)
{
	char name[1025];
	uint64_t used;
	int wrong = 0;

	memset(name, 'n', sizeof(name));
	name[1024] = '\0';
	table_begin(writer);
	is_int(0, put(name, 1024), "a name of 1,024 bytes is put");
	table_commit(writer, NULL, NULL);
	is_int(1024, look(name, NULL), "a name of 1,024 bytes is found");
	is_int(-ENAMETOOLONG,
		table_lookup(&ro, name, 1025, &(struct tarn_descriptor) {0},
			&(uint64_t) {0}),
		"a lookup of a longer name is an error");
	used = rw.header->records_used;
	table_begin(writer);
	table_remove(writer, name, 1024);
	table_commit(writer, NULL, NULL);
	table_begin(writer);
	put("short/1", 1);
	put("short/2", 2);
	table_commit(writer, NULL, NULL);
	is_int((int64_t)used, (int64_t)rw.header->records_used,
		"two short names fit into the hole of a long one");
	is_int(2, listed("short/"), "names are listed by prefix");
	is_int(0, listed("short/1/"),
		"a prefix longer than any name is refused");
	is_int(17, table_list(&ro, "", 0, stop_at_once, &wrong),
		"a listing ends when the callback asks for it");
	is_int(1, wrong, "a listing ends at the callback's first request");
}

static void test_many(void)
{
	char name[64];
	int wrong = 0, n;

	n = listed("");
	table_begin(writer);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "model/layer.%d/weight", i);
		wrong += put(name, (uint64_t)i) < 0;
	}
	is_int(n, listed(""), "%d pending names are not listed", MANY);
	table_commit(writer, NULL, NULL);
	is_int(0, wrong, "%d names are put in one transaction", MANY);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "model/layer.%d/weight", i);
		wrong += look(name, NULL) != i;
	}
	is_int(0, wrong, "all names are found after the table grew");
	is_int(MANY, listed("model/"),
		"all names are listed after the table grew");
	table_begin(writer);
	for (int i = 0; i < MANY; i += 2) {
		snprintf(name, sizeof(name), "model/layer.%d/weight", i);
		table_remove(writer, name, strlen(name));
	}
	table_commit(writer, NULL, NULL);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "model/layer.%d/weight", i);
		wrong += look(name, NULL) != (i % 2 ? i : -ENOENT);
	}
	is_int(0, wrong,
		"every second name is removed and the others are found");
	/* A writer that begins anew knows the same, and the same holes. */
	writer = table_writer_free(writer);
	is_int(0, table_writer_new(&rw, &writer),
		"a new writer begins on the region");
	is_int(n + MANY / 2, (int64_t)rw.header->n_names,
		"a new writer counts the same names");
	{
		uint64_t used = rw.header->records_used;

		table_begin(writer);
		for (int i = 0; i < MANY / 2; i++) {
			snprintf(name, sizeof(name), "other/layer.%d/w", i);
			wrong += put(name, (uint64_t)i) < 0;
		}
		table_commit(writer, NULL, NULL);
		is_int((int64_t)used, (int64_t)rw.header->records_used,
			"a new writer finds the holes of removed names");
	}
	is_int(0, wrong, "new names are put into the holes");
}

static void test_storages(void)
{
	struct table_storage in = {.pool = 3, .base = 64, .size = 100}, out;
	uint64_t generation, again;
	uint32_t index, second;

	in.alloc_size = 4096;
	is_int(0,
		table_storage_add(
			writer, &in, STORAGE_FILLING, &index, &generation),
		"a storage is added");
	is_int(1, (int64_t)generation, "a new storage has generation 1");
	is_int(0, table_storage_get(&ro, index, generation, &out),
		"a storage's entry is read");
	is_int(STORAGE_FILLING, storage_word_state(out.word),
		"a new storage is filling");
	is_int(100, (int64_t)out.size, "a storage's entry has its size");
	is_int(-ESTALE, table_storage_get(&ro, index, 2, &out),
		"a storage under another generation is stale");
	is_int(-ESTALE, table_storage_get(&ro, index + 1, 1, &out),
		"a storage index beyond the last is stale");
	is_int(-ESTALE, table_storage_get(&ro, UINT32_MAX, 1, &out),
		"a storage index far beyond the last is stale");
	table_storage_set(writer, index, STORAGE_LIVE);
	table_storage_get(&ro, index, generation, &out);
	is_int(STORAGE_LIVE, storage_word_state(out.word),
		"a storage becomes live");
	table_storage_drop(writer, index);
	is_int(-ESTALE, table_storage_get(&ro, index, generation, &out),
		"a removed storage is stale");
	is_int(-ESTALE, table_storage_get(&ro, index, generation + 1, &out),
		"the next generation is stale before it exists");
	table_storage_add(writer, &in, STORAGE_LIVE, &second, &again);
	is_int(index, second, "a removed storage's index is used again");
	is_int((int64_t)generation + 1, (int64_t)again,
		"a storage in a used index has the next generation");
	/* The last generation that a lease word holds. */
	rw.storages[index].word = storage_word((1ull << 38) - 1, STORAGE_LIVE);
	table_storage_drop(writer, index);
	table_storage_add(writer, &in, STORAGE_LIVE, &second, &again);
	ok(second != index, "an index retires with its last generation");
	writer = table_writer_free(writer);
	table_writer_new(&rw, &writer);
	table_storage_add(writer, &in, STORAGE_LIVE, &second, &again);
	ok(second != index, "a retired index is retired for every writer");
}

static void test_pools(void)
{
	struct table_pool pool = {.id = 5, .page_shift = 12, .reach = 1 << 20};

	for (unsigned int i = 0; i < TABLE_POOLS_MAX; i++)
		if (table_add_pool(writer, &pool) < 0)
			bail("table_add_pool: %s", tarn_fail_message());
	is_int(-ENOSPC, table_add_pool(writer, &pool),
		"one pool too many is refused");
	is_int(TABLE_POOLS_MAX, ro.header->n_pools,
		"the header counts all pools");
	is_int(0, table_spare_segment(&ro, 0),
		"the first spare number of a segment is 0");
	is_int(0, table_add_segment(writer, 0, 5, 0, 4096, 8192),
		"a segment is added");
	is_int(8192, (int64_t)ro.segments[0].size,
		"the segment's entry can be read");
}

static void test_maps(int fd, int ro_fd)
{
	struct table t;

	is_int(-EACCES, table_map(ro_fd, true, &t),
		"a read-only descriptor has no writable mapping");
	is_int(0, table_map(fd, true, &t),
		"the next writer maps the region again");
	table_unmap(&t);
	rw.header->magic++;
	is_int(-EPROTO, table_map(ro_fd, false, &t),
		"a region with another magic is refused");
	has_str("magic", tarn_fail_message(), "the error contains 'magic'");
	rw.header->magic--;
	rw.header->signature++;
	is_int(-EPROTO, table_map(ro_fd, false, &t),
		"a region with another layout is refused");
	has_str("signature", tarn_fail_message(),
		"the error contains 'signature'");
	rw.header->signature--;
	rw.header->records_offset += 4096;
	is_int(-EPROTO, table_map(ro_fd, false, &t),
		"a region with another geometry is refused");
	rw.header->records_offset -= 4096;
	is_int(0, table_map(ro_fd, false, &t),
		"the restored region is mapped again");
	is_int(77, (int64_t)t.instance, "the region mapped again is the same");
	table_unmap(&t);
}

int main(void)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ro_fd = -1;

	if (fd < 0)
		bail("memfd_create: %m");
	is_int(0, table_create(fd, 77, 4711, 1, 2, &rw), "a region is created");
	is_int(0, segment_seal_size(fd), "the region's size is sealed");
	ok(ftruncate(fd, 4096) < 0, "the region cannot be made smaller");
	is_int(0, segment_reopen(fd, &ro_fd),
		"the region's descriptor can be opened again for reading");
	is_int(0, table_map(ro_fd, false, &ro),
		"the read-only descriptor is mapped: %s", tarn_fail_message());
	is_int(0, table_writer_new(&rw, &writer),
		"a writer is made for the region");
	test_transactions();
	test_written();
	test_reuse();
	test_long_and_short();
	test_many();
	test_storages();
	test_pools();
	test_maps(fd, ro_fd);
	table_writer_free(writer);
	table_unmap(&ro);
	table_unmap(&rw);
	fd_close(ro_fd);
	fd_close(fd);
	return done(94);
}
