/* SPDX-License-Identifier: MIT */
/*
 * Processes that die while a replica is made: the loader that copies, the
 * server, the client that has asked for it. The call does what it says, or the
 * next one does, and no byte is lost. That there is one node, and that this test
 * does not know it, is as in replicas.c.
 */
#include <tarn/node.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/replica.h"
#include "tests/kit/stopped_load.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define SIZE (256ll << 20) /* long enough to be met under way */
/* The copy goes on while this process does not run, and may be over first. */
#define TRIES 20

static struct daemon server;
static tarn_store *store;

/* Each word says where it is. */
static void fill(tarn_tensor *t)
{
	uint64_t *p = tarn_tensor_data(t);

	for (uint64_t i = 0; i < SIZE / 8; i++)
		p[i] = i * 0x9e3779b97f4a7c15ull;
}

static bool has(const tarn_tensor *t)
{
	const uint64_t *p = tarn_tensor_data(t);

	for (uint64_t i = 0; i < SIZE / 8; i++)
		if (p[i] != i * 0x9e3779b97f4a7c15ull)
			return false;
	return true;
}

static bool is_whole(void)
{
	tarn_tensor *t = NULL;
	bool whole;

	kit_good(tarn_store_lookup(store, "t", &t), "look up");
	whole = has(t);
	tarn_tensor_unref(t);
	return whole;
}

static void publish(const char *name, tarn_tensor *t)
{
	const struct tarn_publish_item item = {.name = name, .tensor = t};

	kit_good(tarn_store_publish(store, &item, 1, NULL, NULL), "publish");
}

/* In the pool, so that it is copied from there: memory of its own is not. */
static void publish_filled(void)
{
	const int64_t size = SIZE;
	tarn_tensor *t = NULL;

	kit_good(tarn_store_create(store, TARN_U8, 1, &size, 0, &t), "create");
	fill(t);
	publish("t", t);
	tarn_tensor_unref(t);
	kit_good(tarn_store_migrate(store, "t", KIT_NODE, NULL, NULL),
		"migrate");
}

/* ---- what happens under way ------------------------------------------------ */

struct blow {
	pid_t pid;   /* 0: a loader */
	bool struck; /* while bytes were being copied */
};

/* After the first bytes. */
static int strike(void *arg, uint64_t done, uint64_t total)
{
	struct blow *blow = arg;

	if (blow->struck || !done || done == total)
		return 0;
	blow->struck = true;
	kill(blow->pid ? blow->pid : child_named(server.pid, "tarn-loader"),
		SIGKILL);
	return 0;
}

static int give_up(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	(void)total;
	return done > 0;
}

static void survives(pid_t pid, const char *what)
{
	struct blow blow = {.pid = pid};
	const struct tarn_replicate_options options = {
		.progress = strike, .arg = &blow};
	uint32_t original = kit_storage_named(store, "t");
	int r = tarn_store_replicate(store, "t", KIT_NODE, &options, NULL);

	if (!blow.struck)
		diag("it was over before the %s could be killed", what);
	is_int(0, r, "a replica is made although the %s is killed", what);
	ok(kit_storage_named(store, "t") != original && is_whole(),
		"after the death of the %s it has the bytes", what);
	kit_good(tarn_store_drop_replicas(store, "t", -1), "drop");
	ok(kit_storages_become(store, 1),
		"after the death of the %s nothing stays", what);
	ok(kit_is_sound(store), "after the death of the %s the books agree",
		what);
}

static void client_dies(void)
{
	struct blow blow = {0};
	const struct tarn_replicate_options options = {
		.progress = strike, .arg = &blow};
	uint32_t original = kit_storage_named(store, "t");
	pid_t child = fork();

	if (child < 0)
		bail("fork: %m");
	if (!child) {
		tarn_store *own = NULL;

		if (tarn_store_open(server.socket, NULL, &own) < 0)
			_exit(1);
		blow.pid = getpid();
		_exit(tarn_store_replicate(own, "t", KIT_NODE, &options, NULL) <
			0);
	}
	waitpid(child, NULL, 0);
	/* It may have been done just before. */
	kit_good(tarn_store_drop_replicas(store, "t", -1), "drop");
	ok(kit_storages_become(store, 1),
		"the copy of a client that died is given up");
	is_int(original, kit_storage_named(store, "t"),
		"what a dead client had begun to copy is as it was");
	ok(kit_is_sound(store), "after the death of a client the books agree");
}

