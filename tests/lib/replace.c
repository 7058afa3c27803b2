/* SPDX-License-Identifier: MIT */
/*
 * A file replaces another: what it may replace and what it refuses, and what is
 * left when the save is given up. Each case ends with a look at the folder,
 * which may have no other file than the case names. Whose rights the file has
 * is in replace_rights.c.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/save/replace.h"
#include "tests/kit/replace.h"
#include "tests/kit/tap.h"

static void test_plain(void)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	char longest[NAME_MAX + 1];

	is_int(0, kit_replace(kit_replace_in("a"), false, "one"),
		"a new file is saved");
	kit_replace_contains("a", "one", "it is there");
	is_int(0, kit_replace(kit_replace_in("a"), false, "second"),
		"an existing file is replaced");
	kit_replace_contains("a", "second", "by the second");
	kit_replace_only("a", "after two saves");

	kit_replace_put("a", "old", 0644);
	is_int(0, replace_begin(kit_replace_in("a"), false, &r),
		"a save to an existing file is begun");
	is_int(3, write(r->fd, "new", 3),
		"the new file is written under another name");
	kit_replace_contains("a", "old", "the old file stays until the commit");
	replace_free(STEAL(r));
	kit_replace_contains(
		"a", "old", "the old file stays when the save is given up");
	kit_replace_only("a", "after a save was given up");

	memset(longest, 'x', NAME_MAX);
	longest[NAME_MAX] = '\0';
	is_int(0, kit_replace(kit_replace_in(longest), false, "x"),
		"a file with the longest name is saved");
	kit_replace_only(longest, "after a save to the longest name");
	if (chdir(kit_replace_folder) < 0)
		bail("chdir: %m");
	is_int(0, kit_replace("b", false, "x"),
		"a file is saved to a path without a folder");
	kit_replace_only("b", "after a save without a folder");
}

static void test_refused(void)
{
	char name[NAME_MAX + 8];

	is_int(-ENOENT, kit_replace(kit_replace_in("no/a"), false, ""),
		"a save to a folder that does not exist is refused");
	has_str("make it first", tarn_fail_message(),
		"the error says that the folder must be made first");
	mkdir(kit_replace_in("dir"), 0755);
	is_int(-EISDIR, kit_replace(kit_replace_in("dir"), false, ""),
		"a save in the place of a folder is refused");
	is_int(-EISDIR, kit_replace(kit_replace_in("dir/"), false, ""),
		"a save to a path that ends with a slash is refused");
	is_int(-EISDIR, kit_replace(kit_replace_in("dir/.."), false, ""),
		"a path that ends with dots is refused");
	kit_replace_put("file", "", 0644);
	is_int(-ENOTDIR, kit_replace(kit_replace_in("file/a"), false, ""),
		"a save below a regular file is refused");
	mkfifo(kit_replace_in("fifo"), 0644);
	is_int(-EINVAL, kit_replace(kit_replace_in("fifo"), false, ""),
		"a save in the place of a fifo is refused");
	has_str("a fifo", tarn_fail_message(), "the error contains 'a fifo'");
	is_int(-EINVAL, kit_replace("", false, ""),
		"a save to an empty path is refused");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	is_int(-ENAMETOOLONG, kit_replace(kit_replace_in(name), false, ""),
		"a save to a name that is too long is refused");
	if (symlink("loop", kit_replace_in("loop")) < 0)
		bail("symlink: %m");
	is_int(-ELOOP, kit_replace(kit_replace_in("loop"), false, ""),
		"a save through a link to itself is refused");
	kit_replace_only("dir fifo file loop", "after the refused saves");
}

/* Names in /proc/self/fd: of a folder, then of one that was removed, and of a
 * file. */
