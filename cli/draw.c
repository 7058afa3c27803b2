// SPDX-License-Identifier: MIT
/*
 * A chain of views in words: what each link makes of the layout, a reshape as
 * the merges and splits that it consists of, and what the strides mean. The
 * steps of a reshape are done one by one on the real strides, so that the one
 * that needs a copy is seen to need it.
 */
#include "cli/draw.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 640 /* a formatted layout of 12 dimensions */

bool draw_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
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

/* Why the dimensions of a merge cannot be merged: the last two of them with
 * strides that do not fit. */
static void draw_obstacle(
	const struct tarn_layout *l, const struct tarn_reshape_step *step)
{
	int inner = step->dim + step->n - 1;

	for (int d = inner - 1; d >= step->dim; d--) {
		int64_t wanted = l->shape[inner] * l->stride[inner];

		if (l->shape[d] == 1)
			continue;
		if (l->shape[inner] != 1 && l->stride[d] != wanted) {
			printf("          needs a copy: dim %d steps by "
			       "%" PRId64 ", not by the %" PRId64
			       " that dim %d takes\n",
				d, l->stride[d], wanted, inner);
			return;
		}
		inner = d;
	}
}

/* Does a step on the strides too. false: only a copy could go on. */
static bool step_is_view(
	struct tarn_layout *now, const struct tarn_reshape_step *step)
{
	int last = step->dim + step->n - 1;

	if (step->n == 0)
		return tarn_layout_unsqueeze(now, 0, now) == 0;
	if (step->kind == 's')
		return tarn_layout_split(
			       now, step->dim, step->n, step->sizes, now) == 0;
	if (tarn_layout_merge(now, step->dim, last, now) == 0)
		return true;
	draw_obstacle(now, step);
	return false;
}

static void draw_explanation(const struct tarn_layout *before, bool copies,
	const struct tarn_layout *after)
{
	int64_t shape[2 * TARN_NDIM_MAX];
	struct tarn_layout now = *before;
	struct tarn_reshape_plan plan;
	bool view = tarn_layout_numel(before) > 0;
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
				step->n, draw_utf8() ? "→" : "->");
		else if (step->n == 0)
			printf("        a scalar as one dimension %s ",
				draw_utf8() ? "→" : "->");
		else
			printf("        merge dims %d to %d %s ", step->dim,
				step->dim + step->n - 1,
				draw_utf8() ? "→" : "->");
		print_shape(ndim, shape);
		putchar('\n');
		if (copies && view)
			view = step_is_view(&now, step);
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
		draw_explanation(before, copies, after);
}

void draw_summary(const struct tarn_layout *view)
{
	int64_t numel = tarn_layout_numel(view);
	int64_t nbytes = tarn_layout_nbytes(view);
	int64_t first, count;

	tarn_layout_bounds(view, &first, &count);
	printf("\n%" PRId64 " element%s, %" PRId64 " byte%s, %s", numel,
		numel == 1 ? "" : "s", nbytes, nbytes == 1 ? "" : "s",
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
