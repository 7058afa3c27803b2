/* SPDX-License-Identifier: MIT */
/*
 * The kernels of kernel_steps.h and list_steps.h, each by its name: a function of CUDA for the library
 * to find. Threads stride over the steps, blocks over the tiles, so that any
 * grid does all of them.
 */
#include "lib/cuda/list_steps.h"

template <int kind, int a, int b>
__device__ __forceinline__ void run(const struct cuda_nest &p)
{
	if constexpr (kind < CUDA_TILE_RAW) {
		uint64_t i = (uint64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;

		for (; i < p.steps; i += (uint64_t)gridDim.x * CUDA_THREADS)
			kernel_step(&p, i, kind, a, b);
	} else {
		constexpr int size = kind == CUDA_TILE_RAW   ? a
				     : kind == CUDA_TILE_ANY ? b
				     : b == TARN_F32	     ? 4
							     : 2;
		__shared__ alignas(8) char tile[CUDA_SIDE * CUDA_TILE_PITCH(size)];

		for (uint64_t i = blockIdx.x; i < p.steps; i += gridDim.x) {
			const struct tile t = tile_at(&p, (u32)i);

			tile_load(&p, &t, threadIdx.x, tile, kind, a, b);
			__syncthreads();
			tile_store(&p, &t, threadIdx.x, tile, kind, a, b);
			__syncthreads();
		}
	}
}

#define K(name, kind, a, b)                                                    \
	extern "C" __global__ void __launch_bounds__(CUDA_THREADS)             \
		tarn_##name(const __grid_constant__ struct cuda_nest p)        \
	{                                                                      \
		run<CUDA_##kind, a, b>(p);                                     \
	}
CUDA_KERNELS

/* ---- over lists ---------------------------------------------------------- */

#define LIST(name)                                                             \
	extern "C" __global__ void __launch_bounds__(CUDA_THREADS) tarn_##name(\
		const __grid_constant__ struct cuda_list p)

/* A block adds up what its threads have; the host adds up the blocks. */
LIST(sums)
{
	__shared__ struct word_sums of[CUDA_THREADS];
	u64 thread = (u64)blockIdx.x * CUDA_THREADS + threadIdx.x;

	of[threadIdx.x] =
		list_sums(&p, thread, (u64)gridDim.x * CUDA_THREADS);
	for (unsigned half = CUDA_THREADS / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half) {
			of[threadIdx.x].a += of[threadIdx.x + half].a;
			of[threadIdx.x].b += of[threadIdx.x + half].b;
		}
	}
	if (!threadIdx.x) {
		((u64 *)p.out)[2 * blockIdx.x] = of[0].a;
		((u64 *)p.out)[2 * blockIdx.x + 1] = of[0].b;
	}
}

LIST(check)
{
	u64 i = (u64)blockIdx.x * CUDA_THREADS + threadIdx.x;

	for (; i < p.n; i += (u64)gridDim.x * CUDA_THREADS)
		list_check(&p, i);
}

LIST(scatter)
{
	u64 i = (u64)blockIdx.x * CUDA_THREADS + threadIdx.x;

	for (; i < p.n; i += (u64)gridDim.x * CUDA_THREADS)
		list_scatter(&p, i);
}
