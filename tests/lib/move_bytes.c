// SPDX-License-Identifier: MIT
/*
 * Elements moved as they are, beside a plain loop over all of them: random
 * pairs of layouts of every element size, with the vectors that this CPU has
 * and in plain C, through the cache and past it. Every way must have been
 * taken, and no byte of dst that is no element may have changed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/move/bytes.h"
#include "lib/number/number.h"
#include "tests/kit/move.h"
#include "tests/kit/tap.h"

#define CASES 4000

static const int dtypes[] = {TARN_U8, TARN_U8, TARN_F16, TARN_F32, TARN_F32,
	TARN_C64, TARN_F64, TARN_F4, TARN_F6_E2M3};

static int64_t taken[BYTES_WAYS];

static void plainly(
	void *arg, const struct kit_move_pair *p, const int64_t *index)
{
	int dtype = p->src.dtype;

	(void)arg;
	number_store(dtype, p->wanted, kit_move_element(&p->dst, index),
		number_load(
			dtype, p->src_bytes, kit_move_element(&p->src, index)));
}

static void print_pair(const struct kit_move_pair *p, int way)
{
	char dst[256], src[256];

	tarn_layout_format(&p->dst, dst, sizeof(dst));
	tarn_layout_format(&p->src, src, sizeof(src));
	diag("%s from %s, way %d", dst, src, way);
}

static bool as_wanted(const struct kit_move_pair *p, bool large)
{
	struct nest nest;
	int way;

	nest_plan(&nest, &p->dst, &p->src, -1, NEST_BY_DST);
	way = bytes_move(&nest, large, p->dst_bytes, p->src_bytes);
	taken[way]++;
	if (!memcmp(p->wanted, p->dst_bytes, (size_t)p->dst_size))
		return true;
	print_pair(p, way);
	return false;
}

static void cases(bool portable)
{
	unsigned n = MIN(CASES, test_cases(8 * CASES)); /* for each way */
	int64_t wrong = 0;

	simd_force_portable(portable);
	memset(taken, 0, sizeof(taken));
	for (unsigned i = 0; i < n && wrong < 10; i++) {
		int dtype = dtypes[kit_move_below(ARRAY_SIZE(dtypes))];
		bool big = kit_move_below(20) == 0;
		struct kit_move_pair p;

		kit_move_pair_make(&p, dtype, dtype, big ? 40000 : 3000);
		kit_move_each(&p, plainly, NULL);
		wrong += !as_wanted(&p, kit_move_below(2));
		kit_move_pair_free(&p);
	}
	is_int(0, wrong, "%u random moves of bytes are right, %s", n,
		portable ? "in plain C" : "with vectors");
	for (int way = 0; way < BYTES_WAYS; way++)
		ok(taken[way] > 0,
			"%s: this way of moving was taken %lld times",
			way == BYTES_BITS      ? "bits"
			: way == BYTES_NOTHING ? "nothing"
					       : raw_way_name[way],
			(long long)taken[way]);
}

/* A run of some MiB that begins and ends inside of lines, past the cache. */
static void long_run(void)
{
	int64_t n = (3 << 20) + 77, off = 5;
	unsigned char *src = malloc((size_t)n), *dst = malloc((size_t)n + 64);
	struct tarn_layout l;
	struct nest nest;
	int64_t wrong = 0;

	if (!src || !dst || tarn_layout_contiguous(TARN_U8, 1, &n, &l) < 0)
		bail("no memory, or no layout");
	for (int64_t i = 0; i < n; i++)
		src[i] = (unsigned char)(i * 7 + (i >> 8));
	memset(dst, 0xee, (size_t)n + 64);
	nest_plan(&nest, &l, &l, -1, NEST_BY_DST);
	is_int(RAW_RUN, bytes_move(&nest, true, dst + off, src),
		"a large move of adjacent bytes is a run");
	for (int64_t i = 0; i < n + 64; i++)
		wrong += dst[i] !=
			 (i < off || i >= off + n ? 0xee : src[i - off]);
	is_int(0, wrong, "all of its bytes are right, and no others changed");
	free(src);
	free(dst);
}

int main(void)
{
	long_run();
	cases(false);
	cases(true);
	simd_force_portable(false);
	return done(24);
}
