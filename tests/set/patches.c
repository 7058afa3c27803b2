/* SPDX-License-Identifier: MIT */
/*
 * Sparse updates that make few pages new. The same updates are made of a set and
 * of plain memory, over a storage of each kind, and every byte is compared after
 * each version: where it was made, through a connection of its own, and
 * copy-on-write; while servers are killed, and names go back to what they were.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

enum { TENSORS = 4, ELEMENTS = 300007, VERSIONS = 40 };

static struct daemon server;
static tarn_store *store;
static const char *const names[TENSORS] = {"a", "b", "c", "d"};
static uint16_t model[TENSORS][ELEMENTS];
static uint64_t moved; /* bytes, of the last version */
static const struct tarn_set_options digests = {.digests = true};
static uint64_t cached; /* storages that the daemon keeps of files */

static tarn_tensor *of_u16(tarn_tensor *bytes, uint64_t at)
{
	const int64_t shape = ELEMENTS;
	struct tarn_layout layout;
	tarn_tensor *t;

	must(tarn_layout_contiguous(TARN_U16, 1, &shape, &layout));
	must(tarn_tensor_new(bytes->storage, at, &layout, &t));
	return t;
}

static void fill(void)
{
	for (int i = 0; i < TENSORS; i++)
		for (int k = 0; k < ELEMENTS; k++)
			model[i][k] = (uint16_t)(i * 31 + k * 7);
}

/* One storage for all: at bytes that are no multiple of a page. */
static void publish_own(void)
{
	const int64_t size = (int64_t)sizeof(model) + 4096;
	struct tarn_publish_item items[TENSORS] = {0};
	tarn_tensor *bytes;

	must(tarn_store_create(store, TARN_U8, 1, &size, 0, &bytes));
	memcpy(tarn_tensor_data(bytes), model, sizeof(model));
	for (int i = 0; i < TENSORS; i++) {
		items[i].name = names[i];
		items[i].tensor = of_u16(bytes, (uint64_t)i * sizeof(model[0]));
	}
	must(tarn_set_publish(store, "set", items, TENSORS, &digests, NULL));
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref(items[i].tensor);
	tarn_tensor_unref(bytes);
}

/* Each copied to the pool. */
static void publish_pool(void)
{
	struct tarn_publish_item items[TENSORS] = {0};
	const int64_t shape = ELEMENTS;

	for (int i = 0; i < TENSORS; i++) {
		items[i].name = names[i];
		must(tarn_tensor_zeros(TARN_U16, 1, &shape, &items[i].tensor));
		memcpy(tarn_tensor_data(items[i].tensor), model[i],
			sizeof(model[i]));
	}
	must(tarn_set_publish(store, "set", items, TENSORS, &digests, NULL));
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref(items[i].tensor);
}

/* A file's, whose header puts its bytes anywhere in a page. */
static void publish_file(void)
{
	struct tarn_save_item items[TENSORS] = {0};
	const struct tarn_load_options options = {.name = "set"};
	const int64_t shape = ELEMENTS;
	tarn_tensor *made[TENSORS];
	tarn_file *file;
	char path[512];

	snprintf(path, sizeof(path), "%s/patches.safetensors", test_tmpdir());
	for (int i = 0; i < TENSORS; i++) {
		items[i].name = names[i];
		must(tarn_tensor_zeros(TARN_U16, 1, &shape, &made[i]));
		memcpy(tarn_tensor_data(made[i]), model[i], sizeof(model[i]));
		items[i].tensor = made[i];
	}
	must(tarn_save(path, items, TENSORS, NULL, NULL));
	must(tarn_file_open(path, &file));
	must(tarn_store_load(store, file, &options, NULL, NULL));
	tarn_file_unref(file);
	cached = 1;
	unlink(path);
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref(made[i]);
}

/* ---- updates ------------------------------------------------------------- */

static unsigned seed = 1;

/* n elements from one on, step apart, in a random order or in theirs. */
static void put(
	tarn_refit *refit, int which, int64_t from, int64_t step, int64_t n)
{
	tarn_tensor *positions, *values;
	int64_t *at;
	uint16_t *to;

	must(tarn_tensor_zeros(TARN_I64, 1, &n, &positions));
	must(tarn_tensor_zeros(TARN_U16, 1, &n, &values));
	at = tarn_tensor_data(positions);
	to = tarn_tensor_data(values);
	for (int64_t i = 0; i < n; i++) {
		at[i] = from + (n - 1 - i) * step;
		to[i] = (uint16_t)rand_r(&seed);
		model[which][at[i]] = to[i];
	}
	must(tarn_refit_sparse(refit, names[which], positions, values));
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
}

static void commit(tarn_refit *refit)
{
	struct tarn_refit_info info;

	must(CALL_AGAIN(tarn_refit_commit(refit)));
	tarn_refit_progress(refit, &info);
	moved = info.bytes_moved;
	tarn_refit_free(refit);
}

