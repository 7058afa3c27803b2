/* SPDX-License-Identifier: MIT */
/*
 * Publishing, as who uses it sees it: the bytes, versions, sets of names, and
 * failures that leave nothing behind.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/kit/counting.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define PATIENCE_MS 60000 /* on a loaded machine */

static tarn_store *store;

/* The first number under a name; -1: there is none. */
static double first_of(tarn_store *in, const char *name)
{
	tarn_tensor *t = kit_looked_up(in, name);
	int64_t zero = 0;
	double v = -1;

	if (t)
		must(tarn_tensor_get_f64(t, &zero, &v));
	tarn_tensor_unref(t);
	return v;
}

static int publish_one(const char *name, tarn_tensor *t,
	const struct tarn_publish_options *options, uint64_t *ret_version)
{
	struct tarn_publish_item item = {.name = name, .tensor = t};

	return tarn_store_publish(store, &item, 1, options, ret_version);
}

static struct tarn_report_daemon status(void)
{
	struct tarn_report_daemon s = {0};

	report_daemon(store, &s);
	return s;
}

/* What nobody holds is freed a moment later. */
static bool storages_become(uint64_t n)
{
	uint64_t seen = status().storages;

	for (int ms = 0; seen != n && ms < PATIENCE_MS; ms += 5) {
		usleep(5000);
		seen = status().storages;
	}
	if (seen != n)
		diag("there are %llu storages, not %llu",
			(unsigned long long)seen, (unsigned long long)n);
	return seen == n;
}

/* ---- one tensor ------------------------------------------------------ */

static void test_bytes(tarn_store *other, int64_t n, const char *what)
{
	tarn_tensor *t = kit_counting(store, TARN_I32, n, 5), *seen;
	tarn_tensor *copy = NULL;
	uint64_t version = 0;

	must(tarn_tensor_clone(t, &copy));
	kit_is_done(publish_one("a/b", t, NULL, &version), what);
	is_int(1, (int64_t)version, "%s: the published name has version 1",
		what);
	seen = kit_looked_up(other, "a/b");
	ok(seen && tarn_tensor_equal(seen, copy) == 1,
		"%s: other clients see the tensor's elements", what);
	ok(seen && !tarn_storage_writable(tarn_tensor_storage(seen)),
		"%s: other clients may not write the tensor", what);
	ok(tarn_tensor_equal(t, copy) == 1,
		"%s: the creator may not write it any more", what);
	tarn_tensor_unref(t);
	ok(seen && tarn_tensor_equal(seen, copy) == 1,
		"%s: others keep the tensor when the creator drops it", what);
	tarn_tensor_unref(seen);
	tarn_tensor_unref(copy);
	is_int(0, tarn_store_remove(store, "a/b"), "%s: the name is removed",
		what);
}

/* Tensors that nobody created to be published. */
static void test_copies(tarn_store *other)
{
	const int64_t shape[] = {1024, 1024};
	tarn_tensor *t = NULL, *view = NULL, *seen;
	struct tarn_publish_item items[2];

	must(tarn_tensor_full(TARN_F32, 2, shape, 0.5, &t));
	must(tarn_tensor_set_f64(t, (int64_t[]) {3, 5}, 7));
	must(tarn_tensor_eval(t, ".permute(1,0)[:512]", &view));
	items[0] = (struct tarn_publish_item) {.name = "c/all", .tensor = t};
	items[1] =
		(struct tarn_publish_item) {.name = "c/view", .tensor = view};
	kit_is_done(tarn_store_publish(store, items, 2, NULL, NULL),
		"private memory of 4 MiB and its transposed half are "
		"published");
	must(tarn_tensor_set_f64(t, (int64_t[]) {0, 0}, 9));
	seen = kit_looked_up(other, "c/view");
	ok(seen && tarn_layout_is_contiguous(tarn_tensor_layout(seen)),
		"a view is published in C order");
	must(tarn_tensor_set_f64(t, (int64_t[]) {0, 0}, 0.5));
	ok(seen && tarn_tensor_equal(seen, view) == 1,
		"a copy does not change when its source is written");
	tarn_tensor_unref(seen);
	seen = kit_looked_up(other, "c/all");
	ok(seen && tarn_tensor_equal(seen, t) == 1,
		"the whole tensor is published and equal");
	tarn_tensor_unref(seen);
	tarn_tensor_unref(view);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "c/all"));
	must(tarn_store_remove(store, "c/view"));
}

