/* SPDX-License-Identifier: MIT */
/*
 * The kernel refuses to send the sockets of clients that are gone to the process
 * that closes them: other processes of the same user use up what it may have in
 * flight, and go on to. The keeper once kept each of these sockets open for
 * ever. Now all of them are closed soon, by a process that inherits them, and if
 * none can be forked, when one can be again. While the kernel goes on to refuse,
 * such processes were forked without end, ten a second; now they are forked ever
 * more rarely, unless many sockets have come together.
 *
 * In the queue of the first is a socket that hangs when it is closed: the
 * keeper must not be the one to close it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/keeper/keeper.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/linger.h"
#include "tests/kit/tap.h"

#define CLIENTS 50
#define CLIENTS_MOST 4096
#define PATIENCE_S 60

static struct keeper keeper;
static int peers[CLIENTS];

/* ---- what the kernel refuses ---------------------------------------------- */

static bool sends_no_fds, forks_none;
static int n_forks;

ssize_t __real_sendmsg(int sock, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int sock, const struct msghdr *msg, int flags);

ssize_t __wrap_sendmsg(int sock, const struct msghdr *msg, int flags)
{
	if (!sends_no_fds || !msg->msg_controllen)
		return __real_sendmsg(sock, msg, flags);
	errno = ETOOMANYREFS;
	return -1;
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
	n_forks++;
	if (!forks_none)
		return __real_fork();
	errno = EAGAIN;
	return -1;
}

/* ---- the keeper -------------------------------------------------------------- */

static void drop_client(int i)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		bail("socketpair: %m");
	peers[i] = pair[1];
	keeper_drop(&keeper, pair[0]);
}

static void drop_clients(void)
{
	for (int i = 0; i < CLIENTS; i++)
		drop_client(i);
}

static void run_for(double s)
{
	double end = seconds() + s;

	do {
		deadlines_run(&keeper.deadlines, keeper_now());
		usleep(1000);
	} while (seconds() < end && keeper.undropped.n);
}

static int count_ended(int patience_ms)
{
	int n = 0;

	for (int i = 0; i < CLIENTS; i++) {
		struct pollfd p = {.fd = peers[i]};

		n += poll(&p, 1, patience_ms) == 1 && p.revents & POLLHUP;
	}
	return n;
}

static void close_peers(void)
{
	for (int i = 0; i < CLIENTS; i++)
		close(peers[i]);
}

/* Both times with the socket to a dropper, which is there before. */
static void test(const char *when, bool without_forks)
{
	int fds = count_fds(getpid());

	sends_no_fds = true;
	forks_none = without_forks;
	drop_clients();
	if (without_forks) {
		run_for(0.5);
		is_int(0, count_ended(0), "nothing is closed by the keeper %s",
			when);
		forks_none = false;
	}
	run_for(PATIENCE_S);
	is_int(CLIENTS, count_ended(PATIENCE_S * 1000),
		"the sockets of all clients are closed %s", when);
	close_peers();
	is_int(fds, count_fds(getpid()),
		"the keeper has as many descriptors as before %s", when);
	sends_no_fds = false;
}

/* Clients go all the time. */
static void test_lasts(void)
{
	const int most = 8;

	sends_no_fds = true;
	n_forks = 0;
	for (int i = 0; i < CLIENTS - 1; i++) {
		double end = seconds() + 0.05;

		drop_client(i);
		while (seconds() < end) {
			deadlines_run(&keeper.deadlines, keeper_now());
			usleep(1000);
		}
	}
	/* Whatever was sent, this one was not. */
	drop_client(CLIENTS - 1);
	diag("%d forks in %g s or more", n_forks, CLIENTS * 0.05);
	ok(n_forks >= 1 && n_forks <= most,
		"processes are forked ever more rarely while none can be sent");
	ok(keeper.undropped.n, "the last socket waits for the next one");
	sends_no_fds = false;
	deadlines_run(&keeper.deadlines, keeper.drop_at.at);
	is_int(0, keeper.undropped.n, "they are sent as soon as they can be");
	is_int(CLIENTS, count_ended(PATIENCE_S * 1000),
		"the sockets of all of them are closed");
	close_peers();
}

static void test_many(void)
{
	sends_no_fds = true;
	keeper.drop_pause = 60000000000ull;
	keeper.clients.max = CLIENTS;
	drop_client(0);
	run_for(0.3);
	is_int(1, keeper.undropped.n, "one socket waits");
	for (int i = 1; i < CLIENTS; i++)
		drop_client(i);
	run_for(PATIENCE_S / 2);
	is_int(0, keeper.undropped.n, "many together wait for no pause");
	is_int(CLIENTS, count_ended(PATIENCE_S * 1000),
		"the sockets of all of them are closed");
	close_peers();
	keeper.drop_pause = 0;
	keeper.clients.max = CLIENTS_MOST;
	sends_no_fds = false;
}

/* It would hang here, and the test with it. */
static void test_lingers(void)
{
	int pair[2], fd = lingering();
	struct msghdr msg = {0};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};
	struct iovec iov = {"", 1};

	if (fd < 0) {
		skip(1, "no TCP on the loopback interface");
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		bail("socketpair: %m");
	msg = (struct msghdr) {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	if (sendmsg(pair[1], &msg, 0) != 1)
		bail("sendmsg: %m");
	close(fd);
	sends_no_fds = true;
	keeper_drop(&keeper, pair[0]);
	run_for(PATIENCE_S);
	is_int(0, (int)keeper.undropped.n,
		"a socket with one that lingers in its queue is dropped");
	sends_no_fds = false;
	close(pair[1]);
	let_go();
}

int main(void)
{
	keeper.clients.max = CLIENTS_MOST;
	keeper.dropper = keeper_fork_dropper(&keeper);
	if (keeper.dropper < 0)
		bail("%s", tarn_fail_message());
	test("although none can be sent", false);
	test("when a process can be forked again", true);
	test_lasts();
	test_many();
	test_lingers();
	keeper_drop_end(&keeper);
	fd_store_free(&keeper.undropped);
	while (wait(NULL) > 0)
		;
	return done(13);
}
