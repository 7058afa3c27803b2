// SPDX-License-Identifier: MIT
/*
 * Dtypes: one table row a type; the row's index is the number that travels.
 *
 * Aliases are numpy's codes and names and PyTorch's names. A name that means
 * different types in the two ("float", "int") is in neither list: a guess would
 * misread data.
 */
#include <string.h>

#include <tarn/dtype.h>

#include "base/checked.h"
#include "base/fail.h"

#define ALIASES_MAX 4

static const struct {
	const char *name;
	int bits;
	const char *code; /* numpy's code, without the byte order */
	const char *aliases[ALIASES_MAX];
} dtypes[] = {
	[TARN_BOOL] = {"BOOL", 8, "b1", {"bool", "bool_", "?"}},
	[TARN_F4] = {"F4", 4, NULL, {"float4_e2m1fn"}},
	[TARN_F6_E2M3] = {"F6_E2M3", 6, NULL, {"float6_e2m3fn"}},
	[TARN_F6_E3M2] = {"F6_E3M2", 6, NULL, {"float6_e3m2fn"}},
	[TARN_U8] = {"U8", 8, "u1", {"uint8"}},
	[TARN_I8] = {"I8", 8, "i1", {"int8"}},
	[TARN_F8_E5M2] = {"F8_E5M2", 8, NULL, {"float8_e5m2"}},
	[TARN_F8_E4M3] = {"F8_E4M3", 8, NULL, {"float8_e4m3fn"}},
	[TARN_F8_E8M0] = {"F8_E8M0", 8, NULL, {"float8_e8m0fnu"}},
	[TARN_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, NULL, {"float8_e4m3fnuz"}},
	[TARN_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, NULL, {"float8_e5m2fnuz"}},
	[TARN_I16] = {"I16", 16, "i2", {"int16"}},
	[TARN_U16] = {"U16", 16, "u2", {"uint16"}},
	[TARN_F16] = {"F16", 16, "f2", {"float16", "half"}},
	[TARN_BF16] = {"BF16", 16, NULL, {"bfloat16"}},
	[TARN_I32] = {"I32", 32, "i4", {"int32"}},
	[TARN_U32] = {"U32", 32, "u4", {"uint32"}},
	[TARN_F32] = {"F32", 32, "f4", {"float32", "single"}},
	[TARN_C64] = {"C64", 64, "c8", {"complex64", "cfloat"}},
	[TARN_F64] = {"F64", 64, "f8", {"float64", "double"}},
	[TARN_I64] = {"I64", 64, "i8", {"int64"}},
	[TARN_U64] = {"U64", 64, "u8", {"uint64"}},
};

_Static_assert(ARRAY_SIZE(dtypes) == TARN_DTYPE_MAX + 1, "one row a dtype");

int tarn_dtype_bits(enum tarn_dtype dtype)
{
	return dtype > 0 && dtype <= TARN_DTYPE_MAX ? dtypes[dtype].bits : 0;
}

const char *tarn_dtype_name(enum tarn_dtype dtype)
{
	return dtype > 0 && dtype <= TARN_DTYPE_MAX ? dtypes[dtype].name : NULL;
}

int tarn_dtype_pack(enum tarn_dtype dtype)
{
	switch (tarn_dtype_bits(dtype)) {
	case 4:
		return 2;
	case 6:
		return 4;
	default:
		return 1;
	}
}

/* order: the name had a byte order, so only numpy's codes may follow. */
static bool dtype_is_called(int dtype, const char *name, bool order)
{
	if (dtypes[dtype].code && strcmp(dtypes[dtype].code, name) == 0)
		return true;
	if (order)
		return false;
	if (strcmp(dtypes[dtype].name, name) == 0)
		return true;
	for (int i = 0; i < ALIASES_MAX && dtypes[dtype].aliases[i]; i++)
		if (strcmp(dtypes[dtype].aliases[i], name) == 0)
			return true;
	return false;
}

int tarn_dtype_from_name(const char *name, enum tarn_dtype *ret_dtype)
{
	const char *bare = name;
	bool order = false;

	if (strncmp(name, "torch.", 6) == 0) {
		bare = name + 6;
	} else if (*name && strchr("<>|=", *name)) {
		bare = name + 1;
		order = true;
	}
	for (int i = 1; i <= TARN_DTYPE_MAX; i++) {
		if (!dtype_is_called(i, bare, order))
			continue;
		if (*name == '>' && dtypes[i].bits > 8)
			return tarn_fail(EINVAL,
				"dtype: \"%s\" is big-endian; only "
				"little-endian data is read",
				name);
		*ret_dtype = i;
		return 0;
	}
	return tarn_fail(EINVAL,
		"dtype: \"%.64s\" is none of the 22 (BOOL, U8 to U64, I8 to "
		"I64, F16, BF16, F32, F64, C64, F8_*, F6_*, F4)",
		name);
}
