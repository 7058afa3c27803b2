/* SPDX-License-Identifier: MIT */
/*
 * Memory that takes long to be registered, beside other threads: those that do
 * not need it go on, and those that do wait, so that it is registered once.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { THREADS = 4 };

static const int64_t size = 4 << 20; /* memory of its own */

static struct daemon server;
static tarn_store *store;
static struct tarn_cuda_device gpu;
static int gate; /* of registrations: an eventfd */

static void begin(void)
{
	static const char *const none[] = {NULL};

	store = daemon_start_open(&server, "d", none);
	must(tarn_cuda_device("0", &gpu));
	gate = eventfd(0, EFD_CLOEXEC);
	if (gate < 0)
		bail("eventfd: %m");
}

/* From now on registrations wait. */
static void close_gate(void)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", gate);
	case_set("REGISTER_GATE", text);
}

static void open_gate(void)
{
	if (eventfd_write(gate, 1) < 0)
		bail("eventfd: %m");
}

static void end(void)
{
	store = tarn_store_unref(store);
	daemon_stop(&server);
	close(gate);
}

static tarn_tensor *create(void)
{
	tarn_tensor *t;

	must(tarn_store_create(store, TARN_U8, 1, &size, 0, &t));
	return t;
}

/* ---- threads ------------------------------------------------------------- */

struct asking {
	tarn_tensor *tensor;
	pthread_t thread;
	uint64_t at;
	int r;
	atomic_bool begun, done;
};

static void *ask(void *arg)
{
	struct asking *a = arg;

	atomic_store(&a->begun, true);
	a->r = tarn_tensor_device_pointer(a->tensor, &gpu, &a->at);
	atomic_store(&a->done, true);
	return NULL;
}

/* Until so many registrations wait at the gate. */
static void await_waiting(uint64_t n)
{
	double end = seconds() + 60;

	while (count_waiting() < n && seconds() < end)
		usleep(1000);
	check(count_waiting() == n, "%llu registrations wait at the gate",
		(unsigned long long)n);
}

static void start(struct asking *a, tarn_tensor *tensor)
{
	a->tensor = tensor;
	if (pthread_create(&a->thread, NULL, ask, a))
		bail("no thread");
}

/* For a thread that waits for another's registration, as far as can be told. */
static void await_begun(struct asking *a)
{
	while (!atomic_load(&a->begun))
		usleep(1000);
	usleep(100000);
}

static void join(struct asking *a)
{
	pthread_join(a->thread, NULL);
}

/* ---- cases --------------------------------------------------------------- */

static void copies(void)
{
	struct asking slow = {0};
	tarn_tensor *t, *host, *there, *got;
	uint64_t at;

	begin();
	t = create();
	must(tarn_tensor_full(TARN_U8, 1, &size, 7, &host));
	/* The slots of copies are registered now, and stay. */
	must(tarn_tensor_to_device(host, &gpu, NULL, &there));
	close_gate();
	start(&slow, t);
	await_waiting(1);
	must(tarn_tensor_zeros(TARN_U8, 1, &size, &got));
	must(tarn_copy(got, there, NULL, NULL));
	check(!atomic_load(&slow.done), "a copy waits for no registration");
	check(must(tarn_tensor_equal(got, host)) == 1,
		"the copy has all bytes");
	must(tarn_tensor_device_pointer(there, &gpu, &at));
	check(!atomic_load(&slow.done),
		"an address of other memory waits for none");
	open_gate();
	join(&slow);
	check(slow.r == 0 && slow.at, "it is registered in the end");
	tarn_tensor_unref(got);
	tarn_tensor_unref(there);
	tarn_tensor_unref(host);
	tarn_tensor_unref(t);
	end();
}

static void once(void)
{
	struct asking slow[THREADS] = {0};
	tarn_tensor *t;
	uint64_t before;

	begin();
	t = create();
	before = count_of("REGISTER");
	close_gate();
	for (int i = 0; i < THREADS; i++)
		start(&slow[i], t);
	for (int i = 0; i < THREADS; i++)
		await_begun(&slow[i]);
	await_waiting(1);
	open_gate();
	for (int i = 0; i < THREADS; i++) {
		join(&slow[i]);
		check(slow[i].r == 0 && slow[i].at == slow[0].at,
			"thread %d has the address", i);
	}
	check(count_of("REGISTER") == before + 1, "registered %llu times",
		(unsigned long long)(count_of("REGISTER") - before));
	tarn_tensor_unref(t);
	end();
	check(count_registrations() == 0, "nothing stays registered");
}

/* All are in the driver at one time. */
static void several(void)
{
	struct asking slow[THREADS] = {0};
	tarn_tensor *t[THREADS];

	begin();
	for (int i = 0; i < THREADS; i++)
		t[i] = create();
	close_gate();
	for (int i = 0; i < THREADS; i++)
		start(&slow[i], t[i]);
	await_waiting(THREADS);
	open_gate();
	for (int i = 0; i < THREADS; i++) {
		join(&slow[i]);
		check(slow[i].r == 0, "tensor %d is registered", i);
	}
	for (int i = 0; i < THREADS; i++)
		tarn_tensor_unref(t[i]);
	end();
}

/* What waited for one that failed tries itself. */
static void fails(void)
{
	struct asking slow[2] = {0};
	tarn_tensor *t;
	uint64_t before;

	begin();
	t = create();
	close_gate();
	case_set("REGISTER", "2");
	before = count_of("REGISTER");
	start(&slow[0], t);
	start(&slow[1], t);
	await_begun(&slow[0]);
	await_begun(&slow[1]);
	await_waiting(1);
	open_gate();
	join(&slow[0]);
	join(&slow[1]);
	check(slow[0].r == -ENOMEM && slow[1].r == -ENOMEM,
		"both are told: %d, %d", slow[0].r, slow[1].r);
	check(count_of("REGISTER") == before + 2, "both have tried: %llu times",
		(unsigned long long)(count_of("REGISTER") - before));
	case_set("REGISTER", "0");
	must(tarn_tensor_device_pointer(t, &gpu, &slow[0].at));
	tarn_tensor_unref(t);
	end();
}

/* A child has no driver; the registration goes on in its parent. */
static void forks(void)
{
	struct asking slow = {0};
	tarn_tensor *t;
	int status = -1;
	uint64_t at;
	pid_t pid;

	begin();
	t = create();
	close_gate();
	start(&slow, t);
	await_waiting(1);
	pid = fork();
	if (pid == 0) {
		check_failed(-ENOTSUP, "fork",
			tarn_tensor_device_pointer(t, &gpu, &at),
			"an address in a child");
		tarn_tensor_unref(t);
		_exit(check_result());
	}
	check(!atomic_load(&slow.done), "a fork waits for no registration");
	open_gate();
	check(pid > 0 && waitpid(pid, &status, 0) == pid && !status,
		"the child: %#x", status);
	join(&slow);
	check(slow.r == 0, "it is registered in the parent");
	tarn_tensor_unref(t);
	end();
}

int main(int argc, char **argv)
{
	static const struct case_ cases[] = {
		{"copies", "copies wait for no registration of other memory",
			copies, {NULL}},
		{"once",
			"threads that ask for the same memory register it once",
			once, {NULL}},
		{"several", "threads register several tensors at one time",
			several, {NULL}},
		{"fails", "a registration that fails is tried by who waited",
			fails, {NULL}},
		{"forks", "a fork in the midst of a registration", forks,
			{NULL}},
	};

	return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
