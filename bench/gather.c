/* SPDX-License-Identifier: MIT */
/*
 * Random rows of 264 bytes, of a table larger than the reach of a TLB:
 *
 *	bench/gather 4k|thp|2m MIB
 *
 * makes the table in shared memory of such pages, prints "ready PID FD", with
 * the descriptor under which another process finds it in /proc, and then obeys
 * lines: "tarn THREADS" and "raw THREADS" pick ROWS rows with new numbers, some
 * times, and print the nanoseconds for each row, the median; "end" ends it.
 *
 * "raw" is a loop in C that does nothing but that, with prefetch, of which the
 * best distance and hint were looked for first. It calls memcpy of the C
 * library; for a size that the compiler knows, that would be slower.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/gather.h>

#include "bench/times.h"

/* Of the calls the first ones are not counted: a scheduler that saves energy has
 * a new thread share the caller's CPU until it has seen both busy. */
enum { ROW = 264, ROWS = 65536, CALLS = 9, WARM = 40, THREADS_MAX = 8 };

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

static char *table, *dst;
static int64_t rows; /* of the table */
static int64_t *numbers;
static tarn_tensor *table_tensor, *dst_tensor, *numbers_tensor;

static void die(const char *what)
{
	fprintf(stderr, "bench/gather: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "bench/gather: %s\n", tarn_error_message());
	exit(1);
}

static void new_numbers(void)
{
	static uint64_t state = 1;

	for (int i = 0; i < ROWS; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		numbers[i] = (int64_t)((state >> 32) * (uint64_t)rows >> 32);
	}
}

/* ---- the bare loop --------------------------------------------------- */

static volatile size_t row_size = ROW;

struct raw {
	int first, n, ahead;
	bool near; /* into the first cache */
};

static inline void prefetch(int64_t number, bool near)
{
	const char *p = table + number * ROW, *end = p + ROW;

	for (p -= (uintptr_t)p % 64; p < end; p += 64) {
		if (near)
			__builtin_prefetch(p, 0, 3);
		else
			__builtin_prefetch(p, 0, 2);
	}
}

static inline void loop(const struct raw *raw, bool near)
{
	int i = raw->first, end = raw->first + raw->n;
	size_t row = row_size;

	for (; i < end - raw->ahead; i++) {
		prefetch(numbers[i + raw->ahead], near);
		memcpy(dst + (size_t)i * ROW, table + numbers[i] * ROW, row);
	}
	for (; i < end; i++)
		memcpy(dst + (size_t)i * ROW, table + numbers[i] * ROW, row);
}

static void *raw_work(void *arg)
{
	const struct raw *raw = arg;

	if (raw->near)
		loop(raw, true);
	else
		loop(raw, false);
	return NULL;
}

static struct raw best = {.ahead = 16};

static void raw_gather(int threads)
{
	pthread_t thread[THREADS_MAX];
	struct raw part[THREADS_MAX];

	for (int i = 0; i < threads; i++) {
		part[i] = best;
		part[i].first = ROWS / threads * i;
		part[i].n = ROWS / threads;
		if (i > 0 &&
			pthread_create(&thread[i], NULL, raw_work, &part[i]))
			die("a thread");
	}
	raw_work(&part[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
}

static void tarn_rows(int threads)
{
	struct tarn_gather_options options = {.threads = threads};

	check(tarn_gather(dst_tensor, table_tensor, numbers_tensor, &options));
}

static double measure(void (*gather)(int threads), int threads)
{
	double times[CALLS];

	for (int i = -WARM; i < CALLS; i++) {
		double begun;

		new_numbers();
		begun = wall_ns();
		gather(threads);
		if (i >= 0)
			times[i] = (wall_ns() - begun) / ROWS;
	}
	return median(times, CALLS);
}

static void find_best(void)
{
	static const int aheads[] = {4, 8, 16, 32, 64};
	struct raw found = best;
	double least = 0;

	for (int turn = 0; turn < 2; turn++)
		for (int k = 0; k < 10; k++) {
			double ns;

			best.ahead = aheads[k / 2];
			best.near = k % 2;
			ns = measure(raw_gather, 1);
			if (least > 0 && ns >= least)
				continue;
			least = ns;
			found = best;
		}
	best = found;
}

/* ---- the memory ------------------------------------------------------ */

static char *map(int fd, size_t size, int flags)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static int make_table(const char *pages, size_t size)
{
	bool huge = !strcmp(pages, "2m");
	int fd = memfd_create("tarn-bench",
		MFD_CLOEXEC | (huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0));

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		die("a memfd");
	table = map(fd, size, MAP_SHARED);
	if (!strcmp(pages, "thp") && madvise(table, size, MADV_HUGEPAGE) < 0)
		die("MADV_HUGEPAGE");
	if (madvise(table, size, MADV_POPULATE_WRITE) < 0)
		die("populating the table");
	for (size_t i = 0; i < size / sizeof(uint64_t); i++)
		((uint64_t *)table)[i] = i;
	rows = (int64_t)(size / ROW);
	return fd;
}

static tarn_tensor *over(
	void *bytes, enum tarn_dtype dtype, int ndim, const int64_t *shape)
{
	tarn_storage *storage = NULL;
	tarn_tensor *tensor = NULL;
	struct tarn_layout layout;

	check(tarn_layout_contiguous(dtype, ndim, shape, &layout));
	check(tarn_storage_borrow(bytes, (uint64_t)tarn_layout_nbytes(&layout),
		TARN_BORROW_WRITABLE, NULL, NULL, &storage));
	check(tarn_tensor_new(storage, 0, &layout, &tensor));
	tarn_storage_unref(storage);
	return tensor;
}

/* dst is what a caller of the library gets, as numpy's is in gather.py. */
static void make_tensors(void)
{
	int64_t shape[2] = {rows, ROW / 4};

	table_tensor = over(table, TARN_F32, 2, shape);
	shape[0] = ROWS;
	check(tarn_tensor_zeros(TARN_F32, 2, shape, &dst_tensor));
	check(tarn_tensor_zeros(TARN_I64, 1, shape, &numbers_tensor));
	dst = tarn_tensor_data(dst_tensor);
	memset(dst, 1, (size_t)ROWS * ROW);
	numbers = tarn_tensor_data(numbers_tensor);
}

static bool right(void)
{
	for (int i = 0; i < ROWS; i++)
		if (memcmp(dst + (size_t)i * ROW, table + numbers[i] * ROW,
			    ROW) != 0)
			return false;
	return true;
}

/* false: the end. */
static bool obey(const char *line)
{
	int threads = 0;

	if (sscanf(line, "tarn %d", &threads) == 1 && threads > 0)
		printf("%.1f\n", measure(tarn_rows, threads));
	else if (sscanf(line, "raw %d", &threads) == 1 && threads > 0 &&
		 threads <= THREADS_MAX)
		printf("%.1f\n", measure(raw_gather, threads));
	else
		return false;
	if (!right()) {
		fprintf(stderr, "bench/gather: %s: wrong rows\n", line);
		exit(1);
	}
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	char line[64];
	int fd;

	if (argc != 3 || atoll(argv[2]) <= 0) {
		fprintf(stderr, "usage: bench/gather 4k|thp|2m MIB\n");
		return 2;
	}
	fd = make_table(argv[1], (size_t)atoll(argv[2]) << 20);
	make_tensors();
	find_best();
	fprintf(stderr, "raw: prefetch of %d rows ahead into the %s cache\n",
		best.ahead, best.near ? "first" : "second");
	printf("ready %d %d\n", (int)getpid(), fd);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && obey(line))
		;
	return 0;
}
