/* SPDX-License-Identifier: MIT */
/*
 * lookup: nanoseconds for one table_lookup, through a read-only mapping, in an
 * order that no cache foresees; beside it, a memcpy of a descriptor from as
 * many, which is what the memory alone costs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "shm/table.h"

#define LOOKS 2000000u

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int name_of(char *name, size_t size, unsigned int i)
{
	return snprintf(name, size, "model.safetensors:h.%u.attn.weight", i);
}

static void fail(void)
{
	fprintf(stderr, "lookup: %s\n", tarn_fail_message());
	exit(1);
}

static void measure(unsigned int n)
{
	int fd = memfd_create("tarn-bench", MFD_CLOEXEC);
	struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC}, *flat;
	char(*names)[64] = calloc(n, sizeof(*names));
	int *sizes = calloc(n, sizeof(*sizes));
	struct table_writer *w = NULL;
	uint64_t version, sum = 0;
	struct table rw, ro;
	double put, look, copy;
	unsigned int x;

	flat = calloc(n, sizeof(*flat));
	if (fd < 0 || !names || !sizes || !flat ||
		table_create(fd, 1, 4711, 0, 0, &rw) < 0 ||
		table_map(fd, false, &ro) < 0 ||
		table_writer_new(&rw, &w) < 0 || table_begin(w) < 0)
		fail();
	for (unsigned int i = 0; i < n; i++)
		sizes[i] = name_of(names[i], sizeof(names[i]), i);
	put = now();
	for (unsigned int i = 0; i < n; i++) {
		d.base = i;
		if (table_put(w, names[i], (size_t)sizes[i], &d, NULL) < 0)
			fail();
	}
	table_commit(w, NULL, NULL);
	put = now() - put;
	for (unsigned int warm = 0; warm < 2; warm++) {
		look = now();
		x = 1;
		for (unsigned int i = 0; i < LOOKS; i++) {
			unsigned int k = (x = x * 1664525u + 1013904223u) % n;

			if (table_lookup(&ro, names[k], (size_t)sizes[k], &d,
				    &version) < 0 ||
				d.base != k)
				fail();
			sum += d.base;
		}
		look = now() - look;
	}
	copy = now();
	for (unsigned int i = 0; i < LOOKS; i++) {
		x = x * 1664525u + 1013904223u;
		memcpy(&d, &flat[x % n], sizeof(d));
		__asm__ volatile("" : : "r"(&d) : "memory");
	}
	copy = now() - copy;
	printf("lookup: %8u names: %6.1f ns a look-up, %5.1f ns a copy of a "
	       "descriptor, %6.1f ns a put%s\n",
		n, look / LOOKS, copy / LOOKS, put / n, sum ? "" : " ");
	table_writer_free(w);
	table_unmap(&ro);
	table_unmap(&rw);
	free(names);
	free(sizes);
	free(flat);
	close(fd);
}

int main(int argc, char **argv)
{
	measure(1000);
	measure(100000);
	if (argc > 1)
		measure((unsigned int)strtoul(argv[1], NULL, 10));
	return 0;
}
