/* SPDX-License-Identifier: MIT */
/*
 * What the arguments of "tarn data" stand for. A file is looked for first; what is
 * none may be a tensor of the store. Indexes and tables are kept beside the files,
 * since the next call is likely to need them again.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/address.h"
#include "cli/cli.h"
#include "cli/data.h"
#include "cli/message.h"
#include "cli/progress.h"
#include "cli/store.h"

/* ---- one source --------------------------------------------------------------- */

static bool is_token(const struct tarn_layout *l)
{
	switch (l->dtype) {
	case TARN_U8:
	case TARN_I8:
	case TARN_U16:
	case TARN_I16:
	case TARN_U32:
	case TARN_I32:
	case TARN_U64:
	case TARN_I64:
		return l->ndim == 1;
	default:
		return false;
	}
}

static int of_tensor(tarn_tensor *tensor, tarn_data_source **ret)
{
	return is_token(tarn_tensor_layout(tensor))
		       ? tarn_data_source_tokens(tensor, NULL, ret)
		       : tarn_data_source_rows(tensor, ret);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n > m && strcmp(text + n - m, end) == 0;
}

/* The address of a tensor in a file, and not of a file of tokens. */
static bool is_tensor(const char *path)
{
	const char *tensor;
	char *file = cli_is_file(path) ? NULL : address_file(path, &tensor);
	bool is = file || ends_with(path, ".npy") ||
		  ends_with(path, ".safetensors");

	free(file);
	return is;
}

/* A published one; message: what was said of the file that is not there. */
static int of_store(const struct data_line *line, const char *name,
	const char *message, tarn_data_source **ret)
{
	_cleanup_store_ tarn_store *store = NULL;
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	int r = cli_store_find(line->socket, &store);

	if (r != EXIT_DONE)
		return r;
	if (!store)
		return print_failure("%s", message);
	if (tarn_store_get(store, name, NULL, &tensor) < 0) {
		print_failure(
			"%s, and nothing is published as '%s'", message, name);
		cli_hint_name(store, name);
		return EXIT_FAILED;
	}
	return of_tensor(tensor, ret) < 0 ? print_error() : OPTIONS_DONE;
}

static int of_files(const struct data_line *line,
	const struct tarn_data_source_options *options,
	const char *const *paths, size_t n, tarn_data_source **ret)
{
	struct tarn_data_source_options o = *options;
	_cleanup_free_ char *message = NULL;
	struct progress_bar progress;
	int r;

	progress_begin(&progress);
	o.side_car = !line->no_side_car;
	o.progress = progress_step;
	o.arg = &progress;
	r = tarn_data_source_open(paths, n, &o, ret);
	progress_end(&progress);
	if (r >= 0)
		return OPTIONS_DONE;
	if (r != -ENOENT || n > 1)
		return print_error();
	message = must(strdup(tarn_error_message()));
	return of_store(line, paths[0], message, ret);
}

static int open_one(const struct data_line *line,
	const struct tarn_data_source_options *options, const char *path,
	tarn_data_source **ret)
{
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	int r;

	if (!is_tensor(path))
		return of_files(line, options, &path, 1, ret);
	r = address_open(path, &tensor);
	if (r != EXIT_DONE)
		return r;
	/* As a file of tokens it has its name in error messages. */
	if (is_token(tarn_tensor_layout(tensor)) &&
		tarn_data_source_open(&path, 1, options, ret) >= 0)
		return OPTIONS_DONE;
	return of_tensor(tensor, ret) < 0 ? print_error() : OPTIONS_DONE;
}

/* ---- all of them ------------------------------------------------------------------ */

void data_set_end(struct data_set *set)
{
	for (uint32_t i = 0; set->sources && i < set->n; i++)
		tarn_data_source_unref(set->sources[i]);
	free(set->sources);
	free(set->weights);
}

/* Is it a file, or Megatron's two without their endings? */
static bool is_there(const char *path)
{
	char *index;
	bool is;

	if (asprintf(&index, "%s.idx", path) < 0)
		must(NULL);
	is = cli_is_file(path) || cli_is_file(index);
	free(index);
	return is;
}

/* The weight behind the last '@', which is cut off; 0: there is none. */
static double cut_weight(char *arg)
{
	char *at = strrchr(arg, '@'), *end;
	double weight;

	if (!at || at == arg || is_there(arg))
		return 0;
	weight = strtod(at + 1, &end);
	if (end == at + 1 || *end || !isfinite(weight) || weight <= 0)
		return 0;
	*at = '\0';
	return weight;
}

static bool take_weights(char **args, int n, double *weights)
{
	bool any = false;

	for (int i = 0; i < n; i++) {
		weights[i] = cut_weight(args[i]);
		any |= weights[i] > 0;
	}
	for (int i = 0; i < n; i++)
		weights[i] = weights[i] > 0 ? weights[i] : 1;
	return any;
}

/* Are they files that can be parts of one source? What is not there may be a
 * tensor's name. */
static bool are_files(char **args, int n)
{
	for (int i = 0; i < n; i++)
		if (!is_there(args[i]) || is_tensor(args[i]))
			return false;
	return true;
}

