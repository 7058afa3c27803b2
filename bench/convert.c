// SPDX-License-Identifier: MIT
/*
 * How fast runs are converted, beside memcpy of the larger side. Each pair is
 * a few rounds of conversion and memcpy in turn, over memory that was touched
 * before and is larger than any cache; the script asks numpy the same.
 *
 * usage: convert MIB [portable]; MIB of the larger side, portable: by plain C
 * alone. Lines of "NAME WHO GB/s".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/checked.h"
#include "bench/times.h"
#include "lib/number/convert.h"

#define ROUNDS 3

static const double scale = 1 / 255., bias = -0.5;

static const struct pair {
	const char *name;
	int dst, src;
	bool scaled;
} pairs[] = {
	{"u8-f32", TARN_F32, TARN_U8, false},
	{"u8-f32-scaled", TARN_F32, TARN_U8, true},
	{"u8-f16", TARN_F16, TARN_U8, false},
	{"u8-f16-scaled", TARN_F16, TARN_U8, true},
	{"u8-bf16", TARN_BF16, TARN_U8, false},
	{"u8-bf16-scaled", TARN_BF16, TARN_U8, true},
	{"i8-f32", TARN_F32, TARN_I8, false},
	{"f32-f32-scaled", TARN_F32, TARN_F32, true},
	{"f32-f16", TARN_F16, TARN_F32, false},
	{"f16-f32", TARN_F32, TARN_F16, false},
	{"f32-bf16", TARN_BF16, TARN_F32, false},
	{"bf16-f32", TARN_F32, TARN_BF16, false},
	{"f32-f64", TARN_F64, TARN_F32, false},
	{"f64-f32", TARN_F32, TARN_F64, false},
	{"f32-u8", TARN_U8, TARN_F32, false},
	{"f32-i8", TARN_I8, TARN_F32, false},
	{"i32-f32", TARN_F32, TARN_I32, false},
	{"i32-f64", TARN_F64, TARN_I32, false},
	{"i64-f32", TARN_F32, TARN_I64, false},
	{"i64-f64", TARN_F64, TARN_I64, false},
	{"f32-i32", TARN_I32, TARN_F32, false},
	{"f64-i64", TARN_I64, TARN_F64, false},
	{"i32-i64", TARN_I64, TARN_I32, false},
	{"i64-i32", TARN_I32, TARN_I64, false},
	{"f16-bf16", TARN_BF16, TARN_F16, false},
	{"bf16-f16", TARN_F16, TARN_BF16, false},
	{"f64-f16", TARN_F16, TARN_F64, false},
	{"f32-e4m3", TARN_F8_E4M3, TARN_F32, false},
	{"bf16-e4m3", TARN_F8_E4M3, TARN_BF16, false},
	{"e4m3-bf16", TARN_BF16, TARN_F8_E4M3, false},
	{"e4m3-f32", TARN_F32, TARN_F8_E4M3, false},
	{"f4-bf16", TARN_BF16, TARN_F4, false},
};

/* Of this thread: what others do with the core meanwhile is not its work. */
static double now(void)
{
	return seconds(CLOCK_THREAD_CPUTIME_ID);
}

static int measure(
	const struct pair *p, char *dst, const char *src, size_t size)
{
	double copied[ROUNDS], converted[ROUNDS];
	size_t widest =
		(size_t)MAX(tarn_dtype_bits(p->dst), tarn_dtype_bits(p->src));
	size_t n = size / widest * 8;
	struct convert c;

	if (convert_plan(&c, p->dst, p->src, TARN_ROUND_TRUNCATE,
		    p->scaled ? &scale : NULL, p->scaled ? &bias : NULL) < 0) {
		fprintf(stderr, "%s: %s\n", p->name, tarn_error_message());
		return -1;
	}
	for (int i = 0; i < ROUNDS; i++) {
		double begin = now();

		memcpy(dst, src, size);
		copied[i] = now() - begin;
		begin = now();
		convert_run(&c, dst, src, n, 0, 0);
		converted[i] = now() - begin;
	}
	printf("%s memcpy %.2f\n", p->name,
		(double)size / 1e9 / median(copied, ROUNDS));
	printf("%s tarn %.2f\n", p->name,
		(double)size / 1e9 / median(converted, ROUNDS));
	return 0;
}

/* In huge pages where there are any, as numpy has its arrays. */
static char *touched(size_t size)
{
	char *p = aligned_alloc(2 << 20, size);

	if (!p)
		return NULL;
	madvise(p, size, MADV_HUGEPAGE);
	memset(p, 1, size);
	return p;
}

int main(int argc, char **argv)
{
	size_t size = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) << 20;
	char *dst = touched(size), *src = touched(size);
	int failed = 0;

	if (argc > 2)
		convert_portable(true);
	if (!dst || !src) {
		fprintf(stderr, "no memory\n");
		return 1;
	}
	/* Patterns that are ordinary numbers of all dtypes. */
	for (size_t i = 0; i < size; i++)
		src[i] = (char)(i % 8 == 7 || i % 4 == 3 ? 0x40 : i * 7 % 64);
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		failed |= measure(&pairs[i], dst, src, size);
	free(dst);
	free(src);
	return failed ? 1 : 0;
}
