// SPDX-License-Identifier: MIT
/*
 * Opening the shards of a source. Each thread takes the next one that is not open
 * yet: finds its index beside it, or looks through the shard. The caller's thread
 * waits for them, and tells of the progress.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/checked.h"
#include "base/cpus.h"
#include "base/fail.h"
#include "lib/data/shard.h"
#include "lib/data/side_car.h"
#include "lib/tensor/tensor.h"

/* Milliseconds between two calls of progress: as often as an eye can follow. */
#define PROGRESS_MS 50

/* Shards that are open at once: each has two files, and the process has others.
 * Picked: half of what it may have. */
static size_t open_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 64;
	return (size_t)MAX(MIN(limit.rlim_cur / 4, 65536u), 4u);
}

struct opening {
	struct data_shards *shards;
	const struct tarn_data_source_options *options;
	atomic_size_t next;
	atomic_bool failed;
	atomic_uint_fast64_t done; /* bytes */
	uint64_t total;
	/* Of those that work: the caller waits for their end. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t working, n_threads;
	size_t failed_at; /* the first in order, whose error counts */
	int r;
	char message[TARN_MESSAGE_MAX];
};

struct step {
	struct opening *opening;
	uint64_t at;
};

static int count_bytes(void *arg, uint64_t at)
{
	struct step *step = arg;

	atomic_fetch_add_explicit(
		&step->opening->done, at - step->at, memory_order_relaxed);
	step->at = at;
	return atomic_load_explicit(
		       &step->opening->failed, memory_order_relaxed)
		       ? -ECANCELED
		       : 0;
}

static int make_index(struct opening *o, struct data_shard *shard)
{
	struct step step = {.opening = o};
	_cleanup_free_ char *path = NULL;
	_cleanup_tensor_ tarn_tensor *made = NULL;
	int r = shard_index_make(shard->storage, &shard->seen, count_bytes,
		&step, &shard->index);

	if (r >= 0)
		r = shard_index_check(shard->index, &shard->seen, &shard->head);
	count_bytes(&step, shard->seen.size);
	if (r < 0)
		return tarn_fail_prefix(r, "%.300s: ", shard->path);
	shard->index_kept = true;
	if (!o->options || !o->options->side_car)
		return 0;
	r = data_shard_index_path(shard, &path);
	if (r < 0)
		return r;
	side_car_write(path, shard->index);
	/* Pages of the file are shared by all who read it. Where the folder cannot
	 * be written, what was made stays. */
	made = STEAL(shard->index);
	shard->index_kept = data_shard_open_index(shard, &shard->head) < 0;
	if (shard->index_kept)
		shard->index = STEAL(made);
	return 0;
}

static int open_one(struct opening *o, size_t i)
{
	struct data_shard *shard = &o->shards->at[i];
	const struct tarn_data_source_options *options = o->options;
	tarn_tensor *given =
		options && options->indexes ? options->indexes[i] : NULL;
	int r = data_shard_open_file(shard, &shard->storage, &shard->seen);

	if (r < 0)
		return r;
	shard->is_seen = true;
	if (given) {
		r = shard_index_check(given, &shard->seen, &shard->head);
		if (r < 0)
			return tarn_fail_prefix(r, "%.300s: ", shard->path);
		shard->index = tarn_tensor_ref(given);
		shard->index_kept = true;
	} else if (!options || !options->side_car ||
		   data_shard_open_index(shard, &shard->head) < 0) {
		r = make_index(o, shard);
	}
	if (r >= 0 && i >= o->shards->open_max)
		data_shard_close(shard);
	return r;
}

static void note_failure(struct opening *o, size_t i, int r)
{
	pthread_mutex_lock(&o->lock);
	if (r != -ECANCELED && (o->r >= 0 || i < o->failed_at)) {
		o->r = r;
		o->failed_at = i;
		strncpy(o->message, tarn_error_message(),
			sizeof(o->message) - 1);
	}
	pthread_mutex_unlock(&o->lock);
	atomic_store_explicit(&o->failed, true, memory_order_relaxed);
}

