/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the bytes of a file that some client is loading.
 *
 * The table's entry of the storage that is being filled contains the identity
 * of its file, how many bytes have arrived, and, in its state, whether all
 * have. So the storage is searched for once, and then only its entry is read.
 */
#include <string.h>
#include <time.h>

#include <tarn/report.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/load_shards.h"
#include "lib/store/store.h"
#include "lib/store/wait.h"
#include "shm/record.h"

/* How long there may be no load of the next shard: some hundred times what a
 * client takes, and the time to verify the last one, at the rate below at
 * worst, for a client that verifies each shard before it loads the next. */
#define BETWEEN_MS 1000
#define VERIFIED_IN_MS ((uint64_t)1 << 20)
#define BETWEEN_NAP_MS 5

struct wanted {
	tarn_store *store;
	struct file_identity identity;
	uint64_t offset, size; /* of the file's data */
	uint64_t bytes;        /* how many of them are waited for */
	bool seen;             /* there was a storage for it */
	uint32_t index;
	uint64_t generation; /* 0: none is known */
	uint64_t landed;
};

static enum storage_state state_of(const struct table_storage *entry)
{
	return storage_word_state(
		atomic_load_explicit(&entry->word, memory_order_relaxed));
}

static bool is_of_file(
	const struct wanted *w, const struct table_storage *entry)
{
	const struct file_identity *id = &w->identity;

	return identity_same(&entry->file, id) &&
	       entry->file_offset == w->offset && entry->size == w->size;
}

/* A storage that a dead loader may still write is not being loaded. */
static bool is_filled(const struct table_storage *entry)
{
	return !(entry->flags & STORAGE_QUARANTINE);
}

/* Is it a storage of the file, and of which generation? */
static bool look_at(struct wanted *w, uint32_t index)
{
	const struct table *table = &w->store->table;
	struct table_storage entry;
	uint64_t generation;

	if (PEEK(table->storages[index].file.ino) != w->identity.ino)
		return false;
	generation = storage_word_generation(atomic_load_explicit(
		&table->storages[index].word, memory_order_relaxed));
	if (table_storage_get(table, index, generation, &entry) < 0 ||
		!is_of_file(w, &entry) || !is_filled(&entry))
		return false;
	w->index = index;
	w->generation = generation;
	w->seen = true;
	return true;
}

static int find_storage(struct wanted *w)
{
	/* Acquire: pairs with the release store in table_storage_add; entries
	 * below it are there. */
	uint32_t n = atomic_load_explicit(
		&w->store->table.header->n_storages, memory_order_acquire);

	n = MIN(n, TABLE_STORAGES_MAX);
	for (uint32_t i = 0; i < n; i++)
		if (look_at(w, i))
			return 0;
	if (w->seen)
		return tarn_fail(ECANCELED,
			"its load has ended after %llu of %llu bytes",
			(unsigned long long)w->landed,
			(unsigned long long)w->size);
	return tarn_fail(ENOENT,
		"nobody is loading it; tarn_store_load or 'tarn load' does");
}

static int look(void *arg)
{
	struct wanted *w = arg;
	const struct table *table = &w->store->table;
	struct table_storage entry;
	int r = 0;

	/* Its storage may have gone, and another have come. */
	if (!w->generation ||
		table_storage_get(table, w->index, w->generation, &entry) < 0 ||
		!is_filled(&entry)) {
		w->generation = 0;
		r = find_storage(w);
		if (r >= 0)
			r = table_storage_get(
				table, w->index, w->generation, &entry);
	}
	if (r < 0)
		return r == -ESTALE ? -EAGAIN : r;
	if (state_of(&entry) == STORAGE_FILLING)
		w->landed = MIN(atomic_load_explicit(
					&entry.landed, memory_order_relaxed),
			w->size);
	else
		w->landed = w->size;
	/* All bytes are there when the state says so, not before. */
	return state_of(&entry) != STORAGE_FILLING ||
	       (w->bytes < w->size && w->landed >= w->bytes);
}

/* The caller's time limit: end is negative if there is none. */
struct limit {
	int timeout_ms;
	int64_t end;
};

static int left(const struct limit *limit)
{
	return limit->end < 0 ? -1
			      : (int)MAX(limit->end - clock_ms(), (int64_t)0);
}

