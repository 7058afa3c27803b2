/* SPDX-License-Identifier: MIT */
/* Datasets, as the verbs below "tarn data" open them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/data.h>

#include "base/cleanup.h"
#include "cli/options.h"
#include "cli/verbs.h"

DEFINE_CLEANUP(tarn_data_source *, tarn_data_source_unref);
DEFINE_CLEANUP(tarn_data *, tarn_data_free);
#define _cleanup_source_ _cleanup_(tarn_data_source_unrefp)
#define _cleanup_data_ _cleanup_(tarn_data_freep)

/* The verbs of "tarn data". */
extern const struct verb data_verbs[];

int data_bench(int argc, char **argv);
int data_cat(int argc, char **argv);
int data_info(int argc, char **argv);

/* What a line says of a dataset, as it was typed. Begins as zeroes. */
struct data_line {
	const char *dtype, *seq_len, *seed, *windows, *shuffle, *block;
};

#define OPTION_DTYPE(line)                                                     \
	{                                                                      \
		.name = "dtype", .letter = 'd', .value = "DTYPE",              \
		.ret_text = &(line).dtype,                                     \
		.help = "of files with tokens alone: U16, I32, ..."            \
	}

#define OPTIONS_DATA(line)                                                     \
	OPTION_DTYPE(line),                                                    \
		{.name = "seq-len",                                            \
			.letter = 'L',                                         \
			.value = "L",                                          \
			.ret_text = &(line).seq_len,                           \
			.help = "tokens to read; a sample has one more"},      \
		{.name = "seed",                                               \
			.letter = 's',                                         \
			.value = "S",                                          \
			.ret_text = &(line).seed,                              \
			.help = "of the order; 0 if none is given"},           \
		{.name = "windows",                                            \
			.letter = 'W',                                         \
			.value = "KIND",                                       \
			.ret_text = &(line).windows,                           \
			.help = "stream (across documents), padded, dropped "  \
				"(within them)\nor packed"},                   \
		{.name = "shuffle",                                            \
			.letter = 'x',                                         \
			.value = "KIND",                                       \
			.ret_text = &(line).shuffle,                           \
			.help = "all, blocks or none"},                        \
	{                                                                      \
		.name = "block", .letter = 'b', .value = "N",                  \
		.ret_text = &(line).block,                                     \
		.help = "samples of a block; 4096 if none is given"            \
	}

/* Opens n files as one source; and a dataset of it, which delivers I32 or, where
 * tokens have 8 bytes, I64. OPTIONS_DONE, or the exit status after a message. */
int data_source(const struct usage *usage, const struct data_line *line,
	char **paths, int n, tarn_data_source **ret);
int data_dataset(const struct usage *usage, const struct data_line *line,
	tarn_data_source *source, tarn_data **ret);

/* Parses the value of the option of that name as a number from 0 up; without a
 * text *ret stays. As option_count. */
int data_number(const struct usage *usage, const char *name, const char *text,
	uint64_t *ret);
