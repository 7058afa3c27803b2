/* SPDX-License-Identifier: MIT */
/*
 * SIGTERM drains: the load under way is finished and published, a request for
 * another is refused with the reason, and no new client can connect.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define SIZE (4u << 20)

static struct daemon server;

static void order_file(struct raw *raw, const char *path, const char *name)
{
	struct order order = {0};
	int fd = opened(path);

	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, name, SIZE);
	if (order_send(&order, raw, fd, -1) < 0)
		bail("a load could not be sent");
	fd_close(fd);
}

int main(void)
{
	const char *first = made_file("first", SIZE, 1);
	const char *second = made_file("second", SIZE, 2);
	tarn_store *store = NULL;
	struct raw raw, other;
	char log[300];
	int status = 0;
	pid_t loader;

	snprintf(log, sizeof(log), "%s/log", test_tmpdir());
	daemon_log_to(log);
	daemon_start(&server, "drain.sock", NULL);
	raw_open(&raw, server.socket);
	raw_open(&other, server.socket);
	order_file(&raw, first, "first/one");
	is_int(WIRE_LOADED, raw_answer(&raw),
		"a file is loaded before the drain");
	loader = child_named(server.pid, "tarn-loader");
	if (loader <= 0 || kill(loader, SIGSTOP) < 0)
		bail("there is no loader to stop");
	order_file(&raw, second, "second/one");
	/* It has been heard when what follows it is answered. */
	raw_send(&other, WIRE_PING, NULL, 0, NULL, 0);
	is_int(WIRE_PONG, raw_answer(&other), "the second load is under way");
	usleep(200000);
	kill(server.pid, SIGTERM);
	/* The keeper has closed its listener by then; the server was told
	 * next. */
	ok(daemon_logs(log, " drain role=server ", 0),
		"the daemon logs that it drains");
	ok(access(server.socket, F_OK) < 0,
		"the socket is removed when the daemon drains");
	order_file(&other, second, "other/one");
	is_int(WIRE_ERROR, raw_answer(&other),
		"a load during the drain is refused");
	is_int(ESHUTDOWN, other.error,
		"the error during the drain is ESHUTDOWN");
	has_str("the daemon is ending", other.text,
		"the error says that the daemon is ending");
	is_int(-ENOENT, tarn_store_open(server.socket, &store),
		"a new client cannot connect during the drain");
	is_int(0, waitpid(server.pid, &status, WNOHANG),
		"the daemon still runs during the drain");
	kill(loader, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&raw), "the load under way is finished");
	waitpid(server.pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		"the daemon ends without an error after the load");
	raw_close(&raw);
	raw_close(&other);
	daemon_log_show(log);
	remove_files();
	return done(11);
}
