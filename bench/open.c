/* SPDX-License-Identifier: MIT */
/*
 * What opening a published tensor costs, once connected:
 *
 *	bench/open SOCKET FOLDER
 *
 * Loads a file of 1 KiB and one of 1 GiB under names, then looks each up and
 * drops it again and again. The table's own look-up is the reference: what
 * comes on top is the lease, the checks and the objects.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"

enum { ROUNDS = 9, CALLS = 200000 };

static void die(const char *what)
{
	fprintf(stderr, "bench/open: %s: %s\n", what, tarn_error_message());
	exit(1);
}

static double wall(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One U8 tensor "x" of so many zeros, most of them a hole. */
static void load(tarn_store *store, const char *folder, const char *name,
	unsigned long long bytes)
{
	struct tarn_load_options options = {.name = name};
	char path[4096], text[200];
	tarn_file *file;
	uint64_t size;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.safetensors", folder, name);
	snprintf(text, sizeof(text),
		"{\"x\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		bytes, bytes);
	size = strlen(text);
	f = fopen(path, "w");
	if (!f || fwrite(&size, 8, 1, f) != 1 ||
		fwrite(text, size, 1, f) != 1 || fflush(f) != 0 ||
		ftruncate(fileno(f), (off_t)(8 + size + bytes)) < 0) {
		perror(path);
		exit(1);
	}
	fclose(f);
	if (tarn_file_open(path, &file) < 0 ||
		tarn_store_load(store, file, &options, NULL, NULL) < 0)
		die(path);
	tarn_file_unref(file);
	unlink(path);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
}

static double look_up(tarn_store *store, const char *name)
{
	double ns[ROUNDS];
	tarn_tensor *t;

	for (int r = 0; r < ROUNDS; r++) {
		double start = wall();

		for (int i = 0; i < CALLS; i++) {
			if (tarn_store_lookup(store, name, &t) < 0)
				die(name);
			tarn_tensor_unref(t);
		}
		ns[r] = (wall() - start) / CALLS * 1e9;
	}
	return median(ns);
}

static double table_only(tarn_store *store, const char *name)
{
	struct tarn_descriptor d;
	double ns[ROUNDS];
	uint64_t version;

	for (int r = 0; r < ROUNDS; r++) {
		double start = wall();

		for (int i = 0; i < CALLS; i++)
			if (table_lookup(&store->table, name, strlen(name), &d,
				    &version) < 0)
				die(name);
		ns[r] = (wall() - start) / CALLS * 1e9;
	}
	return median(ns);
}

int main(int argc, char **argv)
{
	tarn_store *store;
	tarn_tensor *held;

	if (argc != 3) {
		fprintf(stderr, "usage: bench/open SOCKET FOLDER\n");
		return 2;
	}
	if (tarn_store_open(argv[1], &store) < 0)
		die("open");
	load(store, argv[2], "kib", 1ull << 10);
	load(store, argv[2], "gib", 1ull << 30);
	printf("table look-up alone:        %6.0f ns\n",
		table_only(store, "kib/x"));
	printf("open and drop, 1 KiB:       %6.0f ns (at most 2000)\n",
		look_up(store, "kib/x"));
	printf("open and drop, 1 GiB:       %6.0f ns (at most 2000)\n",
		look_up(store, "gib/x"));
	if (tarn_store_lookup(store, "gib/x", &held) < 0)
		die("gib/x");
	printf("the same, while one is held:%6.0f ns\n",
		look_up(store, "gib/x"));
	tarn_tensor_unref(held);
	tarn_store_unref(store);
	return 0;
}
