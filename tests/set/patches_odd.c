/* SPDX-License-Identifier: MIT */
/*
 * Sparse updates of tensors of any kind, beside each other in one storage.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "lib/tensor/tensor.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"

static const struct tarn_set_options digests = {.digests = true};
static struct daemon server;
static tarn_store *store;
static unsigned seed = 1;

static tarn_refit *begun(void)
{
	tarn_refit *refit;

	must(tarn_refit_begin(store, "set", NULL, &refit));
	return refit;
}

/* How many bytes are new. */
static uint64_t commit(tarn_refit *refit)
{
	struct tarn_refit_info info;

	must(tarn_refit_commit(refit));
	tarn_refit_progress(refit, &info);
	tarn_refit_free(refit);
	return info.bytes_moved;
}

/* ---- tensors of any kind ------------------------------------------------- */

/* Of one storage: elements of each size, that begin at any byte, in any order of
 * dimensions, with gaps; each beside the next, so that they share pages. */
static const struct odd {
	const char *name;
	enum tarn_dtype dtype;
	uint64_t base;
	int64_t offset, shape[2], stride[2];
} odds[] = {
	{"bytes", TARN_U8, 0, 0, {700, 1000}, {1000, 1}},
	{"odd", TARN_U16, 700001, 0, {400, 1000}, {1000, 1}},
	{"wide", TARN_I64, 1500003, 0, {300, 500}, {500, 1}},
	{"turned", TARN_F32, 2700004, 0, {400, 300}, {1, 400}},
	{"back", TARN_F32, 3180004, 119999, {300, 400}, {-400, -1}},
	{"gaps", TARN_BF16, 3660005, 1, {1000, 100}, {300, 2}},
};
enum { ODDS = sizeof(odds) / sizeof(odds[0]), ODD_BYTES = 4400000 };

static tarn_tensor *odd(tarn_storage *storage, int i)
{
	struct tarn_layout l = {
		.dtype = odds[i].dtype, .ndim = 2, .offset = odds[i].offset};
	tarn_tensor *t;

	memcpy(l.shape, odds[i].shape, sizeof(odds[i].shape));
	memcpy(l.stride, odds[i].stride, sizeof(odds[i].stride));
	must(tarn_tensor_new(storage, odds[i].base, &l, &t));
	return t;
}

/* n of them from one on, in that order or the other, also in the model. */
static int put_odd(tarn_refit *refit, tarn_tensor *plain, int i, int64_t from,
	int64_t n, bool wide)
{
	int64_t all = odds[i].shape[0] * odds[i].shape[1];
	tarn_tensor *positions, *values;
	int r;

	must(tarn_tensor_zeros(wide ? TARN_I64 : TARN_I32, 1, &n, &positions));
	must(tarn_tensor_zeros(odds[i].dtype, 1, &n, &values));
	for (int64_t k = 0; k < n; k++) {
		int64_t at = from + (wide ? k : n - 1 - k);
		int64_t index[2] = {
			at / odds[i].shape[1], at % odds[i].shape[1]};
		double value = rand_r(&seed) % 100;

		must(tarn_tensor_set_f64(positions, &k, (double)at));
		must(tarn_tensor_set_f64(values, &k, value));
		if (at < all)
			must(tarn_tensor_set_f64(plain, index, value));
	}
	r = tarn_refit_sparse(refit, odds[i].name, positions, values);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	return r;
}

static bool is_odd(tarn_store *by, tarn_tensor *plain, int i)
{
	char name[32];
	tarn_tensor *t;
	bool same;

	snprintf(name, sizeof(name), "set/%s", odds[i].name);
	must(tarn_store_lookup(by, name, &t));
	same = tarn_tensor_equal(t, plain) == 1;
	tarn_tensor_unref(t);
	return same;
}

static void test_odd(void)
{
	const int64_t size = ODD_BYTES;
	struct tarn_publish_item items[ODDS] = {0};
	tarn_tensor *bytes, *copy, *scratch, *plain[ODDS];
	tarn_refit *refit;
	uint64_t moved, most = 0;
	bool right = true;

	must(tarn_tensor_zeros(TARN_U8, 1, &size, &copy));
	must(tarn_store_create(store, TARN_U8, 1, &size, 0, &bytes));
	for (int i = 0; i < ODDS; i++) {
		plain[i] = odd(copy->storage, i);
		items[i].name = odds[i].name;
		items[i].tensor = odd(bytes->storage, i);
	}
	must(tarn_set_publish(store, "set", items, ODDS, &digests, NULL));
	for (int round = 0; round < 12; round++) {
		refit = begun();
		for (int i = 0; i < ODDS; i++)
			must(put_odd(refit, plain[i], i,
				round < 3 ? 0 : 997 * round, 10, round % 2));
		moved = commit(refit);
		most = moved > most ? moved : most;
		for (int i = 0; i < ODDS; i++)
			right = is_odd(store, plain[i], i) && right;
		right = right && tarn_set_verify(store, "set", NULL) == 0;
	}
	ok(right, "elements of any size lie at any byte, in any order");
	ok(most <= 40 * 4096, "few pages of them are new");
	diag("%llu bytes", (unsigned long long)most);
	/* Of one that fails nothing is left, though others have its pages. */
	refit = begun();
	must(put_odd(refit, plain[0], 0, 699999, 1, true));
	must(tarn_tensor_clone(plain[1], &scratch));
	is_int(-ERANGE, put_odd(refit, scratch, 1, 399990, 11, true),
		"a position behind the end is refused");
	must(put_odd(refit, plain[1], 1, 0, 3, true));
	commit(refit);
	ok(is_odd(store, plain[0], 0) && is_odd(store, plain[1], 1),
		"the same name is put again, and has nothing of the first");
	for (int i = 0; i < ODDS; i++) {
		tarn_tensor_unref(plain[i]);
		tarn_tensor_unref(items[i].tensor);
	}
	tarn_tensor_unref(bytes);
	tarn_tensor_unref(scratch);
	tarn_tensor_unref(copy);
	must(tarn_store_publish(store, NULL, 0,
		&(struct tarn_publish_options) {.replace = "set/"}, NULL));
	ok(kit_storages_become(store, 0), "all of it goes");
}

int main(void)
{
	daemon_start(&server, "patches_odd.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	test_odd();
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(6);
}
