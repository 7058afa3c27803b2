/* SPDX-License-Identifier: MIT */
/*
 * A server is killed just when it has told the keeper what the next one must
 * know, and has not read everything that the keeper told it. The kernel reports
 * the second before the first: the keeper took that for the end, forgot what the
 * server had said, and with it memory that has a name, and the leases of a
 * client that was welcomed.
 *
 * Or the keeper lacks a descriptor just then: it has some in reserve, which let
 * in what is in front of the messages that free others. Without these, what the
 * server has given waits in the socket for a while. If none comes back, the
 * keeper says what is lost, and takes the messages that bring none.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/keeper/keeper.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/limit.h"
#include "tests/kit/tap.h"

#define NUMBER 7u
#define VERSION 4u
#define MANY 9

static struct keeper keeper;
static const struct msg_fd_key key = {.kind = FD_OF_STORAGE, .a = 3, .b = 5};

/* A client that the server has not yet welcomed. */
static void begin(int *ret_server)
{
	const struct keeper_client client = {
		.socket = -1, .lease_fd = -1, .who = {.number = NUMBER}};
	int pair[2];

	keeper = (struct keeper) {.n_domains = 1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0, pair) < 0 ||
		keeper_client_adopt(&keeper, &client) < 0)
		bail("a keeper: %s", tarn_fail_message());
	keeper.server.sock = pair[0];
	*ret_server = pair[1];
}

static void send_both(int server)
{
	_cleanup_fd_ int fd = memfd_create("of its own", MFD_CLOEXEC);
	const struct msg_client speaks = {
		.number = NUMBER, .version = VERSION, .flags = CLIENT_CHILD};

	if (wire_send(server, WIRE_OUT_FDS(D_STORE_FD, 0, &key, sizeof(key),
				      &fd, 1)) < 0 ||
		wire_send(server, WIRE_OUT(D_CLIENT_SPEAKS, 0, &speaks,
					  sizeof(speaks))) < 0)
		bail("the server's messages: %s", tarn_fail_message());
}

/* It ends with a message that it has not read. */
static void die(int server)
{
	if (wire_send(keeper.server.sock, WIRE_OUT(D_TERMINATE, 0, NULL, 0)) <
		0)
		bail("the keeper's message: %s", tarn_fail_message());
	close(server);
}

static void check(const char *when)
{
	const struct keeper_client *client =
		keeper_client_find(&keeper, NUMBER);

	ok(fd_store_get(&keeper.fd_store, &key) >= 0,
		"%s: the memory that the server gave is kept", when);
	is_int(VERSION, client ? client->who.version : 0,
		"%s: the client that the server welcomed is known", when);
	ok(client && client->who.flags & CLIENT_CHILD,
		"%s: that client is known as a child", when);
}

static void end(void)
{
	while (keeper_reserve_give(&keeper))
		;
	keeper_clients_end(&keeper);
	fd_store_free(&keeper.fd_store);
	keeper.server.sock = fd_close(keeper.server.sock);
}

/* ---- a keeper that can open nothing ---------------------------------------- */

static struct rlimit before;

static unsigned n_naps;
static bool comes_back; /* in the keeper's next nap */

int __real_usleep(useconds_t us);
int __wrap_usleep(useconds_t us);

int __wrap_usleep(useconds_t us)
{
	n_naps++;
	if (comes_back)
		setrlimit(RLIMIT_NOFILE, &before);
	comes_back = false;
	return __real_usleep(us);
}

static void test_comes_back(void)
{
	int server;

	begin(&server);
	send_both(server);
	die(server);
	before = limit_to(RLIMIT_NOFILE, limit_next_fd());
	comes_back = true;
	keeper_receive_last(&keeper);
	if (comes_back)
		bail("the keeper has lacked nothing");
	check("the keeper lacks a descriptor for a moment");
	end();
}

/* More than one, and then what frees them. */
static void send_many(int server)
{
	_cleanup_fd_ int fd = memfd_create("of its own", MFD_CLOEXEC);
	struct msg_fd_key many = {.kind = FD_OF_STORAGE};

	for (many.a = 0; many.a < MANY; many.a++)
		if (wire_send(server, WIRE_OUT_FDS(D_STORE_FD, 0, &many,
					      sizeof(many), &fd, 1)) < 0)
			bail("the server's messages: %s", tarn_fail_message());
	for (many.a = 0; many.a < MANY - 1; many.a++)
		if (wire_send(server,
			    WIRE_OUT(D_DROP_FD, 0, &many, sizeof(many))) < 0)
			bail("the server's messages: %s", tarn_fail_message());
	send_both(server);
}

static void test_reserve(bool dead)
{
	const char *of = dead ? "a dead server" : "a server";
	int server, fds;

	begin(&server);
	keeper.signal_fd = server;
	fds = count_fds(getpid());
	keeper_reserve_take(&keeper);
	fds = count_fds(getpid()) - fds;
	ok(fds > MANY, "the keeper has descriptors in reserve");
	send_many(server);
	before = limit_to(RLIMIT_NOFILE, limit_next_fd());
	n_naps = 0;
	if (dead)
		keeper_receive_last(&keeper);
	else
		keeper_receive_server(&keeper);
	setrlimit(RLIMIT_NOFILE, &before);
	is_int(0, n_naps,
		"the keeper does not wait for what lies behind: of %s", of);
	check(of);
	is_int(2, keeper.fd_store.n, "all that %s gave came, and went", of);
	keeper_reserve_take(&keeper);
	is_int(fds, keeper.reserve.n, "the reserve is filled again");
	close(server);
	end();
}

static void test_gives_up(void)
{
	char log[300];
	int server;

	snprintf(log, sizeof(log), "%s/log", test_tmpdir());
	if (!freopen(log, "a", stderr))
		bail("%s: %m", log);
	begin(&server);
	send_both(server);
	die(server);
	before = limit_to(RLIMIT_NOFILE, limit_next_fd());
	keeper_receive_last(&keeper);
	setrlimit(RLIMIT_NOFILE, &before);
	ok(fd_store_get(&keeper.fd_store, &key) < 0,
		"a keeper that lacks a descriptor for long does not wait "
		"without end");
	is_int(1, daemon_logged(log, "last_messages_lost"),
		"that keeper logs that something is lost");
	is_int(VERSION, keeper_client_find(&keeper, NUMBER)->who.version,
		"that keeper takes the messages that bring no descriptor");
	end();
	unlink(log);
}

int main(void)
{
	int server;

	begin(&server);
	send_both(server);
	die(server);
	is_int(-EPIPE, keeper_receive_server(&keeper),
		"the keeper notices the end of the socket");
	check("the socket ends first");
	end();

	begin(&server);
	send_both(server);
	die(server);
	keeper_receive_last(&keeper);
	check("the process ends first");
	end();
	test_comes_back();
	test_reserve(true);
	test_reserve(false);
	test_gives_up();
	return done(27);
}
