/* SPDX-License-Identifier: MIT */
/*
 * Where others may write the folder above the daemon's, one of them can put its
 * own folder there, wait until the daemon has seen that it is no link, and put a
 * link in its place before the daemon follows the path. So the daemon compares
 * where it has arrived with what it saw. Here the swap is made by realpath(),
 * which is where the path is followed.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "daemon/keeper/listener.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

static char folder[300], aside[300], target[300], path[320];
static void (*follow)(void); /* what others do before a path is followed */

/* ---- the call, by whichever name the headers have it --------------------- */

char *__real_realpath(const char *name, char *resolved);
char *__wrap_realpath(const char *name, char *resolved);
char *__wrap___realpath_chk(const char *name, char *resolved, size_t size);

char *__wrap_realpath(const char *name, char *resolved)
{
	if (follow)
		follow();
	return __real_realpath(name, resolved);
}

char *__wrap___realpath_chk(const char *name, char *resolved, size_t size)
{
	return size < PATH_MAX ? NULL : __wrap_realpath(name, resolved);
}

/* ---- what others do ------------------------------------------------------ */

static void swap(void)
{
	if (rename(folder, aside) < 0 || symlink(target, folder) < 0)
		bail("the folder cannot be replaced by a link: %m");
}

static void swap_back(void)
{
	if (unlink(folder) < 0 || rename(aside, folder) < 0)
		bail("the link cannot be replaced by the folder: %m");
}

/* ---- the daemon's listener ----------------------------------------------- */

static int opens(void (*meanwhile)(void))
{
	struct listener *listener = NULL;
	int r;

	follow = meanwhile;
	r = listener_open(path, 0600, -1, &listener);
	follow = NULL;
	listener_close(listener);
	return r;
}

static void make_folder(const char *at)
{
	if (mkdir(at, 0700) < 0)
		bail("%s: %m", at);
}

int main(void)
{
	snprintf(folder, sizeof(folder), "%s/own", test_tmpdir());
	snprintf(aside, sizeof(aside), "%s/aside", test_tmpdir());
	snprintf(target, sizeof(target), "%s/target", test_tmpdir());
	snprintf(path, sizeof(path), "%s/tarnd.sock", folder);
	make_folder(folder);
	make_folder(target);
	is_int(0, opens(NULL), "a listener opens in a folder that is there");
	is_int(-ESTALE, opens(swap),
		"a folder that becomes a link as its path is followed is "
		"refused");
	has_str("replaced the folder", tarn_fail_message(),
		"the error says that the folder was replaced");
	is_int(0, rmdir(target),
		"nothing is left in the folder to which the link leads");
	make_folder(target);
	is_int(0, opens(NULL), "a link of the daemon's own user is followed");
	swap_back();
	snprintf(path, sizeof(path), "%s//./tarnd.sock", folder);
	is_int(0, opens(NULL),
		"a path with \"//./\" in it leads to its folder");
	remove_files();
	return done(6);
}
