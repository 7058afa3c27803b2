/* SPDX-License-Identifier: MIT */
/* Changes of elements on their way to a file. */
#pragma once

#include <tarn/save.h>

#include "cli/options.h"

/* Begins as zeroes, filled in by options. */
struct change {
	const char *dtype_text, *scale_text, *bias_text, *channel_text;
	bool round;
	/* change_parse makes these. */
	int dtype; /* 0: as it is */
	double *scale, *bias;
	int64_t n; /* of both; 0: neither */
	int channel;
};

void change_free(struct change *change);
#define _cleanup_change_ __attribute__((__cleanup__(change_free)))

/* A list that ends a list of its users. */
/* clang-format off */
#define CHANGE_OPTIONS(change)                                                 \
	{.name = "dtype",                                                      \
		.letter = 'd',                                                 \
		.value = "DTYPE",                                              \
		.ret_text = &(change)->dtype_text,                             \
		.help = "as F16, or float16; of a whole file, only floats"},   \
		{.name = "scale",                                              \
			.letter = 's',                                         \
			.value = "X[,...]",                                    \
			.ret_text = &(change)->scale_text,                     \
			.help = "times X (also as 1/255), or times one for "   \
				"each channel"},                               \
		{.name = "bias",                                               \
			.letter = 'b',                                         \
			.value = "X[,...]",                                    \
			.ret_text = &(change)->bias_text,                      \
			.help = "plus X, after --scale"},                      \
		{.name = "channel",                                            \
			.letter = 'C',                                         \
			.value = "DIM",                                        \
			.ret_text = &(change)->channel_text,                   \
			.help = "the dimension of the channels, if the sizes " \
				"do not tell"},                                \
		{.name = "round",                                              \
			.letter = 'r',                                         \
			.ret_flag = &(change)->round,                          \
			.help = "to integers: to the nearest, ties to even; "  \
				"not cut"}
/* clang-format on */

/* OPTIONS_DONE or the exit status. */
int change_parse(struct change *change, const struct usage *usage);

/* Is there anything to do to elements of that dtype? alone: the tensor was
 * asked for by itself. */
bool change_concerns(const struct change *change, int dtype, bool alone);

/* Puts it into an item, which has its name and tensor; *convert is where the
 * item's options are kept. Exit status, after saying why. */
int change_apply(const struct change *change, struct tarn_save_item *item,
	struct tarn_copy_options *convert);
