// SPDX-License-Identifier: MIT
/* The kernels for any processor. */
#define VARIANT c
#include "ops/kernels_all.h"
