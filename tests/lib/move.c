// SPDX-License-Identifier: MIT
/*
 * Moves that convert and scale, beside a plain loop that converts one element
 * after the other: the tiles, the gathering and scattering around them, the
 * factors by channel and the threads must leave nothing of themselves in the
 * result. What a single element becomes is tests/lib/convert's matter.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "lib/move/move.h"
#include "lib/move/simd.h"
#include "lib/number/number.h"
#include "tests/kit/move.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define CASES 1500

static const int dtypes[] = {TARN_U8, TARN_F32, TARN_F16, TARN_BF16, TARN_F64,
	TARN_I32, TARN_U16, TARN_BOOL, TARN_F8_E4M3, TARN_F4, TARN_F6_E3M2};

struct job {
	struct convert convert;
	int channel_dim; /* -1: one for all */
};

/* One element through a run of one pack, of which the first counts. */
static void plainly(
	void *arg, const struct kit_move_pair *p, const int64_t *index)
{
	const struct job *job = arg;
	const struct convert *c = &job->convert;
	int64_t channel = job->channel_dim < 0 ? 0 : index[job->channel_dim];
	unsigned char from[32] = {0}, to[32] = {0};

	number_store(p->src.dtype, from, 0,
		number_load(p->src.dtype, p->src_bytes,
			kit_move_element(&p->src, index)));
	if (c->plain)
		memcpy(to, from, sizeof(to));
	else
		convert_run(c, to, from, 4, channel, 0);
	number_store(p->dst.dtype, p->wanted, kit_move_element(&p->dst, index),
		number_load(p->dst.dtype, to, 0));
}

static void random_factors(double *factors, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		factors[i] = (double)(kit_move_below(2000) - 1000) / 256;
}

static void print_pair(const struct kit_move_pair *p, const struct job *job)
{
	char dst[256], src[256];

	tarn_layout_format(&p->dst, dst, sizeof(dst));
	tarn_layout_format(&p->src, src, sizeof(src));
	diag("%s from %s, channels %d", dst, src, job->channel_dim);
}

/* By parts of the nest, in the other order, as a file's executor does. */
static void run_parts(const struct move *move, const struct kit_move_pair *p)
{
	struct move part = *move;
	int64_t half;

	nest_plan(&part.nest, &p->dst, &p->src, -1, NEST_BY_SRC);
	if (part.nest.n == 0) {
		move_run(&part, p->dst_bytes, p->src_bytes);
		return;
	}
	half = part.nest.extent[0] / 2;
	for (int i = 0; i < 2; i++) {
		struct move side = part;

		nest_part(&part.nest, 0, NULL, i * half,
			i ? part.nest.extent[0] - half : half, &side.nest);
		move_run(&side, p->dst_bytes, p->src_bytes);
	}
}

/* Moves that went through the cache though they were to go past it, or the
 * other way. All are small. */
static int64_t past_cache_wrong;

static void one_case(struct kit_move_pair *p, struct job *job,
	const struct tarn_copy_options *options)
{
	struct move move;

	if (move_plan(&move, &p->dst, &p->src, options) < 0)
		bail("%s", tarn_error_message());
	past_cache_wrong += move.large != options->past_cache;
	job->convert = move.convert;
	kit_move_each(p, plainly, job);
	if (job->channel_dim < 0 && kit_move_below(2))
		run_parts(&move, p);
	else
		move_run(&move, p->dst_bytes, p->src_bytes);
}

static bool random_case(int64_t max)
{
	int dst = dtypes[kit_move_below(ARRAY_SIZE(dtypes))];
	int src = dtypes[kit_move_below(ARRAY_SIZE(dtypes))];
	struct tarn_copy_options options = {
		.rounding = (enum tarn_rounding)kit_move_below(2)};
	_cleanup_free_ double *scale = NULL, *bias = NULL;
	struct job job = {.channel_dim = -1};
	struct kit_move_pair p;
	bool same;

	kit_move_pair_make(&p, dst, src, max);
	options.channels = 1;
	if (p.dst.ndim > 0 && kit_move_below(4)) {
		job.channel_dim = (int)kit_move_below(p.dst.ndim);
		options.channel_dim =
			job.channel_dim - (kit_move_below(2) ? p.dst.ndim : 0);
		options.channels = p.dst.shape[job.channel_dim];
		if (options.channels == 1)
			job.channel_dim = -1;
	}
	scale = calloc((size_t)options.channels + 1, sizeof(*scale));
	bias = calloc((size_t)options.channels + 1, sizeof(*bias));
	random_factors(scale, options.channels);
	random_factors(bias, options.channels);
	options.scale = kit_move_below(3) ? scale : NULL;
	options.bias = kit_move_below(3) ? bias : NULL;
	if (!options.scale && !options.bias)
		job.channel_dim = -1;

	options.past_cache = kit_move_below(2);
	one_case(&p, &job, &options);
	same = !memcmp(p.wanted, p.dst_bytes, (size_t)p.dst_size);
	if (!same)
		print_pair(&p, &job);
	kit_move_pair_free(&p);
	return same;
}

