/* SPDX-License-Identifier: MIT */
/*
 * Clients give the daemon TCP sockets that linger: the last close() of one
 * blocks until its peer has read, which the peer here never does. No process
 * that others wait for may make that close, whether the socket lies unread in
 * the queue of a client's connection, or is one of too many in a message, or
 * lies in the queue of another socket that a client sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/linger.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PATIENCE_MS 60000 /* what hangs does so for an hour */
#define LIMIT 64u /* descriptors of a daemon that serves an eighth as many */
#define KERNEL_MAX 253 /* descriptors in one message: SCM_MAX_FD */

static struct daemon server;

/* ---- what is sent ------------------------------------------------------- */

/* Where none is wanted: the server closes it, behind what it closed before. */
static void send_unwanted(struct raw *raw, int fd)
{
	raw_send(raw, WIRE_PING, NULL, 0, &fd, 1);
}

static void await_pong(struct raw *raw)
{
	if (raw_receive(raw, PATIENCE_MS) != WIRE_PONG)
		bail("no status");
}

/* ---- who is served ------------------------------------------------------- */

static bool is_welcome(void)
{
	const struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	struct raw raw;
	bool yes;

	raw_connect(&raw, server.socket);
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	yes = raw_receive(&raw, PATIENCE_MS) == WIRE_WELCOME;
	raw_close(&raw);
	return yes;
}

/* Twice: the keeper, too, must have got past the end of somebody. */
static void serves(const char *what)
{
	ok(is_welcome() && is_welcome(), "another client is served while %s",
		what);
}

/* ---- the attacks --------------------------------------------------------- */

/* A connection that the server is about to close, in whose socket a descriptor
 * lies that lingers: it must be there before the first message is refused. */
static struct raw leave_unread(void)
{
	pid_t pid = server_of(&server);
	struct raw raw;
	int fd = lingering();

	kill(pid, SIGSTOP);
	raw_connect(&raw, server.socket);
	raw_frame(&raw, "garbage that is no frame", 24, NULL, 0);
	raw_frame(&raw, "more", 4, &fd, 1);
	close(fd);
	kill(pid, SIGCONT);
	return raw;
}

static void test_unread(void)
{
	struct raw raw = leave_unread();

	raw_close(&raw);
	serves("a socket that lingers lies unread in a closed connection");
	let_go();
}

static void test_too_many(void)
{
	int fds[KERNEL_MAX];
	struct raw raw;
	int fd = lingering();

	raw_open(&raw, server.socket);
	for (int i = 0; i < KERNEL_MAX; i++)
		fds[i] = i < KERNEL_MAX - 1 ? raw.table : fd;
	raw_frame(&raw, "many", 4, fds, KERNEL_MAX);
	close(fd);
	serves("the last of 253 descriptors in a message lingers");
	raw_close(&raw);
	let_go();
}

/* The server that is killed had a socket in whose queue another one lingers,
 * and then a pipe, of another connection. */
static void test_nested(void)
{
	struct raw enemy, victim, outer;
	struct pollfd end;
	int fd = lingering(), pair[2], ends[2];
	pid_t pid = server_of(&server);

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
		pipe2(ends, O_CLOEXEC) < 0)
		bail("a pair or a pipe: %m");
	raw_open(&enemy, server.socket);
	raw_open(&victim, server.socket);
	outer.fd = pair[0];
	raw_frame(&outer, "in", 2, &fd, 1);
	/* The last close of it is the server's. */
	kill(pid, SIGSTOP);
	send_unwanted(&enemy, pair[1]);
	close(fd);
	close(pair[0]);
	close(pair[1]);
	kill(pid, SIGCONT);
	await_pong(&enemy);
	send_unwanted(&victim, ends[1]);
	await_pong(&victim);
	close(ends[1]);
	serves("a socket that was sent has one in its queue that lingers");
	kill(server_of(&server), SIGKILL);
	end = (struct pollfd) {.fd = ends[0]};
	ok(poll(&end, 1, PATIENCE_MS) == 1 && end.revents & POLLHUP,
		"a dead server keeps no pipe of another client open");
	close(ends[0]);
	serves("the closers of a dead server hang");
	raw_close(&enemy);
	raw_close(&victim);
	let_go();
}

