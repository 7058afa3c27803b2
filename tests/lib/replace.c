/* SPDX-License-Identifier: MIT */
/*
 * A file replaces another: what it may replace and what it refuses, whose
 * rights it has, what is left when the save is given up. Each case ends with a
 * look at the folder, which may have no other file than the case names.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/save/replace.h"
#include "tests/kit/tap.h"

static const char *folder;

/* One of a few buffers: sentences compare two. */
static const char *in(const char *name)
{
	static char paths[4][4096];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const char *text, mode_t mode)
{
	int fd = open(in(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 ||
		fchmod(fd, mode) < 0)
		bail("%s: %m", name);
	fd_close(fd);
}

static void contains(const char *name, const char *wanted, const char *what)
{
	char text[256] = "nothing";
	ssize_t n = fd_read_text(in(name), text, sizeof(text));

	is_str(wanted, n < 0 ? tarn_errno_text((int)-n) : text,
		"%s: the file is as expected: %s", name, what);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What is in the folder, which is emptied. */
static void only(const char *wanted, const char *what)
{
	DIR *d = opendir(folder);
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
		if (unlink(in(names[i])) < 0)
			rmdir(in(names[i]));
		free(names[i]);
	}
	is_str(wanted, seen, "%s: the folder has no other file", what);
}

/* Begins, writes and commits; the first error. */
static int replace(const char *path, bool exclusive, const char *text)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	int err = replace_begin(path, exclusive, &r);

	if (err >= 0)
		err = replace_reserve(r, strlen(text));
	if (err >= 0)
		err = fd_write_all(r->fd, text, strlen(text));
	return err < 0 ? err : replace_commit(r);
}

static void test_plain(void)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	char longest[NAME_MAX + 1];

	is_int(0, replace(in("a"), false, "one"), "a new file is saved");
	contains("a", "one", "it is there");
	is_int(0, replace(in("a"), false, "second"),
		"an existing file is replaced");
	contains("a", "second", "by the second");
	only("a", "after two saves");

	put("a", "old", 0644);
	is_int(0, replace_begin(in("a"), false, &r),
		"a save to an existing file is begun");
	is_int(3, write(r->fd, "new", 3),
		"the new file is written under another name");
	contains("a", "old", "the old file stays until the commit");
	replace_free(STEAL(r));
	contains("a", "old", "the old file stays when the save is given up");
	only("a", "after a save was given up");

	memset(longest, 'x', NAME_MAX);
	longest[NAME_MAX] = '\0';
	is_int(0, replace(in(longest), false, "x"),
		"a file with the longest name is saved");
	only(longest, "after a save to the longest name");
	if (chdir(folder) < 0)
		bail("chdir: %m");
	is_int(0, replace("b", false, "x"),
		"a file is saved to a path without a folder");
	only("b", "after a save without a folder");
}

static void test_refused(void)
{
	char name[NAME_MAX + 8];

	is_int(-ENOENT, replace(in("no/a"), false, ""),
		"a save to a folder that does not exist is refused");
	has_str("make it first", tarn_fail_message(),
		"the error says that the folder must be made first");
	mkdir(in("dir"), 0755);
	is_int(-EISDIR, replace(in("dir"), false, ""),
		"a save in the place of a folder is refused");
	is_int(-EISDIR, replace(in("dir/"), false, ""),
		"a save to a path that ends with a slash is refused");
	is_int(-EISDIR, replace(in("dir/.."), false, ""),
		"a path that ends with dots is refused");
	put("file", "", 0644);
	is_int(-ENOTDIR, replace(in("file/a"), false, ""),
		"a save below a regular file is refused");
	mkfifo(in("fifo"), 0644);
	is_int(-EINVAL, replace(in("fifo"), false, ""),
		"a save in the place of a fifo is refused");
	has_str("a fifo", tarn_fail_message(), "the error contains 'a fifo'");
	is_int(-EINVAL, replace("", false, ""),
		"a save to an empty path is refused");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	is_int(-ENAMETOOLONG, replace(in(name), false, ""),
		"a save to a name that is too long is refused");
	if (symlink("loop", in("loop")) < 0)
		bail("symlink: %m");
	is_int(-ELOOP, replace(in("loop"), false, ""),
		"a save through a link to itself is refused");
	only("dir fifo file loop", "after the refused saves");
}

