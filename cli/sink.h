/* SPDX-License-Identifier: MIT */
/* The file that tensors go to, as the verbs that write one meet it. */
#pragma once

#include <tarn/save.h>

#include "cli/json.h"
#include "cli/options.h"

/* Begins as zeroes, filled in by options. */
struct sink {
	const char *path;
	bool checksums, exclusive, json;
	const char *align, *io_mode;
	struct option_list metadata;
	/* sink_parse makes these. */
	struct tarn_save_options save;
	struct tarn_save_pair *pairs;
	void *known; /* their keys, as tsearch(3) has them */
	char **keys; /* of the option's pairs: ours to free */
};

void sink_free(struct sink *sink);
#define _cleanup_sink_ __attribute__((__cleanup__(sink_free)))

#define SINK_OPTIONS(sink)                                                     \
	{.name = "checksums",                                                  \
		.letter = 'c',                                                 \
		.ret_flag = &(sink)->checksums,                                \
		.help = "with a checksum of each tensor, for 'tarn verify'"},  \
		{.name = "align",                                              \
			.letter = 'a',                                         \
			.value = "BYTES",                                      \
			.ret_text = &(sink)->align,                            \
			.help = "align the tensors to BYTES; 4096 suits "      \
				"direct I/O"},                                 \
		{.name = "metadata",                                           \
			.letter = 'm',                                         \
			.value = "KEY=VALUE",                                  \
			.ret_list = &(sink)->metadata,                         \
			.help = "with this among its metadata; may be given "  \
				"often"},                                      \
		{.name = "new",                                                \
			.letter = 'n',                                         \
			.ret_flag = &(sink)->exclusive,                        \
			.help = "fail if there is a file of that name"},       \
	{                                                                      \
		.name = "io", .letter = 'I', .value = "MODE",                  \
		.ret_text = &(sink)->io_mode,                                  \
		.help = "how bytes travel: auto, buffered (by the "            \
			"page cache)\nor direct (past it)"                     \
	}

/* Makes sense of the options, and of the path's ending. OPTIONS_DONE or the
 * exit status. */
int sink_parse(struct sink *sink, const struct usage *usage);

/* "auto", "buffered", "direct"; NULL is the first. -1: another. */
int io_mode_parse(const char *text);

bool sink_is_npy(const struct sink *sink);

/* One more pair of metadata, borrowed; false: there is one of that key, which
 * stays. */
bool sink_add_metadata(struct sink *sink, const char *key, const char *value);

/* Saves, with a bar on a terminal. 0, or -errno after saying why. */
int sink_save(struct sink *sink, const struct tarn_save_item *items, size_t n,
	struct tarn_copy_info *ret);

/* ---- the report on it -------------------------------------------- */

/* "1.20 GiB in 0.523 s (2.30 GiB/s) by io_uring, direct; CPU 0.050 s" */
void info_print(const struct tarn_copy_info *info);

/* bytes, seconds, ... of info, put into object. */
void info_json(json_t *object, const struct tarn_copy_info *info);

/* "FILE: 3 tensors, " and the above, without the end of the line. */
void sink_print(
	const struct sink *sink, size_t n, const struct tarn_copy_info *info);
json_t *sink_json(
	const struct sink *sink, size_t n, const struct tarn_copy_info *info);
