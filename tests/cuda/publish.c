/* SPDX-License-Identifier: MIT */
/*
 * Tensors on devices in a store, with the stand-in for the driver: other
 * processes map the memory, also when its publisher was killed. Memory that
 * other code has allocated is copied within the device, and what was shared in
 * it still is.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define SOCKET "TARN_TEST_SOCKET"

static struct tarn_cuda_device gpu, other;
static struct daemon server;
static tarn_store *store;

/* ---- tensors ------------------------------------------------------------- */

static tarn_tensor *host(int64_t size, unsigned seed)
{
	unsigned char *data;
	tarn_tensor *t;

	must(tarn_tensor_zeros(TARN_U8, 1, &size, &t));
	data = tarn_tensor_data(t);
	for (int64_t i = 0; i < size; i++)
		data[i] = (unsigned char)(seed + i * 7 + i / 251);
	return t;
}

static tarn_tensor *there(int64_t size, unsigned seed)
{
	tarn_tensor *t = host(size, seed), *ret;

	must(tarn_tensor_to_device(t, &gpu, NULL, &ret));
	tarn_tensor_unref(t);
	return ret;
}

static tarn_tensor *view(tarn_tensor *t, const char *expr)
{
	tarn_tensor *ret;

	must(tarn_tensor_eval(t, expr, &ret));
	return ret;
}

/* By a copy, as the bytes of host() from first on. */
static bool has(tarn_tensor *t, unsigned seed, int64_t first)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	int64_t size = l->shape[0];
	tarn_tensor *whole = host(first + size, seed), *wanted, *got;
	bool same;

	must(tarn_tensor_slice(whole, 0, first, first + size, 1, &wanted));
	must(tarn_tensor_zeros(TARN_U8, 1, &size, &got));
	must(tarn_copy(got, t, NULL, NULL));
	same = must(tarn_tensor_equal(got, wanted)) == 1;
	tarn_tensor_unref(got);
	tarn_tensor_unref(wanted);
	tarn_tensor_unref(whole);
	return same;
}

static void put(const char *name, tarn_tensor *t)
{
	must(tarn_store_publish_one(store, name, t, NULL, NULL));
}

static tarn_tensor *found(const char *name)
{
	tarn_tensor *t;

	must(tarn_store_lookup(store, name, &t));
	return t;
}

/* ---- processes ----------------------------------------------------------- */

static void begin(void)
{
	must(tarn_cuda_device("0", &gpu));
	daemon_start(&server, "publish.sock", NULL);
	if (setenv(SOCKET, server.socket, 1) < 0)
		bail("setenv: %m");
	must(tarn_store_open(server.socket, NULL, &store));
}

static void end(void)
{
	tarn_store_unref(store);
	check(daemon_stop(&server) == 0, "the daemon ends");
}

/* This program again, in a case that begin() did not call; its status. */
static int run_other(const char *name)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "case", name, NULL);
		_exit(9);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("%s: %m", name);
	return status;
}

static void join(void)
{
	must(tarn_cuda_device("0", &gpu));
	must(tarn_store_open(getenv(SOCKET), NULL, &store));
}

/* ---- memory of tarn's ---------------------------------------------------- */

static void reader(void)
{
	tarn_tensor *a, *b;

	join();
	a = found("a");
	b = found("b");
	check(has(a, 1, 0), "it has the bytes under the first name");
	check(has(b, 1, 1000), "it is there under the second name");
	check(tarn_tensor_same_storage(a, b), "they are one storage here, too");
	check_failed(-EROFS, "", tarn_copy(a, a, NULL, NULL),
		"what is published is read-only");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_store_unref(store);
}

static void own(void)
{
	tarn_tensor *t, *part;

	begin();
	t = there(3000000, 1);
	part = view(t, "[1000:2000000]");
	put("a", t);
	put("b", part);
	check(run_other("reader") == 0, "another process maps it");
	check(has(t, 1, 0), "the publisher has it still");
	tarn_tensor_unref(part);
	tarn_tensor_unref(t);
	end();
}

/* ---- a publisher that is killed ------------------------------------------ */

static void victim(void)
{
	tarn_tensor *t, *part;

	join();
	t = there(3000000, 1);
	part = view(t, "[1000:2000000]");
	put("a", t);
	put("b", part);
	raise(SIGKILL);
}

static void killed(void)
{
	int status;

	begin();
	status = run_other("victim");
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		"the publisher is killed");
	check(run_other("reader") == 0, "its memory stays, for others");
	must(tarn_store_remove(store, "a"));
	must(tarn_store_remove(store, "b"));
	end();
}

/* ---- memory of other code ------------------------------------------------ */

/* As other code's: the tensor that has it is kept by the loan. */
static void give_back(void *arg)
{
	tarn_tensor_unref(arg);
}

/* Of size bytes on a device, borrowed from first on. */
static tarn_tensor *borrowed(tarn_tensor *owner, int64_t first, int64_t size,
	const struct tarn_cuda_device *device)
{
	struct tarn_layout layout;
	tarn_storage *storage;
	tarn_tensor *ret;
	uint64_t at;

	must(tarn_tensor_device_pointer(owner, device, &at));
	must(tarn_cuda_borrow(device, at + (uint64_t)first, (uint64_t)size,
		TARN_BORROW_WRITABLE, give_back, tarn_tensor_ref(owner),
		&storage));
	must(tarn_layout_contiguous(TARN_U8, 1, &size, &layout));
	must(tarn_tensor_new(storage, 0, &layout, &ret));
	tarn_storage_unref(storage);
	return ret;
}

