// SPDX-License-Identifier: MIT
/*
 * The same steps of conversions for x86-64 with AVX2 and F16C (2013 and later):
 * the same C, which the compiler turns into wider vectors, and by hand what the
 * compiler does not find: the instructions for F16, saturating packs, and small
 * floats by way of F16. FMA stays off: one multiplication and one addition must
 * each be rounded.
 */
#include "lib/number/convert_steps.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(                                                  \
	__attribute__((__target__("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#define INLINE static inline __attribute__((__always_inline__))

/* One vector's worth: `many` elements. */
typedef void vector_step(char *to, const char *from);

/* The last ones go through a vector of their own, so that an element gets the
 * same bits wherever it stands. */
INLINE void in_vectors(void *dst, const void *src, size_t n, size_t many,
	size_t dst_size, size_t src_size, vector_step *one)
{
	const char *from = src;
	char *to = dst;

	for (; n >= many; n -= many) {
		one(to, from);
		to += many * dst_size;
		from += many * src_size;
	}
	if (n) {
		char in[128] = {0}, out[128];

		memcpy(in, from, n * src_size);
		one(out, in);
		memcpy(to, out, n * dst_size);
	}
}

#define VECTOR_STEP(name, many, dst_size, src_size)                            \
	static void name(void *dst, const void *src, size_t n)                 \
	{                                                                      \
		in_vectors(dst, src, n, many, dst_size, src_size, one_##name); \
	}

INLINE __m256 get_ps(const char *from)
{
	return _mm256_loadu_ps((const float *)(const void *)from);
}

INLINE void put_ps(char *to, __m256 x)
{
	_mm256_storeu_ps((float *)(void *)to, x);
}

/* ---- F16 ------------------------------------------------------------ */

INLINE void one_load_f16(char *to, const char *from)
{
	put_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
}

INLINE void one_store_f16(char *to, const char *from)
{
	_mm_storeu_si128((void *)to,
		_mm256_cvtps_ph(get_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

VECTOR_STEP(load_f16, 8, 4, 2)
VECTOR_STEP(store_f16, 8, 2, 4)

/* ---- small floats --------------------------------------------------- */

/*
 * Sixteen: a small float with an exponent of up to five bits has the form of
 * an F16 whose exponent means something else; the factor puts that right,
 * subnormals included. nan is the one code that is a NaN, 0 for none; 0x80 has
 * a sign that is none. E5M2 is the upper half of an F16.
 */
INLINE void decode_16(char *to, const char *from, int exponent, int mantissa,
	int nan, float factor)
{
	const int width = exponent + mantissa;
	__m256i raw = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)from));
	__m256i code = _mm256_and_si256(
		raw, _mm256_set1_epi16((short)((1 << width) - 1)));
	__m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(raw, width), 15);
	__m256i half =
		_mm256_or_si256(sign, _mm256_slli_epi16(code, 10 - mantissa));
	__m256i quiet = _mm256_set1_epi16(0x7e00);

	if (nan == 0x80)
		half = _mm256_blendv_epi8(half, quiet,
			_mm256_cmpeq_epi16(raw, _mm256_set1_epi16(0x80)));
	else if (nan)
		half = _mm256_blendv_epi8(half, _mm256_or_si256(sign, quiet),
			_mm256_cmpeq_epi16(
				code, _mm256_set1_epi16((short)nan)));
	put_ps(to, _mm256_mul_ps(_mm256_set1_ps(factor),
			   _mm256_cvtph_ps(_mm256_castsi256_si128(half))));
	put_ps(to + 32,
		_mm256_mul_ps(_mm256_set1_ps(factor),
			_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))));
}

#define DECODE(name, exponent, mantissa, nan, factor)                          \
	INLINE void one_##name(char *to, const char *from)                     \
	{                                                                      \
		decode_16(to, from, exponent, mantissa, nan, factor);          \
	}                                                                      \
	VECTOR_STEP(name, 16, 4, 1)

DECODE(load_f4, 2, 1, 0, 0x1p14f)
DECODE(load_e2m3, 2, 3, 0, 0x1p14f)
DECODE(load_e3m2, 3, 2, 0, 0x1p12f)
DECODE(load_e4m3, 4, 3, 0x7f, 0x1p8f)
DECODE(load_e4m3fnuz, 4, 3, 0x80, 0x1p7f)
DECODE(load_e5m2, 5, 2, 0, 1)

/* ---- F32 to bytes --------------------------------------------------- */

/*
 * Eight as integers of 32 bits. Values that are too low become the lowest of
 * them and saturate when they are packed; values that are too high would too,
 * so they are clamped before. max(x, 0) is 0 for a NaN.
 */
INLINE __m256i whole_8(const char *from, bool negative, bool even)
{
	__m256 x = get_ps(from);

	if (negative)
		x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
	else
		x = _mm256_max_ps(x, _mm256_setzero_ps());
	x = _mm256_min_ps(x, _mm256_set1_ps(negative ? 127 : 255));
	return even ? _mm256_cvtps_epi32(x) : _mm256_cvttps_epi32(x);
}

INLINE void bytes_32(char *to, const char *from, bool negative, bool even)
{
	/* Packs work within halves of a vector: this puts fours in order. */
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	__m256i low = _mm256_packs_epi32(whole_8(from, negative, even),
		whole_8(from + 32, negative, even));
	__m256i high = _mm256_packs_epi32(whole_8(from + 64, negative, even),
		whole_8(from + 96, negative, even));
	__m256i all = negative ? _mm256_packs_epi16(low, high)
			       : _mm256_packus_epi16(low, high);

	_mm256_storeu_si256(
		(void *)to, _mm256_permutevar8x32_epi32(all, order));
}

#define BYTES(name, negative, even)                                            \
	INLINE void one_##name(char *to, const char *from)                     \
	{                                                                      \
		bytes_32(to, from, negative, even);                            \
	}                                                                      \
	VECTOR_STEP(name, 32, 1, 4)

BYTES(cut_u8, false, false)
BYTES(even_u8, false, true)
BYTES(cut_i8, true, false)
BYTES(even_i8, true, true)

/* ---- all others ----------------------------------------------------- */

#define CONVERT_OWN
#define CONVERT_SET set_avx2
#define CONVERT_LINKAGE static
#include "lib/number/convert_kernels.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const struct convert_set *convert_set_avx2(void)
{
	unsigned a, b, c = 0, d;

	/* Not every compiler's __builtin_cpu_supports knows F16C. That of
	 * AVX2 has asked whether the kernel saves the registers. */
	if (!__builtin_cpu_supports("avx2") || !__get_cpuid(1, &a, &b, &c, &d))
		return NULL;
	return c & bit_F16C ? &set_avx2 : NULL;
}

#else

const struct convert_set *convert_set_avx2(void)
{
	return NULL;
}

#endif
