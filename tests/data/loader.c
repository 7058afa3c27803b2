/* SPDX-License-Identifier: MIT */
/*
 * A loader of one process gives what tarn_data_get reads, for each combination of
 * windows, shuffles and mixtures, for worlds of 1, 2, 3 and 8 ranks, and where
 * jobs end anywhere and go on with another number of ranks, another batch and
 * other parts. Its memory is bounded; it ends where it should; what it is asked
 * wrongly, it refuses.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/data/batches.h"
#include "tests/data/datasets.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint64_t)((unsigned __int128)state * n >> 64);
}

/* ---- worlds ------------------------------------------------------------------ */

/* All ranks of a world make some steps from a position on. */
static bool world_reads(tarn_data *data, uint32_t world, uint64_t batch,
	uint64_t steps, uint64_t *position)
{
	bool right = true;

	for (uint32_t rank = 0; right && rank < world; rank++) {
		const struct tarn_loader_options options = {
			.global_batch = batch,
			.rank = rank,
			.world = world,
			.ahead = 1 + (unsigned)below(4),
			.parts = below(3) ? BATCHES_PARTS : 0,
			.from = *position};
		tarn_loader *loader = batches_open(data, &options);

		for (uint64_t i = 0; right && i < steps; i++)
			right = batches_next(loader, data, &options);
		tarn_loader_unref(loader);
	}
	*position += steps * batch;
	return right;
}

static void test_worlds(void)
{
	static const uint32_t worlds[] = {1, 2, 3, 8};

	for (int i = 0; i < CONFIGURATIONS; i++) {
		const char *name;
		struct tarn_data_options o = datasets_options(i, &name);
		tarn_data *data = datasets_open(&o);
		uint64_t position = below(3000);
		bool right = true;

		for (int k = 0; right && k < 4; k++)
			right = world_reads(data, worlds[k], 1 + below(30),
				1 + below(6), &position);
		ok(right, "worlds of 1, 2, 3 and 8 ranks: %s", name);
		tarn_data_free(data);
	}
}

/* Other dtypes of tokens, converted and as they are. */
static void test_dtypes(void)
{
	static const enum tarn_dtype dtypes[] = {
		TARN_I64, TARN_U16, TARN_U32, TARN_U64};
	bool right = true;

	for (size_t i = 0; right && i < ARRAY_SIZE(dtypes); i++) {
		struct tarn_data_options o = datasets_options(3, NULL);
		tarn_data *data;
		uint64_t position = 0;

		o.dtype = dtypes[i];
		o.pad = 0;
		data = datasets_open(&o);
		right = world_reads(data, 2, 16, 4, &position);
		tarn_data_free(data);
	}
	ok(right, "tokens of other dtypes are right");
}

/* ---- rows -------------------------------------------------------------------- */

/* A tensor of 60 rows, in memory or in a file. */
static tarn_tensor *rows_of(const char *path, bool in_file)
{
	struct tarn_save_item item = {.name = "rows"};
	tarn_tensor *flat, *rows, *found;
	tarn_file *file;

	must(tarn_tensor_arange(TARN_I32, 0, 900, 1, &flat));
	must(tarn_tensor_eval(flat, ".view(60, 3, 5)", &rows));
	tarn_tensor_unref(flat);
	if (!in_file)
		return rows;
	item.tensor = rows;
	must(tarn_save(path, &item, 1, NULL, NULL));
	tarn_tensor_unref(rows);
	must(tarn_file_open(path, &file));
	must(tarn_file_tensor(file, tarn_file_at(file, 0)->name, &found));
	tarn_file_unref(file);
	return found;
}

