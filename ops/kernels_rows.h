/* SPDX-License-Identifier: MIT */
/*
 * Rows of floats of one type: what needs all elements of a row before it has
 * one of the result. Sums are in F64, in lanes, the same on all processors.
 * Included by kernels_all.h, with TYPE, T and M(f) as in kernels_type.h.
 */

/* ---- sums ----------------------------------------------------------------- */

typedef double PASTE(lanes, TYPE) __attribute__((__vector_size__(64)));
typedef T PASTE(pack, TYPE) __attribute__((
	__vector_size__(8 * sizeof(T)), __aligned__(sizeof(T)), __may_alias__));

/* No function: vectors are not passed alike by all generations. */
#define WIDE_AT(a)                                                             \
	__builtin_convertvector(                                               \
		*(const PASTE(pack, TYPE) *)(a), PASTE(lanes, TYPE))

/* Of lanes in two registers, and of fewer than 16 others. */
static inline double PASTE(add_lanes, TYPE)(
	const void *x, const void *y, const double *others, size_t n)
{
	double lane[16];

	memcpy(lane, x, 8 * sizeof(*lane));
	memcpy(lane + 8, y, 8 * sizeof(*lane));
	for (size_t j = 0; j < n; j++)
		lane[j] += others[j];
	for (int half = 8; half; half /= 2)
		for (int j = 0; j < half; j++)
			lane[j] += lane[j + half];
	return lane[0];
}

/* The sums of x - from, and of its squares. */
static void PASTE(distances, TYPE)(
	size_t n, const T *a, double from, double ret[2])
{
	PASTE(lanes, TYPE) s = {0}, t = {0}, s2 = {0}, t2 = {0};
	double rest[16], squares[16];
	size_t i = 0, left = n % 16;

	for (; i + 16 <= n; i += 16) {
		PASTE(lanes, TYPE) x = WIDE_AT(a + i) - from;
		PASTE(lanes, TYPE) y = WIDE_AT(a + i + 8) - from;

		s += x;
		t += y;
		s2 += x * x;
		t2 += y * y;
	}
	for (size_t j = 0; j < left; j++) {
		rest[j] = a[i + j] - from;
		squares[j] = rest[j] * rest[j];
	}
	ret[0] = PASTE(add_lanes, TYPE)(&s, &t, rest, left);
	ret[1] = PASTE(add_lanes, TYPE)(&s2, &t2, squares, left);
}

/*
 * The distances of F32 from any of the elements, squared in F64, are exact
 * enough: what is lost is less than 2^-53 of the result for each element. Those
 * of F64 are taken from their mean.
 */
static void PASTE(moments, TYPE)(
	size_t n, const void *src, double p, double ret[2])
{
	const T *a = src;
	double from = a[0], sums[2], rest;

	(void)p;
	if (sizeof(T) == sizeof(double)) {
		PASTE(distances, TYPE)(n, a, 0, sums);
		from = sums[0] / (double)n;
	}
	PASTE(distances, TYPE)(n, a, from, sums);
	rest = sums[0] / (double)n;
	ret[0] = from + rest;
	ret[1] = sums[1] - sums[0] * rest;
	if (ret[1] < 0)
		ret[1] = 0;
}

/* Folds expressions of lane l and of x into one number. */
#define LANES_OF(name, start, combine, ...)                                    \
	static double PASTE(name, TYPE)(size_t n, const T *a, double p)        \
	{                                                                      \
		double lane[SPAN], l;                                          \
		size_t i = 0;                                                  \
                                                                               \
		(void)p;                                                       \
		for (int j = 0; j < SPAN; j++)                                 \
			lane[j] = start;                                       \
		for (; i + SPAN <= n; i += SPAN)                               \
			for (size_t j = 0; j < SPAN; j++) {                    \
				T x = a[i + j];                                \
				l = lane[j];                                   \
				lane[j] = (__VA_ARGS__);                       \
			}                                                      \
		for (size_t j = 0; i < n; i++, j++) {                          \
			T x = a[i];                                            \
			l = lane[j];                                           \
			lane[j] = (__VA_ARGS__);                               \
		}                                                              \
		l = lane[0];                                                   \
		for (int j = 1; j < SPAN; j++) {                               \
			double x = lane[j];                                    \
			l = (combine);                                         \
		}                                                              \
		return l;                                                      \
	}
