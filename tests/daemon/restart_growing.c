/* SPDX-License-Identifier: MIT */
/*
 * Memory that was being made when the last server died, and was ready while
 * there was none: the next one gets it, and whatever is asked for after it.
 *
 *	1. a load needs memory; a child of the keeper's begins to populate it
 *	2. the server dies five times, and the keeper pauses
 *	3. the child is done: nobody is there to map what it made
 *	4. the next server is told to take over, and asks for memory
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define LARGE (192 * MIB) /* takes a while to be populated */
#define DEATHS 5
#define PATIENCE_S 60.0 /* on a loaded machine */

static struct daemon daemon_;

/* To load a file of zeroes. */
static void ask(struct raw *raw, const char *name, uint64_t size)
{
	struct order order = {0};
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		bail("%s: %m", path);
	unlink(path);
	order_range(&order, 0, size, 0);
	if (order_send(&order, raw, fd, -1) < 0)
		bail("the load cannot be asked for");
	close(fd);
}

/* Stopped in the middle of its work; false: it was faster, since what it was
 * for is there. */
static bool stop_populator(struct raw *raw, pid_t *ret)
{
	double end = seconds() + PATIENCE_S;
	int heard;

	do {
		*ret = child_named(daemon_.pid, "tarn-populate");
		if (*ret > 0 && kill(*ret, SIGSTOP) == 0)
			return true;
		heard = raw_receive(raw, 0);
		if (heard == WIRE_LOADED)
			return false;
	} while ((heard == -1 || heard == WIRE_LOADING) && seconds() < end);
	bail("no memory is made for the load: %s", raw->text);
}

/* Until there is no such process. */
static void await_end(const char *name, pid_t pid)
{
	double end = seconds() + PATIENCE_S;

	while (child_named(daemon_.pid, name) == pid && seconds() < end)
		usleep(10000);
}

/* On a busy machine the pause may be over before it is looked at. */
static void kill_servers(void)
{
	double end = seconds() + PATIENCE_S;
	pid_t pid = 0, next = 0;

	for (int i = 0; i < DEATHS || (next > 0 && seconds() < end); i++) {
		pid = server_after(&daemon_, pid);
		kill(pid, SIGKILL);
		if (i < DEATHS - 1)
			continue;
		await_end("tarn-server", pid);
		next = server_of(&daemon_);
	}
	is_int(0, next, "the keeper pauses after five deaths");
}

int main(void)
{
	const char *const args[] = {"--segment-size", "256M", NULL};
	struct raw raw, next;
	pid_t populator;

	daemon_start(&daemon_, "s", args);
	raw_open(&raw, daemon_.socket);
	ask(&raw, "large", LARGE);
	if (!stop_populator(&raw, &populator)) {
		raw_close(&raw);
		daemon_stop(&daemon_);
		skip_all("192 MiB were populated before that was seen");
	}
	kill_servers();
	kill(populator, SIGCONT);
	await_end("tarn-populate", populator);
	kill(daemon_.pid, SIGHUP);
	raw_open(&next, daemon_.socket);
	ask(&next, "other", MIB);
	is_int(WIRE_LOADED, raw_answer(&next),
		"a load gets memory from the next server");
	raw_close(&next);
	raw_close(&raw);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	return done(3);
}
