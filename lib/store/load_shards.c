// SPDX-License-Identifier: MIT
/*
 * Loading all shards of a checkpoint.
 *
 * Each shard is loaded as a file of its own, and held; names are published when
 * all bytes are there. So no process finds half of a checkpoint by name, except
 * one with so many shards that its names need several messages. Checksums are
 * verified when all bytes are there, too: so one shard's load follows the
 * other's, and a client that waits for all of them sees no pause.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/store/load_shards.h"
#include "lib/store/store.h"
#include "lib/tensor/storage.h"

/* The storages of the shards, which keep a checkpoint in memory. */
struct held {
	size_t n;
	tarn_storage *at[];
};

static void held_free(void *arg)
{
	struct held *held = arg;

	for (size_t i = 0; i < held->n; i++)
		tarn_storage_unref(held->at[i]);
	free(held);
}

/* ---- bytes ----------------------------------------------------------- */

struct shards_progress {
	const struct tarn_load_options *options;
	uint64_t before, total;
};

static int pass_on(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total)
{
	const struct shards_progress *p = arg;

	if (phase == TARN_LOAD_PHASE_READ) {
		done += p->before;
		total = p->total;
	}
	return p->options->progress(p->options->arg, phase, done, total);
}

/* Called after each shard: a shard that is in memory already reports no
 * progress itself, and without this a load of thousands of those could neither
 * be seen nor cancelled. */
static int report_progress(const struct shards_progress *p)
{
	const struct tarn_load_options *o = p->options;

	if (o && o->progress &&
		o->progress(o->arg, TARN_LOAD_PHASE_READ, p->before, p->total))
		return tarn_fail(ECANCELED,
			"load: cancelled when %llu of %llu bytes had arrived",
			(unsigned long long)p->before,
			(unsigned long long)p->total);
	return 0;
}

static void add_info(struct tarn_load_info *sum, const struct tarn_load_info *i)
{
	bool first = !sum->engine;

	sum->bytes += i->bytes;
	sum->seconds += i->seconds;
	sum->cpu_seconds += i->cpu_seconds;
	sum->direct = i->direct && (first || sum->direct);
	sum->registered = i->registered && (first || sum->registered);
	/* From a shard that some process had to read, if any. */
	if (first || sum->cached || !i->cached)
		sum->engine = i->engine;
	sum->cached = i->cached && (first || sum->cached);
	/* From the first that is not kept. */
	if (!sum->not_kept)
		sum->not_kept = i->not_kept;
}

static int load_all(tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options, struct held *held,
	struct tarn_load_info *ret_info)
{
	struct shards_progress progress = {.options = options};
	struct tarn_load_options each = {0};
	struct tarn_load_info info;
	uint64_t offset;
	int r = 0;

	if (options)
		each = *options;
	each.name = NULL;
	each.verify = false;
	if (each.progress) {
		each.progress = pass_on;
		each.arg = &progress;
	}
	tarn_file_data_range(file, &offset, &progress.total);
	for (size_t i = 0; i < tarn_file_shard_count(file) && r >= 0; i++) {
		r = store_load_storage(store, tarn_file_shard(file, i), &each,
			&info, &held->at[i]);
		if (r < 0)
			break;
		held->n++;
		progress.before += info.bytes;
		add_info(ret_info, &info);
		r = report_progress(&progress);
	}
	return r;
}

static int verify_all(tarn_file *file, const struct tarn_load_options *options,
	const struct held *held, struct tarn_load_info *info)
{
	struct shards_progress progress = {.options = options};
	uint64_t offset;
	int r = 0;

	tarn_file_data_range(file, &offset, &progress.total);
	progress.before = progress.total;
	for (size_t i = 0; r >= 0 && i < held->n; i++) {
		r = load_verify(tarn_file_shard(file, i), held->at[i], info);
		if (r >= 0)
			r = report_progress(&progress);
	}
	return r;
}

/* ---- all of it ------------------------------------------------------- */

/* No bytes, and a hold on all: the shards do not lie in one range. */
static int tensor_over(struct held *held, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct tarn_layout layout;
	int64_t none = 0;
	int r = tarn_layout_contiguous(TARN_U8, 1, &none, &layout);

	if (r >= 0)
		r = tarn_storage_borrow(NULL, 0, 0, held_free, held, &storage);
	if (r < 0) {
		held_free(held);
		return r;
	}
	return tarn_tensor_new(storage, 0, &layout, ret);
}

tarn_storage *load_shards_storage(const tarn_storage *all, uint32_t i)
{
	const struct held *held;

	if (all->release != held_free)
		return NULL;
	held = all->arg;
	return i < held->n ? held->at[i] : NULL;
}

int store_load_shards(tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_tensor **ret_all)
{
	size_t n = tarn_file_shard_count(file);
	struct held *held = calloc(1, sizeof(*held) + n * sizeof(held->at[0]));
	struct tarn_load_info info = {0};
	int r;

	if (!held)
		return tarn_fail(ENOMEM, "load: no memory for %zu shards", n);
	r = load_all(store, file, options, held, &info);
	if (r >= 0 && options && options->verify)
		r = verify_all(file, options, held, &info);
	if (r >= 0 && options && options->name)
		r = store_publish_file(store, file, options->name, held->at);
	if (r >= 0 && ret_all)
		r = tensor_over(held, ret_all);
	else
		held_free(held);
	if (r < 0)
		return r;
	if (!info.engine)
		info.engine = "threads"; /* there was no shard, and no read */
	if (ret_info)
		*ret_info = info;
	return 0;
}