/* For one file that is not an index. */
static int wait_one(tarn_store *store, const tarn_file *file, uint64_t bytes,
	const struct limit *limit, uint64_t *ret_landed)
{
	struct wanted w = {.store = store};
	int r;

	tarn_file_data_range(file, &w.offset, &w.size);
	w.bytes = bytes && bytes < w.size ? bytes : w.size;
	r = identity_of(tarn_file_fd(file), &w.identity);
	if (r >= 0 && w.size)
		r = store_wait(store, left(limit), look, &w);
	if (r == -ETIMEDOUT)
		r = tarn_fail(ETIMEDOUT,
			"%llu of %llu bytes have arrived, not %llu within %d "
			"ms",
			(unsigned long long)w.landed,
			(unsigned long long)w.size, (unsigned long long)w.bytes,
			limit->timeout_ms);
	if (r < 0)
		return tarn_fail_prefix(r, "%.200s: ", tarn_file_path(file));
	*ret_landed = w.landed;
	return 0;
}

/* ---- what has not begun ----------------------------------------------- */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Compares the names that clients gave the file, which may be another path to
 * it; the end of a long one is cut off. A load that reads has a storage, of
 * this file or not. */
static bool is_of(
	const struct tarn_report_load *load, const char *path, uint64_t size)
{
	return load->state != TARN_REPORT_LOAD_READING &&
	       load->state != TARN_REPORT_LOAD_STOPPING &&
	       load->total == size &&
	       (!strcmp(base_of(load->label), base_of(path)) ||
		       !strncmp(load->label, path, sizeof(load->label) - 1));
}

/* A load that has no storage yet, since it waits for memory or for a loader, is
 * in no table; but the daemon's report lists it. */
static bool is_coming(tarn_store *store, const tarn_file *file)
{
	struct tarn_report *report;
	uint64_t offset, size;
	bool coming = false;

	if (tarn_store_report(store, &report) < 0)
		return false;
	tarn_file_data_range(file, &offset, &size);
	for (uint32_t i = 0; i < report->n_loads; i++)
		coming = coming ||
			 is_of(&report->loads[i], tarn_file_path(file), size);
	tarn_report_free(report);
	return coming;
}

static int not_begun(const tarn_file *file, const struct limit *limit)
{
	return tarn_fail(ETIMEDOUT,
		"%.200s: its load has not begun to read within %d ms; it waits "
		"for memory, or for a loader",
		tarn_file_path(file), limit->timeout_ms);
}

/* For patience_ms there may be no load of it. */
static int wait_coming(tarn_store *store, const tarn_file *file, uint64_t bytes,
	int64_t patience_ms, const struct limit *limit, uint64_t *landed)
{
	const struct timespec nap = {.tv_nsec = BETWEEN_NAP_MS * 1000000};
	int64_t patience = clock_ms() + patience_ms;

	for (;;) {
		int64_t now = clock_ms();
		bool over = limit->end >= 0 && now >= limit->end;
		int r = wait_one(store, file, bytes, limit, landed);

		if (r != -ENOENT)
			return r;
		if (now >= patience || over) {
			if (!is_coming(store, file))
				break;
			if (over)
				return not_begun(file, limit);
			patience = now + BETWEEN_MS;
		}
		nanosleep(&nap, NULL);
	}
	/* It may have come, or come and gone, since the last look. */
	return wait_one(store, file, bytes, limit, landed);
}

/* ---- all shards of an index ------------------------------------------ */

/* Between two shards there is no load for a moment. landed is the last
 * one's. */
static int64_t pause_ms(uint64_t landed)
{
	return BETWEEN_MS + (int64_t)(landed / VERIFIED_IN_MS);
}

static int wait_shards(tarn_store *store, const tarn_file *file, uint64_t bytes,
	const struct limit *limit, uint64_t *ret_landed)
{
	uint64_t sum = 0, landed = 0, offset, size;
	int r = 0;

	tarn_file_data_range(file, &offset, &size);
	bytes = bytes && bytes < size ? bytes : size;
	for (size_t i = 0; i < tarn_file_shard_count(file) && sum < bytes;
		i++) {
		const tarn_file *shard = tarn_file_shard(file, i);

		r = wait_coming(store, shard, bytes - sum,
			i == 0 ? 0 : pause_ms(landed), limit, &landed);
		if (r < 0)
			return r;
		sum += landed;
	}
	*ret_landed = sum;
	return 0;
}

int tarn_store_wait_file(tarn_store *store, const tarn_file *file,
	uint64_t bytes, int timeout_ms, uint64_t *ret_landed)
{
	const struct limit limit = {.timeout_ms = timeout_ms,
		.end = timeout_ms < 0 ? -1 : clock_ms() + timeout_ms};
	uint64_t landed = 0;
	int r;

	if (file_is_index(file))
		r = wait_shards(store, file, bytes, &limit, &landed);
	else
		r = wait_coming(store, file, bytes, 0, &limit, &landed);
	if (r >= 0 && ret_landed)
		*ret_landed = landed;
	return r;
}
