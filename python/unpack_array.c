// SPDX-License-Identifier: MIT
/*
 * Unpacking arrays: compares the description in the tree with the memory in
 * which the array claims to lie.
 */
#include "python/pack.h"

/* ---- descriptions in the tree ------------------------------------------- */

static bool is_row_of_bytes(enum pack_tag tag)
{
	return tag == PACK_LONG_BYTES || tag == PACK_LONG_BYTEARRAY ||
	       tag == PACK_MEMORY;
}

/* dtype, rank, shape: a layout in C order, if no strides follow. */
static int read_layout(struct unpacker *u, struct unpack_found *f)
{
	uint64_t dtype, ndim, extent;
	int64_t shape[TARN_NDIM_MAX];

	if (unpack_number(u, &dtype) < 0 || unpack_number(u, &ndim) < 0)
		return -1;
	f->strided = dtype & PACK_STRIDED;
	dtype &= ~(uint64_t)PACK_STRIDED;
	if (dtype == 0 || dtype > TARN_DTYPE_MAX || ndim > TARN_NDIM_MAX) {
		unpack_fail("an array is of no dtype, or of too high a rank");
		return -1;
	}
	for (uint64_t i = 0; i < ndim; i++) {
		if (unpack_number(u, &extent) < 0)
			return -1;
		shape[i] = (int64_t)(extent & INT64_MAX);
	}
	if (is_row_of_bytes(f->tag) && (dtype != TARN_U8 || ndim != 1)) {
		unpack_fail("bytes are no bytes");
		return -1;
	}
	if (tarn_layout_contiguous((int)dtype, (int)ndim, shape, &f->layout) >=
		0)
		return 0;
	unpack_fail(tarn_error_message());
	return -1;
}

/* Strides instead of those of C order, and the bytes that they reach, which
 * are between begin and end of base. */
static int read_strides(
	struct unpacker *u, struct unpack_found *f, int64_t begin, int64_t end)
{
	int64_t size = tarn_dtype_bits(f->layout.dtype) / 8;
	int64_t strides[TARN_NDIM_MAX], first, count, low, high;
	struct tarn_layout l;
	int r;

	for (int i = 0; i < f->layout.ndim; i++)
		if (unpack_signed(u, &strides[i]) < 0)
			return -1;
	r = tarn_layout_strided(f->layout.dtype, f->layout.ndim,
		f->layout.shape, strides, 0, &l);
	if (r < 0 || tarn_dtype_bits(l.dtype) % 8)
		goto outside;
	tarn_layout_bounds(&l, &first, &count);
	if (__builtin_mul_overflow(first, size, &low) ||
		__builtin_add_overflow(low, f->at, &low) ||
		__builtin_mul_overflow(count, size, &high) ||
		__builtin_add_overflow(low, high, &high))
		goto outside;
	if (f->at < begin || f->at > end ||
		(count && (low < begin || high > end)))
		goto outside;
	f->layout = l;
	return 0;
outside:
	unpack_fail("strides reach out of an array's memory");
	return -1;
}

/* Among the packed bytes, after strides if there are any: so they are read
 * twice, now to get past them. */
PyObject *unpack_array(struct unpacker *u, enum pack_tag tag)
{
	struct unpack_found f = {.tag = tag, .base = u->whole};
	struct unpacker strides;
	uint64_t where, begin, end;
	int64_t stride;

	if (tag < PACK_TENSOR || tag > PACK_MEMORY)
		return unpack_fail("a value is of no kind");
	if (read_layout(u, &f) < 0)
		return NULL;
	strides = *u;
	for (int i = 0; f.strided && i < f.layout.ndim; i++)
		if (unpack_signed(u, &stride) < 0)
			return NULL;
	if (unpack_number(u, &where) < 0)
		return NULL;
	if (__builtin_mul_overflow(where, PACK_ALIGN, &begin) ||
		__builtin_add_overflow(begin, u->bytes, &begin) ||
		__builtin_add_overflow(
			begin, (uint64_t)tarn_layout_nbytes(&f.layout), &end) ||
		end > u->size)
		return unpack_fail("an array ends outside of it");
	/* Each has bytes of its own: of some kinds it is a copy. */
	if (end - begin > u->left)
		return unpack_fail("arrays have more bytes than it has");
	u->left -= end - begin;
	f.at = (int64_t)begin;
	if (f.strided && read_strides(&strides, &f, f.at, (int64_t)end) < 0)
		return NULL;
	return unpack_make(&f);
}

static PyObject *record_of(struct unpacker *u)
{
	uint64_t number;

	if (unpack_number(u, &number) < 0)
		return NULL;
	if (!u->records || number >= (uint64_t)PyTuple_Size(u->records))
		return unpack_fail("it has fewer tensors than it says");
	return PyTuple_GetItem(u->records, (Py_ssize_t)number);
}

PyObject *unpack_view(struct unpacker *u)
{
	struct unpack_found f = {.base = record_of(u)};
	int64_t size;
	int tag;

	if (!f.base || unpack_signed(u, &f.at) < 0 || unpack_byte(u, &tag) < 0)
		return NULL;
	if (tag < PACK_TENSOR || tag > PACK_MEMORY)
		return unpack_fail("a value is of no kind");
	if (tag == PACK_LONG_BYTES || tag == PACK_LONG_BYTEARRAY)
		return unpack_fail("a copy is no view");
	f.tag = (enum pack_tag)tag;
	if (read_layout(u, &f) < 0)
		return NULL;
	size = tarn_layout_nbytes(layout_of(f.base));
	if (!f.strided || !tarn_layout_is_contiguous(layout_of(f.base)))
		return unpack_fail("a view is of no tensor in C order");
	if (read_strides(u, &f, 0, size) < 0)
		return NULL;
	if (is_row_of_bytes(f.tag) && !tarn_layout_is_contiguous(&f.layout))
		return unpack_fail("bytes are no bytes");
	return unpack_make(&f);
}

PyObject *unpack_whole(struct unpacker *u)
{
	PyObject *record = record_of(u);

	Py_XINCREF(record);
	return record;
}
