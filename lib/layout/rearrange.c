// SPDX-License-Identifier: MIT
/*
 * rearrange, as in einops: "b (h w) c -> b c h w", h=2.
 *
 * Each side of the pattern is a row of groups, each group a row of axes. The
 * left side splits the dimensions into axes, the right side determines the
 * order of the axes and which of them are merged again; both are view
 * operations, and only the last merge can need a copy.
 *
 * Source of the rules: einops (arogozhnikov/einops), the rearrange pattern.
 */
#include "lib/layout/layout.h"
#include "lib/layout/reshape.h"
#include "lib/reserved.h"

#include <ctype.h>

#define AXES_MAX TARN_NDIM_MAX
#define TERMS_MAX (2 * AXES_MAX) /* as many again may be 1 */

/* One name in the pattern; the ellipsis is a name of several dimensions. */
struct term {
	const char *name; /* into the pattern */
	int size;         /* of the name; 0 for the axis "1" */
	int group;
};

struct side {
	struct term terms[TERMS_MAX];
	int n_terms;
	int n_groups;
	bool bare[AXES_MAX]; /* the group is a name without parentheses */
};

/* The axes that the left side makes, in its order. */
struct axes {
	int n;
	const struct term *term[AXES_MAX];
	int64_t shape[AXES_MAX];
};

static int fail_at(const char *pattern, const char *at, const char *what)
{
	return tarn_fail(EINVAL, "rearrange: \"%.200s\": column %d: %s",
		pattern, (int)(at - pattern) + 1, what);
}

static bool term_is(const struct term *t, const struct term *u)
{
	return t->size == u->size && memcmp(t->name, u->name, t->size) == 0;
}

static bool term_is_dots(const struct term *t)
{
	return t->size == 3 && memcmp(t->name, "...", 3) == 0;
}

/* The length of the name at p; -1 for none. "1" has no name: 0. */
static int name_size(const char *p)
{
	int n = 0;

	if (strncmp(p, "...", 3) == 0)
		return 3;
	if (*p == '1' && !isalnum((unsigned char)p[1]) && p[1] != '_')
		return 0;
	if (!isalpha((unsigned char)*p) && *p != '_')
		return -1;
	while (isalnum((unsigned char)p[n]) || p[n] == '_')
		n++;
	return n;
}

static int side_add(
	const char *pattern, const char *at, int size, struct side *s)
{
	struct term t = {.name = at, .size = size, .group = s->n_groups};

	if (s->n_terms == TERMS_MAX)
		return fail_at(pattern, at,
			"there are more than 24 names and ones on this "
			"side");
	for (int i = 0; size && i < s->n_terms; i++)
		if (term_is(&s->terms[i], &t))
			return fail_at(pattern, at,
				"this name is on this side already");
	s->terms[s->n_terms++] = t;
	return 0;
}

static int parse_side(
	const char *pattern, const char *p, const char *end, struct side *s)
{
	const char *open = NULL;
	int size, r;

	memset(s, 0, sizeof(*s));
	for (;; p += size) {
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		size = 1;
		if (p >= end)
			break;
		if (s->n_groups == AXES_MAX && *p != ')')
			return fail_at(pattern, p,
				"there are more than 12 dimensions on this "
				"side");
		if (*p == '(' && !open) {
			open = p;
			continue;
		}
		if (*p == ')' && open) {
			open = NULL;
			s->n_groups++;
			continue;
		}
		size = name_size(p);
		if (size < 0)
			return fail_at(pattern, p,
				"a name, 1, ... or a group in parentheses "
				"should be here");
		r = side_add(pattern, p, size, s);
		if (r < 0)
			return r;
		if (!open)
			s->bare[s->n_groups++] = true;
		if (size == 0)
			size = 1; /* the "1" itself */
	}
	if (open)
		return fail_at(pattern, open, "this parenthesis is not closed");
	return 0;
}

