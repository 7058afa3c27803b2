/* SPDX-License-Identifier: MIT */
/*
 * Samples have the tokens of the corpora, in windows of each kind, beside models
 * that walk through all documents; tables are taken from others and checked; what
 * is wrong is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/data/datasets.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct corpus corpora[2];
static const char *dir;

struct got {
	int32_t tokens[SEQ_LEN + 1], positions[SEQ_LEN + 1];
	int32_t segments[SEQ_LEN + 1], cu_seqlens[SEQ_LEN + 1];
	struct tarn_data_sample sample;
};

static void get(tarn_data *data, uint64_t g, struct got *ret)
{
	const struct tarn_data_request request = {.tokens = ret->tokens,
		.size = sizeof(ret->tokens),
		.positions = ret->positions,
		.segments = ret->segments,
		.cu_seqlens = ret->cu_seqlens,
		.document = true};

	must(tarn_data_get(data, g, &request, &ret->sample));
}

/* The corpora one after another, not shuffled. */
static tarn_data *open_plain(enum tarn_data_windows windows)
{
	struct tarn_data_options o = datasets_options((int)windows, NULL);

	o.shuffle = TARN_SHUFFLE_NONE;
	return datasets_open(&o);
}

static bool has(const struct got *got, uint32_t at, uint64_t token, uint64_t n,
	unsigned width)
{
	for (uint64_t i = 0; i < n; i++)
		if (got->tokens[at + i] !=
			(int32_t)corpus_token(token + i, width))
			return false;
	return true;
}

static bool padded_from(const struct got *got, uint32_t at)
{
	for (; at <= SEQ_LEN; at++)
		if (got->tokens[at] != -1 || got->segments[at] ||
			got->positions[at])
			return false;
	return true;
}

/* ---- across documents ------------------------------------------------------------ */

static uint64_t document_of(const struct corpus *c, uint64_t token)
{
	for (size_t i = 0;; token -= c->lengths[i++])
		if (token < c->lengths[i])
			return i;
}

static void test_stream(void)
{
	tarn_data *data = open_plain(TARN_WINDOWS_STREAM);
	bool good = true;
	uint64_t g = 0;

	for (uint32_t s = 0; s < 2; s++) {
		uint64_t n = (corpora[s].n_tokens - 1) / SEQ_LEN;

		for (uint64_t i = 0; good && i < n; i++) {
			struct got got;

			get(data, g++, &got);
			good = got.sample.source == s &&
			       got.sample.sample == i &&
			       has(&got, 0, i * SEQ_LEN, SEQ_LEN + 1,
				       s ? 4 : 2) &&
			       got.sample.document ==
				       document_of(&corpora[s], i * SEQ_LEN) &&
			       got.sample.n_cu_seqlens == 2 &&
			       got.cu_seqlens[1] == SEQ_LEN;
		}
	}
	ok(good, "windows of a stream are the tokens one after another");
	tarn_data_free(data);
}

/* ---- within documents --------------------------------------------------------------- */

static bool judge_window(const struct got *got, uint32_t source, uint64_t d,
	uint64_t token, uint64_t n)
{
	return got->sample.source == source && got->sample.document == d &&
	       got->sample.n_tokens == n && got->sample.n_pieces == 1 &&
	       has(got, 0, token, n, source ? 4 : 2) &&
	       padded_from(got, (uint32_t)n) &&
	       got->positions[n - 1] == (int32_t)n - 1 &&
	       got->segments[n - 1] == 1 &&
	       got->sample.n_cu_seqlens == (n < SEQ_LEN ? 3 : 2);
}

static bool within(tarn_data *data, bool padded)
{
	struct tarn_data_info info;
	uint64_t g = 0;
	struct got got;

	for (uint32_t s = 0; s < 2; s++) {
		uint64_t begins = 0;

		for (size_t d = 0; d < corpora[s].n; d++) {
			uint64_t length = corpora[s].lengths[d], k = 0;

			for (; k + 1 < length; k += SEQ_LEN) {
				uint64_t n = MIN(length - k, SEQ_LEN + 1u);

				if (n <= SEQ_LEN && !padded)
					break;
				get(data, g++, &got);
				if (!judge_window(&got, s, d, begins + k, n))
					return false;
			}
			begins += length;
		}
	}
	tarn_data_info(data, &info);
	return info.n_samples == g;
}

