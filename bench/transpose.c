// SPDX-License-Identifier: MIT
/*
 * The cost of permuting beside memcpy of the same bytes, in turns on the same
 * memory, one thread. One line a case:
 *
 *	NAME: memcpy MS, tarn MS
 *
 * medians of the rounds. What numpy and PyTorch do with the same cases is
 * bench/transpose.py's, and transpose.sh puts them side by side.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tarn/copy.h>

#include "bench/times.h"

#define ROUNDS 7

static const double scale[] = {1 / 58.395, 1 / 57.12, 1 / 57.375};
static const double bias[] = {-2.117904, -2.035714, -1.804444};

static const struct {
	const char *name, *dst, *src, *view;
	int channel_dim; /* with a scale and a bias, -1: none */
} cases[] = {
	{"matrix-f32", "F32[4096,4096]", "F32[4096,4096]", ".transpose(0,1)",
		-1},
	{"planes-u8", "U8[64,3,512,512]", "U8[64,512,512,3]",
		".permute(0,3,1,2)", -1},
	{"normalise-f32", "F32[64,3,512,512]", "U8[64,512,512,3]",
		".permute(0,3,1,2)", 1},
	{"normalise-f16", "F16[64,3,512,512]", "U8[64,512,512,3]",
		".permute(0,3,1,2)", 1},
	{"pixels-u8", "U8[64,512,512,3]", "U8[64,3,512,512]",
		".permute(0,2,3,1)", -1},
	{"matrix-u8", "U8[8192,8192]", "U8[8192,8192]", ".transpose(0,1)", -1},
	{"matrix-f16", "F16[8192,4096]", "F16[4096,8192]", ".transpose(0,1)",
		-1},
	{"matrix-f64", "F64[2048,4096]", "F64[4096,2048]", ".transpose(0,1)",
		-1},
	{"matrix-odd", "F32[4099,4001]", "F32[4001,4099]", ".transpose(0,1)",
		-1},
	{"matrix-small", "F32[512,512]", "F32[512,512]", ".transpose(0,1)", -1},
	{"heads-f16", "F16[16,32,1024,64]", "F16[16,1024,32,64]",
		".permute(0,2,1,3)", -1},
	{"reversed-4d", "F32[64,64,64,64]", "F32[64,64,64,64]",
		".permute(3,2,1,0)", -1},
	{"columns-f32", "F32[4096,2048]", "F32[4096,4096]", "[:, ::2]", -1},
	{"flipped-u8", "U8[4096,16384]", "U8[4096,16384]", ".flip(1)", -1},
	{"convert-f32-f16", "F16[4096,4096]", "F32[4096,4096]", "", -1},
	{"convert-matrix", "F16[4096,4096]", "F32[4096,4096]",
		".transpose(0,1)", -1},
};

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s\n", tarn_error_message());
	exit(1);
}

static tarn_tensor *tensor_new(const char *spec)
{
	struct tarn_layout l;
	tarn_tensor *t = NULL;

	check(tarn_layout_parse(spec, &l));
	check(tarn_tensor_zeros(l.dtype, l.ndim, l.shape, &t));
	/* Warm: the first touch of memory is not what is measured. */
	memset(tarn_tensor_data(t), 1, (size_t)tarn_layout_nbytes(&l));
	return t;
}

static double now_ms(void)
{
	return seconds(CLOCK_THREAD_CPUTIME_ID) * 1e3;
}

static void measure(int i)
{
	struct tarn_copy_options options = {0};
	tarn_tensor *dst = tensor_new(cases[i].dst);
	tarn_tensor *src = tensor_new(cases[i].src), *view = NULL;
	int64_t size = tarn_layout_nbytes(tarn_tensor_layout(dst));
	tarn_tensor *plain = tensor_new(cases[i].dst);
	double copies[ROUNDS], ours[ROUNDS];

	check(tarn_tensor_eval(src, cases[i].view, &view));
	if (cases[i].channel_dim >= 0) {
		options.scale = scale;
		options.bias = bias;
		options.channels = 3;
		options.channel_dim = cases[i].channel_dim;
	}
	for (int r = 0; r < ROUNDS; r++) {
		double begin = now_ms();

		memcpy(tarn_tensor_data(dst), tarn_tensor_data(plain),
			(size_t)size);
		copies[r] = now_ms() - begin;
		begin = now_ms();
		check(tarn_copy(dst, view, &options, NULL));
		ours[r] = now_ms() - begin;
	}
	printf("%s: memcpy %.3f, tarn %.3f\n", cases[i].name,
		median(copies, ROUNDS), median(ours, ROUNDS));
	tarn_tensor_unref(view);
	tarn_tensor_unref(plain);
	tarn_tensor_unref(src);
	tarn_tensor_unref(dst);
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (argc < 2 || !strcmp(argv[1], cases[i].name))
			measure((int)i);
	return 0;
}
