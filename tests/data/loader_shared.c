/* SPDX-License-Identifier: MIT */
/*
 * Processes that open a loader by one name: each batch is read once, by one of
 * them, and all get what tarn_data_get reads, whatever joins late, at another
 * position or with another number of ranks, and leaves early. The slots bound what
 * is read ahead.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "lib/data/loader.h"
#include "tests/data/datasets.h"
#include "tests/data/ranks.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static tarn_store *store;

/* ---- once ----------------------------------------------------------------------- */

/* Four processes of three ranks make some steps at one time. */
static void once(const char *name)
{
	enum { PROCESSES = 4, STEPS = 12 };
	struct rank ranks[PROCESSES];
	uint64_t read = 0, readers = 0, alone = 0;
	struct rank_word word;
	bool right = true;

	for (uint32_t i = 0; i < PROCESSES; i++) {
		ranks[i].options = ranks_options(i % 3, 3);
		ranks[i].options.processes = PROCESSES;
		ranks[i].options.from = 7;
		rank_start(&ranks[i]);
	}
	for (int i = 0; i < PROCESSES; i++)
		rank_go(&ranks[i], STEPS);
	for (int i = 0; i < PROCESSES; i++) {
		right = rank_finish(&ranks[i], &word) && right;
		alone += word.info.n_alone;
		readers += word.info.batches_read > 0;
		read += word.info.batches_read;
	}
	ok(right, "all ranks get what is theirs: %s", name);
	if (!ok(readers == 1 && alone == 0 && read >= STEPS &&
			    read <= STEPS + 4,
		    "each batch is read once, by one of them: %s", name))
		diag("%llu readers, %llu batches, %llu alone",
			(unsigned long long)readers, (unsigned long long)read,
			(unsigned long long)alone);
	for (int i = 0; i < PROCESSES; i++)
		rank_end(&ranks[i]);
}

static void test_once(void)
{
	for (int i = 0; i < CONFIGURATIONS; i += 5) {
		const char *name;

		ranks_dataset = datasets_options(i, &name);
		once(name);
	}
}

/* ---- joining ----------------------------------------------------------------------- */

static struct rank started(uint32_t rank, uint32_t world, uint64_t from)
{
	struct rank r = {.options = ranks_options(rank, world)};

	r.options.from = from;
	rank_start(&r);
	return r;
}

static void steps(struct rank *rank, uint64_t n, struct rank_word *ret)
{
	rank_go(rank, n);
	ok(rank_finish(rank, ret), "a rank makes %llu steps from %llu",
		(unsigned long long)n, (unsigned long long)rank->position);
}

/* Both make a step at a time, until the second gets batches from the feed. */
static bool come_together(struct rank *first, struct rank *second)
{
	struct rank_word a, b = {.position = 0};

	for (int i = 0; !b.info.n_shared && i < 500; i++) {
		rank_go(first, 1);
		rank_go(second, 1);
		if (!rank_finish(first, &a) || !rank_finish(second, &b))
			return false;
	}
	return b.info.n_shared && !a.info.n_alone;
}

/* One that comes when the others have begun, at their position. */
static void test_late(void)
{
	struct rank first = started(0, 2, 0), second;
	struct rank_word a, b;

	steps(&first, 20, &a);
	second = started(1, 2, first.position);
	ok(come_together(&first, &second), "one that is late gets its batches "
					   "at once, and comes into the feed");
	rank_go(&first, 100);
	rank_go(&second, 100);
	ok(rank_finish(&first, &a), "the first goes on");
	ok(rank_finish(&second, &b), "the second, too");
	is_int(0, (int64_t)a.info.n_alone, "the first is always in the feed");
	rank_end(&first);
	steps(&second, 50, &b);
	ok(b.info.reads, "the second reads where the first is gone");
	rank_end(&second);
}