static bool right_rows(tarn_tensor *rows, const char *expr)
{
	const struct tarn_data_options o = {
		.windows = TARN_WINDOWS_ROWS, .seed = 5};
	struct tarn_loader_options wrong = {
		.global_batch = 4, .parts = TARN_LOADER_SEGMENTS};
	const struct tarn_loader_options options = {.global_batch = 7};
	tarn_data_source *source;
	tarn_loader *loader;
	tarn_tensor *view;
	tarn_data *data;
	bool right = true;

	must(tarn_tensor_eval(rows, expr, &view));
	must(tarn_data_source_rows(view, &source));
	must(tarn_data_open(&source, 1, &o, &data));
	right = tarn_loader_open(NULL, data, &wrong, &loader) == -EINVAL;
	loader = batches_open(data, &options);
	for (int i = 0; right && i < 20; i++)
		right = batches_next(loader, data, &options);
	tarn_loader_unref(loader);
	tarn_data_free(data);
	tarn_data_source_unref(source);
	tarn_tensor_unref(view);
	return right;
}

static void test_rows(void)
{
	static const char *const views[] = {"[:]", "[:, ::2]", "[::-1]"};
	char path[600];

	snprintf(path, sizeof(path), "%s/rows.npy", test_tmpdir());
	for (int i = 0; i < 6; i++) {
		tarn_tensor *rows = rows_of(path, i >= 3);

		ok(right_rows(rows, views[i % 3]), "rows %s of a tensor in %s",
			views[i % 3], i >= 3 ? "a file" : "memory");
		tarn_tensor_unref(rows);
	}
	unlink(path);
}

/* ---- memory ------------------------------------------------------------------- */

/* Batches stay what they are while they are kept, beyond the loader, and it waits
 * for memory that they have. */
static void test_kept(tarn_data *data)
{
	enum { SLOTS = 2 + 2 };
	const struct tarn_loader_options options = {
		.global_batch = 5, .ahead = 2, .parts = BATCHES_PARTS};
	tarn_loader *loader = batches_open(data, &options);
	struct tarn_loader_info info;
	tarn_batch *kept[SLOTS], *more;
	tarn_tensor *tokens;
	bool right = true;

	for (int i = 0; i < SLOTS; i++)
		must(tarn_loader_next(loader, -1, &kept[i]));
	is_int(-ETIMEDOUT, tarn_loader_next(loader, 20, &more),
		"with all buffers in use there is no batch");
	is_int(-ETIMEDOUT, tarn_loader_next(loader, 0, &more),
		"a try does not wait");
	tarn_loader_info(loader, &info);
	is_int(SLOTS, info.slots, "there are two buffers more than are ahead");
	is_int(SLOTS, (int64_t)info.batches_read,
		"no more is read than there is memory for");
	must(tarn_batch_tensor(kept[0], TARN_LOADER_TOKENS, &tokens));
	kept[0] = tarn_batch_unref(kept[0]);
	is_int(-ETIMEDOUT, tarn_loader_next(loader, 20, &more),
		"a tensor keeps its batch's memory");
	tarn_tensor_unref(tokens);
	must(tarn_loader_next(loader, -1, &more));
	ok(batches_right(data, more, SLOTS * 5, 5, BATCHES_PARTS),
		"memory that was dropped is read into");
	tarn_loader_unref(loader);
	for (uint64_t i = 1; i < SLOTS; i++) {
		right = right &&
			batches_right(data, kept[i], 5 * i, 5, BATCHES_PARTS);
		tarn_batch_unref(kept[i]);
	}
	ok(right, "batches outlive their loader");
	tarn_batch_unref(more);
}

/* A caller that says so may keep any number, and has copies of most. */
static void test_keeps(tarn_data *data)
{
	enum { N = 40 };
	const struct tarn_loader_options options = {.global_batch = 5,
		.ahead = 1,
		.parts = BATCHES_PARTS,
		.keeps = true};
	tarn_loader *loader = batches_open(data, &options);
	struct tarn_loader_info info;
	tarn_batch *kept[N];
	bool right = true;

	for (int i = 0; i < N; i++)
		must(tarn_loader_next(loader, -1, &kept[i]));
	tarn_loader_info(loader, &info);
	ok(info.batches_read <= N + 3, "%llu batches are read for %d",
		(unsigned long long)info.batches_read, N);
	tarn_loader_unref(loader);
	for (uint64_t i = 0; i < N; i++) {
		right = right &&
			batches_right(data, kept[i], 5 * i, 5, BATCHES_PARTS);
		tarn_batch_unref(kept[i]);
	}
	ok(right, "a caller keeps more batches than there are slots");
}