static int cancel(void)
{
	const struct tarn_replicate_options options = {.progress = give_up};
	int r = tarn_store_replicate(store, "t", KIT_NODE, &options, NULL);

	kit_good(tarn_store_drop_replicas(store, "t", -1), "drop");
	return r;
}

static void cancelled(void)
{
	int r = cancel();

	for (int i = 1; i < TRIES && r == 0; i++)
		r = cancel();
	if (r == 0)
		skip(1, "copies are over before they can be cancelled");
	else
		is_int(-ECANCELED, r, "a copy can be cancelled");
	ok(kit_storages_become(store, 1), "nothing of a cancelled copy stays");
}

/* ---- a copy that is held --------------------------------------------------- */

struct copy {
	int (*make)(tarn_store *store, const char *name, int node,
		const struct tarn_replicate_options *options,
		uint64_t *ret_bytes);
	pthread_t thread;
	pid_t loader;
	int r;
};

static void *make_copy(void *arg)
{
	struct copy *copy = arg;

	copy->r = copy->make(store, "t", KIT_NODE, NULL, NULL);
	return NULL;
}

/* Of "t"; it is under way until its loader, which is stopped, goes on. */
static void copy_begin(struct copy *copy)
{
	copy->loader = stopped_load_begin(&server);
	if (pthread_create(&copy->thread, NULL, make_copy, copy) != 0)
		bail("no thread");
	stopped_load_await(&server, store, copy->loader);
}

static int copy_end(struct copy *copy)
{
	kill(copy->loader, SIGCONT);
	pthread_join(copy->thread, NULL);
	return copy->r;
}

/* The last name goes while its bytes are being copied. */
static void name_goes(void)
{
	struct copy copy = {.make = tarn_store_replicate};

	copy_begin(&copy);
	kit_good(tarn_store_remove(store, "t"), "remove");
	is_int(-ESTALE, copy_end(&copy),
		"a tensor whose name goes meanwhile has no replica");
	ok(kit_storages_become(store, 0), "nothing of it stays");
	ok(kit_is_sound(store), "the books agree");
}

/* The last name goes, and the server dies before the copy ends that held the
 * tensor; its replica has another name, or none. */
static void original_goes(bool named)
{
	const char *what =
		named ? "a replica that is named" : "a replica without a name";
	struct copy copy = {.make = tarn_store_migrate};
	tarn_tensor *t = NULL;

	publish_filled();
	kit_good(tarn_store_replicate(store, "t", KIT_NODE, NULL, NULL),
		"replicate");
	kit_good(tarn_store_lookup(store, "t", &t), "t");
	if (named)
		publish("v", t);
	t = tarn_tensor_unref(t);
	copy_begin(&copy);
	kit_good(tarn_store_remove(store, "t"), "remove");
	kill(kit_server_pid(store), SIGKILL);
	is_int(-ESTALE, copy_end(&copy), "%s: nothing moves", what);
	ok(kit_storages_become(store, named), "%s: nothing else stays", what);
	ok(kit_is_sound(store), "%s: the books agree", what);
	if (!named)
		return;
	kill(kit_server_pid(store), SIGKILL);
	kit_good(tarn_store_lookup(store, "v", &t), "v");
	ok(has(t), "%s: it has the bytes", what);
	tarn_tensor_unref(t);
	is_int(0, tarn_store_replicate(store, "v", KIT_NODE, NULL, NULL),
		"%s: it can have one itself", what);
	ok(kit_is_sound(store), "%s: the next server's books agree", what);
	kit_good(tarn_store_remove(store, "v"), "remove");
	ok(kit_storages_become(store, 0), "%s: nothing stays", what);
}

int main(void)
{

	store = daemon_start_open(&server, "sock",
		(const char *const[]) {"--segment-size", "32M", NULL});
	publish_filled();
	ok(kit_storages_become(store, 1),
		"the old bytes of what has moved are freed");
	survives(0, "loader");
	survives(kit_server_pid(store), "server");
	client_dies();
	cancelled();
	name_goes();
	original_goes(false);
	original_goes(true);
	tarn_store_unref(store);
	daemon_stop(&server);
	return done(27);
}
