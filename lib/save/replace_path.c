/* SPDX-License-Identifier: MIT */
/*
 * Finds the folder and the name that a path stands for when a file is written
 * there. A symbolic link in the last place is followed, also a dangling one:
 * rename(2) would put the new file in place of the link.
 *
 * The kernel cannot do this in one call. It returns no name for what it finds,
 * and it follows links that a stranger planted unless fs.protected_symlinks is
 * set. So one walk takes all components, one at a time, and follows the links
 * itself. Each step keeps the folder open and reads owner, kind and target of a
 * name by one descriptor (O_PATH | O_NOFOLLOW). So the link that is judged is
 * the link that is followed, whatever is renamed meanwhile.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/save/replace.h"

/* The kernel's own bound (MAXSYMLINKS), on all links of a path together. */
#define LINKS_MAX 40

/* As much of a path fits into a message. */
#define SHOWN_MAX 300

/* f_flags of a file system whose links are not to be followed; older headers
 * lack it. */
#ifndef ST_NOSYMFOLLOW
#define ST_NOSYMFOLLOW 0x2000
#endif

struct walk {
	struct replacement *r; /* the walk is in its folder, at its name */
	char *path; /* the passed components, the name, and the rest; owned */
	size_t at;  /* end of the passed components in path */
	size_t end; /* end of the name */
	int links;  /* followed so far */
};

/* For messages: the path up to the current name. */
static int shown(const struct walk *w)
{
	return (int)MIN(w->end, (size_t)SHOWN_MAX);
}

static int refuse_folder(const struct walk *w, int error)
{
	if (error == ENOENT)
		return tarn_fail(ENOENT,
			"the folder '%.*s' does not exist: make it first",
			shown(w), w->path);
	return tarn_fail(error, "the folder '%.*s': %s", shown(w), w->path,
		tarn_errno_text(error));
}

/* Takes the descriptor of the folder that has the name. */
static void go_to(struct walk *w, int folder)
{
	fd_close(w->r->folder);
	w->r->folder = folder;
	w->at = w->end;
}

/* A path starts in the root, in the folder of the link whose target it is, or
 * in the working folder. */
static int start(struct walk *w)
{
	const char *first = *w->path == '/' ? "/" : ".";
	int fd;

	w->at = w->end = 0;
	if (*first == '.' && w->r->folder >= 0)
		return 0;
	fd = open(first, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return tarn_fail(errno, "the folder '%s': %s", first,
			tarn_errno_text(errno));
	go_to(w, fd);
	return 0;
}

/* Replaces the path up to the link by the link's target. */
static int take_target(struct walk *w, const char *target)
{
	char *path;

	if (!*target)
		return refuse_folder(w, ENOENT);
	if (asprintf(&path, "%s%s", target, w->path + w->end) < 0)
		return tarn_fail(ENOMEM, "no memory for a path");
	free(w->path);
	w->path = path;
	return start(w);
}

static int read_link(struct walk *w, int fd)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

	if (n < 0)
		return tarn_fail(
			errno, "reading the link: %s", tarn_errno_text(errno));
	target[n] = '\0';
	return take_target(w, target);
}

/* A link of procfs leads to what a process has open, which its text need not
 * name. The kernel makes all of these links, so it may follow them. */
static int enter_by_kernel(struct walk *w)
{
	int fd = openat(
		w->r->folder, w->r->name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return refuse_folder(w, errno);
	go_to(w, fd);
	return 0;
}

/* Follows the link that fd is, if it may be followed. */
static int follow(struct walk *w, int fd, const struct stat *link, bool last)
{
	struct statfs fs = {0};
	struct stat folder;
	char name[SHOWN_MAX + 1];
	int err;

	snprintf(name, sizeof(name), "%.*s", shown(w), w->path);
	if (fstat(w->r->folder, &folder) < 0 || fstatfs(fd, &fs) < 0)
		return tarn_fail(errno, "the symbolic link '%s': %s", name,
			tarn_errno_text(errno));
	err = replace_trust_link(&folder, link, name);
	if (err < 0)
		return err;
	if (++w->links > LINKS_MAX)
		return tarn_fail(ELOOP, "more than %d symbolic links in a path",
			LINKS_MAX);
	if (fs.f_flags & ST_NOSYMFOLLOW)
		return tarn_fail(ELOOP,
			"the symbolic link '%s' is on a file system that is "
			"mounted with nosymfollow: it is not followed",
			name);
	if (fs.f_type == PROC_SUPER_MAGIC && !last)
		return enter_by_kernel(w);
	return read_link(w, fd);
}

/* Goes through a component that is not the last. O_DIRECTORY comes first, as
 * only that mounts what is mounted on demand. */
static int enter(struct walk *w)
{
	const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_fd_ int fd =
		openat(w->r->folder, w->r->name, flags | O_DIRECTORY);
	struct stat st;

	if (fd >= 0) {
		go_to(w, fd_steal(&fd));
		return 0;
	}
	if (errno == ENOTDIR || errno == ELOOP)
		fd = openat(w->r->folder, w->r->name, flags);
	if (fd < 0 || fstat(fd, &st) < 0)
		return refuse_folder(w, errno);
	if (!S_ISLNK(st.st_mode))
		return refuse_folder(w, ENOTDIR);
	return follow(w, fd, &st, false);
}

/* Examines the last component. 1: the file belongs here. */
static int arrive(struct walk *w)
{
	struct replacement *r = w->r;
	_cleanup_fd_ int fd = -1;
	struct stat folder;
	int err;

	if (r->exclusive)
		return 1;
	fd = openat(r->folder, r->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || fstat(fd, &r->old) < 0 || fstat(r->folder, &folder) < 0)
		return tarn_fail(errno, "%s", tarn_errno_text(errno));
	if (S_ISLNK(r->old.st_mode)) {
		err = follow(w, fd, &r->old, true);
		r->old.st_mode = 0;
		return err;
	}
	err = S_ISREG(r->old.st_mode) ? replace_trust_file(&folder, &r->old)
				      : 0;
	return err < 0 ? err : 1;
}

/* Takes the next component into r->name. 1: it is the last. */
static int next(struct walk *w)
{
	const char *at = w->path + w->at, *name = at + strspn(at, "/");
	size_t n = strcspn(name, "/");
	bool last = !name[n];

	if (last && (!n || !strcmp(name, ".") || !strcmp(name, "..")))
		return tarn_fail(
			EISDIR, "it names a folder: give the name of a file");
	if (n > NAME_MAX)
		return tarn_fail(ENAMETOOLONG,
			"a name of %zu bytes; file systems take at most %d", n,
			NAME_MAX);
	memcpy(w->r->name, name, n);
	w->r->name[n] = '\0';
	w->end = (size_t)(name + n - w->path);
	return last;
}

/* 1: the walk is over. */
static int step(struct walk *w)
{
	int last = next(w);

	if (last < 0)
		return last;
	return last ? arrive(w) : enter(w);
}

int replace_find(struct replacement *r, const char *path)
{
	struct walk w = {.r = r};
	int err;

	if (strlen(path) >= PATH_MAX)
		return tarn_fail(ENAMETOOLONG,
			"a path of %zu bytes; the kernel takes less than %d",
			strlen(path), PATH_MAX);
	w.path = strdup(path);
	if (!w.path)
		return tarn_fail(ENOMEM, "no memory for a path");
	err = start(&w);
	while (err == 0)
		err = step(&w);
	free(w.path);
	return err < 0 ? err : 0;
}
