/* SPDX-License-Identifier: MIT */
/*
 * The two descriptors of a load are of two files with one device and inode
 * number: the loader would check one and read the other. An overlayfs over
 * subvolumes of one btrfs shows such files, so a user that may write its upper
 * folder could give all users of a pool the wrong bytes of a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define SIZE 65536
#define TRIES 400 /* files of the upper folder, until one has that inode */

static struct daemon server;
static char folder[200], model[300], evil[300];

/* Runs a shell command in the test's folder, its output hidden. */
static bool run(const char *command)
{
	char line[1000];

	snprintf(line, sizeof(line), "cd '%s' && { %s; } >/dev/null 2>&1",
		folder, command);
	return system(line) == 0;
}

static int make_file(const char *path, char byte)
{
	static char bytes[SIZE];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	memset(bytes, byte, SIZE);
	if (fd < 0 || write(fd, bytes, SIZE) != SIZE || fsync(fd) < 0)
		bail("%s: %s", path, strerror(errno));
	fd_close(fd);
	return 0;
}

static void unmount(void *arg)
{
	(void)arg;
	run("umount ov; umount b; rm -rf image b ov");
}

/* The mounts go with this process, at the latest. */
static void mount_all(void)
{
	if (geteuid() != 0)
		skip_all("needs root, to mount file systems");
	if (unshare(CLONE_NEWNS) < 0 ||
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip_all("no mount namespace: %s", strerror(errno));
	if (!run("PATH=$PATH:/usr/sbin:/sbin; command -v mkfs.btrfs"))
		skip_all("needs mkfs.btrfs");
	at_bail(unmount, NULL);
	if (!run("PATH=$PATH:/usr/sbin:/sbin; mkdir b ov; "
		 "truncate -s 200M image && mkfs.btrfs -q image && "
		 "mount -o loop image b && "
		 "btrfs subvolume create b/base && "
		 "btrfs subvolume create b/up && mkdir b/up/u b/up/w")) {
		unmount(NULL);
		skip_all("a btrfs image cannot be made and mounted");
	}
}

/* The model's inode number is one that the upper folder has yet to give. */
static void mount_overlay(void)
{
	char path[300];

	for (int i = 0; i < 60; i++) {
		snprintf(path, sizeof(path), "%s/b/base/%d", folder, i);
		fd_close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	}
	snprintf(path, sizeof(path), "%s/b/base/model", folder);
	make_file(path, 'm');
	if (!run("mount -t overlay overlay "
		 "-o lowerdir=b/base,upperdir=b/up/u,workdir=b/up/w ov")) {
		unmount(NULL);
		skip_all("no overlayfs over btrfs");
	}
}

static bool same_numbers(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static void find_evil(void)
{
	snprintf(model, sizeof(model), "%s/ov/model", folder);
	for (int i = 0; i < TRIES; i++) {
		snprintf(evil, sizeof(evil), "%s/ov/evil%d", folder, i);
		make_file(evil, 'e');
		if (same_numbers(model, evil))
			return;
	}
	unmount(NULL);
	skip_all("this kernel's overlayfs shows other inode numbers");
}

static struct order *plain(void)
{
	static struct order order;

	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, "model", SIZE);
	return &order;
}

static int opened_as(const char *path, int flags)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | flags);

	if (fd < 0)
		bail("%s: %s", path, strerror(errno));
	return fd;
}

static int load(struct raw *raw, const char *direct)
{
	int a = opened_as(model, 0), b = opened_as(direct, O_DIRECT);
	int type = order_load(plain(), raw, a, b);

	fd_close(a);
	fd_close(b);
	return type;
}

int main(void)
{
	struct raw raw;

	snprintf(folder, sizeof(folder), "%s", test_tmpdir());
	mount_all();
	mount_overlay();
	find_evil();
	daemon_start(&server, "s", NULL);
	raw_open(&raw, server.socket);
	is_int(WIRE_ERROR, load(&raw, evil),
		"a load with the direct descriptor of another file is refused");
	is_int(ESTALE, raw.error, "the refusal's error is ESTALE");
	has_str("of different files or of different versions", raw.text,
		"the refusal says that the two are not one file");
	is_int(WIRE_LOADED, load(&raw, model),
		"a load with both descriptors of one file is done");
	raw_close(&raw);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	unmount(NULL);
	return done(5);
}
