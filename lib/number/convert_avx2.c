// SPDX-License-Identifier: MIT
/*
 * The same steps of conversions for x86-64 with AVX2 and F16C (2013 and
 * later): the same C, of which the compiler makes wider vectors, and the two
 * instructions for F16 that it does not find by itself. FMA stays off: one
 * multiplication and one addition are to be rounded each.
 */
#include "lib/number/convert_steps.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(                                                  \
	__attribute__((__target__("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

/* Eight at a time; the last ones in a vector of their own, so that a NaN gets
 * the same bits wherever it stands. */
static void load_f16(void *restrict dst, const void *restrict src, size_t n)
{
	const char *from = src;
	char *to = dst;

	for (; n >= 8; n -= 8, from += 16, to += 32)
		_mm256_storeu_ps((float *)(void *)to,
			_mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
	if (n) {
		uint16_t in[8] = {0};
		float out[8];

		memcpy(in, from, n * 2);
		_mm256_storeu_ps(out,
			_mm256_cvtph_ps(_mm_loadu_si128((const void *)in)));
		memcpy(to, out, n * 4);
	}
}

static void store_f16(void *restrict dst, const void *restrict src, size_t n)
{
	const char *from = src;
	char *to = dst;

	for (; n >= 8; n -= 8, from += 32, to += 16)
		_mm_storeu_si128((void *)to,
			_mm256_cvtps_ph(
				_mm256_loadu_ps(
					(const float *)(const void *)from),
				_MM_FROUND_TO_NEAREST_INT));
	if (n) {
		float in[8] = {0};
		uint16_t out[8];

		memcpy(in, from, n * 4);
		_mm_storeu_si128(
			(void *)out, _mm256_cvtps_ph(_mm256_loadu_ps(in),
					     _MM_FROUND_TO_NEAREST_INT));
		memcpy(to, out, n * 2);
	}
}

#define CONVERT_OWN_F16
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
