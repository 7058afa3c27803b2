// SPDX-License-Identifier: MIT
/*
 * A move by several threads: one loop is cut into as many stretches, each of
 * which is a separate move. The outermost loop of dst is taken where it is long
 * enough, so that threads write far from each other; else the longest.
 */
#include "lib/move/move.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/cleanup.h"

/* Bytes of dst that justify a thread, which costs some tens of microseconds. */
#define WORTH ((int64_t)512 << 10)

/* Stretches of the innermost loop are multiples of it: they begin at the same
 * place of a line as the whole does, and in whole packs. */
#define GRANULE 64

struct worker {
	struct move move;
	void *dst;
	const void *src;
	pthread_t thread;
	bool running;
};

static int64_t bytes_of(const struct nest *nest)
{
	int64_t bits = nest->empty ? 0 : tarn_dtype_bits(nest->dst_dtype);

	for (int i = 0; i < nest->n; i++)
		bits *= nest->extent[i];
	return bits / 8;
}

static bool may_cut(const struct nest *nest, int loop)
{
	int pack = tarn_dtype_pack(nest->dst_dtype);

	/* Two threads may not write into one byte. */
	if (pack == 1)
		return true;
	return nest->dst0 % pack == 0 &&
	       nest->dst[loop] % pack == (loop == nest->n - 1);
}

static int loop_to_cut(const struct nest *nest, int threads)
{
	int best = -1;

	for (int i = 0; i < nest->n; i++) {
		if (!may_cut(nest, i))
			continue;
		if (nest->extent[i] >= 4 * threads && i < nest->n - 1)
			return i;
		if (best < 0 || nest->extent[i] > nest->extent[best])
			best = i;
	}
	return best;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	move_run(&w->move, w->dst, w->src);
	return NULL;
}

/* Narrows the nest to the stretch from `at` on. */
static void cut(struct nest *nest, int loop, int64_t at, int64_t count)
{
	nest->dst0 += at * nest->dst[loop];
	nest->src0 += at * nest->src[loop];
	nest->channel0 += at * nest->channel[loop];
	nest->extent[loop] = count;
}

/* Starts a thread for each stretch but the first, which is the caller's.
 * Returns how many there are. */
static int start(struct worker *workers, const struct worker *whole, int loop,
	int threads)
{
	int64_t extent = whole->move.nest.extent[loop], at = 0;
	int64_t granule = loop == whole->move.nest.n - 1 ? GRANULE : 1;
	int n = 0;

	for (; at < extent; n++) {
		int64_t each = (extent - at) / (threads - n);
		struct worker *w = &workers[n];

		each = n == threads - 1
			       ? extent - at
			       : MIN(MAX(each - each % granule, granule),
					 extent - at);
		*w = *whole;
		cut(&w->move.nest, loop, at, each);
		at += each;
		w->running =
			n > 0 && pthread_create(&w->thread, NULL, work, w) == 0;
	}
	return n;
}

void move_run_threads(
	const struct move *move, void *dst, const void *src, int threads)
{
	_cleanup_free_ struct worker *workers = NULL;
	struct worker whole = {.move = *move, .dst = dst, .src = src};
	int loop, n;

	nest_tidy(&whole.move.nest, NEST_BY_DST);
	threads = (int)MIN(threads, bytes_of(&whole.move.nest) / WORTH);
	loop = loop_to_cut(&whole.move.nest, threads);
	if (threads > 1 && loop >= 0)
		workers = calloc((size_t)threads, sizeof(*workers));
	if (!workers) {
		move_run(&whole.move, dst, src);
		return;
	}
	n = start(workers, &whole, loop, threads);
	for (int i = 0; i < n; i++) {
		if (!workers[i].running)
			work(&workers[i]);
	}
	for (int i = 0; i < n; i++)
		if (workers[i].running)
			pthread_join(workers[i].thread, NULL);
}