static void test_within(void)
{
	tarn_data *padded = open_plain(TARN_WINDOWS_PADDED);
	tarn_data *dropped = open_plain(TARN_WINDOWS_DROPPED);

	ok(within(padded, true), "windows within documents, padded");
	ok(within(dropped, false), "windows within documents, dropped");
	tarn_data_free(padded);
	tarn_data_free(dropped);
}

/* ---- packed ----------------------------------------------------------------------------- */

/* The pieces of a sequence: their tokens are somewhere in the corpus, positions
 * count, and boundaries are where segments change. */
static bool judge_packed(const struct got *got, unsigned char *used)
{
	const struct corpus *c = &corpora[got->sample.source];
	unsigned width = got->sample.source ? 4 : 2;
	uint32_t at = 0, cu = 0;

	for (uint32_t piece = 1; piece <= got->sample.n_pieces; piece++) {
		uint32_t n = 0;
		uint64_t token = 0;

		while (at + n <= SEQ_LEN &&
			got->segments[at + n] == (int32_t)piece) {
			if (got->positions[at + n] != (int32_t)n)
				return false;
			n++;
		}
		/* Tokens of a corpus do not repeat within so few. */
		while (token + n <= c->n_tokens &&
			!has(got, at, token, n, width))
			token++;
		if (!n || token + n > c->n_tokens)
			return false;
		for (uint32_t i = 0; i < n; i++)
			used[token + i]++;
		if (got->cu_seqlens[cu] != (int32_t)MIN(at, SEQ_LEN))
			return false;
		cu += at < SEQ_LEN;
		at += n;
	}
	if (at < SEQ_LEN && got->cu_seqlens[cu++] != (int32_t)at)
		return false;
	return at == got->sample.n_tokens && padded_from(got, at) &&
	       got->sample.n_cu_seqlens == cu + 1 &&
	       got->cu_seqlens[cu] == SEQ_LEN;
}

/* Each token is there; twice only where a window ends and the next begins. */
static bool all_used(const struct corpus *c, const unsigned char *used)
{
	uint64_t at = 0;

	for (size_t d = 0; d < c->n; at += c->lengths[d++])
		for (uint64_t i = 0; i < c->lengths[d]; i++) {
			bool shared =
				i && i % SEQ_LEN == 0 && i + 1 < c->lengths[d];

			if (used[at + i] != 1 + shared)
				return false;
		}
	return true;
}

