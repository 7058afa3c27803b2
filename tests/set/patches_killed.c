/* SPDX-License-Identifier: MIT */
/*
 * Processes that make sparse versions of a set are killed at any moment, and so
 * are servers and readers, while versions lie over each other. Each version has
 * one number in all the pages that it changes, of all tensors: a reader that finds
 * two of them, or another byte changed, has found a version that was not whole.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/clock.h"
#include "lib/store/patch.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

enum { TENSORS = 3, ELEMENTS = 500000, STEP = 40009 };
/* At least so long, and at most, until versions have lain over each other. */
enum { SECONDS = 4, PATIENCE = 120 };
enum { POSITIONS = ELEMENTS / STEP };

static struct daemon server;
static const char *const names[TENSORS] = {"a", "b", "c"};

static void publish(tarn_store *store)
{
	struct tarn_publish_item items[TENSORS] = {0};
	const int64_t shape = ELEMENTS;

	for (int i = 0; i < TENSORS; i++) {
		items[i].name = names[i];
		must(tarn_tensor_zeros(TARN_U32, 1, &shape, &items[i].tensor));
	}
	must(tarn_set_publish(store, "set", items, TENSORS, NULL, NULL));
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref(items[i].tensor);
}

/* ---- a process that makes versions ---------------------------------------- */

static tarn_tensor *list(enum tarn_dtype dtype)
{
	const int64_t n = POSITIONS;
	tarn_tensor *t;

	must(tarn_tensor_zeros(dtype, 1, &n, &t));
	return t;
}

static int refit(
	tarn_store *store, const tarn_tensor *at, const tarn_tensor *to)
{
	tarn_refit *refit;
	int r = tarn_refit_begin(store, "set", NULL, &refit);

	if (r < 0)
		return r;
	for (int i = 0; r >= 0 && i < TENSORS; i++)
		r = tarn_refit_sparse(refit, names[i], at, to);
	if (r >= 0)
		r = tarn_refit_commit(refit);
	tarn_refit_free(refit);
	return r;
}

/* Errors that a killed server or another writer causes. */
static bool is_expected(int r)
{
	return r == -ECONNRESET || r == -ESTALE || r == -ECONNREFUSED ||
	       r == -EPIPE;
}

/* It waits long for every answer: a server on a busy machine is no fault. */
static tarn_store *open_store(void)
{
	double end = seconds() + PATIENCE;
	tarn_store *store;
	int r;

	do
		r = tarn_store_open(server.socket, NULL, &store);
	while ((is_expected(r) || r == -ETIMEDOUT) && seconds() < end);
	must(r);
	store->connection.timeout_ms = PATIENCE * 1000;
	return store;
}

static void write_versions(void)
{
	tarn_tensor *at = list(TARN_I64), *to = list(TARN_U32);
	tarn_store *store = open_store();

	for (uint32_t v = (uint32_t)getpid() << 12;; v++) {
		int r;

		for (int i = 0; i < POSITIONS; i++) {
			((int64_t *)tarn_tensor_data(at))[i] = i * STEP;
			((uint32_t *)tarn_tensor_data(to))[i] = v;
		}
		r = refit(store, at, to);
		if (r < 0 && !is_expected(r)) {
			fprintf(stderr, "# %s\n", tarn_error_message());
			_exit(1);
		}
	}
}

/* ---- one that reads them --------------------------------------------------- */

static bool is_whole(const struct tarn_snapshot *s)
{
	uint32_t v = 0;
	int n = 0;

	for (size_t k = 0; k < s->n; k++) {
		const uint32_t *x = tarn_tensor_data(s->items[k].tensor);

		if (strstr(s->items[k].name, TARN_SET_FIELDS))
			continue;
		v = n++ ? v : x[0];
		for (int i = 0; i < ELEMENTS; i++)
			if (x[i] !=
				(i % STEP || i / STEP >= POSITIONS ? 0 : v)) {
				fprintf(stderr, "# %s[%d] is %u, not %u\n",
					s->items[k].name, i, x[i], v);
				return false;
			}
	}
	return n == TENSORS;
}

static void read_versions(void)
{
	tarn_store *store = open_store();
	struct tarn_snapshot *s;
	int r;

	for (;;) {
		r = tarn_store_snapshot(store, "set/", &s);
		if (r < 0 && !is_expected(r)) {
			fprintf(stderr, "# %s\n", tarn_error_message());
			_exit(1);
		}
		if (r >= 0 && !is_whole(s))
			_exit(1);
		if (r >= 0)
			tarn_snapshot_free(s);
	}
}

/* ---- kills ----------------------------------------------------------------- */

static pid_t begin(void (*what)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	what();
	_exit(0);
}

/* Only the kill has ended it. */
static bool killed(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

static unsigned depth(tarn_store *store)
{
	const struct patched *patched;
	tarn_tensor *t;
	unsigned n;

	if (CALL_AGAIN(tarn_store_lookup(store, "set/a", &t)) < 0)
		return 0;
	patched = patched_of(t->storage);
	n = patched ? patched->depth : 0;
	tarn_tensor_unref(t);
	return n;
}

/* A while, up to 62 ms. Where that is too short to make versions in, it becomes
 * longer with each kill. */
static void wait_a_while(unsigned *seed, unsigned kills, unsigned deepest)
{
	unsigned slow = deepest > 1 ? 1 : 1 + kills / 20;

	usleep(slow * (2000 + (unsigned)rand_r(seed) % 60000));
}

int main(void)
{
	unsigned seed = 1, kills = 0, deepest = 0;
	pid_t writer, reader;
	tarn_store *store;
	bool sound = true;
	int64_t begun;

	daemon_start(&server, "patches_killed.sock", NULL);
	store = open_store();
	publish(store);
	writer = begin(write_versions);
	reader = begin(read_versions);
	begun = clock_ms();
	while (sound &&
		clock_ms() - begun <
			(deepest > 1 ? SECONDS : PATIENCE) * INT64_C(1000)) {
		unsigned n;

		wait_a_while(&seed, kills, deepest);
		n = depth(store);
		deepest = n > deepest ? n : deepest;
		sound = killed(writer);
		writer = begin(write_versions);
		if (sound && kills % 3 == 0) {
			sound = killed(reader);
			reader = begin(read_versions);
		}
		if (kills++ == 20)
			server_kill(&server);
	}
	sound = killed(writer) && killed(reader) && sound;
	ok(sound, "each version is whole, whichever process is killed");
	diag("%u kills, %u patches over each other", kills, deepest);
	ok(deepest > 1, "versions lay over each other");
	ok(kit_is_sound(store), "the daemon finds no fault");
	must(tarn_store_publish(store, NULL, 0,
		&(struct tarn_publish_options) {.replace = "set/"}, NULL));
	ok(kit_storages_become(store, 0), "nothing is left");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(5);
}
