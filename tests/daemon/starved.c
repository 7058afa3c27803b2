/* SPDX-License-Identifier: MIT */
/*
 * A client that has hung up, or sends no more, while the server has no memory
 * to receive its messages or to send its answers: the server tries again after
 * a while, each time after twice as long, and not without end, though the socket
 * tells of the hang-up all the time. When there is memory, the client is heard,
 * answered, and dropped. So it is with a client that has done nothing else than
 * to send, but it is not dropped.
 *
 * The kernel's part is played here, in place of libc's recvmsg and sendmsg.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "daemon/server/server.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/wire_server.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "starved";

/* At least 10 ms lie between the first two tries, and twice as long between the
 * next: 6 tries, and as many as an answer in between may cause. */
#define TIME_NS 500000000ull
#define TRIES_MAX 8

static int starved = -1; /* the server's socket to a client */
static bool deny_receive, deny_send;
static int tries;

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	if (fd == starved && deny_receive) {
		tries++;
		errno = ENOBUFS;
		return -1;
	}
	return syscall(SYS_recvmsg, fd, message, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (fd == starved && deny_send) {
		tries++;
		errno = ENOBUFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

static void time_is_over(void *arg)
{
	loop_quit(server.loop);
}

static void run_for(uint64_t ns)
{
	struct deadline end = {0};

	deadline_call(loop_deadlines(server.loop), &end, loop_now() + ns,
		time_is_over, NULL);
	if (loop_run(server.loop) < 0)
		bail("the loop: %s", tarn_fail_message());
}

static struct client *client_of(uint64_t number)
{
	for (struct domain *domain = server.domains; domain;
		domain = domain->next)
		for (struct client *c = domain->clients; c; c = c->next)
			if (c->number == number)
				return c;
	return NULL;
}

static void send_ping(struct peer *peer)
{
	const struct wire_header head = {WIRE_MAGIC, WIRE_PING, 0, 7, 0};

	peer_send(peer, &head, sizeof(head), NULL, 0);
}

static bool is_answered(struct peer *peer)
{
	struct wire_message m = {0};
	bool answered = false;

	while (!answered && wire_receive(peer->sock, NULL, &m) == 1) {
		answered = m.type == WIRE_PONG && m.serial == 7;
		wire_message_clear(&m);
	}
	return answered;
}

static void test(int how, bool receiving, const char *what)
{
	struct peer *peer = &peers[0];

	server_begin();
	server_settle();
	starved = client_of(1)->sock;
	deny_receive = receiving;
	deny_send = !receiving;
	tries = 0;
	send_ping(peer);
	if (!receiving)
		run_for(1000000);
	if (how >= 0)
		shutdown(peer->sock, how);
	run_for(TIME_NS);
	ok(tries > 0 && tries <= TRIES_MAX,
		"%s: the server tries again a few times", what);
	diag("%s: %d tries", what, tries);
	ok(client_of(1), "%s: the client is not dropped", what);
	deny_receive = deny_send = false;
	for (int i = 0; i < 600 && client_of(1); i++) {
		run_for(100000000);
		if (how < 0 && is_answered(peer))
			break;
	}
	if (how < 0)
		ok(client_of(1), "%s: it is answered when there is memory",
			what);
	else
		ok(!client_of(1),
			"%s: the client is dropped when there is memory", what);
	starved = -1;
	if (how == SHUT_WR)
		ok(is_answered(peer),
			"%s: the client's request is answered before that",
			what);
	server_end();
}

int main(void)
{
	test(SHUT_WR, true, "half closed, no memory to receive");
	test(SHUT_RDWR, true, "closed, no memory to receive");
	test(SHUT_WR, false, "half closed, no memory to send");
	test(-1, true, "open, no memory to receive");
	test(-1, false, "open, no memory to send");
	return done(17);
}
