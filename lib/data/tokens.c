// SPDX-License-Identifier: MIT
/*
 * Tokens are kept in as few bytes as they need, and wanted as I32 or I64, which
 * all but a few fit into: those loops have no branch, and are vectors. The others
 * check each token.
 */
#include "lib/data/tokens.h"

#include <string.h>

#include "lib/data/source.h"

/* At any address, and whatever the caller's buffer is declared as. */
#define ANY __attribute__((__aligned__(1), __may_alias__))
typedef uint8_t any_u8 ANY;
typedef uint16_t any_u16 ANY;
typedef int8_t any_i8 ANY;
typedef int16_t any_i16 ANY;
typedef int32_t any_i32 ANY;
typedef uint32_t any_u32 ANY;
typedef int64_t any_i64 ANY;

#define WIDEN(from_type, to_type)                                              \
	static void from_type##_to_##to_type(                                  \
		const void *from, size_t n, void *to)                          \
	{                                                                      \
		const any_##from_type *a = from;                               \
		any_##to_type *b = to;                                         \
                                                                               \
		for (size_t i = 0; i < n; i++)                                 \
			b[i] = a[i];                                           \
	}

WIDEN(u8, i32)
WIDEN(i8, i32)
WIDEN(u16, i32)
WIDEN(i16, i32)
WIDEN(u8, i64)
WIDEN(i8, i64)
WIDEN(u16, i64)
WIDEN(i16, i64)
WIDEN(u32, i64)
WIDEN(i32, i64)

typedef void widen(const void *from, size_t n, void *to);

static widen *widen_to(enum tarn_dtype dtype, bool wide)
{
	switch (dtype) {
	case TARN_U8:
		return wide ? u8_to_i64 : u8_to_i32;
	case TARN_I8:
		return wide ? i8_to_i64 : i8_to_i32;
	case TARN_U16:
		return wide ? u16_to_i64 : u16_to_i32;
	case TARN_I16:
		return wide ? i16_to_i64 : i16_to_i32;
	case TARN_U32:
		return wide ? u32_to_i64 : NULL;
	case TARN_I32:
		return wide ? i32_to_i64 : NULL;
	default:
		return NULL;
	}
}

int64_t data_token_at(const void *p, enum tarn_dtype dtype, unsigned width)
{
	uint64_t u = 0;

	memcpy(&u, p, width);
	switch (dtype) {
	case TARN_I8:
		return (int8_t)u;
	case TARN_I16:
		return (int16_t)u;
	case TARN_I32:
		return (int32_t)u;
	default:
		return (int64_t)u;
	}
}

static bool one_by_one(const char *from, enum tarn_dtype dtype, unsigned width,
	size_t n, char *to, enum tarn_dtype out, size_t *ret_bad)
{
	unsigned out_width = data_token_width(out);

	for (size_t i = 0; i < n; i++) {
		int64_t token = data_token_at(from + i * width, dtype, width);

		memcpy(to + i * out_width, &token, out_width);
		/* From 2^63 on one without a sign looks like one below 0. */
		if (data_token_at(to + i * out_width, out, out_width) !=
				token ||
			(token < 0 && (out == TARN_U64 || dtype == TARN_U64))) {
			*ret_bad = i;
			return false;
		}
	}
	return true;
}

bool data_tokens_convert(const void *from, enum tarn_dtype dtype,
	unsigned width, size_t n, void *to, enum tarn_dtype out,
	size_t *ret_bad)
{
	widen *fn = out == TARN_I32 || out == TARN_I64
			    ? widen_to(dtype, out == TARN_I64)
			    : NULL;

	if (!fn)
		return one_by_one(from, dtype, width, n, to, out, ret_bad);
	fn(from, n, to);
	return true;
}
