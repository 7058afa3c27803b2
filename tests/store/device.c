/* SPDX-License-Identifier: MIT */
/*
 * Tensors in memory of a device, of which a stand-in makes memfds: published
 * where they are, imported once by each process whatever the number of names,
 * replaced as versions are, and kept when their publisher is dead. A process
 * without a driver lists them and removes them.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/cuda.h>
#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/device.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

enum { SIZE = 300000, NAMES = 1000, THREADS = 8 };

static struct daemon server;
static tarn_store *store;
static const char *self;

static void put(const char *name, tarn_tensor *t)
{
	must(tarn_store_publish_one(store, name, t, NULL, NULL));
}

static tarn_tensor *found(const char *name)
{
	tarn_tensor *t;

	if (tarn_store_lookup(store, name, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

/* Bytes of devices that the daemon counts. */
static uint64_t kept(void)
{
	struct tarn_report_daemon d = {0};

	must(report_daemon(store, &d));
	return d.device_memory;
}

/* The last release is noticed a moment later. */
static bool kept_becomes(uint64_t bytes)
{
	for (int ms = 0; ms < 60000 && kept() != bytes; ms += 2)
		usleep(2000);
	return kept() == bytes;
}

/* ---- another process --------------------------------------------------- */

/* This program again: looks a name up, tells whether its bytes are those of that
 * seed, and then writes the first of them. */
static int other(const char *name, unsigned seed)
{
	tarn_tensor *t;
	bool right;

	kit_device_begin();
	if (tarn_store_open(server.socket, NULL, &store) < 0 ||
		tarn_store_lookup(store, name, &t) < 0)
		return 2;
	right = kit_device_has(t, seed);
	kit_device_bytes(t)[0] = 99;
	tarn_tensor_unref(t);
	tarn_store_unref(store);
	return right ? 0 : 1;
}

static int ask_other(const char *name, const char *seed)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		execl(self, self, server.socket, name, seed, NULL);
		_exit(9);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- one tensor --------------------------------------------------------- */

static void test_publish(void)
{
	tarn_tensor *t = kit_device_tensor(SIZE, 3), *again;
	const tarn_storage *storage = tarn_tensor_storage(t);
	struct tarn_cuda_device device;

	is_int(TARN_STORAGE_DEVICE, tarn_storage_kind(storage),
		"a storage on a device is of that kind");
	put("one", t);
	is_int(TARN_STORAGE_DEVICE, tarn_storage_kind(storage),
		"it stays of that kind when it is published");
	ok(!tarn_storage_writable(storage),
		"the publisher's tensor is read-only from then on");
	ok(kit_device_has(t, 3), "the publisher's tensor has its bytes");
	is_int(SIZE, (int64_t)kept(),
		"the daemon counts its bytes as a device's");
	again = found("one");
	ok(tarn_tensor_same_storage(t, again),
		"the publisher gets its own storage under the name");
	ok(tarn_tensor_data(again) == NULL, "it has no address of the host");
	is_int(1, tarn_storage_device(tarn_tensor_storage(again), &device),
		"it is on a device");
	is_mem(kit_device_uuid, device.uuid, 16,
		"its device is known by its UUID");
	is_int(0, ask_other("one", "3"), "another process gets the same bytes");
	is_int(99, kit_device_bytes(t)[0],
		"a write of the other process is seen: the memory is shared");
	tarn_tensor_unref(again);
	tarn_tensor_unref(t);
	is_int(0, atomic_load(&kit_device_live),
		"the publisher's memory goes with its last tensor");
	again = found("one");
	is_int(99, kit_device_bytes(again)[0],
		"the memory outlives the publisher's tensor");
	must(tarn_store_remove(store, "one"));
	is_int(99, kit_device_bytes(again)[1] + 95,
		"a holder keeps the memory without a name");
	is_int(SIZE, (int64_t)kept(), "the daemon counts it for its holder");
	tarn_tensor_unref(again);
	ok(kept_becomes(0), "nothing is counted when the last holder is gone");
	is_int(0, atomic_load(&kit_device_live),
		"nothing is imported any more");
}

/* ---- without a driver ------------------------------------------------------ */

static int count(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	(void)name;
	(void)descriptor;
	(void)version;
	++*(int *)arg;
	return 0;
}