static void cases(bool portable)
{
	unsigned n = test_cases(CASES);
	int64_t wrong = 0;

	simd_force_portable(portable);
	convert_portable(portable);
	for (unsigned i = 0; i < n && wrong < 10; i++)
		wrong += !random_case(kit_move_below(10) ? 2000 : 20000);
	is_int(0, wrong, "%u random moves convert and scale right, %s", n,
		portable ? "in plain C" : "with vectors");
	is_int(0, past_cache_wrong,
		"small moves go past the cache where that is asked for");
	simd_force_portable(false);
	convert_portable(false);
}

/* Large enough for several; what one thread makes of it is known to be right.
 * dst is cut by its longest loop, by an outer one, and within a run, where two
 * threads must not share a byte. */
static const struct {
	const char *dst, *src;
	int channel_dim;
} by_threads[] = {
	{"F32[3,400,500]", "U8[3,400,500]:(1,1500,3)", 0},
	{"F32[1000,701]", "F32[1000,701]:(1,1000)", -1},
	{"F16[1048579]", "F32[1048579]", -1},
	{"F4[1048,2004]", "F32[1048,2004]", 1},
	{"F4[2100002]:(1)+2", "U8[2100002]", -1},
};

static void run_by_threads(int i)
{
	struct tarn_copy_options options = {.channels = 1};
	static double scale[2004];
	struct kit_move_pair p = {0};
	struct move move;

	if (tarn_layout_parse(by_threads[i].dst, &p.dst) < 0 ||
		tarn_layout_parse(by_threads[i].src, &p.src) < 0)
		bail("%s", tarn_error_message());
	kit_move_pair_fill(&p);
	if (by_threads[i].channel_dim >= 0) {
		random_factors(scale, ARRAY_SIZE(scale));
		options.scale = scale;
		options.channel_dim = by_threads[i].channel_dim;
		options.channels = p.dst.shape[options.channel_dim];
	}
	if (move_plan(&move, &p.dst, &p.src, &options) < 0)
		bail("%s", tarn_error_message());
	move_run(&move, p.wanted, p.src_bytes);
	move_run_threads(&move, p.dst_bytes, p.src_bytes, 4);
	ok(!memcmp(p.wanted, p.dst_bytes, (size_t)p.dst_size),
		"threads move right: %s from %s", by_threads[i].dst,
		by_threads[i].src);
	kit_move_pair_free(&p);
}

/* The case that it is all for: pixels become normalised planes. */
static void pixels(void)
{
	static const double scale[] = {1 / 58.395, 1 / 57.12, 1 / 57.375};
	static const double bias[] = {-2.1179, -2.0357, -1.8044};
	struct tarn_copy_options options = {
		.scale = scale, .bias = bias, .channels = 3, .channel_dim = 1};
	enum { N = 2, H = 50, W = 37 };
	static unsigned char src[N][H][W][3];
	static float dst[N][3][H][W];
	struct tarn_layout planes, from;
	struct move move;
	int64_t wrong = 0;

	for (size_t i = 0; i < sizeof(src); i++)
		((unsigned char *)src)[i] = (unsigned char)kit_move_below(256);
	must(tarn_layout_parse("F32[2,3,50,37]", &planes));
	must(tarn_layout_parse("U8[2,50,37,3]", &from));
	must(tarn_layout_permute(&from, 4, (const int[]) {0, 3, 1, 2}, &from));
	if (move_plan(&move, &planes, &from, &options) < 0)
		bail("%s", tarn_error_message());
	move_run(&move, dst, src);
	for (int i = 0; i < N * H * W; i++)
		for (int c = 0; c < 3; c++) {
			int y = i / W % H, x = i % W;
			float f = (float)src[i / W / H][y][x][c];

			f *= (float)scale[c];
			f += (float)bias[c];
			wrong += f != dst[i / W / H][c][y][x];
		}
	is_int(0, wrong, "a move makes pixels normalised planes");
}

int main(void)
{
	pixels();
	cases(false);
	cases(true);
	for (size_t i = 0; i < ARRAY_SIZE(by_threads); i++)
		run_by_threads((int)i);
	return done(10);
}
