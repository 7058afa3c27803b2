// SPDX-License-Identifier: MIT
/*
 * Tensors over memory: the reach is checked when one is made, elements are
 * read and written by index at any alignment, and all who share a storage see
 * what is written.
 */
#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct tarn_layout strided(int dtype, int ndim, const int64_t *shape,
	const int64_t *stride, int64_t offset)
{
	struct tarn_layout l;

	if (tarn_layout_strided(dtype, ndim, shape, stride, offset, &l) < 0)
		bail("%s", tarn_error_message());
	return l;
}

static void reach(void)
{
	static const struct {
		const char *what;
		int dtype;
		int64_t n, stride, offset;
		uint64_t base;
		int wanted;
		const char *part;
	} cases[] = {
		{"all of it", TARN_F32, 4, 1, 0, 0, 0, NULL},
		{"backwards", TARN_F32, 4, -1, 3, 0, 0, NULL},
		{"at an odd byte", TARN_F32, 3, 1, 0, 3, 0, NULL},
		{"one byte too far", TARN_F32, 4, 1, 0, 1, -ERANGE,
			"reaches byte 16"},
		{"one element too far", TARN_F32, 5, 1, 0, 0, -ERANGE,
			"reaches byte 19"},
		{"a stride too far", TARN_U8, 3, 8, 0, 0, -ERANGE,
			"the storage has 16 bytes"},
		{"before it", TARN_U8, 4, -1, 2, 8, -ERANGE,
			"reaches element -1 before it"},
		{"nothing, at the end", TARN_F64, 0, 1, 0, 16, 0, NULL},
		{"nothing, outside", TARN_F64, 0, 1, 0, 17, -ERANGE,
			"begins outside"},
		{"32 halves of bytes", TARN_F4, 32, 1, 0, 0, 0, NULL},
		{"34 halves of bytes", TARN_F4, 34, 1, 0, 0, -ERANGE,
			"reaches byte 16"},
		{"20 of 6 bits", TARN_F6_E2M3, 20, 1, 0, 1, 0, NULL},
		{"20 of 6 bits", TARN_F6_E2M3, 20, 1, 0, 2, -ERANGE,
			"reaches byte 16"},
	};
	tarn_storage *s = NULL;

	must(tarn_storage_alloc(16, &s));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tarn_layout l = strided(cases[i].dtype, 1, &cases[i].n,
			&cases[i].stride, cases[i].offset);
		tarn_tensor *t = NULL;

		is_int(cases[i].wanted,
			tarn_tensor_new(s, cases[i].base, &l, &t),
			"the reach of a tensor is checked: %s", cases[i].what);
		if (cases[i].part)
			has_str(cases[i].part, tarn_error_message(),
				"the error of a tensor's reach contains its "
				"value");
		tarn_tensor_unref(t);
	}
	tarn_storage_unref(s);
}

static void hostile_layouts(void)
{
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL;
	struct tarn_layout l;

	must(tarn_storage_alloc(16, &s));
	must(tarn_layout_contiguous(TARN_F32, 1, (int64_t[]) {4}, &l));
	l.ndim = 200;
	ok(tarn_tensor_new(s, 0, &l, &t) < 0,
		"a layout of 200 dimensions is refused");
	must(tarn_layout_contiguous(TARN_F32, 1, (int64_t[]) {4}, &l));
	l.dtype = 99;
	ok(tarn_tensor_new(s, 0, &l, &t) < 0,
		"a layout of dtype 99 is refused");
	must(tarn_layout_contiguous(TARN_F32, 1, (int64_t[]) {4}, &l));
	l.stride[0] = INT64_MAX / 2;
	ok(tarn_tensor_new(s, 0, &l, &t) < 0,
		"a layout with a stride of 2^62 is refused");
	must(tarn_layout_contiguous(TARN_U8, 1, (int64_t[]) {4}, &l));
	ok(tarn_tensor_new(s, UINT64_MAX, &l, &t) < 0,
		"a base of 2^64 is refused");
	ok(!t, "no refused layout made a tensor");
	tarn_storage_unref(s);
}

