/* SPDX-License-Identifier: MIT */
/*
 * A daemon answers a call, and ends. Another thread notices the end as it sends
 * something, before the answer was received: the answer counts all the same. A
 * publication that was made would be reported as one that may be lost.
 *
 * The daemon's part is played here.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "lib/store/connection.h"
#include "tests/kit/tap.h"

#define TIMEOUT_MS 60000 /* on a loaded machine */
#define CALLS 3u

static struct connection connection;
static int daemon_end;

static void begin(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
		connection_init(
			&connection, pair[0], "/the/socket", TIMEOUT_MS) < 0)
		bail("a connection: %m");
	daemon_end = pair[1];
}

static void ask(struct call *call)
{
	if (call_begin(&connection, call, WIRE_OUT(WIRE_PING, 0, NULL, 0)) < 0)
		bail("a call: %s", tarn_fail_message());
}

static void answer(const struct call *call)
{
	if (wire_send(daemon_end,
		    WIRE_OUT(WIRE_PONG, call->out.serial, NULL, 0)) < 0)
		bail("an answer: %s", tarn_fail_message());
}

static int receive(struct call *call)
{
	struct wire_message m = {0};
	int r = call_next(&connection, call, TIMEOUT_MS, &m);

	wire_message_clear(&m);
	call_end(&connection, call);
	return r;
}

int main(void)
{
	struct call calls[CALLS];

	begin();
	for (unsigned i = 0; i < CALLS; i++)
		ask(&calls[i]);
	for (unsigned i = 0; i < CALLS - 1; i++)
		answer(&calls[i]);
	close(daemon_end);
	is_int(-ECONNRESET,
		connection_notify(&connection, WIRE_CHANNEL, NULL, 0),
		"a message to a daemon that has ended fails");
	for (unsigned i = 0; i < CALLS - 1; i++)
		is_int(1, receive(&calls[i]),
			"a call that was answered before has its answer");
	is_int(-ECONNRESET, receive(&calls[CALLS - 1]),
		"a call that was not answered fails");
	connection_done(&connection);
	return done(4);
}
