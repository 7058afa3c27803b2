/* SPDX-License-Identifier: MIT */
/*
 * Patches by a publisher that lies: about its memory, which the daemon refuses;
 * and about its pages, which the daemon does not read: its readers find an error,
 * and never a byte outside of what is theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "lib/store/created.h"
#include "lib/store/own_map.h"
#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"

enum { PAGES = 100, SIZE = PAGES * PATCH_PAGE };

static struct daemon server;
static tarn_store *store, *reader;
static tarn_tensor *base;

static tarn_tensor *published(const char *name, int64_t size, unsigned flags)
{
	tarn_tensor *t;

	must(tarn_store_create(store, TARN_U8, 1, &size, flags, &t));
	memset(tarn_tensor_data(t), 7, (size_t)size);
	must(tarn_store_publish_one(store, name, t, NULL, NULL));
	tarn_tensor_unref(t);
	must(tarn_store_lookup(store, name, &t));
	return t;
}

/* A memfd of so many bytes, all of them there, with that foot behind all. */
static int memfd(uint64_t size, const struct patch_foot *foot)
{
	int fd = fd_memory("patch");

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
		posix_fallocate(fd, 0, (off_t)size) || fchmod(fd, 0644) < 0)
		bail("a memfd: %m");
	if (foot && pwrite(fd, foot, sizeof(*foot),
			    (off_t)(size - sizeof(*foot))) < 0)
		bail("a memfd: %m");
	return fd;
}

/* Publishes it as if it were a patch over that tensor. Takes fd. */
static int publish(const char *name, int fd, tarn_tensor *over)
{
	const int64_t size = (int64_t)over->storage->size;
	struct patched *patched = calloc(1, sizeof(*patched));
	tarn_storage *storage;
	struct tarn_layout l;
	tarn_tensor *t;
	int r;

	patched->depth = 1;
	must(created_patch(
		fd, patched, over->storage->data, over->storage, &storage));
	must(tarn_layout_contiguous(TARN_U8, 1, &size, &l));
	must(tarn_tensor_new(storage, 0, &l, &t));
	r = tarn_store_publish_one(store, name, t, NULL, NULL);
	tarn_tensor_unref(t);
	tarn_storage_unref(storage);
	return r;
}

static int sealed(int fd)
{
	own_seal(fd, false);
	return fd;
}

/* ---- what the daemon refuses --------------------------------------------- */

static void refused(int fd, tarn_tensor *over, int error, const char *part,
	const char *what)
{
	is_int(-error, publish("bad", fd, over), "%s is refused", what);
	has_str(part, tarn_error_message(), what);
}

static void test_memory(void)
{
	const struct patch_foot foot = {1, 1, PATCH_VERSION, 0, PATCH_MAGIC};
	tarn_tensor *mutable =
		published("mutable", 4 * SIZE, TARN_CREATE_MUTABLE);
	int fd = fd_memory("holes");

	refused(memfd(2 * PATCH_PAGE, &foot), base, EINVAL, "not sealed",
		"memory that may still be written");
	if (ftruncate(fd, 2 * PATCH_PAGE) < 0)
		bail("a memfd: %m");
	refused(sealed(fd), base, EINVAL, "all its pages",
		"memory that is not there");
	refused(sealed(memfd(SIZE, &foot)), base, EINVAL, "of fewer bytes",
		"as much as it is over");
	refused(sealed(memfd(PATCH_PAGE + 1, &foot)), base, EINVAL,
		"whole pages", "a part of a page");
	refused(sealed(memfd(2 * PATCH_PAGE, &foot)), mutable, EINVAL,
		"mutable", "a patch over what may change");
	tarn_tensor_unref(mutable);
	must(tarn_store_remove(store, "mutable"));
}

/* As many as there may be, and one more. Their pages are those of a reader that
 * never looks. */
static void test_depth(void)
{
	const struct patch_foot foot = {1, 1, PATCH_VERSION, 0, PATCH_MAGIC};
	tarn_tensor *at = tarn_tensor_ref(base), *next;
	struct tarn_descriptor d;
	const struct patch_run run = {.first = 1, .n = 1, .at = 0};

	for (unsigned i = 0; i < TABLE_PATCHES_MAX; i++) {
		int fd = memfd(2 * PATCH_PAGE, &foot);

		if (pwrite(fd, &run, sizeof(run), PATCH_PAGE) < 0)
			bail("a memfd: %m");
		must(publish("deep", sealed(fd), at));
		must(tarn_store_lookup(reader, "deep", &next));
		must(tarn_store_export(reader, next, &d));
		tarn_tensor_unref(next);
		must(tarn_store_import(store, &d, &next));
		tarn_tensor_unref(at);
		at = next;
	}
	ok(((const char *)tarn_tensor_data(at))[PATCH_PAGE] == 0 &&
			((const char *)tarn_tensor_data(at))[0] == 7,
		"the page of the highest is over all others");
	refused(sealed(memfd(2 * PATCH_PAGE, &foot)), at, E2BIG,
		"publish the tensor whole", "one more than there may be");
	tarn_tensor_unref(at);
	must(tarn_store_remove(store, "deep"));
}

