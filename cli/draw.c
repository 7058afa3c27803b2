// SPDX-License-Identifier: MIT
/*
 * Layouts drawn for a person.
 *
 * Strides are understood by looking from both sides. First the view: every
 * cell shows the storage element that it reads, so that the differences along
 * a row and down a column are the strides themselves. Then the storage: every
 * cell shows when the view comes by, so that gaps, jumps and reversals are
 * seen where they are.
 */
#include "cli/draw.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 80
#define VIEW_CELLS_MAX 256    /* picked: about a screen */
#define STORAGE_CELLS_MAX 512 /* the same */
#define PLANES_MAX 16
#define TEXT_MAX 640 /* a formatted layout of 12 dimensions */

static bool utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int digits(int64_t n)
{
	char buf[32];

	return snprintf(buf, sizeof(buf), "%" PRId64, n);
}

static void print_shape(int ndim, const int64_t *shape)
{
	putchar('[');
	for (int i = 0; i < ndim; i++)
		printf("%s%" PRId64, i ? ", " : "", shape[i]);
	putchar(']');
}

/* ---- the chain ----------------------------------------------------- */

static const char *const kinds[] = {
	[TARN_RESHAPE_SAME] = "the shape is the same",
	[TARN_RESHAPE_MERGES] = "only merges",
	[TARN_RESHAPE_SPLITS] = "only splits",
	[TARN_RESHAPE_SPLITS_MERGES] = "splits, then merges",
	[TARN_RESHAPE_FLAT] = "through one flat dimension",
};

/* Does a step to a shape; the explanation promises that it fits. */
static void do_step(
	const struct tarn_reshape_step *step, int64_t *shape, int *ndim)
{
	int old = step->kind == 'm' ? step->n : 1;
	int new = step->kind == 'm' ? 1 : step->n;

	memmove(shape + step->dim + new, shape + step->dim + old,
		(*ndim - step->dim - old) * sizeof(*shape));
	memcpy(shape + step->dim, step->sizes, new * sizeof(*shape));
	*ndim += new - old;
}

static void draw_explanation(
	const struct tarn_layout *before, const struct tarn_layout *after)
{
	int64_t shape[2 * TARN_MAX_NDIM];
	struct tarn_reshape_plan plan;
	int ndim = before->ndim;

	if (tarn_reshape_explain(before->ndim, before->shape, after->ndim,
		    after->shape, &plan) < 0)
		return;
	printf("      %s: ", kinds[plan.kind]);
	memcpy(shape, before->shape, sizeof(before->shape));
	print_shape(ndim, shape);
	putchar('\n');
	for (int i = 0; i < plan.n_steps; i++) {
		const struct tarn_reshape_step *step = &plan.steps[i];

		do_step(step, shape, &ndim);
		if (step->kind == 's')
			printf("        split dim %d into %d %s ", step->dim,
				step->n, utf8() ? "→" : "->");
		else if (step->n == 0)
			printf("        a scalar as one dimension %s ",
				utf8() ? "→" : "->");
		else
			printf("        merge dims %d to %d %s ", step->dim,
				step->dim + step->n - 1, utf8() ? "→" : "->");
		print_shape(ndim, shape);
		putchar('\n');
	}
}

