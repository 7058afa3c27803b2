/* SPDX-License-Identifier: MIT */
/*
 * Loaders:
 *
 *	bench/loader cold FILE SEQ_LEN SECONDS    random windows of a file that is
 *	                                          in no cache, as fio prints them
 *	bench/loader memory SEQ_LEN               of tokens in memory, beside memcpy
 *	bench/loader first FILE                   opening, and the first batch
 *	bench/loader ranks SOCKET FILE SEQ_LEN RANK WORLD SECONDS
 *	                                          one rank of a shared loader
 *
 * Windows of SEQ_LEN + 1 tokens of 4 bytes each begin at multiples of SEQ_LEN, at
 * no block of a disk. A global batch is 256 of them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"

enum { BATCH = 256 };

static void fail(const char *what)
{
	fprintf(stderr, "bench/loader: %s: %s\n", what, tarn_error_message());
	exit(1);
}

static double cpu(void)
{
	return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

static double private_mib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0, shared = 0;

	if (f && fscanf(f, "%*u %lu %lu", &pages, &shared) != 2)
		pages = shared = 0;
	if (f)
		fclose(f);
	return (double)(pages - shared) / 256;
}

static tarn_data *open_data(tarn_data_source *source, uint32_t seq_len)
{
	const struct tarn_data_options o = {.seed = 7, .seq_len = seq_len};
	tarn_data *data;

	if (tarn_data_open(&source, 1, &o, &data) < 0)
		fail("opening");
	tarn_data_source_unref(source);
	return data;
}

static tarn_data *open_file(const char *path, uint32_t seq_len)
{
	const struct tarn_data_source_options raw = {.dtype = TARN_I32};
	tarn_data_source *source;

	if (tarn_data_source_open(&path, 1, &raw, &source) < 0)
		fail(path);
	return open_data(source, seq_len);
}

static tarn_loader *open_loader(
	tarn_store *store, tarn_data *data, struct tarn_loader_options o)
{
	tarn_loader *loader;

	o.global_batch = BATCH;
	if (tarn_loader_open(store, data, &o, &loader) < 0)
		fail("opening a loader");
	return loader;
}

/* Takes batches for a while, and sums a byte of each page, as a consumer that
 * looks at them would. Returns the samples. */
static uint64_t take(tarn_loader *loader, double for_s, double *ret_s)
{
	double start = wall();
	uint64_t n = 0;

	do {
		tarn_batch *batch;

		if (tarn_loader_next(loader, -1, &batch) < 0)
			fail("a batch");
		n += tarn_batch_samples(batch);
		tarn_batch_unref(batch);
		*ret_s = wall() - start;
	} while (*ret_s < for_s);
	return n;
}

