/* SPDX-License-Identifier: MIT */
/*
 * The server is killed, and no client notices: names, bytes, versions and
 * leases are unchanged, requests are answered, once; and memory without a
 * holder is given back all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "lib/store/store.h"
#include "tests/kit/must.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum { SMALL = 10000, LARGE = 3 << 20 };
/* The keeper pauses anew from 10 ms on after a server that lived for ten
 * seconds (STEADY_NS). */
#define STEADY_S 9.0

static struct daemon daemon_;
static tarn_store *store;
static char log_path[300]; /* the daemon's */

static struct tarn_report_daemon status(void)
{
	struct tarn_report_daemon s = {0};

	if (report_daemon(store, &s) < 0)
		diag("status: %s", tarn_error_message());
	return s;
}

static void load(const char *name, uint32_t seed, uint64_t size)
{
	if (tensor_load(store, tensor_file("file", seed, size), name) < 0)
		bail("load %s: %s", name, tarn_error_message());
}

/* Of a file that somebody writes: without the name only leases hold it. */
static void load_unkept(const char *name, uint32_t seed, uint64_t size)
{
	const char *path = tensor_file("unkept", seed, size);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || tensor_load(store, path, name) < 0)
		bail("load %s: %s", name, tarn_error_message());
	close(fd);
}

static uint64_t version_of(const char *name)
{
	struct tarn_descriptor d;
	uint64_t version = 0;

	table_lookup(&store->table, name, strlen(name), &d, &version);
	return version;
}

/* ---- what was there is there ------------------------------------------- */

static void test_names(void)
{
	struct tarn_report_daemon before, after;
	tarn_tensor *held;
	pid_t pid;

	load("a", 1, SMALL);
	load("b", 2, LARGE);
	if (tarn_store_lookup(store, "b/x", &held) < 0)
		bail("b/x: %s", tarn_error_message());
	before = status();
	pid = server_kill(&daemon_);
	ok(pid != before.server_pid, "another server takes over");
	after = status();
	is_int(pid, after.server_pid,
		"the next server answers on the same connection");
	is_int((int64_t)before.used, (int64_t)after.used,
		"the next server has the same used bytes");
	is_int((int64_t)before.names, (int64_t)after.names,
		"the next server has the same names");
	is_int((int64_t)before.storages, (int64_t)after.storages,
		"the next server has the same storages");
	is_int(1, tensor_check(store, "a/x", 1, SMALL),
		"the next server finds a small tensor");
	is_int(1, tensor_check(store, "b/x", 2, LARGE),
		"the next server finds a large tensor");
	ok(tensor_is(held, 2, LARGE), "a held tensor keeps its bytes");
	load("a", 4, SMALL);
	is_int(2, (int64_t)version_of("a/x"),
		"a version after the restart follows the one before");
	is_int(0, tarn_store_remove(store, "b/x"),
		"a name is removed after the restart");
	server_kill(&daemon_);
	ok(tensor_is(held, 2, LARGE),
		"the holder of the removed name keeps the bytes");
	is_int(1, tensor_check(store, "a/x", 4, SMALL),
		"a name is replaced after the restart");
	is_int(2, (int64_t)version_of("a/x"),
		"the replaced name has version 2");
	load("c", 5, LARGE);
	ok(tensor_is(held, 2, LARGE),
		"no held byte is given to the new tensors");
	tarn_tensor_unref(held);
	must(tarn_store_remove(store, "c/x"));
	must(tarn_store_remove(store, "a/x"));
	is_int(0, (int64_t)status().names, "all names are removed");
}

/* ---- what was asked is answered ----------------------------------------- */

struct asked {
	const char *remove; /* or NULL: status */
	int r;
	char why[300];
};

static void *ask(void *arg)
{
	struct asked *asked = arg;
	struct tarn_report_daemon s;

	asked->r = asked->remove ? tarn_store_remove(store, asked->remove)
				 : report_daemon(store, &s);
	snprintf(
		asked->why, sizeof(asked->why), "%.299s", tarn_error_message());
	return NULL;
}

/* Asked while the server is stopped, or read by it; it is killed then. */
static void test_in_flight(void)
{
	struct asked asked[6] = {
		{.remove = "gone/x"}, {0}, {0}, {.remove = "never"}, {0}, {0}};
	pthread_t threads[6];
	pid_t pid;

	load("gone", 6, SMALL);
	pid = server_of(&daemon_);
	kill(pid, SIGSTOP);
	for (int i = 0; i < 6; i++)
		if (pthread_create(&threads[i], NULL, ask, &asked[i]) != 0)
			bail("no thread");
	usleep(200000);
	kill(pid, SIGKILL);
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	is_int(0, asked[0].r,
		"the next server answers a removal that was under way");
	if (!is_int(0, asked[1].r,
		    "the first of several questions is answered"))
		diag("%s", asked[1].why);
	if (!is_int(0, asked[5].r, "the last of several questions is answered"))
		diag("%s", asked[5].why);
	is_int(0, tensor_check(store, "gone/x", 6, SMALL),
		"the removal was done");
}

static bool receives(struct raw *raw, int type)
{
	int seen = raw_receive(raw, RAW_PATIENCE_MS);

	if (seen != type)
		diag("message %d was heard, not %d", seen, type);
	return seen == type;
}

