/* SPDX-License-Identifier: MIT */
/*
 * publish NAME: a tensor made here becomes everybody's. Run again, it replaces
 * it, and whoever follows the name (follow.c) gets the new one.
 */
#include <stdio.h>

#include <tarn/tarn.h>

int main(int argc, char **argv)
{
	const int64_t shape[] = {1000, 1000};
	struct tarn_publish_item item = {.name = argc == 2 ? argv[1] : ""};
	tarn_store *store = NULL;
	uint64_t version = 0;
	int r;

	r = tarn_store_open(NULL, &store);
	if (r >= 0)
		r = tarn_store_create(
			store, TARN_F32, 2, shape, 0, &item.tensor);
	if (r >= 0) { /* this process's own, so far */
		float *p = tarn_tensor_data(item.tensor);

		for (int i = 0; i < 1000 * 1000; i++)
			p[i] = (float)i / 1000;
		r = tarn_store_publish(store, &item, 1, NULL, &version);
	}
	if (r >= 0) /* all see it now, and nobody can write it any more */
		printf("%s version %d\n", item.name, (int)version);
	else
		fprintf(stderr, "publish: %s\n", tarn_error_message());

	tarn_tensor_unref(item.tensor);
	tarn_store_unref(store);
	return r < 0;
}
