/* SPDX-License-Identifier: MIT */
/*
 * A process or its daemon has no free descriptor for a moment, or the daemon
 * does not read for one. That once ended the connection of a living process:
 * its leases went with it, the name that it had open was replaced, its memory
 * was given to others, and the array that it was reading became other data.
 * Now that one call fails with the reason, open tensors stay as they are, and
 * the next call is served.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/store/store.h"
#include "tests/kit/fake_daemon.h"
#include "tests/kit/limit.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum {
	SIZE = 1 << 20, /* four fill a segment */
	MANY = 9000,    /* names whose message is longer than a socket's room */
	PATIENCE_MS = 700, /* with a daemon that does not read */
};

static struct daemon server;
static tarn_store *other; /* publishes */

/* ---- what is open -------------------------------------------------------- */

static int publish(tarn_store *store, const char *name, int64_t size, int byte)
{
	struct tarn_publish_item item = {.name = name};
	int r = tarn_store_create(store, TARN_U8, 1, &size, 0, &item.tensor);

	if (r < 0)
		return r;
	memset(tarn_tensor_data(item.tensor), byte, (size_t)size);
	r = tarn_store_publish(store, &item, 1, NULL, NULL);
	tarn_tensor_unref(item.tensor);
	return r;
}

static void must_publish(const char *name, int64_t size, int byte)
{
	if (publish(other, name, size, byte) < 0)
		bail("%s: %s", name, tarn_error_message());
}

/* New ones, so many that they need new segments. */
static void publish_more(const char *prefix)
{
	char name[64];

	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "%s/%d", prefix, i);
		must_publish(name, SIZE, 100 + i);
	}
}

/* Opens the name that others are about to replace. */
static tarn_tensor *hold(tarn_store *store)
{
	tarn_tensor *t;

	must_publish("held", SIZE, 1);
	must_publish("near", 4096, 2);
	if (tarn_store_lookup(store, "held", &t) < 0)
		bail("held: %s", tarn_error_message());
	return t;
}

/* The name is replaced, and its memory used as soon as it can be; then lets go
 * of it. */
static void stays(tarn_tensor *held, const char *what)
{
	const unsigned char *p = tarn_tensor_data(held);
	int changed = 0;

	for (int i = 0; i < 4; i++) {
		must_publish("held", SIZE, 50 + i);
		usleep(50000);
		publish_more("after");
	}
	for (int i = 0; i < SIZE; i++)
		changed += p[i] != 1;
	is_int(0, changed, "%s: no byte of an open tensor changes", what);
	tarn_tensor_unref(held);
	must(tarn_store_remove(other, "held"));
	must(tarn_store_remove(other, "near"));
}

static int look(tarn_store *store, const char *name, int byte)
{
	tarn_tensor *t = NULL;
	int r = tarn_store_lookup(store, name, &t);

	if (r >= 0)
		is_int(byte, *(const unsigned char *)tarn_tensor_data(t),
			"%s: a tensor has its byte", name);
	tarn_tensor_unref(t);
	return r;
}

static void serves(tarn_store *store, const char *name, int byte)
{
	struct tarn_report_daemon s;

	is_int(0, report_daemon(store, &s), "the next call is served");
	is_int(0, look(store, name, byte), "the next call finds new names");
}

/* ---- descriptors --------------------------------------------------------- */

static void test_client_full(void)
{
	struct rlimit before;
	tarn_store *store;
	tarn_tensor *held;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	held = hold(store);
	publish_more("full");
	before = limit_to(RLIMIT_NOFILE, limit_next_fd());
	is_int(-EMFILE, look(store, "full/7", 107),
		"a new tensor cannot be mapped without a descriptor");
	has_str("ulimit -n", tarn_error_message(),
		"the error contains 'ulimit -n'");
	is_int(0, look(store, "near", 2),
		"a tensor that is already mapped can be opened");
	setrlimit(RLIMIT_NOFILE, &before);
	serves(store, "full/7", 107);
	publish_more("one");
	limit_to(RLIMIT_NOFILE, limit_next_fd() + 1);
	is_int(0, look(store, "one/7", 107),
		"a new tensor is found with one free descriptor");
	setrlimit(RLIMIT_NOFILE, &before);
	stays(held, "a process without descriptors");
	tarn_store_unref(store);
}

