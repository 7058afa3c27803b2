// SPDX-License-Identifier: MIT
/*
 * A tensor as text, as numpy's str() prints it. The elements to print are
 * gathered first (of a large tensor only the corners, so that little of one in
 * a file is read), then the column width is planned, then brackets, blanks and
 * line ends are put around the numbers.
 *
 * Source of the rules: numpy, core/arrayprint.py, _formatArray.
 */
#include "lib/tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/number/number.h"
#include "lib/tensor/print.h"

/* numpy's defaults. */
#define THRESHOLD 1000
#define EDGE 3
#define LINE_WIDTH 75

/* More than is useful; corners of 12 dimensions are two billion. */
#define SEEN_MAX (1 << 26)

struct printer {
	struct number_column column;
	int ndim;
	bool summary;
	int64_t shape[TARN_NDIM_MAX];
	int64_t seen[TARN_NDIM_MAX]; /* of each dimension */
	uint64_t *raw;               /* seen elements, C order */
	size_t next;                 /* the next one of raw to print */
	char *text;
	size_t size, room;
	bool failed; /* out of memory */
};

/* ---- text that grows --------------------------------------------------- */

static void put(struct printer *p, const char *s, size_t n)
{
	if (p->size + n + 1 > p->room) {
		size_t room = 2 * (p->size + n + 64);
		char *grown = p->failed ? NULL : realloc(p->text, room);

		if (!grown) {
			p->failed = true;
			return;
		}
		p->text = grown;
		p->room = room;
	}
	memcpy(p->text + p->size, s, n);
	p->size += n;
	p->text[p->size] = '\0';
}

static void put_times(struct printer *p, char c, int n)
{
	while (n-- > 0)
		put(p, &c, 1);
}

/* ---- what is seen ------------------------------------------------------- */

static bool cut(const struct printer *p, int dim)
{
	return p->summary && p->shape[dim] > 2 * EDGE;
}

static int choose(struct printer *p, const struct tarn_layout *l,
	int64_t threshold, size_t *ret_count)
{
	int64_t count = 1;

	p->ndim = l->ndim;
	p->summary = tarn_layout_numel(l) > threshold;
	memcpy(p->shape, l->shape, sizeof(p->shape));
	for (int i = 0; i < p->ndim; i++) {
		p->seen[i] = cut(p, i) ? 2 * EDGE : p->shape[i];
		if (mul_i64(count, p->seen[i], &count) || count > SEEN_MAX)
			return tarn_fail(E2BIG,
				"format: more than %d elements would be"
				" printed; take a view of a part",
				SEEN_MAX);
	}
	*ret_count = (size_t)count;
	return 0;
}

/* The element of the storage for the i-th printed one. */
static int64_t seen_element(
	const struct printer *p, const struct tarn_layout *l, size_t i)
{
	int64_t element = l->offset, rest = (int64_t)i;

	for (int dim = p->ndim - 1; dim >= 0; dim--) {
		int64_t index = rest % p->seen[dim];

		rest /= p->seen[dim];
		if (cut(p, dim) && index >= EDGE)
			index += p->shape[dim] - 2 * EDGE;
		element += index * l->stride[dim];
	}
	return element;
}

static int gather(struct printer *p, const tarn_tensor *t, size_t count)
{
	int r = 0;

	p->raw = calloc(count, sizeof(*p->raw));
	if (!p->raw)
		return tarn_fail(ENOMEM, "format: out of memory");
	for (size_t i = 0; r >= 0 && i < count; i++)
		r = tarn_tensor_load(
			t, seen_element(p, &t->layout, i), &p->raw[i]);
	return r;
}

/* ---- brackets and lines -------------------------------------------------- */

static void wrap(struct printer *p, int indent)
{
	while (p->size && p->text[p->size - 1] == ' ')
		p->size--;
	put(p, "\n", 1);
	put_times(p, ' ', indent);
}

/* One row. line counts from the left edge; a word that is too long for any
 * line is not wrapped, since that would not help. */
static void print_row(struct printer *p, int indent, int width)
{
	int dim = p->ndim - 1;
	int64_t words = p->seen[dim] + cut(p, dim);
	int line = indent;

	for (int64_t i = 0; i < words; i++) {
		char word[NUMBER_TEXT] = "...";
		size_t n = 3;

		if (!cut(p, dim) || i != EDGE)
			n = number_column_print(
				&p->column, p->raw[p->next++], word);
		if (line + (int)n > width && line > indent) {
			wrap(p, indent);
			line = indent;
		}
		put(p, word, n);
		line += (int)n;
		if (i < words - 1) {
			put(p, " ", 1);
			line++;
		}
	}
}

static void print_dim(struct printer *p, int dim)
{
	int indent = dim + 1;
	int64_t items = p->seen[dim] + cut(p, dim);

	put(p, "[", 1);
	if (dim == p->ndim - 1) {
		print_row(p, indent, LINE_WIDTH - dim - 1);
	} else {
		for (int64_t i = 0; i < items; i++) {
			if (i > 0) {
				put_times(p, '\n', p->ndim - dim - 1);
				put_times(p, ' ', indent);
			}
			if (cut(p, dim) && i == EDGE)
				put(p, "...", 3);
			else
				print_dim(p, dim + 1);
		}
	}
	put(p, "]", 1);
}

static int print(struct printer *p, const tarn_tensor *t, int64_t threshold)
{
	char scalar[NUMBER_TEXT];
	size_t count = 0;
	int r;

	if (tarn_layout_numel(&t->layout) == 0) {
		put(p, "[]", 2);
		return 0;
	}
	r = choose(p, &t->layout, threshold, &count);
	if (r >= 0)
		r = gather(p, t, count);
	if (r < 0)
		return r;
	if (p->ndim == 0) {
		number_print(t->layout.dtype, p->raw[0], scalar);
		put(p, scalar, strlen(scalar));
		return 0;
	}
	number_column_plan(&p->column, t->layout.dtype, p->raw, count);
	print_dim(p, 0);
	return 0;
}

int tarn_tensor_format(const tarn_tensor *tensor, int64_t threshold, char **ret)
{
	_cleanup_tensor_ tarn_tensor *near = NULL;
	struct decimal_locale locale;
	struct printer p = {0};
	int r;

	if (threshold < 0)
		return tarn_fail(EINVAL, "format: a threshold of %lld elements",
			(long long)threshold);
	if (threshold == 0)
		threshold = THRESHOLD;
	/* If all of a tensor in a file is printed, it is better read at
	 * once. */
	if (!storage_by_address(tensor->storage) &&
		tarn_layout_numel(&tensor->layout) <= threshold) {
		r = tarn_tensor_clone(tensor, &near);
		if (r < 0)
			return r;
		tensor = near;
	}
	r = decimal_locale_enter(&locale);
	if (r < 0)
		return r;
	r = print(&p, tensor, threshold);
	decimal_locale_leave(&locale);
	free(p.raw);
	if (r >= 0 && p.failed)
		r = tarn_fail(ENOMEM, "format: out of memory");
	if (r < 0)
		free(p.text);
	else
		*ret = p.text;
	return r;
}
