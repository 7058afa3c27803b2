/* SPDX-License-Identifier: MIT */
/*
 * Publishing, as who uses it sees it: the bytes, versions, sets of names, a
 * prefix replaced in one moment before a reader that never stops looking, and
 * failures that leave nothing behind.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/daemon_helper.h"
#include "tests/tap.h"

#define SET 5             /* names of a set that is replaced as a whole */
#define ROUNDS 60         /* how often */
#define PATIENCE_MS 20000 /* on a loaded machine */

static tarn_store *store;

/* A tensor of n numbers, counting from first. */
static tarn_tensor *counting(int dtype, int64_t n, double first)
{
	tarn_tensor *t = NULL;

	if (tarn_store_create(store, dtype, 1, &n, 0, &t) < 0)
		bail("create: %s", tarn_error_message());
	for (int64_t i = 0; i < n; i++)
		tarn_tensor_set_f64(t, &i, first + (double)i);
	return t;
}

static void is_done(int r, const char *what)
{
	if (!is_int(0, r, "%s", what))
		diag("%s", tarn_error_message());
}

static tarn_tensor *looked_up(tarn_store *in, const char *name)
{
	tarn_tensor *t = NULL;

	return tarn_store_lookup(in, name, &t) < 0 ? NULL : t;
}

/* The first number under a name; -1: there is none. */
static double first_of(tarn_store *in, const char *name)
{
	tarn_tensor *t = looked_up(in, name);
	int64_t zero = 0;
	double v = -1;

	if (t)
		tarn_tensor_get_f64(t, &zero, &v);
	tarn_tensor_unref(t);
	return v;
}

static int publish_one(const char *name, tarn_tensor *t,
	const struct tarn_publish_options *options, uint64_t *ret_version)
{
	struct tarn_publish_item item = {name, t};

	return tarn_store_publish(store, &item, 1, options, ret_version);
}

static struct tarn_store_status status(void)
{
	struct tarn_store_status s = {0};

	tarn_store_get_status(store, &s);
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
	tarn_tensor *t = counting(TARN_I32, n, 5), *seen;
	tarn_tensor *copy = NULL;
	uint64_t version = 0;

	tarn_tensor_clone(t, &copy);
	is_done(publish_one("a/b", t, NULL, &version), what);
	is_int(1, (int64_t)version, "%s: its first version", what);
	seen = looked_up(other, "a/b");
	ok(seen && tarn_tensor_equal(seen, copy) == 1,
		"%s: others see its numbers", what);
	ok(seen && !tarn_storage_writable(tarn_tensor_storage(seen)),
		"%s: and may not write them", what);
	ok(tarn_tensor_equal(t, copy) == 1, "%s: as does who created it", what);
	tarn_tensor_unref(t);
	ok(seen && tarn_tensor_equal(seen, copy) == 1,
		"%s: also when that has let it go", what);
	tarn_tensor_unref(seen);
	tarn_tensor_unref(copy);
	is_int(0, tarn_store_remove(store, "a/b"), "%s: removed", what);
}

/* Tensors that nobody created to be published. */
static void test_copies(tarn_store *other)
{
	const int64_t shape[] = {1024, 1024};
	tarn_tensor *t = NULL, *view = NULL, *seen;
	struct tarn_publish_item items[2];

	tarn_tensor_full(TARN_F32, 2, shape, 0.5, &t);
	tarn_tensor_set_f64(t, (int64_t[]) {3, 5}, 7);
	tarn_tensor_view(t, ".permute(1,0)[:512]", &view);
	items[0] = (struct tarn_publish_item) {"c/all", t};
	items[1] = (struct tarn_publish_item) {"c/view", view};
	is_done(tarn_store_publish(store, items, 2, NULL, NULL),
		"4 MiB of our own memory, and half of it transposed");
	tarn_tensor_set_f64(t, (int64_t[]) {0, 0}, 9);
	seen = looked_up(other, "c/view");
	ok(seen && tarn_layout_is_contiguous(tarn_tensor_layout(seen)),
		"what was a view is packed");
	tarn_tensor_set_f64(t, (int64_t[]) {0, 0}, 0.5);
	ok(seen && tarn_tensor_equal(seen, view) == 1,
		"and a copy: it is not changed by what is written since");
	tarn_tensor_unref(seen);
	seen = looked_up(other, "c/all");
	ok(seen && tarn_tensor_equal(seen, t) == 1, "so is the whole");
	tarn_tensor_unref(seen);
	tarn_tensor_unref(view);
	tarn_tensor_unref(t);
	tarn_store_remove(store, "c/all");
	tarn_store_remove(store, "c/view");
}

