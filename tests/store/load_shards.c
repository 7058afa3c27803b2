// SPDX-License-Identifier: MIT
/*
 * A checkpoint of more shards than one message publishes from: all names are
 * there, those of shards without bytes too; the progress covers all shards and
 * ends at their sum; a wait for the index waits for all shards; a damaged
 * shard publishes no name at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/save.h"
#include "tests/kit/tap.h"

/* More than twice the 64 that one message takes. */
enum { SHARDS = 130, EMPTY = 65, ELEMENTS = 100 };

#define BYTES ((SHARDS - 1) * ELEMENTS * sizeof(float))

static const char *shard_path(int i)
{
	char name[32];

	snprintf(name, sizeof(name), "%03d.st", i);
	return in(name);
}

static void make_shards(void)
{
	struct tarn_save_options o = {.checksums = true};

	for (int i = 0; i < SHARDS; i++) {
		struct tarn_save_item item;
		char name[16];

		snprintf(name, sizeof(name), "t%d", i);
		item = item_of(
			name, MADE(TARN_F32, i + 1, i == EMPTY ? 0 : ELEMENTS));
		if (tarn_save(shard_path(i), &item, 1, &o, NULL) < 0)
			bail("%s", tarn_error_message());
		drop(&item, 1);
	}
}

static void make_index(void)
{
	FILE *f = fopen(in("index.json"), "w");

	if (!f)
		bail("index.json: %m");
	fprintf(f, "{\"weight_map\":{");
	for (int i = 0; i < SHARDS; i++)
		fprintf(f, "%s\"t%d\":\"%03d.st\"", i ? "," : "", i, i);
	fprintf(f, "}}");
	fclose(f);
}

struct seen {
	uint64_t last, total, enough; /* cancels from enough bytes on */
	bool back;
};

static int look(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total)
{
	struct seen *seen = arg;

	if (phase != TARN_LOAD_PHASE_READ)
		return 0;
	seen->back |= done < seen->last || done > total;
	seen->last = done;
	seen->total = total;
	return seen->enough && done >= seen->enough;
}

static int count_names(tarn_store *store, const char *prefix)
{
	int n = 0;

	for (int i = 0; i < SHARDS; i++) {
		tarn_tensor *t = NULL;
		char name[32];

		snprintf(name, sizeof(name), "%s/t%d", prefix, i);
		if (tarn_store_lookup(store, name, &t) == 0)
			n += tarn_layout_numel(tarn_tensor_layout(t)) ==
			     (i == EMPTY ? 0 : ELEMENTS);
		tarn_tensor_unref(t);
	}
	return n;
}

static tarn_file *open_index(void)
{
	tarn_file *file = NULL;

	if (tarn_file_open(in("index.json"), &file) < 0)
		bail("%s", tarn_error_message());
	return file;
}

/* Each is a view of its shard: named or not, found in the same memory. */
static void test_views(tarn_store *store, tarn_tensor *all, tarn_file *file,
	const char *prefix)
{
	tarn_tensor *t = NULL, *named = NULL;
	int same = 0, r = 0;

	for (int i = 0; i < SHARDS && r >= 0; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s/t%d", prefix, i);
		r = tarn_store_lookup(store, name, &named);
		if (r >= 0)
			r = tarn_loaded_tensor(
				all, file, strchr(name, '/') + 1, &t);
		same += r >= 0 && tarn_tensor_same_storage(t, named) &&
			tarn_tensor_base(t) == tarn_tensor_base(named);
		t = tarn_tensor_unref(t);
		named = tarn_tensor_unref(named);
	}
	is_int(SHARDS, same,
		"%s: all tensors are views of the loaded storage (%s)", prefix,
		r < 0 ? tarn_error_message() : "no error");
	is_int(-ENOENT, tarn_loaded_tensor(all, file, "none", &t),
		"%s: a tensor that the index has not is not found", prefix);
	if (tarn_store_lookup(store, "m/t0", &named) < 0)
		bail("%s", tarn_error_message());
	is_int(-EINVAL, tarn_loaded_tensor(named, file, "t0", &t),
		"%s: a file that is not loaded has no tensors in it", prefix);
	tarn_tensor_unref(named);
}

