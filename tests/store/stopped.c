/* SPDX-License-Identifier: MIT */
/*
 * Time in which a client did not run is not time in which the daemon did not
 * answer: a call that is stopped for longer than it waits, as a whole machine is
 * that is moved to another host, still gets an answer that comes soon afterwards.
 *
 * The daemon's part is played here; the client is a child.
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/store/connection.h"
#include "tests/kit/tap.h"

#define TRIES 10
#define TOO_LONG 1e9 /* s */

static int theirs;
static double took; /* from the end of its stop to the answer, in seconds */

static _Noreturn void client(int fd, int timeout_ms)
{
	struct wire_message reply = {0};
	struct connection c;
	int r = connection_init(&c, fd, "/the/socket", timeout_ms);

	if (r >= 0)
		r = connection_call(
			&c, WIRE_PING, NULL, 0, WIRE_PONG, 0, &reply);
	_exit(r == 0 ? 0 : -r);
}

static pid_t begin(int timeout_ms)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		bail("a socket pair: %m");
	pid = fork();
	if (pid < 0)
		bail("fork: %m");
	if (pid == 0)
		client(pair[0], timeout_ms);
	close(pair[0]);
	theirs = pair[1];
	return pid;
}

/* The error of the client's call. */
static int end(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	close(theirs);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* True: the client waits for its answer, is stopped, and has half of its time. */
static bool stops(pid_t pid, double begun, int timeout_ms)
{
	int status;

	usleep(200000); /* it waits for the answer by now */
	kill(pid, SIGSTOP);
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		return false;
	if ((seconds() - begun) * 2000 < timeout_ms)
		return true;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return false;
}

/* A client that is stopped, and its request; 0: the machine is too busy. */
static pid_t begin_stopped(int timeout_ms, struct wire_message *ret)
{
	for (int i = 0; i < TRIES; i++) {
		double begun = seconds();
		pid_t pid = begin(timeout_ms);

		if (wire_receive(theirs, NULL, ret) != 1)
			bail("no request comes");
		if (stops(pid, begun, timeout_ms))
			return pid;
		wire_message_clear(ret);
		close(theirs);
	}
	return 0;
}

/* The request comes, the client stops for so long, goes on, and is answered: after
 * an answer to a call that it has given up, if that is wanted. */
static int stopped(int timeout_ms, int stopped_ms, int answer_ms, bool other)
{
	struct wire_message m = {0};
	pid_t pid = begin_stopped(timeout_ms, &m);
	double on;

	took = TOO_LONG;
	if (!pid)
		return -1;
	usleep((useconds_t)stopped_ms * 1000);
	on = seconds();
	kill(pid, SIGCONT);
	usleep((useconds_t)answer_ms * 500);
	if (other && wire_send(theirs,
			     WIRE_OUT(WIRE_PONG, m.serial + 1, NULL, 0)) < 0)
		diag("the client is gone");
	usleep((useconds_t)answer_ms * 500);
	if (wire_send(theirs, WIRE_OUT(WIRE_PONG, m.serial, NULL, 0)) < 0)
		diag("the client is gone");
	took = seconds() - on;
	wire_message_clear(&m);
	return end(pid);
}

static void judge(int r, double most, const char *what)
{
	if (took > most)
		skip(1, "the machine is too busy to answer in time");
	else
		is_int(0, r, "%s", what);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	judge(stopped(6000, 8000, 1500, false), 4,
		"a call that was stopped goes on waiting");
	judge(stopped(1000, 2000, 100, false), 0.5,
		"one whose time is over looks once more, for a while");
	judge(stopped(1000, 2000, 200, true), 0.5,
		"what comes first for others does not end that while");
	is_int(ETIMEDOUT, end(begin(1000)), "one that nobody answers gives up");
	return done(4);
}