/* All that a path may be made of, besides names. */
static void test_paths(void)
{
	char path[256] = "";
	int fd;

	mkdir(in("dir"), 0755);
	is_int(0, replace(in("dir//.///../dir/./a"), false, "one"),
		"a path with dots and repeated slashes is saved to");
	contains("dir/a", "one", "dots and slashes: its file");
	if (symlink(in("dir"), in("abs")) < 0 ||
		symlink("dir/../abs//", in("rel")) < 0)
		bail("symlink: %m");
	is_int(0, replace(in("rel/a"), false, "two"),
		"a save through relative and absolute links to folders "
		"succeeds");
	contains("dir/a", "two", "links to folders: the file behind them");
	is_int(0, replace(in("rel/../dir/a"), false, "three"),
		"dots after a link count from the link's target");
	contains("dir/a", "three", "dots after a link: the file");
	is_int(-EISDIR, replace(in("rel/"), false, ""),
		"a save to a link to a folder with a slash is refused");

	for (int i = 0; i < 19; i++)
		strcat(path, "rel/../");
	is_int(0, replace(in(strcat(path, "rel/a")), false, "four"),
		"a save through 40 links in one path succeeds");
	strcpy(strrchr(path, '/'), "/../abs/a");
	is_int(-ELOOP, replace(in(path), false, ""),
		"a save through 41 links in one path is refused");
	if (symlink("turn/turn", in("turn")) < 0)
		bail("symlink: %m");
	is_int(-ELOOP, replace(in("turn/a"), false, ""),
		"a save below a link to itself is refused");
	unlink(in("turn"));

	fd = open(in("dir"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/a", fd);
	is_int(0, replace(path, false, "five"),
		"a save to an open folder by /proc/self/fd succeeds");
	contains("dir/a", "five", "/proc/self/fd: the file in the folder");
	if (renameat2(AT_FDCWD, in("dir"), AT_FDCWD, in("moved"), 0) < 0)
		bail("rename: %m");
	if (unlink(in("moved/a")) < 0 || rmdir(in("moved")) < 0)
		bail("rmdir: %m");
	is_int(-ENOENT, replace(path, false, ""),
		"a save to an open folder that was removed is refused");
	fd_close(fd);
	fd = open(in("a"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	is_int(0, replace(path, false, "six"),
		"a save to an open file by /proc/self/fd succeeds");
	contains("a", "six", "/proc/self/fd: the file of that name");
	fd_close(fd);
	unlink(in("a"));
	unlink(in("abs"));
	unlink(in("rel"));
}

static void test_exclusive(void)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;

	is_int(0, replace(in("a"), true, "one"),
		"an exclusive save of a new file succeeds");
	is_int(-EEXIST, replace(in("a"), true, "two"),
		"an exclusive save in the place of a file is refused");
	contains("a", "one", "the file after a refused exclusive save");
	if (symlink("nowhere", in("link")) < 0)
		bail("symlink: %m");
	is_int(-EEXIST, replace(in("link"), true, ""),
		"an exclusive save in the place of a link is refused");
	is_int(0, replace_begin(in("b"), true, &r),
		"an exclusive save is begun");
	put("b", "other", 0644);
	is_int(-EEXIST, replace_commit(r),
		"an exclusive save fails if another made the file meanwhile");
	replace_free(STEAL(r));
	contains("b", "other",
		"the other's file after an exclusive save that failed");
	only("a b link", "after exclusive saves");
}

static void test_links(void)
{
	struct stat st;

	mkdir(in("sub"), 0755);
	put("sub/a", "old", 0644);
	if (symlink("sub/a", in("l1")) < 0 || symlink(in("l1"), in("l2")) < 0 ||
		symlink("sub/new", in("l3")) < 0)
		bail("symlink: %m");
	is_int(0, replace(in("l2"), false, "new"),
		"a save through two links succeeds");
	contains("sub/a", "new", "the file at the end of two links");
	is_int(0, replace(in("l3"), false, "born"),
		"a save through a dangling link succeeds");
	contains("sub/new", "born", "the file that a dangling link names");
	lstat(in("l2"), &st);
	ok(S_ISLNK(st.st_mode),
		"a link is still a link after a save through it");
	unlink(in("sub/a"));
	unlink(in("sub/new"));
	only("l1 l2 l3 sub", "after saves through links");
}

static void mode_is(int wanted, const char *name, const char *what)
{
	struct stat st = {0};

	stat(in(name), &st);
	is_int(wanted, st.st_mode & 07777, "the file has the expected mode: %s",
		what);
}

static void test_rights(void)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	struct stat st;
	mode_t saved = umask(027);

	is_int(0, replace(in("a"), false, "x"),
		"a file is saved under a umask");
	mode_is(0640, "a", "the umask's bits are left out");
	umask(0);
	is_int(0, replace(in("b"), false, "x"),
		"a file is saved without a umask");
	mode_is(0666, "b", "no umask leaves all bits");
	put("a", "x", 0604);
	is_int(0, replace(in("a"), false, "x"),
		"a file with an unusual mode is replaced");
	mode_is(0604, "a", "the unusual mode is kept");
	put("a", "x", 0640);
	is_int(0, replace_begin(in("a"), false, &r),
		"a save in the place of a group's file is begun");
	fstat(r->fd, &st);
	is_int(0600, st.st_mode & 07777,
		"the unfinished file can be read by its owner only");
	umask(saved);
	only("a b", "after saves that keep modes");
}

/* ---- lists, where the file system has them --------------------------- */

enum { USER = 12345 };

/* Sets one for the file or, by default, for what is made in the folder. A user
 * may read and write; what the group and others may is said. */
static bool set_list(
	const char *path, const char *name, unsigned group, unsigned other)
{
	const struct {
		struct posix_acl_xattr_header header;
		struct posix_acl_xattr_entry entries[5];
	} list = {{POSIX_ACL_XATTR_VERSION},
		{{ACL_USER_OBJ, 6, ACL_UNDEFINED_ID}, {ACL_USER, 6, USER},
			{ACL_GROUP_OBJ, (uint16_t)group, ACL_UNDEFINED_ID},
			{ACL_MASK, 6, ACL_UNDEFINED_ID},
			{ACL_OTHER, (uint16_t)other, ACL_UNDEFINED_ID}}};

	return setxattr(path, name, &list, sizeof(list), 0) == 0;
}

/* What the list of a file says of whom tag tells; -1: it has no list. */
static int listed(const char *name, int tag)
{
	struct {
		struct posix_acl_xattr_header header;
		struct posix_acl_xattr_entry entries[8];
	} list;
	ssize_t n = getxattr(
		in(name), XATTR_NAME_POSIX_ACL_ACCESS, &list, sizeof(list));

	for (ssize_t i = 0; n > 0 && i < (n - 4) / 8; i++)
		if (list.entries[i].e_tag == tag)
			return list.entries[i].e_perm;
	return -1;
}

static void test_lists(void)
{
	put("a", "x", 0600);
	if (!set_list(in("a"), XATTR_NAME_POSIX_ACL_ACCESS, 0, 0)) {
		skip(9, "no access control lists in %s: %m", folder);
		only("a", "after the access lists were tried");
		return;
	}
	is_int(0, replace(in("a"), false, "x"),
		"a file with an access list is replaced");
	mode_is(0660, "a", "the mode is kept with the access list");
	is_int(6, listed("a", ACL_USER),
		"the user in the access list may still write");
	is_int(0, listed("a", ACL_GROUP_OBJ),
		"the group of the access list may still not read");
	put("b", "x", 0640);
	set_list(folder, XATTR_NAME_POSIX_ACL_DEFAULT, 0, 0);
	is_int(0, replace(in("b"), false, "x"),
		"a file without a list is replaced below a default list");
	mode_is(0640, "b", "the mode is kept below a default list");
	is_int(-1, listed("b", ACL_USER),
		"the new file gets no list from its folder");
	is_int(0, replace(in("a"), false, "x"),
		"a file with an access list is replaced again");
	is_int(6, listed("a", ACL_USER),
		"the access list is kept by a second save");
	removexattr(folder, XATTR_NAME_POSIX_ACL_DEFAULT);
	only("a b", "after saves with access lists");
}

/* As somebody who is not root: 0, or what replace() said. From inside, since
 * the folders above are root's alone. */
static int replace_as_nobody(const char *name)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (chdir(folder) < 0)
			_exit(254);
		if (geteuid() == 0 && (setresgid(65534, 65534, 65534) < 0 ||
					      setresuid(65534, 65534, 65534)))
			_exit(255);
		_exit(-replace(name, false, "theirs"));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -255;
}

static void test_others(void)
{
	struct stat st = {0};

	put("a", "x", 0666);
	chmod(folder, 0555);
	is_int(-EACCES, replace_as_nobody("a"),
		"a save to a read-only folder is refused");
	chmod(folder, 0777);
	chmod(in("a"), 0444);
	is_int(-EACCES, replace_as_nobody("a"),
		"a save in the place of a read-only file is refused");
	if (geteuid() == 0) {
		chmod(in("a"), 0662);
		is_int(0, replace_as_nobody("a"),
			"a save in the place of root's writable file succeeds");
		stat(in("a"), &st);
		is_int(65534, (int)st.st_uid,
			"the file's owner is the user who saved it");
		is_int(0622, st.st_mode & 0777,
			"the file's group has no more rights than others");
		is_int(0, replace(in("a"), false, "x"),
			"root replaces the user's file");
		stat(in("a"), &st);
		is_int(65534, (int)st.st_uid,
			"the user's file keeps its owner when root replaces "
			"it");
		chown(in("a"), 0, 0);
		if (set_list(in("a"), XATTR_NAME_POSIX_ACL_ACCESS, 6, 2)) {
			is_int(0, replace_as_nobody("a"),
				"a user replaces a file with an access list");
			is_int(6, listed("a", ACL_USER),
				"the access list is kept when a user saves");
			is_int(2, listed("a", ACL_GROUP_OBJ),
				"the group has no more rights than others, "
				"with a list");
		} else {
			skip(3, "no access control lists in %s: %m", folder);
		}
		chmod(folder, 0333);
		is_int(0, replace_as_nobody("b"),
			"a save to a folder that cannot be listed succeeds");
		chmod(folder, 0700);
	} else {
		skip(9, "only root can make files of others");
		put("b", "", 0600);
	}
	only("a b", "after saves by another user");
}

static void test_room(void)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	struct rlimit old, limit;
	int begun, reserved;

	/* Nothing is said meanwhile, which may go into a file, too. */
	getrlimit(RLIMIT_FSIZE, &old);
	limit = old;
	limit.rlim_cur = 1000;
	setrlimit(RLIMIT_FSIZE, &limit);
	begun = replace_begin(in("a"), false, &r);
	reserved = begun < 0 ? begun : replace_reserve(r, 1001);
	setrlimit(RLIMIT_FSIZE, &old);
	is_int(0, begun, "a save under a limit of file size is begun");
	is_int(-EFBIG, reserved, "a write past the limit of file size fails");
	has_str("ulimit -f", tarn_fail_message(),
		"the error contains 'ulimit -f'");
	is_int(-ENOSPC, replace_reserve(r, 1ull << 43),
		"reserving more bytes than the disk has fails");
	has_str("left", tarn_fail_message(),
		"the error says how many bytes there are");
	replace_free(STEAL(r));
	only("", "after reserving too many bytes");
}

/* Killed in the middle: where files can be without a name, none is left. */
static void test_killed(void)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	pid_t pid;

	if (fd < 0) {
		skip(1, "no O_TMPFILE in %s: %m", folder);
		return;
	}
	fd_close(fd);
	pid = fork();
	if (pid == 0) {
		struct replacement *r = NULL;

		if (replace_begin(in("a"), false, &r) >= 0)
			raise(SIGKILL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	only("", "after a save was killed");
}

int main(void)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/r", test_tmpdir());
	folder = path;
	mkdir(folder, 0755);
	test_plain();
	test_refused();
	test_paths();
	test_exclusive();
	test_links();
	test_rights();
	test_lists();
	test_others();
	test_room();
	test_killed();
	rmdir(folder);
	return done_any();
}
