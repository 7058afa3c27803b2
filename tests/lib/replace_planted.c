/* SPDX-License-Identifier: MIT */
/*
 * In a sticky folder such as /tmp, another user may have taken a name that is
 * in the path of a save. A symbolic link there, in the last place or before it,
 * would lead the save to a file that the other user may not write; a regular
 * file would hand its owner on to the new one. open(2) refuses both where
 * fs.protected_symlinks and fs.protected_regular are on. A save refuses both
 * always.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/save/replace.h"
#include "tests/kit/tap.h"

enum { ME = 0, STRANGER = 1001, OTHER = 1002, SWAPS = 20000 };

static int replace(const char *path)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	int err = replace_begin(path, false, &r);

	if (err >= 0)
		err = fd_write_all(r->fd, "new", 3);
	return err < 0 ? err : replace_commit(r);
}

/* The same by a process of that user: 0 or -errno. */
static int replace_as(uid_t uid, const char *path)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (setresgid(uid, uid, uid) < 0 ||
			setresuid(uid, uid, uid) < 0)
			_exit(255);
		_exit(-replace(path));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -255;
}

/* The same by root whose uid for files is another. */
static int replace_with_fsuid(uid_t uid, const char *path)
{
	int r;

	setfsuid(uid);
	r = replace(path);
	setfsuid(ME);
	return r;
}

static void make_folder(const char *path, uid_t owner, mode_t mode)
{
	if (mkdir(path, 0700) < 0 || chown(path, owner, owner) < 0 ||
		chmod(path, mode) < 0)
		bail("%s: %m", path);
}

static void make_link(const char *path, const char *target, uid_t owner)
{
	if (symlink(target, path) < 0 || lchown(path, owner, owner) < 0)
		bail("%s: %m", path);
}

static void make_file(const char *path, uid_t owner)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || fd_write_all(fd, "old", 3) < 0 ||
		fchown(fd, owner, owner) < 0)
		bail("%s: %m", path);
	fd_close(fd);
}

static void contains(const char *path, const char *wanted, const char *what)
{
	char text[16] = "";
	ssize_t n = fd_read_text(path, text, sizeof(text));

	is_str(wanted, n < 0 ? "nothing" : text, "the file is as expected: %s",
		what);
}

static void test_links(void)
{
	char message[TARN_MESSAGE_MAX];

	make_file("precious", ME);
	make_link("tmp/out", "../precious", STRANGER);
	is_int(-EACCES, replace("tmp/out"),
		"a stranger's link in a sticky folder is not followed");
	snprintf(message, sizeof(message), "%s", tarn_fail_message());
	has_str("'tmp/out' belongs to uid 1001", message,
		"the sentence names the link and its owner");
	contains("precious", "old", "the link's target is untouched");

	make_link("tmp/nowhere", "../born", STRANGER);
	is_int(-EACCES, replace("tmp/nowhere"),
		"a stranger's dangling link is not followed");
	is_int(-1, access("born", F_OK),
		"no file is made where the dangling link leads");

	is_int(-EACCES, replace_as(OTHER, "tmp/out"),
		"a third user does not follow the link");
	is_int(-EACCES, replace_with_fsuid(OTHER, "tmp/nowhere"),
		"a thread with another fsuid does not follow the link");
	make_link("tmp/mine", "../precious", ME);
	is_int(0, replace("tmp/mine"), "a user's own link is followed");
	contains("precious", "new",
		"the target of the user's own link is replaced");
}

/* What the kernel lets pass passes here too. */
static void test_allowed_links(void)
{
	make_folder("theirs", STRANGER, 01777);
	make_link("theirs/out", "../target", STRANGER);
	is_int(0, replace("theirs/out"),
		"a link of the sticky folder's owner is followed");
	make_folder("plain", ME, 0777);
	make_link("plain/out", "../target", STRANGER);
	is_int(0, replace("plain/out"),
		"a stranger's link in a folder without the sticky bit is "
		"followed");
	make_folder("group", ME, 01770);
	make_link("group/out", "../target", STRANGER);
	is_int(0, replace("group/out"),
		"a stranger's link in a sticky folder of a group is followed");
	contains("target", "new",
		"the target of the stranger's link was written");
}

static void test_chains(void)
{
	make_file("chained", ME);
	make_folder("safe", ME, 0755);
	make_link("tmp/last", "../chained", STRANGER);
	make_link("safe/second", "../tmp/last", ME);
	make_link("safe/first", "second", ME);
	is_int(-EACCES, replace("safe/first"),
		"a chain that ends with a stranger's link is not followed");
	has_str("'../tmp/last' belongs to uid 1001", tarn_fail_message(),
		"the sentence names that link");
	make_link("tmp/first", "../safe/good", STRANGER);
	make_link("safe/good", "../chained", ME);
	is_int(-EACCES, replace("tmp/first"),
		"a chain that begins with a stranger's link is not followed");
	make_link("safe/between", "../tmp/first", ME);
	is_int(-EACCES, replace("safe/between"),
		"a chain with a stranger's link in the middle is not followed");
	contains("chained", "old",
		"the file at the end of the chains is untouched");
	is_int(0, replace("safe/good"),
		"a chain of a user's own links is followed");
	contains("chained", "new",
		"the end of the user's own chain is replaced");
}

