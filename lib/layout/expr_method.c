// SPDX-License-Identifier: MIT
/*
 * Methods in view expressions: such as .permute(2,0,1). They are rows of a
 * table: the name, how many numbers, and the operation. Only the two with words
 * as arguments (bitcast, rearrange) read their arguments themselves.
 */
#include "lib/layout/expr.h"
#include "lib/layout/layout.h"
#include "lib/layout/reshape.h"

#include <stdio.h>

#define ARGS_MAX (TARN_NDIM_MAX + 1) /* split: a dim and 12 sizes */
#define PATTERN_MAX_SIZE 512

struct args {
	int n;
	int64_t v[ARGS_MAX];
};

typedef int method(struct expr *e, const struct args *a);

/* A dimension as int; a number far outside stays outside. */
static int arg_dim(const struct args *a, int i, int otherwise)
{
	if (i >= a->n)
		return otherwise;
	return (int)MAX(MIN(a->v[i], INT32_MAX), -INT32_MAX);
}

static int do_permute(struct expr *e, const struct args *a)
{
	int dims[ARGS_MAX];

	for (int i = 0; i < a->n; i++)
		dims[i] = arg_dim(a, i, 0);
	return tarn_layout_permute(&e->layout, a->n, dims, &e->layout);
}

static int do_transpose(struct expr *e, const struct args *a)
{
	return tarn_layout_transpose(
		&e->layout, arg_dim(a, 0, 0), arg_dim(a, 1, 0), &e->layout);
}

static int do_reshape(struct expr *e, const struct args *a)
{
	return tarn_layout_reshape(&e->layout, a->n, a->v, &e->layout);
}

static int do_view(struct expr *e, const struct args *a)
{
	return tarn_layout_view(&e->layout, a->n, a->v, &e->layout);
}

static int do_flatten(struct expr *e, const struct args *a)
{
	return tarn_layout_flatten(
		&e->layout, arg_dim(a, 0, 0), arg_dim(a, 1, -1), &e->layout);
}

static int do_unsqueeze(struct expr *e, const struct args *a)
{
	return tarn_layout_unsqueeze(&e->layout, arg_dim(a, 0, 0), &e->layout);
}

static int do_squeeze(struct expr *e, const struct args *a)
{
	if (a->n == 0)
		return tarn_layout_squeeze(&e->layout, &e->layout);
	return tarn_layout_squeeze_dim(
		&e->layout, arg_dim(a, 0, 0), &e->layout);
}

static int do_expand(struct expr *e, const struct args *a)
{
	return tarn_layout_expand(&e->layout, a->n, a->v, &e->layout);
}

static int do_flip(struct expr *e, const struct args *a)
{
	unsigned int seen = 0;

	for (int i = 0; i < a->n; i++) {
		int dim = arg_dim(a, i, 0);
		int r;

		r = tarn_layout_flip(&e->layout, dim, &e->layout);
		if (r < 0)
			return r;
		dim = dim < 0 ? dim + MAX(e->layout.ndim, 1) : dim;
		if (seen & (1u << dim))
			return tarn_fail(EINVAL,
				"flip: dimension %d is named twice", dim);
		seen |= 1u << dim;
	}
	return 0;
}

static int do_merge(struct expr *e, const struct args *a)
{
	return tarn_layout_merge(
		&e->layout, arg_dim(a, 0, 0), arg_dim(a, 1, 0), &e->layout);
}

static int do_split(struct expr *e, const struct args *a)
{
	return tarn_layout_split(
		&e->layout, arg_dim(a, 0, 0), a->n - 1, a->v + 1, &e->layout);
}

static int do_narrow(struct expr *e, const struct args *a)
{
	return tarn_layout_narrow(
		&e->layout, arg_dim(a, 0, 0), a->v[1], a->v[2], &e->layout);
}

static int do_select(struct expr *e, const struct args *a)
{
	return tarn_layout_select(
		&e->layout, arg_dim(a, 0, 0), a->v[1], &e->layout);
}

static int do_skip(struct expr *e, const struct args *a)
{
	return tarn_layout_skip(
		&e->layout, arg_dim(a, 0, 0), a->v[1], &e->layout);
}

static int do_diagonal(struct expr *e, const struct args *a)
{
	return tarn_layout_diagonal(&e->layout, a->n ? a->v[0] : 0,
		arg_dim(a, 1, 0), arg_dim(a, 2, 1), &e->layout);
}

static int do_unfold(struct expr *e, const struct args *a)
{
	return tarn_layout_unfold(
		&e->layout, arg_dim(a, 0, 0), a->v[1], a->v[2], &e->layout);
}

static int do_contiguous(struct expr *e, const struct args *a)
{
	struct tarn_layout *l = &e->layout;
	int r;

	if (tarn_layout_is_contiguous(l))
		return 0;
	r = tarn_layout_contiguous(l->dtype, l->ndim, l->shape, l);
	return r < 0 ? r : 1;
}

static const struct {
	const char *name;
	int min;
	int max;
	method *call;
} methods[] = {
	{"contiguous", 0, 0, do_contiguous},
	{"diagonal", 0, 3, do_diagonal},
	{"expand", 0, ARGS_MAX, do_expand},
	{"flatten", 0, 2, do_flatten},
	{"flip", 1, TARN_NDIM_MAX, do_flip},
	{"merge", 2, 2, do_merge},
	{"narrow", 3, 3, do_narrow},
	{"permute", 0, ARGS_MAX, do_permute},
	{"reshape", 0, ARGS_MAX, do_reshape},
	{"select", 2, 2, do_select},
	{"skip", 2, 2, do_skip},
	{"split", 2, ARGS_MAX, do_split},
	{"squeeze", 0, 1, do_squeeze},
	{"transpose", 2, 2, do_transpose},
	{"unfold", 3, 3, do_unfold},
	{"unsqueeze", 1, 1, do_unsqueeze},
	{"view", 0, ARGS_MAX, do_view},
};