LANES_OF(abs_sum, 0, l + x, l + M(fabs)(x))
LANES_OF(not_zero, 0, l + x, l + (x != 0))
LANES_OF(abs_power, 0, l + x, l + pow(M(fabs)(x), p))
LANES_OF(abs_max, 0, x > l || x != x ? x : l,
	M(fabs)(x) > l || x != x ? M(fabs)(x) : l)
LANES_OF(abs_min, INFINITY, x < l || x != x ? x : l,
	M(fabs)(x) < l || x != x ? M(fabs)(x) : l)
#undef LANES_OF

static void PASTE(powers, TYPE)(
	size_t n, const void *src, double p, double ret[2])
{
	double sums[2];

	if (p == 2) {
		PASTE(distances, TYPE)(n, src, 0, sums);
		ret[0] = sums[1];
	} else if (p == 1)
		ret[0] = PASTE(abs_sum, TYPE)(n, src, p);
	else if (p == 0)
		ret[0] = PASTE(not_zero, TYPE)(n, src, p);
	else if (isinf(p))
		ret[0] = p > 0 ? PASTE(abs_max, TYPE)(n, src, p)
			       : PASTE(abs_min, TYPE)(n, src, p);
	else
		ret[0] = PASTE(abs_power, TYPE)(n, src, p);
	ret[1] = 0;
}

/* ---- exponentials --------------------------------------------------------- */

static inline void PASTE(span_exp, TYPE)(T *e, const T *a, T from)
{
	_Pragma("GCC ivdep") for (size_t j = 0; j < SPAN; j++)
	{
		e[j] = M(exp)(a[j] - from);
	}
}

#define STRETCH 512 /* exponentials that are summed while they are near */

/* Those of four spans: all are positive, so that two roundings as T are no more than
 * the exponentials' own. */
#define PACK_AT(a) (*(const PASTE(pack, TYPE) *)(a))
#define WIDE_SUM(a)                                                            \
	__builtin_convertvector(                                               \
		(PACK_AT(a) + PACK_AT((a) + SPAN)) +                           \
			(PACK_AT((a) + 2 * SPAN) + PACK_AT((a) + 3 * SPAN)),   \
		PASTE(lanes, TYPE))

/* The sum of exp(x - from); they are stored in d, if that is not NULL, which may
 * be a. What fills up the last span adds 0, or NaN where the sum is NaN. */
static double PASTE(exp_sum, TYPE)(size_t n, T *d, const T *a, T from)
{
	PASTE(lanes, TYPE) s = {0}, t = {0};
	T here[STRETCH], in[SPAN];

	while (n) {
		size_t m = n < STRETCH ? n : STRETCH, i = 0;
		T *e = d && m % SPAN == 0 ? d : here;

		for (; i + SPAN <= m; i += SPAN)
			PASTE(span_exp, TYPE)(e + i, a + i, from);
		if (i < m) {
			for (size_t j = 0; j < SPAN; j++)
				in[j] = i + j < m ? a[i + j] : -(T)INFINITY;
			PASTE(span_exp, TYPE)(e + i, in, from);
		}
		for (i = 0; i + 4 * SPAN <= m; i += 4 * SPAN) {
			s += WIDE_SUM(e + i);
			t += WIDE_SUM(e + i + 8);
		}
		for (; i < m; i += SPAN) {
			s += WIDE_AT(e + i);
			t += WIDE_AT(e + i + 8);
		}
		if (d && e == here)
			memcpy(d, here, m * sizeof(T));
		d = d ? d + m : NULL;
		a += m;
		n -= m;
	}
	return PASTE(add_lanes, TYPE)(&s, &t, NULL, 0);
}
#undef STRETCH
#undef WIDE_SUM
#undef PACK_AT

static double PASTE(exp_less, TYPE)(size_t n, void *row, double from)
{
	return PASTE(exp_sum, TYPE)(n, row, row, (T)from);
}

