/* SPDX-License-Identifier: MIT */
/* See replace.h. */
#include "tests/kit/replace.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/save/replace.h"
#include "tests/kit/tap.h"

const char *kit_replace_folder;

void kit_replace_begin(void)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/r", test_tmpdir());
	kit_replace_folder = path;
	mkdir(path, 0755);
}

void kit_replace_end(void)
{
	rmdir(kit_replace_folder);
}

const char *kit_replace_in(const char *name)
{
	static char paths[4][4096];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", kit_replace_folder, name);
	return path;
}

void kit_replace_put(const char *name, const char *text, mode_t mode)
{
	int fd = open(kit_replace_in(name),
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 ||
		fchmod(fd, mode) < 0)
		bail("%s: %m", name);
	fd_close(fd);
}

void kit_replace_contains(
	const char *name, const char *wanted, const char *what)
{
	char text[256] = "nothing";
	ssize_t n = fd_read_text(kit_replace_in(name), text, sizeof(text));

	is_str(wanted, n < 0 ? tarn_errno_text((int)-n) : text,
		"%s: the file is as expected: %s", name, what);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void kit_replace_only(const char *wanted, const char *what)
{
	DIR *d = opendir(kit_replace_folder);
	char *names[64], seen[4096] = "";
	struct dirent *e;
	size_t n = 0, used = 0;

	while ((e = readdir(d)) && n < 64)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			names[n++] = strdup(e->d_name);
	closedir(d);
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++) {
		used += (size_t)snprintf(seen + used, sizeof(seen) - used,
			"%s%s", i ? " " : "", names[i]);
		if (unlink(kit_replace_in(names[i])) < 0)
			rmdir(kit_replace_in(names[i]));
		free(names[i]);
	}
	is_str(wanted, seen, "%s: the folder has no other file", what);
}

int kit_replace(const char *path, bool exclusive, const char *text)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	int err = replace_begin(path, exclusive, &r);

	if (err >= 0)
		err = replace_reserve(r, strlen(text));
	if (err >= 0)
		err = fd_write_all(r->fd, text, strlen(text));
	return err < 0 ? err : replace_commit(r);
}
