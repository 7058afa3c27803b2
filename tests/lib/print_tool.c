// SPDX-License-Identifier: MIT
/*
 * For tests/lib/print_numpy.py: reads lines "DTYPE NDIM SHAPE... OFFSET" and
 * prints the tensor that lies at that byte of the file argv[1], then a line
 * "%%". Odd lines come from memory, even ones from file storage.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/tensor.h>

#include "tests/kit/tap.h"
#include "tests/kit/tool_file.h"

static void print_one(tarn_storage *storage, const char *dtype_name)
{
	int64_t shape[TARN_NDIM_MAX] = {0};
	long long n, offset;
	enum tarn_dtype dtype;
	struct tarn_layout layout;
	tarn_tensor *t = NULL;
	char *text = NULL;
	int ndim;

	if (scanf("%d", &ndim) != 1 || ndim < 0 || ndim > TARN_NDIM_MAX)
		bail("no ndim");
	for (int i = 0; i < ndim; i++) {
		if (scanf("%lld", &n) != 1)
			bail("no extent");
		shape[i] = n;
	}
	if (scanf("%lld", &offset) != 1)
		bail("no offset");
	if (tarn_dtype_from_name(dtype_name, &dtype) < 0 ||
		tarn_layout_contiguous(dtype, ndim, shape, &layout) < 0 ||
		tarn_tensor_new(storage, (uint64_t)offset, &layout, &t) < 0 ||
		tarn_tensor_format(t, 0, &text) < 0)
		bail("%s", tarn_error_message());
	printf("%s\n%%%%\n", text);
	free(text);
	tarn_tensor_unref(t);
}

int main(int argc, char **argv)
{
	tarn_storage *storages[2] = {NULL, NULL};
	char dtype[32];

	tool_open(argc, argv, storages);
	for (int i = 0; scanf("%31s", dtype) == 1; i++)
		print_one(storages[i % 2], dtype);
	tool_close(storages);
	return 0;
}
