// SPDX-License-Identifier: MIT
#include "ops/dtype.h"

#include <errno.h>
#include <string.h>

/* The dtypes that have arithmetic, in the order of the table in ops.h. */
enum { B, U1, I1, U2, I2, U4, I4, U8_, I8_, H, BH, S, D, N, X = N };

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* X, unless it is said */
static const uint8_t place[TARN_DTYPE_MAX + 1] = {
	[0 ... TARN_DTYPE_MAX] = X,
	[TARN_BOOL] = B,
	[TARN_U8] = U1,
	[TARN_I8] = I1,
	[TARN_U16] = U2,
	[TARN_I16] = I2,
	[TARN_U32] = U4,
	[TARN_I32] = I4,
	[TARN_U64] = U8_,
	[TARN_I64] = I8_,
	[TARN_F16] = H,
	[TARN_BF16] = BH,
	[TARN_F32] = S,
	[TARN_F64] = D,
};
#pragma GCC diagnostic pop

static const uint8_t dtypes[N + 1] = {TARN_BOOL, TARN_U8, TARN_I8, TARN_U16,
	TARN_I16, TARN_U32, TARN_I32, TARN_U64, TARN_I64, TARN_F16, TARN_BF16,
	TARN_F32, TARN_F64, TARN_DTYPE_NONE};

/* The upper half; X: there is none. */
static const uint8_t meet[N][N] = {
	[B] = {B, U1, I1, U2, I2, U4, I4, U8_, I8_, H, BH, S, D},
	[U1] = {0, U1, I2, U2, I2, U4, I4, U8_, I8_, H, BH, S, D},
	[I1] = {0, 0, I1, I4, I2, I8_, I4, X, I8_, H, BH, S, D},
	[U2] = {0, 0, 0, U2, I4, U4, I4, U8_, I8_, H, BH, S, D},
	[I2] = {0, 0, 0, 0, I2, I8_, I4, X, I8_, H, BH, S, D},
	[U4] = {0, 0, 0, 0, 0, U4, I8_, U8_, I8_, H, BH, S, D},
	[I4] = {0, 0, 0, 0, 0, 0, I4, X, I8_, H, BH, S, D},
	[U8_] = {0, 0, 0, 0, 0, 0, 0, U8_, X, H, BH, S, D},
	[I8_] = {0, 0, 0, 0, 0, 0, 0, 0, I8_, H, BH, S, D},
	[H] = {0, 0, 0, 0, 0, 0, 0, 0, 0, H, S, S, D},
	[BH] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, BH, S, D},
	[S] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, S, D},
	[D] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, D},
};

static int place_of(enum tarn_dtype dtype)
{
	return (unsigned)dtype <= TARN_DTYPE_MAX ? place[dtype] : X;
}

enum kind dtype_kind(enum tarn_dtype dtype)
{
	int p = place_of(dtype);

	if (p == X)
		return KIND_NONE;
	return p == B ? KIND_BOOL : p < H ? KIND_INT : KIND_FLOAT;
}

int dtype_check(const char *op, enum tarn_dtype dtype)
{
	if (place_of(dtype) != X)
		return 0;
	return tarn_error_set(ENOTSUP,
		"%s: %s has no arithmetic here; cast the tensor first, to F32 "
		"for example",
		op, tarn_dtype_name(dtype) ?: "an invalid dtype");
}

enum tarn_dtype dtype_computed(enum tarn_dtype dtype)
{
	return dtype == TARN_F16 || dtype == TARN_BF16 ? TARN_F32 : dtype;
}

enum tarn_dtype dtype_floating(enum tarn_dtype dtype)
{
	return dtype_kind(dtype) == KIND_FLOAT ? dtype : TARN_F32;
}

int tarn_promote(enum tarn_dtype a, enum tarn_dtype b, enum tarn_dtype *ret)
{
	int x = place_of(a), y = place_of(b), m;
	int r = dtype_check("promote", a);

	if (r >= 0)
		r = dtype_check("promote", b);
	if (r < 0)
		return r;
	m = x < y ? meet[x][y] : meet[y][x];
	if (m == X)
		return tarn_error_set(ENOTSUP,
			"%s and %s have no common integer dtype; cast one of "
			"the tensors, to I64 or F64 for example",
			tarn_dtype_name(a), tarn_dtype_name(b));
	*ret = (enum tarn_dtype)dtypes[m];
	return 0;
}

