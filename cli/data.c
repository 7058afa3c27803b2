/* SPDX-License-Identifier: MIT */
/*
 * tarn data: what a training job is given. Everything is computed as in the job,
 * by the same calls, so what is shown for a seed and a position is what a rank
 * gets.
 */
#include "cli/data.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/cli.h"

const struct verb data_verbs[] = {
	{.name = "bench",
		.run = data_bench,
		.help = "measure how fast samples are read"},
	{.name = "cat",
		.run = data_cat,
		.help = "print the samples that a rank gets"},
	{.name = "info",
		.run = data_info,
		.help = "count documents, tokens and records of files"},
	{0},
};

int cmd_data(int argc, char **argv)
{
	return verbs_run(data_verbs, "data",
		"Looks at samples as training jobs read them: tokens of "
		"Megatron's .bin and .idx,\ndatatrove's .ds, integers in "
		".npy, FILE:TENSOR and the store, and raw files;\nrows "
		"of other tensors; records of tar shards. FILE@WEIGHT mixes "
		"sources.",
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
