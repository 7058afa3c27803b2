/* SPDX-License-Identifier: MIT */
/*
 * The head of a .npy file, exactly as numpy writes it, blanks included.
 *
 * Always version 1.0: 2.0 is for headers of 64 KiB and more, 3.0 for the names
 * of fields, and twelve sizes of 20 digits are neither.
 *
 * Source: numpy/lib/format.py, _write_array_header and _wrap_header.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/write_head.h"
#include "lib/file/text.h"

/* numpy's alignment of the data. */
#define ALIGN 64

/* numpy reads no longer header unless the caller declares the file trusted. */
#define HEADER_MAX 10000

/* Room for the first dimension to grow into, as numpy leaves it. */
#define GROWTH_DIGITS 21

static const char *const descr[] = {
	[TARN_BOOL] = "|b1",
	[TARN_U8] = "|u1",
	[TARN_I8] = "|i1",
	[TARN_I16] = "<i2",
	[TARN_U16] = "<u2",
	[TARN_F16] = "<f2",
	[TARN_I32] = "<i4",
	[TARN_U32] = "<u4",
	[TARN_F32] = "<f4",
	[TARN_C64] = "<c8",
	[TARN_F64] = "<f8",
	[TARN_I64] = "<i8",
	[TARN_U64] = "<u8",
};

static size_t digits_of(uint64_t n)
{
	size_t digits = 1;

	while (n >= 10) {
		n /= 10;
		digits++;
	}
	return digits;
}

static void add_shape(struct text *text, const struct tarn_layout *l)
{
	text_add_string(text, "(");
	for (int i = 0; i < l->ndim; i++) {
		text_add_string(text, i ? ", " : "");
		text_add_number(text, (uint64_t)l->shape[i]);
	}
	text_add_string(text, l->ndim == 1 ? ",)" : ")");
}

/* Is it contiguous in Fortran order only? */
static bool is_fortran(const struct tarn_layout *l)
{
	return tarn_layout_is_fortran(l) && !tarn_layout_is_contiguous(l);
}

static void add_dictionary(struct text *text, const struct tarn_layout *l)
{
	bool fortran = is_fortran(l);

	text_add_string(text, "{'descr': '");
	text_add_string(text, descr[l->dtype]);
	text_add_string(text, "', 'fortran_order': ");
	text_add_string(text, fortran ? "True" : "False");
	text_add_string(text, ", 'shape': ");
	add_shape(text, l);
	text_add_string(text, ", }");
	if (l->ndim) {
		int64_t grows = l->shape[fortran ? l->ndim - 1 : 0];

		text_fill(
			text, ' ', GROWTH_DIGITS - digits_of((uint64_t)grows));
	}
}

int npy_head(struct head_tensor *tensor, uint64_t align, struct head *ret)
{
	const struct tarn_layout *l = &tensor->layout;
	_cleanup_text_ struct text text = {0};
	uint64_t pad, size;

	align = MAX(align, ALIGN);
	if ((size_t)l->dtype >= ARRAY_SIZE(descr) || !descr[l->dtype])
		return tarn_fail(ENOTSUP,
			"numpy has no %s: convert it (to F32, say), or save "
			"it as safetensors",
			tarn_dtype_name(l->dtype));
	text_add(&text, "\x93NUMPY\1\0\0\0", 10);
	add_dictionary(&text, l);
	/* With the '\n' at the end; where no padding is needed, one whole ALIGN
	 * more: a quirk of numpy, whose files have it. */
	pad = align - (text.size + 1) % align;
	if (align > ALIGN && pad == align)
		pad = 0;
	size = text.size + pad + 1 - 10;
	if (size > HEADER_MAX)
		return tarn_fail(EINVAL,
			"a .npy file aligned to %llu has a header of %llu "
			"bytes, and numpy reads at most %d: align it to 8192 "
			"or less",
			(unsigned long long)align, (unsigned long long)size,
			HEADER_MAX);
	text_fill(&text, ' ', pad);
	text_add(&text, "\n", 1);
	if (text.failed)
		return file_no_memory("the header of a file");
	text.bytes[8] = (char)(size & 0xff);
	text.bytes[9] = (char)(size >> 8);
	tensor->nbytes = (uint64_t)tarn_layout_nbytes(l);
	tensor->offset = text.size;
	tensor->digits = 0;
	if (add_u64(text.size, tensor->nbytes, &ret->file_size) ||
		ret->file_size > INT64_MAX)
		return tarn_fail(
			EOVERFLOW, "the tensor has more than 2^63 bytes");
	ret->size = text.size;
	ret->bytes = STEAL(text.bytes);
	return 0;
}
