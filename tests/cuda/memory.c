/* SPDX-License-Identifier: MIT */
/*
 * Tensors of a store as a device reads them: pools, memory of a tensor's own,
 * memory that is being filled. Each is unregistered before it is unmapped, which
 * the stand-in for the driver would notice; and a process that asks for no
 * device does not load the driver.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define MIB (1 << 20)
#define SMALL 5000      /* bytes: they go to the pool */
#define LARGE (8 * MIB) /* a memfd of its own */
#define MANY 40
#define PATIENCE 60.0
#define FOREVER_S 600 /* longer than a machine is busy */

static const char *const segments[] = {
	"--segment-size", "16M", "--idle", "4", NULL};
static struct daemon server;
static tarn_store *store;
static struct tarn_cuda_device gpu;

static void begin(void)
{
	store = daemon_start_open(&server, "d", segments);
}

static void find(void)
{
	must(tarn_cuda_device("0", &gpu));
}

static void end(void)
{
	store = tarn_store_unref(store);
	check(count_registrations() == 0,
		"%llu registrations are left of a closed store",
		(unsigned long long)count_registrations());
	daemon_stop(&server);
}

static tarn_tensor *create(int64_t size, unsigned flags)
{
	tarn_tensor *t;

	must(tarn_store_create(store, TARN_U8, 1, &size, flags, &t));
	return t;
}

static void publish(const char *name, tarn_tensor *t)
{
	struct tarn_publish_item item = {.name = name, .tensor = t};

	must(tarn_store_publish(store, &item, 1, NULL, NULL));
}

static tarn_tensor *published(const char *name, int64_t size)
{
	tarn_tensor *t = create(size, 0);

	memset(tarn_tensor_data(t), 7, (size_t)size);
	publish(name, t);
	tarn_tensor_unref(t);
	must(tarn_store_lookup(store, name, &t));
	return t;
}

/* It has an address, which is that of its data, moved as the stand-in does; and
 * asking again calls no driver. */
static void readable(tarn_tensor *t, const char *what)
{
	uint64_t at = 0, again = 0, calls, wanted;
	int r = tarn_tensor_device_pointer(t, &gpu, &at);

	wanted = (uintptr_t)tarn_tensor_data(t) + FAKECUDA_OFFSET(0);
	check(r == 0 && at == wanted, "%s: %d, %#llx, wanted %#llx, %s", what,
		r, (unsigned long long)at, (unsigned long long)wanted,
		r < 0 ? tarn_error_message() : "");
	calls = count_calls();
	r = tarn_tensor_device_pointer(t, &gpu, &again);
	check(r == 0 && again == at, "%s: once more", what);
	check(count_calls() == calls, "%s: the driver is called again", what);
}

/* ---- kinds of memory ----------------------------------------------------- */

static void pool(void)
{
	tarn_tensor *t, *view;
	uint64_t bytes, none = 1;

	begin();
	t = published("t", SMALL);
	find();
	readable(t, "a tensor of the pool");
	bytes = count_bytes();
	check(bytes >= 16 * MIB, "its whole segment is registered: %llu",
		(unsigned long long)bytes);
	must(tarn_tensor_eval(t, "[100::3]", &view));
	readable(view, "a view");
	tarn_tensor_unref(view);
	must(tarn_tensor_eval(t, ".flip(0)", &view));
	readable(view, "a view that begins at the end");
	tarn_tensor_unref(view);
	must(tarn_tensor_eval(t, "[0:0]", &view));
	check(tarn_tensor_device_pointer(view, &gpu, &none) == 0 && none == 0,
		"a tensor without elements has the address 0");
	tarn_tensor_unref(view);
	check(count_bytes() == bytes, "nothing more is registered");
	tarn_tensor_unref(t);
	end();
}

static void own(void)
{
	tarn_tensor *t;

	begin();
	t = published("t", LARGE);
	find();
	readable(t, "a tensor with memory of its own");
	check(count_bytes() == LARGE, "it alone is registered");
	tarn_cuda_unregister(store);
	check(count_bytes() == LARGE, "its memory is not the pool's");
	tarn_tensor_unref(t);
	check(count_registrations() == 0, "it ends with the tensor");
	end();
}

static void created(void)
{
	tarn_tensor *t;

	begin();
	t = create(LARGE, 0);
	find();
	readable(t, "a tensor that is being filled");
	publish("t", t);
	check(count_registrations() == 0, "publishing ends the registration");
	readable(t, "the same when it is published");
	tarn_tensor_unref(t);
	t = create(LARGE, 0);
	readable(t, "one that is never published");
	tarn_tensor_unref(t);
	check(count_registrations() == 0, "it ends with the tensor");
	end();
}