static void test_without_driver(void)
{
	tarn_tensor *t = kit_device_tensor(SIZE, 5);
	struct device_memory *memory;
	const int64_t at = 1;
	int64_t value;
	int n = 0, r;

	put("driverless/a", t);
	tarn_tensor_unref(t);
	device_hooks_set(NULL);
	must(tarn_store_list(store, "driverless/", count, &n));
	is_int(1, n, "a name on a device is listed without a driver");
	t = found("driverless/a");
	/* Or with one, but not that device. */
	r = device_storage_memory(tarn_tensor_storage(t), &memory);
	ok(r == -ENOTSUP || r == -ENODEV,
		"its memory cannot be had without a driver");
	has_str("GPU-face0ff0-0102-0304-0506-0708090a0b0c",
		tarn_error_message(), "the error names the device");
	is_int(r, tarn_tensor_get_i64(t, &at, &value),
		"its elements cannot be read without a driver");
	is_int(0, tarn_store_publish_one(store, "driverless/b", t, NULL, NULL),
		"it gets another name without a driver");
	tarn_tensor_unref(t);
	kit_device_begin();
	t = found("driverless/b");
	must(tarn_tensor_get_i64(t, &at, &value));
	is_int(6, value, "its elements are read through the driver");
	tarn_tensor_unref(t);
	device_hooks_set(NULL);
	must(tarn_store_remove(store, "driverless/a"));
	must(tarn_store_remove(store, "driverless/b"));
	ok(kept_becomes(0), "it is removed without a driver");
	kit_device_begin();
}

/* ---- many names ------------------------------------------------------------ */

static tarn_tensor *part(tarn_tensor *whole, int64_t from)
{
	tarn_tensor *t;

	must(tarn_tensor_slice(whole, 0, from, from + 1, 1, &t));
	return t;
}

static void test_names(void)
{
	static tarn_tensor *opened[NAMES];
	struct tarn_publish_item items[NAMES];
	static char names[NAMES][24];
	tarn_tensor *whole = kit_device_empty(40ll << 30), *whole_again;
	unsigned exports = atomic_load(&kit_device_exports), imports, same = 0;
	double began;

	for (int i = 0; i < NAMES; i++) {
		snprintf(names[i], sizeof(names[i]), "model/%d", i);
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = part(whole, i)};
	}
	must(tarn_store_publish(store, items, NAMES, NULL, NULL));
	is_int(1, atomic_load(&kit_device_exports) - exports,
		"a thousand names of one storage are exported once");
	for (int i = 0; i < NAMES; i++)
		tarn_tensor_unref(items[i].tensor);
	tarn_tensor_unref(whole);
	imports = atomic_load(&kit_device_imports);
	began = seconds();
	for (int i = 0; i < NAMES; i++) {
		opened[i] = found(names[i]);
		(void)kit_device_bytes(opened[i]);
	}
	diag("%d names of 40 GiB: %.3f ms", NAMES, (seconds() - began) * 1e3);
	is_int(1, atomic_load(&kit_device_imports) - imports,
		"a thousand names of one storage are imported once");
	for (int i = 1; i < NAMES; i++)
		same += tarn_tensor_same_storage(opened[0], opened[i]);
	is_int(NAMES - 1, same, "they share one storage");
	whole_again = found(names[7]);
	is_int(7, (int64_t)tarn_tensor_layout(whole_again)->offset,
		"each has its own layout");
	tarn_tensor_unref(whole_again);
	is_int(40ll << 30, (int64_t)kept(), "the storage is counted once");
	for (int i = 0; i < NAMES; i++)
		tarn_tensor_unref(opened[i]);
	must(tarn_store_publish(store, NULL, 0,
		&(const struct tarn_publish_options) {.replace = "model/"},
		NULL));
	ok(kept_becomes(0), "they go with their prefix");
}

/* ---- versions -------------------------------------------------------------- */

static void put_set(unsigned seed)
{
	const struct tarn_publish_options options = {.replace = "set/"};
	tarn_tensor *w = kit_device_tensor(SIZE, seed);
	tarn_tensor *b = kit_device_tensor(SIZE / 2, seed);
	const struct tarn_publish_item items[] = {
		{.name = "set/w", .tensor = w}, {.name = "set/b", .tensor = b}};

	must(tarn_store_publish(store, items, 2, &options, NULL));
	tarn_tensor_unref(w);
	tarn_tensor_unref(b);
}

static void test_versions(void)
{
	struct tarn_snapshot *old, *new;

	put_set(10);
	must(tarn_store_snapshot(store, "set/", &old));
	put_set(20);
	must(tarn_store_snapshot(store, "set/", &new));
	ok(old->n == 2 && kit_device_has(old->items[0].tensor, 10) &&
			kit_device_has(old->items[1].tensor, 10),
		"a snapshot keeps the version that it was taken of");
	ok(new->n == 2 && kit_device_has(new->items[0].tensor, 20) &&
			kit_device_has(new->items[1].tensor, 20),
		"a later one has the version that replaced it, whole");
	is_int(2 * (SIZE + SIZE / 2), (int64_t)kept(),
		"both versions are counted as long as the old one is held");
	tarn_snapshot_free(old);
	ok(kept_becomes(SIZE + SIZE / 2),
		"the old version goes with its last holder");
	tarn_snapshot_free(new);
	must(tarn_store_remove(store, "set/w"));
	must(tarn_store_remove(store, "set/b"));
	ok(kept_becomes(0), "the new version goes with its names");
}

