// SPDX-License-Identifier: MIT
/*
 * Products by tarn_matmul into a destination, beside cblas_sgemm called for the
 * same memory, in turns. One line a case:
 *
 *	NAME: blas US us, tarn US us, RATIO of its rate
 *
 * Medians of the rounds: of the thread's CPU time, with one thread, so that other
 * programs count only for the memory that they use; else of the clock's. BLAS has
 * its own threads there, as many as tarn has; in a stack cblas_sgemm is called
 * once for each product.
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/ops.h>

#include "bench/times.h"

#define ROUNDS 9
#define LONG_ENOUGH 1e-3 /* seconds of a round: many calls of small ones */

/* Microseconds: so long do OpenBLAS's threads look for more work, on processors
 * that are tarn's next. */
#define SPINNING 300000

extern void openblas_set_num_threads(int n) __attribute__((__weak__));

static const struct {
	const char *name;
	int stacked, m, n, k;
	int turned; /* the second factor is transposed in memory */
} cases[] = {
	{"64", 1, 64, 64, 64, 0},
	{"96", 1, 96, 96, 96, 0},
	{"128", 1, 128, 128, 128, 0},
	{"192", 1, 192, 192, 192, 0},
	{"256", 1, 256, 256, 256, 0},
	{"384", 1, 384, 384, 384, 0},
	{"512", 1, 512, 512, 512, 0},
	{"1024", 1, 1024, 1024, 1024, 0},
	{"2048", 1, 2048, 2048, 2048, 0},
	{"512-turned", 1, 512, 512, 512, 1},
	{"32x784x128-turned", 1, 32, 128, 784, 1},
	{"1x1024x1024-turned", 1, 1, 1024, 1024, 1},
	{"4096x1024x1", 1, 4096, 1, 1024, 0},
	{"16 of 10x64x10-turned", 16, 10, 10, 64, 1},
	{"256 of 64", 256, 64, 64, 64, 0},
	{"32 of 256", 32, 256, 256, 256, 0},
};

struct run {
	tarn_tensor *a, *b, *c;
	int i, calls;
};

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s\n", tarn_error_message());
	exit(1);
}

static tarn_tensor *matrices(int stacked, int rows, int cols)
{
	int64_t shape[] = {stacked, rows, cols};
	tarn_tensor *t = NULL;

	/* One matrix has two dimensions. */
	check(tarn_tensor_full(
		TARN_F32, 2 + (stacked > 1), shape + (stacked == 1), 0.5, &t));
	return t;
}

static void by_blas(const struct run *r)
{
	int m = cases[r->i].m, n = cases[r->i].n, k = cases[r->i].k;
	const float *a = tarn_tensor_data(r->a), *b = tarn_tensor_data(r->b);
	float *c = tarn_tensor_data(r->c);

	for (int s = 0; s < cases[r->i].stacked; s++)
		cblas_sgemm(CblasRowMajor, CblasNoTrans,
			cases[r->i].turned ? CblasTrans : CblasNoTrans, m, n, k,
			1, a + (long)s * m * k, k, b + (long)s * k * n,
			cases[r->i].turned ? k : n, 0, c + (long)s * m * n, n);
}

static void by_tarn(const struct run *r)
{
	tarn_tensor *out = r->c;

	check(tarn_matmul(r->a, r->b, &out));
}

static clockid_t clock_used = CLOCK_MONOTONIC;

static double measure(const struct run *r, void (*fn)(const struct run *))
{
	double begin = seconds(clock_used);

	for (int i = 0; i < r->calls; i++)
		fn(r);
	return (seconds(clock_used) - begin) / r->calls;
}

static void bench(int i)
{
	int m = cases[i].m, n = cases[i].n, k = cases[i].k;
	struct run r = {.i = i, .calls = 1};
	double blas[ROUNDS], tarn[ROUNDS], x, y;
	tarn_tensor *b;

	r.a = matrices(cases[i].stacked, m, k);
	b = cases[i].turned ? matrices(cases[i].stacked, n, k)
			    : matrices(cases[i].stacked, k, n);
	r.b = b;
	if (cases[i].turned) {
		check(tarn_tensor_transpose(b, -2, -1, &r.b));
		tarn_tensor_unref(b);
	}
	r.c = matrices(cases[i].stacked, m, n);
	by_blas(&r);
	while (measure(&r, by_blas) * r.calls < LONG_ENOUGH)
		r.calls *= 2;
	for (int j = 0; j < ROUNDS; j++) {
		blas[j] = measure(&r, by_blas);
		if (clock_used == CLOCK_MONOTONIC) {
			usleep(SPINNING);
			by_tarn(&r);
		}
		tarn[j] = measure(&r, by_tarn);
	}
	x = median(blas, ROUNDS);
	y = median(tarn, ROUNDS);
	printf("%s: blas %.1f us, tarn %.1f us, %.2f of its rate\n",
		cases[i].name, x * 1e6, y * 1e6, x / y);
	fflush(stdout);
	tarn_tensor_unref(r.a);
	tarn_tensor_unref(r.b);
	tarn_tensor_unref(r.c);
}

int main(int argc, char **argv)
{
	if (openblas_set_num_threads)
		openblas_set_num_threads(tarn_ops_threads());
	if (tarn_ops_threads() == 1)
		clock_used = CLOCK_THREAD_CPUTIME_ID;
	for (int i = 0; i < (int)(sizeof(cases) / sizeof(cases[0])); i++)
		if (argc < 2 || !strcmp(argv[1], cases[i].name))
			bench(i);
	return 0;
}
