// SPDX-License-Identifier: MIT
/*
 * Ravel, unravel, clone, contiguous, equal: random views over memory and over
 * a storage without an address give the elements that index arithmetic says;
 * a storage without an address is read only where it must be, and in few
 * reads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static uint64_t seed = 20240607;

static int64_t below(int64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* ---- a storage that counts ------------------------------------------ */

struct counted {
	unsigned char *bytes;
	int64_t reads, read;
};

static int counted_read(
	const struct tarn_storage *s, uint64_t offset, void *buf, uint64_t size)
{
	struct counted *c = s->arg;

	c->reads++;
	c->read += (int64_t)size;
	memcpy(buf, c->bytes + offset, size);
	return 0;
}

static tarn_storage *counted_storage(struct counted *c, uint64_t size)
{
	tarn_storage *s = NULL;

	if (tarn_storage_new(
		    TARN_STORAGE_BORROWED, NULL, size, false, NULL, c, &s) < 0)
		bail("%s", tarn_error_message());
	s->read = counted_read;
	return s;
}

/* ---- against index arithmetic ---------------------------------------- */

#define SIZE 65536

static struct tarn_layout random_layout(int dtype, int64_t room)
{
	int64_t shape[4], stride[4], first = 0, last = 0, offset;
	int ndim = (int)below(5), bits = tarn_dtype_bits(dtype);
	struct tarn_layout l;

	for (;;) {
		first = last = 0;
		for (int i = 0; i < ndim; i++) {
			shape[i] = 1 + below(below(4) ? 6 : 40);
			stride[i] =
				below(3) ? below(60) - 20 : below(600) - 300;
			*(stride[i] < 0 ? &first : &last) +=
				stride[i] * (shape[i] - 1);
		}
		if (last - first < room * 8 / bits - 8)
			break;
	}
	offset = -first + below(8);
	if (tarn_layout_strided(dtype, ndim, shape, stride, offset, &l) < 0)
		bail("%s", tarn_error_message());
	return l;
}

/* What ravel must give, one element at a time. */
static void slow_ravel(
	const tarn_tensor *t, enum tarn_order order, unsigned char *out)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	const unsigned char *data = (const unsigned char *)tarn_storage_data(
					    tarn_tensor_storage(t)) +
				    tarn_tensor_base(t);
	int64_t size = tarn_dtype_bits(l->dtype) / 8, element;
	int64_t index[TARN_NDIM_MAX];

	for (int64_t i = 0; i < tarn_layout_numel(l); i++) {
		must(tarn_layout_unravel_index(
			l->ndim, l->shape, i, order, index));
		if (tarn_layout_element(l, index, &element) < 0)
			bail("%s", tarn_error_message());
		memcpy(out + i * size, data + element * size, (size_t)size);
	}
}

static bool no_nan(const unsigned char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += sizeof(float)) {
		float f;

		memcpy(&f, bytes + i, sizeof(f));
		if (f != f)
			return false;
	}
	return true;
}

