/* SPDX-License-Identifier: MIT */
/*
 * BLAS, loaded by the first product of floats and by nothing else: the one that
 * TARN_BLAS names (a file, or what the dynamic loader finds), else the one that
 * tarn was configured with, else any that there is. tarn.ops sets TARN_BLAS to
 * pip's OpenBLAS (scipy-openblas32) where tarn was configured with none.
 */
#pragma once

/* CBLAS's numbers. With its header a BLAS would be needed to build, too. */
enum { BLAS_ROW_MAJOR = 101, BLAS_NO_TRANS = 111, BLAS_TRANS = 112 };

struct blas_functions {
	void (*sgemm)(int order, int ta, int tb, int m, int n, int k,
		float alpha, const float *a, int lda, const float *b, int ldb,
		float beta, float *c, int ldc);
	void (*dgemm)(int order, int ta, int tb, int m, int n, int k,
		double alpha, const double *a, int lda, const double *b,
		int ldb, double beta, double *c, int ldc);
	void (*sgemv)(int order, int t, int m, int n, float alpha,
		const float *a, int lda, const float *x, int incx, float beta,
		float *y, int incy);
	void (*dgemv)(int order, int t, int m, int n, double alpha,
		const double *a, int lda, const double *x, int incx,
		double beta, double *y, int incy);
	/* OpenBLAS's; NULL: it is another one. */
	int (*get_num_threads)(void);
	void (*set_num_threads)(int n);
};

/* NULL: there is none. Any thread. */
const struct blas_functions *blas_load(void);

/* What the loader said where there is none. */
const char *blas_load_error(void);
