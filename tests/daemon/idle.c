/* SPDX-License-Identifier: MIT */
/*
 * How daemons begin and end: --auto ends when there is no client and nothing
 * is kept, and never while a client is connected; a connection that the daemon
 * has ended keeps none, whatever lies unread in it; one path has one daemon; the
 * next daemon takes over what a killed one left; and an ended one leaves no
 * file.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

static const char *const automatic[] = {"--auto", "--idle", "1", NULL};

/* Where it shall still be there when the test comes back to it. */
static const char *const patient[] = {"--auto", "--idle", "3", NULL};
#define LONGER 4.5 /* than the patient one stays for nobody */
#define SOON 60.0  /* on a loaded machine */

/* Its exit status once it has ended by itself within the time; -1. */
static int ended(struct daemon *daemon, double within)
{
	double end = seconds() + within;
	int status;

	while (seconds() < end) {
		if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
		usleep(10000);
	}
	return -1;
}

static bool nothing_left(const struct daemon *daemon)
{
	char lock[200];

	snprintf(lock, sizeof(lock), "%s.lock", daemon->socket);
	return access(daemon->socket, F_OK) < 0 && access(lock, F_OK) < 0 &&
	       child_named(getpid(), "tarn-server") == 0;
}

/* ---- idle ---------------------------------------------------------- */

static void leaves(void)
{
	struct order order = {0};
	struct daemon daemon;
	tarn_store *store;
	struct raw raw;

	daemon_start(&daemon, "idle", automatic);
	is_int(0, ended(&daemon, SOON),
		"a daemon with --auto ends when no client comes");
	ok(nothing_left(&daemon), "the daemon that left has removed its files");
	store = daemon_start_open(&daemon, "idle", patient);
	raw_open(&raw, daemon.socket);
	tarn_store_unref(store);
	is_int(-1, ended(&daemon, LONGER), "not while a client is there");
	order_bytes(&order, "kept", 0);
	is_int(WIRE_LOADED, order_load(&order, &raw, -1, -1),
		"a tensor is published with a name");
	raw_close(&raw);
	is_int(-1, ended(&daemon, LONGER),
		"a daemon with --auto stays while there is a name");
	raw_open(&raw, daemon.socket);
	raw_send(&raw, WIRE_REMOVE, "kept", 4, NULL, 0);
	is_int(WIRE_DONE, raw_receive(&raw, RAW_PATIENCE_MS),
		"the name is removed");
	raw_close(&raw);
	is_int(0, ended(&daemon, SOON),
		"the daemon ends when the last name is gone");
	ok(nothing_left(&daemon),
		"the daemon that left after a client has removed its files");
}

/* The answer to a hello, with descriptors, is never read. */
static void dropped(void)
{
	const struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	struct pollfd p = {.events = POLLIN};
	struct daemon daemon;
	tarn_store *store;
	struct raw raw;

	store = daemon_start_open(&daemon, "dropped", automatic);
	raw_connect(&raw, daemon.socket);
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	p.fd = raw.fd;
	if (poll(&p, 1, (int)(SOON * 1000)) != 1)
		bail("the hello is not answered");
	raw_frame(&raw, "garbage", 7, NULL, 0);
	p.events = POLLRDHUP;
	if (poll(&p, 1, (int)(SOON * 1000)) != 1)
		bail("the connection is not ended");
	tarn_store_unref(store);
	is_int(0, ended(&daemon, SOON),
		"a dropped connection with unread descriptors does not keep "
		"the daemon");
	ok(nothing_left(&daemon),
		"the daemon that had dropped it has removed its files");
	is_int(WIRE_WELCOME, raw_receive(&raw, RAW_PATIENCE_MS),
		"the descriptors can be read when the daemon is gone");
	raw_close(&raw);
}