/* ---- ends ------------------------------------------------------------------------ */

static bool ends(tarn_data *data, uint64_t from, uint64_t until, uint64_t batch,
	uint32_t world)
{
	bool right = true;

	for (uint32_t rank = 0; right && rank < world; rank++) {
		const struct tarn_loader_options options = {
			.global_batch = batch,
			.rank = rank,
			.world = world,
			.from = from,
			.until = until};
		tarn_loader *loader = batches_open(data, &options);
		tarn_batch *none;

		while (right && tarn_loader_position(loader) < until)
			right = batches_next(loader, data, &options);
		right = right &&
			tarn_loader_next(loader, -1, &none) == -EPIPE &&
			tarn_loader_next(loader, 0, &none) == -EPIPE &&
			tarn_loader_position(loader) == MAX(from, until);
		tarn_loader_unref(loader);
	}
	return right;
}

static void test_ends(tarn_data *data)
{
	const uint64_t last = UINT64_C(1) << 63;

	ok(ends(data, 10, 40, 10, 2), "a loader ends with a batch");
	ok(ends(data, 10, 45, 10, 3), "it ends in the midst of a batch");
	ok(ends(data, 3, 5, 10, 3), "a rank may have none of the last batch");
	ok(ends(data, 50, 50, 10, 1), "it ends before it begins");
	ok(ends(data, 50, 40, 10, 1), "it begins behind its end");
	ok(ends(data, last - 25, last, 10, 2), "positions end at 2^63");
	ok(ends(data, 0, 6, 2, 4), "there are more ranks than samples");
}

/* ---- wrong calls --------------------------------------------------------------------- */

static void refused(tarn_data *data, int error, const char *why,
	struct tarn_loader_options options)
{
	tarn_loader *loader;

	is_int(error, tarn_loader_open(NULL, data, &options, &loader),
		"options are refused: %s", why);
	has_str(why, tarn_error_message(), "the sentence says: %s", why);
}

#define OPTIONS(batch, ...)                                                    \
	((struct tarn_loader_options) {.global_batch = batch, __VA_ARGS__})

static void test_wrong(tarn_data *data)
{
	static char name[1000];
	const struct tarn_loader_options good = OPTIONS(8);
	tarn_loader *loader = batches_open(data, &good);
	tarn_tensor *tensor;
	tarn_batch *batch;

	memset(name, 'n', sizeof(name) - 1);
	refused(data, -EINVAL, "1 to 2147483647 samples, not 0", OPTIONS(0));
	refused(data, -EINVAL, "rank 3 of 3",
		OPTIONS(8, .rank = 3, .world = 3));
	refused(data, -EINVAL, "ranks 2 to 4 of 4",
		OPTIONS(8, .rank = 2, .world = 4, .node_rank = 2,
			.node_ranks = 3));
	refused(data, -EINVAL, "rank 1 is none of the node's, which are 2 to 3",
		OPTIONS(8, .rank = 1, .world = 4, .node_rank = 2,
			.node_ranks = 2));
	refused(data, -EINVAL, "unknown parts 0x10", OPTIONS(8, .parts = 17));
	refused(data, -EINVAL, "1024 batches", OPTIONS(8, .ahead = 1025));
	refused(data, -EINVAL, "at most 2^63", OPTIONS(8, .from = UINT64_MAX));
	refused(data, -EINVAL, "there is no store", OPTIONS(8, .name = "x"));
	refused(data, -EINVAL, "1 to 900 bytes, not 0", OPTIONS(8, .name = ""));
	refused(data, -EINVAL, "1 to 900 bytes, not 999",
		OPTIONS(8, .name = name));
	refused(data, -EINVAL, "tarn_loader_options",
		OPTIONS(8, .reserved = {[7] = 1}));
	refused(data, -EOVERFLOW, "31 bits",
		OPTIONS(INT32_MAX, .parts = TARN_LOADER_CU_SEQLENS));
	must(tarn_loader_next(loader, -1, &batch));
	is_int(-EINVAL, tarn_batch_tensor(batch, 3, &tensor),
		"there is no part 3");
	is_int(-ENOENT,
		tarn_batch_tensor(batch, TARN_LOADER_POSITIONS, &tensor),
		"a part that was not asked for is refused");
	tarn_batch_unref(batch);
	tarn_loader_unref(loader);
}