static void test_packed(void)
{
	tarn_data *data = open_plain(TARN_WINDOWS_PACKED);
	uint64_t tokens[2] = {0}, sequences = 0;
	struct tarn_data_info info;
	unsigned char *used[2];
	bool good = true;

	for (int s = 0; s < 2; s++)
		used[s] = calloc(corpora[s].n_tokens, 1);
	tarn_data_info(data, &info);
	for (uint64_t g = 0; good && g < info.n_samples; g++) {
		struct got got;

		get(data, g, &got);
		good = judge_packed(&got, used[got.sample.source]);
		tokens[got.sample.source] += got.sample.n_tokens;
		sequences++;
		if (!good)
			diag("sample %llu", (unsigned long long)g);
	}
	ok(good, "packed sequences have pieces of documents, their places and "
		 "boundaries");
	ok(good && all_used(&corpora[0], used[0]) &&
			all_used(&corpora[1], used[1]),
		"each token is packed once");
	diag("%.1f %% of %llu sequences are used",
		100.0 * (double)(tokens[0] + tokens[1]) /
			(double)(sequences * (SEQ_LEN + 1)),
		(unsigned long long)sequences);
	tarn_data_free(data);
	free(used[0]);
	free(used[1]);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void test_rows(void)
{
	const struct tarn_data_options options = {
		.windows = TARN_WINDOWS_ROWS, .seed = 3};
	tarn_tensor *line, *table, *turned;
	const int64_t shape[] = {3, 20};
	tarn_data_source *source;
	struct tarn_data_info info;
	unsigned seen = 0;
	tarn_data *data;

	must(tarn_tensor_arange(TARN_F32, 0, 60, 1, &line));
	must(tarn_tensor_view(line, 2, shape, &table));
	must(tarn_tensor_transpose(table, 0, 1, &turned));
	must(tarn_data_source_rows(turned, &source));
	must(tarn_data_open(&source, 1, &options, &data));
	tarn_data_info(data, &info);
	ok(info.n_samples == 20 && info.sample_bytes == 12 &&
			info.dtype == TARN_F32 && !info.sample_tokens,
		"20 rows have 12 bytes each");
	for (uint64_t g = 0; g < 20; g++) {
		float row[3];
		const struct tarn_data_request request = {
			.tokens = row, .size = sizeof(row)};
		struct tarn_data_sample sample;

		must(tarn_data_get(data, g, &request, &sample));
		if (row[0] == (float)sample.sample &&
			row[2] == (float)(40 + sample.sample))
			seen |= 1u << sample.sample;
	}
	is_hex((1u << 20) - 1, seen, "each row comes once, with any strides");
	tarn_data_free(data);
	tarn_data_source_unref(source);
	tarn_tensor_unref(turned);
	tarn_tensor_unref(table);
	tarn_tensor_unref(line);
}

/* ---- tables ----------------------------------------------------------------------------------- */

static int open_with(struct tarn_data_options *o, tarn_tensor *a,
	tarn_tensor *b, tarn_data **ret)
{
	tarn_data_source *sources[2] = {datasets_source(0), datasets_source(1)};
	tarn_tensor *tables[2] = {a, b};
	int r;

	o->tables = tables;
	r = tarn_data_open(sources, 2, o, ret);
	o->tables = NULL;
	tarn_data_source_unref(sources[0]);
	tarn_data_source_unref(sources[1]);
	return r;
}

/* One in a file is as good. */
static void judge_saved(
	tarn_data *data, struct tarn_data_options *o, tarn_tensor *table)
{
	const struct tarn_save_item item = {.name = "table", .tensor = table};
	char path[300];
	bool same = true;
	tarn_data *again;
	tarn_file *file;
	tarn_tensor *t;

	snprintf(path, sizeof(path), "%s/table.npy", dir);
	must(tarn_save(path, &item, 1, NULL, NULL));
	must(tarn_file_open(path, &file));
	must(tarn_file_map(file, tarn_file_at(file, 0)->name, 0, &t));
	must(open_with(o, t, NULL, &again));
	if (truncate(path, 0) < 0)
		bail("truncate: %m");
	for (uint64_t g = 0; g < 500; g++)
		same = same && datasets_sample(data, g, NULL) ==
				       datasets_sample(again, g, NULL);
	ok(same, "a table that was saved is as good, whatever becomes of its "
		 "file");
	tarn_data_free(again);
	tarn_tensor_unref(t);
	tarn_file_unref(file);
	unlink(path);
}

static void test_tables(void)
{
	struct tarn_data_options o = datasets_options(3, NULL);
	tarn_data *data = datasets_open(&o), *again = NULL, *stream;
	tarn_tensor *t[2], *copy;
	bool same = true;
	uint64_t *words;

	must(tarn_data_table(data, 0, &t[0]));
	must(tarn_data_table(data, 1, &t[1]));
	is_int(4 + 700 / 64 + 1 + 1, tarn_tensor_layout(t[0])->shape[0],
		"a table has a word for each group of 64 documents");
	must(open_with(&o, t[0], t[1], &again));
	for (uint64_t g = 0; g < 500; g++)
		same = same && datasets_sample(data, g, NULL) ==
				       datasets_sample(again, g, NULL);
	ok(same, "tables that are given make the same samples");
	tarn_data_free(again);
	judge_saved(data, &o, t[0]);
	is_int(-EMEDIUMTYPE, open_with(&o, NULL, t[0], &again),
		"the table of another source is refused");
	o.seq_len++;
	is_int(-EMEDIUMTYPE, open_with(&o, t[0], NULL, &again),
		"a table for other windows is refused");
	o.seq_len--;
	must(tarn_tensor_clone(t[0], &copy));
	words = tarn_tensor_data(copy);
	words[4 + 5] = words[4 + 6] + 1;
	is_int(-EBADMSG, open_with(&o, copy, NULL, &again),
		"a table that does not rise is refused");
	words[4 + 5] = words[4 + 6];
	must(open_with(&o, copy, NULL, &again));
	/* A sample that by this table is the last of its group. */
	for (uint64_t g = 0; g < 2000; g++) {
		const struct tarn_data_request request = {.size = 0};
		struct tarn_data_sample s;
		int r = tarn_data_get(again, g, &request, &s);

		same = r < 0 && r == -EBADMSG;
		if (r < 0)
			break;
	}
	ok(same, "a table with wrong numbers is an error, never other samples");
	tarn_data_free(again);
	stream = open_plain(TARN_WINDOWS_STREAM);
	is_int(-ENOENT, tarn_data_table(stream, 0, &copy),
		"windows of a stream have no table");
	tarn_data_free(stream);
	tarn_data_free(data);
	tarn_tensor_unref(copy);
	tarn_tensor_unref(t[0]);
	tarn_tensor_unref(t[1]);
}

/* ---- refused -------------------------------------------------------------------------------------- */

static void refused(int wanted, const char *part, struct tarn_data_options o)
{
	tarn_data *data = NULL;

	is_int(wanted, open_with(&o, NULL, NULL, &data),
		"options are refused: %s", part);
	has_str(part, tarn_error_message(), "the sentence has \"%s\"", part);
}

static void test_refused(void)
{
	const struct tarn_data_options good = datasets_options(0, NULL);
	struct tarn_data_options o = good;

	o.seq_len = 0;
	refused(-EINVAL, "seq_len is 1 to 16777214 tokens, not 0", o);
	o.seq_len = 16777215;
	refused(-EINVAL, "not 16777215", o);
	o = good;
	o.windows = (enum tarn_data_windows)6;
	refused(-EINVAL, "there are no windows 6", o);
	o.windows = TARN_WINDOWS_ROWS;
	refused(-EINVAL, "rows and records have no seq_len, and 40 is given",
		o);
	o.seq_len = 0;
	refused(-EINVAL, "source 0 has tokens, and the windows are of rows", o);
	o = good;
	o.shuffle = TARN_SHUFFLE_BLOCKS;
	o.block = 0;
	refused(-EINVAL, "blocks of 1 at least, not 0", o);
	o = good;
	o.dtype = TARN_F32;
	refused(-EINVAL, "delivered as integers, not as F32", o);
	o.dtype = TARN_U8;
	o.pad = 256;
	refused(-EINVAL, "fills up, 256, does not fit into U8", o);
	o = good;
	o.seq_len = 1000000;
	refused(-EINVAL, "the sources have no sample of 1000001 tokens", o);
	o = good;
	o.reserved[3] = 1;
	refused(-EINVAL, "reserved word 3", o);
}

static void test_requests(void)
{
	struct tarn_data_options o = datasets_options(0, NULL);
	static int8_t narrow[SEQ_LEN + 1];
	static int64_t wide[SEQ_LEN + 1];
	struct tarn_data_request request = {
		.tokens = wide, .size = sizeof(wide)};
	struct tarn_data_sample sample;
	tarn_data *data;
	struct got got;

	o.dtype = TARN_I64;
	data = datasets_open(&o);
	must(tarn_data_get(data, 5, &request, &sample));
	tarn_data_free(data);
	o.dtype = TARN_I32;
	data = datasets_open(&o);
	get(data, 5, &got);
	ok(wide[0] == got.tokens[0] && wide[SEQ_LEN] == got.tokens[SEQ_LEN],
		"tokens are delivered as I64, too");
	request.size = sizeof(got.tokens) - 1;
	is_int(-ENOBUFS, tarn_data_get(data, 5, &request, &sample),
		"a buffer that is too small is refused");
	tarn_data_free(data);
	o.dtype = TARN_I8;
	data = datasets_open(&o);
	request = (struct tarn_data_request) {
		.tokens = narrow, .size = sizeof(narrow)};
	is_int(-ERANGE, tarn_data_get(data, 5, &request, &sample),
		"tokens that do not fit are an error");
	has_str("which does not fit into I8", tarn_error_message(),
		"the sentence has the token");
	tarn_data_free(data);
}

int main(void)
{
	dir = test_tmpdir();
	datasets_begin(dir, corpora);
	test_stream();
	test_within();
	test_packed();
	test_rows();
	test_tables();
	test_refused();
	test_requests();
	datasets_end(corpora);
	return done(1 + 2 + 2 + 2 + 8 + 20 + 4);
}
