/* SPDX-License-Identifier: MIT */
/*
 * What a path means to who writes to it: a symbolic link is followed, and the
 * file that it names is replaced, also one that is not there yet. rename(2)
 * would put the new file in place of the link.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "lib/save/replace.h"

/* The kernel's own bound (MAXSYMLINKS). */
#define LINKS_MAX 40

/* Where the link at path points, counted from the link's own folder. */
static char *follow(const char *path, const char *target)
{
	const char *slash = strrchr(path, '/');
	char *next = NULL;

	if (*target == '/' || !slash)
		return strdup(target);
	if (asprintf(&next, "%.*s/%s", (int)(slash - path), path, target) < 0)
		return NULL;
	return next;
}

int replace_path(const char *path, char **ret)
{
	_cleanup_free_ char *at = strdup(path);
	char target[PATH_MAX];

	for (int i = 0; at && i <= LINKS_MAX; i++) {
		ssize_t n = readlink(at, target, sizeof(target) - 1);
		char *next;

		/* EINVAL: it is no link. ENOENT: it is nothing yet; whether its
		 * folder is there will be seen. */
		if (n < 0 && (errno == EINVAL || errno == ENOENT)) {
			*ret = STEAL(at);
			return 0;
		}
		if (n < 0)
			return tarn_fail(errno, "%s", tarn_errno_text(errno));
		target[n] = '\0';
		next = follow(at, target);
		free(at);
		at = next;
	}
	if (at)
		return tarn_fail(ELOOP, "more than %d symbolic links in a row",
			LINKS_MAX);
	return tarn_fail(ENOMEM, "no memory for a path");
}
