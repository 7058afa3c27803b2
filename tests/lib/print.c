// SPDX-License-Identifier: MIT
/*
 * The printed form. print_numpy.py compares the dtypes that numpy has; here
 * are the shapes of the output, and the dtypes that numpy does not have.
 */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>

#include "lib/tensor/tensor.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static void prints(int dtype, const char *values, const char *wanted)
{
	tarn_tensor *t = NULL;
	char *text = NULL;

	if (tarn_tensor_parse(dtype, values, &t) < 0 ||
		tarn_tensor_format(t, 0, &text) < 0)
		bail("%s", tarn_error_message());
	is_str(wanted, text, "values are printed as expected: %s %s",
		tarn_dtype_name(dtype), values);
	free(text);
	tarn_tensor_unref(t);
}

static void shapes(void)
{
	prints(TARN_I32, "[[1, 2, 3], [4, 5, 6]]", "[[1 2 3]\n [4 5 6]]");
	prints(TARN_I32, "[[[1], [-2]], [[3], [40]]]",
		"[[[ 1]\n  [-2]]\n\n [[ 3]\n  [40]]]");
	prints(TARN_F32, "[0.1, 1, 2.25]", "[0.1  1.   2.25]");
	prints(TARN_F32, "[1e8, 1]", "[1.e+08 1.e+00]");
	prints(TARN_F32, "[nan, -inf]", "[ nan -inf]");
	prints(TARN_F64, "2.5", "2.5");
	prints(TARN_F32, "16777216", "16777216.0");
	prints(TARN_BOOL, "[true, false]", "[ True False]");
	prints(TARN_C64, "[1+2j, 0.5-1j]", "[1. +2.j 0.5-1.j]");
	prints(TARN_C64, "2j", "2j");
	prints(TARN_U64, "[18446744073709551615, 0]",
		"[18446744073709551615                    0]");
	prints(TARN_F32, "[[], []]", "[]");
}

static void small_floats(void)
{
	prints(TARN_BF16, "[0.1, 3.14159]", "[0.1  3.14]");
	prints(TARN_F16, "65504", "65500.0");
	prints(TARN_F8_E4M3, "[448, 0.5]", "[448.    0.5]");
	prints(TARN_F8_E5M2, "57344", "57344.0");
	prints(TARN_F8_E8M0, "[1, 0.25]", "[1.   0.25]");
	prints(TARN_F6_E3M2, "[28, -0.0625, 1, 2]",
		"[28.     -0.0625  1.      2.    ]");
	prints(TARN_F4, "[0, 0.5, 1, 1.5, 2, 3, 4, -6]",
		"[ 0.   0.5  1.   1.5  2.   3.   4.  -6. ]");
}

static void long_ones(void)
{
	tarn_tensor *t = NULL;
	char *text = NULL;

	must(tarn_tensor_arange(TARN_I64, 0, 2000, 1, &t));
	must(tarn_tensor_format(t, 0, &text));
	is_str("[   0    1    2 ... 1997 1998 1999]", text,
		"the middle of 2000 elements is left out");
	free(text);
	tarn_tensor_unref(t);
	must(tarn_tensor_arange(TARN_I64, 0, 8, 1, &t));
	must(tarn_tensor_format(t, 7, &text));
	is_str("[0 1 2 ... 5 6 7]", text,
		"the middle of 8 elements is left out past a threshold of 7");
	free(text);
	must(tarn_tensor_format(t, 8, &text));
	is_str("[0 1 2 3 4 5 6 7]", text,
		"8 elements are printed whole at a threshold of 8");
	free(text);
	is_int(-EINVAL, tarn_tensor_format(t, -1, &text),
		"a negative threshold prints all elements");
	tarn_tensor_unref(t);
	must(tarn_tensor_zeros(TARN_BOOL, 1, (int64_t[]) {30}, &t));
	must(tarn_tensor_format(t, 0, &text));
	is_str("[False False False False False False False False False False"
	       " False False\n False False False False False False False False"
	       " False False False False\n False False False False False"
	       " False]",
		text, "printed lines end before column 75");
	free(text);
	tarn_tensor_unref(t);
}

static void too_many(void)
{
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL;
	struct tarn_layout l;
	int64_t shape[12], stride[12] = {0};
	char *text = NULL;

	for (int i = 0; i < 12; i++)
		shape[i] = 7;
	must(tarn_storage_alloc(1, &s));
	must(tarn_layout_strided(TARN_U8, 12, shape, stride, 0, &l));
	must(tarn_tensor_new(s, 0, &l, &t));
	is_int(-E2BIG, tarn_tensor_format(t, 0, &text),
		"printing the corners of 7^12 elements is refused");
	has_str("view of a part", tarn_error_message(),
		"the error suggests a view of a part");
	tarn_tensor_unref(t);
	tarn_storage_unref(s);
}

static void decimal_comma(void)
{
	if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
		skip(1, "no locale with a decimal comma here");
		return;
	}
	prints(TARN_F64, "[0.5, 2.25]", "[0.5  2.25]");
	setlocale(LC_ALL, "C");
}

int main(void)
{
	shapes();
	small_floats();
	long_ones();
	too_many();
	decimal_comma();
	return done(27);
}