static void elements(void)
{
	unsigned char bytes[64];
	tarn_storage *s = NULL;

	must(tarn_storage_borrow(
		bytes, sizeof(bytes), TARN_BORROW_WRITABLE, NULL, NULL, &s));
	for (int dtype = 1; dtype <= TARN_DTYPE_MAX; dtype++) {
		int64_t n = 4, one = 1;
		struct tarn_layout l = strided(dtype, 1, &n, &one, 0);
		tarn_tensor *t = NULL;
		double sum = 0;
		int64_t as_int = -1;

		memset(bytes, 0, sizeof(bytes));
		if (tarn_tensor_new(s, 5, &l, &t) < 0)
			bail("%s", tarn_error_message());
		for (int64_t i = 0; i < 4; i++)
			must(tarn_tensor_set_f64(t, &i, i % 2 ? 1 : 2));
		for (int64_t i = -4; i < 0; i++) {
			double d = -1;

			must(tarn_tensor_get_f64(t, &i, &d));
			sum += d;
		}
		must(tarn_tensor_get_i64(t, (int64_t[]) {1}, &as_int));
		is_int(dtype == TARN_BOOL ? 4 : 6, (int64_t)sum,
			"%s: 2, 1, 2, 1 are set and read at an odd byte",
			tarn_dtype_name(dtype));
		is_int(1, as_int, "%s: an element is read as an integer",
			tarn_dtype_name(dtype));
		is_int(0, bytes[4] + bytes[5 + tarn_layout_nbytes(&l)],
			"%s: bytes beside the tensor are not written",
			tarn_dtype_name(dtype));
		is_int(-ERANGE, tarn_tensor_set_f64(t, (int64_t[]) {4}, 1),
			"%s: element 4 of 4 is refused",
			tarn_dtype_name(dtype));
		tarn_tensor_unref(t);
	}
	tarn_storage_unref(s);
}

static void complex_numbers(void)
{
	tarn_tensor *t = NULL, *real = NULL;
	float c[2] = {0};
	double d = 0;

	must(tarn_tensor_zeros(TARN_C64, 1, (int64_t[]) {2}, &t));
	must(tarn_tensor_set_c64(t, (int64_t[]) {1}, (float[2]) {1.5f, -2}));
	must(tarn_tensor_get_c64(t, (int64_t[]) {1}, c));
	ok(c[0] == 1.5f && c[1] == -2,
		"1.5-2j is set and read as a complex number");
	must(tarn_tensor_get_f64(t, (int64_t[]) {1}, &d));
	ok(d == 1.5, "the real part of a complex number is read as a double");
	must(tarn_tensor_set_f64(t, (int64_t[]) {1}, 3));
	must(tarn_tensor_get_c64(t, (int64_t[]) {1}, c));
	ok(c[0] == 3 && c[1] == 0,
		"a double read as a complex number has no imaginary part");
	must(tarn_tensor_zeros(TARN_F32, 0, NULL, &real));
	is_int(0, tarn_tensor_set_c64(real, NULL, (float[2]) {7, 0}),
		"7+0j is set to a real element");
	is_int(-EINVAL, tarn_tensor_set_c64(real, NULL, (float[2]) {7, 1}),
		"7+1j is not set to a real element");
	must(tarn_tensor_get_c64(real, NULL, c));
	ok(c[0] == 7 && c[1] == 0,
		"a refused number leaves the element unchanged");
	tarn_tensor_unref(real);
	tarn_tensor_unref(t);
}

static void sharing(void)
{
	tarn_tensor *t = NULL, *flipped = NULL, *flat = NULL, *other = NULL;
	struct tarn_layout l;
	double d = 0;

	must(tarn_tensor_arange(TARN_F32, 0, 6, 1, &t));
	l = strided(TARN_F32, 2, (int64_t[]) {2, 2}, (int64_t[]) {-1, 2}, 3);
	is_int(0, tarn_tensor_with_layout(t, &l, &flipped),
		"a tensor of another layout over the same storage is made");
	ok(tarn_tensor_same_storage(t, flipped),
		"the tensor of another layout has the same storage");
	ok((float *)tarn_tensor_data(flipped) ==
			(float *)tarn_tensor_data(t) + 3,
		"data is the address of element (0, 0)");
	is_int(0, tarn_tensor_flat_storage(flipped, &flat),
		"a tensor's storage is seen as one dimension");
	is_int(6, tarn_tensor_layout(flat)->shape[0],
		"a storage as one dimension has all six elements");
	must(tarn_tensor_set_f64(flat, (int64_t[]) {4}, 40));
	must(tarn_tensor_get_f64(flipped, (int64_t[]) {1, 1}, &d));
	ok(d == 40, "a write through one tensor is seen through the other");
	must(tarn_tensor_clone(flipped, &other));
	ok(!tarn_tensor_same_storage(t, other), "a clone has its own memory");
	l = strided(TARN_F32, 1, (int64_t[]) {7}, (int64_t[]) {1}, 0);
	tarn_tensor_unref(other);
	other = NULL;
	is_int(-ERANGE, tarn_tensor_with_layout(t, &l, &other),
		"a view of seven of six elements is refused");
	tarn_tensor_unref(flat);
	tarn_tensor_unref(flipped);
	tarn_tensor_unref(t);
}

