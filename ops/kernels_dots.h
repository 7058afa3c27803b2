/* SPDX-License-Identifier: MIT */
/*
 * Products of rows with rows (struct dots), in tiles of some rows of both, whose
 * sums stay in registers: each element that is loaded is used by all rows of the
 * other side's. b is read once. Included by kernels_all.h.
 */
#ifdef __AVX512F__ /* 32 registers of 16 */
#define DOT_LANES 16
#define DOT_A 4
#define DOT_B 6
#elif defined(__AVX__) /* 16 of 8 */
#define DOT_LANES 8
#define DOT_A 3
#define DOT_B 4
#else
#define DOT_LANES 4
#define DOT_A 3
#define DOT_B 4
#endif

typedef float dot_lanes
	__attribute__((__vector_size__(DOT_LANES * sizeof(float))));
typedef int dot_places
	__attribute__((__vector_size__(DOT_LANES * sizeof(int))));
typedef float dot_memory
	__attribute__((__vector_size__(DOT_LANES * sizeof(float)),
		__aligned__(sizeof(float)), __may_alias__));

/* Of BF16: the upper halves of F32. */
typedef uint16_t dot_halves
	__attribute__((__vector_size__(DOT_LANES * sizeof(uint16_t)),
		__aligned__(sizeof(uint16_t)), __may_alias__));
typedef uint32_t dot_words
	__attribute__((__vector_size__(DOT_LANES * sizeof(uint32_t))));

/* One rounding for a product that is added, at twice the speed: these sums are of
 * the kind that BLAS has, which differ between processors in any case. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")

#define UNROLLED _Pragma("GCC unroll 16")

/* Of two vectors whose blocks of lanes have n each: the halves of each block are
 * added, and all results lie in one vector, in their order. */
#if DOT_LANES == 16
#define DOT_HALVES(b)                                                          \
	b(0), b(1), b(2), b(3), b(4), b(5), b(6), b(7), b(8), b(9), b(10),     \
		b(11), b(12), b(13), b(14), b(15)
#elif DOT_LANES == 8
#define DOT_HALVES(b) b(0), b(1), b(2), b(3), b(4), b(5), b(6), b(7)
#else
#define DOT_HALVES(b) b(0), b(1), b(2), b(3)
#endif
#define DOT_LOW(n, i) ((i) / ((n) / 2) * (n) + (i) % ((n) / 2))
#define DOT_LOW_16(i) DOT_LOW(16, i)
#define DOT_LOW_8(i) DOT_LOW(8, i)
#define DOT_LOW_4(i) DOT_LOW(4, i)
#define DOT_LOW_2(i) DOT_LOW(2, i)
#define DOT_HIGH_16(i) (DOT_LOW(16, i) + 8)
#define DOT_HIGH_8(i) (DOT_LOW(8, i) + 4)
#define DOT_HIGH_4(i) (DOT_LOW(4, i) + 2)
#define DOT_HIGH_2(i) (DOT_LOW(2, i) + 1)

#if __has_builtin(__builtin_shufflevector) /* clang, and GCC from 12 on */
#define DOT_SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define DOT_SHUFFLE(x, y, ...)                                                 \
	__builtin_shuffle(x, y, (dot_places) {__VA_ARGS__})
