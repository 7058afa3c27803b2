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

/* What is behind l of the rows of a tile. */
static void dot_rest(const struct dots *d, int64_t i, int64_t j, int rows,
	int cols, int64_t l)
{
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < cols; c++) {
			const float *a = d->a + (i + r) * d->a_down;
			const float *b = d->b + (j + c) * d->b_down;
			float sum = 0;

			for (int64_t m = l; m < d->k; m++)
				sum += a[m] * b[m];
			d->c[(i + r) * d->down + (j + c) * d->right] += sum;
		}
}

/* All loops but the long one vanish: the tile's extents are constants. */
static inline __attribute__((__always_inline__)) void dot_tile(
	const struct dots *d, int64_t i, int64_t j, const int rows,
	const int cols)
{
	const float *a = d->a + i * d->a_down, *b = d->b + j * d->b_down;
	dot_lanes sums[DOT_A * DOT_B] = {0}, x[DOT_A];
	float found[DOT_A * DOT_B + DOT_LANES];
	int64_t l = 0;

	for (; l + DOT_LANES <= d->k; l += DOT_LANES) {
		UNROLLED for (int r = 0; r < rows; r++) x[r] =
			*(const dot_memory *)(a + r * d->a_down + l);
		UNROLLED for (int c = 0; c < cols; c++)
		{
			dot_lanes y =
				*(const dot_memory *)(b + c * d->b_down + l);

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
	const struct dots *d, int64_t j, const int cols)
{
	int64_t i = 0;

	for (; i + DOT_A <= d->a_rows; i += DOT_A)
		dot_tile(d, i, j, DOT_A, cols);
	for (; DOT_A > 3 && i + 3 <= d->a_rows; i += 3)
		dot_tile(d, i, j, 3, cols);
	for (; i + 2 <= d->a_rows; i += 2)
		dot_tile(d, i, j, 2, cols);
	for (; i < d->a_rows; i++)
		dot_tile(d, i, j, 1, cols);
}

static void dots(const struct dots *d)
{
	int64_t j = 0;

	for (; j + DOT_B <= d->b_rows; j += DOT_B)
		dot_cols(d, j, DOT_B);
	for (; j < d->b_rows; j++)
		dot_cols(d, j, 1);
}

#pragma GCC pop_options
