/* SPDX-License-Identifier: MIT */
/*
 * More users than a daemon has regions for, one after the other. Each is let
 * in: a user who leaves nothing behind gives its place to the next, who does
 * not notice. A user who left a name keeps its place, and the name; when all
 * have, the next user is refused, and only that one. A user who left a
 * descriptor that cannot be closed keeps its place, too, until the process
 * that closes it is killed.
 *
 * Needs root, since only root can be many users.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/table.h"
#include "tests/kit/linger.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define FIRST 20000
#define USERS 400 /* 256 have a region at once */
#define PATIENCE_S 60.0

static struct daemon server;

/* Connects as that user; false: it is told why not. */
static bool comes(struct raw *raw, uid_t uid)
{
	const struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};

	if (seteuid(uid) < 0)
		bail("seteuid: %m");
	raw_connect(raw, "s");
	if (seteuid(0) < 0)
		bail("seteuid: %m");
	raw_send(raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	if (raw_receive(raw, RAW_PATIENCE_MS) != WIRE_WELCOME ||
		raw->n_fds != 2)
		return false;
	raw->table = raw->fds[0];
	raw->lease = raw->fds[1];
	raw->n_fds = 0;
	return true;
}

static bool leaves_a_name(struct raw *raw)
{
	struct order order = {0};

	order_bytes(&order, "left", 0);
	return order_load(&order, raw, -1, -1) == WIRE_LOADED;
}

/* Its region is its own: who it is of, and how many names there are. */
static bool sees(const struct raw *raw, uid_t uid, uint64_t names)
{
	struct table table;
	bool fine;

	if (table_map(raw->table, false, &table) < 0)
		return false;
	fine = table.header->uid == uid && table.header->n_names == names;
	if (!fine)
		diag("uid %u: %llu names of uid %u", uid,
			(unsigned long long)table.header->n_names,
			table.header->uid);
	table_unmap(&table);
	return fine;
}

/* The same, when the end of another has been heard of, whose place it takes. */
static bool comes_in_the_end(struct raw *raw, uid_t uid)
{
	double end = seconds() + PATIENCE_S;

	while (!comes(raw, uid)) {
		if (raw->error != EUSERS || seconds() > end)
			return false;
		raw_close(raw);
		usleep(20000);
	}
	return true;
}

/* They come and go, and leave names or nothing. How many were let in, and saw
 * what they should. */
static int come_and_go(uid_t first, int n, bool leave_names)
{
	int fine = 0;

	for (int i = 0; i < n; i++) {
		uid_t uid = first + (uid_t)i;
		struct raw raw;

		if (!comes_in_the_end(&raw, uid))
			diag("uid %u: %s", uid, raw.text);
		else
			fine += sees(&raw, uid, 0) &&
				(!leave_names || leaves_a_name(&raw));
		raw_close(&raw);
	}
	return fine;
}

static void test_nothing_left(void)
{
	struct raw raw, stays;
	double start = seconds();

	ok(comes(&stays, 1234) && sees(&stays, 1234, 0),
		"a user connects and stays");
	is_int(1, come_and_go(FIRST, 1, true), "a user leaves a name");
	is_int(USERS, come_and_go(FIRST + 1, USERS, false),
		"any number of users that leave nothing are let in");
	ok(comes(&raw, FIRST) && sees(&raw, FIRST, 1),
		"the first user's name still exists");
	raw_close(&raw);
	ok(leaves_a_name(&stays) && sees(&stays, 1234, 1),
		"the user who stayed is served");
	raw_close(&stays);
	diag("in %.1f s", seconds() - start);
}

static void test_restart(void)
{
	struct raw raw;

	server_kill(&server);
	is_int(300, come_and_go(FIRST + USERS + 1, 300, false),
		"users are let in after the server's death");
	ok(comes(&raw, FIRST) && sees(&raw, FIRST, 1),
		"the name is there after the server's death");
	raw_close(&raw);
}

/* Somebody leaves: the next user takes its place. */
static bool takes_its_place(uid_t uid)
{
	double end = seconds() + PATIENCE_S;
	struct raw raw;
	bool in;

	do {
		in = comes(&raw, uid) && sees(&raw, uid, 0);
		raw_close(&raw);
	} while (!in && seconds() < end && usleep(20000) == 0);
	return in;
}

/* The newest process that closes for the server; 0: there is none. */
static pid_t newest_closer(void)
{
	pid_t launcher = child_named(server_of(&server), "tarn-closer");

	return launcher ? child_named(launcher, "tarn-closer") : 0;
}

/* The message is in the queue before the server reads it: this process must not
 * be the last to close the socket. */
static void send_lingering(struct raw *raw, int fd)
{
	pid_t pid = server_of(&server);

	kill(pid, SIGSTOP);
	raw_send(raw, WIRE_PING, NULL, 0, &fd, 1);
	close(fd);
	kill(pid, SIGCONT);
}

/* All places are taken, and by names all but this user's. */
static void test_killed_closer(uid_t uid, uid_t next)
{
	int fd = lingering(), killed = 0;
	double end = seconds() + PATIENCE_S;
	struct raw raw;
	bool in;

	if (fd < 0) {
		skip(3, "no TCP on the loopback interface");
		return;
	}
	ok(comes(&raw, uid), "a user comes with a socket that lingers");
	send_lingering(&raw, fd);
	is_int(WIRE_PONG, raw_receive(&raw, RAW_PATIENCE_MS),
		"the user with the socket is answered");
	raw_close(&raw);
	/* Again if it was killed before it took the socket. */
	do {
		pid_t pid = newest_closer();

		killed += pid && kill(pid, SIGKILL) == 0;
		usleep(20000);
		in = comes(&raw, next) && sees(&raw, next, 0);
		raw_close(&raw);
	} while (!in && seconds() < end);
	diag("%d processes were killed", killed);
	ok(in && killed,
		"the next user takes the place when the closing process is "
		"killed");
	let_go();
}

/* Of the 256 regions, two users have one already, as they have left names. */
static void test_names_left(void)
{
	const uid_t first = 40000;
	struct raw raw;
	bool in;

	is_int(254, come_and_go(first, 254, true), "254 users leave names");
	ok(!comes(&raw, first + 254), "the next user is refused");
	is_int(EUSERS, raw.error,
		"the error for a user without a region is EUSERS");
	has_str("256 users", raw.text, "the error has the limit of users");
	raw_close(&raw);
	in = comes(&raw, first);
	raw_send(&raw, WIRE_REMOVE, "left", 4, NULL, 0);
	is_int(WIRE_DONE, in ? raw_receive(&raw, RAW_PATIENCE_MS) : 0,
		"a user removes its name");
	raw_close(&raw);
	ok(takes_its_place(first + 254), "the next user takes its place");
	test_killed_closer(first + 254, first + 255);
}

int main(void)
{
	/* What is only kept for a while keeps a place as well. */
	const char *const args[] = {"--mode", "0666", "--idle", "1", NULL};

	if (geteuid()) {
		remove_files();
		skip_all("only root can be many users");
	}
	if (chmod(test_tmpdir(), 0711) < 0 || chdir(test_tmpdir()) < 0)
		bail("%s: %m", test_tmpdir());
	daemon_start(&server, "s", args);
	test_nothing_left();
	test_restart();
	test_names_left();
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	if (chdir("/") < 0)
		bail("chdir: %m");
	remove_files();
	return done(17);
}
