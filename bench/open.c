/* SPDX-License-Identifier: MIT */
/*
 * The cost of opening a published tensor, once connected:
 *
 *	bench/open SOCKET FOLDER
 *
 * Loads a file of 1 KiB and one of 1 GiB under names, then looks each up and
 * drops it again and again. The table's own look-up is the reference: the rest
 * is the lease, the checks and the objects.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"
#include "lib/store/store.h"

/* A round is shorter than a time slice, and the best fiftieth of many rounds
 * is the cost of an undisturbed thread, on a busy machine too. */
enum { ROUNDS = 1500, CALLS = 500, MANY = 1000 };

static void die(const char *what)
{
	fprintf(stderr, "bench/open: %s: %s\n", what, tarn_error_message());
	exit(1);
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

static double undisturbed(double *values)
{
	sort_values(values, ROUNDS);
	return values[ROUNDS / 50];
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
	return undisturbed(ns);
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
	return undisturbed(ns);
}

/* A file of so many tensors of 8 bytes, "0", "1" ... */
static void load_many(tarn_store *store, const char *folder)
{
	struct tarn_load_options options = {.name = "many"};
	char path[4096], *text = NULL;
	tarn_file *file;
	size_t length;
	uint64_t size;
	FILE *f = open_memstream(&text, &length);

	for (int i = 0; i < MANY; i++)
		fprintf(f,
			"%c\"%d\":{\"dtype\":\"F64\",\"shape\":[],"
			"\"data_offsets\":[%d,%d]}",
			i ? ',' : '{', i, i * 8, i * 8 + 8);
	fputc('}', f);
	fclose(f);
	snprintf(path, sizeof(path), "%s/many.safetensors", folder);
	f = fopen(path, "w");
	size = length;
	if (!f || fwrite(&size, 8, 1, f) != 1 ||
		fwrite(text, size, 1, f) != 1 || fflush(f) != 0 ||
		ftruncate(fileno(f), (off_t)(8 + size + MANY * 8)) < 0) {
		perror(path);
		exit(1);
	}
	fclose(f);
	free(text);
	if (tarn_file_open(path, &file) < 0 ||
		tarn_store_load(store, file, &options, NULL, NULL) < 0)
		die(path);
	tarn_file_unref(file);
	unlink(path);
}

/* In an order that no cache foresees. */
static double look_up_many(tarn_store *store)
{
	static char names[MANY][16];
	double ns[ROUNDS];
	uint32_t x = 1;
	tarn_tensor *t;

	for (int i = 0; i < MANY; i++)
		snprintf(names[i], sizeof(names[i]), "many/%d", i);
	for (int r = 0; r < ROUNDS; r++) {
		double start = wall();

		for (int i = 0; i < CALLS; i++) {
			x = x * 1664525u + 1013904223u;
			if (tarn_store_lookup(
				    store, names[(x >> 8) % MANY], &t) < 0)
				die("many");
			tarn_tensor_unref(t);
		}
		ns[r] = (wall() - start) / CALLS * 1e9;
	}
	return undisturbed(ns);
}

int main(int argc, char **argv)
{
	tarn_store *store;
	tarn_tensor *held;

	if (argc != 3) {
		fprintf(stderr, "usage: bench/open SOCKET FOLDER\n");
		return 2;
	}
	if (tarn_store_open(argv[1], NULL, &store) < 0)
		die("open");
	load(store, argv[2], "kib", 1ull << 10);
	load(store, argv[2], "gib", 1ull << 30);
	load_many(store, argv[2]);
	printf("table look-up alone:        %6.0f ns\n",
		table_only(store, "kib/x"));
	printf("open and drop, 1 KiB:       %6.0f ns (at most 2000)\n",
		look_up(store, "kib/x"));
	printf("open and drop, 1 GiB:       %6.0f ns (at most 2000)\n",
		look_up(store, "gib/x"));
	printf("one of 1,000, and drop:     %6.0f ns (at most 250)\n",
		look_up_many(store));
	if (tarn_store_lookup(store, "gib/x", &held) < 0)
		die("gib/x");
	printf("the same, while one is held:%6.0f ns\n",
		look_up(store, "gib/x"));
	tarn_tensor_unref(held);
	tarn_store_unref(store);
	return 0;
}
