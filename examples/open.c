/* SPDX-License-Identifier: MIT */
/*
 * open NAME [EXPR]: how long a process needs from nothing to a tensor.
 *
 * Connecting and mapping are paid once; every look-up after that makes no
 * system call. So the three are timed apart, and the look-up is repeated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tarn/tarn.h>

enum { TIMES = 1000 }; /* enough to see past the clock's own cost */

static double microseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int look_up_again(tarn_store *store, const char *name, double *ret_each)
{
	double begun = microseconds();

	for (int i = 0; i < TIMES; i++) {
		tarn_tensor *tensor = NULL;
		int r = tarn_store_lookup(store, name, &tensor);

		if (r < 0)
			return r;
		tarn_tensor_unref(tensor);
	}
	*ret_each = (microseconds() - begun) / TIMES;
	return 0;
}

int main(int argc, char **argv)
{
	tarn_store *store = NULL;
	tarn_tensor *tensor = NULL, *view = NULL;
	double t0, connected = 0, opened = 0, viewed = 0, each = 0;
	int r;

	if (argc < 2 || argc > 3 || argv[1][0] == '-') {
		fprintf(stderr, "usage: open NAME [EXPR]\n");
		return 2;
	}
	t0 = microseconds();
	r = tarn_store_open(NULL, NULL, &store);
	connected = microseconds();
	if (r >= 0)
		r = tarn_store_lookup(store, argv[1], &tensor);
	opened = microseconds();
	if (r >= 0)
		r = tarn_tensor_eval(tensor, argc == 3 ? argv[2] : "", &view);
	viewed = microseconds();
	if (r >= 0)
		r = look_up_again(store, argv[1], &each);
	if (r >= 0)
		printf("connect %.1f us, first open %.1f us, view %.2f us, "
		       "each further open %.2f us\n",
			connected - t0, opened - connected, viewed - opened,
			each);
	else
		fprintf(stderr, "open: %s\n", tarn_error_message());
	tarn_tensor_unref(view);
	tarn_tensor_unref(tensor);
	tarn_store_unref(store);
	return r < 0;
}