static void resume(struct raw *raw, uint32_t restarts)
{
	struct msg_restarted m = {.restarts = restarts};

	raw_send(raw, WIRE_RESUME, &m, sizeof(m), NULL, 0);
}

static void send_again(struct raw *raw, uint16_t type, const char *body)
{
	struct {
		struct wire_header head;
		char body[64];
	} frame = {.head = {.magic = WIRE_MAGIC,
			   .type = type,
			   .flags = WIRE_AGAIN,
			   .serial = ++raw->serial,
			   .size = (uint32_t)strlen(body)}};

	memcpy(frame.body, body, strlen(body));
	raw_frame(raw, &frame, sizeof(frame.head) + strlen(body), NULL, 0);
}

/* The protocol, said by hand. */
static void test_resume(void)
{
	uint32_t restarts = 4; /* of this daemon, after the next one */
	struct raw raw;

	raw_open(&raw, daemon_.socket);
	server_kill(&daemon_);
	ok(receives(&raw, WIRE_RESTARTED),
		"the client gets a message about the restart");
	raw_send(&raw, WIRE_PING, NULL, 0, NULL, 0);
	resume(&raw, restarts - 1);
	is_int(-1, raw_receive(&raw, 300),
		"the client gets no answer before it resumes");
	resume(&raw, restarts);
	ok(receives(&raw, WIRE_WELCOME), "the client resumes and is welcome");
	is_int(0, raw.n_fds, "the resumed client gets no new descriptors");
	send_again(&raw, WIRE_REMOVE, "was/there");
	ok(receives(&raw, WIRE_ERROR) && raw.error == ENOENT,
		"a removal without completion is done");
	resume(&raw, restarts);
	ok(raw_is_closed(&raw), "a second end of the resume is refused");
	raw_close(&raw);
}

/* ---- who left meanwhile -------------------------------------------- */

static void test_left(void)
{
	const uint64_t used = 0;
	tarn_tensor *t;
	pid_t pid, server;
	int ready[2];
	char c;

	/* What earlier loads left is held for a second. */
	ok(used_becomes(store, used),
		"no memory is held of the earlier clients");
	load_unkept("left", 8, LARGE);
	if (pipe(ready) < 0)
		bail("pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		tarn_store *mine;

		if (tarn_store_open(daemon_.socket, NULL, &mine) < 0 ||
			tarn_store_lookup(mine, "left/x", &t) < 0 ||
			write(ready[1], "y", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(ready[0], &c, 1) != 1)
		bail("no second client");
	close(ready[0]);
	close(ready[1]);
	must(tarn_store_remove(store, "left/x"));
	ok(status().used > used, "another client holds memory");
	/* It dies while there is no server. */
	server = server_of(&daemon_);
	kill(server, SIGSTOP);
	kill(daemon_.pid, SIGSTOP);
	kill(server, SIGKILL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	kill(daemon_.pid, SIGCONT);
	server_after(&daemon_, server);
	ok(used_becomes(store, used),
		"a client that left while there was no server is noticed");
	is_int(1, status().clients,
		"a client that left while there was no server is dropped");
}

/* ---- a server that keeps dying -------------------------------------- */

static void test_repeated(void)
{
	struct tarn_report_daemon s;
	double since = 0, longest = 0;
	pid_t pid = 0;
	unsigned pauses, first, last;

	load("kept", 9, LARGE);
	pauses = daemon_logged(log_path, " pause ");
	first = daemon_logged(log_path, " ms=10 ");
	last = daemon_logged(log_path, " ms=1000 ");
	kill(daemon_.pid, SIGHUP); /* earlier deaths do not count */
	for (int i = 0; i < 10; i++) {
		pid = server_after(&daemon_, pid);
		kill(pid, SIGKILL);
		longest = i ? MAX(longest, seconds() - since) : 0;
		since = seconds();
	}
	is_int(1, tensor_check(store, "kept/x", 9, LARGE),
		"a tensor can be read while no server runs");
	is_int(0, report_daemon(store, &s),
		"a call after ten deaths in a row is answered");
	if (longest > STEADY_S) {
		skip(3, "the machine is too busy to kill servers in a row");
	} else {
		is_int(9, daemon_logged(log_path, " pause ") - pauses,
			"each death but the first causes a pause");
		is_int(1, daemon_logged(log_path, " ms=10 ") - first,
			"the first pause lasts 10 ms");
		is_int(2, daemon_logged(log_path, " ms=1000 ") - last,
			"the pauses grow to one second and no further");
	}
	is_int(1, tensor_check(store, "kept/x", 9, LARGE),
		"the tensor is unchanged after ten deaths");
	is_int(0, tarn_store_remove(store, "kept/x"),
		"the tensor's name can be removed");
}

int main(void)
{
	const char *const args[] = {"--budget", "256M", "--idle", "1", NULL};

	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	daemon_start(&daemon_, "s", args);
	if (tarn_store_open(daemon_.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	test_names();
	test_in_flight();
	test_resume();
	test_left();
	test_repeated();
	ok(used_becomes(store, 0), "no memory is taken at the end");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	remove_files();
	return done(38);
}
