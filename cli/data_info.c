/* SPDX-License-Identifier: MIT */
/* tarn data info: how many documents and tokens files have, and of what
 * lengths. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/data.h"
#include "cli/draw.h"
#include "cli/gauge.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/progress.h"
#include "cli/size.h"

/* Documents by the bits of their lengths: 0, 1, 2 to 3, 4 to 7, ... */
enum { CLASSES = 65, BAR = 22, CHUNK = 4096 };

struct lengths {
	uint64_t documents[CLASSES], tokens[CLASSES];
	uint64_t least, most;
};

static int class_of(uint64_t length)
{
	return length ? 64 - __builtin_clzll(length) : 0;
}

static uint64_t class_first(int i)
{
	return i ? (uint64_t)1 << (i - 1) : 0;
}

static uint64_t class_last(int i)
{
	return i ? 2 * (class_first(i) - 1) + 1 : 0;
}

/* Reads all lengths, with a bar for what takes long. */
static int count(
	const tarn_data_source *source, uint64_t n, struct lengths *ret)
{
	struct progress_bar progress;
	uint64_t lengths[CHUNK];
	int r = 0;

	*ret = (struct lengths) {.least = n ? UINT64_MAX : 0};
	progress_begin(&progress);
	for (uint64_t at = 0, step; r >= 0 && at < n; at += step) {
		step = MIN(n - at, CHUNK);
		r = tarn_data_source_lengths(source, at, step, lengths);
		for (uint64_t i = 0; r >= 0 && i < step; i++) {
			ret->documents[class_of(lengths[i])]++;
			ret->tokens[class_of(lengths[i])] += lengths[i];
			ret->least = MIN(ret->least, lengths[i]);
			ret->most = MAX(ret->most, lengths[i]);
		}
		progress_step(&progress, 4 * (at + step), 4 * n);
	}
	progress_end(&progress);
	return r < 0 ? print_error() : EXIT_DONE;
}

/* ---- for people ------------------------------------------------------------- */

static void print_class(const struct lengths *l, int i, uint64_t most,
	double documents, double tokens)
{
	char bar[3 * GAUGE_COLUMNS_MAX + 1], rest[3 * GAUGE_COLUMNS_MAX + 1];
	uint64_t first = class_first(i), last = class_last(i);
	bool utf8 = draw_utf8();
	char range[48];

	snprintf(range, sizeof(range), "%" PRIu64 " to %" PRIu64, first, last);
	if (first == last)
		snprintf(range, sizeof(range), "%" PRIu64, first);
	gauge_bar(bar, rest, BAR, (double)l->documents[i] / (double)most, utf8);
	printf("  %20s  %s%*s %12" PRIu64 " %6.1f %% %6.1f %%\n", range, bar,
		(int)(utf8 ? strlen(rest) / 2 : strlen(rest)), "",
		l->documents[i], 100 * (double)l->documents[i] / documents,
		tokens > 0 ? 100 * (double)l->tokens[i] / tokens : 0);
}

static void print_lengths(
	const struct tarn_data_source_info *info, const struct lengths *l)
{
	int first = class_of(l->least), last = class_of(l->most);
	uint64_t most = 1;

	printf("documents have %" PRIu64 " to %" PRIu64
	       " tokens, %.1f on average\n",
		l->least, l->most,
		(double)info->n_tokens / (double)info->n_documents);
	for (int i = first; i <= last; i++)
		most = MAX(most, l->documents[i]);
	printf("  %20s  %*s %12s %8s %8s\n", "LENGTH", BAR, "", "DOCUMENTS",
		"OF THEM", "TOKENS");
	for (int i = first; i <= last; i++)
		print_class(l, i, most, (double)info->n_documents,
			(double)info->n_tokens);
}

static const char *tokens_name(
	const struct tarn_data_source_info *info, char *buf, size_t size)
{
	const char *name = tarn_dtype_name(info->dtype);

	if (name)
		return name;
	snprintf(buf, size, "%u bytes", info->token_bytes);
	return buf;
}

static void print_info(
	const struct tarn_data_source_info *info, const struct lengths *l)
{
	char name[24], size[SIZE_TEXT_MAX];

	printf("%zu file%s, %s: %" PRIu64 " document%s, %" PRIu64
	       " tokens of %s, %s\n",
		info->n_files, info->n_files == 1 ? "" : "s", info->format,
		info->n_documents, info->n_documents == 1 ? "" : "s",
		info->n_tokens, tokens_name(info, name, sizeof(name)),
		size_text((double)info->n_tokens * info->token_bytes, size));
	if (info->has_documents && info->n_documents)
		print_lengths(info, l);
	else if (info->n_documents)
		puts("no index tells documents apart: each file is one");
}

/* ---- for programs ------------------------------------------------------------- */