/* Views of what was created, before and after. */
static void test_created_views(tarn_store *other)
{
	const int64_t shape[] = {4, 1 << 20};
	tarn_tensor *t = NULL, *row = NULL, *a, *b;
	struct tarn_publish_item items[2];
	uint64_t used;
	double v = 0;

	ok(storages_become(0), "what was removed is gone");
	used = status().used;
	is_done(tarn_store_create(store, TARN_U8, 2, shape, 0, &t), "created");
	tarn_tensor_set_f64(t, (int64_t[]) {2, 77}, 42);
	tarn_tensor_view(t, "[2]", &row);
	items[0] = (struct tarn_publish_item) {"d/row", row};
	items[1] = (struct tarn_publish_item) {"d/all", t};
	is_done(tarn_store_publish(store, items, 2, NULL, NULL), "published");
	tarn_tensor_get_f64(row, (int64_t[]) {77}, &v);
	ok(v == 42, "a view that was made before still reads it");
	is_int(-EROFS, tarn_tensor_set_f64(row, (int64_t[]) {77}, 1),
		"and can no longer write it");
	a = looked_up(store, "d/row");
	ok(a && tarn_tensor_same_storage(a, t),
		"to its creator it is the same storage");
	b = looked_up(other, "d/all");
	tarn_tensor_unref(a);
	a = looked_up(other, "d/row");
	ok(a && b && tarn_tensor_same_storage(a, b),
		"to others the two are views of one");
	is_int((int64_t)used + 4 * (1 << 20), (int64_t)status().used,
		"and their bytes are there once");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	items[0] = (struct tarn_publish_item) {"d/again", row};
	is_done(tarn_store_publish(store, items, 1, NULL, NULL),
		"it is published once more, as what is shared");
	tarn_tensor_unref(t);
	tarn_tensor_unref(row);
	for (size_t i = 0; i < 3; i++)
		tarn_store_remove(store,
			(const char *[]) {"d/row", "d/all", "d/again"}[i]);
	ok(storages_become(0), "and removed with its last name");
}

static void test_mutable(tarn_store *other)
{
	const int64_t n = 1000, at = 500;
	tarn_tensor *t = NULL, *seen;
	double v = 0;

	is_done(tarn_store_create(
			store, TARN_F64, 1, &n, TARN_CREATE_MUTABLE, &t),
		"a mutable one is created");
	is_done(publish_one("mut", t, NULL, NULL), "and published");
	seen = looked_up(other, "mut");
	tarn_tensor_set_f64(t, &at, 5);
	ok(seen && tarn_tensor_get_f64(seen, &at, &v) >= 0 && v == 5,
		"what its creator writes is seen by others");
	is_int(0, seen ? tarn_tensor_set_f64(seen, &at, 6) : -1,
		"who may write it");
	tarn_tensor_get_f64(t, &at, &v);
	ok(v == 6, "which the creator sees");
	tarn_tensor_unref(seen);
	tarn_tensor_unref(t);
	tarn_store_remove(store, "mut");
}

static void test_versions(void)
{
	tarn_tensor *a = counting(TARN_F32, 10, 1), *old;
	tarn_tensor *b = counting(TARN_F32, 10, 100);
	const struct tarn_publish_options only_new = {.exclusive = true};
	uint64_t version = 0;

	is_int(0, publish_one("v", a, &only_new, &version), "a new name");
	is_int(-EEXIST, publish_one("v", b, &only_new, NULL),
		"is not published anew if it must be new");
	has_str("\"v\" already", tarn_error_message(), "which is said");
	old = looked_up(store, "v");
	is_int(0, publish_one("v", b, NULL, &version), "it may be replaced");
	is_int(2, (int64_t)version, "by its second version");
	ok(first_of(store, "v") == 100, "which is what is found");
	ok(old && tarn_tensor_equal(old, a) == 1,
		"who has the old one keeps it");
	tarn_tensor_unref(old);
	is_int(0, publish_one("w", b, NULL, NULL), "a copy under another name");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_store_remove(store, "v");
	tarn_store_remove(store, "w");
}