static tarn_refit *begun(const struct tarn_refit_options *options)
{
	tarn_refit *refit;

	must(tarn_refit_begin(store, "set", options, &refit));
	return refit;
}

/* ---- what readers see ---------------------------------------------------- */

static bool is_model(const tarn_tensor *t, int which)
{
	return !memcmp(tarn_tensor_data(t), model[which], sizeof(model[which]));
}

static bool reads(tarn_store *by, int which)
{
	tarn_tensor *t, *mine;
	char name[16];
	uint16_t kept;
	bool right;

	snprintf(name, sizeof(name), "set/%s", names[which]);
	must(CALL_AGAIN(tarn_store_lookup(by, name, &t)));
	must(tarn_tensor_cow(t, &mine));
	right = is_model(t, which) && is_model(mine, which);
	/* Its own, and nobody else's. */
	kept = model[which][77];
	*((uint16_t *)tarn_tensor_data(mine) + 77) = (uint16_t)~kept;
	right = right && is_model(t, which);
	tarn_tensor_unref(mine);
	tarn_tensor_unref(t);
	return right;
}

static bool all_read(tarn_store *by)
{
	bool right = true;

	for (int i = 0; i < TENSORS; i++)
		right = reads(by, i) && right;
	return right;
}

static bool has_digests(void)
{
	tarn_tensor *t;

	if (tarn_store_lookup(store, "set/" TARN_SET_FIELDS, &t) < 0)
		return false;
	tarn_tensor_unref(t);
	return true;
}

/* Here, and through a connection that has seen nothing. */
static bool everybody_reads(void)
{
	tarn_store *other;
	bool right = all_read(store);

	if (has_digests())
		right = right && tarn_set_verify(store, "set", NULL) == 0;
	must(CALL_AGAIN(tarn_store_open(server.socket, NULL, &other)));
	right = all_read(other) && right;
	tarn_store_unref(other);
	return right;
}

static bool is_patch(const char *name)
{
	tarn_tensor *t;
	bool is;

	must(tarn_store_lookup(store, name, &t));
	is = patched_of(t->storage) != NULL;
	tarn_tensor_unref(t);
	return is;
}

/* Nothing is left of the set, nor of what it was over. */
static bool all_goes(void)
{
	struct tarn_publish_options none = {.replace = "set/"};

	must(tarn_store_publish(store, NULL, 0, &none, NULL));
	return kit_storages_become(store, cached);
}

/* ---- one storage after the other ----------------------------------------- */

static void test_first(const char *what)
{
	tarn_refit *refit = begun(NULL);
	tarn_tensor *old, *mine;
	uint16_t before;

	must(tarn_store_lookup(store, "set/b", &old));
	before = model[1][5000];
	put(refit, 1, 5000, 1, 3000); /* two or three pages */
	put(refit, 3, ELEMENTS - 1, 1, 1);
	commit(refit);
	ok(moved >= 3 * 4096 && moved <= 5 * 4096,
		"%s: four pages and no more are new", what);
	diag("%llu bytes", (unsigned long long)moved);
	ok(is_patch("set/b") && is_patch("set/d") && !is_patch("set/a"),
		"%s: what changed is in a patch, the rest is not", what);
	ok(everybody_reads(), "%s: everybody reads the new version", what);
	ok(((const uint16_t *)tarn_tensor_data(old))[5000] == before,
		"%s: a reader of the old version still has that", what);
	must(tarn_tensor_private(old, &mine));
	ok(!memcmp(tarn_tensor_data(mine), tarn_tensor_data(old),
		   sizeof(model[1])),
		"%s: so has one that maps it now", what);
	tarn_tensor_unref(mine);
	tarn_tensor_unref(old);
}

/* A version in ten changes more than half of a tensor, or puts it whole. */
static void change(tarn_refit *refit, int version)
{
	int which = rand_r(&seed) % TENSORS, other = (which + 1) % TENSORS;
	int64_t from = rand_r(&seed) % (ELEMENTS / 2);
	tarn_tensor *t;
	const int64_t shape = ELEMENTS;

	put(refit, which, from, 1 + rand_r(&seed) % 40,
		1 + rand_r(&seed) % 900);
	if (version % 10 == 4)
		put(refit, other, 0, 5, ELEMENTS / 5);
	else if (version % 10 == 7) {
		must(tarn_tensor_zeros(TARN_U16, 1, &shape, &t));
		for (int k = 0; k < ELEMENTS; k++)
			model[other][k] = (uint16_t)rand_r(&seed);
		memcpy(tarn_tensor_data(t), model[other], sizeof(model[other]));
		must(tarn_refit_put(refit, names[other], t));
		tarn_tensor_unref(t);
	} else if (version % 3 == 0)
		put(refit, other, from, 2048, 30); /* a run each */
}

