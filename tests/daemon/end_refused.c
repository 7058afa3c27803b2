/* SPDX-License-Identifier: MIT */
/*
 * The daemon is asked to end while the kernel refuses to send descriptors, since
 * others leave theirs unread: a message to the server waits behind a client that
 * cannot be sent to it, or all that a new server must know waits. The first
 * SIGTERM was queued behind that, and the daemon stayed; now it ends.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

static char refuses[300];
static struct daemon server;
static struct witness witness;

static void begin(const char *name)
{
	daemon_start(&server, name, NULL);
	witness_begin(&witness, &server);
	close(open(refuses, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void end(const char *when)
{
	is_int(0, daemon_stop(&server), "the first SIGTERM ends the daemon %s",
		when);
	unlink(refuses);
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
}

/* The keeper has it, and cannot pass it on. */
static void test_client(void)
{
	struct raw raw;

	begin("client");
	raw_connect(&raw, server.socket);
	usleep(300000);
	end("while a client waits to be sent to the server");
	raw_close(&raw);
}

static void test_server(void)
{
	begin("server");
	server_kill(&server);
	end("while a new server waits for its state");
}

/* It was asked before; it is the next server that cannot be asked. */
static void test_dies_then(void)
{
	pid_t pid;

	begin("then");
	pid = server_of(&server);
	kill(pid, SIGSTOP);
	kill(server.pid, SIGTERM);
	usleep(300000);
	kill(pid, SIGKILL);
	for (int i = 0; i < 1200 && waitpid(server.pid, NULL, WNOHANG) == 0;
		i++)
		usleep(100000);
	is_int(-1, kill(server.pid, 0),
		"a daemon that was asked to end does so although its server "
		"died and nothing can be sent to the next");
	kill(server.pid, SIGKILL);
	waitpid(server.pid, NULL, 0);
	unlink(refuses);
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
}

int main(void)
{
	const char *build = getenv("top_builddir");
	char program[600];

	if (!build)
		bail("top_builddir is not set; run this through tests/run");
	snprintf(program, sizeof(program), "%s/tests/daemon/refusing_daemon",
		build);
	snprintf(refuses, sizeof(refuses), "%s/refuses", test_tmpdir());
	setenv("TARN_DAEMON", program, 1);
	setenv("TARN_TEST_REFUSES", refuses, 1);
	test_client();
	test_server();
	test_dies_then();
	remove_files();
	return done(3);
}
