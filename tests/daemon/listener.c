/* SPDX-License-Identifier: MIT */
/*
 * A client that has connected and was not accepted yet waits in the listening
 * socket, with all that it has sent. When the listener gets another listening
 * socket, or is closed, the old one is closed, and what waits in it with it: a
 * client may have sent a socket that lingers. So the listener leaves that
 * close() to the function that it was given for it, and never waits itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "daemon/keeper/listener.h"
#include "tests/kit/linger.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PATIENCE_S 60

static char path[300];
static volatile sig_atomic_t alarmed;
static int taken = -1; /* a listening socket that is to be closed */

/* Ends the wait of a close(): this test fails and goes on. */
static void on_alarm(int number)
{
	alarmed = number;
}

static void take(void *arg, int fd)
{
	*(int *)arg = fd;
}

static struct listener *opened_listener(void)
{
	struct listener *listener = NULL;

	if (listener_open(path, 0600, -1, &listener) != 0)
		bail("the listener cannot be opened: %s", tarn_fail_message());
	listener_set_close(listener, take, &taken);
	return listener;
}

/* Connects, and sends a socket that lingers, of which this process keeps no
 * descriptor. */
static void wait_at_listener(struct raw *raw)
{
	int fd = lingering();

	raw_connect(raw, path);
	if (raw_frame(raw, "more", 4, &fd, 1) < 0)
		bail("a socket that lingers cannot be sent: %m");
	close(fd);
}

static bool is_listening(int fd)
{
	int yes = 0;
	socklen_t size = sizeof(yes);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 &&
	       yes;
}

/* The listener has handed over its old socket, and who waited is told. */
static void is_handed_over(struct raw *waiting, const char *what)
{
	alarm(0);
	ok(!alarmed, "the process does not wait in close() when %s", what);
	ok(taken >= 0 && is_listening(taken),
		"the old listening socket is handed over when %s", what);
	let_go();
	close(taken);
	taken = -1;
	ok(raw_is_closed(waiting),
		"a client that waited sees its connection end when %s", what);
	raw_close(waiting);
}

static void accepts(struct listener *listener, const char *what)
{
	struct raw raw;
	int fd;

	raw_connect(&raw, path);
	fd = accept(listener_fd(listener), NULL, NULL);
	ok(fd >= 0, "a new client is accepted after %s", what);
	close(fd);
	raw_close(&raw);
}

static void test_restored(void)
{
	struct listener *listener = opened_listener();
	struct raw waiting;

	wait_at_listener(&waiting);
	unlink(path);
	ok(listener_is_lost(listener),
		"the listener sees that its socket was removed");
	alarm(PATIENCE_S);
	is_int(0, listener_restore(listener), "the listener is restored");
	is_handed_over(&waiting, "the listener is restored");
	accepts(listener, "the listener was restored");
	listener_set_close(listener, NULL, NULL);
	listener_close(listener);
}

static void test_reopened(void)
{
	struct listener *listener = opened_listener();
	struct raw waiting;

	wait_at_listener(&waiting);
	listener_unbind(listener);
	is_int(-1, access(path, F_OK),
		"a listener that is unbound has no socket");
	alarm(PATIENCE_S);
	is_int(0, listener_rebind(listener), "the listener is opened again");
	is_handed_over(&waiting, "the listener is opened again");
	accepts(listener, "the listener was opened again");
	listener_set_close(listener, NULL, NULL);
	listener_close(listener);
}

static void test_closed(void)
{
	struct listener *listener = opened_listener();
	struct raw waiting;

	wait_at_listener(&waiting);
	alarm(PATIENCE_S);
	listener_close(listener);
	is_handed_over(&waiting, "the listener is closed");
	is_int(-1, access(path, F_OK),
		"closing the listener removes the socket");
}

int main(void)
{
	const struct sigaction action = {.sa_handler = on_alarm};
	int fd = lingering();

	if (fd < 0)
		skip_all("no TCP on the loopback interface: %m");
	let_go();
	close(fd);
	sigaction(SIGALRM, &action, NULL);
	snprintf(path, sizeof(path), "%s/listener", test_tmpdir());
	test_restored();
	test_reopened();
	test_closed();
	remove_files();
	return done(16);
}
