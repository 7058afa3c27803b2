// SPDX-License-Identifier: MIT
/*
 * How a view walks through its storage, drawn.
 *
 * Strides are understood by looking from both sides. First the view: every
 * cell shows the storage element that it reads, so that the differences along
 * a row and down a column are the strides themselves. Then the storage: every
 * cell shows when the view comes by, so that gaps, jumps and reversals are
 * seen where they are.
 */
#include "cli/draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#define COLUMNS 80
#define ROWS_MAX 16           /* of a plane; picked, like the others here */
#define LINES_MAX 40          /* for all planes: about a screen */
#define STORAGE_LINES_MAX 24  /* more only where a line is full */
#define STORAGE_CELLS_MAX 512 /* between the first and the last visited */

static int digits(int64_t n)
{
	char buf[32];

	return snprintf(buf, sizeof(buf), "%" PRId64, n);
}

/* ---- the view ------------------------------------------------------ */

/* Of n things at most as many are shown: the first and the last ones, with a
 * mark for those between, which takes the room of one. */
struct cut {
	int64_t n;
	int64_t head; /* so many, then the mark; n: all */
	int64_t tail; /* go on from here */
};

static struct cut cut_to(int64_t n, int64_t room)
{
	struct cut c = {n, n, n};

	if (n > room) {
		c.head = room / 2;
		c.tail = n - (room - 1 - c.head);
	}
	return c;
}

static int64_t cut_shown(const struct cut *c)
{
	return c->head + (c->head < c->n) + (c->n - c->tail);
}

/* The index after i; sets *ret_mark if the middle is left out before it. */
static int64_t cut_next(const struct cut *c, int64_t i, bool *ret_mark)
{
	*ret_mark = i + 1 == c->head && c->head < c->n;
	return *ret_mark ? c->tail : i + 1;
}

struct grid {
	const struct tarn_layout *view;
	struct cut rows, columns, planes;
	int outer; /* dimensions of the planes */
	int width;
};

static const char *dots(void)
{
	return draw_utf8() ? "…" : "~";
}

static int64_t stride_of(const struct tarn_layout *view, int from_end)
{
	return view->ndim < from_end ? 0 : view->stride[view->ndim - from_end];
}

static int64_t extent_of(const struct tarn_layout *view, int from_end)
{
	return view->ndim < from_end ? 1 : view->shape[view->ndim - from_end];
}

static struct grid plan_grid(const struct tarn_layout *view, int width)
{
	struct grid g = {.view = view, .width = width};
	int note = MAX(digits(stride_of(view, 1)), digits(stride_of(view, 2)));
	int64_t room = (COLUMNS - 2 - 6 - note) / (width + 1);
	int64_t planes = 1;

	g.outer = MAX(view->ndim - 2, 0);
	for (int d = 0; d < g.outer; d++)
		planes *= view->shape[d];
	g.rows = cut_to(extent_of(view, 2), ROWS_MAX);
	g.columns = cut_to(extent_of(view, 1), MAX(room, 3));
	g.planes = cut_to(planes, MAX(LINES_MAX / (cut_shown(&g.rows) + 1), 3));
	return g;
}

static void draw_row(const struct grid *g, int64_t element)
{
	int64_t stride = stride_of(g->view, 1);
	bool mark = false;

	printf("  ");
	for (int64_t j = 0; j < g->columns.n;
		j = cut_next(&g->columns, j, &mark)) {
		if (mark)
			printf(" %*s%s", g->width - 1, "", dots());
		printf(" %*" PRId64, g->width, element + (j ? j * stride : 0));
	}
}

/* The last two dimensions from element on. */
static void draw_plane(const struct grid *g, int64_t element)
{
	int64_t stride = stride_of(g->view, 2);
	bool mark = false;

	for (int64_t i = 0; i < g->rows.n; i = cut_next(&g->rows, i, &mark)) {
		if (mark)
			printf("   %*s%s\n", g->width - 1, "", dots());
		draw_row(g, element + (i ? i * stride : 0));
		if (i == 0 && g->columns.n > 1)
			printf("   %s %+" PRId64, draw_utf8() ? "→" : "right",
				stride_of(g->view, 1));
		if (i == 1)
			printf("   %s %+" PRId64, draw_utf8() ? "↓" : "down",
				stride);
		putchar('\n');
	}
}