static void test_time_to_live(void)
{
	const struct tarn_publish_options options = {.ttl_ms = 100};
	tarn_tensor *t = kit_device_tensor(SIZE, 1);

	must(tarn_store_publish_one(store, "brief", t, &options, NULL));
	tarn_tensor_unref(t);
	ok(kept_becomes(0), "a name with a time to live frees the memory");
}

/* ---- what cannot be done ----------------------------------------------------- */

static void test_refused(void)
{
	tarn_tensor *t = kit_device_tensor(SIZE, 8);
	int node;

	put("fixed/t", t);
	is_int(-ENOTSUP, tarn_store_replicate(store, "fixed/t", 0, NULL, NULL),
		"memory of a device cannot be replicated");
	has_str("copy it to the host", tarn_error_message(),
		"the error says what to do instead");
	is_int(-ENOTSUP, tarn_store_migrate(store, "fixed/t", 0, NULL, NULL),
		"memory of a device cannot migrate");
	is_int(0, tarn_store_replicate(store, "fixed/", 0, NULL, NULL),
		"where a prefix is replicated it is left out");
	is_int(-ENOTSUP, tarn_tensor_node(t, &node), "it has no node");
	is_int(-ENOTSUP, tarn_tensor_lock(t, TARN_LOCK_READ, 0),
		"it has no lock");
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "fixed/t"));
	ok(kept_becomes(0), "what was refused has left nothing");
}

/* ---- publishers that die ------------------------------------------------------ */

static void test_dead_publisher(void)
{
	pid_t pid = fork();
	tarn_tensor *t;

	if (pid == 0) {
		tarn_store *mine;

		if (tarn_store_open(server.socket, NULL, &mine) < 0 ||
			tarn_store_publish_one(mine, "orphan",
				kit_device_tensor(SIZE, 77), NULL, NULL) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	t = found("orphan");
	ok(kit_device_has(t, 77), "the memory outlives its killed publisher");
	server_kill(&server);
	ok(kit_device_has(t, 77), "it outlives the server, for its holder");
	tarn_tensor_unref(t);
	t = found("orphan");
	ok(kit_device_has(t, 77), "it is handed out by the next server");
	is_int(SIZE, (int64_t)kept(), "the next server counts it");
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "orphan"));
	ok(kept_becomes(0), "it goes when the next server frees it");
}

/* ---- threads -------------------------------------------------------------------- */

static void *use(void *arg)
{
	tarn_tensor *t = found(arg);
	void *at = kit_device_bytes(t);

	tarn_tensor_unref(t);
	return at;
}

static void *publish_it(void *arg)
{
	return tarn_store_publish_one(store, "raced/again", arg, NULL, NULL) < 0
		       ? arg
		       : NULL;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];
	unsigned failed = 0;
	tarn_tensor *t = kit_device_tensor(SIZE, 4);
	void *r;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, publish_it, t);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &r);
		failed += r != NULL;
	}
	is_int(0, failed, "threads publish one tensor at the same time");
	is_int(SIZE, (int64_t)kept(), "they made one storage of it");
	tarn_tensor_unref(t);
	t = found("raced/again");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, use, "raced/again");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &r);
		failed += r != kit_device_bytes(t);
	}
	is_int(0, failed, "threads that use it first get one import");
	is_int(1, atomic_load(&kit_device_live),
		"other imports of the same moment were released");
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "raced/again"));
	ok(kept_becomes(0), "they leave nothing");
}

static void test_check(void)
{
	struct tarn_check *check;
	tarn_tensor *t = kit_device_tensor(SIZE, 2);

	put("checked", t);
	must(tarn_store_check(store, &check));
	if (!is_int(0, check->n_faults, "tables and accounts are sound"))
		diag("%s", check->faults[0]);
	tarn_check_free(check);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "checked"));
	ok(kept_becomes(0), "nothing is left in the end");
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc == 4) {
		snprintf(server.socket, sizeof(server.socket), "%s", argv[1]);
		return other(argv[2], (unsigned)atoi(argv[3]));
	}
	kit_device_begin();
	daemon_start(&server, "device.sock", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	test_publish();
	test_without_driver();
	test_names();
	test_versions();
	test_time_to_live();
	test_refused();
	test_dead_publisher();
	test_threads();
	test_check();
	is_int(0, atomic_load(&kit_device_live), "no import is left");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(57);
}