static int parse_pattern(
	const char *pattern, struct side *left, struct side *right)
{
	const char *arrow = strstr(pattern, "->");
	int r;

	if (!arrow)
		return tarn_fail(
			EINVAL, "rearrange: \"%.200s\" has no \"->\"", pattern);
	r = parse_side(pattern, pattern, arrow, left);
	if (r == 0)
		r = parse_side(
			pattern, arrow + 2, pattern + strlen(pattern), right);
	return r;
}

/* The size that the caller gave to a name, or -1. */
static int64_t given_size(
	const struct term *t, const struct tarn_axis *axes, size_t n)
{
	if (t->size == 0)
		return 1;
	for (size_t i = 0; i < n; i++)
		if (strlen(axes[i].name) == (size_t)t->size &&
			memcmp(axes[i].name, t->name, t->size) == 0)
			return axes[i].size;
	return -1;
}

/* Names on one side only, and sizes for names that are on neither. */
static int check_names(const char *pattern, const struct side *left,
	const struct side *right, const struct tarn_axis *axes, size_t n)
{
	const struct side *sides[] = {left, right};

	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < sides[k]->n_terms; i++) {
			const struct term *t = &sides[k]->terms[i];
			const struct side *other = sides[!k];
			bool found = t->size == 0;

			for (int j = 0; j < other->n_terms; j++)
				found |= term_is(t, &other->terms[j]);
			if (!found)
				return fail_at(pattern, t->name,
					"this name is on one side only");
		}
	}
	for (size_t i = 0; i < n; i++) {
		struct term t = {axes[i].name, strlen(axes[i].name), 0};
		bool found = false;

		if (axes[i].size < 0)
			return tarn_fail(EINVAL,
				"rearrange: size %lld of \"%.64s\" is negative",
				(long long)axes[i].size, axes[i].name);
		for (size_t j = 0; j < i; j++)
			if (strcmp(axes[i].name, axes[j].name) == 0)
				return tarn_fail(EINVAL,
					"rearrange: \"%.64s\" has two sizes, "
					"%lld and %lld",
					axes[i].name, (long long)axes[j].size,
					(long long)axes[i].size);
		for (int j = 0; j < left->n_terms; j++)
			found |= t.size && term_is(&left->terms[j], &t);
		if (!found)
			return tarn_fail(EINVAL,
				"rearrange: \"%.64s\" has a size, and is not "
				"in \"%.200s\"",
				axes[i].name, pattern);
	}
	return 0;
}

static int axes_add(const struct term *t, int64_t size, struct axes *axes)
{
	if (axes->n == AXES_MAX)
		return tarn_fail(EINVAL,
			"rearrange: there are more than %d axes", AXES_MAX);
	axes->term[axes->n] = t;
	axes->shape[axes->n++] = size;
	return 0;
}

