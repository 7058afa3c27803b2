// SPDX-License-Identifier: MIT
/*
 * Which kernels: those of the newest generation that the processor and its
 * system have. TARN_KERNELS names an older one, for tests and comparisons.
 */
#include "ops/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct kernels *choose(void)
{
	const char *at_most = getenv("TARN_KERNELS");

	if (at_most && !strcmp(at_most, "c"))
		return &kernels_c;
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512cd") &&
		__builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl") &&
		!(at_most && !strcmp(at_most, "avx2")))
		return &kernels_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
		__builtin_cpu_supports("fma"))
		return &kernels_avx2;
#endif
	return &kernels_c;
}

const struct kernels *kernels(void)
{
	static const struct kernels *_Atomic chosen;
	/* Relaxed: all threads choose the same constant. */
	const struct kernels *k =
		atomic_load_explicit(&chosen, memory_order_relaxed);

	if (!k) {
		k = choose();
		atomic_store_explicit(&chosen, k, memory_order_relaxed);
	}
	return k;
}

enum type kernels_type(enum tarn_dtype dtype)
{
	switch (dtype) {
	case TARN_BOOL:
		return TYPE_BOOL;
	case TARN_U8:
		return TYPE_U8;
	case TARN_I8:
		return TYPE_I8;
	case TARN_U16:
		return TYPE_U16;
	case TARN_I16:
		return TYPE_I16;
	case TARN_U32:
		return TYPE_U32;
	case TARN_I32:
		return TYPE_I32;
	case TARN_U64:
		return TYPE_U64;
	case TARN_I64:
		return TYPE_I64;
	case TARN_F64:
		return TYPE_F64;
	default:
		return TYPE_F32;
	}
}
