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

#define FOLD_LANES(...)                                                        \
	lanes += __builtin_shuffle(lanes, (dot_places) {__VA_ARGS__})

static inline __attribute__((__always_inline__)) float dot_sum(dot_lanes lanes)
{
#if DOT_LANES > 8
	FOLD_LANES(8, 9, 10, 11, 12, 13, 14, 15);
#endif
#if DOT_LANES > 4
	FOLD_LANES(4, 5, 6, 7);
#endif
	FOLD_LANES(2, 3);
	FOLD_LANES(1);
	return lanes[0];
}
#undef FOLD_LANES

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
	dot_lanes sums[DOT_A][DOT_B] = {0}, x[DOT_A];
	int64_t l = 0;

	for (; l + DOT_LANES <= d->k; l += DOT_LANES) {
		UNROLLED for (int r = 0; r < rows; r++) x[r] =
			*(const dot_memory *)(a + r * d->a_down + l);
		UNROLLED for (int c = 0; c < cols; c++)
		{
			dot_lanes y =
				*(const dot_memory *)(b + c * d->b_down + l);

			UNROLLED for (int r = 0; r < rows; r++) sums[r][c] +=
				x[r] * y;
		}
	}
	UNROLLED for (int r = 0; r < rows; r++)
		UNROLLED for (int c = 0; c < cols; c++)
			d->c[(i + r) * d->down + (j + c) * d->right] +=
		dot_sum(sums[r][c]);
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
