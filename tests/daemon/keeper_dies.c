/* SPDX-License-Identifier: MIT */
/*
 * The keeper is killed while its server lives, with a loader and with
 * processes that close descriptors, one of which hangs. All of them end, and
 * the pipes that they had open with them: no client continues with a daemon
 * that no other can find. Then another daemon serves the same path.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/kit/linger.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MOST 64
#define PATIENCE_MS 60000

static struct daemon server;

/* ---- its processes ------------------------------------------------------ */

struct family {
	struct {
		pid_t pid, parent;
		int fd;
		char name[32];
	} all[MOST];
	int n;
};

static void add(struct family *family, pid_t pid, pid_t parent)
{
	char path[64];
	FILE *comm;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0 || family->n == MOST)
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	family->all[family->n].pid = pid;
	family->all[family->n].parent = parent;
	family->all[family->n].fd = fd;
	comm = fopen(path, "re");
	if (!comm || fscanf(comm, "%31s", family->all[family->n].name) != 1)
		strcpy(family->all[family->n].name, "?");
	if (comm)
		fclose(comm);
	family->n++;
}

/* Children, and theirs. */
static void find(struct family *family, pid_t parent)
{
	char path[64];
	FILE *children;
	int pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent,
		parent);
	children = fopen(path, "re");
	while (children && fscanf(children, "%d", &pid) == 1) {
		add(family, pid, parent);
		find(family, pid);
	}
	if (children)
		fclose(children);
}

static int count(const struct family *family, const char *name)
{
	int n = 0;

	for (int i = 0; i < family->n; i++)
		n += !strcmp(family->all[i].name, name);
	return n;
}

static void forget(struct family *family)
{
	while (family->n > 0)
		close(family->all[--family->n].fd);
}

static bool is_whole(const struct family *family)
{
	return count(family, "tarn-server") == 1 &&
	       count(family, "tarn-loader") >= 1 &&
	       count(family, "tarn-closer") >= 1;
}

/* A process that has just been forked has its parent's name for a moment, and the
 * list of children may lack one while another ends. */
static void find_all(struct family *family)
{
	int64_t end = clock_ms() + PATIENCE_MS;

	find(family, server.pid);
	while (!is_whole(family) && clock_ms() < end) {
		usleep(10000);
		forget(family);
		find(family, server.pid);
	}
}

/* As if it were busy for long: it hears nothing of a socket that ends. Of the
 * keeper's children alone: a process of theirs has their name, too, before it has
 * its own. */
static void stop(const struct family *family, const char *name)
{
	for (int i = 0; i < family->n; i++)
		if (family->all[i].parent == server.pid &&
			!strcmp(family->all[i].name, name))
			kill(family->all[i].pid, SIGSTOP);
}

static void all_end(struct family *family)
{
	int left = 0;

	for (int i = 0; i < family->n; i++) {
		struct pollfd p = {.fd = family->all[i].fd, .events = POLLIN};

		if (poll(&p, 1, PATIENCE_MS) == 1)
			continue;
		left++;
		diag("process %d (%s) is there still", family->all[i].pid,
			family->all[i].name);
	}
	is_int(0, left, "all processes of a keeper that was killed end");
	forget(family);
}

/* ---- what they have open ------------------------------------------------ */

/* A process that closes hangs. The server is stopped until it alone has the
 * socket. */
static void wedge(struct raw *raw)
{
	pid_t pid = server_of(&server);
	int fd = lingering();

	if (fd < 0) {
		diag("no TCP on the loopback interface: nothing hangs");
		return;
	}
	kill(pid, SIGSTOP);
	raw_send(raw, WIRE_PING, NULL, 0, &fd, 1);
	close(fd);
	kill(pid, SIGCONT);
	raw_receive(raw, RAW_PATIENCE_MS);
}

int main(void)
{
	struct family family = {.n = 0};
	struct raw raw, late;
	struct pollfd end;
	tarn_store *store = NULL;
	int ends[2];

	daemon_start(&server, "s", (const char *const[]) {NULL});
	if (tarn_store_open(server.socket, NULL, &store) < 0 ||
		tensor_load(store, tensor_file("f.st", 1, 4096), "f") < 0)
		bail("%s", tarn_error_message());
	if (pipe2(ends, O_CLOEXEC) < 0)
		bail("a pipe: %m");
	raw_open(&raw, server.socket);
	raw_open(&late, server.socket);
	wedge(&raw);
	find_all(&family);
	diag("%d processes", family.n);
	ok(is_whole(&family),
		"the keeper has a server, a loader and processes that close");
	stop(&family, "tarn-server");
	/* It lies unread in the server's socket. */
	raw_send(&late, WIRE_PING, NULL, 0, &ends[1], 1);
	close(ends[1]);
	stop(&family, "tarn-loader");
	kill(server.pid, SIGKILL);
	waitpid(server.pid, NULL, 0);
	all_end(&family);
	end = (struct pollfd) {.fd = ends[0]};
	ok(poll(&end, 1, PATIENCE_MS) == 1 && end.revents & POLLHUP,
		"a pipe that was sent to the server is closed");
	ok(raw_is_closed(&raw), "a client's connection ends with the keeper");
	close(ends[0]);
	raw_close(&raw);
	raw_close(&late);
	tarn_store_unref(store);
	let_go();
	daemon_start(&server, "s", (const char *const[]) {NULL});
	is_int(0, daemon_stop(&server), "another daemon serves the path");
	remove_files();
	return done(5);
}