/* Views of what was created, before and after. */
static void test_created_views(tarn_store *other)
{
	const int64_t shape[] = {4, 1 << 20};
	tarn_tensor *t = NULL, *row = NULL, *a, *b;
	struct tarn_publish_item items[2];
	uint64_t used;
	double v = 0;

	ok(storages_become(0), "a removed name is not found");
	used = status().used;
	kit_is_done(
		tarn_store_create(store, TARN_U8, 2, shape, 0, &t), "created");
	must(tarn_tensor_set_f64(t, (int64_t[]) {2, 77}, 42));
	must(tarn_tensor_eval(t, "[2]", &row));
	items[0] = (struct tarn_publish_item) {.name = "d/row", .tensor = row};
	items[1] = (struct tarn_publish_item) {.name = "d/all", .tensor = t};
	kit_is_done(
		tarn_store_publish(store, items, 2, NULL, NULL), "published");
	must(tarn_tensor_get_f64(row, (int64_t[]) {77}, &v));
	ok(v == 42,
		"a view from before the publication still reads the tensor");
	is_int(-EROFS, tarn_tensor_set_f64(row, (int64_t[]) {77}, 1),
		"a view of a published tensor cannot write it any more");
	a = kit_looked_up(store, "d/row");
	ok(a && tarn_tensor_same_storage(a, t),
		"the creator's look-up has the same storage");
	b = kit_looked_up(other, "d/all");
	tarn_tensor_unref(a);
	a = kit_looked_up(other, "d/row");
	ok(a && b && tarn_tensor_same_storage(a, b),
		"another client's look-ups of both names share a storage");
	is_int((int64_t)used + 4 * (1 << 20), (int64_t)status().used,
		"two names of one storage take its bytes once");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	items[0] =
		(struct tarn_publish_item) {.name = "d/again", .tensor = row};
	kit_is_done(tarn_store_publish(store, items, 1, NULL, NULL),
		"a shared tensor is published under another name");
	tarn_tensor_unref(t);
	tarn_tensor_unref(row);
	for (size_t i = 0; i < 3; i++)
		must(tarn_store_remove(store,
			(const char *[]) {"d/row", "d/all", "d/again"}[i]));
	ok(storages_become(0), "a storage is freed with its last name");
}

static void test_mutable(tarn_store *other)
{
	const int64_t n = 1000, at = 500;
	tarn_tensor *t = NULL, *seen;
	double v = 0;

	kit_is_done(tarn_store_create(
			    store, TARN_F64, 1, &n, TARN_CREATE_MUTABLE, &t),
		"a mutable one is created");
	kit_is_done(publish_one("mut", t, NULL, NULL),
		"a mutable tensor is published");
	seen = kit_looked_up(other, "mut");
	must(tarn_tensor_set_f64(t, &at, 5));
	ok(seen && tarn_tensor_get_f64(seen, &at, &v) >= 0 && v == 5,
		"a creator's write to a mutable tensor is seen by others");
	is_int(0, seen ? tarn_tensor_set_f64(seen, &at, 6) : -1,
		"another client may write the mutable tensor");
	must(tarn_tensor_get_f64(t, &at, &v));
	ok(v == 6, "the creator sees the other client's write");
	tarn_tensor_unref(seen);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "mut"));
}

static void test_versions(void)
{
	tarn_tensor *a = kit_counting(store, TARN_F32, 10, 1), *old;
	tarn_tensor *b = kit_counting(store, TARN_F32, 10, 100);
	const struct tarn_publish_options only_new = {.exclusive = true};
	uint64_t version = 0;

	is_int(0, publish_one("v", a, &only_new, &version),
		"a name that must be new is published");
	is_int(-EEXIST, publish_one("v", b, &only_new, NULL),
		"a name that must be new is refused the second time");
	has_str("\"v\" already", tarn_error_message(),
		"the error contains the expected words");
	old = kit_looked_up(store, "v");
	is_int(0, publish_one("v", b, NULL, &version),
		"a name may be replaced");
	is_int(2, (int64_t)version, "a replaced name has version 2");
	ok(first_of(store, "v") == 100,
		"a look-up of a replaced name finds the new tensor");
	ok(old && tarn_tensor_equal(old, a) == 1,
		"a holder of the replaced tensor keeps it");
	tarn_tensor_unref(old);
	is_int(0, publish_one("w", b, NULL, NULL),
		"a copy is published under another name");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	must(tarn_store_remove(store, "v"));
	must(tarn_store_remove(store, "w"));
}