static void random_views(void)
{
	static const int dtypes[] = {TARN_U8, TARN_F16, TARN_F32, TARN_C64};
	static unsigned char bytes[SIZE], wanted[4 * SIZE], seen[4 * SIZE];
	struct counted c = {.bytes = bytes};
	tarn_storage *memory = NULL, *file = counted_storage(&c, SIZE);
	int wrong = 0, wrong_file = 0, wrong_equal = 0, rounds = 0;

	for (int i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)below(256);
	must(tarn_storage_borrow(bytes, SIZE, 0, NULL, NULL, &memory));
	while (rounds < 600) {
		struct tarn_layout l =
			random_layout(dtypes[below(4)], SIZE - 16);
		enum tarn_order order = below(2) ? TARN_ORDER_C : TARN_ORDER_F;
		uint64_t base = (uint64_t)below(8);
		size_t nbytes = (size_t)tarn_layout_nbytes(&l);
		tarn_tensor *t = NULL, *f = NULL;

		if (nbytes > sizeof(wanted))
			continue;
		if (tarn_tensor_new(memory, base, &l, &t) < 0 ||
			tarn_tensor_new(file, base, &l, &f) < 0)
			bail("%s", tarn_error_message());
		slow_ravel(t, order, wanted);
		memset(seen, 0, nbytes);
		must(tarn_tensor_ravel(t, order, seen, sizeof(seen)));
		wrong += memcmp(wanted, seen, nbytes) != 0;
		memset(seen, 0, nbytes);
		must(tarn_tensor_ravel(f, order, seen, sizeof(seen)));
		wrong_file += memcmp(wanted, seen, nbytes) != 0;
		if (l.dtype == TARN_U8)
			wrong_equal += tarn_tensor_equal(t, f) != 1;
		if (l.dtype == TARN_F32)
			wrong_equal += tarn_tensor_equal(t, f) !=
				       no_nan(wanted, nbytes);
		tarn_tensor_unref(t);
		tarn_tensor_unref(f);
		rounds++;
	}
	is_int(0, wrong, "%d random views in memory are packed right", rounds);
	is_int(0, wrong_file, "random views in a file are packed right, too");
	is_int(0, wrong_equal,
		"a view in a file equals the same view in memory");
	tarn_storage_unref(memory);
	tarn_storage_unref(file);
}

static void there_and_back(enum tarn_order order)
{
	tarn_tensor *t = NULL, *view = NULL;
	struct tarn_layout l;
	int32_t packed[12], back[12];
	int64_t n = 0;

	must(tarn_tensor_zeros(TARN_I32, 1, (int64_t[]) {40}, &t));
	must(tarn_layout_strided(TARN_I32, 3, (int64_t[]) {2, 3, 2},
		(int64_t[]) {-15, 2, 8}, 20, &l));
	must(tarn_tensor_with_layout(t, &l, &view));
	for (int i = 0; i < 12; i++)
		packed[i] = 100 + i;
	is_int(0, tarn_tensor_unravel(view, order, packed, sizeof(packed)),
		"a view is unpacked in order %d", (int)order);
	must(tarn_tensor_get_i64(view, (int64_t[]) {1, 0, 0}, &n));
	is_int(order == TARN_ORDER_C ? 106 : 101, n,
		"element (1, 0, 0) is unpacked to its place");
	must(tarn_tensor_get_i64(view, (int64_t[]) {0, 0, 1}, &n));
	is_int(order == TARN_ORDER_C ? 101 : 106, n,
		"element (0, 0, 1) is unpacked to its place");
	must(tarn_tensor_ravel(view, order, back, sizeof(back)));
	is_mem(packed, back, sizeof(packed),
		"packing gives the unpacked bytes back");
	must(tarn_tensor_get_i64(t, (int64_t[]) {0}, &n));
	is_int(0, n, "unpacking leaves elements outside of the view unchanged");
	is_int(-EINVAL, tarn_tensor_ravel(view, order, back, 47),
		"packing to a buffer that is too small is refused");
	has_str("47", tarn_error_message(),
		"the error has the size of the small buffer");
	is_int(-EINVAL, tarn_tensor_unravel(view, order, back, 47),
		"unpacking from a buffer that is too small is refused");
	tarn_tensor_unref(view);
	tarn_tensor_unref(t);
}

static void small_elements(void)
{
	unsigned char data[9], seen[6];
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL, *copy = NULL;
	struct tarn_layout l;

	for (int i = 0; i < 9; i++)
		data[i] = (unsigned char)(17 * i + 5);
	must(tarn_storage_borrow(data, 9, 0, NULL, NULL, &s));
	must(tarn_layout_strided(
		TARN_F4, 2, (int64_t[]) {3, 4}, (int64_t[]) {6, 1}, 2, &l));
	must(tarn_tensor_new(s, 0, &l, &t));
	is_int(0, tarn_tensor_ravel(t, TARN_ORDER_C, seen, 6),
		"rows of F4 are packed");
	is_mem((unsigned char[]) {data[1], data[2], data[4], data[5], data[7],
		       data[8]},
		seen, 6, "packed rows of F4 are whole bytes");
	tarn_tensor_unref(t);
	must(tarn_layout_strided(TARN_F6_E3M2, 2, (int64_t[]) {2, 4},
		(int64_t[]) {-8, 1}, 8, &l));
	must(tarn_tensor_new(s, 0, &l, &t));
	is_int(0, tarn_tensor_clone(t, &copy),
		"a reversed tensor of F6 is cloned");
	is_mem((unsigned char[]) {data[6], data[7], data[8], data[0], data[1],
		       data[2]},
		tarn_tensor_data(copy), 6,
		"reversed rows of F6 are three bytes each");
	is_int(1, tarn_tensor_equal(t, copy),
		"a tensor of F6 equals its clone");
	tarn_tensor_unref(t);
	tarn_tensor_unref(copy);
	tarn_storage_unref(s);
}

