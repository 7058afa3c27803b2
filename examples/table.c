/* SPDX-License-Identifier: MIT */
/*
 * table NAME [READERS [MIB]]: a table that is loaded once, and looked up at
 * random by many processes, as engines look up embeddings.
 *
 * The first start makes the table and publishes it under its name. It stays in
 * the daemon's memory, so any later start finds it there, at once, and any
 * number of processes can use it at the same time. Each reader asks for rows by
 * their numbers, some thousand with each tarn_gather, and checks what it gets.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

enum {
	COLUMNS = 33, /* of 8 bytes: rows of 264 bytes */
	BATCH = 4096, /* rows of a look-up */
	SECONDS = 1,
	READERS_MAX = 1000,
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int usage(void)
{
	fprintf(stderr, "usage: table NAME [READERS [MIB]]\n");
	return 2;
}

/* 0: this is none. */
static long number(const char *text, long max)
{
	char *end;
	long n = strtol(text, &end, 10);

	return *text && !*end && n > 0 && n <= max ? n : 0;
}

/* An eighth of what is free, at most 16 GiB: others need memory, too. */
static long default_mib(void)
{
	long mib = sysconf(_SC_AVPHYS_PAGES) / 8 *
		   (sysconf(_SC_PAGESIZE) / 1024) / 1024;

	return mib < 16 ? 16 : mib > 16384 ? 16384 : mib;
}

/* ---- the table -------------------------------------------------------- */

/* What a real one would read from a file, or compute. */
static void fill(int64_t *p, int64_t rows)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t k = 0; k < COLUMNS; k++)
			*p++ = i * COLUMNS + k;
}

static int make(tarn_store *store, const char *name, long mib)
{
	/* Another process may be making it, too: one of both publishes it. */
	const struct tarn_publish_options options = {.exclusive = true};
	int64_t shape[] = {mib * 1024 * 1024 / (COLUMNS * 8), COLUMNS};
	double begun = seconds();
	tarn_tensor *table = NULL;
	int r = tarn_store_create(store, TARN_I64, 2, shape, 0, &table);

	if (r >= 0) {
		fill(tarn_tensor_data(table), shape[0]);
		r = tarn_store_publish_one(store, name, table, &options, NULL);
	}
	if (r >= 0)
		printf("%s: made in %.1f s\n", name, seconds() - begun);
	tarn_tensor_unref(table);
	return r;
}

static bool is_ours(const tarn_tensor *table)
{
	const struct tarn_layout *l = tarn_tensor_layout(table);

	return l->dtype == TARN_I64 && l->ndim == 2 && l->shape[0] > 0 &&
	       l->shape[1] == COLUMNS;
}

static int find(
	tarn_store *store, const char *name, long mib, tarn_tensor **ret)
{
	int r = tarn_store_lookup(store, name, ret);
	bool there = r >= 0;

	if (r == -ENOENT) {
		r = make(store, name, mib);
		if (r >= 0 || r == -EEXIST)
			r = tarn_store_lookup(store, name, ret);
	}
	if (r < 0) {
		fprintf(stderr, "table: %s\n", tarn_error_message());
		return r;
	}
	if (!is_ours(*ret)) {
		fprintf(stderr,
			"table: %s is no table of this program; give another "
			"name, or remove it: tarn rm %s\n",
			name, name);
		return -EINVAL;
	}
	if (there)
		printf("%s: found, nothing to load\n", name);
	return 0;
}

/* ---- a reader --------------------------------------------------------- */

static void choose(int64_t *numbers, int64_t rows, uint64_t *state)
{
	for (int i = 0; i < BATCH; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		numbers[i] = (int64_t)((*state >> 32) * (uint64_t)rows >> 32);
	}
}

static int check(const int64_t *row, const int64_t *numbers)
{
	for (int i = 0; i < BATCH; i++, row += COLUMNS)
		if (row[0] != numbers[i] * COLUMNS ||
			row[COLUMNS - 1] != row[0] + COLUMNS - 1)
			return -EBADMSG;
	return 0;
}

/* The rows, and how long looking them up took of it. */
static int look_up(const tarn_tensor *table, int reader, int64_t *ret_rows,
	double *ret_seconds)
{
	const int64_t shape[] = {BATCH, COLUMNS};
	int64_t rows = tarn_tensor_layout(table)->shape[0];
	uint64_t state = (uint64_t)reader + 1;
	double end = seconds() + SECONDS;
	tarn_tensor *numbers = NULL, *picked = NULL;
	int r = tarn_tensor_zeros(TARN_I64, 1, shape, &numbers);

	if (r >= 0)
		r = tarn_tensor_zeros(TARN_I64, 2, shape, &picked);
	while (r >= 0 && seconds() < end) {
		int64_t *p = tarn_tensor_data(numbers);
		double begun;

		choose(p, rows, &state);
		begun = seconds();
		r = tarn_gather(picked, table, numbers, NULL);
		*ret_seconds += seconds() - begun;
		*ret_rows += BATCH;
		if (r >= 0)
			r = check(tarn_tensor_data(picked), p);
	}
	tarn_tensor_unref(numbers);
	tarn_tensor_unref(picked);
	return r;
}

/* In a process of its own, which finds the table by its name. */
static int read_rows(const char *name, int reader)
{
	tarn_store *store = NULL;
	tarn_tensor *table = NULL;
	int64_t rows = 0;
	double took = 0;
	int r = tarn_store_open(NULL, NULL, &store);

	if (r >= 0)
		r = tarn_store_lookup(store, name, &table);
	if (r >= 0)
		r = look_up(table, reader, &rows, &took);
	if (r >= 0)
		printf("reader %d: %.1f million rows a second, all right\n",
			reader, rows / took / 1e6);
	else
		fprintf(stderr, "table: reader %d: %s\n", reader,
			r == -EBADMSG ? "a row is not the one it asked for"
				      : tarn_error_message());
	tarn_tensor_unref(table);
	tarn_store_unref(store);
	return r < 0;
}

static int run_readers(const char *name, long readers)
{
	int failed = 0, status;

	fflush(stdout);
	for (int i = 0; i < readers; i++) {
		pid_t child = fork();

		if (child == 0)
			exit(read_rows(name, i));
		if (child < 0) {
			perror("table: fork");
			failed = 1;
			break;
		}
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}

int main(int argc, char **argv)
{
	long readers = argc > 2 ? number(argv[2], READERS_MAX) : 2;
	long mib = argc > 3 ? number(argv[3], 1L << 30) : default_mib();
	tarn_store *store = NULL;
	tarn_tensor *table = NULL;
	int r;

	if (argc < 2 || argc > 4 || argv[1][0] == '-' || !readers || !mib)
		return usage();
	r = tarn_store_open(NULL, NULL, &store);
	if (r < 0)
		fprintf(stderr, "table: %s\n", tarn_error_message());
	else
		r = find(store, argv[1], mib, &table);
	if (r >= 0) {
		printf("%lld rows of 264 bytes, %ld readers\n",
			(long long)tarn_tensor_layout(table)->shape[0],
			readers);
		r = -run_readers(argv[1], readers);
	}
	tarn_tensor_unref(table);
	tarn_store_unref(store);
	return r < 0;
}
