/* SPDX-License-Identifier: MIT */
/*
 * The kernel limits the descriptors that a daemon without CAP_SYS_RESOURCE and
 * CAP_SYS_ADMIN, such as root's in a container, may have in flight. A user asks
 * for descriptors on many connections and reads none, or has its connections
 * ended with the answers unread: once the daemon could then send no descriptor
 * to anybody. Another user is served all the while.
 *
 * Needs root, since only root can be two users.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/enemy.h"
#include "tests/kit/must.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define ENEMY 12345

/* Fewer than the daemon lets in with so many descriptors, so that there is a
 * place for others. */
#define CONFIG "[quota]\nconnections = 60\n"

enum { DESCRIPTORS = 1024, HELLOS = 30, CONNECTIONS = 60, ENDED = 600 };

static struct daemon server;
static struct witness witness;

/* ---- a daemon with few rights --------------------------------------------- */

static bool drop_bound(unsigned long right)
{
	return prctl(PR_CAPBSET_READ, right) != 1 ||
	       prctl(PR_CAPBSET_DROP, right) == 0;
}

/* Programs that are executed from here on do not have them; this one keeps what
 * it has. */
static bool give_up_rights(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (!drop_bound(CAP_SYS_RESOURCE) || !drop_bound(CAP_SYS_ADMIN) ||
		syscall(SYS_capget, &head, data) < 0)
		return false;
	data[0].inheritable = data[1].inheritable = 0;
	return syscall(SYS_capset, &head, data) == 0;
}

static void write_config(const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f || fputs(CONFIG, f) < 0 || fclose(f) != 0)
		bail("%s: %m", path);
}

/* ---- the enemy ------------------------------------------------------------ */

static void send_hellos(struct raw *raw, int n)
{
	const struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};

	for (int i = 0; i < n; i++) {
		raw->again = i > 0;
		raw_send(raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	}
}

/* It is answered, or refused: as many as there may be are unread. */
static void wait_for_answer(const struct raw *raw)
{
	struct pollfd p = {.fd = raw->fd, .events = POLLIN};

	poll(&p, 1, 20);
}

/* As many connections at once as the daemon lets in. */
static void do_not_read(void)
{
	struct raw raw;

	for (int i = 0; i < CONNECTIONS; i++) {
		raw_connect(&raw, "s");
		fcntl(raw.fd, F_SETFL, O_NONBLOCK);
		send_hellos(&raw, HELLOS);
	}
}

/* One after the other: the daemon ends each for a message that is none. */
static void be_ended(void)
{
	struct raw raw;

	for (int i = 0; i < ENDED; i++) {
		raw_connect(&raw, "s");
		fcntl(raw.fd, F_SETFL, O_NONBLOCK);
		send_hellos(&raw, 1);
		wait_for_answer(&raw);
		raw_frame(&raw, "garbage", 7, NULL, 0);
	}
}

/* ---- the others ------------------------------------------------------------ */

static void is_let_in(const char *while_what)
{
	tarn_store *store = NULL;

	if (!is_int(0, tarn_store_open(server.socket, NULL, &store),
		    "another user is let in while %s", while_what))
		diag("%s", tarn_error_message());
	tarn_store_unref(store);
}

static void is_served_under(void (*attack)(void), const char *while_what)
{
	double start;
	pid_t pid = begin_hoarder(ENEMY, attack);

	usleep(200000);
	start = seconds();
	is_let_in(while_what);
	witness_is_served(&witness, while_what);
	witness_can_load(&witness, while_what);
	diag("%s: %.1f s", while_what, seconds() - start);
	is_int(0, kill(pid, SIGKILL), "the hostile user is still there");
	waitpid(pid, NULL, 0);
}

/* What waits in the socket is answered when the answers before it are read. */
static void reads_late(void)
{
	int welcomes = 0;
	struct raw raw;

	raw_connect(&raw, server.socket);
	send_hellos(&raw, HELLOS);
	usleep(200000);
	for (int i = 0; i < HELLOS; i++)
		welcomes += raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_WELCOME;
	is_int(HELLOS, welcomes, "a client that reads late gets all answers");
	raw_close(&raw);
}

int main(void)
{
	char conf[300];
	const char *const args[] = {"--mode", "0666", "--config", conf, NULL};

	if (geteuid() != 0)
		skip_all("only root can be two users");
	if (!give_up_rights())
		skip_all(
			"CAP_SYS_RESOURCE and CAP_SYS_ADMIN cannot be dropped");
	if (chmod(test_tmpdir(), 0711) < 0)
		bail("%s: %m", test_tmpdir());
	snprintf(conf, sizeof(conf), "%s/conf", test_tmpdir());
	write_config(conf);
	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	is_served_under(do_not_read, "a user does not read descriptors");
	is_served_under(be_ended, "a user's connections end unread");
	reads_late();
	witness_is_served(&witness, "at the end");
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	unlink(conf);
	remove_files();
	return done(11);
}