static int open_each(const struct data_line *line,
	const struct tarn_data_source_options *options, char **args, int n,
	struct data_set *ret)
{
	int r = OPTIONS_DONE;

	for (int i = 0; r == OPTIONS_DONE && i < n; i++) {
		r = open_one(line, options, args[i], &ret->sources[i]);
		ret->n += r == OPTIONS_DONE;
	}
	return r;
}

int data_set_open(const struct usage *usage, const struct data_line *line,
	char **args, int n, struct data_set *ret)
{
	struct tarn_data_source_options options = {.token_bytes = 0};
	bool mixed;
	int r;

	if (line->dtype &&
		tarn_dtype_from_name(line->dtype, &options.dtype) < 0)
		return usage_failed(usage, "--dtype: %s", tarn_error_message());
	ret->sources = must(calloc((size_t)n, sizeof(*ret->sources)));
	ret->weights = must(calloc((size_t)n, sizeof(*ret->weights)));
	mixed = take_weights(args, n, ret->weights);
	if (!mixed) {
		free(ret->weights);
		ret->weights = NULL;
	}
	if (mixed || n == 1 || !are_files(args, n))
		return open_each(line, &options, args, n, ret);
	r = of_files(line, &options, (const char *const *)args, (size_t)n,
		&ret->sources[0]);
	ret->n = r == OPTIONS_DONE;
	return r;
}

/* ---- datasets ------------------------------------------------------------------------ */

/* The number of a word in a list that ends with NULL; without a text *ret
 * stays. */
static int choose(const struct usage *usage, const char *name, const char *text,
	const char *const *words, int *ret)
{
	if (!text)
		return OPTIONS_DONE;
	for (*ret = 0; words[*ret]; ++*ret)
		if (strcmp(words[*ret], text) == 0)
			return OPTIONS_DONE;
	return usage_failed(usage, "--%s: there is no '%s'", name, text);
}

/* What fits the first source, unless the line says otherwise; and what is
 * delivered. */
static int windows_of(const struct usage *usage, const struct data_line *line,
	const struct data_set *set, struct tarn_data_options *options)
{
	static const char *const words[] = {"stream", "padded", "dropped",
		"packed", "rows", "records", NULL};
	struct tarn_data_source_info info;
	int kind, r;

	options->dtype = TARN_I32;
	for (uint32_t i = 0; i < set->n; i++) {
		tarn_data_source_info(set->sources[i], &info);
		if (info.token_bytes > 4 || info.dtype == TARN_U32)
			options->dtype = TARN_I64;
	}
	tarn_data_source_info(set->sources[0], &info);
	kind = !strcmp(info.format, "tar")    ? TARN_WINDOWS_RECORDS
	       : !strcmp(info.format, "rows") ? TARN_WINDOWS_ROWS
					      : TARN_WINDOWS_STREAM;
	r = choose(usage, "windows", line->windows, words, &kind);
	options->windows = (enum tarn_data_windows)kind;
	return r;
}

static int lengths_of(const struct usage *usage, const struct data_line *line,
	struct tarn_data_options *options)
{
	bool tokens = options->windows < TARN_WINDOWS_ROWS;
	uint64_t seq_len = 0;
	int r;

	if (tokens != (line->seq_len != NULL))
		return usage_failed(usage,
			tokens ? "--seq-len is needed"
			       : "--seq-len is for tokens, which rows and records "
				 "have not");
	r = option_count(usage, "seq-len", line->seq_len, &seq_len);
	options->seq_len = (uint32_t)MIN(seq_len, UINT32_MAX);
	return r;
}

static int open_dataset(const struct data_line *line,
	const struct data_set *set, struct tarn_data_options *options,
	tarn_data **ret)
{
	const struct tarn_data_weights periods = {.weights = set->weights};
	struct progress_bar progress;
	int r;

	progress_begin(&progress);
	options->periods = set->weights ? &periods : NULL;
	options->n_periods = set->weights ? 1 : 0;
	options->side_car = !line->no_side_car;
	options->progress = progress_step;
	options->arg = &progress;
	r = tarn_data_open(set->sources, set->n, options, ret);
	progress_end(&progress);
	return r < 0 ? print_error() : OPTIONS_DONE;
}

int data_dataset(const struct usage *usage, const struct data_line *line,
	const struct data_set *set, tarn_data **ret)
{
	static const char *const shuffles[] = {"all", "blocks", "none", NULL};
	struct tarn_data_options options = {.block = 4096};
	int shuffle = 0, r = windows_of(usage, line, set, &options);

	if (r == OPTIONS_DONE)
		r = lengths_of(usage, line, &options);
	if (r == OPTIONS_DONE)
		r = data_number(usage, "seed", line->seed, &options.seed);
	if (r == OPTIONS_DONE)
		r = option_count(usage, "block", line->block, &options.block);
	if (r == OPTIONS_DONE)
		r = choose(usage, "shuffle", line->shuffle, shuffles, &shuffle);
	options.shuffle = (enum tarn_data_shuffle)shuffle;
	return r == OPTIONS_DONE ? open_dataset(line, set, &options, ret) : r;
}