/* ---- of several operands ---------------------------------------------- */

/* What tensors with dimensions, those without, and numbers meet in. */
enum { WITH, WITHOUT, NUMBERS, CLASSES };

static int class_of(const struct tarn_operand *o, enum tarn_dtype *ret)
{
	if (o->tensor) {
		const struct tarn_layout *l = tarn_tensor_layout(o->tensor);

		*ret = (enum tarn_dtype)l->dtype;
		return l->ndim ? WITH : WITHOUT;
	}
	*ret = o->kind == TARN_NUMBER_BOOL  ? TARN_BOOL
	       : o->kind == TARN_NUMBER_INT ? TARN_I64
					    : TARN_F32;
	return NUMBERS;
}

/* The higher class decides, unless the lower one is of a later kind. */
static int combine(
	enum tarn_dtype high, enum tarn_dtype low, enum tarn_dtype *ret)
{
	enum kind h = dtype_kind(high), l = dtype_kind(low);

	if (!low || (high && h >= l)) {
		*ret = high;
		return 0;
	}
	if (!high) {
		*ret = low;
		return 0;
	}
	return tarn_promote(high, low, ret);
}

int tarn_result_dtype(
	const struct tarn_operand *operands, size_t n, enum tarn_dtype *ret)
{
	enum tarn_dtype class[CLASSES] = {0}, dtype, lower;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		enum tarn_dtype *so_far =
			&class[class_of(&operands[i], &dtype)];

		if (*so_far == dtype)
			continue;
		if (*so_far)
			r = tarn_promote(*so_far, dtype, so_far);
		else if ((r = dtype_check("operands", dtype)) >= 0)
			*so_far = dtype;
	}
	if (r >= 0)
		r = combine(class[WITHOUT], class[NUMBERS], &lower);
	if (r >= 0)
		r = combine(class[WITH], lower, ret);
	return r;
}

/* ---- numbers ----------------------------------------------------------- */

int dtype_check_number(const char *op, enum tarn_dtype dtype,
	const struct tarn_operand *number)
{
	bool is_signed = dtype == TARN_I8 || dtype == TARN_I16 ||
			 dtype == TARN_I32 || dtype == TARN_I64;
	int bits = tarn_dtype_bits(dtype) - is_signed;
	int64_t most = bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
	int64_t least = is_signed ? -most - 1 : 0;

	if (dtype_kind(dtype) != KIND_INT || number->kind == TARN_NUMBER_FLOAT)
		return 0;
	if (number->i >= least && number->i <= most)
		return 0;
	return tarn_error_set(EINVAL,
		"%s: %s cannot hold %lld; it holds %lld to %llu", op,
		tarn_dtype_name(dtype), (long long)number->i, (long long)least,
		dtype == TARN_U64 ? (unsigned long long)UINT64_MAX
				  : (unsigned long long)most);
}

void dtype_put(
	enum tarn_dtype dtype, const struct tarn_operand *number, void *ret)
{
	bool real = number->kind == TARN_NUMBER_FLOAT;
	double f = real ? number->f : (double)number->i;
	int64_t i = number->i;
	float single = (float)f;
	uint8_t truth;

	if (real)
		i = f >= -0x1p63 && f < 0x1p63 ? (int64_t)f : INT64_MIN;
	truth = real ? f != 0 : i != 0;
	switch (dtype_kind(dtype)) {
	case KIND_BOOL:
		memcpy(ret, &truth, 1);
		break;
	case KIND_INT:
		/* Little-endian: the low bytes are those of the short ones. */
		memcpy(ret, &i, (size_t)tarn_dtype_bits(dtype) / 8);
		break;
	default:
		if (dtype == TARN_F64)
			memcpy(ret, &f, sizeof(f));
		else
			memcpy(ret, &single, sizeof(single));
	}
}
