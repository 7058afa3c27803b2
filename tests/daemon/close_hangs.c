/* SPDX-License-Identifier: MIT */
/*
 * Processes of the daemon end while the file system of a client's file does
 * not answer when the file is closed. The kernel lets no process die that
 * waits for that answer, so no process that others wait for may wait for it: a
 * killed server is replaced, an upgrade succeeds, a killed loader gives its
 * memory back, and the daemon ends when asked to.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/report.h>

#include "tests/kit/fuse_hang.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PATIENCE_S 60.0

static struct daemon server;
static struct witness witness;
static pid_t wedgers[8];
static int n_wedgers;

/* As the body of a message, which it cannot be. */
static void send_as_body(struct raw *raw, int fd)
{
	struct wire_header head = {.magic = WIRE_MAGIC,
		.type = WIRE_LOAD,
		.flags = WIRE_LONG,
		.serial = 1000,
		.size = 100};

	raw_frame(raw, &head, sizeof(head), &fd, 1);
}

/* What a client does with a file that does not let itself be closed: */
enum deed {
	UNWANTED, /* sends it with messages that want none, and as a body */
	LOADED,   /* has it loaded, which succeeds */
};

static void do_it(enum deed deed, struct raw *raw, struct raw *body, int fd)
{
	struct order order = {0};
	int fds[3] = {fd, fd, fd};

	if (deed == UNWANTED) {
		send_as_body(body, fd);
		raw_send(raw, WIRE_PING, NULL, 0, fds, 3);
		return;
	}
	order_range(&order, 0, hang_size(HANG_FLUSH), 0);
	if (order_load(&order, raw, fd, -1) != WIRE_LOADED)
		bail("the file is not loaded: %s", raw->text);
}

/* The file is closed before the client is answered, or after. */
static void await_answer(int done)
{
	struct pollfd p = {.fd = done, .events = POLLIN};
	char byte;

	if (poll(&p, 1, RAW_PATIENCE_MS) != 1 || read(done, &byte, 1) != 1)
		bail("a client is not answered");
}

/* A process of its own, since it must be killed, and then hangs too. */
static void wedge(enum deed deed)
{
	unsigned caught = hang_caught();
	struct raw raw, body;
	int fd, done[2];
	pid_t pid;

	if (pipe2(done, O_CLOEXEC) < 0)
		bail("a pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		fd = opened(hang_path(HANG_FLUSH));
		raw_open(&raw, server.socket);
		raw_open(&body, server.socket);
		hang_arm();
		do_it(deed, &raw, &body, fd);
		if (write(done[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	wedgers[n_wedgers++] = pid;
	close(done[1]);
	ok(hang_has_caught(caught + 1),
		deed == LOADED ? "a loader closes a file that hangs"
			       : "the server closes a file that hangs");
	await_answer(done[0]);
	close(done[0]);
}

static void serves(const char *what)
{
	struct raw raw;

	raw_open(&raw, server.socket);
	raw_close(&raw);
	ok(true, "a new client is let in: %s", what);
	witness_is_served(&witness, what);
	witness_can_load(&witness, what);
}

/* ---- processes that end -------------------------------------------------- */

/* Killed by a signal, and reaped by its parent. */
static bool is_reaped(pid_t pid)
{
	double end = seconds() + PATIENCE_S;

	while (kill(pid, 0) == 0 && seconds() < end)
		usleep(10000);
	return kill(pid, 0) < 0;
}

static void test_kill_server(void)
{
	pid_t pid = server_of(&server);

	wedge(UNWANTED);
	kill(pid, SIGKILL);
	ok(is_reaped(pid), "a server that is killed ends at once");
	serves("the server was killed");
}

static uint32_t upgrades(void)
{
	struct tarn_report *r;
	uint32_t n;

	if (tarn_store_report(witness.store, &r) < 0)
		return 0;
	n = r->daemon.upgrades;
	tarn_report_free(r);
	return n;
}

static bool upgrades_become(uint32_t wanted)
{
	double end = seconds() + PATIENCE_S;

	while (upgrades() != wanted && seconds() < end)
		usleep(20000);
	return upgrades() == wanted;
}

static void test_upgrade(void)
{
	wedge(UNWANTED);
	kill(server.pid, SIGUSR2);
	ok(upgrades_become(1), "the daemon is upgraded");
	serves("the daemon was upgraded");
}

/* The loaders of a dead server go with it, and so does a loader that dies: the
 * last sign of each is the end of its pipe, which the server waits for. */
static bool loaders_become(uint32_t most)
{
	double end = seconds() + PATIENCE_S;

	while (witness_status(&witness).loaders > most && seconds() < end)
		usleep(20000);
	return witness_status(&witness).loaders <= most;
}

/* The server knows of no more loaders than live. It may begin another at any
 * time: on a busy machine for a load that was silent for long. */
static bool loaders_become_those_alive(void)
{
	double end = seconds() + PATIENCE_S;
	unsigned alive, known;
	pid_t newest;

	do {
		usleep(20000);
		known = witness_status(&witness).loaders;
		alive = children_named(server.pid, "tarn-loader", &newest);
	} while (known > alive && seconds() < end);
	return known <= alive;
}

static pid_t some_loader(void)
{
	pid_t pid = child_named(server.pid, "tarn-loader");

	if (pid <= 0)
		bail("the daemon has no loader");
	return pid;
}

static void test_kill_loader(void)
{
	pid_t pid;

	wedge(LOADED);
	pid = some_loader();
	kill(pid, SIGKILL);
	ok(is_reaped(pid), "a loader that is killed ends at once");
	ok(loaders_become_those_alive(),
		"no memory of a killed loader is left");
	serves("a loader was killed");
	wedge(LOADED);
	pid = some_loader();
	kill(server_of(&server), SIGKILL);
	ok(is_reaped(pid), "the loader of a dead server ends");
	ok(loaders_become(0), "no memory of the dead server's loaders is left");
	serves("a server with loaders was killed");
}

static void test_end(void)
{
	wedge(LOADED);
	wedge(UNWANTED);
	for (int i = 0; i < n_wedgers; i++)
		kill(wedgers[i], SIGKILL);
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends when it is asked to");
}

int main(void)
{
	const char *why = hang_begin();

	if (why) {
		remove_files();
		skip_all("no file system that hangs can be made here: %s", why);
	}
	daemon_start(&server, "s", (const char *const[]) {NULL});
	witness_begin(&witness, &server);
	test_kill_server();
	test_upgrade();
	test_kill_loader();
	test_end();
	hang_end();
	for (int i = 0; i < n_wedgers; i++)
		waitpid(wedgers[i], NULL, 0);
	remove_files();
	return done(25);
}
