/* SPDX-License-Identifier: MIT */
/* Tensors for tests of copies to a device and back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/tarn.h>

#define MIB ((int64_t)1 << 20)

extern struct tarn_cuda_device gpu;

/* Sets gpu to the first device. */
void gpu_find(void);

/* Bytes that differ, in memory of the host. */
tarn_tensor *host_tensor(int ndim, const int64_t *shape);
bool tensors_same(tarn_tensor *a, tarn_tensor *b);
/* A copy in memory of the host. */
tarn_tensor *tensor_back(tarn_tensor *t);
