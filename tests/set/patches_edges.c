/* SPDX-License-Identifier: MIT */
/*
 * Sparse versions where something gives out: descriptors, the size that a file may
 * have, memory, mappings of a reader, storages of a publication; and where a child
 * is forked meanwhile. And names that have the same place in different versions,
 * which must not get each other's bytes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/limit.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"

enum { PAGES = 4096, PAGE_ELEMENTS = 2048 };
enum { ELEMENTS = PAGES * PAGE_ELEMENTS };

static struct daemon server;
static tarn_store *store;
static uint16_t model[ELEMENTS];

static tarn_tensor *created(enum tarn_dtype dtype, int64_t n)
{
	tarn_tensor *t;

	must(tarn_store_create(store, dtype, 1, &n, 0, &t));
	return t;
}

static void publish(const char *name, tarn_tensor *t)
{
	must(tarn_store_publish_one(store, name, t, NULL, NULL));
	tarn_tensor_unref(t);
}

static tarn_tensor *found(const char *name)
{
	tarn_tensor *t;

	must(tarn_store_lookup(store, name, &t));
	return t;
}

static tarn_refit *begun(void)
{
	const struct tarn_refit_options small = {.bucket_bytes = 1};
	tarn_refit *refit;

	must(tarn_refit_begin(store, "set", &small, &refit));
	return refit;
}

static void commit(tarn_refit *refit)
{
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
}

/* n elements from one on, step apart, become value; *model, too, if given. */
static int try_to_put(tarn_refit *refit, const char *name, int64_t from,
	int64_t step, int64_t n, uint16_t value, uint16_t *plain)
{
	tarn_tensor *positions, *values;
	int r;

	must(tarn_tensor_zeros(TARN_I64, 1, &n, &positions));
	must(tarn_tensor_zeros(TARN_U16, 1, &n, &values));
	for (int64_t i = 0; i < n; i++) {
		int64_t at = from + i * step;

		((int64_t *)tarn_tensor_data(positions))[i] = at;
		((uint16_t *)tarn_tensor_data(values))[i] = value;
		if (plain)
			plain[at] = value;
	}
	r = tarn_refit_sparse(refit, name, positions, values);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	return r;
}

static void put(tarn_refit *refit, const char *name, int64_t from, int64_t step,
	int64_t n, uint16_t value, uint16_t *plain)
{
	must(try_to_put(refit, name, from, step, n, value, plain));
}

static bool is_patch(const char *name)
{
	tarn_tensor *t = found(name);
	bool is = patched_of(t->storage) != NULL;

	tarn_tensor_unref(t);
	return is;
}

static void all_goes(void)
{
	struct tarn_publish_options none = {.replace = "set/"};

	must(tarn_store_publish(store, NULL, 0, &none, NULL));
	ok(kit_storages_become(store, 0), "all of it goes");
}

/* ---- larger pages ---------------------------------------------------------- */

static long page_size; /* that the library sees; 0: that of this machine */

/* In place of the C library's. */
long sysconf(int name)
{
	static long (*real)(int name);

	if (name == _SC_PAGESIZE && page_size)
		return page_size;
	if (!real)
		real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
	return real(name);
}

/* Such a machine could not map a page of 4,096 bytes by itself. */
static void test_larger_pages(void)
{
	tarn_refit *refit;

	publish("set/a", created(TARN_U16, ELEMENTS));
	page_size = 65536;
	refit = begun();
	put(refit, "a", 5, 1, 1, 3, NULL);
	commit(refit);
	page_size = 0;
	ok(!is_patch("set/a"), "there are no patches where pages are larger");
	all_goes();
}

/* ---- a commit that fails, and is tried again ------------------------------ */

static bool is_model(const char *name)
{
	tarn_tensor *t = found(name);
	bool is = !memcmp(tarn_tensor_data(t), model, sizeof(model));

	tarn_tensor_unref(t);
	return is;
}