/* A second job, at another position, with another world. */
static void test_second_job(void)
{
	struct rank first = started(0, 1, 0), second, third;
	struct rank_word word;

	steps(&first, 10, &word);
	second = started(1, 2, 5000 * RANKS_BATCH);
	third = started(0, 1, 10 * RANKS_BATCH + 5);
	steps(&second, 30, &word);
	is_int(0, (int64_t)word.info.n_shared,
		"one that is far reads for itself, and waits for nobody");
	steps(&third, 30, &word);
	is_int(0, (int64_t)word.info.n_shared,
		"so does one whose batches begin elsewhere");
	steps(&first, 30, &word);
	is_int(40, (int64_t)word.info.n_shared,
		"the first job does not wait for them, either");
	rank_end(&first);
	steps(&second, 200, &word);
	ok(word.info.n_shared > 0, "where a feed has ended, one begins anew");
	rank_end(&second);
	rank_end(&third);
}

/* ---- bounds ------------------------------------------------------------------------- */

static void test_bounds(tarn_data *data)
{
	const struct tarn_loader_options a = ranks_options(0, 2),
					 b = ranks_options(1, 2);
	tarn_loader *first = ranks_loader(store, data, &a),
		    *second = ranks_loader(store, data, &b);
	struct tarn_loader_info info;
	tarn_batch *batch;
	bool right = true;
	int n = 0, r;

	while ((r = tarn_loader_next(first, n < 4 ? 60000 : 200, &batch)) >=
			0 &&
		n < 100) {
		right = right &&
			batches_right(data, batch, (uint64_t)n * RANKS_BATCH,
				RANKS_BATCH / 2, BATCHES_PARTS);
		tarn_batch_unref(batch);
		n++;
	}
	is_int(-ETIMEDOUT, r, "a rank waits for one that takes nothing");
	is_int(4, n, "there are two slots more than are read ahead");
	ok(right, "until then it gets its batches");
	tarn_loader_info(first, &info);
	right = info.reads;
	tarn_loader_info(second, &info);
	ok(right != info.reads, "one of the two reads");
	for (int i = 0; i < 10; i++)
		right = batches_next(second, data, &b) &&
			batches_next(first, data, &a);
	ok(right, "both go on together");
	second = tarn_loader_unref(second);
	for (int i = 0; right && i < 30; i++)
		right = batches_next(first, data, &a);
	ok(right, "no one waits for one that has left");
	tarn_loader_unref(first);
}

/* The last batch is smaller; ranks that are through do not hold up others. */
static void test_ends(tarn_data *data)
{
	struct tarn_loader_options a = ranks_options(0, 2),
				   b = ranks_options(1, 2);
	tarn_loader *first, *second;
	tarn_batch *none;
	bool right = true;

	a.until = 3 * RANKS_BATCH + 5;
	b.until = 20 * RANKS_BATCH + 1;
	first = ranks_loader(store, data, &a);
	second = ranks_loader(store, data, &b);
	while (right && tarn_loader_position(first) < a.until)
		right = batches_next(first, data, &a) &&
			batches_next(second, data, &b);
	ok(right, "both get their batches");
	is_int(-EPIPE, tarn_loader_next(first, -1, &none),
		"the first is at its end");
	while (right && tarn_loader_position(second) < b.until)
		right = batches_next(second, data, &b);
	ok(right, "the second goes on to its own");
	is_int(-EPIPE, tarn_loader_next(second, -1, &none), "it ends, too");
	tarn_loader_unref(first);
	tarn_loader_unref(second);
}

int main(void)
{
	struct tarn_data_options options = datasets_options(15, NULL);
	struct corpus corpora[2];
	struct daemon server;
	tarn_data *data;

	ranks_are_slow();
	datasets_begin(test_tmpdir(), corpora);
	store = daemon_start_open(
		&server, "loader.sock", (const char *[]) {NULL});
	ranks_socket = server.socket;
	test_once();
	ranks_dataset = options;
	test_late();
	test_second_job();
	data = datasets_open(&options);
	test_bounds(data);
	test_ends(data);
	tarn_data_free(data);
	tarn_store_unref(store);
	daemon_stop(&server);
	datasets_end(corpora);
	return done(2 * 8 + 7 + 9 + 6 + 4);
}
