/* SPDX-License-Identifier: MIT */
/* Random moves, on a device and by move_run. */
#include "tests/cuda/moves.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/kernels.h"
#include "tests/cuda/cases.h"
#include "tests/kit/convert_oracle.h"
#include "tests/kit/move.h"
#include "tests/kit/tap.h"

#define ELEMENTS 20000

struct device_memory moves_dst, moves_src;
CUstream moves_stream;

static struct device_memory factor_side;
static unsigned refused; /* moves that devices do not do */

void moves_begin(void)
{
	device_begin();
	moves_dst = device_memory_new(MOVES_ROOM);
	moves_src = device_memory_new(MOVES_ROOM);
	factor_side = device_memory_new(MOVES_ROOM);
	device_must(device_driver->stream_create(
			    &moves_stream, CU_STREAM_NON_BLOCKING),
		"a stream");
}

void moves_end(void)
{
	device_must(device_driver->stream_synchronize(moves_stream), "waiting");
	device_must(device_driver->stream_destroy(moves_stream), "its end");
	device_memory_free(&moves_dst);
	device_memory_free(&moves_src);
	device_memory_free(&factor_side);
	device_end();
}

/* ---- one move ------------------------------------------------------------ */

int moves_run(const struct move *move, uint64_t dst, uint64_t src)
{
	uint64_t size = cuda_move_factors_size(move);
	CUdeviceptr factors = 0;

	if (size) {
		void *buffer = malloc(size);

		check(size <= MOVES_ROOM, "%llu bytes",
			(unsigned long long)size);
		cuda_move_factors(move, buffer);
		factors = factor_side.at;
		device_put(factors, buffer, size, moves_stream);
		free(buffer);
	}
	return cuda_move(device_driver, device_used, move, dst, src, factors,
		moves_stream);
}

struct comparison {
	const unsigned char *seen;
	bool same;
};

static void compare_one(
	void *arg, const struct kit_move_pair *p, const int64_t *index)
{
	struct comparison *c = arg;
	int64_t at = kit_move_element(&p->dst, index);
	int size = tarn_dtype_bits(p->dst.dtype) / 8;
	uint64_t wanted = 0, seen = 0;

	memcpy(&wanted, p->wanted + at * size, (size_t)size);
	memcpy(&seen, c->seen + at * size, (size_t)size);
	c->same = c->same && oracle_same(p->dst.dtype, wanted, seen);
}

/* NaNs that were scaled may differ in their sign and payload. */
bool moves_same(
	const struct kit_move_pair *p, const unsigned char *seen, bool scaled)
{
	struct comparison c = {seen, true};

	if (!memcmp(p->wanted, seen, (size_t)p->dst_size))
		return true;
	if (!scaled)
		return false;
	kit_move_each(p, compare_one, &c);
	return c.same;
}

/* A shift of its bytes, so that elements are not aligned. */
static uint64_t shift(void)
{
	return kit_move_below(6) == 0 ? (uint64_t)kit_move_below(16) : 0;
}

/* Random bits are seldom numbers that small types have: in half of the cases
 * they become some. */
static void tame(struct kit_move_pair *p)
{
	int64_t size = p->src.dtype == TARN_F32 ? 4 : 8;

	if ((p->src.dtype != TARN_F32 && p->src.dtype != TARN_F64) ||
		kit_move_below(2))
		return;
	for (int64_t i = 0; i + size <= p->src_size; i += size) {
		double x = ldexp((double)kit_move_below(1 << 24) - (1 << 23),
			(int)kit_move_below(50) - 40);
		float narrow = (float)x;

		memcpy(p->src_bytes + i,
			size == 4 ? (void *)&narrow : (void *)&x, (size_t)size);
	}
}

static void try(
	struct kit_move_pair *p, const struct tarn_copy_options *options)
{
	uint64_t dst = moves_dst.at + shift(), src = moves_src.at + shift();
	unsigned char *seen = malloc((size_t)p->dst_size + 1);
	char text[2][400];
	struct move move;
	int r = move_plan(&move, &p->dst, &p->src, options);