static void flat_with_a_rest(void)
{
	unsigned char bytes[15] = {0};
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL, *flat = NULL;
	struct tarn_layout l;

	must(tarn_storage_borrow(
		bytes, sizeof(bytes), TARN_BORROW_WRITABLE, NULL, NULL, &s));
	must(tarn_layout_contiguous(TARN_F32, 1, (int64_t[]) {2}, &l));
	must(tarn_tensor_new(s, 6, &l, &t));
	must(tarn_tensor_flat_storage(t, &flat));
	is_int(3, tarn_tensor_layout(flat)->shape[0],
		"bytes at either end that make no element are left out");
	is_int(2, (int64_t)tarn_tensor_base(flat),
		"the flat view is in step with the tensor's elements");
	tarn_tensor_unref(flat);
	tarn_tensor_unref(t);
	tarn_storage_unref(s);
}

static const struct expression {
	const char *expr;
	int copied;
	const char *wanted;
} cases[] = {
	{"", 0, "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]"},
	{"[1]", 0, "[4, 5, 6, 7]"},
	{"[::2, ::-2]", 0, "[[3, 1], [11, 9]]"},
	{".transpose(0,1)[0]", 0, "[0, 4, 8]"},
	{".reshape(2,6)[1]", 0, "[6, 7, 8, 9, 10, 11]"},
	{".transpose(0,1).reshape(2,6)[1]", 1, "[2, 6, 10, 3, 7, 11]"},
	{"[:, ::2].flatten()[1::2]", 0, "[2, 6, 10]"},
	{"[:, 1:3].flatten()[1::2]", 1, "[2, 6, 10]"},
	{".rearrange(\"a (b c) -> (c a) b\", b=2)", 1,
		"[[0, 2], [4, 6], [8, 10], [1, 3], [5, 7], [9, 11]]"},
	{".transpose(0,1).contiguous().view(12)[:2]", 1, "[0, 4]"},
	{".transpose(0,1).flatten().view(3,4)"
	 ".transpose(0,1).flatten()[:4]",
		1, "[0, 5, 10, 4]"},
	{"[0, 1].expand(2,2).flatten()", 0, "[1, 1, 1, 1]"},
};

/* What e makes of t, copied where no view has it, and as a view. */
static void expression(tarn_tensor *t, const struct expression *e)
{
	tarn_tensor *seen = NULL, *wanted = NULL, *view = NULL;

	must(tarn_tensor_parse(TARN_I32, e->wanted, &wanted));
	is_int(e->copied, tarn_tensor_eval_copy(t, e->expr, &seen),
		"an expression is evaluated: %s", e->expr);
	is_int(1, seen ? tarn_tensor_equal(wanted, seen) : -1,
		"the expression gives %s", e->wanted);
	ok(seen && tarn_tensor_same_storage(t, seen) != e->copied,
		e->copied ? "a copy is in memory of its own"
			  : "a view is in the same storage, and a copy "
			    "is not");
	is_int(e->copied ? -EINVAL : 0, tarn_tensor_eval(t, e->expr, &view),
		"an expression is evaluated as a view: %s", e->expr);
	if (view)
		is_int(1, tarn_tensor_equal(wanted, view),
			"the view has the elements of the expression");
	else
		has_str("tarn_tensor_eval_copy", tarn_error_message(),
			"the error names the function that copies");
	tarn_tensor_unref(seen);
	tarn_tensor_unref(wanted);
	tarn_tensor_unref(view);
}

static void expressions(void)
{
	tarn_tensor *t = NULL, *none = NULL;

	must(tarn_tensor_parse(TARN_I32, cases[0].wanted, &t));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expression(t, &cases[i]);
	is_int(-ERANGE, tarn_tensor_eval_copy(t, "[3]", &none),
		"row 3 of 3 is refused");
	is_int(-EINVAL, tarn_tensor_eval(t, "[0", &none),
		"half an expression is refused");
	ok(!none, "a refused expression makes no tensor");
	tarn_tensor_unref(t);
}

int main(void)
{
	reach();
	hostile_layouts();
	elements();
	complex_numbers();
	sharing();
	flat_with_a_rest();
	expressions();
	return done(192);
}
