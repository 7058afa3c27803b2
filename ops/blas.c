// SPDX-License-Identifier: MIT
#include "ops/blas.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "base/checked.h"
#include "ops/blas_load.h"
#include "ops/kernels.h"

/* ---- BLAS's threads ------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	int inside; /* calls */
	int before; /* threads that BLAS has outside of them; 0: not asked yet */
} blas = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Other threads' calls are not the child's. It has one thread where they had set
 * that, and before says how many it had. */
static void reset_in_child(void)
{
	pthread_mutex_init(&blas.lock, NULL);
	if (!blas.inside)
		blas.before = 0;
	blas.inside = 0;
}

static void prepare(void)
{
	pthread_atfork(NULL, NULL, reset_in_child);
}

int blas_ready(const char *op)
{
	if (blas_load())
		return 0;
	return tarn_error_set(ENOTSUP,
		"%s: products of floats need a BLAS, and there is none (%s); "
		"install libopenblas0, or with pip tarn[ops], or name a library "
		"in TARN_BLAS",
		op, blas_load_error());
}

/* OpenBLAS's can be told; others are left as they are. */
static const struct blas_functions *with_threads(void)
{
	const struct blas_functions *f = blas_load();

	return f && f->get_num_threads && f->set_num_threads ? f : NULL;
}

void blas_enter(void)
{
	const struct blas_functions *f = with_threads();

	if (!f)
		return;
	pthread_once(&once, prepare);
	pthread_mutex_lock(&blas.lock);
	if (!blas.inside++) {
		if (!blas.before)
			blas.before = f->get_num_threads();
		if (blas.before > 1)
			f->set_num_threads(1);
	}
	pthread_mutex_unlock(&blas.lock);
}

void blas_leave(void)
{
	const struct blas_functions *f = with_threads();

	if (!f)
		return;
	pthread_mutex_lock(&blas.lock);
	if (!--blas.inside) {
		if (blas.before > 1)
			f->set_num_threads(blas.before);
		blas.before = 0;
	}
	pthread_mutex_unlock(&blas.lock);
}

/* ---- matrices as BLAS names them ------------------------------------------- */

/* Do its rows lie whole in memory? ret: how far they are apart. */
static bool by_rows(const struct matrix *m, int *ret)
{
	int64_t apart = m->rows > 1 ? m->down : MAX(m->cols, (int64_t)1);

	if ((m->cols > 1 && m->right != 1) ||
		apart < MAX(m->cols, (int64_t)1) || apart > INT_MAX)
		return false;
	*ret = (int)apart;
	return true;
}

bool matrix_fits(const struct matrix *m)
{
	struct matrix turned = matrix_turned(m);
	int apart;

	return by_rows(m, &apart) || by_rows(&turned, &apart);
}

static int form(const struct matrix *m, int *ret)
{
	struct matrix turned = matrix_turned(m);

	if (by_rows(m, ret))
		return BLAS_NO_TRANS;
	if (!by_rows(&turned, ret))
		__builtin_unreachable(); /* it fits */
	return BLAS_TRANS;
}

/* How far a vector's elements are apart; of one element any will do. */
static int apart(int64_t n, int64_t stride)
{
	return n > 1 ? (int)stride : 1;
}

#define FILL(T)                                                                \
	static void fill_##T(const struct matrix *m, const T *values,          \
		int64_t down, int64_t right)                                   \
	{                                                                      \
		for (int64_t i = 0; i < m->rows; i++, values += down) {        \
			T *row = (T *)m->at + i * m->down;                     \
                                                                               \
			for (int64_t j = 0; j < m->cols; j++)                  \
				row[j * m->right] = values[j * right];         \
		}                                                              \
	}

FILL(uint8_t)
FILL(uint16_t)
FILL(uint32_t)
FILL(uint64_t)

void matrix_fill(const struct matrix *m, int64_t size, const char *values,
	int64_t down, int64_t right)
{
	const void *from = values;

	if (size == 1)
		fill_uint8_t(m, from, down, right);
	else if (size == 2)
		fill_uint16_t(m, from, down, right);
	else if (size == 4)
		fill_uint32_t(m, from, down, right);
	else
		fill_uint64_t(m, from, down, right);
}

static void clear(int64_t size, const struct matrix *m)
{
	static const uint64_t zero;

	matrix_fill(m, size, (const char *)&zero, 0, 0);
}

/* ---- floats --------------------------------------------------------------- */

static void gemm(enum tarn_dtype dtype, double alpha, const struct matrix *a,
	const struct matrix *b, double beta, const struct matrix *c)
{
	int lda, ldb, ldc;
	int fa = form(a, &lda), fb = form(b, &ldb);

	(void)form(c, &ldc);
	if (dtype == TARN_F64)
		blas_load()->dgemm(BLAS_ROW_MAJOR, fa, fb, (int)c->rows,
			(int)c->cols, (int)a->cols, alpha,
			(const double *)a->at, lda, (const double *)b->at, ldb,
			beta, (double *)c->at, ldc);
	else
		blas_load()->sgemm(BLAS_ROW_MAJOR, fa, fb, (int)c->rows,
			(int)c->cols, (int)a->cols, (float)alpha,
			(const float *)a->at, lda, (const float *)b->at, ldb,
			(float)beta, (float *)c->at, ldc);
}

