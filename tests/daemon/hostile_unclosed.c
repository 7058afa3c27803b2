/* SPDX-License-Identifier: MIT */
/*
 * A user sends, over and over, descriptors of a file whose file system does
 * not answer when they are closed. They stay with the server, but only up to a
 * limit: beyond a thousand the user's messages are not read any more, and
 * others have descriptors left to be served with.
 *
 * Needs root, since only root can be two users.
 */
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/fuse_hang.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define ENEMY 12345
#define MOST 1024 /* that a server keeps for one user */
#define ROUNDS 120

static struct daemon server;
static struct witness witness;
static _Atomic int *rounds; /* of the enemy: connections that ended */

/* As many as a message may have, again and again; then another connection. */
static void send_them(struct raw *raw, int fd)
{
	int fds[WIRE_FDS_MAX], n = 0;

	for (int i = 0; i < WIRE_FDS_MAX; i++)
		fds[i] = fd;
	while (n++ < 4 &&
		raw_send(raw, WIRE_PING, NULL, 0, fds, WIRE_FDS_MAX) >= 0 &&
		raw_receive(raw, 3000) == WIRE_PONG)
		;
}

static _Noreturn void attack(int fd)
{
	const struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (chdir(test_tmpdir()) < 0 || setgroups(0, NULL) < 0 ||
		setresgid(ENEMY, ENEMY, ENEMY) < 0 ||
		setresuid(ENEMY, ENEMY, ENEMY) < 0)
		_exit(1);
	for (;; (*rounds)++) {
		struct raw raw;

		raw_connect(&raw, "s");
		raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
		if (raw_receive(&raw, 3000) == WIRE_WELCOME)
			send_them(&raw, fd);
		raw_close(&raw);
	}
}

/* The most descriptors that the server had meanwhile. */
static int most_while_attacked(pid_t enemy)
{
	pid_t pid = child_named(server.pid, "tarn-server");
	double end = seconds() + 180;
	int most = 0, n;

	while (*rounds < ROUNDS && seconds() < end &&
		waitpid(enemy, NULL, WNOHANG) == 0) {
		n = count_fds(pid);
		most = n > most ? n : most;
		usleep(20000);
	}
	/* What hangs stays. */
	n = count_fds(pid);
	return n > most ? n : most;
}

int main(void)
{
	const char *const args[] = {"--mode", "0666", "--idle", "1", NULL};
	const char *why =
		geteuid() ? "only root can be two users" : hang_begin();
	int fd, most;
	pid_t enemy;

	if (why) {
		remove_files();
		skip_all("%s", why);
	}
	if (chmod(test_tmpdir(), 0711) < 0)
		bail("%s: %m", test_tmpdir());
	rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	fd = opened(hang_path(HANG_FLUSH));
	hang_arm();
	fflush(stdout);
	enemy = fork();
	if (enemy == 0)
		attack(fd);
	most = most_while_attacked(enemy);
	diag("the enemy came %d times, %d descriptors at most", *rounds, most);
	ok(*rounds >= ROUNDS, "the hostile user connects again and again");
	ok(hang_has_caught(1), "the hostile user's file hangs in close()");
	ok(most > 500, "the server has free descriptors left");
	ok(most < MOST + 4 * WIRE_FDS_MAX + 100,
		"the server holds a bounded number of unclosed descriptors");
	witness_is_served(&witness, "descriptors cannot be closed");
	witness_can_load(&witness, "descriptors cannot be closed");
	hang_end();
	kill(enemy, SIGKILL);
	waitpid(enemy, NULL, 0);
	close(fd);
	ok(witness_is_served(&witness, "the file system was cut off"),
		"the daemon serves after the file system was cut off");
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(9);
}
