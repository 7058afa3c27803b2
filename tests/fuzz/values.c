/* SPDX-License-Identifier: MIT */
/*
 * Any text as nested values of any dtype. What is read is a tensor, which can
 * be printed; and that, given commas, is read as the same again, as far as
 * digits go.
 *
 * The first byte of an input is the dtype, the rest is the text.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>
#include <tarn/tensor.h>

#include "lib/number/number.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/text.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "values";

static void judge_refusal(int r)
{
	if (r != -EINVAL && r != -EOVERFLOW && r != -ENOTSUP && r != -ERANGE)
		bail("refused with %d: %s", r, tarn_error_message());
	if (!tarn_error_message()[0])
		bail("refused without a sentence");
}

/* What was printed has blanks between values and between lists; and within a
 * complex one, which ends with its j, and alone is in parentheses. */
static char *with_commas(const char *printed, int dtype)
{
	const char *ends = dtype == TARN_C64 ? "j]" : NULL;
	size_t n = strlen(printed);
	char *text = malloc(2 * n + 1), *to = text;

	for (size_t i = 0; i < n; i++) {
		size_t next = i + strspn(printed + i, " \n");

		if (next == i) {
			if (!strchr("()", printed[i]))
				*to++ = printed[i];
			continue;
		}
		if (i && printed[i - 1] != '[' && printed[next] &&
			printed[next] != ']' &&
			(!ends || strchr(ends, printed[i - 1])))
			*to++ = ',';
		i = next - 1;
	}
	*to = '\0';
	return text;
}

static bool is_same(const tarn_tensor *a, const tarn_tensor *b)
{
	const struct tarn_layout *x = tarn_tensor_layout(a);
	const struct tarn_layout *y = tarn_tensor_layout(b);

	return x->ndim == y->ndim &&
	       !memcmp(x->shape, y->shape, sizeof(x->shape));
}

/* Of nothing only "[]" is printed. */
static void judge_text(const tarn_tensor *t)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	char *printed, *commas;
	tarn_tensor *back;

	if (tarn_tensor_format(t, 1 << 20, &printed) < 0)
		bail("it cannot be printed: %s", tarn_error_message());
	commas = with_commas(printed, l->dtype);
	if (tarn_tensor_parse(l->dtype, commas, &back) < 0)
		bail("printed as %s, which cannot be read: %s", printed,
			tarn_error_message());
	if (tarn_layout_numel(l) && !is_same(t, back))
		bail("printed as %s, which has another shape", printed);
	if (number_is_integer(l->dtype) && tarn_layout_numel(l) &&
		tarn_tensor_equal(t, back) != 1)
		bail("printed as %s, which has other values", printed);
	tarn_tensor_unref(back);
	free(printed);
	free(commas);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	tarn_tensor *t = NULL;
	char *text;
	int r;

	if (!size)
		return 0;
	text = text_of(bytes + 1, size - 1);
	r = tarn_tensor_parse(bytes[0], text, &t);
	free(text);
	if (r < 0) {
		judge_refusal(r);
		return 0;
	}
	if (tarn_layout_check(tarn_tensor_layout(t)) < 0 ||
		!tarn_layout_is_contiguous(tarn_tensor_layout(t)))
		bail("no layout of new memory: %s", tarn_error_message());
	judge_text(t);
	tarn_tensor_unref(t);
	return 0;
}