static void mutable(void)
{
	tarn_tensor *t;

	begin();
	t = create(SMALL, TARN_CREATE_MUTABLE);
	find();
	readable(t, "a mutable tensor");
	publish("t", t);
	check(count_registrations() == 1, "publishing it changes nothing");
	readable(t, "a mutable tensor under its name");
	tarn_tensor_unref(t);
	end();
}

/* A device that registers no read-only memory reads mutable tensors. */
static void mutable_only(void)
{
	tarn_tensor *t, *m;
	uint64_t at;

	begin();
	t = published("t", SMALL);
	m = create(SMALL, TARN_CREATE_MUTABLE);
	find();
	check_failed(-ENOTSUP, "device pointer: Stand-in 0 GPU-abab",
		tarn_tensor_device_pointer(t, &gpu, &at), "read-only");
	check_failed(-ENOTSUP, "register: Stand-in 0",
		tarn_cuda_register(store, &gpu, NULL), "all of it");
	readable(m, "a mutable one");
	tarn_tensor_unref(t);
	tarn_tensor_unref(m);
	end();
}

static void elsewhere(void)
{
	const int64_t size = SMALL;
	tarn_tensor *t;
	uint64_t at;

	begin();
	find();
	must(tarn_tensor_zeros(TARN_U8, 1, &size, &t));
	check_failed(-ENOTSUP, "not a store's",
		tarn_tensor_device_pointer(t, &gpu, &at), "other memory");
	tarn_tensor_unref(t);
	gpu.reserved[1] = 1;
	t = create(LARGE, 0);
	check_failed(-EINVAL, "reserved word 1",
		tarn_tensor_device_pointer(t, &gpu, &at), "a later device");
	gpu = (struct tarn_cuda_device) {.uuid = {1}};
	check_failed(-ENODEV, "GPU-01000000",
		tarn_tensor_device_pointer(t, &gpu, &at), "another device");
	tarn_tensor_unref(t);
	end();
}

/* ---- all of a pool ------------------------------------------------------- */

static int steps;
static uint64_t last_done, last_total;

static int progress(void *arg, uint64_t done, uint64_t total)
{
	check(done >= last_done && done <= total, "%llu of %llu bytes",
		(unsigned long long)done, (unsigned long long)total);
	last_done = done;
	last_total = total;
	return ++steps == *(int *)arg;
}

static void publish_many(void)
{
	char name[32];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		tarn_tensor_unref(published(name, MIB));
	}
}

static void all(void)
{
	int stop_at = 1;
	const struct tarn_cuda_register_options options = {
		.progress = progress, .arg = &stop_at};
	uint64_t bytes, calls;
	tarn_tensor *t;

	begin();
	publish_many();
	find();
	check_failed(-ECANCELED, "cancelled",
		tarn_cuda_register(store, &gpu, &options), "at once");
	check(count_registrations() == 1, "the first segment is registered");
	stop_at = -1;
	must(tarn_cuda_register(store, &gpu, &options));
	bytes = count_bytes();
	check(last_done == last_total && bytes == last_total,
		"%llu bytes of %llu", (unsigned long long)bytes,
		(unsigned long long)last_total);
	check(bytes >= MANY * MIB && count_registrations() >= 3,
		"all segments are registered: %llu",
		(unsigned long long)count_registrations());
	must(tarn_store_lookup(store, "many/7", &t));
	calls = count_calls();
	readable(t, "a tensor");
	check(count_calls() == calls, "no tensor needs the driver now");
	tarn_cuda_unregister(store);
	check(count_registrations() == 0, "all are unregistered");
	readable(t, "a tensor after that");
	tarn_tensor_unref(t);
	end();
}

/* The daemon drops a segment in which nothing is left; this process unmaps it at
 * its next look. */
static void dropped(void)
{
	double until = seconds() + PATIENCE;
	uint64_t before;
	char name[32];

	begin();
	publish_many();
	find();
	must(tarn_cuda_register(store, &gpu, NULL));
	before = count_bytes();
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		must(tarn_store_remove(store, name));
	}
	while (count_bytes() == before && seconds() < until) {
		usleep(50000);
		tarn_tensor_unref(published("look", SMALL));
	}
	check(count_bytes() < before, "dropped segments are unregistered: %llu",
		(unsigned long long)before);
	end();
}

/* ---- threads ------------------------------------------------------------- */

#define ROUNDS 200
#define FORKS 25 /* each takes a tenth of a second */