/* ---- what is read ----------------------------------------------------- */

#define ROWS 512
#define COLUMNS 4096 /* F32: 16 KiB a row, 8 MiB in all */

static void reads(const char *what, struct counted *c, tarn_storage *s,
	struct tarn_layout l, int64_t max_reads, int64_t max_bytes)
{
	tarn_tensor *f = NULL, *m = NULL, *copy = NULL;
	tarn_storage *memory = NULL;

	c->reads = c->read = 0;
	must(tarn_storage_borrow(
		c->bytes, tarn_storage_size(s), 0, NULL, NULL, &memory));
	if (tarn_tensor_new(s, 0, &l, &f) < 0 ||
		tarn_tensor_new(memory, 0, &l, &m) < 0 ||
		tarn_tensor_clone(f, &copy) < 0)
		bail("%s", tarn_error_message());
	diag("%s: %lld reads, %lld bytes", what, (long long)c->reads,
		(long long)c->read);
	ok(c->reads <= max_reads, "%s: a clone takes at most %lld reads", what,
		(long long)max_reads);
	ok(c->read <= max_bytes, "%s: a clone reads at most %lld bytes", what,
		(long long)max_bytes);
	is_int(1, tarn_tensor_equal(copy, m),
		"%s: the clone has the elements of the file", what);
	tarn_tensor_unref(f);
	tarn_tensor_unref(m);
	tarn_tensor_unref(copy);
	tarn_storage_unref(memory);
}

static struct tarn_layout rows_columns(int64_t rows, int64_t row_stride,
	int64_t columns, int64_t column_stride, int64_t offset)
{
	struct tarn_layout l;

	if (tarn_layout_strided(TARN_I32, 2, (int64_t[]) {rows, columns},
		    (int64_t[]) {row_stride, column_stride}, offset, &l) < 0)
		bail("%s", tarn_error_message());
	return l;
}

static void reads_only_what_it_must(void)
{
	const int64_t all = (int64_t)ROWS * COLUMNS * 4;
	struct counted c = {.bytes = malloc((size_t)all)};
	tarn_storage *s = counted_storage(&c, (uint64_t)all);
	int32_t *numbers = (int32_t *)c.bytes;

	for (int64_t i = 0; i < all / 4; i++)
		numbers[i] = (int32_t)i;
	reads("all", &c, s, rows_columns(ROWS, COLUMNS, COLUMNS, 1, 0), 1, all);
	reads("rows 3 and 4", &c, s,
		rows_columns(2, COLUMNS, COLUMNS, 1, 3 * COLUMNS), 1,
		2 * COLUMNS * 4);
	reads("ten columns", &c, s, rows_columns(ROWS, COLUMNS, 10, 1, 7), ROWS,
		ROWS * 10 * 4);
	reads("one column", &c, s, rows_columns(ROWS, COLUMNS, 1, 1, 9), ROWS,
		ROWS * 4);
	reads("every second of a row", &c, s,
		rows_columns(1, COLUMNS, COLUMNS / 2, 2, 0), 1, COLUMNS * 4);
	reads("a row backwards", &c, s,
		rows_columns(1, COLUMNS, COLUMNS, -1, COLUMNS - 1), 1,
		COLUMNS * 4);
	reads("transposed", &c, s, rows_columns(COLUMNS, 1, ROWS, COLUMNS, 0),
		8, all);
	reads("one row, repeated", &c, s,
		rows_columns(ROWS, 0, COLUMNS, 1, COLUMNS), 1, COLUMNS * 4);
	reads("most of each row", &c, s,
		rows_columns(ROWS, COLUMNS, COLUMNS - 100, 1, 50), 8, all);
	tarn_storage_unref(s);
	free(c.bytes);
}

