/* SPDX-License-Identifier: MIT */
/*
 * A file that has to be inflated, by one process of a user for all of them.
 *
 * What is inflated is a created tensor, which is published: so its memfd is
 * sealed, and the daemon hands it to any process of the same user. Each opens it
 * as the file that it stands for. Names of one user are seen by that user alone,
 * so nobody has to believe what another user says a file contains; and a pool
 * that users share is not used for it.
 *
 * Two names stand for a version of a file, by its identity. ".../turn" is a small
 * mutable tensor: its lock is the right to inflate, which the kernel takes from a
 * process that dies; in it is the descriptor of what was inflated. ".../bytes"
 * keeps that for some time after its last opening. Afterwards it lasts as long as
 * any process has it, and is found by the descriptor while that has its name.
 *
 * Whatever fails here but the inflating itself, a file can be opened without: a
 * process then inflates it alone.
 */
#include "lib/store/inflated.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <tarn/publish.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/created.h"
#include "lib/store/load_shards.h"
#include "lib/store/own_map.h"
#include "lib/tensor/tensor.h"

/* How long what nobody uses is kept; picked. It is not evicted meanwhile, unlike
 * a cached file, so it cannot be long. */
#define KEPT_MS 60000
/* How long the name of the lock lasts; as long as a daemon that nobody uses stays
 * for its cached files. */
#define TURN_MS 600000
/* How long one that has the lock may take; picked. It inflates some 200 MB/s; one
 * that takes ten times as long stands still. */
unsigned inflated_patience_ms = 5000;
#define BYTES_A_MS 20000u

#define NAME_SIZE 256

struct shared_file {
	struct tarn_store *store;
	struct tarn_file *file;
	uint64_t size;
	char turn_name[NAME_SIZE], bytes_name[NAME_SIZE];
	tarn_tensor *turn;
};

/* ---- names ------------------------------------------------------------ */

/* False: equal stamps would not prove equal bytes. */
static bool make_names(struct shared_file *s)
{
	struct file_identity id;
	char text[NAME_SIZE - 8];

	if (identity_settled(s->file->fd, &id) != 0 ||
		!identity_same(&id, &s->file->version.identity) ||
		identity_worth(&id) != IDENTITY_LASTS)
		return false;
	snprintf(text, sizeof(text),
		"inflated/%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64
		"-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx32,
		id.dev, id.ino, id.size, id.mtime, id.ctime, id.fsid,
		id.instance, id.fs);
	snprintf(s->turn_name, NAME_SIZE, "%s/turn", text);
	snprintf(s->bytes_name, NAME_SIZE, "%s/bytes", text);
	return true;
}

/* ---- turns ------------------------------------------------------------ */

static int make_turn(struct shared_file *s)
{
	const int64_t size = sizeof(struct tarn_descriptor);
	const struct tarn_publish_options once = {
		.exclusive = true, .ttl_ms = TURN_MS};
	_cleanup_tensor_ tarn_tensor *turn = NULL;
	int r = tarn_store_create(
		s->store, TARN_U8, 1, &size, TARN_CREATE_MUTABLE, &turn);

	return r < 0 ? r
		     : tarn_store_publish_one(
			       s->store, s->turn_name, turn, &once, NULL);
}

static int open_turn(struct shared_file *s)
{
	int r = tarn_store_lookup(s->store, s->turn_name, &s->turn);

	if (r != -ENOENT)
		return r;
	r = make_turn(s);
	/* Another may be quicker. */
	return r < 0 && r != -EEXIST
		       ? r
		       : tarn_store_lookup(s->store, s->turn_name, &s->turn);
}

static int take_turn(struct shared_file *s)
{
	uint64_t patience = inflated_patience_ms + s->size / BYTES_A_MS;
	int r = open_turn(s);

	if (r >= 0 && s->turn->storage->size < sizeof(struct tarn_descriptor))
		r = -EINVAL;
	return r < 0 ? r
		     : tarn_tensor_lock(s->turn, TARN_LOCK_WRITE,
			       (int)MIN(patience, (uint64_t)INT32_MAX));
}

/* ---- what was inflated ------------------------------------------------- */

/* Its names last for a while from now on. */
static int keep(struct shared_file *s, tarn_tensor *bytes)
{
	const struct tarn_publish_options kept = {.ttl_ms = KEPT_MS};
	const struct tarn_publish_options turn = {.ttl_ms = TURN_MS};
	int r = tarn_store_publish_one(
		s->store, s->bytes_name, bytes, &kept, NULL);

	return r < 0 ? r
		     : tarn_store_publish_one(
			       s->store, s->turn_name, s->turn, &turn, NULL);
}

