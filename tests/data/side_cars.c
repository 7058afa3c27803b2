/* SPDX-License-Identifier: MIT */
/*
 * Tables beside files: written once, used by the next dataset of the same files
 * and windows, ignored when the files have changed or the table is damaged.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/data/corpus.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { DOCUMENTS = 20000 };

static char dir[256], prefix[300], corpus_prefix[300];

static int count_calls(void *arg, uint64_t done, uint64_t total)
{
	uint64_t *calls = arg;

	if (done > total || total != DOCUMENTS)
		bail("progress of %llu, of %llu", (unsigned long long)done,
			(unsigned long long)total);
	++*calls;
	return 0;
}

static int cancel(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	(void)done;
	(void)total;
	return 1;
}

/* The samples of an epoch; *ret_calls: 0 where no lengths were read. */
static uint64_t samples(bool side_car, enum tarn_data_windows windows,
	uint32_t seq_len, uint64_t *ret_calls)
{
	const struct tarn_data_options options = {.seq_len = seq_len,
		.windows = windows,
		.side_car = side_car,
		.threads = 1,
		.progress = count_calls,
		.arg = ret_calls};
	const char *path = prefix;
	tarn_data_source *source;
	struct tarn_data_info info;
	tarn_data *data;

	*ret_calls = 0;
	must(tarn_data_source_open(&path, 1, NULL, &source));
	must(tarn_data_open(&source, 1, &options, &data));
	tarn_data_info(data, &info);
	tarn_data_free(data);
	tarn_data_source_unref(source);
	return info.n_samples;
}

static size_t tables(glob_t *ret)
{
	char pattern[320];

	globfree(ret);
	*ret = (glob_t) {.gl_pathc = 0};
	snprintf(pattern, sizeof(pattern), "%s.*.tarn-table.npy", prefix);
	return glob(pattern, 0, NULL, ret) == 0 ? ret->gl_pathc : 0;
}

static void remove_tables(void)
{
	glob_t g = {.gl_pathc = 0};

	for (size_t i = 0, n = tables(&g); i < n; i++)
		unlink(g.gl_pathv[i]);
	globfree(&g);
}

static void test_kept(const struct corpus *c)
{
	uint64_t none, first, second, other, calls;
	glob_t g = {.gl_pathc = 0};

	none = samples(false, TARN_WINDOWS_PADDED, 20, &calls);
	ok(tables(&g) == 0 && calls > 0,
		"no table is kept where it is not asked for");
	first = samples(true, TARN_WINDOWS_PADDED, 20, &calls);
	ok(tables(&g) == 1 && calls > 0 && first == none,
		"a table is kept beside the file");
	second = samples(true, TARN_WINDOWS_PADDED, 20, &calls);
	ok(second == first && calls == 0,
		"a table that is there is used without reading lengths");
	other = samples(true, TARN_WINDOWS_PADDED, 30, &calls);
	ok(other < first && calls > 0, "other windows have another");
	other = samples(true, TARN_WINDOWS_PACKED, 20, &calls);
	second = samples(true, TARN_WINDOWS_PACKED, 20, &calls);
	ok(other == second && calls == 0 && tables(&g) == 3,
		"so have packed ones");
	corpus_megatron(c, 0, c->n, corpus_prefix, 8);
	second = samples(true, TARN_WINDOWS_PADDED, 20, &calls);
	ok(second == first && calls > 0,
		"files that were written again have another");
	globfree(&g);
	remove_tables();
}

/* Word i, counted from the end, becomes another. */
static void test_damaged(void)
{
	uint64_t first =
		samples(true, TARN_WINDOWS_PADDED, 20, &(uint64_t) {0});
	glob_t g = {.gl_pathc = 0};
	bool same = true;

	if (tables(&g) != 1)
		bail("there is no table");
	for (int i = 1; i < 30; i += 3) {
		int fd = open(g.gl_pathv[0], O_RDWR | O_CLOEXEC);
		uint64_t word, calls;
		struct stat st;
		off_t at;

		if (fd < 0 || fstat(fd, &st) < 0)
			bail("%s: %m", g.gl_pathv[0]);
		at = st.st_size - 8 * i;
		if (pread(fd, &word, 8, at) != 8)
			bail("%s: %m", g.gl_pathv[0]);
		word++;
		if (pwrite(fd, &word, 8, at) != 8)
			bail("%s: %m", g.gl_pathv[0]);
		close(fd);
		same = same &&
		       samples(true, TARN_WINDOWS_PADDED, 20, &calls) ==
			       first &&
		       calls > 0;
	}
	ok(same, "a damaged table is made again");
	corpus_write(g.gl_pathv[0], "nonsense", 8);
	ok(samples(true, TARN_WINDOWS_PADDED, 20, &(uint64_t) {0}) == first,
		"so is one that is none");
	unlink(g.gl_pathv[0]);
	if (mkdir(g.gl_pathv[0], 0700) < 0)
		bail("mkdir: %m");
	ok(samples(true, TARN_WINDOWS_PADDED, 20, &(uint64_t) {0}) == first,
		"where it cannot be written there is none");
	rmdir(g.gl_pathv[0]);
	globfree(&g);
}

static void test_cancelled(void)
{
	const struct tarn_data_options options = {.seq_len = 20,
		.windows = TARN_WINDOWS_PADDED,
		.progress = cancel};
	const char *path = prefix;
	tarn_data_source *source;
	tarn_data *data;

	must(tarn_data_source_open(&path, 1, NULL, &source));
	is_int(-ECANCELED, tarn_data_open(&source, 1, &options, &data),
		"reading lengths can be cancelled");
	tarn_data_source_unref(source);
}

static void test_memory(void)
{
	const struct tarn_data_options options = {
		.seq_len = 2, .windows = TARN_WINDOWS_PADDED, .side_car = true};
	tarn_data_source *source;
	tarn_tensor *values;
	tarn_data *data;

	must(tarn_tensor_parse(TARN_I32, "[1, 2, 3, 4, 5]", &values));
	must(tarn_data_source_tokens(values, NULL, &source));
	must(tarn_data_open(&source, 1, &options, &data));
	ok(access("a tensor", F_OK) < 0, "tensors in memory have no table");
	tarn_data_free(data);
	tarn_data_source_unref(source);
	tarn_tensor_unref(values);
}

int main(void)
{
	struct corpus c = corpus_new(DOCUMENTS, 100, 5);
	char name[320];

	snprintf(dir, sizeof(dir), "%s", test_tmpdir());
	snprintf(prefix, sizeof(prefix), "%s/a.bin", dir);
	snprintf(corpus_prefix, sizeof(corpus_prefix), "%s/a", dir);
	corpus_megatron(&c, 0, c.n, corpus_prefix, 8);
	test_kept(&c);
	test_damaged();
	test_cancelled();
	test_memory();
	snprintf(name, sizeof(name), "%s/a.idx", dir);
	unlink(name);
	unlink(prefix);
	corpus_free(&c);
	return done(6 + 3 + 1 + 1);
}