/* ---- equality ---------------------------------------------------------- */

static void is_equal(
	int wanted, int dtype_a, const char *a, int dtype_b, const char *b)
{
	tarn_tensor *x = NULL, *y = NULL;

	if (tarn_tensor_parse(dtype_a, a, &x) < 0 ||
		tarn_tensor_parse(dtype_b, b, &y) < 0)
		bail("%s", tarn_error_message());
	is_int(wanted, tarn_tensor_equal(x, y), "%s %s and %s %s",
		tarn_dtype_name(dtype_a), a, tarn_dtype_name(dtype_b), b);
	tarn_tensor_unref(x);
	tarn_tensor_unref(y);
}

static void equality(void)
{
	is_equal(1, TARN_F32, "[1, 2]", TARN_F32, "[1, 2]");
	is_equal(0, TARN_F32, "[1, 2]", TARN_F64, "[1, 2]");
	is_equal(0, TARN_F32, "[1, 2]", TARN_F32, "[[1, 2]]");
	is_equal(0, TARN_F32, "[1, 2]", TARN_F32, "[1, 3]");
	is_equal(1, TARN_F32, "[0, -0]", TARN_F32, "[-0, 0]");
	is_equal(0, TARN_F32, "[nan]", TARN_F32, "[nan]");
	is_equal(0, TARN_F64, "[1, nan]", TARN_F64, "[1, nan]");
	is_equal(
		1, TARN_F64, "[[1, -0], [3, 4]]", TARN_F64, "[[1, 0], [3, 4]]");
	is_equal(0, TARN_F64, "[[1, 2], [3, 4]]", TARN_F64, "[[1, 2], [3, 5]]");
	is_equal(1, TARN_F16, "inf", TARN_F16, "inf");
	is_equal(0, TARN_F8_E4M3, "[nan]", TARN_F8_E4M3, "[nan]");
	is_equal(1, TARN_F8_E5M2, "[-0]", TARN_F8_E5M2, "[0]");
	is_equal(1, TARN_C64, "[1+2j, -0]", TARN_C64, "[1+2j, 0]");
	is_equal(0, TARN_C64, "[1+2j]", TARN_C64, "[1-2j]");
	is_equal(1, TARN_I64, "[9223372036854775807]", TARN_I64,
		"[9223372036854775807]");
	is_equal(0, TARN_I64, "[9223372036854775807]", TARN_I64,
		"[9223372036854775806]");
	is_equal(1, TARN_F32, "[]", TARN_F32, "[]");
	is_equal(0, TARN_F32, "[[], []]", TARN_F32, "[]");
}

static void contiguous(void)
{
	tarn_tensor *t = NULL, *same = NULL, *turned = NULL, *copy = NULL;

	must(tarn_tensor_parse(TARN_U8, "[[1, 2, 3], [4, 5, 6]]", &t));
	is_int(0, tarn_tensor_contiguous(t, &same),
		"the contiguous form of a contiguous tensor succeeds");
	ok(same == t, "the contiguous form of a contiguous tensor is itself");
	must(tarn_tensor_eval(t, ".transpose(0,1)", &turned));
	must(tarn_tensor_contiguous(turned, &copy));
	ok(copy != turned,
		"the contiguous form of a transposed tensor is a copy");
	is_mem("\1\4\2\5\3\6", tarn_tensor_data(copy), 6,
		"the contiguous copy is in C order");
	tarn_tensor_unref(copy);
	tarn_tensor_unref(turned);
	tarn_tensor_unref(same);
	tarn_tensor_unref(t);
}

int main(void)
{
	random_views();
	there_and_back(TARN_ORDER_C);
	there_and_back(TARN_ORDER_F);
	small_elements();
	reads_only_what_it_must();
	equality();
	contiguous();
	return done(73);
}
