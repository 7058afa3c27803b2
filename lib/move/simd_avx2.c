// SPDX-License-Identifier: MIT
/*
 * The inner loops for AVX2.
 *
 * Transposes: n rows of n elements fill 16 bytes each; interleaving rows i and
 * i + n / 2, log2(n) times over, is a transpose. The upper halves of the
 * registers do the same for the n rows that follow, so that each column leaves
 * as 32 bytes.
 *
 * Shuffles: 16 bytes of output are picked from up to four inputs and merged;
 * again the upper half works on the next group.
 */
#include "lib/move/simd.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((__target__("avx2")))
#define INLINE                                                                 \
	static inline __attribute__((__target__("avx2"), __always_inline__))

/* 16 bytes from each of two places, one in each half. */
INLINE __m256i load_two(const char *low, const char *high)
{
	__m256i v =
		_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low));

	return _mm256_inserti128_si256(
		v, _mm_loadu_si128((const __m128i *)high), 1);
}

INLINE void store_two(char *low, char *high, __m256i v)
{
	_mm_storeu_si128((__m128i *)low, _mm256_castsi256_si128(v));
	_mm_storeu_si128((__m128i *)high, _mm256_extracti128_si256(v, 1));
}

#define UNROLL _Pragma("GCC unroll 16")
#define TRANSPOSE(size, n, stages, low, high)                                  \
	INLINE void tile_##size(char *dst, ptrdiff_t dst_stride,               \
		const char *src, ptrdiff_t src_stride)                         \
	{                                                                      \
		__m256i a[n], b[n];                                            \
                                                                               \
		UNROLL                                                         \
		for (int i = 0; i < (n); i++)                                  \
			a[i] = load_two(src + i * src_stride,                  \
				src + (i + (n)) * src_stride);                 \
		UNROLL                                                         \
		for (int s = 0; s < (stages); s++) {                           \
			UNROLL                                                 \
			for (int i = 0; i < (n) / 2; i++) {                    \
				b[2 * i] = low(a[i], a[i + (n) / 2]);          \
				b[2 * i + 1] = high(a[i], a[i + (n) / 2]);     \
			}                                                      \
			UNROLL                                                 \
			for (int i = 0; i < (n); i++)                          \
				a[i] = b[i];                                   \
		}                                                              \
		UNROLL                                                         \
		for (int i = 0; i < (n); i++)                                  \
			_mm256_storeu_si256(                                   \
				(__m256i *)(dst + i * dst_stride), a[i]);      \
	}                                                                      \
	AVX2 static void transpose_##size(char *dst, ptrdiff_t dst_stride,     \
		const char *src, ptrdiff_t src_stride, int64_t tiles)          \
	{                                                                      \
		for (; tiles > 0; tiles--) {                                   \
			tile_##size(dst, dst_stride, src, src_stride);         \
			dst += (n)*dst_stride;                                 \
			src += (n) * (size);                                   \
		}                                                              \
	}

TRANSPOSE(1, 16, 4, _mm256_unpacklo_epi8, _mm256_unpackhi_epi8)
TRANSPOSE(2, 8, 3, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16)
TRANSPOSE(4, 4, 2, _mm256_unpacklo_epi32, _mm256_unpackhi_epi32)
TRANSPOSE(8, 2, 1, _mm256_unpacklo_epi64, _mm256_unpackhi_epi64)

/* Two rows, in whole vectors. */
AVX2 static void transpose_16(char *dst, ptrdiff_t dst_stride, const char *src,
	ptrdiff_t src_stride, int64_t tiles)
{
	for (; tiles > 0; tiles--) {
		_mm256_storeu_si256(
			(__m256i *)dst, load_two(src, src + src_stride));
		dst += dst_stride;
		src += 16;
	}
}