/* Looks tensors up, asks for their addresses, and drops them. */
static void *ask(void *arg)
{
	char name[32];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t at = 0;
		tarn_tensor *t;
		int r;

		snprintf(name, sizeof(name), i % 2 ? "large" : "many/%d",
			i % MANY);
		must(tarn_store_lookup(store, name, &t));
		r = tarn_tensor_device_pointer(t, &gpu, &at);
		/* The other thread may have been faster each time. */
		if (r != -EBUSY ||
			!strstr(tarn_error_message(), "another thread"))
			check(r == 0 && at == (uintptr_t)tarn_tensor_data(t) +
							FAKECUDA_OFFSET(0),
				"%s: %d, %s", name, r, tarn_error_message());
		tarn_tensor_unref(t);
	}
	return arg;
}

static void threads(void)
{
	pthread_t thread[3];

	begin();
	publish_many();
	tarn_tensor_unref(published("large", LARGE));
	find();
	for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
		if (pthread_create(&thread[i], NULL, ask, NULL))
			bail("pthread_create");
	for (int i = 0; i < ROUNDS; i++) {
		must(tarn_cuda_register(store, &gpu, NULL));
		tarn_cuda_unregister(store);
	}
	for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
		pthread_join(thread[i], NULL);
	end();
}

static atomic_bool enough;

static void *register_all(void *arg)
{
	while (!atomic_load(&enough)) {
		must(tarn_cuda_register(store, &gpu, NULL));
		tarn_cuda_unregister(store);
	}
	return arg;
}

/* A fork takes the locks of stores and those of registrations in the order in
 * which other threads do; else both would wait for ever. */
static void forks_meanwhile(void)
{
	pthread_t thread;

	alarm(FOREVER_S);
	begin();
	publish_many();
	find();
	if (pthread_create(&thread, NULL, register_all, NULL))
		bail("pthread_create");
	for (int i = 0; i < FORKS; i++) {
		int status = -1;
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, &status, 0) < 0)
			bail("fork: %m");
	}
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	end();
}

/* ---- forks, and processes without a device ------------------------------- */

static void forks(void)
{
	tarn_tensor *t;
	uint64_t at;
	int status = -1;
	pid_t pid;

	begin();
	t = published("t", LARGE);
	find();
	readable(t, "the parent's");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		check_failed(-ENOTSUP, "does not survive fork()",
			tarn_tensor_device_pointer(t, &gpu, &at), "a child");
		tarn_cuda_unregister(store);
		tarn_tensor_unref(t);
		tarn_store_unref(store);
		exit(check_result());
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("fork: %m");
	check(status == 0, "the child: %#x", status);
	check(count_registrations() == 1, "the parent's is registered");
	readable(t, "the parent's after that");
	tarn_tensor_unref(t);
	end();
}

static void unused(void)
{
	tarn_tensor *t, *m, *copy;
	char path[300];
	tarn_file *file;
	struct tarn_save_item item = {.name = "t"};

	begin();
	t = published("t", LARGE);
	m = create(SMALL, TARN_CREATE_MUTABLE);
	publish("m", m);
	snprintf(path, sizeof(path), "%s/f.safetensors", test_tmpdir());
	item.tensor = t;
	must(tarn_save(path, &item, 1, NULL, NULL));
	must(tarn_file_open(path, &file));
	must(tarn_store_load(store, file, NULL, NULL, &copy));
	tarn_tensor_unref(copy);
	tarn_file_unref(file);
	unlink(path);
	must(tarn_tensor_cow(t, &copy));
	tarn_tensor_unref(copy);
	tarn_tensor_unref(t);
	tarn_tensor_unref(m);
	tarn_cuda_unregister(store);
	check(!driver_is_loaded(), "no driver is loaded");
	find();
	check(driver_is_loaded(), "a call that needs a device loads it");
	end();
}

static const struct case_ cases[] = {
	{"pool", "a tensor of a pool is registered with its segment", pool,
		{"READ_ONLY=1"}},
	{"own", "memory of a tensor's own is registered as long as it is held",
		own, {"READ_ONLY=1"}},
	{"created", "memory that is filled is registered until it is published",
		created, {"READ_ONLY=1"}},
	{"mutable", "mutable tensors need no special device", mutable, {NULL}},
	{"mutable_only", "a device may be able to read these alone",
		mutable_only, {NULL}},
	{"elsewhere", "memory that is not a store's is refused", elsewhere,
		{"READ_ONLY=1"}},
	{"all", "all of a pool is registered, with progress", all,
		{"READ_ONLY=1"}},
	{"dropped", "a segment is unregistered before it is unmapped", dropped,
		{"READ_ONLY=1"}},
	{"threads", "threads register, ask and drop at the same time", threads,
		{"READ_ONLY=1"}},
	{"forks_meanwhile", "a process forks while a thread registers",
		forks_meanwhile, {"READ_ONLY=1"}},
	{"forks", "a child has no device pointers", forks, {"READ_ONLY=1"}},
	{"unused", "a process that needs no device loads no driver", unused,
		{NULL}},
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, cases, (int)ARRAY_SIZE(cases));
}
