// SPDX-License-Identifier: MIT
/*
 * Indexing in view expressions: [0:4, ::2, -1, ..., None].
 *
 * The whole list is read first; then the result is built from left to right,
 * one dimension for each item. So messages use the caller's numbers of
 * dimensions, and new dimensions may come before others are removed.
 */
#include "lib/layout/expr.h"
#include "lib/layout/layout.h"
#include "lib/layout/view_index.h"

struct item {
	char kind;     /* 'i' integer, ':' slice, '.' ellipsis, 'n' None */
	int64_t start; /* or the integer */
	int64_t stop;
	int64_t step;
};

/* The maximum: every dimension indexed, as many new ones, and an ellipsis. */
#define ITEMS_MAX (2 * TARN_NDIM_MAX + 1)

static int parse_slice(struct expr *e, struct item *item)
{
	const char *at;
	bool clamped;

	item->kind = ':';
	item->stop = TARN_NONE;
	item->step = 1;
	expr_take_number(e, &item->stop, &clamped);
	if (!expr_take(e, ":"))
		return 0;
	expr_skip_blanks(e);
	at = e->at;
	expr_take_number(e, &item->step, &clamped);
	if (item->step == 0)
		return expr_fail(e, at, "the step of a slice cannot be 0");
	return 0;
}

static int parse_item(struct expr *e, struct item *item)
{
	const char *at;
	bool clamped;

	*item = (struct item) {.start = TARN_NONE};
	expr_skip_blanks(e);
	at = e->at;
	if (expr_take(e, "...")) {
		item->kind = '.';
		return 0;
	}
	if (expr_take(e, "None")) {
		item->kind = 'n';
		return 0;
	}
	if (expr_take_number(e, &item->start, &clamped)) {
		if (expr_take(e, ":"))
			return parse_slice(e, item);
		item->kind = 'i';
		e->at = at;
		return expr_want_number(e, &item->start);
	}
	if (expr_take(e, ":"))
		return parse_slice(e, item);
	return expr_fail(e, at, "expected a number, a slice, ... or None");
}

static int parse_items(struct expr *e, struct item *items, int *ret_n)
{
	bool dots = false;
	int n = 0;
	int r;

	do {
		const char *at;

		expr_skip_blanks(e);
		at = e->at;
		if (n && *at == ']')
			break; /* a last comma */
		if (n == ITEMS_MAX)
			return expr_fail(e, at, "there are too many indices");
		r = parse_item(e, &items[n]);
		if (r < 0)
			return r;
		if (items[n].kind == '.' && dots)
			return expr_fail(
				e, at, "only one ... can be in an index");
		dots |= items[n].kind == '.';
		n++;
	} while (expr_take(e, ","));
	if (!expr_take(e, "]"))
		return expr_fail(e, e->at, "expected ',' or ']'");
	*ret_n = n;
	return 0;
}

static int index_add_dim(struct tarn_layout *out, int64_t n, int64_t stride)
{
	if (out->ndim == TARN_NDIM_MAX)
		return layout_check_ndim("index", TARN_NDIM_MAX + 1);
	layout_insert_dim(out, out->ndim, n, stride);
	return 0;
}

/* One dimension of in, sliced, becomes the next one of out. */
static int index_slice(const struct tarn_layout *in, int d,
	const struct item *item, struct tarn_layout *out)
{
	int64_t first, count;
	int r;

	r = index_add_dim(out, in->shape[d], in->stride[d]);
	if (r < 0)
		return r;
	count = slice_count(
		in->shape[d], item->start, item->stop, item->step, &first);
	layout_take(out, out->ndim - 1, first, count, item->step);
	return 0;
}

static int index_item(const struct tarn_layout *in, const struct item *item,
	int n_dots, int *d, struct tarn_layout *out)
{
	int64_t i = 0;
	int r = 0;

	switch (item->kind) {
	case 'i':
		r = layout_wrap_index("index", in, *d, item->start, &i);
		if (r == 0)
			out->offset += i * in->stride[(*d)++];
		return r;
	case 'n':
		/* The stride is that of PyTorch's unsqueeze. */
		return index_add_dim(out, 1,
			*d == in->ndim
				? 1
				: stride_times(in->shape[*d], in->stride[*d]));
	case ':':
		return index_slice(in, (*d)++, item, out);
	default:
		for (int k = 0; r == 0 && k < n_dots; k++, (*d)++)
			r = index_add_dim(out, in->shape[*d], in->stride[*d]);
		return r;
	}
}

int expr_index(struct expr *e)
{
	struct tarn_layout out = {
		.dtype = e->layout.dtype,
		.offset = e->layout.offset,
	};
	static const struct item rest = {.kind = '.'};
	struct item items[ITEMS_MAX];
	int n = 0, n_taken = 0, d = 0;
	int r;

	r = parse_items(e, items, &n);
	if (r < 0)
		return r;
	for (int i = 0; i < n; i++)
		n_taken += items[i].kind == 'i' || items[i].kind == ':';
	if (n_taken > e->layout.ndim)
		return tarn_fail(EINVAL,
			"index: %d indices are more than the %d dimensions of "
			"shape %s",
			n_taken, e->layout.ndim, LAYOUT_TEXT(&e->layout));
	for (int i = 0; r == 0 && i < n; i++)
		r = index_item(&e->layout, &items[i], e->layout.ndim - n_taken,
			&d, &out);
	if (r == 0)
		r = index_item(&e->layout, &rest, e->layout.ndim - d, &d, &out);
	return r < 0 ? r : view_checked("index", &out, &e->layout);
}
