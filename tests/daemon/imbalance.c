/* SPDX-License-Identifier: MIT */
/*
 * A server that ends in good order looks at its accounts once more. Here it is
 * one that was made wrong (imbalanced_daemon.c): it loses count of a load. It
 * says so in the log, with the figures, and the daemon ends with status 1; the
 * daemon as it is installed ends with 0 after the same.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

/* Loads a file, then asks the daemon to end; its exit status. */
static int load_and_end(const char *program, const char *log)
{
	static unsigned n;
	struct daemon server;
	tarn_store *store;
	char name[24];
	int status;

	setenv("TARN_DAEMON", program, 1);
	daemon_log_to(log);
	snprintf(name, sizeof(name), "s%u", n++);
	store = daemon_start_open(&server, name, NULL);
	if (tensor_load(store, tensor_file("file", 1, 65536), "n") < 0)
		bail("load: %s", tarn_error_message());
	tarn_store_unref(store);
	kill(server.pid, SIGTERM);
	if (waitpid(server.pid, &status, 0) != server.pid)
		bail("waitpid: %m");
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	const char *sound = getenv("TARN_DAEMON");
	const char *build = getenv("top_builddir");
	char log[300], wrong[600];

	if (!sound || !build)
		bail("TARN_DAEMON is not set; run this through tests/run");
	snprintf(wrong, sizeof(wrong), "%s/tests/daemon/imbalanced_daemon",
		build);
	snprintf(log, sizeof(log), "%s/sound", test_tmpdir());
	is_int(0, load_and_end(sound, log),
		"a daemon whose accounts add up ends with status 0");
	is_int(0, daemon_logged(log, "imbalance"),
		"a daemon whose accounts add up logs no imbalance");
	snprintf(log, sizeof(log), "%s/wrong", test_tmpdir());
	is_int(1, load_and_end(wrong, log),
		"a daemon that has lost count of a load ends with status 1");
	is_int(1, daemon_logged(log, "it has 0 loads, and is charged for 1"),
		"the log says which account does not add up, and by how much");
	daemon_log_show(log);
	remove_files();
	return done(4);
}
