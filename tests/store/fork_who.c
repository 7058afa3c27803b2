/* SPDX-License-Identifier: MIT */
/*
 * The identity of a forked child: the daemon knows it as its parent until it
 * sends a message, then as itself, and so does the next server. From then on
 * the child's end ends its connection, whatever process else has the socket.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/command_child.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/store_fork.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

/* How many clients are known by that number. */
static int known_as(pid_t pid)
{
	struct tarn_report *report = NULL;
	int n = 0;

	if (tarn_store_report(kit_fork_store, &report) < 0)
		bail("a report: %s", tarn_error_message());
	for (uint32_t i = 0; i < report->n_clients; i++)
		n += report->clients[i].pid == pid;
	tarn_report_free(report);
	return n;
}

static void be_child(int ask, int answer)
{
	struct tarn_report_daemon status;
	int32_t number = 0;
	char what;

	while (read(ask, &what, 1) == 1) {
		/* One of clone() has the socket and knows nothing of it. */
		if (what == 'c')
			number = (int32_t)syscall(
				SYS_clone, SIGCHLD, NULL, NULL, 0, NULL);
		else
			number = report_daemon(kit_fork_store, &status);
		if (what == 'c' && number == 0)
			for (;;)
				pause();
		if (write(answer, &number, sizeof(number)) < 0)
			break;
	}
}

static struct command_child child_begin(void)
{
	struct command_child child = command_child_prepare();

	command_child_forked(&child, fork(), be_child);
	return child;
}

/* It is killed, and one that has its socket is not. */
static void ends(const struct command_child *child, pid_t heir)
{
	kill(child->pid, SIGKILL);
	kit_fork_finished(child->pid);
	ok(kit_fork_is_alone(),
		"the end of a child that sent a message ends its connection");
	is_int(0, kill(heir, SIGKILL),
		"the connection ends although another process has its socket");
	command_child_leave(child);
}

static void test_known(void)
{
	tarn_tensor *t = kit_fork_get_one();
	struct command_child child = child_begin();
	pid_t heir;

	is_int(2, known_as(getpid()),
		"a child that has sent nothing is known as its parent");
	is_int(0, command_child_ask(&child, 's'), "a child sends a message");
	is_int(1, known_as(child.pid), "the child is known by its own pid");
	is_int(1, known_as(getpid()), "the parent is still known by its pid");
	is_int(0, command_child_ask(&child, 's'),
		"the child sends another message");
	is_int(1, known_as(child.pid), "the child is known by the same pid");
	heir = command_child_ask(&child, 'c');
	ends(&child, heir);
	tarn_tensor_unref(t);
	ok(kit_fork_gets_room(), "the tensor that the child held is freed");
}

static void kill_server(void)
{
	pid_t server = child_named(kit_fork_daemon.pid, "tarn-server");
	struct tarn_report_daemon status = {0};

	kill(server, SIGKILL);
	if (report_daemon(kit_fork_store, &status) < 0)
		bail("status: %s", tarn_error_message());
	ok(status.server_pid != server, "another server takes over");
}

static void test_next_server(void)
{
	tarn_tensor *t = kit_fork_get_one();
	struct command_child child = child_begin(), quiet = child_begin();
	pid_t heir;

	is_int(0, command_child_ask(&child, 's'),
		"one of two children sends a message to the next server");
	heir = command_child_ask(&child, 'c');
	kill_server();
	is_int(1, known_as(child.pid),
		"the next server knows the child by its pid");
	is_int(2, known_as(getpid()),
		"the next server knows the other child as its parent");
	is_int(0, command_child_ask(&quiet, 's'),
		"the other child sends a message");
	is_int(1, known_as(quiet.pid),
		"the next server then knows the other child, too");
	command_child_leave(&quiet);
	kit_fork_finished(quiet.pid);
	ends(&child, heir);
	tarn_tensor_unref(t);
	ok(kit_fork_gets_room(),
		"the tensor that the other child held is freed");
}

/* A parent that says by hand that it is its child is not taken for it. */
static void test_parent_speaks(void)
{
	const struct msg_hello hello = {.version = PROTOCOL_VERSION,
		.version_min = PROTOCOL_OLDEST,
		.flags = HELLO_CHILD};
	struct raw raw;
	pid_t pid;

	raw_connect(&raw, kit_fork_daemon.socket);
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	is_int(WIRE_WELCOME, raw_receive(&raw, RAW_PATIENCE_MS),
		"a parent makes a connection for its child");
	raw_send(&raw, WIRE_PING, NULL, 0, NULL, 0);
	is_int(WIRE_PONG, raw_receive(&raw, RAW_PATIENCE_MS),
		"the parent sends a message on the child's connection");
	is_int(2, known_as(getpid()), "the parent is not taken for the child");
	pid = fork();
	if (pid == 0) {
		raw_send(&raw, WIRE_PING, NULL, 0, NULL, 0);
		pause();
	}
	is_int(WIRE_PONG, raw_receive(&raw, RAW_PATIENCE_MS),
		"the child sends a message on its connection");
	is_int(1, known_as(pid), "the child is known on its own connection");
	kill(pid, SIGKILL);
	kit_fork_finished(pid);
	ok(raw_is_closed(&raw), "the child's connection ends with the child");
	raw_close(&raw);
}

int main(void)
{
	kit_fork_begin();
	test_known();
	test_next_server();
	test_parent_speaks();
	kit_fork_end();
	return done(25);
}
