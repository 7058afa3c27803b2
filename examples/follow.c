/* SPDX-License-Identifier: MIT */
/*
 * follow NAME: prints each tensor that is published as NAME, those to come
 * included, until the daemon ends.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/tarn.h>

int main(int argc, char **argv)
{
	tarn_store *store = NULL;
	uint64_t cursor = 0; /* nothing was seen so far */
	int r;

	if (argc != 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: follow NAME\n");
		return 2;
	}
	r = tarn_store_open(NULL, NULL, &store);
	while (r >= 0) {
		tarn_tensor *tensor = NULL;
		char *text = NULL;

		/* Sleeps, for ever if need be; no polling. */
		r = tarn_store_next(store, argv[1], &cursor, -1, &tensor);
		if (r >= 0)
			r = tarn_tensor_format(tensor, 0, &text);
		if (r >= 0)
			puts(text);
		fflush(stdout);
		free(text);
		tarn_tensor_unref(tensor);
	}
	if (r < 0)
		fprintf(stderr, "follow: %s\n", tarn_error_message());
	tarn_store_unref(store);
	return r < 0;
}
