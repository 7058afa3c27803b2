/* SPDX-License-Identifier: MIT */
/*
 * A daemon with few descriptors. More clients than it has descriptors for, or
 * one that asks for descriptors and reads none, once ended it: a message from
 * keeper to server came without its descriptor, and was taken for the end of
 * the keeper. Now clients beyond the limit are turned away, and the others are
 * served. And other small things that once grew without end, or ended what
 * they should not have touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum { DESCRIPTORS = 256, CLIENTS = 150 };

static struct daemon server;
static struct witness witness;

static void too_many_clients(void)
{
	static struct raw raw[CLIENTS];
	int welcome = 0;

	for (int i = 0; i < CLIENTS; i++) {
		struct msg_hello hello = {.version = PROTOCOL_VERSION,
			.version_min = PROTOCOL_OLDEST};

		raw_connect(&raw[i], server.socket);
		raw_send(&raw[i], WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
		if (raw_receive(&raw[i], RAW_PATIENCE_MS) == WIRE_WELCOME)
			welcome++;
		/* The welcome's descriptors are of no use to us. */
		close(raw[i].table);
		close(raw[i].lease);
		raw[i].table = raw[i].lease = -1;
	}
	diag("%d clients are welcome", welcome);
	ok(welcome >= 20, "clients are welcome while there are descriptors");
	ok(welcome < CLIENTS, "clients beyond the descriptors are turned away");
	witness_is_served(&witness, "too many clients come");
	witness_can_load(&witness, "too many clients are there");
	for (int i = 0; i < CLIENTS; i++)
		raw_close(&raw[i]);
	witness_compare(&witness);
}

/* It asks for segments, and never reads what comes. */
static void hoarder(void)
{
	struct msg_segments ask = {.first = 0, .count = 64};
	struct {
		struct wire_header header;
		struct msg_segments ask;
	} frame = {.header = {.magic = WIRE_MAGIC,
			   .type = WIRE_SEGMENTS,
			   .serial = 1,
			   .size = sizeof(ask)},
		.ask = ask};
	struct raw raw;
	int asked = 0, in_vain = 0;

	raw_open(&raw, server.socket);
	fcntl(raw.fd, F_SETFL, O_NONBLOCK);
	while (asked < 20000 && in_vain < 10) {
		if (raw_frame(&raw, &frame, sizeof(frame), NULL, 0) > 0) {
			asked++;
			in_vain = 0;
			continue;
		}
		if (errno != EAGAIN)
			bail("segments cannot be asked for: %m");
		/* In which it is heard, if it is. */
		witness_status(&witness);
		in_vain++;
	}
	diag("not heard after %d", asked);
	ok(asked < 20000, "a client that hoards descriptors is not read");
	witness_is_served(&witness, "somebody hoards descriptors");
	witness_can_load(&witness, "somebody hoards descriptors");
	raw_close(&raw);
	witness_compare(&witness);
}

/* All empty files are one storage, however many are loaded. */
static void empty_loads(void)
{
	uint64_t before = witness_status(&witness).storages;
	struct raw raw;

	raw_open(&raw, server.socket);
	for (int i = 0; i < 300; i++) {
		static struct order order;

		if (order_load(&order, &raw, -1, -1) != WIRE_LOADED)
			bail("an empty load: %s", raw.text);
	}
	/* A storage that no client has is released after a second. */
	ok(witness_status(&witness).storages <= before + 1,
		"300 empty files take no more memory than one");
	raw_close(&raw);
}

/* Nobody reads what it logs, and the pipe is full. */
static void full_log(void)
{
	static const char line[4096];
	struct witness other;
	struct daemon daemon;
	int ends[2], saved = dup(2);

	if (saved < 0 || pipe2(ends, O_NONBLOCK) < 0)
		bail("a pipe: %s", strerror(errno));
	while (write(ends[1], line, sizeof(line)) > 0)
		;
	/* Not blocking was for us; the daemon's end is as others are. */
	fcntl(ends[1], F_SETFL, 0);
	dup2(ends[1], 2);
	daemon_start(&daemon, "log.sock",
		(const char *const[]) {"--idle", "1", NULL});
	dup2(saved, 2);
	close(saved);
	witness_begin(&other, &daemon);
	witness_can_load(&other, "its log is stuck");
	witness_end(&other);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	close(ends[0]);
	close(ends[1]);
}

/* tarnd --socket FILE */
static void mistyped_path(void)
{
	char *path = strdup(made_file("precious.bin", 4096, 3));
	const char *program = getenv("TARN_DAEMON");
	struct stat st = {0};
	int status = 0, null;
	pid_t pid = fork();

	if (pid == 0) {
		null = open("/dev/null", O_WRONLY);
		dup2(null, 2);
		execl(program, program, "--socket", path, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	is_int(1, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		"a file at the socket's path is an error");
	ok(stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 4096,
		"the file at the socket's path is left as it was");
	free(path);
}

int main(void)
{
	mistyped_path();
	full_log();
	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&server, "limits.sock",
		(const char *const[]) {"--idle", "1", NULL});
	witness_begin(&witness, &server);
	empty_loads();
	too_many_clients();
	hoarder();
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(43);
}
