/* SPDX-License-Identifier: MIT */
/*
 * publish NAME: makes a tensor and publishes it. Run again, it replaces the
 * tensor, and processes that follow the name (follow.c) get the new one.
 */
#include <stdio.h>

#include <tarn/tarn.h>

int main(int argc, char **argv)
{
	const int64_t shape[] = {1000, 1000};
	tarn_store *store = NULL;
	tarn_tensor *t = NULL;
	uint64_t version = 0;
	int r;

	if (argc != 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: publish NAME\n");
		return 2;
	}
	r = tarn_store_open(NULL, NULL, &store);
	if (r >= 0)
		r = tarn_store_create(store, TARN_F32, 2, shape, 0, &t);
	if (r >= 0) { /* this process's own, so far */
		float *p = tarn_tensor_data(t);

		for (int i = 0; i < 1000 * 1000; i++)
			p[i] = (float)i / 1000;
		r = tarn_store_publish_one(store, argv[1], t, NULL, &version);
	}
	if (r >= 0) /* all see it now; no process can write it any more */
		printf("%s version %d\n", argv[1], (int)version);
	else
		fprintf(stderr, "publish: %s\n", tarn_error_message());

	tarn_tensor_unref(t);
	tarn_store_unref(store);
	return r < 0;
}