/* One tensor, by a store of which one of two references is dropped. */
static void test_one(tarn_store *s)
{
	struct tarn_publish_options new = {.exclusive = true};
	tarn_tensor *t = kit_counting(store, TARN_I32, 10, 3), *seen = NULL;
	uint64_t version = 0;

	tarn_store_unref(tarn_store_ref(s));
	kit_is_done(tarn_store_publish_one(s, "one", t, NULL, &version),
		"one tensor is published by a store with one reference left");
	is_int(1, (int64_t)version, "its name has the first version");
	kit_is_done(tarn_store_lookup(s, "one", &seen), "it is looked up");
	ok(seen && tarn_tensor_equal(seen, t) == 1,
		"the looked-up tensor has its elements");
	is_int(-EEXIST, tarn_store_publish_one(s, "one", t, &new, NULL),
		"publish_one honours its options");
	tarn_tensor_unref(seen);
	tarn_tensor_unref(t);
	must(tarn_store_remove(s, "one"));
}

/* ---- sets ------------------------------------------------------------ */

static void test_views(void)
{
	int64_t shape[] = {4, 3};
	tarn_tensor *t = NULL, *row = NULL, *transposed = NULL, *all;
	tarn_tensor *a, *b;
	uint64_t storages, versions[3] = {0};

	ok(storages_become(0), "no storage is left after these publications");
	must(tarn_tensor_zeros(TARN_I16, 2, shape, &t));
	must(tarn_tensor_set_i64(t, (int64_t[]) {2, 1}, 21));
	must(tarn_tensor_eval(t, "[2]", &row));
	must(tarn_tensor_eval(t, ".permute(1,0)", &transposed));
	{
		struct tarn_publish_item items[] = {
			{.name = "s/all", .tensor = t},
			{.name = "s/row", .tensor = row},
			{.name = "s/t", .tensor = transposed}};

		kit_is_done(tarn_store_publish(store, items, 3, NULL, versions),
			"a set of views is published");
	}
	ok(versions[0] == 1 && versions[1] == 1 && versions[2] == 1,
		"each name of the set has version 1");
	all = kit_looked_up(store, "s/t");
	ok(all && tarn_tensor_equal(all, transposed) == 1,
		"a transposed view of the set has its elements");
	a = kit_looked_up(store, "s/all");
	{
		struct tarn_publish_item items[] = {
			{.name = "s/1", .tensor = a},
			{.name = "s/2", .tensor = a}};

		storages = status().storages;
		is_int(0, tarn_store_publish(store, items, 2, NULL, NULL),
			"a shared tensor gets two more names");
	}
	is_int((int64_t)storages, (int64_t)status().storages,
		"more names for a shared tensor take no further storage");
	b = kit_looked_up(store, "s/2");
	ok(b && tarn_tensor_same_storage(a, b),
		"the names lead to the same storage");
	tarn_tensor_unref(b);
	tarn_tensor_unref(a);
	tarn_tensor_unref(all);
	tarn_tensor_unref(t);
	tarn_tensor_unref(row);
	tarn_tensor_unref(transposed);
}

static void test_many(void)
{
	struct tarn_publish_item items[200] = {0};
	static char names[200][16];
	int wrong = 0;

	for (int i = 0; i < 200; i++) {
		snprintf(names[i], sizeof(names[i]), "many/%d", i);
		items[i].name = names[i];
		must(tarn_tensor_full(TARN_F64, 0, NULL, i, &items[i].tensor));
	}
	kit_is_done(tarn_store_publish(store, items, 200, NULL, NULL),
		"two hundred tensors are published at once");
	for (int i = 0; i < 200; i++) {
		tarn_tensor *t = kit_looked_up(store, names[i]);

		wrong += !t || tarn_tensor_equal(t, items[i].tensor) != 1;
		tarn_tensor_unref(t);
		tarn_tensor_unref(items[i].tensor);
	}
	is_int(0, wrong, "each of two hundred tensors has its own element");
}

