// SPDX-License-Identifier: MIT
/*
 * The loop over words, which the compiler turns into vectors, for each kind of
 * CPU that has wider ones. It is bound by multiplications, of which AVX-512DQ
 * does those of 64 bits in one step.
 */
#include "lib/number/word_sums.h"

#ifdef __x86_64__
#define FOR(cpu) __attribute__((__target__(cpu)))
#endif

/* Keys are added up: a product for each would cost as much as the rest. */
ALWAYS void add(struct word_sums *sums, const char *p, u64 n, u64 place)
{
	u64 key_a = (place + 1) * WORD_STEP_A,
	    key_b = (place + 1) * WORD_STEP_B;
	u64 a = 0, b = 0;

	for (u64 i = 0; i < n; i++) {
		u64 word, x, y;

		memcpy(&word, p + 8 * i, sizeof(word));
		x = word + key_a;
		y = word + key_b;
		x ^= x >> 32;
		x *= WORD_FACTOR;
		x ^= x >> 29;
		a += x;
		b += (y & 0xffffffff) * (y >> 32);
		key_a += WORD_STEP_A;
		key_b += WORD_STEP_B;
	}
	sums->a += a;
	sums->b += b;
}

static void add_any(struct word_sums *sums, const void *p, u64 n, u64 place)
{
	add(sums, p, n, place);
}

#ifdef FOR
FOR("avx2")
static void add_avx2(struct word_sums *sums, const void *p, u64 n, u64 place)
{
	add(sums, p, n, place);
}

FOR("avx512f,avx512dq,avx512vl,prefer-vector-width=512")
static void add_avx512(struct word_sums *sums, const void *p, u64 n, u64 place)
{
	add(sums, p, n, place);
}
#endif

void word_sums_add(struct word_sums *sums, const void *words, u64 n, u64 place)
{
#ifdef FOR
	if (__builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl")) {
		add_avx512(sums, words, n, place);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		add_avx2(sums, words, n, place);
		return;
	}
#endif
	add_any(sums, words, n, place);
}