/* 200 pages in one run, put from the last to the first or the other way. */
static tarn_refit *put_run(bool backwards)
{
	tarn_tensor *both = created(TARN_U16, 2 * ELEMENTS), *t;
	tarn_refit *refit;

	for (int i = 0; i < ELEMENTS; i++)
		model[i] = (uint16_t)(i * 7);
	memcpy(tarn_tensor_data(both), model, sizeof(model));
	must(tarn_tensor_narrow(both, 0, 0, ELEMENTS, &t));
	publish("set/a", t);
	must(tarn_tensor_narrow(both, 0, ELEMENTS, ELEMENTS, &t));
	publish("set/b", t);
	tarn_tensor_unref(both);
	refit = begun();
	put(refit, "a", backwards ? ELEMENTS - 1 : 7,
		backwards ? -PAGE_ELEMENTS : PAGE_ELEMENTS, 200, 5, model);
	return refit;
}

/* Of another tensor of that storage nothing is lost that is put in between. */
static void test_again(int which, bool backwards, rlim_t most, const char *what)
{
	tarn_refit *refit = put_run(backwards);
	struct rlimit was = limit_to(which, most ? most : limit_next_fd());
	int r = tarn_refit_commit(refit);
	tarn_tensor *t;

	if (setrlimit(which, &was) < 0)
		bail("setrlimit: %m");
	ok(r < 0, "%s: the commit fails", what);
	diag("%s", tarn_error_message());
	put(refit, "b", 5, 1, 1, 6, NULL);
	is_int(0, tarn_refit_commit(refit), "%s: and is made later", what);
	tarn_refit_free(refit);
	ok(is_model("set/a"), "%s: with the right bytes", what);
	t = found("set/b");
	is_int(6, ((const uint16_t *)tarn_tensor_data(t))[5],
		"%s: and what was put in between", what);
	tarn_tensor_unref(t);
	all_goes();
}

/* ---- names of one place ---------------------------------------------------- */

/* Two names that were tied: one went back to an older version, with equal bytes.
 * They are two tensors from there on. */
static void test_apart(void)
{
	tarn_tensor *t = created(TARN_U16, ELEMENTS), *old, *x, *y;
	tarn_refit *refit;

	memset(tarn_tensor_data(t), 0, sizeof(model));
	must(tarn_store_publish_one(store, "set/x", t, NULL, NULL));
	publish("set/y", t);
	old = found("set/y");
	refit = begun();
	put(refit, "x", 0, 1, 1, 0, NULL);
	commit(refit);
	must(tarn_store_publish_one(store, "set/y", old, NULL, NULL));
	tarn_tensor_unref(old);
	refit = begun();
	put(refit, "x", 5000, 1, 1, 1, NULL);
	put(refit, "y", 90000, 1, 1, 2, NULL);
	commit(refit);
	x = found("set/x");
	y = found("set/y");
	is_int(1, ((const uint16_t *)tarn_tensor_data(x))[5000],
		"a name has what was put into it");
	is_int(0, ((const uint16_t *)tarn_tensor_data(x))[90000],
		"and not what was put into another one of its place");
	is_int(2, ((const uint16_t *)tarn_tensor_data(y))[90000],
		"so has the other one");
	is_int(0, ((const uint16_t *)tarn_tensor_data(y))[5000],
		"and not what was put into the first");
	tarn_tensor_unref(x);
	tarn_tensor_unref(y);
	all_goes();
}

/* ---- mappings of a reader -------------------------------------------------- */

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int n = 0, c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (!f || fclose(f))
		bail("maps: %m");
	return n;
}

/* A set of several storages, each of whose versions changes pages that lie apart:
 * one reader maps all of them. */
static void test_mappings(void)
{
	enum { STORAGES = 6, ROUNDS = 9, PAGES_EACH = 200 };
	const struct tarn_snapshot *s;
	struct tarn_snapshot *now;
	int before = mappings(), most = 0;
	bool patched = false;
	char name[16];

	for (int i = 0; i < STORAGES; i++) {
		tarn_tensor *t = created(TARN_U16, ELEMENTS);

		memset(tarn_tensor_data(t), 0, sizeof(model));
		snprintf(name, sizeof(name), "set/%d", i);
		publish(name, t);
	}
	for (int k = 0; k < ROUNDS; k++) {
		tarn_refit *refit = begun();

		for (int i = 0; i < STORAGES; i++) {
			snprintf(name, sizeof(name), "%d", i);
			put(refit, name, (2 * k) * PAGE_ELEMENTS,
				20 * PAGE_ELEMENTS, PAGES_EACH, 9, NULL);
		}
		commit(refit);
		must(tarn_store_snapshot(store, "set/", &now));
		s = now;
		most = mappings() > most ? mappings() : most;
		for (size_t i = 0; i < s->n; i++)
			patched = patched ||
				  patched_of(s->items[i].tensor->storage);
		tarn_snapshot_free(now);
	}
	ok(patched, "versions of several storages are patches");
	ok(most - before <= 4 * (int)PATCH_RUNS_MAX + 1000,
		"a reader of a set maps so many runs and no more");
	diag("%d mappings", most - before);
	all_goes();
}

