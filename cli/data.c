/* SPDX-License-Identifier: MIT */
/*
 * tarn data: what a training job is given. Everything is computed as in the job,
 * by the same calls, so what is shown for a seed and a position is what a rank
 * gets.
 */
#include "cli/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/message.h"

const struct verb data_verbs[] = {
	{.name = "bench",
		.run = data_bench,
		.help = "measure how fast samples are read"},
	{.name = "cat",
		.run = data_cat,
		.help = "print the samples that a rank gets"},
	{.name = "info",
		.run = data_info,
		.help = "count documents and tokens of files"},
	{0},
};

int cmd_data(int argc, char **argv)
{
	return verbs_run(data_verbs, "data",
		"Looks at tokens as training jobs read them: Megatron's .bin "
		"and .idx,\ndatatrove's .ds, arrays of integers in .npy and "
		"FILE:TENSOR, and tokens alone.",
		argc, argv);
}

int data_number(const struct usage *usage, const char *name, const char *text,
	uint64_t *ret)
{
	unsigned long long number;
	char *end;

	if (!text)
		return OPTIONS_DONE;
	errno = 0;
	number = strtoull(text, &end, 10);
	/* It would take spaces and signs, and turn -1 around. */
	if (*text < '0' || *text > '9' || *end || errno)
		return usage_failed(usage,
			"--%s needs a number from 0 up, not '%s'", name, text);
	*ret = number;
	return OPTIONS_DONE;
}

int data_source(const struct usage *usage, const struct data_line *line,
	char **paths, int n, tarn_data_source **ret)
{
	struct tarn_data_source_options options = {.token_bytes = 0};

	if (line->dtype &&
		tarn_dtype_from_name(line->dtype, &options.dtype) < 0)
		return usage_failed(usage, "--dtype: %s", tarn_error_message());
	return tarn_data_source_open(
		       (const char *const *)paths, (size_t)n, &options, ret) < 0
		       ? print_error()
		       : OPTIONS_DONE;
}

/* The number of a word in a list that ends with NULL; without a text the first
 * one's. */
static int choose(const struct usage *usage, const char *name, const char *text,
	const char *const *words, int *ret)
{
	*ret = 0;
	if (!text)
		return OPTIONS_DONE;
	for (; words[*ret]; ++*ret)
		if (strcmp(words[*ret], text) == 0)
			return OPTIONS_DONE;
	return usage_failed(usage, "--%s: there is no '%s'", name, text);
}

int data_dataset(const struct usage *usage, const struct data_line *line,
	tarn_data_source *source, tarn_data **ret)
{
	static const char *const windows[] = {
		"stream", "padded", "dropped", "packed", NULL};
	static const char *const shuffles[] = {"all", "blocks", "none", NULL};
	struct tarn_data_options options = {.block = 4096};
	struct tarn_data_source_info info;
	uint64_t seq_len = 0;
	int r = line->seq_len ? option_count(usage, "seq-len", line->seq_len,
					&seq_len)
			      : usage_failed(usage, "--seq-len is needed");
	int kind = 0, shuffle = 0;

	if (r == OPTIONS_DONE)
		r = data_number(usage, "seed", line->seed, &options.seed);
	if (r == OPTIONS_DONE)
		r = option_count(usage, "block", line->block, &options.block);
	if (r == OPTIONS_DONE)
		r = choose(usage, "windows", line->windows, windows, &kind);
	if (r == OPTIONS_DONE)
		r = choose(usage, "shuffle", line->shuffle, shuffles, &shuffle);
	if (r != OPTIONS_DONE)
		return r;
	tarn_data_source_info(source, &info);
	options.seq_len = (uint32_t)MIN(seq_len, UINT32_MAX);
	options.windows = (enum tarn_data_windows)kind;
	options.shuffle = (enum tarn_data_shuffle)shuffle;
	options.dtype = info.token_bytes > 4 || info.dtype == TARN_U32
				? TARN_I64
				: TARN_I32;
	return tarn_data_open(&source, 1, &options, ret) < 0 ? print_error()
							     : OPTIONS_DONE;
}