static void lent_reader(void)
{
	tarn_tensor *a, *b, *c, *d, *e, *f;

	join();
	a = found("a");
	b = found("b");
	c = found("c");
	d = found("d");
	e = found("e");
	f = found("f");
	check(has(a, 1, 10) && has(b, 1, 5010), "two parts of one loan");
	check(has(c, 9, 0), "another loan");
	check(has(d, 1, 2000010), "a part far from the others");
	check(tarn_layout_numel(tarn_tensor_layout(e)) == 0,
		"a tensor of no elements is there");
	check(tarn_tensor_base(b) - tarn_tensor_base(a) == 5000 &&
			tarn_tensor_same_storage(a, b),
		"what parts shared they share in the copy");
	check(has(f, 1, 8010) &&
			tarn_tensor_base(f) - tarn_tensor_base(b) == 3000,
		"two loans of the same memory share it in the copy");
	check(tarn_tensor_same_storage(a, c),
		"all copies of one publication are one storage");
	check(tarn_storage_size(tarn_tensor_storage(a)) < 1000000,
		"only what is reached was copied: %llu bytes",
		(unsigned long long)tarn_storage_size(tarn_tensor_storage(a)));
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_tensor_unref(c);
	tarn_tensor_unref(d);
	tarn_tensor_unref(e);
	tarn_tensor_unref(f);
	tarn_store_unref(store);
}

static void lent(void)
{
	struct tarn_publish_item items[6] = {{.name = "a"}, {.name = "b"},
		{.name = "c"}, {.name = "d"}, {.name = "e"}, {.name = "f"}};
	tarn_tensor *owner, *second, *t, *u, *part[6];

	begin();
	owner = there(3000000, 1);
	second = there(70000, 9);
	t = borrowed(owner, 10, 2999990, &gpu);
	u = borrowed(second, 0, 70000, &gpu);
	part[0] = view(t, "[0:6000]");
	part[1] = view(t, "[5000:9000]");
	part[2] = view(u, "[:]");
	part[3] = view(t, "[2000000:2000300]");
	part[4] = view(t, "[7:7]");
	part[5] = borrowed(owner, 8010, 4000, &gpu); /* from within b */
	for (size_t i = 0; i < 6; i++)
		items[i].tensor = part[i];
	must(tarn_store_publish(store, items, 6, NULL, NULL));
	check(tarn_storage_writable(tarn_tensor_storage(t)),
		"the publisher's own tensors stay what they were");
	check(has(t, 1, 10), "the tensor has its bytes");
	check(run_other("lent_reader") == 0, "another process has the copies");
	for (size_t i = 0; i < 6; i++)
		tarn_tensor_unref(part[i]);
	tarn_tensor_unref(t);
	tarn_tensor_unref(u);
	tarn_tensor_unref(owner);
	tarn_tensor_unref(second);
	end();
}

/* Steps backwards: the lowest byte is not that of index 0. */
static void backwards(void)
{
	tarn_tensor *owner, *t, *back, *again, *forth;

	begin();
	owner = there(100000, 1);
	t = borrowed(owner, 0, 100000, &gpu);
	back = view(t, "[50000:90000].flip(0)");
	put("back", back);
	again = found("back");
	forth = view(again, ".flip(0)");
	check(has(forth, 1, 50000), "a view with negative strides");
	tarn_tensor_unref(forth);
	tarn_tensor_unref(again);
	tarn_tensor_unref(back);
	tarn_tensor_unref(t);
	tarn_tensor_unref(owner);
	end();
}

static void two_devices(void)
{
	struct tarn_publish_item items[2] = {{.name = "a"}, {.name = "b"}};
	tarn_tensor *a, *b, *mine, *yours, *again;
	struct tarn_cuda_device seen;

	begin();
	must(tarn_cuda_device("1", &other));
	a = there(5000, 1);
	must(tarn_tensor_to_device(a, &other, NULL, &b));
	mine = borrowed(a, 0, 5000, &gpu);
	yours = borrowed(b, 0, 5000, &other);
	items[0].tensor = mine;
	items[1].tensor = yours;
	must(tarn_store_publish(store, items, 2, NULL, NULL));
	again = found("b");
	check(tarn_storage_device(tarn_tensor_storage(again), &seen) == 1 &&
			!memcmp(&seen, &other, sizeof(seen)),
		"each copy is on the device of its original");
	check(has(again, 1, 0), "with its bytes");
	tarn_tensor_unref(again);
	tarn_tensor_unref(mine);
	tarn_tensor_unref(yours);
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	end();
}

static void no_room(void)
{
	tarn_tensor *owner, *t, *none;

	begin();
	owner = there(20 << 20, 1);
	t = borrowed(owner, 0, 20 << 20, &gpu);
	check_failed(-ENOMEM,
		"'big': ", tarn_store_publish_one(store, "big", t, NULL, NULL),
		"a copy that the device has no room for");
	check_failed(-ENOENT, "", tarn_store_lookup(store, "big", &none),
		"nothing was published");
	tarn_tensor_unref(t);
	tarn_tensor_unref(owner);
	end();
}

int main(int argc, char **argv)
{
	static const struct case_ cases[] = {
		{"own", "a tensor on a device is mapped by other processes",
			own, {NULL}},
		{"killed", "it stays when its publisher is killed", killed,
			{NULL}},
		{"lent", "memory of other code is copied within the device",
			lent, {NULL}},
		{"backwards", "as it is laid out", backwards, {NULL}},
		{"two_devices", "on each device by itself", two_devices,
			{"DEVICES=2"}},
		{"no_room", "a copy without room for it is an error", no_room,
			{"MEMORY=33554432"}},
		{"reader", NULL, reader, {NULL}},
		{"victim", NULL, victim, {NULL}},
		{"lent_reader", NULL, lent_reader, {NULL}},
	};

	return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
