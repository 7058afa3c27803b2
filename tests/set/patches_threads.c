/* SPDX-License-Identifier: MIT */
/*
 * Threads of one process that share a store: two make sparse versions of a set each,
 * others look the same names up at that moment, and map them copy-on-write. A
 * version has one number in all pages that it changes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"

enum { ELEMENTS = 600000, STEP = 40009, VERSIONS = 40, WRITERS = 2 };
enum { POSITIONS = ELEMENTS / STEP, READERS = 3, PATIENCE_S = 60 };

static struct daemon server;
static tarn_store *store;
static _Atomic unsigned writing = WRITERS, looked, wrong, patches, untied;

static tarn_tensor *list(enum tarn_dtype dtype)
{
	const int64_t n = POSITIONS;
	tarn_tensor *t;

	must(tarn_tensor_zeros(dtype, 1, &n, &t));
	return t;
}

static int refit(const char *set, const tarn_tensor *at, const tarn_tensor *to)
{
	tarn_refit *made;
	int r;

	must(tarn_refit_begin(store, set, NULL, &made));
	must(tarn_refit_sparse(made, "a", at, to));
	r = tarn_refit_commit(made);
	tarn_refit_free(made);
	return r;
}

/* Both names have one tensor's bytes, in each version. */
static bool are_tied(const char *set)
{
	char a[16], b[16];
	tarn_tensor *x, *y;
	bool same;

	snprintf(a, sizeof(a), "%s/a", set);
	snprintf(b, sizeof(b), "%s/b", set);
	must(tarn_store_lookup(store, a, &x));
	must(tarn_store_lookup(store, b, &y));
	same = tarn_tensor_equal(x, y) == 1;
	tarn_tensor_unref(x);
	tarn_tensor_unref(y);
	return same;
}

/* Readers may be slow to look: some of the versions wait for it. */
static void await_patches(void)
{
	double end = seconds() + PATIENCE_S;

	while (!patches && seconds() < end)
		usleep(1000);
}

static void *write_versions(void *set)
{
	tarn_tensor *at = list(TARN_I64), *to = list(TARN_U32);

	for (uint32_t v = 1; v <= VERSIONS; v++) {
		for (int i = 0; i < POSITIONS; i++) {
			((int64_t *)tarn_tensor_data(at))[i] = i * STEP;
			((uint32_t *)tarn_tensor_data(to))[i] = v;
		}
		must(refit(set, at, to));
		untied += !are_tied(set);
		if (v == VERSIONS / 2)
			await_patches();
	}
	tarn_tensor_unref(at);
	tarn_tensor_unref(to);
	writing--;
	return NULL;
}

static bool is_whole(const tarn_tensor *t)
{
	const uint32_t *x = tarn_tensor_data(t);

	for (int i = 1; i < POSITIONS; i++)
		if (x[i * STEP] != x[0] || x[i * STEP + 1])
			return false;
	return true;
}

static void *read_versions(void *arg)
{
	static const char *const names[] = {"one/a", "two/a", "one/b", "two/b"};
	tarn_tensor *t, *mine;

	for (unsigned i = 0; writing || i < 10; i++) {
		must(tarn_store_lookup(store, names[i % 4], &t));
		must(tarn_tensor_cow(t, &mine));
		wrong += !is_whole(t) || !is_whole(mine);
		patches += patched_of(t->storage) != NULL;
		looked++;
		tarn_tensor_unref(mine);
		tarn_tensor_unref(t);
	}
	return arg;
}

static void publish(const char *set)
{
	struct tarn_publish_item items[] = {{.name = "a"}, {.name = "b"}};
	const int64_t n = ELEMENTS;
	tarn_tensor *t;

	must(tarn_store_create(store, TARN_U32, 1, &n, 0, &t));
	memset(tarn_tensor_data(t), 0, (size_t)n * 4);
	items[0].tensor = items[1].tensor = t;
	must(tarn_set_publish(store, set, items, 2, NULL, NULL));
	tarn_tensor_unref(t);
}

int main(void)
{
	static char sets[WRITERS][8] = {"one", "two"};
	pthread_t threads[WRITERS + READERS];

	daemon_start(&server, "patches_threads.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	publish("one");
	publish("two");
	for (int i = 0; i < WRITERS + READERS; i++)
		if (pthread_create(&threads[i], NULL,
			    i < WRITERS ? write_versions : read_versions,
			    i < WRITERS ? sets[i] : NULL))
			bail("no thread");
	for (int i = 0; i < WRITERS + READERS; i++)
		pthread_join(threads[i], NULL);
	is_int(0, (int)wrong, "each version is whole, in every thread");
	is_int(0, (int)untied, "names that are tied stay so");
	ok(patches > 0, "versions that were read are patches");
	diag("%u of %u", patches, looked);
	ok(kit_is_sound(store), "the daemon finds no fault");
	must(tarn_store_publish(store, NULL, 0,
		&(struct tarn_publish_options) {.replace = "one/"}, NULL));
	must(tarn_store_publish(store, NULL, 0,
		&(struct tarn_publish_options) {.replace = "two/"}, NULL));
	ok(kit_storages_become(store, 0), "nothing is left");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(6);
}
