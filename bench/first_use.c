/* SPDX-License-Identifier: MIT */
/*
 * The first use of a loaded tensor by another process:
 *
 *	bench/first_use SOCKET POOL NAME
 *
 * opens a store in that pool, finds the tensor and reads a byte of each 4 KiB
 * of it, in order. Prints what the reads took, and the page faults.
 */
#include <stdio.h>
#include <sys/resource.h>

#include <tarn/tarn.h>

#include "bench/times.h"

static long faults(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

static void use(const char *pool, const tarn_tensor *t)
{
	const volatile unsigned char *p = tarn_tensor_data(t);
	int64_t size = tarn_layout_nbytes(tarn_tensor_layout(t));
	long before = faults();
	double began = wall();

	for (int64_t at = 0; at < size; at += 4096)
		(void)p[at];
	printf("%s %.2f GiB: %.3f ms, %ld faults\n", pool,
		(double)size / (1 << 30), 1000 * (wall() - began),
		faults() - before);
}

int main(int argc, char **argv)
{
	const struct tarn_store_options options = {
		.pool = argc == 4 ? argv[2] : ""};
	tarn_store *store = NULL;
	tarn_tensor *t = NULL;
	int r;

	if (argc != 4) {
		fprintf(stderr, "usage: bench/first_use SOCKET POOL NAME\n");
		return 2;
	}
	r = tarn_store_open(argv[1], &options, &store);
	if (r == 0)
		r = tarn_store_lookup(store, argv[3], &t);
	if (r == 0)
		use(argv[2], t);
	else
		fprintf(stderr, "bench/first_use: %s\n", tarn_error_message());
	tarn_tensor_unref(t);
	tarn_store_unref(store);
	return r < 0;
}