static void test_open_files(void)
{
	char path[256];
	int fd;

	fd = open(kit_replace_in("dir"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/a", fd);
	is_int(0, kit_replace(path, false, "five"),
		"a save to an open folder by /proc/self/fd succeeds");
	kit_replace_contains(
		"dir/a", "five", "/proc/self/fd: the file in the folder");
	if (renameat2(AT_FDCWD, kit_replace_in("dir"), AT_FDCWD,
		    kit_replace_in("moved"), 0) < 0)
		bail("rename: %m");
	if (unlink(kit_replace_in("moved/a")) < 0 ||
		rmdir(kit_replace_in("moved")) < 0)
		bail("rmdir: %m");
	is_int(-ENOENT, kit_replace(path, false, ""),
		"a save to an open folder that was removed is refused");
	fd_close(fd);
	fd = open(kit_replace_in("a"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	is_int(0, kit_replace(path, false, "six"),
		"a save to an open file by /proc/self/fd succeeds");
	kit_replace_contains(
		"a", "six", "/proc/self/fd: the file of that name");
	fd_close(fd);
	unlink(kit_replace_in("a"));
}

/* All that a path may be made of, besides names. */
static void test_paths(void)
{
	char path[256] = "";

	mkdir(kit_replace_in("dir"), 0755);
	is_int(0,
		kit_replace(
			kit_replace_in("dir//.///../dir/./a"), false, "one"),
		"a path with dots and repeated slashes is saved to");
	kit_replace_contains("dir/a", "one", "dots and slashes: its file");
	if (symlink(kit_replace_in("dir"), kit_replace_in("abs")) < 0 ||
		symlink("dir/../abs//", kit_replace_in("rel")) < 0)
		bail("symlink: %m");
	is_int(0, kit_replace(kit_replace_in("rel/a"), false, "two"),
		"a save through relative and absolute links to folders "
		"succeeds");
	kit_replace_contains(
		"dir/a", "two", "links to folders: the file behind them");
	is_int(0, kit_replace(kit_replace_in("rel/../dir/a"), false, "three"),
		"dots after a link count from the link's target");
	kit_replace_contains("dir/a", "three", "dots after a link: the file");
	is_int(-EISDIR, kit_replace(kit_replace_in("rel/"), false, ""),
		"a save to a link to a folder with a slash is refused");

	for (int i = 0; i < 19; i++)
		strcat(path, "rel/../");
	is_int(0,
		kit_replace(
			kit_replace_in(strcat(path, "rel/a")), false, "four"),
		"a save through 40 links in one path succeeds");
	strcpy(strrchr(path, '/'), "/../abs/a");
	is_int(-ELOOP, kit_replace(kit_replace_in(path), false, ""),
		"a save through 41 links in one path is refused");
	if (symlink("turn/turn", kit_replace_in("turn")) < 0)
		bail("symlink: %m");
	is_int(-ELOOP, kit_replace(kit_replace_in("turn/a"), false, ""),
		"a save below a link to itself is refused");
	unlink(kit_replace_in("turn"));
	test_open_files();
	unlink(kit_replace_in("abs"));
	unlink(kit_replace_in("rel"));
}

static void test_exclusive(void)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;

	is_int(0, kit_replace(kit_replace_in("a"), true, "one"),
		"an exclusive save of a new file succeeds");
	is_int(-EEXIST, kit_replace(kit_replace_in("a"), true, "two"),
		"an exclusive save in the place of a file is refused");
	kit_replace_contains(
		"a", "one", "the file after a refused exclusive save");
	if (symlink("nowhere", kit_replace_in("link")) < 0)
		bail("symlink: %m");
	is_int(-EEXIST, kit_replace(kit_replace_in("link"), true, ""),
		"an exclusive save in the place of a link is refused");
	is_int(0, replace_begin(kit_replace_in("b"), true, &r),
		"an exclusive save is begun");
	kit_replace_put("b", "other", 0644);
	is_int(-EEXIST, replace_commit(r),
		"an exclusive save fails if another made the file meanwhile");
	replace_free(STEAL(r));
	kit_replace_contains("b", "other",
		"the other's file after an exclusive save that failed");
	kit_replace_only("a b link", "after exclusive saves");
}

static void test_links(void)
{
	struct stat st;

	mkdir(kit_replace_in("sub"), 0755);
	kit_replace_put("sub/a", "old", 0644);
	if (symlink("sub/a", kit_replace_in("l1")) < 0 ||
		symlink(kit_replace_in("l1"), kit_replace_in("l2")) < 0 ||
		symlink("sub/new", kit_replace_in("l3")) < 0)
		bail("symlink: %m");
	is_int(0, kit_replace(kit_replace_in("l2"), false, "new"),
		"a save through two links succeeds");
	kit_replace_contains(
		"sub/a", "new", "the file at the end of two links");
	is_int(0, kit_replace(kit_replace_in("l3"), false, "born"),
		"a save through a dangling link succeeds");
	kit_replace_contains(
		"sub/new", "born", "the file that a dangling link names");
	lstat(kit_replace_in("l2"), &st);
	ok(S_ISLNK(st.st_mode),
		"a link is still a link after a save through it");
	unlink(kit_replace_in("sub/a"));
	unlink(kit_replace_in("sub/new"));
	kit_replace_only("l1 l2 l3 sub", "after saves through links");
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
	begun = replace_begin(kit_replace_in("a"), false, &r);
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
	kit_replace_only("", "after reserving too many bytes");
}

/* Killed in the middle: where files can be without a name, none is left. */
static void test_killed(void)
{
	int fd = open(kit_replace_folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	pid_t pid;

	if (fd < 0) {
		skip(1, "no O_TMPFILE in %s: %m", kit_replace_folder);
		return;
	}
	fd_close(fd);
	pid = fork();
	if (pid == 0) {
		struct replacement *r = NULL;

		if (replace_begin(kit_replace_in("a"), false, &r) >= 0)
			raise(SIGKILL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	kit_replace_only("", "after a save was killed");
}

int main(void)
{
	kit_replace_begin();
	test_plain();
	test_refused();
	test_paths();
	test_exclusive();
	test_links();
	test_room();
	test_killed();
	kit_replace_end();
	return done(62);
}