/* ---- failures -------------------------------------------------------- */

/* Where it is not asked for, memory is taken until somebody is killed. Should
 * that be so here, the limit on addresses says no in other words. */
static void test_too_much(void)
{
	struct rlimit limit, none;
	const int64_t n = 1ll << 42;
	tarn_tensor *t = NULL;

	getrlimit(RLIMIT_AS, &limit);
	none = (struct rlimit) {
		.rlim_cur = 1 << 20, .rlim_max = limit.rlim_max};
	setrlimit(RLIMIT_AS, &none);
	is_int(-ENOMEM, tarn_store_create(store, TARN_U8, 1, &n, 0, &t),
		"a publication of 4 TiB is refused");
	setrlimit(RLIMIT_AS, &limit);
	has_str("create: no room for 4 TiB", tarn_error_message(),
		"the refusal comes before memory is taken");
}

static void test_failures(void)
{
	tarn_tensor *t = kit_counting(store, TARN_U8, 100, 0);
	struct tarn_publish_item items[3] = {{.name = "f/1", .tensor = t},
		{.name = "f/2", .tensor = t}, {.name = "f/1", .tensor = t}};
	struct tarn_publish_options options = {.ttl_ms = -1};
	struct tarn_report_daemon before = status(), after;

	is_int(-EINVAL, tarn_store_publish(store, items, 3, NULL, NULL),
		"a publication with a duplicate name is refused");
	has_str("f/1 is given twice", tarn_error_message(),
		"the error contains 'f/1 is given twice'");
	items[2].name = "bad\x01";
	is_int(-EINVAL, tarn_store_publish(store, items, 3, NULL, NULL),
		"a malformed name is refused");
	is_int(-EINVAL, tarn_store_publish(store, items, 2, &options, NULL),
		"publish refuses a negative ttl_ms");
	options = (struct tarn_publish_options) {.replace = ""};
	is_int(-EINVAL, tarn_store_publish(store, items, 2, &options, NULL),
		"an empty prefix to replace is refused");
	is_int(-EINVAL, tarn_store_publish(store, items, 0, NULL, NULL),
		"a publication of nothing is refused");
	ok(first_of(store, "f/1") == -1, "no refused publication left a name");
	after = status();
	is_int((int64_t)before.used, (int64_t)after.used,
		"a failed publication takes no memory");
	is_int((int64_t)before.storages, (int64_t)after.storages,
		"a failed publication takes no storage");
	is_int(0, tarn_store_publish(store, items, 2, NULL, NULL),
		"the same publication succeeds without the error");
	tarn_tensor_unref(t);
}

static void test_end(uint64_t used)
{
	const struct tarn_publish_options all[] = {
		{.replace = "f/"}, {.replace = "s/"}, {.replace = "many/"}};
	struct tarn_report_daemon s = {0};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		must(tarn_store_publish(store, NULL, 0, &all[i], NULL));
	for (int ms = 0; ms < PATIENCE_MS; ms += 5) {
		s = status();
		if (s.used == used && s.storages == 0)
			break;
		usleep(5000);
	}
	is_int((int64_t)used, (int64_t)s.used,
		"all memory is given back at the end");
	is_int(0, (int64_t)s.storages, "all storages are free at the end");
	is_int(0, (int64_t)s.names, "no name is left at the end");
}

int main(void)
{
	struct daemon daemon;
	tarn_store *other = NULL;

	daemon_start(&daemon, "publish.sock", NULL);
	if (tarn_store_open(daemon.socket, NULL, &store) < 0 ||
		tarn_store_open(daemon.socket, NULL, &other) < 0)
		bail("%s", tarn_error_message());
	test_bytes(other, 300, "1,200 bytes");
	test_bytes(other, 0, "no bytes");
	test_bytes(other, 30000, "120,000 bytes, in a memfd");
	test_bytes(other, 200000, "800,000 bytes, by the worker");
	test_bytes(other, 1100000, "4.4 MB, adopted");
	test_copies(other);
	test_created_views(other);
	test_mutable(other);
	test_versions();
	test_one(other);
	test_views();
	test_many();
	test_too_much();
	test_failures();
	test_end(0);
	tarn_store_unref(other);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	return done(92);
}
