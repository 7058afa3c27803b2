// SPDX-License-Identifier: MIT
/*
 * Rows of one run, of 65 to 576 bytes, for AVX-512.
 *
 * A core moves the next rows while it waits for the lines of this one, as far
 * as their instructions fit into its window. So a row is moved by few: whole
 * lines, their number known to the compiler, and once more the last 64 bytes.
 * The C library moves 264 bytes by eight loads and eight stores of 64.
 */
#include "lib/move/rows_walk.h"

#ifdef __x86_64__

#define AVX512 __attribute__((__target__("avx512f")))

/* Lines before the last 64 bytes. Picked: they are to stay in registers, and a
 * loop of their own for each number of them is code. */
#define LINES_MAX 8

typedef int64_t line
	__attribute__((__vector_size__(LINE), __aligned__(1), __may_alias__));

AVX512 INLINE void walk_lines(const struct walk *walk, int64_t run, int n)
{
	const struct walk w = *walk;
	char *dst = w.dst;

	for (int64_t i = 0; i < w.n; i++, dst += w.dst_step) {
		const char *src = row_at(&w, i);
		line lines[LINES_MAX], last;

		prefetch_from(&w, i, run);
		last = *(const line *)(src + run - LINE);
#pragma GCC unroll 8
		for (int k = 0; k < n; k++)
			lines[k] = ((const line *)src)[k];
#pragma GCC unroll 8
		for (int k = 0; k < n; k++)
			((line *)dst)[k] = lines[k];
		*(line *)(dst + run - LINE) = last;
	}
}

#define LINES(n)                                                               \
	case n:                                                                \
		walk_lines(walk, run, n);                                      \
		break

AVX512 static void walk_any_lines(const struct walk *walk, int64_t run)
{
	switch ((run - 1) / LINE) {
		LINES(1);
		LINES(2);
		LINES(3);
		LINES(4);
		LINES(5);
		LINES(6);
		LINES(7);
		LINES(8);
	}
}

bool walk_avx512(const struct walk *walk, int64_t run)
{
	if (run <= LINE || run > (LINES_MAX + 1) * LINE ||
		!__builtin_cpu_supports("avx512f"))
		return false;
	walk_any_lines(walk, run);
	return true;
}

#else

bool walk_avx512(const struct walk *walk, int64_t run)
{
	(void)walk;
	(void)run;
	return false;
}

#endif