static void test_load(tarn_store *store, const char *name, bool verify)
{
	const uint64_t bytes = BYTES;
	struct seen seen = {0};
	struct tarn_load_options o = {
		.name = name, .verify = verify, .progress = look, .arg = &seen};
	struct tarn_load_info info = {0};
	tarn_tensor *all = NULL;
	tarn_file *file = open_index();
	uint64_t landed = 0;

	is_int(0, tarn_store_load(store, file, &o, &info, &all),
		"%s: the index is loaded: %s", name, tarn_error_message());
	is_int((int64_t)bytes, (int64_t)info.bytes,
		"%s: the load reports the bytes of all shards", name);
	is_int(SHARDS, count_names(store, name),
		"%s: the load publishes the names of all shards", name);
	ok(!seen.back, "%s: the progress only grows", name);
	is_int((int64_t)bytes, (int64_t)seen.last,
		"%s: the progress ends at the sum of all shards", name);
	is_int((int64_t)bytes, (int64_t)seen.total,
		"%s: the progress has the sum of all shards as its total",
		name);
	is_int(0, tarn_store_wait_file(store, file, 0, 20000, &landed),
		"%s: a wait for the index ends after the load: %s", name,
		tarn_error_message());
	is_int((int64_t)bytes, (int64_t)landed,
		"%s: a wait for the index counts the bytes of all shards",
		name);
	test_views(store, all, file, name);
	tarn_tensor_unref(all);
	tarn_file_unref(file);
}

/* Also where each shard is too small to tell anything itself. */
static void test_cancel(tarn_store *store)
{
	struct seen seen = {.enough = 3 * ELEMENTS * sizeof(float)};
	struct tarn_load_options o = {
		.name = "never", .progress = look, .arg = &seen};
	tarn_file *file = open_index();

	is_int(-ECANCELED, tarn_store_load(store, file, &o, NULL, NULL),
		"a load of shards is cancelled on the way");
	ok(seen.last < seen.total, "the cancelled load did not reach its end");
	is_int(0, count_names(store, "never"),
		"a cancelled load publishes no name");
	tarn_file_unref(file);
}

static void damage(int i)
{
	_cleanup_fd_ int fd = open(shard_path(i), O_RDWR | O_CLOEXEC);
	off_t end = lseek(fd, 0, SEEK_END);
	char c;

	if (pread(fd, &c, 1, end - 1) != 1)
		bail("pread: %m");
	c ^= 1;
	if (pwrite(fd, &c, 1, end - 1) != 1)
		bail("pwrite: %m");
}

static void test_damaged(tarn_store *store)
{
	struct tarn_load_options o = {.name = "bad", .verify = true};
	tarn_file *file;

	damage(SHARDS - 1);
	file = open_index();
	is_int(-EBADMSG, tarn_store_load(store, file, &o, NULL, NULL),
		"a load with a damaged last shard is refused");
	has_str("129.st: tensor 't129' is damaged", tarn_error_message(),
		"the error contains the expected words");
	is_int(0, count_names(store, "bad"),
		"a load with a damaged shard publishes no name");
	tarn_file_unref(file);
}

/* Checksums are made when all bytes are there: between the loads of two shards
 * there is no pause, in which nobody could tell that this one goes on. */
static void test_order(tarn_store *store)
{
	struct seen seen = {0};
	struct tarn_load_options o = {
		.verify = true, .progress = look, .arg = &seen};
	tarn_file *file;

	damage(0);
	file = open_index();
	is_int(-EBADMSG, tarn_store_load(store, file, &o, NULL, NULL),
		"a load with a damaged first shard is refused");
	has_str("000.st: tensor 't0' is damaged", tarn_error_message(),
		"the error names the first damaged shard");
	is_int((int64_t)BYTES, (int64_t)seen.last,
		"the error comes after all shards were loaded");
	tarn_file_unref(file);
}

int main(void)
{
	tarn_store *store = NULL;
	struct daemon server;

	daemon_start(&server, "s", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	make_shards();
	make_index();
	test_load(store, "m", false);
	test_load(store, "v", true);
	test_cancel(store);
	test_damaged(store);
	test_order(store);
	tarn_store_unref(store);
	for (int i = 0; i < SHARDS; i++)
		unlink(shard_path(i));
	unlink(in("index.json"));
	daemon_stop(&server);
	return done(31);
}
