/* SPDX-License-Identifier: MIT */
/*
 * Memory that is taken part by part, as it is filled: a tensor has none at first, a
 * part has it when it was asked for, and what is published is whole all the same.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/counting.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

static tarn_store *store;

static int publish_one(tarn_tensor *t)
{
	return tarn_store_publish_one(store, "taken", t, NULL, NULL);
}

#define UNTAKEN (8 << 20)

/* Pages of it that are there. */
static size_t count_taken(const tarn_tensor *t)
{
	static unsigned char there[UNTAKEN / 4096];
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n = 0;

	if (mincore(tarn_tensor_data(t), UNTAKEN, there) < 0)
		bail("mincore: %m");
	for (size_t i = 0; i < UNTAKEN / page; i++)
		n += there[i] & 1;
	return n * page;
}

static tarn_tensor *untaken(void)
{
	const int64_t n = UNTAKEN;
	tarn_tensor *t = NULL;

	must(tarn_store_create(store, TARN_U8, 1, &n, TARN_CREATE_UNTAKEN, &t));
	return t;
}

static void take(tarn_tensor *t, int64_t from, int64_t size)
{
	tarn_tensor *part = NULL;

	must(tarn_tensor_narrow(t, 0, from, size, &part));
	kit_is_done(tarn_tensor_take(part), "a part of memory is taken");
	tarn_tensor_unref(part);
}

static void test_untaken(tarn_store *other)
{
	tarn_tensor *t = untaken(), *seen;
	const void *at = tarn_tensor_data(t);

	is_int(0, (int64_t)count_taken(t), "an untaken tensor has no memory");
	take(t, (3 << 20) + 1, 1 << 20);
	ok(count_taken(t) > 1 << 20 && count_taken(t) < UNTAKEN,
		"a part of it has, and not the whole");
	take(t, 0, UNTAKEN);
	is_int(UNTAKEN, (int64_t)count_taken(t), "then all of it has");
	memset(tarn_tensor_data(t), 7, UNTAKEN);
	kit_is_done(publish_one(t), "it is published");
	ok(tarn_tensor_data(t) == at, "without a copy");
	seen = kit_looked_up(other, "taken");
	is_int(7,
		seen ? ((unsigned char *)tarn_tensor_data(seen))[UNTAKEN - 1]
		     : -1,
		"others see its bytes");
	tarn_tensor_unref(seen);
	kit_is_done(tarn_tensor_take(t), "what is published has its memory");
	tarn_tensor_unref(t);
}

static void test_holes(tarn_store *other)
{
	tarn_tensor *t = untaken(), *seen;

	take(t, 0, 4096);
	memset(tarn_tensor_data(t), 9, 4096);
	kit_is_done(publish_one(t), "one with untaken parts is published, too");
	tarn_tensor_unref(t);
	seen = kit_looked_up(other, "taken");
	is_int(9, seen ? *(unsigned char *)tarn_tensor_data(seen) : -1,
		"others see what was written");
	is_int(0,
		seen ? ((unsigned char *)tarn_tensor_data(seen))[UNTAKEN - 1]
		     : -1,
		"and zeros elsewhere");
	tarn_tensor_unref(seen);
	must(tarn_store_remove(store, "taken"));
}

/* Copies bring the pages: between tensors as they are, and where they are turned. */
static void test_copies(void)
{
	const int64_t n = UNTAKEN, half = UNTAKEN / 2;
	const int64_t shape[] = {2048, 2048};
	tarn_tensor *t, *part[2], *src, *turned, *square, *seen;
	int64_t at[] = {3, 5};
	double value = 0;

	must(tarn_store_create(store, TARN_U8, 1, &n, TARN_CREATE_UNTAKEN, &t));
	must(tarn_tensor_zeros(TARN_U8, 2, shape, &src));
	must(tarn_tensor_set_f64(src, at, 9));
	must(tarn_tensor_transpose(src, 0, 1, &turned));
	must(tarn_tensor_narrow(t, 0, 0, half, &part[0]));
	must(tarn_tensor_narrow(t, 0, half, half, &part[1]));
	must(tarn_tensor_view(part[0], 2, shape, &square));
	must(tarn_tensor_take_copy(square, src));
	is_int(half, (int64_t)count_taken(t), "a copy takes what it copies to");
	tarn_tensor_unref(square);
	must(tarn_tensor_view(part[1], 2, shape, &square));
	must(tarn_tensor_take_copy(square, turned));
	is_int(n, (int64_t)count_taken(t),
		"a copy that turns its source takes, too");
	tarn_tensor_unref(square);
	must(publish_one(t));
	must(tarn_store_lookup(store, "taken", &seen));
	at[0] = 3 * 2048 + 5;
	must(tarn_tensor_get_f64(seen, at, &value));
	ok(value == 9, "the first has its bytes");
	at[0] = half + 5 * 2048 + 3;
	must(tarn_tensor_get_f64(seen, at, &value));
	ok(value == 9, "the second has them turned");
	tarn_tensor_unref(seen);
	tarn_tensor_unref(turned);
	tarn_tensor_unref(src);
	tarn_tensor_unref(part[0]);
	tarn_tensor_unref(part[1]);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "taken"));
}

static void test_mutable(void)
{
	const int64_t n = UNTAKEN;
	tarn_tensor *t = NULL;

	is_int(-EINVAL,
		tarn_store_create(store, TARN_U8, 1, &n,
			TARN_CREATE_UNTAKEN | TARN_CREATE_MUTABLE, &t),
		"a mutable tensor cannot be untaken");
}

int main(void)
{
	struct daemon daemon;
	tarn_store *other = NULL;

	daemon_start(&daemon, "untaken.sock", NULL);
	if (tarn_store_open(daemon.socket, NULL, &store) < 0 ||
		tarn_store_open(daemon.socket, NULL, &other) < 0)
		bail("%s", tarn_error_message());
	test_untaken(other);
	test_holes(other);
	test_copies();
	test_mutable();
	tarn_store_unref(other);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	return done(19);
}