static void draw_view(const struct tarn_layout *view, int width)
{
	struct grid g = plan_grid(view, width);
	bool mark = false;

	printf("\nThe view; each cell is the storage element that it reads:\n");
	for (int64_t k = 0; k < g.planes.n; k = cut_next(&g.planes, k, &mark)) {
		int64_t index[TARN_NDIM_MAX] = {0}, element;

		if (mark)
			printf("  %s\n", dots());
		if (tarn_layout_unravel_index(
			    g.outer, view->shape, k, TARN_ORDER_C, index) < 0)
			continue;
		if (g.outer) {
			printf("  [");
			for (int d = 0; d < g.outer; d++)
				printf("%" PRId64 ", ", index[d]);
			printf(":, :]\n");
		}
		if (tarn_layout_element(view, index, &element) == 0)
			draw_plane(&g, element);
	}
}

/* ---- the storage --------------------------------------------------- */

/* Of the elements that are reached: when each is visited first, and how
 * often. */
struct visits {
	int64_t begin; /* of the storage */
	int64_t end;
	int64_t first[STORAGE_CELLS_MAX];
	int times[STORAGE_CELLS_MAX];
	bool repeated;
};

static void count_visits(const struct tarn_layout *view, struct visits *v)
{
	int64_t numel = tarn_layout_numel(view);

	for (int64_t i = 0; i < numel; i++) {
		int64_t index[TARN_NDIM_MAX], e;

		if (tarn_layout_unravel_index(view->ndim, view->shape, i,
			    TARN_ORDER_C, index) < 0 ||
			tarn_layout_element(view, index, &e) < 0)
			continue;
		e -= v->begin;
		if (v->times[e]++ == 0)
			v->first[e] = i;
		else
			v->repeated = true;
	}
}

/* How many elements make a line: a row of the shape if it fits, and several
 * where it is short. */
static int64_t line_length(const struct visits *v, int64_t row, int64_t fit)
{
	int64_t reached = v->end - v->begin;

	if (row < 1 || row > fit)
		return MIN(fit, 16);
	while (row * 2 <= fit && (row < 4 || reached / row > STORAGE_LINES_MAX))
		row *= 2;
	return row;
}

static void draw_cell(const struct visits *v, int64_t e, int width)
{
	bool inside = e >= v->begin && e < v->end;
	int times = inside ? v->times[e - v->begin] : 0;

	if (times == 0)
		printf(" %*s%s", width - 1, "", draw_utf8() ? "·" : ".");
	else
		printf(" %*" PRId64 "%s", width - v->repeated,
			v->first[e - v->begin],
			times > 1     ? "+"
			: v->repeated ? " "
				      : "");
}

static void draw_storage(const struct tarn_layout *view, struct visits *v,
	int64_t size, int64_t row)
{
	int width = digits(tarn_layout_numel(view) - 1);
	int label = digits(size);
	int64_t from, end;

	count_visits(view, v);
	width += v->repeated;
	row = line_length(v, row, (COLUMNS - label - 6) / (width + 1));
	from = v->begin - v->begin % row;
	if (from <= 2 * row) /* a line or two are sooner shown than left out */
		from = 0;
	end = size - v->end <= 3 * row ? size : v->end;
	printf("\nThe storage; each cell is the turn at which the view comes "
	       "by%s:\n",
		v->repeated ? " first (+: and again)" : "");
	if (from > 0)
		printf("  %*s\n", label + (int)strlen(dots()) - 1, dots());
	for (int64_t at = from; at < end; at += row) {
		printf("  %*" PRId64 ":", label, at);
		for (int64_t e = at; e < at + row && e < size; e++)
			draw_cell(v, e, width);
		putchar('\n');
		if (at + row >= end && at + row < size)
			printf("  %*s\n", label + (int)strlen(dots()) - 1,
				dots());
	}
}

void draw_walk(
	const struct tarn_layout *view, int64_t size, int64_t row, bool copied)
{
	int64_t numel = tarn_layout_numel(view);
	struct visits v = {0};
	int64_t count;

	tarn_layout_bounds(view, &v.begin, &count);
	v.end = v.begin + count;
	if (numel == 0)
		return;
	if (v.begin < 0 || v.end > size) {
		printf("\nIt reaches outside of the storage.\n");
		return;
	}
	if (copied)
		printf("\nFrom here on the storage is that of the copy.\n");
	draw_view(view, digits(v.end - 1));
	if (numel > 8 * STORAGE_CELLS_MAX || count > STORAGE_CELLS_MAX)
		printf("\n(Too large to draw the storage.)\n");
	else
		draw_storage(view, &v, size, row);
}