static void test_server_full(void)
{
	struct rlimit before, none;
	struct tarn_report_daemon s;
	tarn_store *store;
	tarn_tensor *held;
	pid_t pid;

	if (tarn_store_open(server.socket, NULL, &store) < 0 ||
		report_daemon(store, &s) < 0)
		bail("%s", tarn_error_message());
	held = hold(store);
	publish_more("daemon");
	pid = s.server_pid;
	/* All that it has lie above. */
	if (prlimit(pid, RLIMIT_NOFILE, NULL, &before) < 0)
		bail("prlimit: %m");
	none = (struct rlimit) {4, before.rlim_max};
	prlimit(pid, RLIMIT_NOFILE, &none, NULL);
	is_int(0, look(store, "daemon/7", 107),
		"a daemon without free descriptors can pass on its own");
	is_int(-EMFILE, publish(store, "large", 4 << 20, 9),
		"a daemon that cannot take a descriptor refuses the call");
	has_str("of the daemon", tarn_error_message(),
		"the error names the limit of the daemon");
	prlimit(pid, RLIMIT_NOFILE, &before, NULL);
	serves(store, "daemon/7", 107);
	is_int(0, publish(store, "large", 4 << 20, 9),
		"the daemon publishes a tensor afterwards");
	is_int(0, report_daemon(store, &s),
		"the daemon answers a report afterwards");
	is_int(pid, s.server_pid, "the daemon's server is the same one");
	stays(held, "a daemon without descriptors");
	tarn_store_unref(store);
}

/* ---- a daemon that does not read ----------------------------------------- */

/* A message that is longer than what a socket takes: a memfd. */
static int publish_many(tarn_store *store)
{
	static struct tarn_publish_item items[MANY];
	static char names[MANY][32];
	const int64_t size = 8;
	tarn_tensor *t;
	int r = tarn_store_create(store, TARN_U8, 1, &size, 0, &t);

	if (r < 0)
		return r;
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "many/%d", i);
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = t};
	}
	r = tarn_store_publish(store, items, MANY, NULL, NULL);
	tarn_tensor_unref(t);
	return r;
}

/* The copy of its bytes may take the daemon a moment. */
static bool is_there(tarn_store *store, const char *name)
{
	tarn_tensor *t = NULL;
	int r = -1;

	for (int ms = 0; ms < 60000 && r < 0; ms += 10) {
		r = tarn_store_lookup(store, name, &t);
		if (r < 0)
			usleep(10000);
	}
	tarn_tensor_unref(t);
	return r >= 0;
}

/* Calls whose answers do not come, until the socket takes no more. */
static bool is_told_of_no_reader(tarn_store *store)
{
	struct tarn_report_daemon s;

	for (int i = 0; i < 100; i++) {
		if (report_daemon(store, &s) != -ETIMEDOUT)
			return false;
		if (strstr(tarn_error_message(), "does not read"))
			return true;
	}
	return false;
}

/* Stopped, with a long message and others unread; then it goes on, or another
 * takes its place, which discards what it was not asked itself. */
static void test_stopped(bool killed)
{
	const char *what = killed ? "a server that dies with messages unread"
				  : "a server that stands still";
	const int little = 1; /* the kernel has a least */
	pid_t pid = server_of(&server);
	tarn_store *store;
	tarn_tensor *held;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	held = hold(store);
	kill(pid, SIGSTOP);
	store->connection.timeout_ms = PATIENCE_MS;
	setsockopt(store->connection.fd, SOL_SOCKET, SO_SNDBUF, &little,
		sizeof(little));
	is_int(-ETIMEDOUT, publish_many(store),
		"%s: the call that waits times out", what);
	ok(is_told_of_no_reader(store),
		"other calls of the process fail, too, and say why");
	is_int(0, look(store, "near", 2), "calls that need no answer succeed");
	if (killed)
		server_kill(&server);
	else
		kill(pid, SIGCONT);
	/* It has much to read first, on a machine that has much to do. */
	store->connection.timeout_ms = 60000;
	publish_more("late");
	serves(store, "late/7", 107);
	if (!killed)
		ok(is_there(store, "many/8999"),
			"requests that the daemon had not read are done");
	is_int(0, publish_many(store), "the daemon answers again");
	stays(held, what);
	tarn_store_unref(store);
}

/* ---- a connection that is dead ------------------------------------------- */

static int import(tarn_store *store, tarn_storage **ret)
{
	struct table_storage entry;

	return store_storage(store, FAKE_SMALL, FAKE_GENERATION, &entry, ret);
}