static void PASTE(exps, TYPE)(
	size_t n, const void *src, double p, double ret[2])
{
	T most;

	(void)p;
	PASTE(fold_MAX, TYPE)(n, &most, src);
	ret[0] = most;
	if (M(fabs)(most) <= (sizeof(T) == 4 ? (T)FLT_MAX : (T)DBL_MAX)) {
		ret[1] = PASTE(exp_sum, TYPE)(n, NULL, src, most);
		return;
	}
	/* All are -inf: 0; there is inf: that; or NaN. */
	ret[1] = most != most ? NAN : most > 0;
	if (most != most)
		ret[0] = 0;
}

static void PASTE(softmax, TYPE)(
	size_t n, void *dst, const void *src, const struct row_args *args)
{
	T *d = dst, most, share;

	(void)args;
	PASTE(fold_MAX, TYPE)(n, &most, src);
	share = (T)(1 / PASTE(exp_sum, TYPE)(n, d, src, most));
	EACH d[i] = d[i] * share;
}

static void PASTE(log_softmax, TYPE)(
	size_t n, void *dst, const void *src, const struct row_args *args)
{
	const T *a = src;
	T *d = dst, most, log_sum;

	(void)args;
	PASTE(fold_MAX, TYPE)(n, &most, src);
	log_sum = (T)log(PASTE(exp_sum, TYPE)(n, NULL, src, most));
	EACH d[i] = a[i] - most - log_sum;
}

/* ---- others --------------------------------------------------------------- */

/* The sums of some are known before they are added to what came before. */
static void PASTE(cumulative_sum, TYPE)(
	size_t n, void *dst, const void *src, const struct row_args *args)
{
	const T *a = src;
	T *d = dst;
	double sum = 0;
	size_t i = 0;

	(void)args;
	for (; i + 4 <= n; i += 4) {
		double one = a[i], two = one + a[i + 1];
		double three = two + a[i + 2];
		double four = two + ((double)a[i + 2] + a[i + 3]);

		d[i] = (T)(sum + one);
		d[i + 1] = (T)(sum + two);
		d[i + 2] = (T)(sum + three);
		d[i + 3] = (T)(sum += four);
	}
	for (; i < n; i++)
		d[i] = (T)(sum += a[i]);
}

static void PASTE(cumulative_product, TYPE)(
	size_t n, void *dst, const void *src, const struct row_args *args)
{
	const T *a = src;
	T *d = dst;
	double product = 1;

	(void)args;
	for (size_t i = 0; i < n; i++)
		d[i] = (T)(product *= a[i]);
}

/* The mean is m and the rest of it that T has no digits for. */
static void PASTE(scale_row, TYPE)(size_t n, T *d, const T *a, double mean,
	T factor, const struct row_args *args)
{
	const T *w = args->weight, *b = args->bias;
	T m = (T)mean, rest = (T)(mean - (double)m);

	if (w && b)
		EACH d[i] = (a[i] - m - rest) * factor * w[i] + b[i];
	else if (w)
		EACH d[i] = (a[i] - m - rest) * factor * w[i];
	else if (b)
		EACH d[i] = (a[i] - m - rest) * factor + b[i];
	else
		EACH d[i] = (a[i] - m - rest) * factor;
}

static void PASTE(layer_norm, TYPE)(
	size_t n, void *dst, const void *src, const struct row_args *args)
{
	double m[2];

	PASTE(moments, TYPE)(n, src, 0, m);
	PASTE(scale_row, TYPE)
	(n, dst, src, m[0], (T)(1 / sqrt(m[1] / (double)n + args->epsilon)),
		args);
}

static void PASTE(rms_norm, TYPE)(
	size_t n, void *dst, const void *src, const struct row_args *args)
{
	double sums[2];

	PASTE(distances, TYPE)(n, src, 0, sums);
	PASTE(scale_row, TYPE)
	(n, dst, src, 0, (T)(1 / sqrt(sums[1] / (double)n + args->epsilon)),
		args);
}

#undef WIDE_AT
