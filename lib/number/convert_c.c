// SPDX-License-Identifier: MIT
/*
 * The steps of conversions for any CPU: plain C.
 */
#define CONVERT_SET convert_set_c
#define CONVERT_LINKAGE
#include "lib/number/convert_kernels.h"
