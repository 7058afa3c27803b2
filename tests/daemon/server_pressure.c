/* SPDX-License-Identifier: MIT */
/*
 * The keeper stores the triggers by which a server watches for stalls, and the
 * next server uses them: the kernel takes ten milliseconds to end a trigger,
 * and would take them between two servers.
 *
 * A server that begins while the keeper can be sent no descriptor, or while it
 * can open none, had no trigger for the rest of its life. Now it asks again.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/psi.h"
#include "daemon/server/server.h"
#include "daemon/server/storage/pressure_relief.h"
#include "tests/kit/limit.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct server server;
static int keeper;
static struct wire_message kept[PSI_TRIGGERS];
static uint32_t n_kept, n_first;

/* What the kernel refuses. */
static bool sends_no_fds;

ssize_t __real_sendmsg(int sock, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int sock, const struct msghdr *msg, int flags);

ssize_t __wrap_sendmsg(int sock, const struct msghdr *msg, int flags)
{
	if (!sends_no_fds || !msg->msg_controllen)
		return __real_sendmsg(sock, msg, flags);
	errno = ETOOMANYREFS;
	return -1;
}

static void begin_server(void)
{
	int pair[2];

	server = (struct server) {.serving = true};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
		bail("a socket pair: %m");
	server.start.sock = pair[0];
	keeper = pair[1];
	must(loop_new(&server.loop));
	must(wire_writer_new(1 << 20, &server.writer));
	/* As the keeper tells of them: the message that it had. */
	for (uint32_t i = 0; i < n_kept; i++) {
		struct wire_message m = kept[i];

		m.fds[0] = fd_dup(kept[i].fds[0]);
		must(server_restore_fd(&server, &m));
	}
	must(server_rebuild(&server));
}

static void begin(void)
{
	begin_server();
	pressure_relief_begin(&server);
}

static void die(void)
{
	psi_unwatch(server.psi);
	fd_store_free(&server.fd_store);
	wire_writer_free(server.writer);
	loop_free(server.loop);
	fd_close(server.start.sock);
	fd_close(keeper);
}

/* What the keeper hears: how many messages, into m as many as there is room
 * for. */
static uint32_t hear(struct wire_message *m, uint32_t room)
{
	uint32_t n = 0;

	for (;;) {
		struct wire_message one = {0};
		int r = wire_receive(keeper, NULL, &one);

		if (r == -EAGAIN)
			break;
		if (r != 1)
			bail("the keeper hears %d: %s", r, tarn_fail_message());
		if (n < room)
			m[n] = one;
		else
			wire_message_clear(&one);
		n++;
	}
	return n;
}

static void test_first(void)
{
	begin();
	if (!server.psi) {
		die();
		skip_all("the kernel does not let its pressure be watched");
	}
	n_kept = hear(kept, PSI_TRIGGERS);
	diag("%u triggers", n_kept);
	ok(n_kept >= 1 && n_kept <= PSI_TRIGGERS,
		"the first server has triggers kept");
	for (uint32_t i = 0; i < n_kept; i++) {
		is_int(D_STORE_FD, kept[i].type,
			"a trigger is sent to be stored");
		is_int(1, kept[i].n_fds, "a stored trigger has a descriptor");
	}
	die();
}

static void test_next(void)
{
	begin();
	ok(server.psi, "the next one watches");
	/* Our cgroup's trigger may not be to be had; then it is asked for each
	 * time, and nothing comes of it. */
	is_int(0, hear(NULL, 0),
		"the next server uses the stored triggers and asks for none");
	is_int(n_kept, server.fd_store.n,
		"the next server drops no stored trigger");
	die();
}

/* What is next to be done is done early. */
static void pass(void)
{
	struct deadlines *deadlines = loop_deadlines(server.loop);
	uint64_t at = deadlines_next(deadlines);

	if (at != UINT64_MAX)
		deadlines_run(deadlines, at);
}

static void check_watched(const char *what)
{
	struct wire_message m[PSI_TRIGGERS];
	uint32_t n;

	pass();
	n = hear(m, PSI_TRIGGERS);
	is_int(n_first, n, "%s: the triggers are asked for again", what);
	ok(server.psi, "%s: the server watches in the end", what);
	while (n)
		wire_message_clear(&m[--n]);
	pass();
	is_int(0, hear(NULL, 0), "%s: then it asks no more", what);
	die();
}

/* As a first one, which is told of none. */
static void test_refused(void)
{
	n_kept = 0;
	sends_no_fds = true;
	begin();
	pass();
	ok(!server.psi && hear(NULL, 0) == 0,
		"a server that can send no descriptor has no trigger");
	sends_no_fds = false;
	check_watched("refused");
}

static void begin_without_fds(void)
{
	struct rlimit before;

	begin_server();
	before = limit_to(RLIMIT_NOFILE, limit_next_fd());
	pressure_relief_begin(&server);
	setrlimit(RLIMIT_NOFILE, &before);
}

static void test_no_descriptors(void)
{
	begin_without_fds();
	ok(!server.psi && hear(NULL, 0) == 0,
		"a server without descriptors has no trigger");
	check_watched("no descriptors");
}

int main(void)
{
	test_first();
	test_next();
	n_first = n_kept;
	test_refused();
	test_no_descriptors();
	for (uint32_t i = 0; i < n_first; i++)
		wire_message_clear(&kept[i]);
	return done(4 + 2 * (int)n_first + 8);
}