/* So many mappings that a process of two such tensors could have no others. */
static void test_runs(void)
{
	enum { LEVELS = 3, LARGE = 2 * PATCH_RUNS_MAX * PATCH_PAGE };
	static struct patch_run runs[PATCH_RUNS_MAX];
	const struct patch_foot foot = {
		1, PATCH_RUNS_MAX, PATCH_VERSION, 0, PATCH_MAGIC};
	const char *part = "12288 runs in 3 patches";
	tarn_tensor *at = published("large", LARGE, 0), *next;
	int r;

	for (uint32_t i = 0; i < PATCH_RUNS_MAX; i++)
		runs[i] = (struct patch_run) {.first = 2 * i, .n = 1};
	for (unsigned i = 0; i < LEVELS; i++) {
		int fd = memfd(patch_size(1, PATCH_RUNS_MAX), &foot);

		if (pwrite(fd, runs, sizeof(runs), PATCH_PAGE) < 0)
			bail("a memfd: %m");
		must(publish("many", sealed(fd), at));
		r = tarn_store_lookup(reader, "many", &next);
		if (i == LEVELS - 1)
			break;
		must(r);
		tarn_tensor_unref(next);
		must(tarn_store_lookup(store, "many", &next));
		tarn_tensor_unref(at);
		at = next;
	}
	is_int(-EPROTO, r, "too many runs in all are an error for a reader");
	has_str(part, tarn_error_message(), "the error says how many");
	tarn_tensor_unref(at);
	must(tarn_store_remove(store, "many"));
	must(tarn_store_remove(store, "large"));
}

/* ---- what readers find --------------------------------------------------- */

static void found(const struct patch_foot *foot, const struct patch_run *runs,
	size_t n, uint64_t size, const char *part, const char *what)
{
	int fd = memfd(size, foot);
	tarn_tensor *t;

	if (n && pwrite(fd, runs, n * sizeof(*runs),
			 (off_t)foot->n_pages * PATCH_PAGE) < 0)
		bail("a memfd: %m");
	is_int(0, publish("bad", sealed(fd), base),
		"%s is published: the daemon reads no pages", what);
	is_int(-EPROTO, tarn_store_lookup(reader, "bad", &t),
		"%s is an error for a reader", what);
	has_str(part, tarn_error_message(), what);
}

static void test_pages(void)
{
	const struct patch_run one = {.first = 3, .n = 1, .at = 0};
	const struct patch_run outside = {.first = PAGES, .n = 1, .at = 0};
	const struct patch_run over = {.first = UINT32_MAX, .n = 2, .at = 0};
	const struct patch_run none = {.first = 3, .n = 0, .at = 0};
	const struct patch_run beyond = {.first = 3, .n = 1, .at = 1};
	const struct patch_run wraps = {.first = 3, .n = 1, .at = UINT32_MAX};
	const struct patch_run twice[] = {one, one};
	const uint64_t two = 2 * PATCH_PAGE;

	found(&(struct patch_foot) {1, 1, PATCH_VERSION, 0, 1}, &one, 1, two,
		"magic 0x1", "no patch");
	found(&(struct patch_foot) {1, 1, 2, 0, PATCH_MAGIC}, &one, 1, two,
		"version 2", "one of another version");
	found(&(struct patch_foot) {1, 0, PATCH_VERSION, 0, PATCH_MAGIC}, &one,
		0, two, "0 runs", "one without runs");
	found(&(struct patch_foot) {1, UINT32_MAX, PATCH_VERSION, 0,
		      PATCH_MAGIC},
		&one, 1, two, "4294967295 runs",
		"one with more runs than there may be");
	found(&(struct patch_foot) {2, 1, PATCH_VERSION, 0, PATCH_MAGIC}, NULL,
		0, two, "2 pages in 1 runs",
		"one with fewer pages than it says");
	found(&(struct patch_foot) {UINT32_MAX, 1, PATCH_VERSION, 0,
		      PATCH_MAGIC},
		NULL, 0, two, "4294967295 pages", "one with far fewer pages");
	found(&(struct patch_foot) {1, 1, PATCH_VERSION, 0, PATCH_MAGIC},
		&outside, 1, two, "run 0", "a page behind the storage");
	found(&(struct patch_foot) {1, 1, PATCH_VERSION, 0, PATCH_MAGIC}, &over,
		1, two, "run 0", "pages at the end of numbers");
	found(&(struct patch_foot) {1, 1, PATCH_VERSION, 0, PATCH_MAGIC}, &none,
		1, two, "run 0", "a run of no page");
	found(&(struct patch_foot) {1, 1, PATCH_VERSION, 0, PATCH_MAGIC},
		&beyond, 1, two, "run 0", "a page that the patch has not");
	found(&(struct patch_foot) {1, 1, PATCH_VERSION, 0, PATCH_MAGIC},
		&wraps, 1, two, "run 0", "one at the end of numbers");
	found(&(struct patch_foot) {1, 2, PATCH_VERSION, 0, PATCH_MAGIC}, twice,
		2, two, "run 1", "a page that is changed twice");
	must(tarn_store_remove(store, "bad"));
}

int main(void)
{
	daemon_start(&server, "patch_hostile.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	must(tarn_store_open(server.socket, NULL, &reader));
	base = published("base", SIZE, 0);
	test_memory();
	test_depth();
	test_runs();
	test_pages();
	ok(kit_is_sound(store), "the daemon finds no fault");
	tarn_tensor_unref(base);
	must(tarn_store_remove(store, "base"));
	ok(kit_storages_become(store, 0), "nothing is left");
	tarn_store_unref(reader);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(5 * 2 + 1 + 2 + 2 + 12 * 3 + 3);
}
