/* SPDX-License-Identifier: MIT */
/*
 * Files of a file system that has stopped answering. They delay their own
 * loads, and nothing else: not the server, not other loads of the same user,
 * and the daemon still ends when asked to.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/fuse_hang.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

static struct daemon server;
static struct witness witness;

/* The client that wedges: a process, as it must be killed. It says which
 * files it has sent. */
static pid_t wedge(enum hang_file file, bool load)
{
	struct order order = {0};
	struct raw raw;
	int lead[2], fd, direct;
	char c;
	pid_t pid;

	if (pipe2(lead, O_CLOEXEC) < 0)
		bail("pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid) {
		close(lead[1]);
		if (read(lead[0], &c, 1) != 1)
			bail("the client did not get that far");
		close(lead[0]);
		return pid;
	}
	/* Both, as the library sends them. */
	fd = opened(hang_path(file));
	direct = opened_direct(hang_path(file));
	if (direct < 0)
		bail("%s: O_DIRECT: %m", hang_path(file));
	raw_open(&raw, server.socket);
	order_range(&order, 0, hang_size(file), 0);
	hang_arm();
	if (load) {
		order_send(&order, &raw, fd, direct);
	} else {
		const struct {
			struct msg_publish head;
			struct msg_source source;
		} publish = {{.n_sources = 1, .n_names = 1},
			{.kind = SOURCE_COPY, .size = 1}};
		int fds[3] = {fd, fd, fd};

		/* Wherever a message ends, its descriptors are closed. */
		raw_send(&raw, WIRE_PING, NULL, 0, fds, 3);
		raw_send(&raw, WIRE_LOAD, &order.head, sizeof(order.head), fds,
			3);
		raw_send(&raw, WIRE_LOAD, &order.head, sizeof(order.head), fds,
			1);
		raw_send(&raw, WIRE_PUBLISH, &publish, sizeof(publish), fds, 1);
		raw_frame(&raw, "nonsense", 8, fds, 3);
	}
	if (write(lead[1], "!", 1) == 1)
		pause();
	_exit(1);
}

static bool removes_a_name(void)
{
	struct order order = {0};
	struct raw raw;
	bool fine;

	raw_open(&raw, server.socket);
	order_bytes(&order, "empty", 0);
	fine = order_load(&order, &raw, -1, -1) == WIRE_LOADED;
	raw_send(&raw, WIRE_REMOVE, "empty", 5, NULL, 0);
	fine = fine && raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_DONE;
	raw_close(&raw);
	return fine;
}

static void wedged_by(
	enum hang_file file, bool load, const char *what, pid_t *ret_pid)
{
	*ret_pid = wedge(file, load);
	ok(hang_has_caught(1), "a client's file hangs: %s", what);
	witness_is_served(&witness, what);
	ok(removes_a_name(), "names are published and removed: %s", what);
	witness_can_load(&witness, what);
	witness_can_load(&witness, "again, after a file hangs");
}

static void serve_on(void)
{
	static const struct {
		const char *what;
		enum hang_file file;
		bool load;
	} cases[] = {
		{"GETATTR does not return", HANG_GETATTR, true},
		{"a READ does not return", HANG_READ, true},
		{"FLUSH does not return, after a load", HANG_FLUSH, true},
		{"FLUSH does not return, of unwanted files", HANG_FLUSH, false},
	};
	pid_t pids[4];

	for (int i = 0; i < 4; i++)
		wedged_by(
			cases[i].file, cases[i].load, cases[i].what, &pids[i]);
	/* They die, but for what hangs in the kernel. */
	for (int i = 0; i < 4; i++)
		kill(pids[i], SIGKILL);
	witness_is_served(&witness, "who wedged is killed");
	witness_can_load(&witness, "who wedged is killed");
	hang_end();
	for (int i = 0; i < 4; i++)
		waitpid(pids[i], NULL, 0);
}

/* All requests of a loader hang: the next load gets another loader. */
static void deep(pid_t *ret_pid)
{
	unsigned caught = hang_caught();

	*ret_pid = wedge(HANG_DEEPER, true);
	ok(hang_has_caught(caught + 1),
		"as many reads hang as there are loaders");
	witness_is_served(&witness, "many reads hang");
	witness_can_load(&witness, "many reads hang");
}

/*
 * Two loads are under way in one loader, and the file of one is dead. The
 * loader is stopped until both have come, so that the other is being filled
 * when that one begins to hang: a GETATTR when the loader looks at the file, as
 * the second of the two; a READ when it is told to read, as the first.
 */
static pid_t beside(enum hang_file file, const char *what)
{
	const char *path = made_file("beside", 1 << 20, 7);
	pid_t loader = child_named(server.pid, "tarn-loader"), pid = 0;
	int fd = opened(path), direct = opened_direct(path);
	struct order order = {0};
	struct raw raw;

	if (loader <= 0)
		bail("there is no loader to stop");
	kill(loader, SIGSTOP);
	raw_open(&raw, server.socket);
	order_range(&order, 0, 1 << 20, 0);
	if (file != HANG_GETATTR)
		pid = wedge(file, true);
	order_send(&order, &raw, fd, direct);
	/* A request that is answered now is answered after it was read. */
	witness_is_served(&witness, what);
	if (file == HANG_GETATTR)
		pid = wedge(file, true);
	witness_is_served(&witness, what);
	kill(loader, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&raw), "another load ends beside %s",
		what);
	raw_close(&raw);
	close(fd);
	if (direct >= 0)
		close(direct);
	return pid;
}

static void end_while_wedged(pid_t alive)
{
	unsigned caught = hang_caught();
	pid_t pid = wedge(HANG_GETATTR, true);

	ok(hang_has_caught(caught + 1), "a file whose GETATTR hangs is caught");
	/* As a user would: the clients are gone, then the daemon is ended. */
	kill(pid, SIGKILL);
	kill(alive, SIGKILL);
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends while files hang");
	hang_end();
	waitpid(pid, NULL, 0);
	waitpid(alive, NULL, 0);
}

int main(void)
{
	const char *const args[] = {"--idle", "1", NULL};
	const char *why = hang_begin();
	pid_t pid, others[3];

	if (why) {
		remove_files();
		skip_all("no file system that hangs can be made here: %s", why);
	}
	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	serve_on();
	witness_is_served(&witness, "the file system was cut off");
	witness_compare(&witness);
	if (hang_begin())
		bail("a second mount failed");
	others[0] = beside(HANG_READ, "a file whose READ does not return");
	others[1] = beside(HANG_DEEP, "a file that takes all requests");
	others[2] = beside(HANG_GETATTR, "a file that cannot be looked at");
	for (int i = 0; i < 3; i++)
		kill(others[i], SIGKILL);
	deep(&pid);
	end_while_wedged(pid);
	for (int i = 0; i < 3; i++)
		waitpid(others[i], NULL, 0);
	remove_files();
	return done(44);
}