/* ---- storages of a publication --------------------------------------------- */

/* Large tensors that are put whole, each its bucket, then many that are not. */
static void test_sources(void)
{
	enum { LARGE = 40, SMALL = 60 };
	static unsigned char bytes[1 << 21];
	int64_t sizes[] = {1 << 21, 1 << 16};
	tarn_tensor *all[LARGE + SMALL];
	tarn_refit *refit;
	char name[16];

	for (int i = 0; i < LARGE + SMALL; i++) {
		int64_t n = sizes[i >= LARGE] / 2;

		must(tarn_tensor_zeros(TARN_U16, 1, &n, &all[i]));
		memcpy(tarn_tensor_data(all[i]), bytes, (size_t)n * 2);
		snprintf(name, sizeof(name), "set/%03d", i);
		must(tarn_store_publish_one(store, name, all[i], NULL, NULL));
	}
	refit = begun();
	for (int i = 0; i < LARGE + SMALL; i++) {
		snprintf(name, sizeof(name), "%03d", i);
		if (i < LARGE)
			must(tarn_refit_put(refit, name, all[i]));
		else
			put(refit, name, 5, 1, 1, 9, NULL);
		tarn_tensor_unref(all[i]);
	}
	is_int(0, tarn_refit_commit(refit),
		"a version has no more storages than can be published");
	tarn_refit_free(refit);
	ok(is_patch("set/040"), "of which some are patches");
	all_goes();
}

/* ---- parts ------------------------------------------------------------------ */

static long shared_pages(void)
{
	long size, resident, shared;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%ld %ld %ld", &size, &resident, &shared) != 3 ||
		fclose(f))
		bail("statm: %m");
	return shared;
}

/* A part that a stream converts is the only one that takes pages. */
static void test_parts(void)
{
	int64_t n = PAGE_ELEMENTS;
	tarn_tensor *t = created(TARN_U16, ELEMENTS), *part;
	tarn_refit *refit;
	long before;

	memset(tarn_tensor_data(t), 0, sizeof(model));
	publish("set/a", t);
	must(tarn_tensor_zeros(TARN_F32, 1, &n, &part));
	refit = begun();
	before = shared_pages();
	must(tarn_refit_put_part(refit, "a", ELEMENTS / 2, part));
	must(tarn_refit_flush(refit));
	ok(shared_pages() - before < PAGES / 2, "a part brings its own pages");
	diag("%ld pages", shared_pages() - before);
	for (int64_t i = 0; i < ELEMENTS; i += PAGE_ELEMENTS)
		if (i != ELEMENTS / 2)
			must(tarn_refit_put_part(refit, "a", i, part));
	commit(refit);
	tarn_tensor_unref(part);
	all_goes();
}

/* ---- memory that cannot grow ------------------------------------------------ */

static bool moves, denied;
static char *left; /* the mapping that was moved from there; NULL: none was */

