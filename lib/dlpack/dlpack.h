/* SPDX-License-Identifier: MIT */
/*
 * What both directions of DLPack share: how it calls tarn's dtypes, and the
 * devices.
 */
#pragma once

#include <tarn/dlpack.h>
#include <tarn/dlpack_abi.h>

/* The name of dtype there. Code and bits tell all 22 apart. */
DLDataType dlpack_type(enum tarn_dtype dtype);

/* What has that name, whatever the lanes; TARN_DTYPE_NONE: no dtype of ours. */
enum tarn_dtype dlpack_dtype(DLDataType type);

/* "CUDA"; "unknown" for a number that DLPack 1.1 does not have. Static. */
const char *dlpack_device_name(unsigned device_type);
