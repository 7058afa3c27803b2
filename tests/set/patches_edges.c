/* SPDX-License-Identifier: MIT */
/*
 * Sparse versions at their limits: mappings of a reader, storages of a publication,
 * pages of another size. And names that have the same place in different versions,
 * which must not get each other's bytes.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"
#include "tests/set/patches_kit.h"

static uint16_t model[ELEMENTS];

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

	patches_publish("set/a", patches_created(TARN_U16, ELEMENTS));
	page_size = 65536;
	refit = patches_begun();
	patches_put(refit, "a", 5, 1, 1, 3, NULL);
	patches_commit(refit);
	page_size = 0;
	ok(!patches_is_patch("set/a"),
		"there are no patches where pages are larger");
	patches_all_goes();
}

/* ---- names of one place ---------------------------------------------------- */

/* Two names that were tied: one went back to an older version, with equal bytes.
 * They are two tensors from there on. */
static void test_apart(void)
{
	tarn_tensor *t = patches_created(TARN_U16, ELEMENTS), *old, *x, *y;
	tarn_refit *refit;

	memset(tarn_tensor_data(t), 0, sizeof(model));
	must(tarn_store_publish_one(patches_store, "set/x", t, NULL, NULL));
	patches_publish("set/y", t);
	old = patches_found("set/y");
	refit = patches_begun();
	patches_put(refit, "x", 0, 1, 1, 0, NULL);
	patches_commit(refit);
	must(tarn_store_publish_one(patches_store, "set/y", old, NULL, NULL));
	tarn_tensor_unref(old);
	refit = patches_begun();
	patches_put(refit, "x", 5000, 1, 1, 1, NULL);
	patches_put(refit, "y", 90000, 1, 1, 2, NULL);
	patches_commit(refit);
	x = patches_found("set/x");
	y = patches_found("set/y");
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
	patches_all_goes();
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
		tarn_tensor *t = patches_created(TARN_U16, ELEMENTS);

		memset(tarn_tensor_data(t), 0, sizeof(model));
		snprintf(name, sizeof(name), "set/%d", i);
		patches_publish(name, t);
	}
	for (int k = 0; k < ROUNDS; k++) {
		tarn_refit *refit = patches_begun();

		for (int i = 0; i < STORAGES; i++) {
			snprintf(name, sizeof(name), "%d", i);
			patches_put(refit, name, (2 * k) * PAGE_ELEMENTS,
				20 * PAGE_ELEMENTS, PAGES_EACH, 9, NULL);
		}
		patches_commit(refit);
		must(tarn_store_snapshot(patches_store, "set/", &now));
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
	patches_all_goes();
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
		must(tarn_store_publish_one(
			patches_store, name, all[i], NULL, NULL));
	}
	refit = patches_begun();
	for (int i = 0; i < LARGE + SMALL; i++) {
		snprintf(name, sizeof(name), "%03d", i);
		if (i < LARGE)
			must(tarn_refit_put(refit, name, all[i]));
		else
			patches_put(refit, name, 5, 1, 1, 9, NULL);
		tarn_tensor_unref(all[i]);
	}
	is_int(0, tarn_refit_commit(refit),
		"a version has no more storages than can be published");
	tarn_refit_free(refit);
	ok(patches_is_patch("set/040"), "of which some are patches");
	patches_all_goes();
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
	tarn_tensor *t = patches_created(TARN_U16, ELEMENTS), *part;
	tarn_refit *refit;
	long before;

	memset(tarn_tensor_data(t), 0, sizeof(model));
	patches_publish("set/a", t);
	must(tarn_tensor_zeros(TARN_F32, 1, &n, &part));
	refit = patches_begun();
	before = shared_pages();
	must(tarn_refit_put_part(refit, "a", ELEMENTS / 2, part));
	must(tarn_refit_flush(refit));
	ok(shared_pages() - before < PAGES / 2, "a part brings its own pages");
	diag("%ld pages", shared_pages() - before);
	for (int64_t i = 0; i < ELEMENTS; i += PAGE_ELEMENTS)
		if (i != ELEMENTS / 2)
			must(tarn_refit_put_part(refit, "a", i, part));
	patches_commit(refit);
	tarn_tensor_unref(part);
	patches_all_goes();
}

int main(void)
{
	struct daemon server;

	daemon_start(&server, "patches_edges.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &patches_store));
	test_apart();
	test_larger_pages();
	test_parts();
	test_sources();
	test_mappings();
	tarn_store_unref(patches_store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(5 + 2 + 2 + 3 + 3 + 1);
}