/* ---- sets ------------------------------------------------------------ */

static void test_views(void)
{
	int64_t shape[] = {4, 3};
	tarn_tensor *t = NULL, *row = NULL, *transposed = NULL, *all;
	tarn_tensor *a, *b;
	uint64_t storages, versions[3] = {0};

	ok(storages_become(0), "nothing is left of all that");
	tarn_tensor_zeros(TARN_I16, 2, shape, &t);
	tarn_tensor_set_i64(t, (int64_t[]) {2, 1}, 21);
	tarn_tensor_view(t, "[2]", &row);
	tarn_tensor_view(t, ".permute(1,0)", &transposed);
	{
		struct tarn_publish_item items[] = {
			{"s/all", t}, {"s/row", row}, {"s/t", transposed}};

		is_done(tarn_store_publish(store, items, 3, NULL, versions),
			"a set of views");
	}
	ok(versions[0] == 1 && versions[1] == 1 && versions[2] == 1,
		"each a first version");
	all = looked_up(store, "s/t");
	ok(all && tarn_tensor_equal(all, transposed) == 1,
		"a transposed one has its numbers");
	a = looked_up(store, "s/all");
	{
		struct tarn_publish_item items[] = {{"s/1", a}, {"s/2", a}};

		storages = status().storages;
		is_int(0, tarn_store_publish(store, items, 2, NULL, NULL),
			"what is shared already gets two names more");
	}
	is_int((int64_t)storages, (int64_t)status().storages,
		"and no further storage");
	b = looked_up(store, "s/2");
	ok(b && tarn_tensor_same_storage(a, b), "it is the same one");
	tarn_tensor_unref(b);
	tarn_tensor_unref(a);
	tarn_tensor_unref(all);
	tarn_tensor_unref(t);
	tarn_tensor_unref(row);
	tarn_tensor_unref(transposed);
}

static void test_many(void)
{
	struct tarn_publish_item items[200];
	static char names[200][16];
	int wrong = 0;

	for (int i = 0; i < 200; i++) {
		snprintf(names[i], sizeof(names[i]), "many/%d", i);
		items[i].name = names[i];
		tarn_tensor_full(TARN_F64, 0, NULL, i, &items[i].tensor);
	}
	is_done(tarn_store_publish(store, items, 200, NULL, NULL),
		"two hundred tensors at once");
	for (int i = 0; i < 200; i++) {
		tarn_tensor *t = looked_up(store, names[i]);

		wrong += !t || tarn_tensor_equal(t, items[i].tensor) != 1;
		tarn_tensor_unref(t);
		tarn_tensor_unref(items[i].tensor);
	}
	is_int(0, wrong, "each with its own number");
}

/* ---- a prefix -------------------------------------------------------- */

static int count_one(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	++*(int *)arg;
	return 0;
}

/* Looks at two names that are in every set, for ever: it ends only if one is
 * missing, or is older than what was there before. */
static void read_for_ever(const char *socket)
{
	tarn_store *mine = NULL;
	tarn_tensor *a, *b;
	int64_t zero = 0;
	double va, vb;

	if (tarn_store_open(socket, &mine) < 0)
		_exit(2);
	for (long n = 1;; n++) {
		a = looked_up(mine, "run/0");
		b = looked_up(mine, "run/4");
		if (!a || !b || tarn_tensor_get_f64(a, &zero, &va) < 0 ||
			tarn_tensor_get_f64(b, &zero, &vb) < 0)
			_exit(3);
		/* run/0 was looked up first: it cannot be the newer one. */
		if (va > vb)
			_exit(4);
		tarn_tensor_unref(a);
		tarn_tensor_unref(b);
	}
}

