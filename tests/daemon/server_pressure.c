/* SPDX-License-Identifier: MIT */
/*
 * The keeper stores the triggers by which a server watches for stalls, and the
 * next server uses them: the kernel takes ten milliseconds to end a trigger,
 * and would take them between two servers.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/psi.h"
#include "daemon/server/server.h"
#include "daemon/server/storage/pressure_relief.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct server server;
static int keeper;
static struct wire_message kept[PSI_TRIGGERS];
static uint32_t n_kept;

static void begin(void)
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

int main(void)
{
	test_first();
	test_next();
	for (uint32_t i = 0; i < n_kept; i++)
		wire_message_clear(&kept[i]);
	return done(6);
}
