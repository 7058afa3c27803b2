/* SPDX-License-Identifier: MIT */
/*
 * The longest messages that a client may send, and other clients. A request of
 * another connection, of the same user or of another one, is answered before a
 * long message that came earlier is read to its end; long messages of several
 * connections take turns; and a sender that hangs up while its message is read
 * leaves nothing behind.
 *
 * Needs root, since only root can be two users.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define OTHER 12345
#define SIZE WIRE_MESSAGE_MAX
#define TRIES 10
#define PATIENCE_S 60.0
#define MANY 8 /* long messages at once: what a socket takes */

static struct daemon server;
static struct witness witness;
static int body; /* a memfd of zeros: a publication of nothing */

/* A connection of the other user's. */
static void open_other(struct raw *raw)
{
	if (seteuid(OTHER) < 0)
		bail("seteuid: %m");
	raw_open(raw, "s");
	if (seteuid(0) < 0)
		bail("seteuid: %m");
}

static void make_body(void)
{
	body = memfd_create("zeros", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (body < 0 || posix_fallocate(body, 0, SIZE) ||
		fcntl(body, F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		bail("a memfd: %m");
}

static void send_long(struct raw *raw)
{
	struct wire_header head = {.magic = WIRE_MAGIC,
		.type = WIRE_PUBLISH,
		.flags = WIRE_LONG,
		.serial = ++raw->serial,
		.size = SIZE};

	if (raw_frame(raw, &head, sizeof(head), &body, 1) < 0)
		bail("a long message: %m");
}

static bool is_answered(const struct raw *raw)
{
	struct pollfd p = {.fd = raw->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* How often of TRIES a request that is sent after the long message is seen to
 * be answered before it; on a busy machine this process may look too late each
 * time, and tries until it does not. */
static int count_overtaken(bool same_user)
{
	double end = seconds() + PATIENCE_S;
	int overtaken = 0;

	for (int i = 0; i < TRIES || (!overtaken && seconds() < end); i++) {
		struct raw slow, quick;

		open_other(&slow);
		if (same_user)
			open_other(&quick);
		else
			raw_open(&quick, "s");
		send_long(&slow);
		raw_send(&quick, WIRE_PING, NULL, 0, NULL, 0);
		if (raw_answer(&quick) != WIRE_PONG)
			bail("no pong");
		overtaken += !is_answered(&slow);
		if (raw_answer(&slow) != WIRE_ERROR)
			bail("a publication of nothing is not refused");
		raw_close(&slow);
		raw_close(&quick);
	}
	return overtaken;
}

static void test_order(void)
{
	int other = count_overtaken(false), same = count_overtaken(true);

	diag("of %d requests or more sent after a message of %u MiB, %d of "
	     "another user and %d of the same user were answered before it",
		TRIES, SIZE >> 20, other, same);
	ok(other > 0, "another user's request is answered while a long message "
		      "is read");
	ok(same > 0, "another connection's request is answered while a long "
		     "message is read");
}

/* How many long messages of a connection that sent them earlier are answered
 * when another one's is. */
static int count_before(void)
{
	struct raw many, one;
	int before = 0, n;

	open_other(&many);
	open_other(&one);
	for (int i = 0; i < MANY; i++)
		send_long(&many);
	send_long(&one);
	if (raw_answer(&one) != WIRE_ERROR)
		bail("a publication of nothing is not refused");
	while (before < MANY && is_answered(&many) &&
		raw_answer(&many) == WIRE_ERROR)
		before++;
	for (n = before; n < MANY; n++)
		if (raw_answer(&many) != WIRE_ERROR)
			bail("a publication of nothing is not refused");
	raw_close(&many);
	raw_close(&one);
	return before;
}

/* A connection that has sent many long messages does not keep back another one
 * of its user with one of them. On a busy machine all may be answered when this
 * process looks: then once more. */
static void test_turns(void)
{
	double end = seconds() + PATIENCE_S;
	int before;

	do
		before = count_before();
	while (before == MANY && seconds() < end);
	diag("%d of %d long messages of the other connection came first",
		before, MANY);
	ok(before < MANY,
		"a connection's long message is read before all those "
		"that another connection has sent");
}

static void test_hang_up(void)
{
	for (int i = 0; i < TRIES; i++) {
		struct raw raw;

		open_other(&raw);
		send_long(&raw);
		/* In one of the steps, or before the first. */
		usleep(1000 * (unsigned)i);
		raw_close(&raw);
	}
	witness_is_served(&witness, "after senders of long messages hung up");
}

/* It is not dropped for having waited: its next message is heard. */
static void test_next_message(void)
{
	struct raw raw;

	open_other(&raw);
	send_long(&raw);
	raw_send(&raw, WIRE_PING, NULL, 0, NULL, 0);
	is_int(WIRE_ERROR, raw_answer(&raw), "a long message is refused first");
	diag("it is told: %s", raw.text);
	is_int(WIRE_PONG, raw_answer(&raw),
		"the next message of that connection is answered next");
	raw_close(&raw);
}

int main(void)
{
	const char *const args[] = {"--mode", "0666", NULL};
	struct raw first;

	if (geteuid() != 0)
		skip_all("only root can be two users");
	if (chmod(test_tmpdir(), 0711) < 0 || chdir(test_tmpdir()) < 0)
		bail("%s: %m", test_tmpdir());
	daemon_start(&server, "s", args);
	/* What the server has open for its user is there from now on. */
	open_other(&first);
	witness_begin_beside(&witness, &server, 1);
	make_body();
	test_order();
	test_turns();
	test_next_message();
	test_hang_up();
	fd_close(body);
	witness_end(&witness);
	raw_close(&first);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(15);
}
