/* SPDX-License-Identifier: MIT */
/*
 * Memory of devices beside other things: a publication that fails leaves the
 * tensor as it was; a child of fork() imports for itself; another daemon keeps
 * the same memory; copies and memory of a device are published at once; a daemon
 * that is too old is not asked.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/device.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

enum { SIZE = 50000 };

static struct daemon server, second;
static tarn_store *store, *elsewhere;

static tarn_tensor *found(tarn_store *at, const char *name)
{
	tarn_tensor *t;

	if (tarn_store_lookup(at, name, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static bool kept_becomes(tarn_store *at, uint64_t bytes)
{
	struct tarn_report_daemon d = {0};

	for (int ms = 0; ms < 60000; ms += 2) {
		must(report_daemon(at, &d));
		if (d.device_memory == bytes)
			return true;
		usleep(2000);
	}
	return false;
}

/* ---- publications that fail ----------------------------------------------- */

static void test_failure(void)
{
	const struct tarn_publish_options only = {.exclusive = true};
	tarn_tensor *first = kit_device_tensor(SIZE, 1);
	tarn_tensor *t = kit_device_tensor(SIZE, 2);
	const tarn_storage *storage = tarn_tensor_storage(t);

	must(tarn_store_publish_one(store, "taken", first, NULL, NULL));
	is_int(-EEXIST, tarn_store_publish_one(store, "taken", t, &only, NULL),
		"a publication over a name that is taken is refused");
	ok(tarn_storage_writable(storage) && !store_storage_of(storage),
		"the tensor is what it was before that publication");
	ok(kept_becomes(store, SIZE), "the daemon keeps nothing of it");
	is_int(0, tarn_store_publish_one(store, "free", t, &only, NULL),
		"it is published under another name");
	ok(kit_device_has(t, 2), "it has its bytes after both");
	tarn_tensor_unref(first);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "taken"));
	must(tarn_store_remove(store, "free"));
	ok(kept_becomes(store, 0), "nothing is kept of either");
}

/* A driver that rounds up, and a storage that does not know. */
static void test_sizes(void)
{
	tarn_tensor *t = kit_device_tensor(SIZE, 2);
	tarn_storage *storage = tarn_tensor_storage(t);

	storage->size--;
	is_int(-EINVAL, tarn_store_publish_one(store, "less", t, NULL, NULL),
		"a storage that is not all of its allocation is refused");
	has_str("50000 bytes for a storage of 49999", tarn_error_message(),
		"the error has both sizes");
	tarn_tensor_unref(t);
}

static void test_old_daemon(void)
{
	tarn_tensor *t = kit_device_tensor(SIZE, 2);
	uint32_t version = store->version;

	store->version = SOURCE_DEVICE_SINCE - 1;
	is_int(-ENOTSUP, tarn_store_publish_one(store, "old", t, NULL, NULL),
		"a daemon of an older protocol is not sent memory of a device");
	has_str("too old", tarn_error_message(), "the error says why");
	store->version = version;
	tarn_tensor_unref(t);
}

/* ---- beside copies ---------------------------------------------------------- */

static void test_mixed(void)
{
	tarn_tensor *device = kit_device_tensor(SIZE, 6), *small, *large, *t;
	const int64_t few = 3, many = 3 << 20, at = 1;
	int64_t value;

	must(tarn_tensor_full(TARN_I64, 1, &few, 41, &small));
	must(tarn_store_create(store, TARN_U8, 1, &many, 0, &large));
	must(tarn_tensor_set_i64(large, &at, 42));
	must(tarn_store_publish(store,
		(const struct tarn_publish_item[]) {
			{.name = "mixed/small", .tensor = small},
			{.name = "mixed/device", .tensor = device},
			{.name = "mixed/large", .tensor = large},
			{.name = "mixed/device2", .tensor = device},
		},
		4, NULL, NULL));
	tarn_tensor_unref(small);
	tarn_tensor_unref(device);
	tarn_tensor_unref(large);
	t = found(store, "mixed/small");
	must(tarn_tensor_get_i64(t, &at, &value));
	is_int(41, value, "what came in the message is beside a device's");
	tarn_tensor_unref(t);
	t = found(store, "mixed/large");
	must(tarn_tensor_get_i64(t, &at, &value));
	is_int(42, value, "what was adopted is beside a device's");
	tarn_tensor_unref(t);
	t = found(store, "mixed/device2");
	ok(kit_device_has(t, 6), "a device's is beside them");
	tarn_tensor_unref(t);
	must(tarn_store_publish(store, NULL, 0,
		&(const struct tarn_publish_options) {.replace = "mixed/"},
		NULL));
	ok(kept_becomes(store, 0), "all of them go");
}

/* ---- children --------------------------------------------------------------- */

static void test_fork(void)
{
	tarn_tensor *t = kit_device_tensor(SIZE, 9);
	int status = -1;
	pid_t pid;

	must(tarn_store_publish_one(store, "forked", t, NULL, NULL));
	tarn_tensor_unref(t);
	t = found(store, "forked");
	pid = fork();
	if (pid == 0)
		_exit(kit_device_has(t, 9) ? 0 : 1);
	waitpid(pid, &status, 0);
	is_int(0, status,
		"a child imports what its parent had opened and not used");
	is_int(0, atomic_load(&kit_device_live),
		"the parent has not imported it");
	must(tarn_store_remove(store, "forked"));
	ok(kit_device_has(t, 9), "the parent imports it after the child's end");
	tarn_tensor_unref(t);
	ok(kept_becomes(store, 0), "it goes with the parent's tensor");
}

/* ---- another daemon ------------------------------------------------------------ */

static void test_elsewhere(void)
{
	tarn_tensor *t = kit_device_tensor(SIZE, 13), *other;

	must(tarn_store_publish_one(store, "here", t, NULL, NULL));
	is_int(0, tarn_store_publish_one(elsewhere, "there", t, NULL, NULL),
		"what one daemon keeps is published at another");
	other = found(elsewhere, "there");
	ok(kit_device_inode(t) == kit_device_inode(other),
		"both daemons keep the same memory");
	must(tarn_store_remove(store, "here"));
	tarn_tensor_unref(t);
	ok(kept_becomes(store, 0), "the first one lets go of it");
	ok(kit_device_has(other, 13), "the second one still keeps it");
	tarn_tensor_unref(other);
	must(tarn_store_remove(elsewhere, "there"));
	ok(kept_becomes(elsewhere, 0), "the second one lets go of it, too");
}

int main(void)
{
	kit_device_begin();
	daemon_start(&server, "first.sock", NULL);
	daemon_start(&second, "second.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	must(tarn_store_open(second.socket, NULL, &elsewhere));
	test_failure();
	test_sizes();
	test_old_daemon();
	test_mixed();
	test_fork();
	test_elsewhere();
	is_int(0, atomic_load(&kit_device_live), "no import is left");
	tarn_store_unref(store);
	tarn_store_unref(elsewhere);
	is_int(0, daemon_stop(&server),
		"the first daemon ends without an error");
	is_int(0, daemon_stop(&second),
		"the second daemon ends without an error");
	return done(26);
}