static void drop_cache(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

static int cold(char **arg)
{
	uint32_t seq_len = (uint32_t)atoi(arg[1]);
	tarn_data *data = open_file(arg[0], seq_len);
	tarn_loader *loader;
	struct tarn_loader_info info;
	double s, used, bytes;

	drop_cache(arg[0]);
	used = cpu();
	/* So much that it does not matter when this thread gets a CPU. */
	loader = open_loader(
		NULL, data, (struct tarn_loader_options) {.ahead = 16});
	bytes = 4.0 * (seq_len + 1) * (double)take(loader, atof(arg[2]), &s);
	used = cpu() - used;
	tarn_loader_info(loader, &info);
	printf("tarn: %.3f GiB/s, %.1f ms of CPU per GiB; %.2f of the bytes "
	       "were read, in %.0f requests/s by %s\n",
		bytes / s / (1 << 30), 1e3 * used / bytes * (1 << 30),
		(double)info.file_bytes / bytes, (double)info.requests / s,
		info.engine);
	tarn_loader_unref(loader);
	tarn_data_free(data);
	return 0;
}

/* ---- memory ---------------------------------------------------------------------- */

/* The same windows by memcpy, to as many buffers. */
static double copies(const char *from, uint64_t size, uint32_t seq_len)
{
	size_t window = 4 * ((size_t)seq_len + 1), at = 0;
	uint64_t n = size / 4 / seq_len - 1, state = 1, count = 0;
	char *to = malloc(6 * BATCH * window);
	double start = wall(), s = 0;

	memset(to, 1, 6 * BATCH * window);
	for (start = wall(); s < 1; s = wall() - start)
		for (int i = 0; i < BATCH; i++, count++) {
			state = state * 6364136223846793005u + 1;
			memcpy(to + at * window,
				from + (state >> 33) % n * seq_len * 4, window);
			at = (at + 1) % (6 * BATCH);
			__asm__ volatile("" : : "r"(to) : "memory");
		}
	free(to);
	return (double)count * (double)window / s / (1 << 30);
}

static int memory(char **arg)
{
	enum { MIB = 512, ROUNDS = 5 };
	const uint64_t size = (uint64_t)MIB << 20;
	const int64_t n = (int64_t)size / 4;
	uint32_t seq_len = (uint32_t)atoi(arg[0]);
	double ours[ROUNDS], theirs[ROUNDS], s;
	tarn_data_source *source;
	tarn_tensor *tokens;
	tarn_data *data;

	if (tarn_tensor_full(TARN_I32, 1, &n, 7, &tokens) < 0 ||
		tarn_data_source_tokens(tokens, NULL, &source) < 0)
		fail("tokens");
	data = open_data(source, seq_len);
	for (int i = 0; i < ROUNDS; i++) {
		tarn_loader *loader = open_loader(
			NULL, data, (struct tarn_loader_options) {0});

		take(loader, 0.2, &s);
		ours[i] = (double)take(loader, 1, &s);
		ours[i] *= 4.0 * (seq_len + 1) / s / (1 << 30);
		tarn_loader_unref(loader);
		theirs[i] = copies(tarn_tensor_data(tokens), size, seq_len);
	}
	printf("memory: windows of %u bytes: %.2f GiB/s, %.2f of memcpy\n",
		4 * (seq_len + 1), median(ours, ROUNDS),
		median(ours, ROUNDS) / median(theirs, ROUNDS));
	tarn_data_free(data);
	tarn_tensor_unref(tokens);
	return 0;
}

/* ---- first batches ------------------------------------------------------------------ */

static int first(char **arg)
{
	static const uint64_t from[] = {0, 1000000000};

	for (int i = 0; i < 2; i++) {
		double start, s, before = private_mib();
		tarn_loader *loader;
		tarn_data *data;

		drop_cache(arg[0]);
		start = wall();
		data = open_file(arg[0], 1024);
		loader = open_loader(NULL, data,
			(struct tarn_loader_options) {.from = from[i]});
		take(loader, 0, &s);
		printf("first batch, at %llu: %.1f ms after the start, %.1f "
		       "MiB of private memory\n",
			(unsigned long long)from[i], 1e3 * (wall() - start),
			private_mib() - before);
		tarn_loader_unref(loader);
		tarn_data_free(data);
	}
	return 0;
}

/* ---- ranks ------------------------------------------------------------------------- */

static int ranks(char **arg)
{
	const struct tarn_loader_options o = {.name = "bench",
		.rank = (uint32_t)atoi(arg[3]),
		.world = (uint32_t)atoi(arg[4])};
	uint32_t seq_len = (uint32_t)atoi(arg[2]);
	tarn_data *data = open_file(arg[1], seq_len);
	struct tarn_loader_info info;
	tarn_loader *loader;
	tarn_store *store;
	double s, bytes, before;

	if (tarn_store_open(arg[0], NULL, &store) < 0)
		fail(arg[0]);
	before = private_mib();
	loader = open_loader(store, data, o);
	bytes = 4.0 * (seq_len + 1) * (double)take(loader, atof(arg[5]), &s);
	tarn_loader_info(loader, &info);
	printf("rank %u of %u: %.3f GiB/s, %llu batches from the feed, %llu "
	       "alone%s; %.1f MiB of private memory\n",
		o.rank, o.world, bytes / s / (1 << 30),
		(unsigned long long)info.n_shared,
		(unsigned long long)info.n_alone, info.reads ? ", reads" : "",
		private_mib() - before);
	tarn_loader_unref(loader);
	tarn_data_free(data);
	tarn_store_unref(store);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "cold"))
		return cold(argv + 2);
	if (argc == 3 && !strcmp(argv[1], "memory"))
		return memory(argv + 2);
	if (argc == 3 && !strcmp(argv[1], "first"))
		return first(argv + 2);
	if (argc == 8 && !strcmp(argv[1], "ranks"))
		return ranks(argv + 2);
	return 2;
}