/* The file is from now on what is in there. */
static int use(struct shared_file *s, tarn_tensor *bytes, int *ret_fd)
{
	const struct shared_storage *shared = store_storage_of(bytes->storage);
	struct table_storage entry;
	int r;

	if (!shared || bytes->storage->size != s->size)
		return -ENOENT;
	r = table_storage_get(
		&s->store->table, shared->index, shared->generation, &entry);
	if (r >= 0)
		r = own_fetch_checked(
			s->store, shared->index, shared->generation, &entry);
	if (r < 0)
		return r;
	*ret_fd = r;
	s->file->inflated = tarn_storage_ref(bytes->storage);
	return 0;
}

/* What another process has inflated, if any still has it. */
static int find(struct shared_file *s, int *ret_fd)
{
	_cleanup_tensor_ tarn_tensor *bytes = NULL;
	struct tarn_descriptor d;
	int r;

	memcpy(&d, tarn_tensor_data(s->turn), sizeof(d));
	r = store_import(s->store, &d, &bytes);
	if (r >= 0)
		r = use(s, bytes, ret_fd);
	if (r < 0)
		return r;
	s->file->found = true;
	/* If it fails, it lasts as long as it is used. */
	(void)keep(s, bytes);
	return 0;
}

static int hand_over(struct shared_file *s, tarn_tensor *bytes, int *ret_fd)
{
	struct tarn_descriptor d;
	int r = keep(s, bytes);

	if (r >= 0)
		r = tarn_store_export(s->store, bytes, &d);
	if (r >= 0)
		r = use(s, bytes, ret_fd);
	if (r < 0)
		return 1;
	memcpy(tarn_tensor_data(s->turn), &d, sizeof(d));
	return 0;
}

/* What the daemon did not take is a file of this process alone. */
static int use_alone(struct shared_file *s, tarn_tensor *bytes, int *ret_fd)
{
	const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK;
	struct created *created = created_of(bytes->storage);
	int r;

	if (!created || created->spent || created_freeze(bytes->storage) < 0 ||
		(fcntl(created->fd, F_GET_SEALS) & wanted) != wanted)
		return 1;
	/* To publish it may have made a copy of it. */
	r = file_inflated(s->file, created->fd);
	if (r < 0)
		return r;
	*ret_fd = fd_dup(created->fd);
	return *ret_fd < 0 ? 1 : 0;
}

static int make(struct shared_file *s, file_fill *fill, void *job, int *ret_fd)
{
	_cleanup_tensor_ tarn_tensor *bytes = NULL;
	int64_t size = (int64_t)s->size;
	struct created *created;
	int r = tarn_store_create(s->store, TARN_U8, 1, &size, 0, &bytes);

	if (r < 0)
		return 1;
	created = created_of(bytes->storage);
	/* The child of a fork would keep it from being sealed. */
	if (madvise(created->addr, s->size, MADV_DONTFORK) < 0)
		return 1;
	r = fill(job, created->fd, created->addr);
	if (r >= 0)
		r = hand_over(s, bytes, ret_fd);
	return r == 1 ? use_alone(s, bytes, ret_fd) : r;
}

/* A file_sharing's. */
static int get(void *arg, struct tarn_file *file, uint64_t size,
	file_fill *fill, void *job, int *ret_fd)
{
	struct shared_file s = {.store = arg, .file = file, .size = size};
	int r = 1;

	/* What is smaller has no memfd of its own, and is inflated quickly. */
	if (size < TARN_ADOPT_MIN || s.store->pool[0] || !make_names(&s))
		return 1;
	if (take_turn(&s) >= 0) {
		r = find(&s, ret_fd);
		if (r < 0)
			r = make(&s, fill, job, ret_fd);
		(void)tarn_tensor_unlock(s.turn);
	}
	tarn_tensor_unref(s.turn);
	return r;
}

/* ---- files ------------------------------------------------------------- */

struct file_sharing store_sharing(struct tarn_store *store)
{
	return (struct file_sharing) {.get = get, .arg = store};
}

int tarn_store_open_file(tarn_store *store, const char *path, tarn_file **ret)
{
	const struct file_sharing sharing = store_sharing(store);

	return file_open_shared(path, &sharing, ret);
}

int store_inflated_storage(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret)
{
	const struct shared_storage *shared =
		file->inflated ? store_storage_of(file->inflated) : NULL;

	if (!shared || shared->store != store || (options && options->fresh))
		return 1;
	if (options && options->progress &&
		options->progress(options->arg, TARN_LOAD_PHASE_READ,
			file->size, file->size))
		return tarn_fail(ECANCELED, "load: cancelled");
	*ret_info = (struct tarn_load_info) {.bytes = file->size,
		.engine = "threads",
		.cached = file->found};
	*ret = tarn_storage_ref(file->inflated);
	if (options && options->name)
		return store_publish_file(store, file, options->name, ret);
	return 0;
}
