/* SPDX-License-Identifier: MIT */
/*
 * A file that replaces another has its rights: mode, access control list and
 * owner, whoever saves it. No other user gains by the save, nor may make one
 * that the folder or the file forbids.
 */
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/save/replace.h"
#include "tests/kit/replace.h"
#include "tests/kit/tap.h"

static void mode_is(int wanted, const char *name, const char *what)
{
	struct stat st = {0};

	stat(kit_replace_in(name), &st);
	is_int(wanted, st.st_mode & 07777, "the file has the expected mode: %s",
		what);
}

static void test_rights(void)
{
	_cleanup_(replace_freep) struct replacement *r = NULL;
	struct stat st;
	mode_t saved = umask(027);

	is_int(0, kit_replace(kit_replace_in("a"), false, "x"),
		"a file is saved under a umask");
	mode_is(0640, "a", "the umask's bits are left out");
	umask(0);
	is_int(0, kit_replace(kit_replace_in("b"), false, "x"),
		"a file is saved without a umask");
	mode_is(0666, "b", "no umask leaves all bits");
	kit_replace_put("a", "x", 0604);
	is_int(0, kit_replace(kit_replace_in("a"), false, "x"),
		"a file with an unusual mode is replaced");
	mode_is(0604, "a", "the unusual mode is kept");
	kit_replace_put("a", "x", 0640);
	is_int(0, replace_begin(kit_replace_in("a"), false, &r),
		"a save in the place of a group's file is begun");
	fstat(r->fd, &st);
	is_int(0600, st.st_mode & 07777,
		"the unfinished file can be read by its owner only");
	umask(saved);
	kit_replace_only("a b", "after saves that keep modes");
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
	ssize_t n = getxattr(kit_replace_in(name), XATTR_NAME_POSIX_ACL_ACCESS,
		&list, sizeof(list));

	for (ssize_t i = 0; n > 0 && i < (n - 4) / 8; i++)
		if (list.entries[i].e_tag == tag)
			return list.entries[i].e_perm;
	return -1;
}

static void test_lists(void)
{
	kit_replace_put("a", "x", 0600);
	if (!set_list(kit_replace_in("a"), XATTR_NAME_POSIX_ACL_ACCESS, 0, 0)) {
		skip(9, "no access control lists in %s: %m",
			kit_replace_folder);
		kit_replace_only("a", "after the access lists were tried");
		return;
	}
	is_int(0, kit_replace(kit_replace_in("a"), false, "x"),
		"a file with an access list is replaced");
	mode_is(0660, "a", "the mode is kept with the access list");
	is_int(6, listed("a", ACL_USER),
		"the user in the access list may still write");
	is_int(0, listed("a", ACL_GROUP_OBJ),
		"the group of the access list may still not read");
	kit_replace_put("b", "x", 0640);
	set_list(kit_replace_folder, XATTR_NAME_POSIX_ACL_DEFAULT, 0, 0);
	is_int(0, kit_replace(kit_replace_in("b"), false, "x"),
		"a file without a list is replaced below a default list");
	mode_is(0640, "b", "the mode is kept below a default list");
	is_int(-1, listed("b", ACL_USER),
		"the new file gets no list from its folder");
	is_int(0, kit_replace(kit_replace_in("a"), false, "x"),
		"a file with an access list is replaced again");
	is_int(6, listed("a", ACL_USER),
		"the access list is kept by a second save");
	removexattr(kit_replace_folder, XATTR_NAME_POSIX_ACL_DEFAULT);
	kit_replace_only("a b", "after saves with access lists");
}

/* As somebody who is not root: 0, or what replace() said. From inside, since
 * the folders above are root's alone. */
static int replace_as_nobody(const char *name)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (chdir(kit_replace_folder) < 0)
			_exit(254);
		if (geteuid() == 0 && (setresgid(65534, 65534, 65534) < 0 ||
					      setresuid(65534, 65534, 65534)))
			_exit(255);
		_exit(-kit_replace(name, false, "theirs"));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -255;
}

static void test_others(void)
{
	struct stat st = {0};

	kit_replace_put("a", "x", 0666);
	chmod(kit_replace_folder, 0555);
	is_int(-EACCES, replace_as_nobody("a"),
		"a save to a read-only folder is refused");
	chmod(kit_replace_folder, 0777);
	chmod(kit_replace_in("a"), 0444);
	is_int(-EACCES, replace_as_nobody("a"),
		"a save in the place of a read-only file is refused");
	if (geteuid() == 0) {
		chmod(kit_replace_in("a"), 0662);
		is_int(0, replace_as_nobody("a"),
			"a save in the place of root's writable file succeeds");
		stat(kit_replace_in("a"), &st);
		is_int(65534, (int)st.st_uid,
			"the file's owner is the user who saved it");
		is_int(0622, st.st_mode & 0777,
			"the file's group has no more rights than others");
		is_int(0, kit_replace(kit_replace_in("a"), false, "x"),
			"root replaces the user's file");
		stat(kit_replace_in("a"), &st);
		is_int(65534, (int)st.st_uid,
			"the user's file keeps its owner when root replaces "
			"it");
		chown(kit_replace_in("a"), 0, 0);
		if (set_list(kit_replace_in("a"), XATTR_NAME_POSIX_ACL_ACCESS,
			    6, 2)) {
			is_int(0, replace_as_nobody("a"),
				"a user replaces a file with an access list");
			is_int(6, listed("a", ACL_USER),
				"the access list is kept when a user saves");
			is_int(2, listed("a", ACL_GROUP_OBJ),
				"the group has no more rights than others, "
				"with a list");
		} else {
			skip(3, "no access control lists in %s: %m",
				kit_replace_folder);
		}
		chmod(kit_replace_folder, 0333);
		is_int(0, replace_as_nobody("b"),
			"a save to a folder that cannot be listed succeeds");
		chmod(kit_replace_folder, 0700);
	} else {
		skip(9, "only root can make files of others");
		kit_replace_put("b", "", 0600);
	}
	kit_replace_only("a b", "after saves by another user");
}

int main(void)
{
	kit_replace_begin();
	test_rights();
	test_lists();
	test_others();
	kit_replace_end();
	return done(31);
}