/* What was sent and received keeps nobody up; what was only sent does. */
static void channel_over(bool received)
{
	const struct tarn_channel_options small = {
		.slots = 1, .slot_bytes = 4096};
	struct daemon daemon;
	tarn_channel *c;
	tarn_store *store;
	tarn_slot *slot;
	tarn_item *item;

	store = daemon_start_open(&daemon, "channel", automatic);
	if (tarn_channel_open(store, "c", &small, &c) < 0 ||
		tarn_channel_acquire(c, 0, &slot) < 0 ||
		tarn_slot_publish(slot) < 0 || tarn_channel_close(c) < 0)
		bail("%s", tarn_error_message());
	if (received && tarn_channel_receive(c, 0, &item) >= 0)
		tarn_item_unref(item);
	tarn_channel_unref(c);
	tarn_store_unref(store);
	if (received) {
		is_int(0, ended(&daemon, SOON),
			"a closed and empty channel does not keep the daemon");
		return;
	}
	is_int(-1, ended(&daemon, LONGER),
		"a channel with an item keeps the daemon");
	is_int(0, daemon_stop(&daemon), "the daemon ends when it is asked to");
}

/* Connects if there is one to connect to. */
static int try_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	return fd_close(fd);
}

static bool is_welcome(int fd)
{
	struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	struct raw raw = {.fd = fd, .table = -1, .lease = -1};
	bool fine;

	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	fine = raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_WELCOME;
	raw_close(&raw);
	return fine;
}

/* Clients come all the time, with pauses around the idle time: whoever gets
 * in is served. */
static void the_last_moment(void)
{
	int came = 0, served = 0;

	for (int i = 0; i < 2; i++) {
		struct daemon daemon;
		double end;

		daemon_start(&daemon, "last", automatic);
		usleep(1000000);
		for (end = seconds() + 0.4; seconds() < end;) {
			int fd = try_connect(daemon.socket);

			if (fd < 0)
				break;
			came++;
			served += is_welcome(fd);
			usleep((useconds_t)(100 * i));
		}
		is_int(0, ended(&daemon, SOON),
			"the daemon ends after many clients came and went");
	}
	diag("%d got in", came);
	is_int(came, served, "all clients that could connect were served");
}

/* ---- one path, one daemon ------------------------------------------ */

/* Another tarnd on that socket: its exit status, and what it said. */
static int second(
	const char *socket_path, const char *option, char *said, size_t size)
{
	int out[2], status = -1;
	size_t at = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		bail("pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], 2);
		execl(getenv("TARN_DAEMON"), "tarnd", "--socket", socket_path,
			option, NULL);
		_exit(127);
	}
	close(out[1]);
	while (at < size - 1 &&
		(n = read(out[0], said + at, size - 1 - at)) > 0)
		at += (size_t)n;
	said[at] = 0;
	close(out[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void one_a_path(void)
{
	struct witness witness;
	struct daemon daemon;
	char said[1000];

	daemon_start(
		&daemon, "one", (const char *const[]) {"--idle", "1", NULL});
	witness_begin(&witness, &daemon);
	is_int(1, second(daemon.socket, NULL, said, sizeof(said)),
		"a second daemon on the same path fails");
	has_str("another daemon serves", said,
		"the error says that another daemon serves");
	is_int(0, second(daemon.socket, "--auto", said, sizeof(said)),
		"a second daemon with --auto ends without an error");
	is_str("", said, "with --auto a second daemon prints nothing");
	witness_end(&witness);
	is_int(0, daemon_stop(&daemon),
		"the first daemon ends without an error");
	ok(nothing_left(&daemon),
		"the first daemon removes its files when it ends");
}

static void taken_over(void)
{
	struct daemon daemon;

	daemon_start(&daemon, "killed", NULL);
	kill(daemon.pid, SIGKILL);
	waitpid(daemon.pid, NULL, 0);
	is_int(0, access(daemon.socket, F_OK),
		"a killed daemon leaves its socket");
	daemon_start(&daemon, "killed", NULL);
	ok(true, "the next daemon takes over the left socket");
	is_int(0, daemon_stop(&daemon),
		"the daemon that took over ends in order");
	ok(nothing_left(&daemon), "the next daemon leaves no file");
}

int main(void)
{
	leaves();
	dropped();
	channel_over(true);
	channel_over(false);
	the_last_moment();
	one_a_path();
	taken_over();
	remove_files();
	return done(35);
}
