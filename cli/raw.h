/* SPDX-License-Identifier: MIT */
/* The bytes of a tensor, in C order, to stdout. */
#pragma once

#include <tarn/tensor.h>

/* 0; or -errno, after saying why unless the reader has gone (-EPIPE). */
int raw_write(tarn_tensor *tensor);
