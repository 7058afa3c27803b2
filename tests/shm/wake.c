/* SPDX-License-Identifier: MIT */
/*
 * Any process that sees a control region can wait on it, many thousand times
 * over. The thread that commits wakes so many of these and no more, and leaves
 * the others to who was named for that; where nobody was, it wakes them all. A
 * ring's sleepers it leaves all.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/ring.h"
#include "shm/table_writer.h"
#include "shm/wake.h"
#include "tests/kit/crowd.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define MANY (8 * WAKE_AT_ONCE + 1)

static struct table rw, ro;
static struct table_writer *writer;
static _Atomic uint32_t *left;
static int n_left;

static bool remember(_Atomic uint32_t *word)
{
	left = word;
	n_left++;
	return true;
}

static bool refuse(_Atomic uint32_t *word)
{
	return !remember(word);
}

static void make_table(void)
{
	int fd = memfd_create("table", MFD_CLOEXEC), reads;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reads = open(path, O_RDONLY | O_CLOEXEC);
	must(table_create(fd, 77, 1, 0, 0, &rw));
	must(table_map(reads, false, &ro));
	must(table_writer_new(&rw, &writer));
	close(fd);
	close(reads);
}

static void begin(struct crowd *crowd, unsigned n)
{
	const char *why = crowd_begin(crowd, &ro.header->changed, n);

	if (why)
		skip_all("%s", why);
	n_left = 0;
	left = NULL;
}

static void test_table(void)
{
	struct crowd crowd;

	begin(&crowd, MANY);
	wake_leave_to(remember);
	table_wake(writer);
	ok(crowd_is_woken(&crowd, WAKE_AT_ONCE),
		"some waiting processes are woken at once");
	is_int(WAKE_AT_ONCE, crowd_woken(&crowd),
		"no more are woken than WAKE_AT_ONCE");
	is_int(1, n_left,
		"the rest of the waiting processes are left to the helper once");
	ok(left == &rw.header->changed,
		"the helper gets the word that the others wait for");
	while (wake_some(left) == WAKE_AT_ONCE)
		;
	ok(crowd_is_woken(&crowd, MANY), "the helper wakes all the others");
	crowd_end(&crowd);

	begin(&crowd, WAKE_AT_ONCE - 1);
	table_wake(writer);
	ok(crowd_is_woken(&crowd, WAKE_AT_ONCE - 1),
		"a few waiting processes are all woken at once");
	is_int(0, n_left,
		"no process is left to the helper when all are woken");
	crowd_end(&crowd);
}

static void test_nobody(void)
{
	struct crowd crowd;

	begin(&crowd, MANY);
	wake_leave_to(refuse);
	table_wake(writer);
	is_int(1, n_left, "many are left to one that can do nothing");
	ok(crowd_is_woken(&crowd, MANY), "all are woken");
	crowd_end(&crowd);

	begin(&crowd, MANY);
	wake_leave_to(NULL);
	table_wake(writer);
	ok(crowd_is_woken(&crowd, MANY),
		"all are woken where nobody was named");
	crowd_end(&crowd);
}

static void test_ring(void)
{
	const struct ring_geometry geometry = {
		.mode = RING_QUEUE, .slots = 4, .slot_bytes = 1};
	struct ring ring;
	size_t size = 0;
	void *memory;

	must(ring_size(&geometry, &size));
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		bail("mmap: %m");
	must(ring_init(memory, size, &geometry));
	must(ring_attach(&ring, memory, size));
	wake_leave_to(remember);
	n_left = 0;
	ring_wake_everybody(&ring);
	is_int(2, n_left, "both words of a ring are left");
	wake_leave_to(NULL);
	munmap(memory, size);
}

int main(void)
{
	make_table();
	test_table();
	test_nobody();
	test_ring();
	writer = table_writer_free(writer);
	table_unmap(&ro);
	table_unmap(&rw);
	return done(11);
}
