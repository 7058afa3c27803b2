/* SPDX-License-Identifier: MIT */
/*
 * The control region keeps who has published a version, and which requests were
 * done: another writer that takes over finds both.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

static struct table rw;
static struct table_writer *writer;
static uint32_t displaced_uid;

static void displaced(
	void *arg, const struct tarn_descriptor *descriptor, uint32_t uid)
{
	displaced_uid = uid;
}

static int64_t committed(void)
{
	return (int64_t)rw.header->committed;
}

static void put(const char *name, uint64_t id)
{
	struct tarn_descriptor d = {
		.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = 77,
		.storage = (uint32_t)id,
	};

	if (table_put(writer, name, strlen(name), &d, NULL) < 0)
		bail("%s", tarn_fail_message());
}

static uint32_t publisher(const char *name)
{
	struct table_standing is;

	return table_standing(&rw, name, strlen(name), &is) < 0 ? 0 : is.uid;
}

static int count_of_42(void *arg, const struct tarn_descriptor *d, uint32_t uid)
{
	(void)d;
	*(int *)arg += uid == 42;
	return 0;
}

/* Each version carries who has published it, also for another writer. */
static void test_publishers(void)
{
	int n = 0;

	is_int(0, publisher("p"),
		"a name that does not exist has no publisher");
	table_begin(writer);
	put("p", 1);
	table_commit(writer, NULL, NULL);
	is_int(TABLE_NOBODY, publisher("p"),
		"a name without a publisher is put");
	table_begin(writer);
	table_stamp(writer, 0, 0);
	put("p", 2);
	is_int(TABLE_NOBODY, publisher("p"),
		"a pending publisher is not visible before the commit");
	table_commit(writer, displaced, NULL);
	is_int(TABLE_NOBODY, displaced_uid,
		"a name is displaced with its publisher");
	is_int(0, publisher("p"), "a name is published by root");
	table_begin(writer);
	table_stamp(writer, 0, 42);
	put("p", 3);
	table_commit(writer, displaced, NULL);
	is_int(0, displaced_uid, "a displaced name has root as its publisher");
	table_writer_free(writer);
	is_int(0, table_writer_take_over(&rw, count_of_42, &n, &writer),
		"another writer takes over");
	is_int(1, n, "the other writer finds the name's publisher");
	table_begin(writer);
	table_remove(writer, "p", 1);
	table_commit(writer, displaced, NULL);
	is_int(42, displaced_uid, "a removed name has its publisher");
}

static uint32_t complete(uint32_t serial)
{
	struct completed request = {.client = 3, .serial = serial};
	uint32_t slot = UINT32_MAX;

	is_int(0, table_complete(writer, &request, &slot),
		"request %u is completed: %s", serial, tarn_fail_message());
	return slot;
}

/* A completion is there from the commit on, for another writer, too. */
static void test_completions(void)
{
	struct table_completion *c = rw.completions;
	uint32_t slot, other;

	table_begin(writer);
	slot = complete(7);
	is_int(committed() + 1, (int64_t)c[slot].commit,
		"the completion is pending under the next commit");
	table_abort(writer);
	is_int(0, (int64_t)c[slot].commit,
		"an abort frees the pending completion's slot");
	table_begin(writer);
	is_int(slot, complete(8), "the next request takes the freed slot");
	table_commit(writer, NULL, NULL);
	is_int(committed(), (int64_t)c[slot].commit,
		"the commit makes the completion valid");
	table_begin(writer);
	other = complete(9);
	ok(other != slot, "another request takes another slot");
	table_writer_free(writer);
	is_int(0, table_writer_new(&rw, &writer),
		"a writer takes over from one that died in a transaction");
	is_int(0, (int64_t)c[other].commit,
		"the pending completion is dropped at the take-over");
	is_int(8, c[slot].request.serial,
		"the valid completion has its request");
	is_int(committed(), (int64_t)c[slot].commit,
		"the valid completion has its commit");
	table_completion_free(writer, slot);
	is_int(0, (int64_t)c[slot].commit, "a freed completion has no commit");
	table_begin(writer);
	ok(complete(10) <= MAX(slot, other),
		"slots of freed completions are used again");
	table_commit(writer, NULL, NULL);
}

int main(void)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || table_create(fd, 77, 4711, 1, 2, &rw) < 0 ||
		table_writer_new(&rw, &writer) < 0)
		bail("%s", tarn_fail_message());
	test_publishers();
	test_completions();
	table_writer_free(writer);
	table_unmap(&rw);
	fd_close(fd);
	return done(24);
}