static bool regroups(const char *link)
{
	static const char *const names[] = {
		".reshape", ".view", ".flatten", ".merge", ".split"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(link, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

void draw_link(const struct tarn_layout *before, const char *link, int copies,
	const struct tarn_layout *after)
{
	char text[TEXT_MAX];

	tarn_layout_format(after, text, sizeof(text));
	printf("  %-30s %s%s\n", link, text, copies ? "  (a copy)" : "");
	if (regroups(link))
		draw_explanation(before, after);
}

void draw_summary(const struct tarn_layout *view)
{
	int64_t first, count;

	tarn_layout_bounds(view, &first, &count);
	printf("\n%" PRId64 " elements, %" PRId64 " bytes, %s",
		tarn_layout_numel(view), tarn_layout_nbytes(view),
		tarn_layout_is_contiguous(view) ? "contiguous"
		: tarn_layout_is_fortran(view)  ? "Fortran order"
						: "not contiguous");
	if (count)
		printf("; reaches storage elements %" PRId64 " to %" PRId64,
			first, first + count - 1);
	putchar('\n');
	for (int d = 0; d < view->ndim; d++) {
		int64_t stride = view->stride[d];

		printf("  dim %d: %" PRId64 " of them, ", d, view->shape[d]);
		if (view->shape[d] < 2)
			printf("no step to make\n");
		else if (stride == 0)
			printf("stride 0: the same elements each time\n");
		else
			printf("each %" PRId64 " %s\n",
				stride < 0 ? -stride : stride,
				stride < 0 ? "back" : "further");
	}
}

/* ---- the view ------------------------------------------------------ */

/* The last two dimensions from element on. */
static void draw_plane(
	const struct tarn_layout *view, int64_t element, int width)
{
	int n = view->ndim;
	int64_t rows = n > 1 ? view->shape[n - 2] : 1;
	int64_t columns = n > 0 ? view->shape[n - 1] : 1;

	for (int64_t i = 0; i < rows; i++) {
		printf("  ");
		for (int64_t j = 0; j < columns; j++) {
			int64_t e = element;

			e += i ? i * view->stride[n - 2] : 0;
			e += j ? j * view->stride[n - 1] : 0;
			printf(" %*" PRId64, width, e);
		}
		if (i == 0 && columns > 1)
			printf("   %s %+" PRId64, utf8() ? "→" : "right",
				view->stride[n - 1]);
		if (i == 1)
			printf("   %s %+" PRId64, utf8() ? "↓" : "down",
				view->stride[n - 2]);
		putchar('\n');
	}
}

static bool draw_view(const struct tarn_layout *view, int width)
{
	int64_t numel = tarn_layout_numel(view);
	int64_t columns = view->ndim ? view->shape[view->ndim - 1] : 1;
	int outer = view->ndim > 2 ? view->ndim - 2 : 0;
	int64_t planes = 1;

	for (int d = 0; d < outer; d++)
		planes *= view->shape[d];
	if (columns * (width + 1) + 16 > COLUMNS || planes > PLANES_MAX)
		return false;
	printf("\nThe view; each cell is the storage element that it reads:\n");
	for (int64_t k = 0; k < planes && numel; k++) {
		int64_t index[TARN_MAX_NDIM] = {0}, element;

		tarn_unravel_index(outer, view->shape, k, TARN_ORDER_C, index);
		if (outer) {
			printf("  [");
			for (int d = 0; d < outer; d++)
				printf("%" PRId64 ", ", index[d]);
			printf(":, :]\n");
		}
		if (tarn_layout_element(view, index, &element) == 0)
			draw_plane(view, element, width);
	}
	return true;
}

/* ---- the storage --------------------------------------------------- */

/* When each element is visited first, -1 for never, and how often. */
struct visits {
	int64_t first[STORAGE_CELLS_MAX];
	int times[STORAGE_CELLS_MAX];
	bool repeated;
};

static void count_visits(const struct tarn_layout *view, struct visits *v)
{
	int64_t numel = tarn_layout_numel(view);

	memset(v, 0, sizeof(*v));
	for (int64_t i = 0; i < numel; i++) {
		int64_t index[TARN_MAX_NDIM], e;

		tarn_unravel_index(
			view->ndim, view->shape, i, TARN_ORDER_C, index);
		if (tarn_layout_element(view, index, &e) < 0)
			continue;
		if (v->times[e]++ == 0)
			v->first[e] = i;
		else
			v->repeated = true;
	}
}

static void draw_storage(
	const struct tarn_layout *view, int64_t size, int64_t row)
{
	struct visits v;
	int width = digits(tarn_layout_numel(view));
	int label = digits(size);
	int fit;

	count_visits(view, &v);
	width += v.repeated;
	fit = (COLUMNS - label - 6) / (width + 1);
	if (row < 1 || row > fit)
		row = fit < 16 ? fit : 16;
	while (row < 4 && row * 2 <= fit)
		row *= 2; /* short rows share a line */
	printf("\nThe storage; each cell is the turn at which the view comes "
	       "by%s:\n",
		v.repeated ? " first (+: and again)" : "");
	for (int64_t at = 0; at < size; at += row) {
		printf("  %*" PRId64 ":", label, at);
		for (int64_t e = at; e < at + row && e < size; e++) {
			if (v.times[e] == 0)
				printf(" %*s%s", width - 1, "",
					utf8() ? "·" : ".");
			else
				printf(" %*" PRId64 "%s", width - v.repeated,
					v.first[e],
					v.times[e] > 1 ? "+"
					: v.repeated   ? " "
						       : "");
		}
		putchar('\n');
	}
}

void draw_walk(const struct tarn_layout *view, int64_t size, int64_t row)
{
	int64_t numel = tarn_layout_numel(view);
	int64_t first, count;

	tarn_layout_bounds(view, &first, &count);
	if (numel == 0)
		return;
	if (first < 0 || first + count > size) {
		printf("\nIt reaches outside of the storage.\n");
		return;
	}
	if (numel > VIEW_CELLS_MAX || !draw_view(view, digits(size - 1)))
		printf("\n(Too large to draw the view.)\n");
	if (numel > STORAGE_CELLS_MAX || size > STORAGE_CELLS_MAX)
		printf("\n(Too large to draw the storage.)\n");
	else
		draw_storage(view, size, row);
}
