/* SPDX-License-Identifier: MIT */
/*
 * Dropping a tensor never waits. It happens in destructors, under an
 * interpreter's lock, so a stopped server must not hold it up: not while other
 * threads wait to send, and not while the socket is full. The release is not
 * lost: once the server continues, the memory is given back, even if the
 * process that released it sends nothing more. A fork does not wait for a
 * sender either.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "lib/store/store.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

#define HELD 8
#define THREADS 20
#define SIZE 40000 /* goes inside a message: a few fill the socket */
#define QUICK_MS 200
#define WAIT_MS 120000 /* of a call, on a loaded machine */
#define SOON 60.0      /* seconds: sooner than a call that waits */

static struct daemon daemon_;
static tarn_store *store;  /* whose socket is full */
static tarn_store *other;  /* asks what became of it */
static tarn_tensor *bytes; /* what the threads publish */

static uint64_t storages(void)
{
	struct tarn_report_daemon status;

	if (report_daemon(other, &status) < 0)
		bail("status: %s", tarn_error_message());
	return status.storages;
}

static bool storages_become(uint64_t n)
{
	double until = seconds() + 60;

	while (storages() != n && seconds() < until)
		poll(NULL, 0, 5);
	return storages() == n;
}

static tarn_tensor *make(int64_t size)
{
	tarn_tensor *t = NULL;

	if (tarn_store_create(store, TARN_U8, 1, &size, 0, &t) < 0)
		bail("create: %s", tarn_error_message());
	return t;
}

/* Tensors whose last name is gone: only our leases hold them. */
static void hold(tarn_tensor *held[HELD])
{
	char name[16];

	for (int i = 0; i < HELD; i++) {
		tarn_tensor *t = make(SIZE);
		struct tarn_publish_item item = {.name = name, .tensor = t};

		snprintf(name, sizeof(name), "held/%d", i);
		if (tarn_store_publish(store, &item, 1, NULL, NULL) < 0 ||
			tarn_store_lookup(store, name, &held[i]) < 0 ||
			tarn_store_remove(store, name) < 0)
			bail("%s: %s", name, tarn_error_message());
		tarn_tensor_unref(t);
	}
}

static void *publish(void *arg)
{
	struct tarn_publish_item item = {.name = "filler", .tensor = bytes};

	return (void *)(intptr_t)tarn_store_publish(
		store, &item, 1, NULL, NULL);
}

/* The kernel takes nothing more for this socket. */
static bool is_full(void)
{
	int fd = store->connection.fd, queued = 0, room = 0;
	socklen_t size = sizeof(room);

	ioctl(fd, SIOCOUTQ, &queued);
	getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &size);
	return queued >= room;
}

static double drop(tarn_tensor *held[HELD])
{
	double began = seconds();

	for (int i = 0; i < HELD; i++)
		tarn_tensor_unref(held[i]);
	return seconds() - began;
}

static double forks(void)
{
	double began = seconds();
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	began = seconds() - began;
	waitpid(pid, NULL, 0);
	return began;
}

static void begin_all(pthread_t threads[THREADS])
{
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, publish, NULL);
	while (!is_full())
		poll(NULL, 0, 1);
}

static int end_all(pthread_t threads[THREADS])
{
	int failed = 0;

	for (int i = 0; i < THREADS; i++) {
		void *r;

		pthread_join(threads[i], &r);
		failed += (intptr_t)r < 0;
	}
	return failed;
}

/* Twenty threads send to a server that stands still. */
static void test_beside_senders(void)
{
	uint64_t before = storages();
	pid_t server = server_of(&daemon_);
	pthread_t threads[THREADS];
	tarn_tensor *held[HELD];
	double took;

	store->connection.timeout_ms = WAIT_MS;
	hold(held);
	is_int((int64_t)before + HELD, (int64_t)storages(),
		"leases alone hold the storages");
	kill(server, SIGSTOP);
	begin_all(threads);
	took = drop(held);
	ok(took < SOON,
		"dropping %d tensors does not wait for threads that send: "
		"%.0f ms",
		HELD, took * 1000);
	took = forks();
	ok(took < SOON, "a fork does not wait for threads that send: %.0f ms",
		took * 1000);
	kill(server, SIGCONT);
	is_int(0, end_all(threads),
		"every publication succeeds when the server continues");
	ok(storages_become(before + 1), "every dropped storage is given back");
	if (tarn_store_remove(store, "filler") < 0)
		bail("remove: %s", tarn_error_message());
	ok(storages_become(before),
		"the storages that the threads published are free");
}

/* They have given up, and nobody will send anything more. */
static void test_nobody_sends(void)
{
	uint64_t before = storages();
	pid_t server = server_of(&daemon_);
	int timeout_ms = store->connection.timeout_ms;
	pthread_t threads[THREADS];
	tarn_tensor *held[HELD];
	double took;

	hold(held);
	store->connection.timeout_ms = QUICK_MS;
	kill(server, SIGSTOP);
	begin_all(threads);
	is_int(THREADS, end_all(threads),
		"publications to a server that stands still time out");
	ok(is_full(), "the socket to the server is full");
	took = drop(held);
	ok(took < SOON,
		"dropping tensors does not wait for a full socket: %.0f ms",
		took * 1000);
	kill(server, SIGCONT);
	/* What had been sent is done. */
	ok(storages_become(before + 1) || storages() == before,
		"dropped storages are given back without another message");
	store->connection.timeout_ms = timeout_ms;
}

int main(void)
{
	daemon_start(&daemon_, "d", (const char *const[]) {NULL});
	if (tarn_store_open(daemon_.socket, NULL, &store) < 0 ||
		tarn_store_open(daemon_.socket, NULL, &other) < 0)
		bail("open: %s", tarn_error_message());
	bytes = make(SIZE);
	test_beside_senders();
	test_nobody_sends();
	tarn_tensor_unref(bytes);
	tarn_store_unref(store);
	tarn_store_unref(other);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	return done(11);
}
