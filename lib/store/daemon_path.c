/* SPDX-License-Identifier: MIT */
/*
 * Which tarnd a client starts.
 *
 * It is the one that belongs to this library: searched from the library's
 * folder, so that a build tree, a copied prefix and a bundle each start their
 * own, and only then at the configured path. TARN_DAEMON overrides all of it.
 */
#include "lib/store/daemon_path.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"

/* Relative to the folder of the library (or of the program that contains
 * it). */
static const char *const places[] = {
	"tarnd",              /* everything in one folder */
	"bin/tarnd",          /* a bundle: a wheel's package */
	"../sbin/tarnd",      /* PREFIX/lib, PREFIX/bin */
	"../../sbin/tarnd",   /* PREFIX/lib/x86_64-linux-gnu */
	"../../daemon/tarnd", /* a build tree's lib/.libs */
	"../daemon/tarnd",    /* a build tree's programs */
};

static bool try_place(const char *folder, const char *place, char ret[PATH_MAX])
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, place);
	return realpath(path, ret) && access(ret, X_OK) == 0;
}

const char *daemon_path(char buf[PATH_MAX])
{
	const char *named = secure_getenv("TARN_DAEMON");
	char folder[PATH_MAX];
	char *slash;
	Dl_info info;

	if (named && *named)
		return named;
	if (!dladdr((void *)daemon_path, &info) || !info.dli_fname ||
		!realpath(info.dli_fname, folder))
		return TARND_PATH;
	slash = strrchr(folder, '/');
	if (!slash)
		return TARND_PATH;
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (try_place(folder, places[i], buf))
			return buf;
	return TARND_PATH;
}
