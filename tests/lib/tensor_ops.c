/* SPDX-License-Identifier: MIT */
/*
 * Each operation on a tensor gives what the expression of the same name gives,
 * over the same storage, and only a reshape that has to copy copies.
 */
#include <tarn/tensor.h>

#include <errno.h>

#include "tests/kit/tap.h"

static tarn_tensor *t; /* [2, 3, 4] of 0, 1, ... */

/* The result of the call, which set *made, beside that of the expression. */
static void agrees(
	const char *expr, tarn_tensor *over, int r, tarn_tensor *made)
{
	tarn_tensor *wanted = NULL;
	int copied = tarn_tensor_eval_copy(over, expr, &wanted);

	is_int(copied, r, "%s returns what its expression returns", expr);
	if (!ok(made && wanted && tarn_tensor_equal(made, wanted) == 1 &&
			    tarn_layout_equal(tarn_tensor_layout(made),
				    tarn_tensor_layout(wanted)),
		    "%s gives the elements and the layout of its expression",
		    expr))
		diag("%s", tarn_error_message());
	is_int(r == 0, made && tarn_tensor_same_storage(made, over),
		"%s shares the storage unless it says that it copied", expr);
	tarn_tensor_unref(wanted);
	tarn_tensor_unref(made);
}

#define AGREES(expr, over, call, ...)                                          \
	do {                                                                   \
		tarn_tensor *made = NULL;                                      \
		int r = tarn_tensor_##call(over, __VA_ARGS__, &made);          \
                                                                               \
		agrees(expr, over, r, made);                                   \
	} while (0)

static void test_orders(void)
{
	const int64_t sizes[] = {2, 0}, flat[] = {6, -1}, wide[] = {5, 2, 3, 4};
	const int dims[] = {2, 0, 1};
	tarn_tensor *one = NULL;

	AGREES(".permute(2,0,1)", t, permute, 3, dims);
	AGREES(".transpose(0,-1)", t, transpose, 0, -1);
	AGREES(".merge(0,1)", t, merge, 0, 1);
	AGREES(".split(2,2,0)", t, split, 2, 2, sizes);
	AGREES(".view(6,-1)", t, view, 2, flat);
	AGREES(".unsqueeze(1)", t, unsqueeze, 1);
	AGREES(".expand(5,2,3,4)", t, expand, 4, wide);
	AGREES(".bitcast(I32)", t, bitcast, TARN_I32);
	if (tarn_tensor_eval(t, "[0:1, ..., 1:2]", &one) < 0)
		bail("%s", tarn_error_message());
	AGREES(".squeeze(0)", one, squeeze_dim, 0);
	{
		tarn_tensor *made = NULL;
		int r = tarn_tensor_squeeze(one, &made);

		agrees(".squeeze()", one, r, made);
	}
	tarn_tensor_unref(one);
}

static void test_indices(void)
{
	AGREES("[:, ::-1]", t, slice, 1, TARN_NONE, TARN_NONE, -1);
	AGREES(".skip(2,3)", t, skip, 2, 3);
	AGREES(".select(1,-1)", t, select, 1, -1);
	AGREES(".narrow(2,1,2)", t, narrow, 2, 1, 2);
	AGREES(".flip(0)", t, flip, 0);
	AGREES(".diagonal(1,1,2)", t, diagonal, 1, 1, 2);
	AGREES(".unfold(2,2,1)", t, unfold, 2, 2, 1);
}

static void test_copies(void)
{
	const int64_t flat[] = {6, -1};
	tarn_tensor *turned = NULL, *none = NULL;

	if (tarn_tensor_transpose(t, 0, 2, &turned) < 0)
		bail("%s", tarn_error_message());
	AGREES(".reshape(6,-1)", t, reshape, 2, flat);
	AGREES(".flatten(0,1)", t, flatten, 0, 1);
	AGREES(".reshape(6,-1)", turned, reshape, 2, flat);
	AGREES(".flatten(0,1)", turned, flatten, 0, 1);
	is_int(-EINVAL, tarn_tensor_view(turned, 2, flat, &none),
		"a view to which the strides do not fit is refused");
	is_int(-ERANGE, tarn_tensor_select(t, 0, 2, &none),
		"an index past the end is refused");
	ok(!none, "a refused operation writes no result");
	tarn_tensor_unref(turned);
}

int main(void)
{
	const int64_t shape[] = {2, 3, 4};
	tarn_tensor *flat = NULL;

	if (tarn_tensor_arange(TARN_F32, 0, 24, 1, &flat) < 0 ||
		tarn_tensor_view(flat, 3, shape, &t) < 0)
		bail("%s", tarn_error_message());
	test_orders();
	test_indices();
	test_copies();
	tarn_tensor_unref(flat);
	tarn_tensor_unref(t);
	return done(66);
}
