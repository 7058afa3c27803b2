/* SPDX-License-Identifier: MIT */
/*
 * The server is killed while a client publishes without pause: each call
 * succeeds, each raises the version by exactly one, and at the end no byte is
 * taken that should not be.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

/* One fewer than the keeper takes for a server that cannot work. */
#define KILLS 4
#define PAUSE_US 150000
/* Publications, of two messages to the keeper each: more than its socket holds,
 * where net.core.wmem_default is as usual; and the names that they take. */
#define ADOPTED 600
#define NAMES 8

static _Atomic long *published; /* of both processes */
static _Atomic long *enough;    /* of both: publish no more */

/* In a process of its own: kills, and ends. A call under which two servers die
 * ends with an error that says so: each dies under another one. */
static pid_t killer(pid_t keeper)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	for (int i = 0; i < KILLS; i++) {
		long before = atomic_load(published);
		pid_t server;

		/* The first may have been answered by the one that died. */
		while (i > 0 && atomic_load(published) < before + 2)
			usleep(1000);
		/* At another point of what it does each time. */
		usleep(PAUSE_US + (unsigned)i * 1237);
		server = child_named(keeper, "tarn-server");
		if (server > 0)
			kill(server, SIGKILL);
	}
	_exit(0);
}

static int publish_as(tarn_store *store, const char *name, int64_t size, long n,
	uint64_t *ret_version)
{
	struct tarn_publish_item item = {.name = name};
	int r;

	r = tarn_store_create(store, TARN_U8, 1, &size, 0, &item.tensor);
	if (r < 0)
		return r;
	memset(tarn_tensor_data(item.tensor), (int)(n % 251), (size_t)size);
	r = tarn_store_publish(store, &item, 1, NULL, ret_version);
	tarn_tensor_unref(item.tensor);
	return r;
}

/* Small ones travel in the message, then a copy, then what is adopted. */
static int publish(tarn_store *store, long n, uint64_t *ret_version)
{
	static const int64_t sizes[] = {100, 1 << 20, 3 << 20};

	return publish_as(store, "again", sizes[n % 3], n, ret_version);
}

static bool has_bytes(tarn_store *store, const char *name, long n)
{
	tarn_tensor *t = NULL;
	const unsigned char *p;
	uint64_t i, size;

	if (tarn_store_lookup(store, name, &t) < 0)
		return false;
	p = tarn_tensor_data(t);
	size = tarn_storage_size(tarn_tensor_storage(t));
	for (i = 0; i < size && p[i] == n % 251; i++)
		;
	tarn_tensor_unref(t);
	return i == size;
}

static void test_kills(tarn_store *store, pid_t keeper)
{
	struct tarn_report_daemon s = {0};
	uint64_t version = 0;
	pid_t pid = killer(keeper);
	int r = 0, status = 0;
	long n = 0;
	bool right = true;

	while (waitpid(pid, &status, WNOHANG) == 0 && r == 0 && right) {
		r = publish(store, n, &version);
		right = version == (uint64_t)n + 1 &&
			has_bytes(store, "again", n);
		n++;
		atomic_store(published, n);
	}
	if (!is_int(0, r, "each publication during restarts succeeds"))
		diag("%s", tarn_error_message());
	is_int(n, (int64_t)version, "each publication was done once");
	ok(right, "the last publication has its bytes");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	must(tarn_store_remove(store, "again"));
	for (int ms = 0; ms < 60000; ms += 5) {
		if (report_daemon(store, &s) == 0 && s.storages == 0)
			break;
		usleep(5000);
	}
	is_int(0, (int64_t)s.storages, "no storage is left after the restarts");
	is_int(0, (int64_t)s.used, "no byte is left in use");
	diag("%ld publications, %d kills", n, KILLS);
}

/* In a process of its own: publishes until told of an error, or to end. */
static pid_t publisher(const char *path)
{
	tarn_store *store = NULL;
	char name[32];
	pid_t pid = fork();

	if (pid)
		return pid;
	if (tarn_store_open(path, NULL, &store) < 0)
		_exit(1);
	for (long i = 0; i < ADOPTED && !atomic_load(enough); i++) {
		snprintf(name, sizeof(name), "kept/%ld", i % NAMES);
		if (publish_as(store, name, 2 << 20, i, NULL) < 0)
			_exit(1);
		atomic_store(published, i + 1);
	}
	_exit(0);
}

/* The keeper's socket fills up while it is stopped, and the server is killed:
 * nothing that was published may be lost with what the server had queued. */
static void test_keeper_stopped(tarn_store *store, const struct daemon *daemon)
{
	char name[32];
	int status = 0, lost = 0;
	pid_t pid, server;
	long before;

	kill(daemon->pid, SIGHUP); /* earlier deaths do not count */
	atomic_store(published, 0);
	pid = publisher(daemon->socket);
	while (!atomic_load(published) && waitpid(pid, &status, WNOHANG) == 0)
		usleep(1000);
	kill(daemon->pid, SIGSTOP);
	/* How far it comes until then depends on the machine, and does not
	 * matter. */
	do {
		before = atomic_load(published);
		usleep(500000);
	} while (atomic_load(published) != before);
	diag("%ld were published while the keeper was stopped", before);
	atomic_store(enough, 1);
	server = child_named(daemon->pid, "tarn-server");
	if (server > 0)
		kill(server, SIGKILL);
	kill(daemon->pid, SIGCONT);
	waitpid(pid, &status, 0);
	is_int(0, status, "publications continue when the keeper continues");
	before = atomic_load(published);
	for (long i = MAX(before - NAMES, 0l); i < before; i++) {
		snprintf(name, sizeof(name), "kept/%ld", i % NAMES);
		lost += !has_bytes(store, name, i);
	}
	is_int(0, lost, "no publication that was answered is lost");
}

int main(void)
{
	struct daemon daemon;
	tarn_store *store = NULL;

	published = mmap(NULL, 2 * sizeof(*published), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (published == MAP_FAILED)
		bail("mmap: %m");
	enough = published + 1;
	daemon_start(&daemon, "again.sock", NULL);
	if (tarn_store_open(daemon.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	test_kills(store, daemon.pid);
	test_keeper_stopped(store, &daemon);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	return done(8);
}