/* Each of their samples has a size of its own. */
static void test_records(void)
{
	const struct tarn_data_options records = {
		.windows = TARN_WINDOWS_RECORDS};
	const int64_t n = 4;
	struct tarn_data_column column = {.name = "x"};
	tarn_data_source *source;
	tarn_tensor *rows;
	tarn_data *data;

	must(tarn_tensor_zeros(TARN_F32, 1, &n, &rows));
	must(tarn_data_source_rows(rows, &column.source));
	must(tarn_data_source_columns(&column, 1, &source));
	must(tarn_data_open(&source, 1, &records, &data));
	refused(data, -ENOTSUP, "samples are records", OPTIONS(2));
	tarn_data_free(data);
	tarn_data_source_unref(source);
	tarn_data_source_unref(column.source);
	tarn_tensor_unref(rows);
}

/* ---- waiting ----------------------------------------------------------------------- */

static void on_signal(int number)
{
	(void)number;
}

static void *wait_for_next(void *arg)
{
	tarn_batch *batch;
	int r = -EBUSY;

	/* The other thread may be in a try of its own. */
	while (r == -EBUSY)
		r = tarn_loader_next(arg, -1, &batch);
	return (void *)(intptr_t)r;
}

/* Signals until the thread, which waits for memory that is in use, ends. */
static void test_signal(tarn_data *data)
{
	const struct tarn_loader_options options = OPTIONS(8, .ahead = 1);
	const struct sigaction action = {.sa_handler = on_signal};
	tarn_loader *loader = batches_open(data, &options);
	tarn_batch *kept[3], *batch;
	bool busy = false;
	pthread_t thread;
	void *result;

	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 3; i++)
		must(tarn_loader_next(loader, -1, &kept[i]));
	if (pthread_create(&thread, NULL, wait_for_next, loader))
		bail("no thread");
	while (!busy)
		busy = tarn_loader_next(loader, 0, &batch) == -EBUSY;
	while (pthread_tryjoin_np(thread, &result) == EBUSY) {
		pthread_kill(thread, SIGUSR1);
		sched_yield();
	}
	ok(busy, "a second thread is refused");
	is_int(-EINTR, (intptr_t)result, "a signal ends the wait");
	for (int i = 0; i < 3; i++)
		tarn_batch_unref(kept[i]);
	tarn_loader_unref(loader);
}

int main(void)
{
	struct tarn_data_options o = datasets_options(15, NULL);
	struct corpus corpora[2];
	tarn_data *data;

	datasets_begin(test_tmpdir(), corpora);
	test_worlds();
	test_dtypes();
	test_rows();
	data = datasets_open(&o);
	test_kept(data);
	test_keeps(data);
	test_ends(data);
	test_wrong(data);
	test_records();
	test_signal(data);
	tarn_data_free(data);
	datasets_end(corpora);
	return done(CONFIGURATIONS + 1 + 6 + 7 + 2 + 7 + 26 + 2 + 2);
}
