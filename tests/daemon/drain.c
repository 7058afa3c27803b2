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

/* Less than HUNG_NS: the server replaces a loader that owes it an answer for
 * so long, and the load under way would end. */
#define SHORT_S 4.0

static struct daemon server;
static int status; /* its end's */

static int order_file(struct raw *raw, const char *path, const char *name)
{
	struct order order = {0};
	int fd = opened(path), r;

	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, name, SIZE);
	r = order_send(&order, raw, fd, -1);
	fd_close(fd);
	return r;
}

/* What is to be seen while the load is under way. */
struct seen {
	bool drains, socket, runs;
	int type, error, opened;
	char text[1100];
};

static struct seen look(struct raw *other, const char *log, const char *path)
{
	tarn_store *store = NULL;
	struct seen seen = {
		.drains = daemon_logs(log, " drain role=server ", 0)};

	seen.socket = access(server.socket, F_OK) == 0;
	if (order_file(other, path, "other/one") >= 0)
		seen.type = raw_answer(other);
	seen.error = other->error;
	snprintf(seen.text, sizeof(seen.text), "%s", other->text);
	seen.opened = tarn_store_open(server.socket, NULL, &store);
	tarn_store_unref(store);
	seen.runs = waitpid(server.pid, &status, WNOHANG) == 0;
	return seen;
}

static void judge(const struct seen *seen)
{
	/* The keeper has closed its listener by then; the server was told
	 * next. */
	ok(seen->drains, "the daemon logs that it drains");
	ok(!seen->socket, "the socket is removed when the daemon drains");
	is_int(WIRE_ERROR, seen->type, "a load during the drain is refused");
	is_int(ESHUTDOWN, seen->error,
		"the error during the drain is ESHUTDOWN");
	has_str("the daemon is ending", seen->text,
		"the error says that the daemon is ending");
	is_int(-ENOENT, seen->opened,
		"a new client cannot connect during the drain");
	ok(seen->runs, "the daemon still runs during the drain");
}

int main(void)
{
	const char *first = made_file("first", SIZE, 1);
	const char *second = made_file("second", SIZE, 2);
	struct raw raw, other;
	struct seen seen;
	double begun;
	char log[300];
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
	begun = seconds();
	if (loader <= 0 || kill(loader, SIGSTOP) < 0)
		bail("there is no loader to stop");
	order_file(&raw, second, "second/one");
	/* It has been heard when what follows it is answered. */
	raw_send(&other, WIRE_PING, NULL, 0, NULL, 0);
	is_int(WIRE_PONG, raw_answer(&other), "the second load is under way");
	usleep(200000);
	kill(server.pid, SIGTERM);
	seen = look(&other, log, second);
	if (seconds() - begun < SHORT_S)
		judge(&seen);
	else
		skip(7, "the machine is too busy to stop a loader shortly");
	kill(loader, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&raw), "the load under way is finished");
	if (seen.runs)
		waitpid(server.pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		"the daemon ends without an error after the load");
	raw_close(&raw);
	raw_close(&other);
	daemon_log_show(log);
	remove_files();
	return done(11);
}