/* Links in the place of folders. */
static void test_folder_links(void)
{
	make_folder("victim", ME, 0777);
	make_file("victim/m", ME);
	make_link("tmp/way", "../victim", STRANGER);
	is_int(-EACCES, replace("tmp/way/m"),
		"a stranger's link in a sticky folder "
		"is not followed in the place of a folder");
	has_str("'tmp/way' belongs to uid 1001", tarn_fail_message(),
		"the sentence names the link in the place of a folder");
	is_int(-EACCES, replace_as(OTHER, "tmp/way/born"),
		"a third user does not follow a link in the place of a folder");
	is_int(-1, access("victim/born", F_OK),
		"no file was made in the folder that it leads to");
	is_int(-EACCES, replace("tmp/../tmp//./way/.././victim/m"),
		"dots and repeated slashes do not make a save follow the link");
	make_link("safe/way", "../tmp/way/./", ME);
	is_int(-EACCES, replace("safe/way/m"),
		"a user's own link to a stranger's link is not followed");
	make_link("safe/file", "../tmp/way/m", ME);
	is_int(-EACCES, replace("safe/file"),
		"a stranger's folder link in a last link's target is not "
		"followed");
	has_str("'../tmp/way' belongs to uid 1001", tarn_fail_message(),
		"the sentence names the link in that target");
	contains("victim/m", "old", "the file behind the link is untouched");

	make_link("tmp/own", "../victim", ME);
	is_int(0, replace("tmp/own/m"),
		"a user's own link in the place of a folder is followed");
	contains("victim/m", "new", "the file behind one's own link is new");
	make_link("theirs/way", "../victim", STRANGER);
	is_int(0, replace("theirs/way/m"),
		"a link of the sticky folder's owner is followed in the place "
		"of a folder");
}

static void test_files(void)
{
	struct stat st = {0};

	make_file("tmp/planted", STRANGER);
	is_int(-EACCES, replace("tmp/planted"),
		"a stranger's file in a sticky folder is not replaced");
	has_str("it belongs to uid 1001", tarn_fail_message(),
		"the sentence names its owner");
	contains("tmp/planted", "old", "the stranger's file is as it was");
	make_link("safe/link", "../tmp/planted", ME);
	is_int(-EACCES, replace("safe/link"),
		"a stranger's file is not replaced through a user's own link");
	make_file("group/planted", STRANGER);
	is_int(-EACCES, replace("group/planted"),
		"a stranger's file is not replaced in a group's sticky folder");

	make_file("tmp/ours", ME);
	is_int(0, replace("tmp/ours"), "a user's own file is replaced");
	make_file("theirs/own", STRANGER);
	is_int(0, replace("theirs/own"),
		"a file of the sticky folder's owner is replaced");
	stat("theirs/own", &st);
	is_int(STRANGER, st.st_uid,
		"the replaced file keeps the sticky folder's owner");
	make_file("plain/own", STRANGER);
	is_int(0, replace("plain/own"),
		"a file in a folder without the sticky bit is replaced");
	make_folder("tmp/folder", STRANGER, 0755);
	is_int(-EISDIR, replace("tmp/folder"),
		"the error tells a stranger's folder from a file");
}

/* Exchanges two folders until it is killed: one has a link of ours, the other
 * a stranger's. */
static pid_t start_swapping(void)
{
	pid_t pid = fork();

	if (pid > 0)
		return pid;
	for (;;)
		renameat2(AT_FDCWD, "now", AT_FDCWD, "then", RENAME_EXCHANGE);
}

static void swaps(const char *path, const char *name, const char *what)
{
	int done = 0, refused = 0, other = 0;
	pid_t pid = start_swapping();

	for (int i = 0; i < SWAPS || ((!done || !refused) && i < 100 * SWAPS);
		i++) {
		_cleanup_(replace_freep) struct replacement *r = NULL;
		int err = replace_begin(path, false, &r);

		if (err < 0)
			err == -EACCES ? refused++ : other++;
		else if (strcmp(r->name, name) == 0)
			done++;
		else
			other++;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	diag("%d saves to %s while folders are swapped: %d went to the target "
	     "of one's own link, %d were refused",
		done + refused + other, path, done, refused);
	ok(done > 0 && refused > 0, "saves to %s met both folders", path);
	is_int(0, other, "no save went anywhere else: %s", what);
}

/* What the links lead to is told apart by its name. */
static void test_swaps(void)
{
	make_file("precious", ME);
	make_folder("now", ME, 0755);
	make_folder("then", ME, 01777);
	make_link("now/out", "../target", ME);
	make_link("then/out", "../precious", STRANGER);
	make_folder("right", ME, 0755);
	make_folder("wrong", ME, 0755);
	make_link("right/m", "right", ME);
	make_link("wrong/m", "wrong", ME);
	make_link("now/way", "../right", ME);
	make_link("then/way", "../wrong", STRANGER);
	swaps("now/out", "target",
		"no save follows a stranger's link while folders are swapped");
	swaps("now/way/m", "right",
		"no save follows a stranger's link to a folder while folders "
		"are swapped");
}

static void remove_all(const char *top)
{
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-r", top, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

int main(void)
{
	const char *top;

	if (geteuid() != 0)
		skip_all("only root can make links of other users");
	top = test_outside("planted");
	if (chdir(top) < 0 || chmod(top, 0755) < 0)
		bail("%s: %m", top);
	if (chown(top, STRANGER, STRANGER) < 0 || chown(top, ME, ME) < 0) {
		rmdir(top);
		skip_all("this namespace has no uid %d", STRANGER);
	}
	make_folder("tmp", ME, 01777);
	test_links();
	test_allowed_links();
	test_chains();
	test_folder_links();
	test_files();
	test_swaps();
	remove_all(top);
	return done(46);
}
