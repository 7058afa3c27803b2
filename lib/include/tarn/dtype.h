/* SPDX-License-Identifier: MIT */
/*
 * Dtypes: the 22 of the safetensors format (0.8), under its names. The
 * numbers travel in descriptors and never change.
 *
 * Source: huggingface/safetensors, safetensors/src/tensor.rs, enum Dtype.
 */
#pragma once

#include <tarn/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tarn_dtype {
	TARN_DTYPE_NONE = 0,
	TARN_BOOL = 1,		/* one byte, 0 or 1 */
	TARN_F4 = 2,		/* 4 bits, E2M1; two to a byte */
	TARN_F6_E2M3 = 3,	/* 6 bits; four to three bytes */
	TARN_F6_E3M2 = 4,	/* 6 bits; four to three bytes */
	TARN_U8 = 5,
	TARN_I8 = 6,
	TARN_F8_E5M2 = 7,
	TARN_F8_E4M3 = 8,
	TARN_F8_E8M0 = 9,
	TARN_F8_E4M3FNUZ = 10,
	TARN_F8_E5M2FNUZ = 11,
	TARN_I16 = 12,
	TARN_U16 = 13,
	TARN_F16 = 14,
	TARN_BF16 = 15,
	TARN_I32 = 16,
	TARN_U32 = 17,
	TARN_F32 = 18,
	TARN_C64 = 19,		/* two F32: real, imaginary */
	TARN_F64 = 20,
	TARN_I64 = 21,
	TARN_U64 = 22,
	TARN_DTYPE_MAX = 22,
};

/* The bits of one element: 4, 6, 8, 16, 32 or 64; 0 for an invalid dtype. */
TARN_PUBLIC int tarn_dtype_bits(enum tarn_dtype dtype)
	TARN_CONST;

/* The name, such as "F32"; NULL for an invalid dtype. Static. */
TARN_PUBLIC const char *tarn_dtype_name(enum tarn_dtype dtype)
	TARN_CONST;

/*
 * Finds a dtype by its safetensors name ("F32"), or an alias of numpy's or
 * PyTorch's ("float32", "f4", "<f4", "bfloat16", "float8_e4m3fn"). "f4" is
 * numpy's four-byte float; the 4-bit type is "F4" alone. -EINVAL names what was
 * given and is returned for big-endian names too.
 */
TARN_PUBLIC int tarn_dtype_from_name(const char *name,
	enum tarn_dtype *ret_dtype) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * The smallest number of elements that fill whole bytes: F4 2, F6 4, else 1.
 * Sub-byte types are addressable in such packs only.
 */
TARN_PUBLIC int tarn_dtype_pack(enum tarn_dtype dtype)
	TARN_CONST;

#ifdef __cplusplus
}
#endif
