/* SPDX-License-Identifier: MIT */
#include "tests/cuda/tensors.h"

#include "tests/kit/must.h"

struct tarn_cuda_device gpu;

void gpu_find(void)
{
	must(tarn_cuda_device("0", &gpu));
}

tarn_tensor *host_tensor(int ndim, const int64_t *shape)
{
	tarn_tensor *t;
	unsigned char *data;
	int64_t n = 1;

	must(tarn_tensor_zeros(TARN_U8, ndim, shape, &t));
	for (int i = 0; i < ndim; i++)
		n *= shape[i];
	data = tarn_tensor_data(t);
	for (int64_t i = 0; i < n; i++)
		data[i] = (unsigned char)(i * 7 + i / 251);
	return t;
}

bool tensors_same(tarn_tensor *a, tarn_tensor *b)
{
	return must(tarn_tensor_equal(a, b)) == 1;
}

tarn_tensor *tensor_back(tarn_tensor *t)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	tarn_tensor *ret;

	must(tarn_tensor_zeros(l->dtype, l->ndim, l->shape, &ret));
	must(tarn_copy(ret, t, NULL, NULL));
	return ret;
}

/* There and back, as a view of what is there. */
