/* SPDX-License-Identifier: MIT */
/*
 * DLPack: how array libraries hand memory to each other. The structures and
 * numbers are those of its ABI, version 1.1.
 *
 * Source: dmlc/dlpack, include/dlpack/dlpack.h; the protocol around it is that
 * of the Python array API standard.
 */
#pragma once

#include <stdint.h>

#define DL_MAJOR 1
#define DL_MINOR 1

#define DL_CAPSULE "dltensor"
#define DL_CAPSULE_USED "used_dltensor"
#define DL_CAPSULE_VERSIONED "dltensor_versioned"
#define DL_CAPSULE_VERSIONED_USED "used_dltensor_versioned"

enum dl_device_type {
	DL_CPU = 1,
	DL_CUDA_HOST = 3, /* pinned memory, which the CPU reads too */
};

enum dl_type_code {
	DL_INT = 0,
	DL_UINT = 1,
	DL_FLOAT = 2,
	DL_BFLOAT = 4,
	DL_COMPLEX = 5,
	DL_BOOL = 6,
	DL_F8_E4M3FN = 10,
	DL_F8_E4M3FNUZ = 11,
	DL_F8_E5M2 = 12,
	DL_F8_E5M2FNUZ = 13,
	DL_F8_E8M0FNU = 14,
};

enum dl_flags {
	DL_READ_ONLY = 1,
	DL_IS_COPIED = 2,
};

struct dl_device {
	int32_t type; /* enum dl_device_type */
	int32_t id;
};

struct dl_type {
	uint8_t code; /* enum dl_type_code */
	uint8_t bits;
	uint16_t lanes;
};

struct dl_tensor {
	void *data;
	struct dl_device device;
	int32_t ndim;
	struct dl_type dtype;
	int64_t *shape;
	int64_t *strides; /* elements; NULL: C order */
	uint64_t byte_offset;
};

struct dl_managed {
	struct dl_tensor tensor;
	void *context;
	void (*deleter)(struct dl_managed *self);
};

struct dl_managed_versioned {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct dl_managed_versioned *self);
	uint64_t flags; /* enum dl_flags */
	struct dl_tensor tensor;
};

/* How tarn's dtypes are called there; of 0 bits: not at all. */
extern const struct dl_type dl_types[];