static void *work(void *arg)
{
	struct opening *o = arg;

	/* Relaxed: each thread writes shards of its own, and ends, with the lock,
	 * before they are read. */
	while (!atomic_load_explicit(&o->failed, memory_order_relaxed)) {
		size_t i = atomic_fetch_add_explicit(
			&o->next, 1, memory_order_relaxed);
		int r;

		if (i >= o->shards->n)
			break;
		r = open_one(o, i);
		if (r < 0)
			note_failure(o, i, r);
	}
	pthread_mutex_lock(&o->lock);
	o->working--;
	pthread_cond_signal(&o->changed);
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

/* Not 0: it is to end. */
static int tell(struct opening *o)
{
	const struct tarn_data_source_options *options = o->options;

	if (!options || !options->progress ||
		!options->progress(options->arg,
			atomic_load_explicit(&o->done, memory_order_relaxed),
			o->total))
		return 0;
	atomic_store_explicit(&o->failed, true, memory_order_relaxed);
	return 1;
}

/* Calls progress at the begin, and until all threads have ended. */
static int wait_for_threads(struct opening *o)
{
	int r = tell(o);

	pthread_mutex_lock(&o->lock);
	while (o->working) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += PROGRESS_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&o->changed, &o->lock, &until);
		if (r)
			continue;
		pthread_mutex_unlock(&o->lock);
		r = tell(o);
		pthread_mutex_lock(&o->lock);
	}
	pthread_mutex_unlock(&o->lock);
	return r ? tarn_fail_constant(ECANCELED,
			   "data: looking through the shards was cancelled")
		 : 0;
}

static int run_threads(struct opening *o, int threads)
{
	pthread_t *at = calloc((size_t)threads, sizeof(*at));
	int started = 0, r;

	if (!at)
		return tarn_fail(
			ENOMEM, "data: no memory for %d threads", threads);
	o->working = (size_t)threads;
	while (started < threads &&
		pthread_create(&at[started], NULL, work, o) == 0)
		started++;
	pthread_mutex_lock(&o->lock);
	o->working -= (size_t)(threads - started);
	pthread_mutex_unlock(&o->lock);
	if (!started) {
		o->working = 1;
		work(o);
	}
	r = wait_for_threads(o);
	for (int i = 0; i < started; i++)
		pthread_join(at[i], NULL);
	free(at);
	return r;
}

static uint64_t sizes_of(const struct data_shards *shards)
{
	uint64_t sum = 0;
	struct stat st;

	for (size_t i = 0; i < shards->n; i++)
		if (stat(shards->at[i].path, &st) == 0)
			sum += (uint64_t)st.st_size;
	return sum;
}

static int open_all(struct data_shards *shards,
	const struct tarn_data_source_options *options)
{
	struct opening o = {.shards = shards, .options = options};
	int threads = options && options->threads > 0 ? options->threads
						      : cpus_granted();
	pthread_condattr_t attributes;
	int r;

	if (options && options->progress)
		o.total = sizes_of(shards);
	pthread_mutex_init(&o.lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&o.changed, &attributes);
	pthread_condattr_destroy(&attributes);
	r = run_threads(&o, (int)MIN((size_t)threads, shards->n));
	if (r >= 0 && o.r < 0)
		r = tarn_fail(-o.r, "%s", o.message);
	pthread_cond_destroy(&o.changed);
	pthread_mutex_destroy(&o.lock);
	return r;
}

static int number_records(struct data_shards *shards)
{
	for (size_t i = 0; i < shards->n; i++) {
		struct data_shard *shard = &shards->at[i];

		shard->first = shards->n_records;
		shards->open += shard->storage != NULL;
		if (add_u64(shards->n_records, shard->head.n_records,
			    &shards->n_records) ||
			shards->n_records > INT64_MAX)
			return tarn_fail_constant(EOVERFLOW,
				"data: the shards have more than 2^63 records");
	}
	return 0;
}

int data_shards_open(const char *const *paths, size_t n,
	const struct tarn_data_source_options *options,
	struct data_shards **ret)
{
	struct data_shards *shards = calloc(1, sizeof(*shards));
	int r = 0;

	if (shards)
		shards->at = calloc(n, sizeof(*shards->at));
	if (!shards || !shards->at) {
		free(shards);
		return tarn_fail(ENOMEM, "data: no memory for %zu shards", n);
	}
	fork_lock_init(&shards->lock);
	shards->open_max = open_max();
	for (; r >= 0 && shards->n < n; shards->n++) {
		shards->at[shards->n].path = strdup(paths[shards->n]);
		if (!shards->at[shards->n].path)
			r = tarn_fail_constant(
				ENOMEM, "data: no memory for a path");
	}
	if (r >= 0)
		r = open_all(shards, options);
	if (r >= 0)
		r = number_records(shards);
	if (r < 0)
		data_shards_free(shards);
	else
		*ret = shards;
	return r;
}