/* "2, 0, 1)", or the same as one tuple or list: "(2, 0, 1))". */
static int parse_args(struct expr *e, struct args *args)
{
	bool tuple = expr_take(e, "(");
	bool list = !tuple && expr_take(e, "[");
	const char *close = list ? "]" : ")";
	int r;

	args->n = 0;
	while (!expr_take(e, close)) {
		if (args->n == ARGS_MAX)
			return expr_fail(
				e, e->at, "there are too many numbers");
		r = expr_want_number(e, &args->v[args->n]);
		if (r < 0)
			return r;
		args->n++;
		expr_skip_blanks(e);
		if (!expr_take(e, ",") && *e->at != *close)
			return expr_fail(e, e->at,
				list ? "expected ',' or ']'"
				     : "expected ',' or ')'");
	}
	return tuple || list ? expr_want(e, ')') : 0;
}

static int apply_bitcast(struct expr *e)
{
	char name[EXPR_NAME_MAX];
	enum tarn_dtype dtype = TARN_DTYPE_NONE;
	const char *at;
	int r;

	expr_skip_blanks(e);
	at = e->at;
	if (*at == '"' || *at == '\'') {
		r = expr_want_string(e, name, sizeof(name));
		if (r < 0)
			return r;
	} else {
		expr_take_name(e, name);
	}
	if (!*name)
		return expr_fail(e, at, "expected the name of a dtype");
	r = expr_want(e, ')');
	if (r == 0)
		r = tarn_dtype_from_name(name, &dtype);
	return r < 0 ? r : tarn_layout_bitcast(&e->layout, dtype, &e->layout);
}

static int apply_rearrange(struct expr *e)
{
	char names[TARN_NDIM_MAX][EXPR_NAME_MAX];
	struct tarn_axis axes[TARN_NDIM_MAX];
	char pattern[PATTERN_MAX_SIZE];
	size_t n = 0;
	int r;

	r = expr_want_string(e, pattern, sizeof(pattern));
	if (r < 0)
		return r;
	while (expr_take(e, ",")) {
		expr_skip_blanks(e);
		if (n == TARN_NDIM_MAX)
			return expr_fail(e, e->at, "there are too many sizes");
		expr_take_name(e, names[n]);
		if (!*names[n])
			return expr_fail(e, e->at,
				"expected a name and its size, like h=2");
		r = expr_want(e, '=');
		if (r == 0)
			r = expr_want_number(e, &axes[n].size);
		if (r < 0)
			return r;
		axes[n].name = names[n];
		n++;
	}
	r = expr_want(e, ')');
	if (r < 0)
		return r;
	return rearrange_as(
		&e->layout, pattern, axes, n, &e->source, &e->layout);
}

static int fail_count(const struct expr *e, const char *at, const char *name,
	int min, int max, int given)
{
	char wanted[32];

	if (max == 0)
		snprintf(wanted, sizeof(wanted), "no number");
	else if (min == max)
		snprintf(wanted, sizeof(wanted), "%d number%s", min,
			min == 1 ? "" : "s");
	else
		snprintf(wanted, sizeof(wanted), "%d to %d numbers", min, max);
	return tarn_fail(EINVAL,
		"expression \"%.400s\": column %d: %s takes %s, and %d %s "
		"given",
		e->text, (int)(at - e->text) + 1, name, wanted, given,
		given == 1 ? "is" : "are");
}

static int fail_name(const struct expr *e, const char *at, const char *name)
{
	char known[320] = "T, bitcast, rearrange";

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		size_t used = strlen(known);

		snprintf(known + used, sizeof(known) - used, ", %s",
			methods[i].name);
	}
	return tarn_fail(EINVAL,
		"expression \"%.400s\": column %d: there is no view called "
		"\"%s\"; there are %s",
		e->text, (int)(at - e->text) + 1, name, known);
}

static int apply_numbers(struct expr *e, const char *at, const char *name)
{
	struct args args;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(methods[i].name, name) != 0)
			continue;
		r = parse_args(e, &args);
		if (r < 0)
			return r;
		if (args.n >= methods[i].min && args.n <= methods[i].max)
			return methods[i].call(e, &args);
		return fail_count(
			e, at, name, methods[i].min, methods[i].max, args.n);
	}
	return fail_name(e, at, name);
}

static int reverse_dims(struct expr *e)
{
	int n = e->layout.ndim, dims[TARN_NDIM_MAX];

	for (int i = 0; i < n; i++)
		dims[i] = n - 1 - i;
	return tarn_layout_permute(&e->layout, n, dims, &e->layout);
}

int expr_method(struct expr *e)
{
	char name[EXPR_NAME_MAX];
	const char *at;
	int r;

	expr_skip_blanks(e);
	at = e->at;
	expr_take_name(e, name);
	if (!*name)
		return expr_fail(e, at, "expected the name of a view");
	/* As in numpy and PyTorch: an attribute, not a method. */
	if (strcmp(name, "T") == 0)
		return reverse_dims(e);
	r = expr_want(e, '(');
	if (r < 0)
		return r;
	if (strcmp(name, "rearrange") == 0)
		return apply_rearrange(e);
	if (strcmp(name, "bitcast") == 0)
		return apply_bitcast(e);
	return apply_numbers(e, at, name);
}