static void test_many(const char *what)
{
	bool right = true;
	int patches = 0;

	for (int i = 0; i < VERSIONS; i++) {
		tarn_refit *refit = begun(NULL);

		change(refit, i);
		if (i == VERSIONS / 2)
			server_kill(&server);
		commit(refit);
		right = everybody_reads() && right;
		patches += moved < 40 * 4096;
	}
	ok(right, "%s: so it is for %d versions, with a server killed", what,
		VERSIONS);
	ok(patches > VERSIONS / 2, "%s: most of them are patches", what);
	diag("%d of %d", patches, VERSIONS);
}

/* Two names go back to an old version, of which one has changed since. */
static void test_back(const char *what)
{
	static uint16_t kept[ELEMENTS];
	tarn_refit *refit;
	tarn_tensor *old;

	must(tarn_store_lookup(store, "set/c", &old));
	memcpy(kept, model[2], sizeof(kept));
	refit = begun(NULL);
	put(refit, 2, 1000, 1, 10);
	put(refit, 1, 1000, 1, 10);
	commit(refit);
	must(tarn_store_publish_one(store, "set/c", old, NULL, NULL));
	memcpy(model[2], kept, sizeof(kept));
	tarn_tensor_unref(old);
	refit = begun(NULL);
	put(refit, 2, 200000, 1, 10);
	commit(refit);
	ok(everybody_reads(), "%s: a name that went back is patched from there",
		what);
}

static void test_whole(const char *what)
{
	const struct tarn_refit_options options = {.whole = true};
	tarn_refit *refit = begun(&options);

	put(refit, 0, 0, 1, 10);
	commit(refit);
	ok(moved == sizeof(model[0]) && !is_patch("set/a"),
		"%s: it is copied whole if that is asked for", what);
	ok(everybody_reads(), "%s: and everybody reads it", what);
}

static void test_kind(const char *what, void (*publish)(void))
{
	fill();
	publish();
	test_first(what);
	test_many(what);
	test_back(what);
	test_whole(what);
	ok(kit_is_sound(store), "%s: the daemon finds no fault", what);
	ok(all_goes(), "%s: with the names all of it goes", what);
	ok(kit_is_sound(store), "%s: and leaves no fault", what);
}

/* ---- what lies below ----------------------------------------------------- */

/* The first version's names are gone, its file is no reason to keep it; only the
 * patch needs it, also after a server that has seen none of it. */
static void test_below(void)
{
	tarn_refit *refit;

	fill();
	publish_pool();
	refit = begun(NULL);
	for (int i = 0; i < TENSORS; i++)
		put(refit, i, 4000, 1, 20);
	commit(refit);
	server_kill(&server);
	ok(everybody_reads(), "what a patch is over stays without a name");
	ok(kit_is_sound(store), "the next server knows why");
	ok(all_goes(), "it goes with the patch");
}

static void test_chain(void)
{
	unsigned deepest = 0;
	bool right = true;
	tarn_tensor *t;

	fill();
	publish_own();
	for (int i = 0; i < (int)TABLE_PATCHES_MAX * 2 + 3; i++) {
		const struct patched *patched;
		tarn_refit *refit = begun(NULL);

		put(refit, 0, i, 1, 1);
		commit(refit);
		must(tarn_store_lookup(store, "set/a", &t));
		patched = patched_of(t->storage);
		deepest = patched && patched->depth > deepest ? patched->depth
							      : deepest;
		tarn_tensor_unref(t);
		right = everybody_reads() && right;
	}
	is_int(TABLE_PATCHES_MAX, (int)deepest,
		"patches lie over each other, up to so many");
	ok(right, "everybody reads each of them");
	ok(all_goes(), "all of them go");
}

/* Positions in no order, of a tensor that is copied whole. */
static void test_any_order(void)
{
	tarn_tensor *positions, *values;
	const int64_t n = 50000;
	tarn_refit *refit;

	fill();
	publish_own();
	must(tarn_tensor_zeros(TARN_I32, 1, &n, &positions));
	must(tarn_tensor_zeros(TARN_U16, 1, &n, &values));
	for (int64_t k = 0; k < n; k++) {
		int32_t at = (int32_t)((k * 7919) % ELEMENTS);

		((int32_t *)tarn_tensor_data(positions))[k] = at;
		((uint16_t *)tarn_tensor_data(values))[k] = (uint16_t)k;
		model[0][at] = (uint16_t)k;
	}
	refit = begun(NULL);
	must(tarn_refit_sparse(refit, "a", positions, values));
	commit(refit);
	is_int(sizeof(model[0]), (int64_t)moved,
		"what changes everywhere is copied whole");
	ok(everybody_reads(), "in whichever order it is changed");
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	ok(all_goes(), "what was copied whole goes");
}

int main(void)
{
	daemon_start(&server, "patches.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	test_kind("a memfd of its own", publish_own);
	test_kind("a pool", publish_pool);
	test_kind("a file", publish_file);
	test_below();
	test_chain();
	test_any_order();
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(3 * 13 + 7 + 3);
}
