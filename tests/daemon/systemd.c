/* SPDX-License-Identifier: MIT */
/*
 * Under a service manager: a socket that was passed is served and survives the
 * daemon, a client that comes while none runs is served by the next one, and
 * the manager is notified when the daemon is ready, reloads and stops. The
 * test plays the manager.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

static char path[108], notify_path[108], log_path[256];
static int manager = -1; /* hears what is notified */

static struct sockaddr_un address_of(const char *at)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", at);
	return address;
}

static int bound(int type, const char *at)
{
	struct sockaddr_un address = address_of(at);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	unlink(at);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		bail("%s cannot be bound: %m", at);
	if (type != SOCK_DGRAM && listen(fd, 100) < 0)
		bail("%s: listen: %m", at);
	return fd;
}

/* tarnd with that descriptor as its third, as systemd would start it. */
static pid_t start(int listener, const char *socket_option)
{
	pid_t pid = fork();
	char number[16];
	int fd;

	if (pid)
		return pid;
	fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dup2(fd, STDERR_FILENO);
	dup2(listener, 3); /* not close-on-exec */
	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv("LISTEN_PID", number, 1);
	setenv("LISTEN_FDS", "1", 1);
	setenv("NOTIFY_SOCKET", notify_path, 1);
	execl(getenv("TARN_DAEMON"), "tarnd", "--socket", socket_option, NULL);
	_exit(127);
}

static const char *received(void)
{
	static char text[256];
	struct pollfd p = {.fd = manager, .events = POLLIN};
	ssize_t n = poll(&p, 1, RAW_PATIENCE_MS) == 1
			    ? recv(manager, text, sizeof(text) - 1, 0)
			    : 0;

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static int status_of(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int score_of(pid_t pid)
{
	char file[64], text[32];

	snprintf(file, sizeof(file), "/proc/%d/oom_score_adj", (int)pid);
	return fd_read_text(file, text, sizeof(text)) > 0 ? atoi(text) : 9999;
}

/* The memory goes with the keeper, so it is taken last, if it may ask. */
static void test_oom(pid_t keeper)
{
	int mine = score_of(getpid()), its = score_of(keeper);
	pid_t server = child_named(keeper, "tarn-server");

	if (its == mine)
		skip(1, "the OOM score may not be lowered here");
	else
		is_int(-900, its,
			"the keeper has the lowest OOM score setting");
	ok(score_of(server) > its && score_of(server) >= mine &&
			score_of(server) <= mine + 10,
		"the server has a higher one than the keeper");
}

static void test_life(int listener)
{
	pid_t pid = start(listener, path);
	struct raw raw;

	is_str("READY=1", received(),
		"the daemon notifies the manager that it is ready");
	raw_open(&raw, path);
	ok(raw.welcome.keeper_pid == pid,
		"the daemon serves the socket that was passed");
	test_oom(pid);
	kill(pid, SIGHUP);
	has_str("RELOADING=1\nMONOTONIC_USEC=", received(),
		"the daemon notifies the manager that it reloads");
	is_str("READY=1", received(),
		"the daemon notifies the manager that it is ready again");
	kill(pid, SIGTERM);
	has_str("STOPPING=1", received(),
		"the daemon notifies the manager that it stops");
	is_int(0, status_of(pid), "the daemon ends with status 0");
	raw_close(&raw);
}

/* Nobody is turned away in between. */
static void test_between(int listener)
{
	struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	struct raw raw;
	pid_t pid;

	ok(access(path, F_OK) == 0, "the socket outlives the daemon");
	raw_connect(&raw, path);
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	pid = start(listener, path);
	is_int(WIRE_WELCOME, raw_answer(&raw),
		"a client that came while no daemon ran is served by the next");
	raw_close(&raw);
	kill(pid, SIGTERM);
	is_int(0, status_of(pid), "the next daemon ends with status 0");
}

static void is_refused(
	int listener, const char *option, const char *words, const char *what)
{
	pid_t pid = start(listener, option);
	char text[1024] = "";

	is_int(1, status_of(pid), "a socket is refused: %s", what);
	fd_read_text(log_path, text, sizeof(text));
	has_str(words, text, "the error names the reason");
}

static void test_wrong(int listener)
{
	char other[108];
	int stream;

	snprintf(other, sizeof(other), "%s/other.sock", test_tmpdir());
	is_refused(listener, other, "must be the same", "another path");
	stream = bound(SOCK_STREAM, other);
	is_refused(stream, other, "ListenSequentialPacket", "a stream socket");
	fd_close(stream);
	unlink(other);
}

int main(void)
{
	int listener;

	if (!getenv("TARN_DAEMON"))
		bail("TARN_DAEMON is not set; run this through tests/run");
	snprintf(path, sizeof(path), "%s/a.sock", test_tmpdir());
	snprintf(notify_path, sizeof(notify_path), "%s/n.sock", test_tmpdir());
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	manager = bound(SOCK_DGRAM, notify_path);
	listener = bound(SOCK_SEQPACKET, path);
	test_life(listener);
	test_between(listener);
	test_wrong(listener);
	fd_close(listener);
	fd_close(manager);
	remove_files();
	return done(15);
}
