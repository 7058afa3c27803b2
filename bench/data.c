/* SPDX-License-Identifier: MIT */
/*
 * Datasets:
 *
 *	bench/data FOLDER [DOCUMENTS]
 *
 * A corpus as Megatron has it, 10^7 documents of log-normal lengths, some 800
 * tokens on average, is written to FOLDER; its tokens are a hole in a file, so
 * that reading them costs what reading from memory does. Opened anew for each row:
 * how long that takes, the private memory that it costs, the first sample, and
 * then samples of 4,096 tokens in order, by one thread. Beside it how long it takes
 * to read all lengths, and to copy so many bytes.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/data.h>

#include "bench/times.h"

#define SEQ_LEN 4096
#define SECONDS 1.0

static char prefix[4000];

static void fail(const char *what)
{
	fprintf(stderr, "bench/data: %s: %s\n", what, tarn_error_message());
	exit(1);
}

/* ---- the corpus ---------------------------------------------------------- */

static double uniform(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(state >> 12) + 1) / 4503599627370497.0;
}

static int32_t length(void)
{
	double normal =
		sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());

	return 1 + (int32_t)exp(6 + 1.2 * normal);
}

static void put(FILE *f, const void *bytes, size_t size)
{
	if (fwrite(bytes, size, 1, f) != 1) {
		perror("bench/data");
		exit(1);
	}
}

static FILE *create(const char *end)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", prefix, end);
	f = fopen(path, "we");
	if (!f) {
		perror(path);
		exit(1);
	}
	return f;
}

static void write_corpus(uint64_t n)
{
	const uint64_t version = 1, documents = n + 1;
	int32_t *lengths = malloc(n * sizeof(*lengths));
	FILE *f = create(".idx");
	uint64_t at = 0;

	if (!lengths)
		exit(1);
	put(f, "MMIDIDX\0", 9);
	put(f, &version, 8);
	put(f, "\10", 1); /* uint16 */
	put(f, &n, 8);
	put(f, &documents, 8);
	for (uint64_t i = 0; i < n; i++)
		lengths[i] = length();
	put(f, lengths, n * sizeof(*lengths));
	for (uint64_t i = 0; i < n; i++) {
		put(f, &at, 8);
		at += 2 * (uint64_t)lengths[i];
	}
	for (uint64_t i = 0; i <= n; i++)
		put(f, &i, 8);
	fclose(f);
	f = create(".bin");
	if (ftruncate(fileno(f), (off_t)at) < 0)
		perror("bench/data");
	fclose(f);
	free(lengths);
}

/* ---- references ------------------------------------------------------------ */

static void references(uint64_t n)
{
	enum { CHUNK = 1 << 20 };
	static char from[CHUNK], to[2 * (SEQ_LEN + 1)];
	char path[4096];
	double start, read_s;
	uint64_t copies = 0;
	int fd;

	snprintf(path, sizeof(path), "%s.idx", prefix);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	start = wall();
	for (uint64_t at = 34; at < 34 + 4 * n; at += CHUNK)
		if (pread(fd, from, CHUNK, (off_t)at) < 0)
			perror(path);
	read_s = wall() - start;
	close(fd);
	for (start = wall(); wall() - start < 0.2; copies++) {
		memcpy(to, from + copies % 512, sizeof(to));
		__asm__ volatile("" : : "r"(to) : "memory");
	}
	printf("lengths of %llu documents are read in %.1f ms by pread; %.0f "
	       "samples/s by memcpy\n",
		(unsigned long long)n, 1e3 * read_s, (double)copies / 0.2);
}

/* ---- rows --------------------------------------------------------------------- */

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

static void read_samples(tarn_data *data, double begun, double opened,
	double memory, const char *name)
{
	static int32_t tokens[SEQ_LEN + 1];
	const struct tarn_data_request request = {
		.tokens = tokens, .size = sizeof(tokens)};
	uint64_t g = 0, n_tokens = 0;
	double start = wall(), first = 0, spent = 0;

	while (spent < SECONDS) {
		struct tarn_data_sample sample;

		if (tarn_data_get(data, g, &request, &sample) < 0)
			fail("a sample");
		spent = wall() - start;
		first = g++ ? first : spent;
		n_tokens += sample.n_tokens;
	}
	printf("%-22s opened in %7.1f ms, %5.2f MiB; first sample %5.2f ms; "
	       "%7.0f samples/s, %5.1f M tokens/s, %4.1f %% used\n",
		name, 1e3 * (opened - begun), memory, 1e3 * first,
		(double)g / spent, (double)n_tokens / spent / 1e6,
		100.0 * (double)n_tokens / ((double)g * (SEQ_LEN + 1)));
}

/* With the table of an earlier row, if there is one; *table is then this row's. */
static void row(enum tarn_data_windows windows, enum tarn_data_shuffle shuffle,
	tarn_tensor **table, const char *name)
{
	const struct tarn_data_options options = {.seed = 1,
		.seq_len = SEQ_LEN,
		.windows = windows,
		.shuffle = shuffle,
		.block = 4096,
		.tables = table,
		.threads = 1};
	const char *path = prefix;
	tarn_data_source *source = NULL;
	tarn_data *data = NULL;
	double before = private_mib(), begun = wall(), opened;

	if (tarn_data_source_open(&path, 1, NULL, &source) < 0 ||
		tarn_data_open(&source, 1, &options, &data) < 0)
		fail(name);
	opened = wall();
	if (table && !*table && tarn_data_table(data, 0, table) < 0)
		fail(name);
	read_samples(data, begun, opened, private_mib() - before, name);
	tarn_data_free(data);
	tarn_data_source_unref(source);
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000000;
	tarn_tensor *table = NULL;
	char path[4096];

	if (argc < 2)
		return 2;
	snprintf(prefix, sizeof(prefix), "%s/corpus", argv[1]);
	write_corpus(n);
	references(n);
	row(TARN_WINDOWS_STREAM, TARN_SHUFFLE_ALL, NULL, "stream");
	row(TARN_WINDOWS_PADDED, TARN_SHUFFLE_ALL, NULL, "padded");
	row(TARN_WINDOWS_PACKED, TARN_SHUFFLE_ALL, &table, "packed");
	row(TARN_WINDOWS_PACKED, TARN_SHUFFLE_ALL, &table, "with its table");
	row(TARN_WINDOWS_PACKED, TARN_SHUFFLE_BLOCKS, &table, "and in blocks");
	tarn_tensor_unref(table);
	snprintf(path, sizeof(path), "%s.bin", prefix);
	unlink(path);
	snprintf(path, sizeof(path), "%s.idx", prefix);
	unlink(path);
	return 0;
}
