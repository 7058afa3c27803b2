/* SPDX-License-Identifier: MIT */
#include "tests/data/datasets.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static char paths[2][512];

void datasets_begin(const char *dir, struct corpus ret[2])
{
	snprintf(paths[0], sizeof(paths[0]), "%s/a", dir);
	snprintf(paths[1], sizeof(paths[1]), "%s/b.ds", dir);
	ret[0] = corpus_new(700, 90, 11);
	ret[1] = corpus_new(300, 150, 12);
	corpus_megatron(&ret[0], 0, ret[0].n, paths[0], 8);
	corpus_datatrove(&ret[1], 0, ret[1].n, paths[1], 4);
}

void datasets_end(struct corpus corpora[2])
{
	static const char *const ends[] = {".bin", ".idx", "", ".index"};
	char path[600];

	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s%s", paths[i / 2], ends[i]);
		unlink(path);
	}
	corpus_free(&corpora[0]);
	corpus_free(&corpora[1]);
}

tarn_data_source *datasets_source(int i)
{
	const char *path = paths[i];
	tarn_data_source *source;

	must(tarn_data_source_open(&path, 1, NULL, &source));
	return source;
}

struct tarn_data_options datasets_options(int i, const char **ret_name)
{
	static const char *const windows[] = {
		"stream", "padded", "dropped", "packed"};
	static const char *const shuffles[] = {"all", "in blocks", "none"};
	static const char *const mixtures[] = {
		"as one", "mixed", "mixed and changed"};
	static const double weights[2][2] = {{3, 1}, {0.2, 0.8}};
	static const struct tarn_data_weights periods[] = {
		{.from = 0, .weights = weights[0]},
		{.from = 500, .weights = weights[1]}};
	static char name[100];
	int mixed = i / 12;

	snprintf(name, sizeof(name), "windows %s, shuffled %s, %s",
		windows[i % 4], shuffles[i / 4 % 3], mixtures[mixed]);
	if (ret_name)
		*ret_name = name;
	return (struct tarn_data_options) {.seed = 42,
		.seq_len = SEQ_LEN,
		.windows = (enum tarn_data_windows)(i % 4),
		.shuffle = (enum tarn_data_shuffle)(i / 4 % 3),
		.block = 16,
		.group = 64,
		.pad = -1,
		.periods = mixed ? periods : NULL,
		.n_periods = (size_t)mixed};
}

tarn_data *datasets_open(const struct tarn_data_options *options)
{
	tarn_data_source *sources[2] = {datasets_source(0), datasets_source(1)};
	tarn_data *data;

	must(tarn_data_open(sources, 2, options, &data));
	tarn_data_source_unref(sources[0]);
	tarn_data_source_unref(sources[1]);
	return data;
}

uint64_t datasets_sample(
	tarn_data *data, uint64_t g, struct tarn_data_sample *ret)
{
	struct {
		int32_t tokens[SEQ_LEN + 1], positions[SEQ_LEN + 1];
		int32_t segments[SEQ_LEN + 1], cu_seqlens[SEQ_LEN + 1];
		struct tarn_data_sample sample;
	} all = {0};
	const struct tarn_data_request request = {.tokens = all.tokens,
		.size = sizeof(all.tokens),
		.positions = all.positions,
		.segments = all.segments,
		.cu_seqlens = all.cu_seqlens,
		.document = true};
	uint64_t sum = 0xcbf29ce484222325u;

	must(tarn_data_get(data, g, &request, &all.sample));
	for (size_t i = 0; i < sizeof(all); i++)
		sum = (sum ^ ((const unsigned char *)&all)[i]) * 0x100000001b3u;
	if (ret)
		*ret = all.sample;
	return sum;
}
