/* SPDX-License-Identifier: MIT */
/*
 * Any text as a layout, and any text as a view of it: two lines. Whatever is
 * made is a layout as all are, goes to text and comes back; and of elements a
 * view shows those of what it is a view of, and no other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>
#include <tarn/layout.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/text.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "expression";

#define ELEMENTS_MAX 4096 /* that are walked one by one */
#define BITS_MAX (1 << 16)

static void judge_refusal(int r, const char *what)
{
	if (r != -EINVAL && r != -EOVERFLOW && r != -ENOTSUP && r != -ERANGE)
		bail("%s: refused with %d: %s", what, r, tarn_error_message());
	if (!tarn_error_message()[0])
		bail("%s: refused without a sentence", what);
}

/* Strides along which nobody walks are not in a text. */
static bool is_same(const struct tarn_layout *a, const struct tarn_layout *b)
{
	bool walked = tarn_layout_numel(a);

	if (a->dtype != b->dtype || a->ndim != b->ndim ||
		a->offset != b->offset)
		return false;
	for (int i = 0; i < a->ndim; i++)
		if (a->shape[i] != b->shape[i] ||
			(walked && a->shape[i] > 1 &&
				a->stride[i] != b->stride[i]))
			return false;
	return true;
}

static void judge_layout(const struct tarn_layout *layout)
{
	struct tarn_layout back;
	char text[1024];
	int n = tarn_layout_format(layout, text, sizeof(text));

	if (tarn_layout_check(layout) < 0)
		bail("%s: %s", text, tarn_error_message());
	if (n < 0 || (size_t)n != strlen(text))
		bail("%s: of %d bytes, it says", text, n);
	if (tarn_layout_parse(text, &back) < 0)
		bail("%s: it cannot be read: %s", text, tarn_error_message());
	if (!is_same(layout, &back))
		bail("%s: it is read as another", text);
}

/* ---- elements ---------------------------------------------------------- */

/* Bits of the storage that a layout reaches, from one on. */
struct reach {
	__int128 from;
	unsigned char bits[BITS_MAX];
	bool twice; /* one of them is reached again */
};

static void mark(struct reach *reach, __int128 element, int bits)
{
	__int128 at = element * bits - reach->from;

	if (at < 0 || at + bits > BITS_MAX)
		bail("an element outside of its layout's bounds");
	for (int i = 0; i < bits; i++) {
		reach->twice |= reach->bits[at + i];
		reach->bits[at + i] = 1;
	}
}

/* One by one, by index. False: there are too many. */
static bool walk(const struct tarn_layout *l, __int128 from, struct reach *ret)
{
	int64_t index[TARN_NDIM_MAX], element, numel = tarn_layout_numel(l);

	memset(ret, 0, sizeof(*ret));
	ret->from = from;
	if (numel > ELEMENTS_MAX)
		return false;
	for (int64_t i = 0; i < numel; i++) {
		if (tarn_layout_unravel_index(
			    l->ndim, l->shape, i, TARN_ORDER_C, index) < 0 ||
			tarn_layout_element(l, index, &element) < 0)
			bail("element %lld: %s", (long long)i,
				tarn_error_message());
		mark(ret, element, tarn_dtype_bits(l->dtype));
	}
	return true;
}

/* "0 is certain": each element is one's own. */
static void judge_itself(
	const struct tarn_layout *layout, const struct reach *reach)
{
	if (reach->twice && !tarn_layout_overlaps_itself(layout))
		bail("an element is reached twice, which is denied");
}

static void judge_view(
	const struct tarn_layout *whole, const struct tarn_layout *view)
{
	static struct reach of_whole, of_view;
	int64_t first, count;
	__int128 from;
	bool common = false;

	tarn_layout_bounds(whole, &first, &count);
	from = (__int128)first * tarn_dtype_bits(whole->dtype);
	if (count > BITS_MAX / tarn_dtype_bits(whole->dtype))
		return;
	if (!walk(whole, from, &of_whole))
		return;
	judge_itself(whole, &of_whole);
	if (!walk(view, from, &of_view))
		return;
	judge_itself(view, &of_view);
	for (size_t i = 0; i < BITS_MAX; i++) {
		if (of_view.bits[i] && !of_whole.bits[i])
			bail("a view reaches bit %zu, which is not its "
			     "tensor's",
				i);
		common |= of_view.bits[i];
	}
	if (common != tarn_layout_overlaps(whole, view))
		bail("a view and its tensor have%s bytes in common, which is "
		     "denied",
			common ? "" : " no");
}

/* A copy lies in memory of its own: only its shape is judged. */
static void judge_apply(const struct tarn_layout *whole, const char *expr)
{
	static const struct tarn_layout untouched = {.offset = 4711};
	struct tarn_layout view = untouched;
	int r = tarn_layout_eval(whole, expr, &view);

	if (r < 0) {
		judge_refusal(r, expr);
		if (memcmp(&view, &untouched, sizeof(view)) != 0)
			bail("%s: refused, and something is returned", expr);
		return;
	}
	judge_layout(&view);
	if (r == 0)
		judge_view(whole, &view);
	else if (r != 1)
		bail("%s: returned %d", expr, r);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *line = size ? memchr(bytes, '\n', size) : NULL;
	size_t n = line ? (size_t)(line - bytes) : size;
	struct tarn_layout layout = {0};
	char *spec = text_of(bytes, n);
	char *expr = text_of(line ? line + 1 : NULL, line ? size - n - 1 : 0);
	int r = tarn_layout_parse(spec, &layout);

	if (r < 0) {
		judge_refusal(r, spec);
	} else {
		judge_layout(&layout);
		judge_apply(&layout, expr);
	}
	free(spec);
	free(expr);
	return 0;
}