/* One group of the left side takes dimension d apart. */
static int split_group(const char *pattern, const struct side *left, int group,
	const struct tarn_layout *layout, int d, const struct tarn_axis *given,
	size_t n_given, struct axes *axes)
{
	int64_t sizes[TERMS_MAX], filled[AXES_MAX];
	const struct term *terms[TERMS_MAX];
	int n = 0;
	int r;

	for (int i = 0; i < left->n_terms; i++) {
		if (left->terms[i].group != group)
			continue;
		if (term_is_dots(&left->terms[i]))
			return fail_at(pattern, left->terms[i].name,
				"... cannot be inside of a group on the left");
		terms[n] = &left->terms[i];
		sizes[n++] = given_size(&left->terms[i], given, n_given);
	}
	r = dim_infer("rearrange", layout, d, n, sizes, filled);
	if (r < 0)
		return r;
	for (int i = 0; i < n; i++) {
		r = axes_add(terms[i], filled[i], axes);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Applies the left side to the shape. */
static int split_dims(const char *pattern, const struct side *left,
	const struct tarn_layout *layout, const struct tarn_axis *given,
	size_t n_given, struct axes *axes)
{
	const struct term *dots = NULL;
	int n_dots = 0;
	int d = 0;
	int r;

	for (int i = 0; i < left->n_terms; i++)
		if (term_is_dots(&left->terms[i]) &&
			left->bare[left->terms[i].group])
			dots = &left->terms[i];
	if (dots)
		n_dots = layout->ndim - (left->n_groups - 1);
	if (dots ? n_dots < 0 : left->n_groups != layout->ndim)
		return tarn_fail(EINVAL,
			"rearrange: \"%.200s\" begins with %d dimensions, and "
			"shape %s has %d",
			pattern, left->n_groups - (dots != NULL),
			LAYOUT_TEXT(layout), layout->ndim);
	for (int g = 0; g < left->n_groups; g++) {
		if (dots && dots->group == g) {
			for (int i = 0; i < n_dots; i++) {
				r = axes_add(dots, layout->shape[d++], axes);
				if (r < 0)
					return r;
			}
			continue;
		}
		r = split_group(
			pattern, left, g, layout, d++, given, n_given, axes);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The right side: the order of the axes, and the shape after merging. */
struct result {
	int n;
	int order[AXES_MAX];
	int ndim;
	int64_t shape[TARN_NDIM_MAX];
};

static int result_add_dim(struct result *res, int64_t size)
{
	if (res->ndim == TARN_NDIM_MAX)
		return layout_check_ndim("rearrange", TARN_NDIM_MAX + 1);
	res->shape[res->ndim++] = size;
	return 0;
}

/* The axes of one name: each a dimension if it stands bare, else a factor. */
static int result_add_term(struct result *res, const struct axes *axes,
	const struct term *t, bool bare, int64_t *size)
{
	int r = 0;

	if (t->size == 0)
		return bare ? result_add_dim(res, 1) : 0;
	for (int a = 0; r == 0 && a < axes->n; a++) {
		if (!term_is(t, axes->term[a]))
			continue;
		res->order[res->n++] = a;
		if (bare)
			r = result_add_dim(res, axes->shape[a]);
		else
			*size = stride_times(*size, axes->shape[a]);
	}
	return r;
}

static int merge_axes(
	const struct side *right, const struct axes *axes, struct result *res)
{
	int r = 0;

	for (int g = 0; r == 0 && g < right->n_groups; g++) {
		int64_t size = 1;

		for (int i = 0; r == 0 && i < right->n_terms; i++)
			if (right->terms[i].group == g)
				r = result_add_term(res, axes, &right->terms[i],
					right->bare[g], &size);
		if (r == 0 && !right->bare[g])
			r = result_add_dim(res, size);
	}
	/* The axes called 1 on the left; at the end they make no difference. */
	for (int a = 0; a < axes->n; a++)
		if (axes->term[a]->size == 0)
			res->order[res->n++] = a;
	return r;
}

int rearrange_as(const struct tarn_layout *layout, const char *pattern,
	const struct tarn_axis *axes, size_t n, struct tarn_layout *ret_source,
	struct tarn_layout *ret)
{
	struct tarn_layout named = *layout;
	struct side left, right;
	struct axes all = {.n = 0};
	struct result res = {.n = 0};
	int r;

	r = parse_pattern(pattern, &left, &right);
	if (r == 0)
		r = check_names(pattern, &left, &right, axes, n);
	if (r == 0)
		r = split_dims(pattern, &left, layout, axes, n, &all);
	if (r == 0)
		r = view_as("rearrange", layout, all.n, all.shape, &named);
	if (r == 0)
		r = merge_axes(&right, &all, &res);
	if (r == 0)
		r = tarn_layout_permute(&named, res.n, res.order, &named);
	if (r < 0)
		return r;
	r = reshape_as("rearrange", &named, res.ndim, res.shape, ret);
	if (r > 0)
		*ret_source = named;
	return r;
}

int tarn_layout_rearrange(const struct tarn_layout *layout, const char *pattern,
	const struct tarn_axis *axes, size_t n, struct tarn_layout *ret)
{
	struct tarn_layout source;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = RESERVED_CHECK("tarn_axis", &axes[i]);
	return r < 0 ? r : rearrange_as(layout, pattern, axes, n, &source, ret);
}