/* Nonsense ends all calls. Its sender may yet look at the leases. */
static void test_dead(void)
{
	struct tarn_report_daemon s;
	struct pollfd end = {.events = POLLIN};
	struct fake fake;
	tarn_storage *storage = NULL, *more = NULL;
	tarn_store *store;
	int fd = fake_start(&fake, FAKE_GOOD);

	if (store_open_fd(fd, "fake", "", 60000, &store) < 0 ||
		import(store, &storage) < 0)
		bail("%s", tarn_error_message());
	is_int(1, lease_count(fake.page), "the client holds one storage");
	wire_send(fake.sock, WIRE_OUT(WIRE_HELLO, 0, "what", 4));
	is_int(-EPROTO, report_daemon(store, &s),
		"a malformed answer is an error");
	is_int(-EPROTO, import(store, &more),
		"the client gets nothing new after a malformed answer");
	has_str("is not expected here", tarn_error_message(),
		"the client gets the reason for the refused request");
	is_int(1, lease_count(fake.page), "the client keeps what it holds");
	end.fd = fake.sock;
	ok(poll(&end, 1, 0) == 0 || !(end.revents & (POLLHUP | POLLRDHUP)),
		"the client's connection stays open");
	tarn_storage_unref(more);
	tarn_storage_unref(storage);
	tarn_store_unref(store);
	fake_stop(&fake);
}

static void *ask_in_thread(void *arg)
{
	struct tarn_report_daemon s;

	return (void *)(intptr_t)report_daemon(arg, &s);
}

/* One thread waits for an answer; another may not send, and not for want of
 * anything. */
static void test_dead_waits(void)
{
	struct fake fake;
	pthread_t thread;
	tarn_store *store;
	int64_t begin;
	void *r;
	int fd = fake_start(&fake, FAKE_REPORT_HANGS);

	if (store_open_fd(fd, "fake", "", 120000, &store) < 0)
		bail("%s", tarn_error_message());
	pthread_create(&thread, NULL, ask_in_thread, store);
	usleep(300000);
	begin = clock_ms();
	connection_broken(&store->connection, -EACCES);
	pthread_join(thread, &r);
	is_int(-EACCES, (intptr_t)r,
		"a waiting call ends when the daemon is dead");
	ok(clock_ms() - begin < 60000,
		"the waiting call ends long before its deadline");
	tarn_store_unref(store);
	fake_stop(&fake);
}

/* The daemon ends the connection of a process that lives, and looks names up
 * without a word to anybody. */
static void test_ended(void)
{
	struct tarn_report_daemon s = {.clients = 2};
	tarn_tensor *held, *t = NULL;
	tarn_store *store;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	held = hold(store);
	is_int(0, look(store, "near", 2),
		"a name is found through the open connection");
	if (send(store->connection.fd, "nonsense", 8, 0) != 8)
		bail("send: %m");
	for (int ms = 0; ms < 60000 && s.clients > 1; ms += 10) {
		usleep(10000);
		report_daemon(other, &s);
	}
	is_int(-ECONNRESET, tarn_store_lookup(store, "near", &t),
		"a name is not found after the daemon ended the connection");
	has_str("open the store anew", tarn_error_message(),
		"the error says what the caller can do");
	is_int(-ECONNRESET, tarn_store_lookup(store, "held", &t),
		"an open tensor is unaffected by the ended connection");
	tarn_tensor_unref(held);
	tarn_store_unref(store);
	must(tarn_store_remove(other, "held"));
	must(tarn_store_remove(other, "near"));
}

/* ---- much to read -------------------------------------------------------- */

static void *publish_in_thread(void *arg)
{
	return (void *)(intptr_t)publish_many(arg);
}

/* The answers to one thread are long, while another asks for descriptors. */
static void test_threads(void)
{
	struct msg_segments ask = {.count = 1};
	struct wire_message reply;
	pthread_t thread;
	tarn_store *store;
	int n = 0, failed = 0;
	void *r = NULL;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	for (int i = 0; i < 10; i++) {
		pthread_create(&thread, NULL, publish_in_thread, store);
		while (pthread_tryjoin_np(thread, &r) == EBUSY) {
			int k = connection_call(&store->connection,
				WIRE_SEGMENTS, &ask, sizeof(ask),
				WIRE_SEGMENT_FDS, sizeof(ask), &reply);

			if (k < 0 && ++failed < 5)
				diag("%s", tarn_error_message());
			if (k >= 0)
				wire_message_clear(&reply);
			n++;
		}
		failed += (intptr_t)r < 0;
	}
	diag("%d times", n);
	is_int(0, failed,
		"threads that need descriptors and other calls succeed");
	tarn_store_unref(store);
}

int main(void)
{
	daemon_start(&server, "sock",
		(const char *const[]) {
			"--segment-size", "4M", "--budget", "192M", NULL});
	if (tarn_store_open(server.socket, NULL, &other) < 0)
		bail("%s", tarn_error_message());
	test_client_full();
	test_server_full();
	test_stopped(false);
	test_stopped(true);
	test_dead();
	test_dead_waits();
	test_ended();
	test_threads();
	tarn_store_unref(other);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(55);
}
