/* SPDX-License-Identifier: MIT */
/* kernels_type.h once for each type. */
#define TYPE bool
#define PLACE TYPE_BOOL
#define T uint8_t
#define UNSIGNED uint8_t
#define IS_BOOL 1
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef IS_BOOL
#define IS_BOOL 0

#define IS_INT 1
#define IS_SIGNED 0
#define SHIFTED_OUT *((WIDE)y < BITS)
#define TYPE u8
#define PLACE TYPE_U8
#define T uint8_t
#define UNSIGNED uint8_t
#define WIDE uint32_t
#define BITS 8u
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef BITS

#define TYPE u16
#define PLACE TYPE_U16
#define T uint16_t
#define UNSIGNED uint16_t
#define BITS 16u
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef BITS

#define TYPE u32
#define PLACE TYPE_U32
#define T uint32_t
#define UNSIGNED uint32_t
#define BITS 32u
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef BITS
#undef WIDE

#define TYPE u64
#define PLACE TYPE_U64
#define T uint64_t
#define UNSIGNED uint64_t
#define WIDE uint64_t
#define BITS 64u
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef BITS
#undef WIDE

#undef IS_SIGNED
#undef SHIFTED_OUT
#define IS_SIGNED 1
#define SHIFTED_OUT
#define TYPE i8
#define PLACE TYPE_I8
#define T int8_t
#define UNSIGNED uint8_t
#define WIDE uint32_t
#define BITS 8u
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef BITS

#define TYPE i16
#define PLACE TYPE_I16
#define T int16_t
#define UNSIGNED uint16_t
#define BITS 16u
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef BITS

#define TYPE i32
#define PLACE TYPE_I32
#define T int32_t
#define UNSIGNED uint32_t
#define BITS 32u
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef BITS
#undef WIDE

#define TYPE i64
#define PLACE TYPE_I64
#define T int64_t
#define UNSIGNED uint64_t
#define WIDE uint64_t
#define BITS 64u
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef BITS
#undef WIDE
#undef IS_INT
#undef IS_SIGNED
#undef SHIFTED_OUT

#define IS_FLOAT 1
#define TYPE f32
#define PLACE TYPE_F32
#define T float
#define UNSIGNED float
#define M(name) name##f
#define LARGEST FLT_MAX
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef M
#undef LARGEST

#define TYPE f64
#define PLACE TYPE_F64
#define T double
#define UNSIGNED double
#define M(name) name
#define LARGEST DBL_MAX
#include "ops/kernels_type.h"
#undef TYPE
#undef PLACE
#undef T
#undef UNSIGNED
#undef M
#undef LARGEST
#undef IS_FLOAT
#undef IS_BOOL