static void test_prefix(const char *socket)
{
	const struct tarn_publish_options replace = {.replace = "run/"};
	struct tarn_publish_item items[SET];
	static char names[SET][16];
	uint64_t storages = status().storages;
	int n = 0;
	int r = 0, status_seen = 0;
	pid_t reader;

	reader = -1;
	for (int round = 0; round < ROUNDS && r == 0; round++) {
		for (int i = 0; i < SET; i++) {
			/* Two names stay, three come and go. */
			snprintf(names[i], sizeof(names[i]), "run/%d",
				i == 0 || i == 4 ? i : 10 * round + i);
			items[i].name = names[i];
			items[i].tensor = counting(TARN_F32, 8, round);
		}
		r = tarn_store_publish(store, items, SET, &replace, NULL);
		for (int i = 0; i < SET; i++)
			tarn_tensor_unref(items[i].tensor);
		if (round == 0 && (reader = fork()) == 0)
			read_for_ever(socket);
	}
	is_done(r, "a set is replaced again and again");
	tarn_store_list(store, "run/", count_one, &n);
	is_int(SET, n, "and has its own names only");
	kill(reader, SIGKILL);
	waitpid(reader, &status_seen, 0);
	if (!ok(WIFSIGNALED(status_seen),
		    "a reader sees no mixture, and no gap"))
		diag("status %#x", (unsigned)status_seen);
	is_int(0, tarn_store_publish(store, NULL, 0, &replace, NULL),
		"nothing is published in place of it all");
	n = 0;
	tarn_store_list(store, "run/", count_one, &n);
	is_int(0, n, "and nothing is left");
	ok(storages_become(storages), "nor any of its storages");
	is_int(0, tarn_store_publish(store, NULL, 0, &replace, NULL),
		"which may be done again");
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
		"4 TiB are more than there are");
	setrlimit(RLIMIT_AS, &limit);
	has_str("create: no room for 4 TiB", tarn_error_message(),
		"which is known before any is taken");
}

static void test_failures(void)
{
	tarn_tensor *t = counting(TARN_U8, 100, 0);
	struct tarn_publish_item items[3] = {
		{"f/1", t}, {"f/2", t}, {"f/1", t}};
	struct tarn_publish_options options = {.life = -1};
	struct tarn_store_status before = status(), after;

	is_int(-EINVAL, tarn_store_publish(store, items, 3, NULL, NULL),
		"one name given twice");
	has_str("f/1 is given twice", tarn_error_message(), "is named");
	items[2].name = "bad\x01";
	is_int(-EINVAL, tarn_store_publish(store, items, 3, NULL, NULL),
		"a name that is none");
	is_int(-EINVAL, tarn_store_publish(store, items, 2, &options, NULL),
		"a life of less than nothing");
	options = (struct tarn_publish_options) {.replace = ""};
	is_int(-EINVAL, tarn_store_publish(store, items, 2, &options, NULL),
		"an empty prefix");
	is_int(-EINVAL, tarn_store_publish(store, items, 0, NULL, NULL),
		"nothing at all");
	ok(first_of(store, "f/1") == -1, "no name came of any");
	after = status();
	is_int((int64_t)before.used, (int64_t)after.used, "nor any memory");
	is_int((int64_t)before.storages, (int64_t)after.storages,
		"nor any storage");
	is_int(0, tarn_store_publish(store, items, 2, NULL, NULL),
		"and it can be done right");
	tarn_tensor_unref(t);
}

static void test_end(uint64_t used)
{
	const struct tarn_publish_options all[] = {
		{.replace = "f/"}, {.replace = "s/"}, {.replace = "many/"}};
	struct tarn_store_status s = {0};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		tarn_store_publish(store, NULL, 0, &all[i], NULL);
	for (int ms = 0; ms < PATIENCE_MS; ms += 5) {
		s = status();
		if (s.used == used && s.storages == 0)
			break;
		usleep(5000);
	}
	is_int((int64_t)used, (int64_t)s.used, "all memory came back");
	is_int(0, (int64_t)s.storages, "and every storage");
	is_int(0, (int64_t)s.names, "with every name");
}

int main(void)
{
	struct daemon daemon;
	tarn_store *other = NULL;

	daemon_start(&daemon, "publish.sock", NULL);
	if (tarn_store_open(daemon.socket, &store) < 0 ||
		tarn_store_open(daemon.socket, &other) < 0)
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
	test_views();
	test_many();
	test_prefix(daemon.socket);
	test_too_much();
	test_failures();
	test_end(0);
	tarn_store_unref(other);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon), "the daemon ends in peace");
	return done();
}