/* b and c are columns. */
static void gemv(enum tarn_dtype dtype, double alpha, const struct matrix *a,
	const struct matrix *b, double beta, const struct matrix *c)
{
	int lda, from = apart(b->rows, b->down), to = apart(c->rows, c->down);
	int f = form(a, &lda);
	/* Of the matrix as it lies. */
	int rows = (int)(f == BLAS_TRANS ? a->cols : a->rows);
	int cols = (int)(f == BLAS_TRANS ? a->rows : a->cols);

	if (dtype == TARN_F64)
		blas_load()->dgemv(BLAS_ROW_MAJOR, f, rows, cols, alpha,
			(const double *)a->at, lda, (const double *)b->at, from,
			beta, (double *)c->at, to);
	else
		blas_load()->sgemv(BLAS_ROW_MAJOR, f, rows, cols, (float)alpha,
			(const float *)a->at, lda, (const float *)b->at, from,
			(float)beta, (float *)c->at, to);
}

static void floats(enum tarn_dtype dtype, double alpha, const struct matrix *a,
	const struct matrix *b, bool add, const struct matrix *c)
{
	struct matrix ta = matrix_turned(a), tb = matrix_turned(b),
		      tc = matrix_turned(c);
	int ldc;

	if (c->cols == 1 || c->rows == 1) {
		/* Not by a factor of 0, with which some keep a NaN. */
		if (!add)
			clear(tarn_dtype_bits(dtype) / 8, c);
		if (c->cols == 1)
			gemv(dtype, alpha, a, b, 1, c);
		else
			gemv(dtype, alpha, &tb, &ta, 1, &tc);
	} else if (by_rows(c, &ldc)) {
		gemm(dtype, alpha, a, b, add, c);
	} else {
		gemm(dtype, alpha, &tb, &ta, add, &tc);
	}
}

/* ---- few rows -------------------------------------------------------------- */

#define FEW 32   /* rows; picked where OpenBLAS is as fast */
#define LONG 256 /* shorter rows are mostly the sums of lanes */

bool blas_is_few(
	const struct matrix *a, const struct matrix *b, const struct matrix *c)
{
	int64_t least = MIN(c->rows, c->cols);

	return least > 1 && least <= FEW && a->cols >= LONG && a->right == 1 &&
	       b->down == 1;
}

void blas_few(const struct matrix *a, const struct matrix *b, bool b_half,
	bool add, const struct matrix *c)
{
	struct dots d = {(const float *)a->at, b->at, b_half, (float *)c->at,
		a->cols, a->rows, a->down, b->cols, b->right, c->down,
		c->right};

	if (a->rows > b->cols && !b_half)
		d = (struct dots) {d.b, d.a, false, d.c, d.k, d.b_rows,
			d.b_down, d.a_rows, d.a_down, d.right, d.down};
	if (!add)
		clear(sizeof(float), c);
	kernels()->dots(&d);
}

/* ---- integers --------------------------------------------------------------- */

/* Signed ones wrap as unsigned ones do. WIDE does not become an int. */
#define INTEGERS(name, T, WIDE)                                                \
	static void name##_row(int64_t n, T x, const T *b, int64_t right,      \
		T *c, int64_t c_right)                                         \
	{                                                                      \
		if (right == 1 && c_right == 1)                                \
			for (int64_t j = 0; j < n; j++)                        \
				c[j] = (T)(c[j] + (WIDE)x * b[j]);             \
		else                                                           \
			for (int64_t j = 0; j < n; j++)                        \
				c[j * c_right] = (T)(c[j * c_right] +          \
						     (WIDE)x * b[j * right]);  \
	}                                                                      \
	static void name(const struct matrix *a, const struct matrix *b,       \
		const struct matrix *c)                                        \
	{                                                                      \
		for (int64_t i = 0; i < c->rows; i++)                          \
			for (int64_t l = 0; l < a->cols; l++)                  \
				name##_row(c->cols,                            \
					((const T *)a->at)[i * a->down +       \
							   l * a->right],      \
					(const T *)b->at + l * b->down,        \
					b->right, (T *)c->at + i * c->down,    \
					c->right);                             \
	}

INTEGERS(bytes, uint8_t, unsigned)
INTEGERS(shorts, uint16_t, unsigned)
INTEGERS(words, uint32_t, uint32_t)
INTEGERS(longs, uint64_t, uint64_t)

static void integers(int64_t size, const struct matrix *a,
	const struct matrix *b, const struct matrix *c)
{
	if (size == 1)
		bytes(a, b, c);
	else if (size == 2)
		shorts(a, b, c);
	else if (size == 4)
		words(a, b, c);
	else
		longs(a, b, c);
}

void blas_product(enum tarn_dtype dtype, double alpha, const struct matrix *a,
	const struct matrix *b, bool add, const struct matrix *c)
{
	int64_t size = tarn_dtype_bits(dtype) / 8, n = a->cols, piece;

	if (!c->rows || !c->cols)
		return;
	if (dtype != TARN_F32 && dtype != TARN_F64) {
		if (!add)
			clear(size, c);
		integers(size, a, b, c);
		return;
	}
	if (!n && !add)
		clear(size, c);
	for (int64_t i = 0; i < n; i += piece, add = true) {
		struct matrix x, y;

		piece = MIN(n - i, MATRIX_MAX);
		x = matrix_part(a, size, 0, a->rows, i, piece);
		y = matrix_part(b, size, i, piece, 0, b->cols);
		floats(dtype, alpha, &x, &y, add, c);
	}
}
