/* SPDX-License-Identifier: MIT */
/*
 * A daemon that does not read from a client for a while, since there is no room
 * for its next request, says so every now and then; a call waits as long as it
 * does, and no longer.
 *
 * The daemon's part is played here, by a thread.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/store/connection.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

#define TIMEOUT_MS 1000
#define SIGN_MS 100
#define SIGNS 20 /* for twice as long as a call waits */

static struct raw theirs;
static double last;    /* sign, or the begin of the call */
static double longest; /* from one sign to the next, in seconds */

static void note_sign(void)
{
	double now = seconds();

	if (now - last > longest)
		longest = now - last;
	last = now;
}

/* Then it reads one request, if that is said, and answers. */
static void *hold(void *reads)
{
	struct wire_message m = {0};

	for (int i = 0; i < SIGNS; i++) {
		usleep(SIGN_MS * 1000);
		if (wire_send(theirs.fd, WIRE_OUT(WIRE_PONG, 0, NULL, 0)) < 0)
			bail("no sign can be sent");
		note_sign();
	}
	if (!reads || wire_receive(theirs.fd, NULL, &m) != 1)
		return NULL;
	if (wire_send(theirs.fd, WIRE_OUT(WIRE_PONG, m.serial, NULL, 0)) < 0)
		bail("no answer can be sent");
	note_sign();
	wire_message_clear(&m);
	return NULL;
}

static int call(struct connection *c, bool reads)
{
	struct wire_message reply = {0};
	pthread_t thread;
	int r;

	last = seconds();
	if (pthread_create(&thread, NULL, hold, reads ? c : NULL) != 0)
		bail("no thread");
	r = connection_call(c, WIRE_PING, NULL, 0, WIRE_PONG, 0, &reply);
	if (r >= 0)
		wire_message_clear(&reply);
	pthread_join(thread, NULL);
	return r;
}

/* Until the socket takes no more. */
static void fill(const struct connection *c)
{
	static const char bytes[1024];

	while (send(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void judge(bool passed, const char *what)
{
	if (longest * 1000 >= TIMEOUT_MS)
		skip(1, "the machine is too busy to show signs in time");
	else
		ok(passed, "%s", what);
}

int main(void)
{
	struct connection c;
	double start;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		bail("a socket pair: %m");
	theirs.fd = pair[1];
	is_int(0, connection_init(&c, pair[0], "/the/socket", TIMEOUT_MS),
		"a connection is set up");
	judge(call(&c, true) == 0, "a call waits as long as there are signs");
	start = seconds();
	is_int(-ETIMEDOUT, call(&c, false),
		"a call gives up when there are no more signs");
	judge(seconds() - start >= SIGNS * SIGN_MS / 1000.0,
		"it waited as long as there were signs");
	fill(&c);
	start = seconds();
	is_int(-ETIMEDOUT, call(&c, false),
		"a call that cannot be sent gives up in the end");
	judge(seconds() - start >= SIGNS * SIGN_MS / 1000.0,
		"a call that cannot be sent waits, too");
	connection_done(&c);
	close(pair[1]);
	return done(6);
}
