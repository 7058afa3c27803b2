// SPDX-License-Identifier: MIT
/*
 * DLPack's names of dtypes and devices. A dtype there is a code, a number of
 * bits and a number of lanes; each of tarn's 22 has one.
 */
#include "lib/dlpack/dlpack.h"

#include <stddef.h>

#include "base/checked.h"

/* The layout of the ABI, whichever header the structs are from. */
#define LIES_AT(type, member, offset)                                          \
	_Static_assert(offsetof(type, member) == (offset),                     \
		"DLPack has " #member " elsewhere")

_Static_assert(sizeof(DLTensor) == 48, "DLPack has another DLTensor");
LIES_AT(DLTensor, device, 8);
LIES_AT(DLTensor, ndim, 16);
LIES_AT(DLTensor, dtype, 20);
LIES_AT(DLTensor, shape, 24);
LIES_AT(DLTensor, strides, 32);
LIES_AT(DLTensor, byte_offset, 40);
LIES_AT(DLManagedTensor, manager_ctx, 48);
LIES_AT(DLManagedTensor, deleter, 56);
LIES_AT(DLManagedTensorVersioned, manager_ctx, 8);
LIES_AT(DLManagedTensorVersioned, deleter, 16);
LIES_AT(DLManagedTensorVersioned, flags, 24);
LIES_AT(DLManagedTensorVersioned, dl_tensor, 32);
_Static_assert(sizeof(DLManagedTensorVersioned) == 80, "DLPack has another");

static const DLDataType types[TARN_DTYPE_MAX + 1] = {
	[TARN_BOOL] = {kDLBool, 8, 1},
	[TARN_F4] = {kDLFloat4_e2m1fn, 4, 1},
	[TARN_F6_E2M3] = {kDLFloat6_e2m3fn, 6, 1},
	[TARN_F6_E3M2] = {kDLFloat6_e3m2fn, 6, 1},
	[TARN_U8] = {kDLUInt, 8, 1},
	[TARN_I8] = {kDLInt, 8, 1},
	[TARN_F8_E5M2] = {kDLFloat8_e5m2, 8, 1},
	[TARN_F8_E4M3] = {kDLFloat8_e4m3fn, 8, 1},
	[TARN_F8_E8M0] = {kDLFloat8_e8m0fnu, 8, 1},
	[TARN_F8_E4M3FNUZ] = {kDLFloat8_e4m3fnuz, 8, 1},
	[TARN_F8_E5M2FNUZ] = {kDLFloat8_e5m2fnuz, 8, 1},
	[TARN_I16] = {kDLInt, 16, 1},
	[TARN_U16] = {kDLUInt, 16, 1},
	[TARN_F16] = {kDLFloat, 16, 1},
	[TARN_BF16] = {kDLBfloat, 16, 1},
	[TARN_I32] = {kDLInt, 32, 1},
	[TARN_U32] = {kDLUInt, 32, 1},
	[TARN_F32] = {kDLFloat, 32, 1},
	[TARN_C64] = {kDLComplex, 64, 1},
	[TARN_F64] = {kDLFloat, 64, 1},
	[TARN_I64] = {kDLInt, 64, 1},
	[TARN_U64] = {kDLUInt, 64, 1},
};

DLDataType dlpack_type(enum tarn_dtype dtype)
{
	return types[dtype];
}

enum tarn_dtype dlpack_dtype(DLDataType type)
{
	for (int i = 1; i <= TARN_DTYPE_MAX; i++)
		if (types[i].code == type.code && types[i].bits == type.bits)
			return i;
	return TARN_DTYPE_NONE;
}

const char *dlpack_device_name(unsigned device_type)
{
	static const char *const names[] = {
		[kDLCPU] = "the CPU",
		[kDLCUDA] = "CUDA",
		[kDLCUDAHost] = "CUDA's host memory",
		[kDLOpenCL] = "OpenCL",
		[kDLVulkan] = "Vulkan",
		[kDLMetal] = "Metal",
		[kDLVPI] = "VPI",
		[kDLROCM] = "ROCm",
		[kDLROCMHost] = "ROCm's host memory",
		[kDLExtDev] = "an extension's",
		[kDLCUDAManaged] = "CUDA's managed memory",
		[kDLOneAPI] = "oneAPI",
		[kDLWebGPU] = "WebGPU",
		[kDLHexagon] = "Hexagon",
		[kDLMAIA] = "MAIA",
		[kDLTrn] = "Trainium",
	};
	const char *name =
		device_type < ARRAY_SIZE(names) ? names[device_type] : NULL;

	return name ? name : "unknown";
}
