/* SPDX-License-Identifier: MIT */
/*
 * The shortest whole program: a tensor by its address, a view of it, printed.
 * Run it twice: the second process reads no file.
 */

#include <stdio.h>
#include <stdlib.h>

#include <tarn/tarn.h>

int main(int argc, char **argv)
{
	tarn_store *store = NULL;
	tarn_tensor *whole = NULL, *part = NULL;
	char *text = NULL;
	int r;

	if (argc != 3) {
		fprintf(stderr, "usage: quickstart FILE:TENSOR|NAME EXPR\n");
		return 2;
	}
	r = tarn_store_open(NULL, NULL, &store); /* starts a daemon */
	if (r >= 0)
		r = tarn_store_get(store, argv[1], NULL, &whole); /* once */
	if (r >= 0)
		r = tarn_tensor_eval(whole, argv[2], &part); /* no copy */
	if (r >= 0)
		r = tarn_tensor_format(part, 0, &text);
	if (r >= 0)
		puts(text);
	else
		fprintf(stderr, "quickstart: %s\n", tarn_error_message());

	free(text);
	tarn_tensor_unref(part);
	tarn_tensor_unref(whole);
	tarn_store_unref(store);
	return r < 0;
}
