/* SPDX-License-Identifier: MIT */
/*
 * The cost of a look-up by name:
 *
 *	bench/lookup [NAMES]
 *
 * table_lookup through a read-only mapping, in an order that no cache
 * foresees. Beside it, in turns, so that both see the same machine: as many
 * cache lines as it must touch, at random in memory of the same kind and size,
 * each known only when the one before it was read. With few names all of them
 * are in a cache, and the look-up's own work is what is seen.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "bench/times.h"
#include "shm/table_writer.h"

enum { ROUNDS = 41, LOOKS = 20000 };

/* The bucket; of the record its head, the commit numbers of two versions, the
 * name; and a descriptor. */
#define LINE 64u
#define LINES (1 + 1 + 2 + 1 + sizeof(struct tarn_descriptor) / LINE)

static struct table table, seen; /* the writer's, and a reader's */
static unsigned int n_names;
static const unsigned char *area; /* of zeroes, as large as what is used */
static uint64_t area_lines;
static uint64_t state = 1;

static void fail(const char *what)
{
	fprintf(stderr, "bench/lookup: %s: %s\n", what, tarn_fail_message());
	exit(1);
}

static uint64_t next(uint64_t x)
{
	return x * 6364136223846793005ull + 1442695040888963407ull;
}

/* Into [0, n). */
static uint64_t below(uint64_t x, uint64_t n)
{
	return (x >> 32) * n >> 32;
}

/* ---- names ------------------------------------------------------------- */

static char name[] = "model.safetensors:h.0000000.attn.weight";

/* Without a list of names, which would be read at random, too. */
static void set_name(unsigned int i)
{
	for (char *digit = strchr(name, ':') + 9; i; i /= 10)
		*digit-- = (char)('0' + i % 10);
}

static void clear_name(void)
{
	memset(strchr(name, ':') + 3, '0', 7);
}

static void put_names(void)
{
	struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC};
	struct table_writer *writer;

	if (table_writer_new(&table, &writer) < 0 || table_begin(writer) < 0)
		fail("a writer");
	for (unsigned int i = 0; i < n_names; i++) {
		d.base = i;
		clear_name();
		set_name(i);
		if (table_put(writer, name, sizeof(name) - 1, &d, NULL) < 0)
			fail(name);
	}
	table_commit(writer, NULL, NULL);
	table_writer_free(writer);
}

/* ---- one round of each ------------------------------------------------- */

static double look(void)
{
	double start = wall_ns();

	for (int i = 0; i < LOOKS; i++) {
		struct tarn_descriptor d;
		uint64_t version, k;

		state = next(state);
		k = below(state, n_names);
		clear_name();
		set_name((unsigned int)k);
		if (table_lookup(&seen, name, sizeof(name) - 1, &d, &version) <
				0 ||
			d.base != k)
			fail(name);
	}
	return (wall_ns() - start) / LOOKS;
}

static double chase(void)
{
	double start = wall_ns();

	for (size_t i = 0; i < LOOKS * LINES; i++)
		/* What is read is 0, but the processor must wait for it. */
		state = next(state) +
			*(const volatile unsigned char *)(area +
							  below(state,
								  area_lines) *
								  LINE);
	return (wall_ns() - start) / LOOKS;
}

static void measure(void)
{
	double ours[ROUNDS], bare[ROUNDS], factor[ROUNDS];

	for (int r = -1; r < ROUNDS; r++) {
		double a = look(), b = chase();

		/* The first one finds nothing in its place. */
		if (r < 0)
			continue;
		ours[r] = a;
		bare[r] = b;
		factor[r] = a / b;
	}
	printf("%8u names: %7.1f ns a look-up, %7.1f ns for %zu random lines, "
	       "%5.2f times as much%s\n",
		n_names, median(ours, ROUNDS), median(bare, ROUNDS), LINES,
		median(factor, ROUNDS),
		n_names < 1000000 ? "" : " (at most 1.3)");
	fflush(stdout);
}

/* ---- both areas -------------------------------------------------------- */

static void open_table(void)
{
	int fd = memfd_create("tarn-bench", MFD_CLOEXEC);

	if (fd < 0 || table_create(fd, 1, 4711, 0, 0, &table) < 0 ||
		table_map(fd, false, &seen) < 0)
		fail("a region");
	close(fd);
	put_names();
}

static void open_area(void)
{
	const struct table_header *h = table.header;
	uint64_t size =
		h->records_used + h->n_buckets * sizeof(_Atomic uint64_t);
	int fd = memfd_create("tarn-bench", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		fail("an area");
	area = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (area == MAP_FAILED)
		fail("an area");
	area_lines = size / LINE;
	close(fd);
}

static void with_names(unsigned int n)
{
	n_names = n;
	open_table();
	open_area();
	measure();
	munmap((void *)area, area_lines * LINE);
	table_unmap(&seen);
	table_unmap(&table);
}

int main(int argc, char **argv)
{
	with_names(1000);
	with_names(100000);
	with_names(
		argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 1000000);
	return 0;
}
