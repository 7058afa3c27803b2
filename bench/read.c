/* SPDX-License-Identifier: MIT */
/*
 * A second process opens a loaded file and reads every byte of it:
 *
 *	bench/read SOCKET FILE
 *
 * Each line is a fresh process, so that its page tables are empty: it opens
 * the store and the tensor, maps the pages (by faults, or populated by one or
 * two threads), and sums the bytes as 64-bit numbers. The reference is the
 * same sum, by the same loop in the same process, over as much ordinary
 * memory that has just been written.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#define GIB 1073741824.0

static void die(const char *what)
{
	fprintf(stderr, "bench/read: %s: %s\n", what, tarn_error_message());
	exit(1);
}

static double wall(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

static double warm_seconds(uint64_t size, uint64_t *ret_sum)
{
	double best = 1e9, start;
	unsigned char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	memset(p, 3, size);
	for (int i = 0; i < 3; i++) {
		start = wall();
		*ret_sum += sum(p, size);
		best = wall() - start < best ? wall() - start : best;
	}
	munmap(p, size);
	return best;
}

static int reader(const char *socket, const char *path, int threads)
{
	double start = wall(), opened, mapped, done, again, warm, gib, limit;
	tarn_store *store;
	tarn_tensor *all;
	tarn_file *file;
	uint64_t size, total;

	if (tarn_store_open(socket, &store) < 0 ||
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
	warm = warm_seconds(size, &total);
	limit = 1.2 * warm + 0.060 * gib;
	printf("%-11s open %5.1f ms, map %5.1f ms/GiB, read %6.1f ms/GiB, "
	       "again %5.1f, warm %5.1f; map and read %.2f of what is "
	       "allowed [%04x]\n",
		threads == 0   ? "by faults:"
		: threads == 1 ? "1 thread:"
			       : "2 threads:",
		(opened - start) * 1e3, (mapped - opened) / gib * 1e3,
		(done - mapped) / gib * 1e3, again / gib * 1e3,
		warm / gib * 1e3, (done - opened) / limit,
		(unsigned)(total & 0xffff));
	fflush(stdout);
	tarn_tensor_unref(all);
	tarn_file_unref(file);
	tarn_store_unref(store);
	return 0;
}

static void run_reader(char **argv, const char *threads)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/proc/self/exe", argv[0], argv[1], argv[2], threads,
			NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (status)
		exit(1);
}

int main(int argc, char **argv)
{
	struct tarn_load_info info;
	tarn_store *store;
	tarn_tensor *all;
	tarn_file *file;

	if (argc == 4)
		return reader(argv[1], argv[2], atoi(argv[3]));
	if (argc != 3) {
		fprintf(stderr, "usage: bench/read SOCKET FILE\n");
		return 2;
	}
	if (tarn_store_open(argv[1], &store) < 0 ||
		tarn_file_open(argv[2], &file) < 0 ||
		tarn_store_load(store, file, NULL, &info, &all) < 0)
		die(argv[2]);
	printf("loaded: %.2f GiB in %.2f s, %.2f GiB/s, %.1f ms of CPU per "
	       "GiB, %s%s%s\n",
		(double)info.bytes / GIB, info.seconds,
		(double)info.bytes / GIB / info.seconds,
		info.cpu_seconds / ((double)info.bytes / GIB) * 1e3,
		info.engine, info.direct ? ", direct" : "",
		info.registered ? ", registered" : "");
	fflush(stdout);
	for (int round = 0; round < 3; round++) {
		run_reader(argv, "0");
		run_reader(argv, "1");
		run_reader(argv, "2");
	}
	tarn_tensor_unref(all);
	tarn_file_unref(file);
	tarn_store_unref(store);
	return 0;
}