/* With as much in the keeper's way as one attack puts there. */
static void test_end(void)
{
	struct raw raw = leave_unread();

	raw_is_closed(&raw);
	raw_close(&raw);
	is_int(0, daemon_stop(&server), "SIGTERM ends the daemon in order");
	let_go();
}

/* The client is let in when the server knows that the one that saw the daemon
 * start has ended. */
static void come(struct raw *raw)
{
	const struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	double end = seconds() + PATIENCE_MS / 1000.0;

	for (;;) {
		raw_connect(raw, server.socket);
		raw_send(raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
		if (raw_receive(raw, PATIENCE_MS) == WIRE_WELCOME)
			return;
		raw_close(raw);
		if (seconds() > end)
			bail("one of so many is not let in: %s", raw->text);
	}
}

/* The keeper refuses by itself the client that is one too many. */
static void test_turned_away(void)
{
	struct raw most[LIMIT / 8], raw;
	double end;
	bool served;
	int fd;

	daemon_limit_descriptors(LIMIT);
	daemon_start(&server, "few", (const char *const[]) {NULL});
	for (unsigned i = 0; i < LIMIT / 8; i++)
		come(&most[i]);
	fd = lingering();
	kill(server.pid, SIGSTOP);
	raw_connect(&raw, server.socket);
	raw_frame(&raw, "more", 4, &fd, 1);
	close(fd);
	kill(server.pid, SIGCONT);
	ok(raw_is_closed(&raw), "a client that is one too many is refused");
	raw_close(&raw);
	for (unsigned i = 0; i < LIMIT / 8; i++)
		raw_close(&most[i]);
	/* The others' ends may not have been heard of yet. */
	end = seconds() + PATIENCE_MS / 1000.0;
	do
		served = is_welcome();
	while (!served && seconds() < end);
	ok(served, "another client is served after that one was refused");
	is_int(0, daemon_stop(&server), "SIGTERM ends that daemon in order");
	let_go();
}

/*
 * The server can have no more than a quarter of what one message brings, and
 * the kernel closes the others in the server itself. Another client's request
 * comes right behind that message, and nothing after it: what comes later would
 * wake the server.
 */
static void test_few_free(const char *io)
{
	static const char what[] =
		"the server has too few descriptors for a message whose last "
		"one lingers";
	struct raw enemy, victim;
	int fds[KERNEL_MAX], fd = lingering();
	pid_t pid;

	if (io)
		setenv("TARN_ENGINE", io, 1);
	daemon_limit_descriptors(LIMIT);
	daemon_start(&server, io ? io : "any", (const char *const[]) {NULL});
	raw_open(&enemy, server.socket);
	raw_open(&victim, server.socket);
	for (int i = 0; i < KERNEL_MAX; i++)
		fds[i] = i < KERNEL_MAX - 1 ? enemy.table : fd;
	pid = server_of(&server);
	kill(pid, SIGSTOP);
	raw_frame(&enemy, "many", 4, fds, KERNEL_MAX);
	raw_send(&victim, WIRE_PING, NULL, 0, NULL, 0);
	close(fd);
	kill(pid, SIGCONT);
	is_int(WIRE_PONG, raw_receive(&victim, PATIENCE_MS),
		"a client whose request came with the socket is answered "
		"while %s (TARN_ENGINE=%s)",
		what, io ? io : "");
	serves(what);
	raw_close(&enemy);
	raw_close(&victim);
	is_int(0, daemon_stop(&server), "SIGTERM ends that daemon in order");
	let_go();
	unsetenv("TARN_ENGINE");
}

int main(void)
{
	int fd = lingering();

	if (fd < 0)
		skip_all("no TCP on the loopback interface: %m");
	let_go();
	close(fd);
	daemon_start(&server, "s", (const char *const[]) {NULL});
	test_unread();
	test_too_many();
	test_nested();
	test_end();
	test_turned_away();
	test_few_free(NULL);
	test_few_free("threads");
	return done(15);
}