static json_t *class_json(const struct lengths *l, int i)
{
	json_t *object = must(json_object());

	json_put(object, "from", json_u64(class_first(i)));
	json_put(object, "to", json_u64(class_last(i)));
	json_put(object, "documents", json_u64(l->documents[i]));
	json_put(object, "tokens", json_u64(l->tokens[i]));
	return object;
}

static json_t *tokens_json(
	const struct tarn_data_source_info *info, const struct lengths *l)
{
	json_t *object = must(json_object()), *lengths = must(json_array());
	const char *dtype = tarn_dtype_name(info->dtype);

	for (int i = 0; i < CLASSES; i++)
		if (l->documents[i] &&
			json_array_append_new(lengths, class_json(l, i)) < 0)
			must(NULL);
	json_put(object, "format", json_text(info->format));
	json_put(object, "files", json_u64(info->n_files));
	json_put(object, "documents", json_u64(info->n_documents));
	json_put(object, "tokens", json_u64(info->n_tokens));
	json_put(object, "dtype", dtype ? json_text(dtype) : json_null());
	json_put(object, "token_bytes", json_u64(info->token_bytes));
	json_put(object, "indexed", json_boolean(info->has_documents));
	json_put(object, "shortest", json_u64(l->least));
	json_put(object, "longest", json_u64(l->most));
	json_put(object, "lengths", lengths);
	return object;
}

/* ---- sources ---------------------------------------------------------------------- */

static int tokens_info(const tarn_data_source *source,
	const struct tarn_data_source_info *info, json_t **ret_json)
{
	struct lengths lengths;
	int r = count(source, info->n_documents, &lengths);

	if (r != EXIT_DONE)
		return r;
	if (ret_json)
		*ret_json = tokens_json(info, &lengths);
	else
		print_info(info, &lengths);
	return EXIT_DONE;
}

static int rows_info(
	const struct tarn_data_source_info *info, json_t **ret_json)
{
	if (ret_json) {
		*ret_json = must(json_object());
		json_put(*ret_json, "format", json_text(info->format));
		json_put(*ret_json, "rows", json_u64(info->n_rows));
		json_put(*ret_json, "dtype",
			json_text(tarn_dtype_name(info->dtype)));
	} else {
		printf("%" PRIu64 " row%s of %s\n", info->n_rows,
			info->n_rows == 1 ? "" : "s",
			tarn_dtype_name(info->dtype));
	}
	return EXIT_DONE;
}

/* In *ret_json where that is not NULL, else as text. */
static int source_info(const tarn_data_source *source, json_t **ret_json)
{
	struct tarn_data_source_info info;

	tarn_data_source_info(source, &info);
	if (!strcmp(info.format, "tar"))
		return data_records_info(source, ret_json);
	return strcmp(info.format, "rows")
		       ? tokens_info(source, &info, ret_json)
		       : rows_info(&info, ret_json);
}

static int set_json(const struct data_set *set)
{
	json_t *all = must(json_object()), *list = must(json_array());
	int r = EXIT_DONE;

	for (uint32_t i = 0; r == EXIT_DONE && i < set->n; i++) {
		json_t *one = NULL;

		r = source_info(set->sources[i], &one);
		if (r == EXIT_DONE && set->n == 1) {
			json_decref(list);
			json_decref(all);
			return json_print(one);
		}
		if (r == EXIT_DONE && json_array_append_new(list, one) < 0)
			must(NULL);
	}
	json_put(all, "sources", list);
	if (r == EXIT_DONE)
		return json_print(all);
	json_decref(all);
	return r;
}

static int print_set(const struct data_set *set)
{
	int r = EXIT_DONE;

	for (uint32_t i = 0; r == EXIT_DONE && i < set->n; i++) {
		if (set->n > 1)
			printf("%ssource %u: ", i ? "\n" : "", i);
		r = source_info(set->sources[i], NULL);
	}
	return r;
}

/* ---- the verb --------------------------------------------------------------------- */

int data_info(int argc, char **argv)
{
	_cleanup_data_set_ struct data_set set = {.n = 0};
	struct data_line line = {.dtype = NULL};
	bool json = false;
	const struct option_row rows[] = {
		OPTIONS_SOURCE(line), OPTION_JSON(&json), {0}};
	const struct usage usage = {.verb = "data info",
		.arguments = "[OPTION]... FILE...",
		.about = "Counts documents and tokens of files, which together "
			 "are one source, and shows\nhow many documents have "
			 "which lengths; or the records of tar shards, and "
			 "their\nfields.",
		.options = rows,
		.args_min = 1,
		.args_max = -1};
	char **args;
	int n, r = options_parse(&usage, argc, argv, &n, &args);

	if (r != OPTIONS_DONE)
		return r;
	r = data_set_open(&usage, &line, args, n, &set);
	if (r != OPTIONS_DONE)
		return r;
	return json ? set_json(&set) : print_set(&set);
}
