/* SPDX-License-Identifier: MIT */
/*
 * More segments come and go in a table than it has numbers, while processes
 * read it. Each reader gets whole entries, of one serial each; a number and a
 * serial name one segment for good; and the count of changes shows all of
 * them, even if a writer dies in between.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/page.h"
#include "shm/table_writer.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define LIVE 40u /* at a time */
#define TURNS (TABLE_SEGMENTS_MAX + 20000u)
#define TURNS_PER_WRITER 9973u
#define READERS 2
#define SEEN 10000 /* numbers that readers have seen used again */
#define PATIENCE_S 60.0

static struct table table;
static struct table_writer *writer;

static struct shared {
	_Atomic int stop, ready;
	_Atomic long copies, renewed, torn;
} * shared;

/* An entry of segment (number, serial) holds nothing else. */
static uint64_t offset_of(uint32_t number, uint64_t serial)
{
	return (serial << 16 | number) * PAGE;
}

static uint64_t size_of(uint32_t number, uint64_t serial)
{
	return (1 + (number * 31 + serial * 7) % 1000) * PAGE;
}

/* ---- a reader ---------------------------------------------------------- */

static void look_at(const struct table *seen, uint32_t i, uint64_t *last)
{
	struct segment_shown s;

	if (!table_segment_get(seen, i, &s))
		return;
	if (s.pool != (uint32_t)s.serial + i ||
		s.offset != offset_of(i, s.serial) ||
		s.size != size_of(i, s.serial) || s.serial < *last)
		shared->torn++;
	shared->renewed += s.serial != *last && *last;
	*last = s.serial;
	shared->copies++;
}

static _Noreturn void read_on(int fd)
{
	static uint64_t last[LIVE];
	struct table seen;

	if (table_map(fd, false, &seen) < 0)
		_exit(1);
	shared->ready++;
	while (!shared->stop)
		for (uint32_t i = 0; i < LIVE; i++)
			if (i < seen.header->n_segments)
				look_at(&seen, i, &last[i]);
	_exit(0);
}

static void start_readers(int fd, pid_t pids[READERS])
{
	for (int i = 0; i < READERS; i++) {
		fflush(stdout);
		pids[i] = fork();
		if (pids[i] < 0)
			bail("fork: %m");
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			read_on(fd);
		}
	}
	while (shared->ready < READERS)
		usleep(1000);
}

static void end_readers(const pid_t pids[READERS])
{
	int status, wrong = 0;

	shared->stop = 1;
	for (int i = 0; i < READERS; i++) {
		waitpid(pids[i], &status, 0);
		wrong += status != 0;
	}
	is_int(0, wrong, "the readers end without error");
	diag("%ld copies, %ld of a number that was used again",
		(long)shared->copies, (long)shared->renewed);
	ok(shared->renewed >= SEEN,
		"readers see segment numbers that are used again");
	is_int(0, shared->torn, "no reader's copy mixes two segments");
}

/* ---- the writer -------------------------------------------------------- */

static uint64_t next_serial(uint32_t number)
{
	return 1 + segment_word_serial(table.segments[number].word);
}

static void show(void)
{
	uint32_t number = table_spare_segment(&table, 0);
	uint64_t serial = next_serial(number);

	must(table_add_segment(writer, number, (uint32_t)serial + number,
		(uint32_t)serial, offset_of(number, serial),
		size_of(number, serial)));
}

static uint64_t changes(void)
{
	return table.header->segment_changes;
}

static void next_writer(void)
{
	uint64_t before = changes();

	table_writer_free(writer);
	must(table_writer_new(&table, &writer));
	if (changes() == before)
		bail("a new writer did not count a change");
}

/* Drops one of those that are there, not always the same. */
static void turn(uint32_t i)
{
	uint64_t before = changes();
	uint32_t number = i * 7919u % LIVE;

	table_drop_segment(writer, number);
	if (table_segment_serial(&table, number) || changes() == before)
		bail("segment %u was not dropped", number);
	show();
	if (changes() < before + 2)
		bail("a segment was shown and not counted");
	if (i % TURNS_PER_WRITER == 0)
		next_writer();
}

static void test_many(void)
{
	double end = seconds() + PATIENCE_S;
	uint32_t n = 0;

	for (uint32_t i = 0; i < LIVE; i++)
		show();
	/* The readers may get to run late. */
	while (n < TURNS || (shared->renewed < SEEN && seconds() < end))
		turn(n++);
	is_int(LIVE, table.header->n_segments,
		"more segments came and went than there are numbers");
}

/* Another server goes on with the same numbers and serials. */
static void test_take_over(int fd)
{
	uint64_t words[LIVE];
	int same = 0;

	for (uint32_t i = 0; i < LIVE; i++)
		words[i] = table.segments[i].word;
	writer = table_writer_free(writer);
	table_unmap(&table);
	must(table_map(fd, true, &table));
	must(table_writer_new(&table, &writer));
	for (uint32_t i = 0; i < LIVE; i++)
		same += table.segments[i].word == words[i];
	is_int(LIVE, same, "the next writer finds the same segments");
	turn(1);
	is_int(LIVE, table.header->n_segments,
		"segment numbers are used again after a writer's death");
}

int main(void)
{
	_cleanup_fd_ int fd = memfd_create("region", MFD_CLOEXEC);
	pid_t readers[READERS];

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		bail("mmap: %m");
	must(table_create(fd, 7, 8, 0, 0, &table));
	must(table_writer_new(&table, &writer));
	start_readers(fd, readers);
	test_many();
	end_readers(readers);
	test_take_over(fd);
	table_writer_free(writer);
	table_unmap(&table);
	munmap(shared, sizeof(*shared));
	return done(6);
}
