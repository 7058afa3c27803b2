// SPDX-License-Identifier: MIT
/* The kernels for processors of x86-64-v3. */
#ifdef __x86_64__
#pragma GCC target("arch=x86-64-v3")
#define VARIANT avx2
#include "ops/kernels_all.h"
#else
#include "ops/kernels.h"
const struct kernels kernels_avx2 = {0};
#endif
