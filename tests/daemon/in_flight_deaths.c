/* SPDX-License-Identifier: MIT */
/*
 * A server that dies forgets what its clients had unread. So when servers die
 * one after the other, a process that reads nothing can get as many descriptors
 * in flight as the kernel lets the daemon's user have: then no process of that
 * user can send any, the keeper to the next server included. Then only what
 * needs one is refused: a publication used to keep all clients waiting for ten
 * seconds, and to cost the server's life. As soon as they are read, or their
 * reader has ended, everybody is served again, without help, and nothing is
 * lost.
 *
 * As another uid, since the kernel counts what all processes of a user have in
 * flight, and that of other tests is not to be in the way.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/enemy.h"
#include "tests/kit/limit.h"
#include "tests/kit/must.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define USER 23457
#define DESCRIPTORS 256u
#define ANSWER_MS 1000 /* none comes where nothing can be sent any more */

/* Servers die until nothing can be sent: some nine, as each lets a user have half
 * of a quarter. */
enum { ROUNDS = 24, TURNS = 200, CONNECTIONS = 2, MORE = 32 };

static struct daemon server;
static struct witness witness;

static const char *folder; /* that this user may reach */

static void become_user(void)
{
	if (geteuid() != 0)
		return;
	folder = test_outside("deaths");
	setenv("TMPDIR", folder, 1);
	if (chown(folder, USER, USER) < 0 || setgroups(0, NULL) < 0 ||
		setresgid(USER, USER, USER) < 0 ||
		setresuid(USER, USER, USER) < 0)
		skip_all("uid %d cannot be taken: %m", USER);
	if (access(getenv("TARN_DAEMON"), X_OK) < 0)
		skip_all("%s may not be executed by another uid",
			getenv("TARN_DAEMON"));
}

/* Has this user as much in flight as a process with that limit may send? The
 * daemon's counts, and not this one's. */
static bool is_full(void)
{
	struct rlimit before = limit_to(RLIMIT_NOFILE, DESCRIPTORS);
	int pair[2];
	struct raw raw = {0};
	bool full;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		bail("socketpair: %m");
	raw.fd = pair[0];
	full = raw_frame(&raw, "x", 1, &pair[0], 1) < 0 &&
	       errno == ETOOMANYREFS;
	close(pair[0]);
	close(pair[1]);
	setrlimit(RLIMIT_NOFILE, &before);
	return full;
}

/* Takes all that one server lets it have in flight, and reads nothing. */
static void ask_for_more(void)
{
	const struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	const struct msg_segments want = {.first = 0, .count = 1};

	for (int i = 0; i < CONNECTIONS; i++) {
		struct raw raw;
		struct pollfd p = {.events = POLLIN};

		raw_connect(&raw, server.socket);
		raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
		p.fd = raw.fd;
		poll(&p, 1, ANSWER_MS);
		/* What cannot be sent now stays in its socket. */
		fcntl(raw.fd, F_SETFL, O_NONBLOCK);
		for (int k = 0; k < 40; k++)
			raw_send(&raw, WIRE_SEGMENTS, &want, sizeof(want), NULL,
				0);
	}
}

/* In a memfd of its own, which the keeper holds for the next server. */
static int publish(const char *name)
{
	struct tarn_publish_item item = {.name = name};
	const int64_t n = 4096, at = 3;
	int r;

	must(tarn_store_create(witness.store, TARN_U8, 1, &n,
		TARN_CREATE_MUTABLE, &item.tensor));
	must(tarn_tensor_set_i64(item.tensor, &at, 7));
	r = tarn_store_publish(witness.store, &item, 1, NULL, NULL);
	diag("%s", tarn_error_message());
	tarn_tensor_unref(item.tensor);
	return r;
}

/* The server reads one message of each client in a turn, and a report is a turn,
 * too. */
static bool becomes_full(void)
{
	bool full = false;

	for (int i = 0; i < TURNS && !full; i++) {
		witness_status(&witness);
		full = is_full();
	}
	return full;
}

static bool fill(pid_t *hoarders, int *n)
{
	bool full = false;

	*n = 0;
	while (*n < ROUNDS && !full) {
		hoarders[(*n)++] = begin_hoarder(geteuid(), ask_for_more);
		full = becomes_full();
		if (!full)
			server_kill(&server);
	}
	return full;
}

/* What the daemon's processes have in flight to each other for a moment is
 * counted, too: so that it stays full without that, a few more. */
static void add_some(int pair[static 2])
{
	struct raw raw = {0};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		bail("socketpair: %m");
	raw.fd = pair[0];
	for (int i = 0; i < MORE; i++)
		if (raw_frame(&raw, "x", 1, &pair[1], 1) < 0)
			bail("a descriptor more: %m");
}

static void end_all(const pid_t *hoarders, int n)
{
	for (int i = 0; i < n; i++) {
		kill(hoarders[i], SIGKILL);
		waitpid(hoarders[i], NULL, 0);
	}
}

int main(void)
{
	pid_t hoarders[ROUNDS];
	pid_t pid;
	int n, more[2];

	become_user();
	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&server, "s", NULL);
	witness_begin(&witness, &server);
	witness_can_load(&witness, "at the beginning");
	ok(fill(hoarders, &n),
		"as much is in flight as the kernel lets this user have");
	add_some(more);
	witness_is_served(&witness, "while nothing can be sent");
	pid = server_of(&server);
	is_int(-ETOOMANYREFS, publish("refused"),
		"a publication is refused that needs one to be sent");
	is_int(pid, server_of(&server), "no server has died of that");
	kill(pid, SIGKILL);
	/* Longer than the keeper waits for the next server. */
	usleep(12000000);
	end_all(hoarders, n);
	close(more[0]);
	close(more[1]);
	witness_is_served(&witness, "when their readers have ended");
	witness_can_load(&witness, "when their readers have ended");
	is_int(0, publish("given"), "a tensor can be published again");
	must(tarn_store_remove(witness.store, "given"));
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	if (folder)
		rmdir(folder);
	return done(9);
}
