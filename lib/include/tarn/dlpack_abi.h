/* SPDX-License-Identifier: MIT */
/*
 * The structs of DLPack 1.1, for programs that have no <dlpack/dlpack.h>. A
 * program that has that header includes it instead of this one, or before it;
 * then this one adds nothing.
 *
 * Source: dmlc/dlpack, include/dlpack/dlpack.h. The names and the numbers are
 * the ABI's. What each means is said there and in the Python array API
 * standard.
 */
#pragma once

#ifndef DLPACK_DLPACK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define TARN_ENUM_I32 : int32_t
#else
#define TARN_ENUM_I32
#endif

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

/* Flags of struct DLManagedTensorVersioned. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1ul << 0)
/* The exporter copied the bytes: nobody else has them. */
#define DLPACK_FLAG_BITMASK_IS_COPIED (1ul << 1)
/* Elements of less than a byte have a byte each; without it they are packed. */
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1ul << 2)

typedef struct {
	uint32_t major; /* another one: only the fields up to flags are known */
	uint32_t minor; /* a higher one: there may be further numbers */
} DLPackVersion;

typedef enum TARN_ENUM_I32 {
	kDLCPU = 1,
	kDLCUDA = 2,
	kDLCUDAHost = 3, /* pinned; the CPU reads it */
	kDLOpenCL = 4,
	kDLVulkan = 7,
	kDLMetal = 8,
	kDLVPI = 9,
	kDLROCM = 10,
	kDLROCMHost = 11,
	kDLExtDev = 12,
	kDLCUDAManaged = 13, /* migrates; the CPU reads it */
	kDLOneAPI = 14,
	kDLWebGPU = 15,
	kDLHexagon = 16,
	kDLMAIA = 17,
	kDLTrn = 18,
} DLDeviceType;

typedef struct {
	DLDeviceType device_type;
	int32_t device_id;
} DLDevice;

typedef enum {
	kDLInt = 0,
	kDLUInt = 1,
	kDLFloat = 2,
	kDLOpaqueHandle = 3,
	kDLBfloat = 4,
	kDLComplex = 5,
	kDLBool = 6,
	kDLFloat8_e3m4 = 7,
	kDLFloat8_e4m3 = 8,
	kDLFloat8_e4m3b11fnuz = 9,
	kDLFloat8_e4m3fn = 10,
	kDLFloat8_e4m3fnuz = 11,
	kDLFloat8_e5m2 = 12,
	kDLFloat8_e5m2fnuz = 13,
	kDLFloat8_e8m0fnu = 14,
	kDLFloat6_e2m3fn = 15,
	kDLFloat6_e3m2fn = 16,
	kDLFloat4_e2m1fn = 17,
} DLDataTypeCode;

typedef struct {
	uint8_t code; /* DLDataTypeCode */
	uint8_t bits;
	uint16_t lanes; /* values in one element; 1 but for vector types */
} DLDataType;

typedef struct {
	void *data;
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape;
	int64_t *strides; /* elements; NULL is C order */
	uint64_t byte_offset; /* of the first element, from data */
} DLTensor;

/* The form before version 1. */
typedef struct DLManagedTensor {
	DLTensor dl_tensor;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
	DLPackVersion version;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensorVersioned *self); /* or NULL */
	uint64_t flags; /* DLPACK_FLAG_BITMASK_ */
	DLTensor dl_tensor;
} DLManagedTensorVersioned;

#undef TARN_ENUM_I32
#ifdef __cplusplus
}
#endif
#endif