	tame(p);
	check(r == 0, "a plan: %s", r < 0 ? tarn_fail_message() : "");
	check((size_t)p->dst_size + 16 <= MOVES_ROOM &&
			(size_t)p->src_size + 16 <= MOVES_ROOM,
		"there is room");
	device_put(dst, p->dst_bytes, (size_t)p->dst_size, moves_stream);
	device_put(src, p->src_bytes, (size_t)p->src_size, moves_stream);
	r = moves_run(&move, dst, src);
	if (r == -ENOTSUP && tarn_dtype_pack(p->dst.dtype) > 1)
		refused++; /* a device does not move parts of bytes */
	else
		move_run(&move, p->wanted, p->src_bytes);
	device_get(seen, dst, (size_t)p->dst_size, moves_stream);
	tarn_layout_format(&p->dst, text[0], sizeof(text[0]));
	tarn_layout_format(&p->src, text[1], sizeof(text[1]));
	check(r == 0 || (r == -ENOTSUP && tarn_dtype_pack(p->dst.dtype) > 1),
		"moving: %s", r < 0 ? tarn_fail_message() : "");
	check(moves_same(p, seen, move.convert.scaled), "%s from %s", text[0],
		text[1]);
	free(seen);
	kit_move_pair_free(p);
}

/* ---- random moves -------------------------------------------------------- */

static int random_dtype(void)
{
	return 1 + (int)kit_move_below(TARN_DTYPE_MAX);
}

void moves_plain(int n)
{
	struct kit_move_pair p;

	for (int i = 0; i < n; i++) {
		int dtype = random_dtype();

		kit_move_pair_make(&p, dtype, dtype, ELEMENTS);
		try(&p, NULL);
	}
	check(refused < (unsigned)n / 20, "%u of %d were refused", refused, n);
}

/* The dtypes whose elements are whole bytes. */
static int whole_dtype(void)
{
	int dtype = random_dtype();

	while (tarn_dtype_pack(dtype) > 1)
		dtype = random_dtype();
	return dtype;
}

void moves_converted(int n)
{
	struct tarn_copy_options options = {0};
	struct kit_move_pair p;

	for (int i = 0; i < n; i++) {
		options.rounding = (enum tarn_rounding)kit_move_below(2);
		kit_move_pair_make(&p, whole_dtype(), random_dtype(), ELEMENTS);
		try(&p, &options);
	}
}

void moves_common_pairs(int n)
{
	static const int pairs[][2] = {
#define PAIR(src, dst) {TARN_##src, TARN_##dst},
		CUDA_PAIRS(PAIR)
#undef PAIR
	};
	struct kit_move_pair p;

	for (int i = 0; i < n; i++) {
		const int *pair = pairs[i % (int)ARRAY_SIZE(pairs)];

		kit_move_pair_make(&p, pair[1], pair[0], ELEMENTS);
		try(&p, NULL);
	}
}

static void random_factors(double *ret, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		ret[i] = (double)(kit_move_below(2001) - 1000) / 64 +
			 (kit_move_below(9) == 0 ? 1e-9 : 0);
}

void moves_scaled(int n)
{
	static double scale[ELEMENTS], bias[ELEMENTS];
	struct tarn_copy_options options = {0};
	struct kit_move_pair p;
	unsigned large = 0;

	for (int i = 0; i < n; i++) {
		int dst = whole_dtype(), src = random_dtype(), which;

		if (dst == TARN_C64 || src == TARN_C64)
			continue;
		kit_move_pair_make(&p, dst, src, ELEMENTS);
		options.channels = 1;
		if (p.dst.ndim && kit_move_below(4)) {
			options.channel_dim = (int)kit_move_below(p.dst.ndim);
			options.channels = p.dst.shape[options.channel_dim];
		}
		large += options.channels > CUDA_CHANNELS;
		random_factors(scale, options.channels);
		random_factors(bias, options.channels);
		which = (int)kit_move_below(3);
		options.scale = which != 1 ? scale : NULL;
		options.bias = which != 2 ? bias : NULL;
		options.rounding = (enum tarn_rounding)kit_move_below(2);
		try(&p, &options);
	}
	check(large > 10, "with a buffer for factors: %u", large);
}