INLINE int64_t shuffle_all(const struct shuffle *how, char *dst,
	const char *src, int64_t groups, int inputs, int outputs)
{
	__m256i from[4][4], in[4];
	int64_t g = 0;

	for (int o = 0; o < outputs; o++)
		for (int i = 0; i < inputs; i++)
			from[o][i] = load_two((const char *)how->from[o][i],
				(const char *)how->from[o][i]);
	for (; g + 2 <= groups; g += 2) {
		const char *s = src + g * how->src_advance;
		char *d = dst + g * how->dst_advance;

		UNROLL
		for (int i = 0; i < inputs; i++)
			in[i] = load_two(s + i * how->src_step,
				s + i * how->src_step + how->src_advance);
		UNROLL
		for (int o = 0; o < outputs; o++) {
			__m256i v = _mm256_shuffle_epi8(in[0], from[o][0]);

			UNROLL
			for (int i = 1; i < inputs; i++)
				v = _mm256_or_si256(v,
					_mm256_shuffle_epi8(in[i], from[o][i]));
			store_two(d + o * how->dst_step,
				d + o * how->dst_step + how->dst_advance, v);
		}
	}
	return g;
}

#define COUNTS(inputs, outputs)                                                \
	case (inputs)*8 + (outputs):                                           \
		return shuffle_all(how, dst, src, groups, inputs, outputs)

AVX2 static int64_t shuffle(
	const struct shuffle *how, char *dst, const char *src, int64_t groups)
{
	switch (how->inputs * 8 + how->outputs) {
		COUNTS(1, 1);
		COUNTS(2, 1);
		COUNTS(2, 2);
		COUNTS(3, 1);
		COUNTS(3, 2);
		COUNTS(3, 3);
		COUNTS(4, 1);
		COUNTS(4, 2);
		COUNTS(4, 3);
		COUNTS(4, 4);
	}
	return 0;
}

/* A store of a partial line would read, change and write it: so the ends go
 * through the cache. */
AVX2 static void stream(void *dst, const void *src, size_t size)
{
	size_t head = (LINE - (uintptr_t)dst % LINE) % LINE;
	const char *s = src;
	char *d = dst;

	if (size < head + LINE) {
		memcpy(d, s, size);
		return;
	}
	if (head)
		memcpy(d, s, head);
	for (size -= head, d += head, s += head; size >= LINE;
		size -= LINE, d += LINE, s += LINE) {
		__m256i low = _mm256_loadu_si256((const __m256i *)s);
		__m256i high = _mm256_loadu_si256((const __m256i *)(s + 32));

		_mm256_stream_si256((__m256i *)d, low);
		_mm256_stream_si256((__m256i *)(d + 32), high);
	}
	if (size)
		memcpy(d, s, size);
}

INLINE __m256 scaled(const uint8_t *src, __m256 scale, __m256 bias)
{
	__m128i bytes = _mm_loadl_epi64((const __m128i *)src);
	__m256 f = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));

	return _mm256_add_ps(_mm256_mul_ps(f, scale), bias);
}

AVX2 static void stream_u8_f32(char *dst, const uint8_t *src, int64_t n,
	float scale, float bias, const char *ahead)
{
	__m256 scales = _mm256_set1_ps(scale), biases = _mm256_set1_ps(bias);
	int64_t i = 0;

	for (; i < n && ((uintptr_t)(dst + i * 4) % LINE || n - i < 64); i++) {
		float f = (float)src[i] * scale;

		f += bias;
		memcpy(dst + i * 4, &f, sizeof(f));
	}
	for (; i + 64 <= n; i += 64) {
		_mm_prefetch(ahead + i, _MM_HINT_T0);
		for (int j = 0; j < 64; j += 8)
			_mm256_stream_ps((float *)(dst + (i + j) * 4),
				scaled(src + i + j, scales, biases));
	}
	for (; i < n; i++) {
		float f = (float)src[i] * scale;

		f += bias;
		memcpy(dst + i * 4, &f, sizeof(f));
	}
}

static void fence(void)
{
	_mm_sfence();
}

const struct simd *simd_avx2(void)
{
	static const struct simd simd = {
		.rows = {32, 16, 8, 4, 2},
		.cols = {16, 8, 4, 2, 1},
		.transpose = {transpose_1, transpose_2, transpose_4,
			transpose_8, transpose_16},
		.shuffle = shuffle,
		.stream = stream,
		.fence = fence,
		.stream_u8_f32 = stream_u8_f32,
	};

	return __builtin_cpu_supports("avx2") ? &simd : NULL;
}

#else

const struct simd *simd_avx2(void)
{
	return NULL;
}

#endif
