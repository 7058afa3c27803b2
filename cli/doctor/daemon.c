/* SPDX-License-Identifier: MIT */
/* The daemon that tarn would use, or start. It starts none. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tarn/error.h>
#include <tarn/report.h>

#include "base/fail.h"
#include "base/fd.h"
#include "cli/doctor/doctor.h"
#include "cli/store.h"
#include "lib/store/daemon_path.h"
#include "lib/store/socket_connect.h"
#include "lib/store/socket_path.h"

#define CONNECT_MS 2000 /* it accepted a connection just now */

/* ---- one that runs ------------------------------------------------------- */

/* The kernel's word on the process that listens. */
static bool find_peer(const char *path, struct ucred *ret)
{
	socklen_t size = sizeof(*ret);
	_cleanup_fd_ int fd = -1;

	return socket_connect(path, CONNECT_MS, &fd) >= 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) == 0;
}

static void find_running(
	struct findings *findings, struct machine *machine, tarn_store *store)
{
	const char *path = tarn_store_socket(store);
	struct tarn_report *report = NULL;
	struct ucred peer;
	struct finding *f;

	if (tarn_store_report(store, &report) < 0 || !find_peer(path, &peer)) {
		found_unknown(findings, "daemon", "socket",
			"%s: a daemon runs, and tells nothing", path);
		tarn_report_free(report);
		return;
	}
	f = found(findings, "daemon", "socket",
		"%s: tarnd %s of uid %u, protocol %" PRIu32, path,
		report->daemon.version, peer.uid, report->daemon.protocol);
	if (report->daemon.inherited[0]) {
		f = found(findings, "daemon", "inherited", "%s",
			report->daemon.inherited);
		advise(f, WORTH_COSTS,
			"The process that started the daemon was confined so, "
			"and the daemon cannot undo it.",
			"tarn stop, then start it from another process");
	}
	/* Its clients of other users get nothing to register. */
	for (uint32_t i = 0; i < report->n_pools; i++)
		if (peer.uid == geteuid() && report->pools[i].uid == peer.uid)
			machine->registers |= report->nodes[i].registers;
	if (report->daemon.keeper_pid)
		snprintf(machine->process, sizeof(machine->process), "%" PRId32,
			report->daemon.keeper_pid);
	tarn_report_free(report);
}

/* ---- none ---------------------------------------------------------------- */

/* Could a daemon make its socket there? 0, or -errno. */
static int may_serve(const char *path)
{
	int r = socket_folder_check(path, false);
	char above[SOCKET_PATH_MAX], *slash;

	if (r != -ENOENT)
		return r;
	/* The daemon makes the folder, but none above it. */
	snprintf(above, sizeof(above), "%s", path);
	for (int i = 0; i < 2; i++) {
		slash = strrchr(above, '/');
		if (!slash)
			return -ENOENT;
		*slash = '\0';
	}
	return access(*above ? above : "/", W_OK | X_OK) == 0 ? 0 : -ENOENT;
}

/* Where the library would start one; NULL, with a sentence in why. */
static const char *find_place(
	const struct socket_candidates *places, const char **why)
{
	for (int i = 0; i < places->n; i++) {
		const char *path = places->at[i].path;
		int r = places->at[i].ours ? may_serve(path) : -ENOENT;

		if (r >= 0)
			return path;
		if (r == -ENOENT || r == -EACCES)
			continue;
		*why = tarn_fail_message();
		return NULL;
	}
	*why = "there is no folder for a socket";
	return NULL;
}

static void find_none(
	struct findings *findings, const char *socket, bool forbidden)
{
	struct socket_candidates places = {0};
	const char *path = NULL, *why = "", *program;
	char space[PATH_MAX];
	struct finding *f;

	if (socket_candidates(socket, &places) < 0)
		why = tarn_fail_message();
	else
		path = find_place(&places, &why);
	if (!path) {
		f = found(findings, "daemon", "socket", "%s", why);
		advise(f, WORTH_BROKEN, "No daemon can be started.",
			"TARN_SOCKET=PATH, in a folder of mode 0700 that is "
			"yours");
		return;
	}
	f = found(findings, "daemon", "socket",
		"%s: none runs; one is started when it is needed", path);
	if (forbidden) {
		snprintf(f->value, sizeof(f->value),
			"%s: none runs, and TARN_AUTOSTART=0", path);
		advise(f, WORTH_BROKEN, "Loads fail.",
			"unset TARN_AUTOSTART, or tarnd --socket %s", path);
	}
	program = daemon_path(space);
	f = found(findings, "daemon", "program", "%s", program);
	if (access(program, X_OK) < 0)
		advise(f, WORTH_BROKEN, "It is no program, so none is started.",
			"TARN_DAEMON=PATH of tarnd");
}

/* ---- either -------------------------------------------------------------- */

static bool is_nobody(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET ||
	       r == -EPIPE;
}

void find_daemon(
	struct findings *findings, struct machine *machine, const char *socket)
{
	const char *autostart = getenv("TARN_AUTOSTART");
	bool forbidden = autostart && strcmp(autostart, "0") == 0;
	_cleanup_store_ tarn_store *store = NULL;
	struct finding *f;
	int r;

	setenv("TARN_AUTOSTART", "0", 1);
	r = tarn_store_open(socket, NULL, &store);
	if (r >= 0) {
		find_running(findings, machine, store);
	} else if (is_nobody(r)) {
		find_none(findings, socket, forbidden);
	} else {
		f = found(findings, "daemon", "socket", "%s",
			tarn_error_message());
		advise(f, WORTH_BROKEN, "Loads fail.",
			"TARN_SOCKET=PATH of another socket");
	}
}
