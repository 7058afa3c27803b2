/* SPDX-License-Identifier: MIT */
/*
 * Changes of elements on their way to a file: another dtype, a scale, a bias.
 * Where the user's intention is clear the command follows it, and where it is
 * not the command asks for an option. Channels are the one dimension that has
 * as many elements as there are values; for a whole checkpoint, "as BF16" is
 * about its weights, and would destroy its tables of indices.
 */
#include "cli/change.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/suggest.h"

void change_free(struct change *change)
{
	free(change->scale);
	free(change->bias);
}

/* ---- options ------------------------------------------------------- */

/* "bf16" can only be one; "f4" is numpy's, and has been found. */
static bool dtype_from_small(const char *name, enum tarn_dtype *ret)
{
	for (int i = 1; i <= TARN_DTYPE_MAX; i++)
		if (strcasecmp(tarn_dtype_name(i), name) == 0) {
			*ret = (enum tarn_dtype)i;
			return true;
		}
	return false;
}

static int parse_dtype(struct change *change, const struct usage *usage)
{
	const char *name = change->dtype_text;
	enum tarn_dtype dtype;
	struct suggest suggest;

	if (!name)
		return OPTIONS_DONE;
	if (tarn_dtype_from_name(name, &dtype) >= 0 ||
		dtype_from_small(name, &dtype)) {
		change->dtype = (int)dtype;
		return OPTIONS_DONE;
	}
	print_failure("%s: --dtype: %s", usage->verb, tarn_error_message());
	suggest_begin(&suggest, name);
	for (int i = 1; i <= TARN_DTYPE_MAX; i++)
		suggest_offer(&suggest, tarn_dtype_name(i));
	suggest_print(&suggest, NULL);
	return EXIT_USAGE;
}

/* "0.5", "1/255". NULL: neither; else what follows. */
static const char *parse_number(const char *text, double *ret)
{
	char *end;
	double over;

	*ret = strtod(text, &end);
	if (end == text)
		return NULL;
	if (*end == '/') {
		text = end + 1;
		over = strtod(text, &end);
		if (end == text)
			return NULL;
		*ret /= over;
	}
	return isfinite(*ret) ? end : NULL;
}

static int parse_list(const struct usage *usage, const char *option,
	const char *text, double **ret, int64_t *ret_n)
{
	const char *at = text;

	for (*ret_n = 0; text; at++) {
		*ret = must(
			reallocarray(*ret, (size_t)*ret_n + 1, sizeof(**ret)));
		at = parse_number(at, &(*ret)[*ret_n]);
		if (!at || (*at && *at != ','))
			return usage_failed(usage,
				"--%s needs numbers like 0.5 or 1/255, divided "
				"by commas, not '%s'",
				option, text);
		++*ret_n;
		if (!*at)
			break;
	}
	return OPTIONS_DONE;
}

/* One value for all is as many as there are of the other. */
static void spread(double **values, int64_t n, int64_t wanted)
{
	if (n != 1 || wanted <= 1)
		return;
	*values = must(reallocarray(*values, (size_t)wanted, sizeof(**values)));
	for (int64_t i = 1; i < wanted; i++)
		(*values)[i] = (*values)[0];
}

static int parse_channel(struct change *change, const struct usage *usage)
{
	const char *text = change->channel_text;
	char *end;
	long dim;

	if (!text)
		return OPTIONS_DONE;
	dim = strtol(text, &end, 10);
	if (end == text || *end || dim < -TARN_NDIM_MAX || dim >= TARN_NDIM_MAX)
		return usage_failed(
			usage, "--channel needs a dimension, not '%s'", text);
	if (change->n < 2)
		return usage_failed(usage,
			"--channel needs a --scale or --bias with a value for "
			"each channel");
	change->channel = (int)dim;
	return OPTIONS_DONE;
}

int change_parse(struct change *change, const struct usage *usage)
{
	int64_t n_scale, n_bias;
	int r = parse_dtype(change, usage);

	if (r == OPTIONS_DONE)
		r = parse_list(usage, "scale", change->scale_text,
			&change->scale, &n_scale);
	if (r == OPTIONS_DONE)
		r = parse_list(usage, "bias", change->bias_text, &change->bias,
			&n_bias);
	if (r != OPTIONS_DONE)
		return r;
	if (n_scale > 1 && n_bias > 1 && n_scale != n_bias)
		return usage_failed(usage,
			"--scale has %lld values and --bias has %lld",
			(long long)n_scale, (long long)n_bias);
	change->n = n_scale > n_bias ? n_scale : n_bias;
	spread(&change->scale, n_scale, change->n);
	spread(&change->bias, n_bias, change->n);
	return parse_channel(change, usage);
}

/* ---- a tensor ------------------------------------------------------ */

static bool is_floating(int dtype)
{
	switch (dtype) {
	case TARN_BOOL:
	case TARN_U8:
	case TARN_I8:
	case TARN_U16:
	case TARN_I16:
	case TARN_U32:
	case TARN_I32:
	case TARN_U64:
	case TARN_I64:
	case TARN_C64:
		return false;
	default:
		return true;
	}
}

bool change_concerns(const struct change *change, int dtype, bool alone)
{
	if (change->n)
		return true;
	return change->dtype && change->dtype != dtype &&
	       (alone || is_floating(dtype));
}

static int no_channel(const struct tarn_save_item *item, int64_t n, int seen)
{
	print_failure(
		"tensor '%s': %s dimension has %lld elements, one for each "
		"value of --scale or --bias",
		item->name, seen ? "more than one" : "no", (long long)n);
	if (seen)
		print_hint("choose the dimension with --channel");
	return EXIT_FAILED;
}

static int find_channel(const struct change *change,
	const struct tarn_save_item *item, int *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(item->tensor);
	int seen = 0;

	if (change->channel_text) {
		*ret = change->channel;
		return EXIT_DONE;
	}
	for (int i = 0; i < l->ndim; i++)
		if (l->shape[i] == change->n) {
			*ret = i;
			seen++;
		}
	return seen == 1 ? EXIT_DONE : no_channel(item, change->n, seen);
}

int change_apply(const struct change *change, struct tarn_save_item *item,
	struct tarn_copy_options *convert)
{
	*convert = (struct tarn_copy_options) {
		.rounding =
			change->round ? TARN_ROUND_EVEN : TARN_ROUND_TRUNCATE,
		.scale = change->scale,
		.bias = change->bias,
		.channels = change->n,
	};
	item->dtype = change->dtype;
	item->convert = convert;
	return change->n > 1 ? find_channel(change, item, &convert->channel_dim)
			     : EXIT_DONE;
}
