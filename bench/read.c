/* SPDX-License-Identifier: MIT */
/*
 * A second process opens a loaded file and reads every byte of it:
 *
 *	bench/read SOCKET FILE
 *
 * Each line is a process that has mapped nothing of it: it opens the store and
 * the tensor, maps the pages (by faults, or populated by one or two threads),
 * and sums the bytes as 64-bit numbers. The reference is the same sum, by the
 * same loop in the same process, over as much ordinary memory. That is made
 * once and inherited: to free it each time would keep the machine busy with
 * giving it back, under the eyes of the next process.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"

#define GIB 1073741824.0

static void die(const char *what)
{
	fprintf(stderr, "bench/read: %s: %s\n", what, tarn_error_message());
	exit(1);
}

/* Aligned or not: the file decides where its first tensor begins. */
static uint64_t sum(const unsigned char *p, uint64_t size)
{
	uint64_t s[8] = {0}, v[8];

	for (uint64_t i = 0; i + 64 <= size; i += 64) {
		memcpy(v, p + i, 64);
		for (int k = 0; k < 8; k++)
			s[k] += v[k];
	}
	return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static unsigned char *warm; /* of the file's size */

static void make_warm(uint64_t size)
{
	warm = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (warm == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	memset(warm, 3, size);
}

static double warm_seconds(uint64_t size, uint64_t *ret_sum)
{
	double best = 1e9, start;

	for (int i = 0; i < 3; i++) {
		start = wall();
		*ret_sum += sum(warm, size);
		best = wall() - start < best ? wall() - start : best;
	}
	return best;
}

enum { ROUNDS = 7 }; /* of which read.sh takes the median */

static int reader(const char *socket, const char *path, int threads)
{
	double start = wall(), opened, mapped, done, again, plain, gib, limit;
	tarn_store *store;
	tarn_tensor *all;
	tarn_file *file;
	uint64_t size, total;

	if (tarn_store_open(socket, NULL, &store) < 0 ||
		tarn_file_open(path, &file) < 0 ||
		tarn_store_load(store, file, NULL, NULL, &all) < 0)
		die(path);
	opened = wall();
	if (threads && tarn_store_populate(store, all, threads) < 0)
		die("populate");
	mapped = wall();
	size = (uint64_t)tarn_layout_nbytes(tarn_tensor_layout(all));
	gib = (double)size / GIB;
	total = sum(tarn_tensor_data(all), size);
	done = wall();
	total += sum(tarn_tensor_data(all), size);
	again = wall() - done;
	plain = warm_seconds(size, &total);
	limit = 1.2 * plain + 0.060 * gib;
	printf("%-11s open %5.1f ms, map %5.1f ms/GiB, read %6.1f ms/GiB, "
	       "again %5.1f, warm %5.1f; map and read %.2f of what is "
	       "allowed [%04x]\n",
		threads == 0   ? "by faults:"
		: threads == 1 ? "1 thread:"
			       : "2 threads:",
		(opened - start) * 1e3, (mapped - opened) / gib * 1e3,
		(done - mapped) / gib * 1e3, again / gib * 1e3,
		plain / gib * 1e3, (done - opened) / limit,
		(unsigned)(total & 0xffff));
	fflush(stdout);
	tarn_tensor_unref(all);
	tarn_file_unref(file);
	tarn_store_unref(store);
	return 0;
}

/* Before this process opens a store: a child may not use its parent's. */
static void run_reader(const char *socket, const char *path, int threads)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(reader(socket, path, threads));
	waitpid(pid, &status, 0);
	if (status)
		exit(1);
}

static uint64_t load(const char *socket, const char *path)
{
	struct tarn_load_info info;
	tarn_store *store;
	tarn_file *file;

	if (tarn_store_open(socket, NULL, &store) < 0 ||
		tarn_file_open(path, &file) < 0 ||
		tarn_store_load(store, file, NULL, &info, NULL) < 0)
		die(path);
	printf("loaded: %.2f GiB in %.2f s, %.2f GiB/s, %.1f ms of CPU per "
	       "GiB, %s%s%s\n",
		(double)info.bytes / GIB, info.seconds,
		(double)info.bytes / GIB / info.seconds,
		info.cpu_seconds / ((double)info.bytes / GIB) * 1e3,
		info.engine, info.direct ? ", direct" : "",
		info.registered ? ", registered" : "");
	fflush(stdout);
	tarn_file_unref(file);
	tarn_store_unref(store);
	return info.bytes;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: bench/read SOCKET FILE\n");
		return 2;
	}
	make_warm(load(argv[1], argv[2]));
	for (int round = 0; round < ROUNDS; round++)
		for (int threads = 0; threads <= 2; threads++)
			run_reader(argv[1], argv[2], threads);
	return 0;
}
