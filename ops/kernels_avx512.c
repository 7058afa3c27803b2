// SPDX-License-Identifier: MIT
/* The kernels for processors of x86-64-v4. */
#ifdef __x86_64__
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define VARIANT avx512
#include "ops/kernels_all.h"
#else
#include "ops/kernels.h"
const struct kernels kernels_avx512 = {0};
#endif
