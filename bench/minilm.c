// SPDX-License-Identifier: MIT
/*
 * minilm MODEL.safetensors: answers each line "BATCH LENGTH THREADS" on stdin by
 * the microseconds that examples/minilm takes for such a batch, the median of
 * some runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tarn/tarn.h>

#include "examples/minilm.h"

enum { RUNS = 9 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int measure(struct minilm *model, tarn_state *state, int64_t batch,
	int64_t length, double *ret)
{
	const int64_t shape[] = {batch, length};
	const int64_t out_shape[] = {batch, minilm_width(model)};
	tarn_tensor *ids = NULL, *out = NULL;
	double times[RUNS];
	int r = tarn_random_int(1, 0, 1000, 20000, TARN_I64, 2, shape, &ids);

	if (r >= 0)
		r = tarn_tensor_zeros(TARN_F32, 2, out_shape, &out);
	for (int i = -2; i < RUNS && r >= 0; i++) {
		double begun = now();

		r = minilm_run(model, state, ids, out);
		if (i >= 0)
			times[i] = now() - begun;
	}
	qsort(times, RUNS, sizeof(times[0]), by_size);
	*ret = times[RUNS / 2];
	tarn_tensor_unref(ids);
	tarn_tensor_unref(out);
	return r;
}

int main(int argc, char **argv)
{
	tarn_file *file = NULL;
	tarn_module *tree = NULL;
	struct minilm *model = NULL;
	tarn_state *state = NULL;
	long long batch, length;
	double us;
	int threads, r;

	if (argc != 2) {
		fprintf(stderr, "usage: minilm MODEL.safetensors\n");
		return 2;
	}
	r = tarn_file_open(argv[1], &file);
	if (r >= 0)
		r = tarn_module_open_file(file, NULL, &tree);
	if (r >= 0)
		r = minilm_new(tree, &model);
	if (r >= 0)
		state = tarn_module_hold(tree);
	while (r >= 0 &&
		scanf("%lld %lld %d", &batch, &length, &threads) == 3) {
		r = tarn_ops_set_threads(threads);
		if (r >= 0)
			r = measure(model, state, batch, length, &us);
		if (r >= 0)
			printf("%.1f\n", us);
		fflush(stdout);
	}
	if (r < 0)
		fprintf(stderr, "minilm: %s\n", tarn_error_message());
	tarn_state_unref(state);
	minilm_free(model);
	tarn_module_unref(tree);
	tarn_file_unref(file);
	return r < 0;
}
