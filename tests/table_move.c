/* SPDX-License-Identifier: MIT */
/*
 * A control region is left for another: who has the old one mapped is told
 * that it is history and can acquire nothing there, what he holds is in the
 * next one as well, and he follows at the same addresses.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "shm/lease.h"
#include "shm/table_writer.h"
#include "tests/tap.h"

#define NAMES 300

static struct table ours, theirs; /* the keeper's, a client's */
static struct table_writer *writer;
static int region = -1;
static struct lease_page *page;
static uint32_t storage;
static uint64_t generation;

static int new_region(void)
{
	int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		bail("memfd: %m");
	return fd;
}

static void must(int r)
{
	if (r < 0)
		bail("%s", tarn_fail_message());
}

static void publish(int i)
{
	struct tarn_descriptor d = {
		.storage = storage, .generation = generation};
	uint64_t version;
	char name[32];
	int n = snprintf(name, sizeof(name), "name/%d", i);

	must(table_begin(writer));
	must(table_put(writer, name, (size_t)n, &d, &version));
	table_commit(writer, NULL, NULL);
}

static void begin(void)
{
	struct table_storage entry = {.size = 4096, .alloc_size = 4096};
	int fd;

	region = new_region();
	must(table_create(region, 7, 4711, 3, 0, &ours));
	must(table_writer_new(&ours, &writer));
	must(table_storage_add(
		writer, &entry, STORAGE_LIVE, &storage, &generation));
	for (int i = 0; i < NAMES; i++)
		publish(i);
	must(table_map(region, false, &theirs));
	must(lease_create(&fd));
	must(lease_map(fd, &page));
	fd_close(fd);
}

static int find(const char *name)
{
	struct table_name found;

	return table_find(&theirs, name, strlen(name), &found);
}

static int count_one(void *arg, const char *name, size_t size,
	const struct tarn_descriptor *d, uint64_t version)
{
	(void)name, (void)size, (void)d, (void)version;
	++*(int *)arg;
	return 0;
}

static int list(int *ret_n)
{
	*ret_n = 0;
	return table_list(&theirs, "", 0, count_one, ret_n);
}

static void test_leave(void)
{
	uint64_t place = table_place(&theirs);
	uint32_t changed = theirs.header->changed;
	struct table_storage entry;
	int n;

	must(lease_acquire(page, &theirs, storage, generation, 0));
	table_leave(&ours);
	ok(table_is_left(&theirs), "the client sees that it was left");
	ok(table_place(&theirs) != place, "it is another place");
	ok(theirs.header->changed != changed, "who waits is woken");
	is_int(-ESTALE, find("name/1"), "a name there is history");
	is_int(-ESTALE, find("none"), "and so is that there is none");
	is_int(-ESTALE, list(&n), "and a list");
	is_int(0, n, "of which nothing is told");
	is_int(-ESTALE, lease_acquire(page, &theirs, storage, generation, 1),
		"nothing can be acquired");
	is_int(-ESTALE,
		lease_acquire(page, &theirs, storage, generation + 1, 1),
		"nor as the next generation");
	is_int(-ESTALE, table_storage_get(&theirs, storage, generation, &entry),
		"or looked at");
	is_int(1, lease_count(page), "what was acquired before is held");
}

static void test_return(void)
{
	int n;

	table_return(&ours);
	ok(!table_is_left(&theirs), "it is returned to");
	is_int(0, find("name/1"), "a name");
	is_int(0, list(&n), "a list");
	is_int(NAMES, n, "of all names");
	is_int(0, lease_acquire(page, &theirs, storage, generation, 1),
		"what is there can be acquired");
	ok(!lease_release(page, &theirs, 1), "and released without a bell");
}

static void test_move(void)
{
	struct table_header *address = theirs.header;
	uint64_t size = table_footprint(&ours);
	struct table next;
	int fd = new_region(), n;

	is_int(-EBUSY, table_copy(&ours, fd, &next),
		"one that was not left is not copied");
	table_leave(&ours);
	must(table_copy(&ours, fd, &next));
	is_int((int64_t)size, (int64_t)table_footprint(&next),
		"the copy is as large");
	table_writer_free(writer);
	must(table_writer_new(&next, &writer));
	publish(NAMES);
	is_int(-ESTALE, find("name/1"), "the client is in the old one still");
	is_int(1, table_follow(&theirs, fd), "it follows");
	ok(theirs.header == address, "at the same addresses");
	is_int(0, find("name/1"), "what was there is there");
	is_int(0, find("name/300"), "and what came then");
	is_int(0, list(&n), "a list");
	is_int(NAMES + 1, n, "of all names");
	ok(!lease_release(page, &theirs, 0), "what was held is as good there");
	is_int(0, lease_acquire(page, &theirs, storage, generation, 0),
		"and so is what is acquired now");
	is_int(0, table_follow(&theirs, fd), "it has nowhere to follow to");
	is_int(0, table_follow(&theirs, region), "least of all back");
	must(lease_acquire(page, &theirs, storage, generation, 1));
	table_unmap(&ours);
	ours = next;
	fd_close(region);
	region = fd;
}

/* A release that saw only what is left of the old one. */
static void test_release(void)
{
	table_leave(&ours);
	ok(lease_release(page, &theirs, 1),
		"what is released in a region that was left rings");
	table_return(&ours);
}

static void test_strangers(void)
{
	struct table other;
	int fd = new_region();

	must(table_create(fd, 8, 4711, 3, 0, &other));
	other.header->moves = 9;
	is_int(-EPROTO, table_follow(&theirs, fd),
		"another daemon's region is not followed");
	is_int(0, find("name/1"), "and nothing has changed");
	table_unmap(&other);
	fd_close(fd);
	is_int(-EPROTO, table_follow(&theirs, STDERR_FILENO),
		"nor what is no region");
}

int main(void)
{
	begin();
	test_leave();
	test_return();
	test_move();
	test_release();
	test_strangers();
	table_writer_free(writer);
	lease_unmap(page);
	table_unmap(&ours);
	table_unmap(&theirs);
	fd_close(region);
	return done();
}