/* In place of the C library's: to another place. */
void *mremap(void *old, size_t size, size_t to, int flags, ...)
{
	static void *(*real)(void *, size_t, size_t, int, ...);
	void *place;

	if (!real)
		real = (void *(*)(void *, size_t, size_t, int, ...))dlsym(
			RTLD_NEXT, "mremap");
	if (!moves || to < size)
		return real(old, size, to, flags);
	place = mmap(NULL, to, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	left = old;
	return real(old, size, to, flags | MREMAP_FIXED, place);
}

int madvise(void *addr, size_t size, int advice)
{
	static int (*real)(void *, size_t, int);

	if (denied && advice == MADV_POPULATE_WRITE) {
		errno = ENOMEM;
		return -1;
	}
	if (!real)
		real = (int (*)(void *, size_t, int))dlsym(
			RTLD_NEXT, "madvise");
	return real(addr, size, advice);
}

/* Where the patch's memory was is something else's now. Does that stay? */
static bool stays(tarn_refit *refit)
{
	char *other = mmap(left, 4096, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	unsigned char there;

	if (!left || other != left)
		bail("a mapping at %p: %m", (void *)left);
	tarn_refit_free(refit);
	return mincore(other, 4096, &there) == 0 && munmap(other, 4096) == 0;
}

/* Two names in one storage: a, and b behind it. */
static void publish_two(void)
{
	tarn_tensor *whole = created(TARN_U16, 2 * ELEMENTS);
	struct tarn_publish_item items[] = {
		{.name = "set/a"}, {.name = "set/b"}};

	must(tarn_tensor_narrow(whole, 0, 0, ELEMENTS, &items[0].tensor));
	must(tarn_tensor_narrow(
		whole, 0, ELEMENTS, ELEMENTS, &items[1].tensor));
	must(tarn_store_publish(store, items, 2, NULL, NULL));
	tarn_tensor_unref(items[0].tensor);
	tarn_tensor_unref(items[1].tensor);
	tarn_tensor_unref(whole);
}

static void test_memory(void)
{
	tarn_refit *refit;

	memset(model, 0, sizeof(model));
	publish_two();
	for (int i = 0; i < 2; i++) {
		refit = begun();
		put(refit, "b", 5, 1, 1, 3, NULL);
		moves = denied = true;
		is_int(-ENOMEM, try_to_put(refit, "a", 0, 512, 2400, 7, NULL),
			"pages for which there is no memory are not put");
		moves = denied = false;
		if (i == 0)
			ok(stays(refit), "an abort unmaps what is its own");
	}
	put(refit, "a", 0, 512, 2400, 7, model);
	commit(refit);
	ok(is_model("set/a") && is_patch("set/a"),
		"they are put when there is memory again");
	all_goes();
}

/* ---- children ---------------------------------------------------------------- */

static void test_forked(void)
{
	tarn_refit *refit;
	pid_t pid;

	memset(model, 0, sizeof(model));
	publish("set/a", created(TARN_U16, ELEMENTS));
	refit = begun();
	put(refit, "a", 0, 512, 2400, 7, model);
	pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	is_int(0, tarn_refit_commit(refit),
		"a child that was forked meanwhile is no obstacle");
	tarn_refit_free(refit);
	ok(is_model("set/a") && is_patch("set/a"), "the version is a patch");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	all_goes();
}

/* ---- descriptors of the daemon --------------------------------------------- */

/* A quarter of them are for storages, and these are taken. */
static void test_daemon_full(void)
{
	enum { DESCRIPTORS = 64, TAKEN = DESCRIPTORS / 4 };
	struct tarn_publish_options none = {.replace = "set/"};
	tarn_store *roomy = store;
	struct daemon full;
	tarn_refit *refit;
	tarn_tensor *t;
	char name[16];

	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&full, "patches_full.sock", NULL);
	daemon_limit_descriptors(0);
	must(tarn_store_open(full.socket, NULL, &store));
	for (int i = 0; i < TAKEN; i++) {
		snprintf(name, sizeof(name), "set/%d", i);
		publish(name, created(TARN_U16, ELEMENTS / 8));
	}
	refit = begun();
	put(refit, "3", 5, 1, 1, 3, NULL);
	is_int(0, tarn_refit_commit(refit),
		"a daemon without descriptors gets copies of patches");
	tarn_refit_free(refit);
	ok(!is_patch("set/3"), "no name leads to a patch there");
	t = found("set/3");
	is_int(3, ((const uint16_t *)tarn_tensor_data(t))[5],
		"the copies have the new bytes");
	tarn_tensor_unref(t);
	must(tarn_store_publish(store, NULL, 0, &none, NULL));
	tarn_store_unref(store);
	is_int(0, daemon_stop(&full), "that daemon ends");
	store = roomy;
}

int main(void)
{
	daemon_start(&server, "patches_edges.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	test_apart();
	test_larger_pages();
	test_parts();
	test_sources();
	test_mappings();
	test_memory();
	test_forked();
	test_daemon_full();
	test_again(RLIMIT_NOFILE, false, 0, "no descriptor");
	test_again(RLIMIT_FSIZE, true, 3 << 17, "no larger file");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(5 + 2 + 4 + 2 + 3 + 5 + 3 + 3 + 2 * 5 + 1);
}
