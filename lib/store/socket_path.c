/* SPDX-License-Identifier: MIT */
/* The places where a daemon's socket may be. */
#include "lib/store/socket_path.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"

#define SYSTEM_SOCKET "/run/tarn/tarnd.sock"

static int add_place(struct socket_candidates *places, bool ours,
	const char *fmt, ...) __attribute__((__format__(printf, 3, 4)));

static int add_place(
	struct socket_candidates *places, bool ours, const char *fmt, ...)
{
	char path[4096];
	struct socket_candidate *place = &places->at[places->n];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n >= SOCKET_PATH_MAX)
		return tarn_fail(ENAMETOOLONG,
			"socket %.60s...: a path of %d bytes, %d are the most",
			path, n, SOCKET_PATH_MAX - 1);
	memcpy(place->path, path, (size_t)n + 1);
	place->ours = ours;
	places->n++;
	return 0;
}

/* "tarnd.sock", or inside a SLURM job one with its number: jobs of one user on
 * one node are accounted separately, and end separately. */
static int socket_name(char *name, size_t size)
{
	const char *job = secure_getenv("SLURM_JOB_ID");

	if (!job || !*job) {
		snprintf(name, size, "tarnd.sock");
		return 0;
	}
	for (const char *p = job; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
			return tarn_fail(EINVAL,
				"SLURM_JOB_ID is '%.40s': letters, digits, "
				"'_' and '-' can be part of a socket's name",
				job);
	if ((size_t)snprintf(name, size, "tarnd-%s.sock", job) >= size)
		return tarn_fail(ENAMETOOLONG,
			"SLURM_JOB_ID has %zu bytes, 40 are the most",
			strlen(job));
	return 0;
}

int socket_candidates(const char *socket, struct socket_candidates *ret)
{
	const char *env = secure_getenv("TARN_SOCKET");
	const char *run = secure_getenv("XDG_RUNTIME_DIR");
	struct socket_candidates places = {0};
	char name[sizeof("tarnd-.sock") + 40];
	int r;

	if (socket || (env && *env)) {
		r = add_place(&places, true, "%s", socket ? socket : env);
		if (r >= 0 && places.at[0].path[0] == '\0')
			r = tarn_fail(EINVAL, "socket: the path is empty");
		if (r >= 0)
			*ret = places;
		return r;
	}
	r = socket_name(name, sizeof(name));
	if (r >= 0)
		r = add_place(&places, false, SYSTEM_SOCKET);
	if (r >= 0 && run && run[0] == '/')
		r = add_place(&places, true, "%s/tarn/%s", run, name);
	if (r >= 0)
		r = add_place(&places, true, "/tmp/tarn-%u/%s",
			(unsigned)geteuid(), name);
	if (r >= 0)
		*ret = places;
	return r;
}
