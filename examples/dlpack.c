/* SPDX-License-Identifier: MIT */
/*
 * dlpack NAME: a shared tensor, summed by code that knows DLPack and not tarn.
 *
 * Most array libraries import such a struct. It holds the tensor, so the
 * program closes the store before the struct is used.
 */
#include <stdio.h>

#include <tarn/tarn.h>
#include <tarn/dlpack_abi.h> /* or <dlpack/dlpack.h>, where that is */

/* The sum of dimensions dim and up, of which the first element is at. */
static double sum(const DLTensor *t, int dim, const float *at)
{
	double total = 0;

	if (dim == t->ndim)
		return *at;
	for (int64_t i = 0; i < t->shape[dim]; i++)
		total += sum(t, dim + 1, at + i * t->strides[dim]);
	return total;
}

static int consume(DLManagedTensorVersioned *managed)
{
	const DLTensor *t = &managed->dl_tensor;
	int is_f32 = t->dtype.code == kDLFloat && t->dtype.bits == 32;

	if (is_f32)
		printf("the sum is %.1f\n", sum(t, 0, t->data));
	else
		fprintf(stderr, "dlpack: the tensor is not F32\n");
	managed->deleter(managed); /* done with it: the lease ends here */
	return is_f32 ? 0 : -1;
}

int main(int argc, char **argv)
{
	DLManagedTensorVersioned *managed = NULL;
	tarn_store *store = NULL;
	tarn_tensor *t = NULL;
	int r;

	if (argc != 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: dlpack NAME\n");
		return 2;
	}
	r = tarn_store_open(NULL, NULL, &store);
	if (r >= 0)
		r = tarn_store_get(store, argv[1], NULL, &t);
	if (r >= 0)
		r = tarn_tensor_to_dlpack(t, 0, &managed); /* no copy */
	if (r < 0)
		fprintf(stderr, "dlpack: %s\n", tarn_error_message());
	tarn_tensor_unref(t);
	tarn_store_unref(store);
	if (r >= 0)
		r = consume(managed);
	return r < 0;
}
