/* SPDX-License-Identifier: MIT */
/*
 * Tensors and options that cannot be saved are refused with a reason, and no
 * file is left behind.
 */
#include "tests/kit/save.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/tap.h"

static int save(const char *name, const struct tarn_save_item *items, size_t n)
{
	return tarn_save(in(name), items, n, NULL, NULL);
}

static void test_refused(void)
{
	struct tarn_save_item items[] = {item_of("x", MADE(TARN_U8, 1, 1000)),
		item_of("x", MADE(TARN_F32, 2, 10))};
	struct tarn_save_options o = {.align = 24};
	struct rlimit old, limit;
	int r;

	is_refused(-EINVAL, "two tensors are named 'x'", save("r", items, 2),
		"two tensors of one name are refused");
	items[1].name = "__metadata__";
	is_refused(-EINVAL, "__metadata__", save("r", items, 2),
		"a tensor called __metadata__ is refused by name");
	items[1].name = NULL;
	is_refused(-EINVAL, "tensor 1 has no name", save("r", items, 2),
		"a tensor without a name is refused");
	is_refused(-EINVAL, "no power of two",
		tarn_save(in("r"), items, 1, &o, NULL),
		"an alignment of 24 is refused");
	o = (struct tarn_save_options) {.engine = "none"};
	is_refused(-EINVAL, "engine", tarn_save(in("r"), items, 1, &o, NULL),
		"an unknown engine is refused");
	items[0].dtype = 99;
	is_refused(-EINVAL, "no dtype 99", save("r", items, 1),
		"a tensor of dtype 99 is refused");
	items[0].dtype = 0;
	is_refused(-ENOENT, "make it first", save("no/r", items, 1),
		"a save to a folder that does not exist is refused");
	o = (struct tarn_save_options) {.format = "npy"};
	items[0].dtype = TARN_BF16;
	is_refused(-ENOTSUP, "numpy has no BF16",
		tarn_save(in("r"), items, 1, &o, NULL),
		"BF16 in a .npy file is refused");
	items[0].dtype = 0;
	/* Nothing is printed meanwhile: that may go to a file, too. */
	getrlimit(RLIMIT_FSIZE, &old);
	limit = old;
	limit.rlim_cur = 500;
	setrlimit(RLIMIT_FSIZE, &limit);
	r = save("r", items, 1);
	setrlimit(RLIMIT_FSIZE, &old);
	is_refused(-EFBIG, "ulimit -f", r,
		"a file beyond the limit of file size is refused");
	drop(items, 2);
}

static bool write_text(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && fd_write_all(fd, text, strlen(text)) >= 0;
}

/* An ordinary user may mount in a user namespace of its own. Only users and
 * groups that the namespace knows can make files there. */
static bool own_namespace(void)
{
	char uids[64], gids[64];
	unsigned uid = geteuid(), gid = getegid();

	if (uid == 0)
		return unshare(CLONE_NEWNS) == 0;
	snprintf(uids, sizeof(uids), "%u %u 1", uid, uid);
	snprintf(gids, sizeof(gids), "%u %u 1", gid, gid);
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/uid_map", uids) &&
	       write_text("/proc/self/gid_map", gids);
}

/* On a file system of a mebibyte: 1 when more than it holds was refused as it
 * should be, 0 when not, -1 when there can be none. */
static int try_on_small(const struct tarn_save_item *item)
{
	struct statfs before, after;
	int r;

	if (!own_namespace() ||
		mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", in("small"), "tmpfs", 0, "size=1m") < 0)
		return -1;
	statfs(in("small"), &before);
	r = tarn_save(in("small/x"), item, 1, NULL, NULL);
	statfs(in("small"), &after);
	return r == -ENOSPC && strstr(tarn_error_message(), "no room for") &&
	       before.f_bfree == after.f_bfree &&
	       before.f_ffree == after.f_ffree;
}

static void test_full(void)
{
	struct tarn_save_item item = item_of("x", MADE(TARN_U8, 1, 3 << 20));
	int status = 0;
	pid_t pid;

	mkdir(in("small"), 0755);
	fflush(stdout);
	/* The mount ends with its namespace, and that with the child. */
	pid = fork();
	if (pid == 0)
		_exit(1 + try_on_small(&item));
	waitpid(pid, &status, 0);
	rmdir(in("small"));
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 0)
		skip(1, "no tmpfs can be mounted here");
	else
		is_int(2, WEXITSTATUS(status),
			"a save to a full file system fails and leaves no "
			"file");
	is_str("", listing(), "no file is left by the refused saves");
	drop(&item, 1);
}

static void test_exclusive(void)
{
	struct tarn_save_item item = item_of("x", MADE(TARN_U8, 1, 3000));
	struct tarn_save_options o = {.exclusive = true};

	is_int(0, tarn_save(in("e"), &item, 1, &o, NULL),
		"an exclusive save of a new file succeeds");
	is_int(-EEXIST, tarn_save(in("e"), &item, 1, &o, NULL),
		"an exclusive save of an existing file is refused");
	clear_folder();
	drop(&item, 1);
}

int main(void)
{
	test_refused();
	test_exclusive();
	test_full();
	return done(31);
}