#endif
#define FOLD_BLOCKS(n)                                                         \
	do {                                                                   \
		UNROLLED for (int i = 0; i < count; i += 2)                    \
		{                                                              \
			dot_lanes x = v[i], y = v[i + 1 < count ? i + 1 : i];  \
                                                                               \
			v[i / 2] =                                             \
				DOT_SHUFFLE(x, y, DOT_HALVES(DOT_LOW_##n)) +   \
				DOT_SHUFFLE(x, y, DOT_HALVES(DOT_HIGH_##n));   \
		}                                                              \
		count = (count + 1) / 2;                                       \
	} while (0)

/* The sums of the lanes of count vectors, one after the other from v on. A pair of
 * vectors costs three instructions at each level, instead of two each. */
static inline __attribute__((__always_inline__)) void dot_sums(
	dot_lanes *v, int count)
{
#if DOT_LANES > 8
	FOLD_BLOCKS(16);
#endif
#if DOT_LANES > 4
	FOLD_BLOCKS(8);
#endif
	FOLD_BLOCKS(4);
	FOLD_BLOCKS(2);
}
#undef FOLD_BLOCKS

/* Of a row of b, BF16 or F32, the lanes from l on. */
static inline __attribute__((__always_inline__)) dot_lanes dot_b(
	const void *row, int64_t l, const bool half)
{
	const uint16_t *halves = row;
	dot_words words;

	if (!half)
		return *(const dot_memory *)((const float *)row + l);
	words = __builtin_convertvector(
		*(const dot_halves *)(halves + l), dot_words);
	return (dot_lanes)(words << 16);
}

static float dot_b_one(const void *row, int64_t l, bool half)
{
	union {
		uint32_t word;
		float value;
	} ret;

	if (!half)
		return ((const float *)row)[l];
	ret.word = (uint32_t)((const uint16_t *)row)[l] << 16;
	return ret.value;
}

/* The row of b at j. */
static inline const void *dot_b_row(const struct dots *d, int64_t j, bool half)
{
	return (const char *)d->b + j * d->b_down * (half ? 2 : 4);
}

/* What is behind l of the rows of a tile. */
static void dot_rest(const struct dots *d, int64_t i, int64_t j, int rows,
	int cols, int64_t l)
{
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < cols; c++) {
			const float *a = d->a + (i + r) * d->a_down;
			const void *b = dot_b_row(d, j + c, d->b_half);
			float sum = 0;

			for (int64_t m = l; m < d->k; m++)
				sum += a[m] * dot_b_one(b, m, d->b_half);
			d->c[(i + r) * d->down + (j + c) * d->right] += sum;
		}
}

/* All loops but the long one vanish: the tile's extents are constants. */
static inline __attribute__((__always_inline__)) void dot_tile(
	const struct dots *d, int64_t i, int64_t j, const int rows,
	const int cols, const bool half)
{
	const float *a = d->a + i * d->a_down;
	const void *b[DOT_B];
	dot_lanes sums[DOT_A * DOT_B] = {0}, x[DOT_A];
	float found[DOT_A * DOT_B + DOT_LANES];
	int64_t l = 0;

	UNROLLED for (int c = 0; c < cols; c++) b[c] =
		dot_b_row(d, j + c, half);
	for (; l + DOT_LANES <= d->k; l += DOT_LANES) {
		UNROLLED for (int r = 0; r < rows; r++) x[r] =
			*(const dot_memory *)(a + r * d->a_down + l);
		UNROLLED for (int c = 0; c < cols; c++)
		{
			dot_lanes y = dot_b(b[c], l, half);

			UNROLLED for (int r = 0; r < rows; r++)
				sums[r * cols + c] += x[r] * y;
		}
	}
	dot_sums(sums, rows * cols);
	UNROLLED for (int n = 0; n < rows * cols; n += DOT_LANES) *
		(dot_memory *)(found + n) = sums[n / DOT_LANES];
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < cols; c++)
			d->c[(i + r) * d->down + (j + c) * d->right] +=
				found[r * cols + c];
	if (l < d->k)
		dot_rest(d, i, j, rows, cols, l);
}

static inline __attribute__((__always_inline__)) void dot_cols(
	const struct dots *d, int64_t j, const int cols, const bool half)
{
	int64_t i = 0;

	for (; i + DOT_A <= d->a_rows; i += DOT_A)
		dot_tile(d, i, j, DOT_A, cols, half);
	for (; DOT_A > 3 && i + 3 <= d->a_rows; i += 3)
		dot_tile(d, i, j, 3, cols, half);
	for (; i + 2 <= d->a_rows; i += 2)
		dot_tile(d, i, j, 2, cols, half);
	for (; i < d->a_rows; i++)
		dot_tile(d, i, j, 1, cols, half);
}

static inline __attribute__((__always_inline__)) void dot_rows(
	const struct dots *d, const bool half)
{
	int64_t j = 0;

	for (; j + DOT_B <= d->b_rows; j += DOT_B)
		dot_cols(d, j, DOT_B, half);
	for (; j < d->b_rows; j++)
		dot_cols(d, j, 1, half);
}

static void dots(const struct dots *d)
{
	if (d->b_half)
		dot_rows(d, true);
	else
		dot_rows(d, false);
}

#pragma GCC pop_options
