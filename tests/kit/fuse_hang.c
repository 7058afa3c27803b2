/* SPDX-License-Identifier: MIT */
/* See fuse_hang.h; the protocol is that of <linux/fuse.h>. */
#include "tests/kit/fuse_hang.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/tap.h"

static const struct {
	const char *name;
	uint64_t size;
} files[HANG_FILES] = {
	[HANG_NEVER] = {"never", 100000},
	[HANG_GETATTR] = {"getattr", 100000},
	[HANG_READ] = {"read", 100000},
	[HANG_DEEP] = {"deep", 64ull << 20}, /* all the requests there are */
	[HANG_DEEPER] = {"deeper", 64ull << 20},
	[HANG_FLUSH] = {"flush", 100000},
};

static struct {
	atomic_bool armed;
	atomic_uint caught;
} * shared;

static char folder[300];
static pid_t child;

uint64_t hang_size(enum hang_file file)
{
	return files[file].size;
}

const char *hang_path(enum hang_file file)
{
	static char path[HANG_FILES][400];

	snprintf(path[file], sizeof(path[file]), "%s/%s", folder,
		files[file].name);
	return path[file];
}

/* ---- the file system ----------------------------------------------------- */

static void reply(
	int fd, uint64_t unique, int error, const void *body, size_t size)
{
	struct fuse_out_header out = {.unique = unique,
		.error = -error,
		.len = (uint32_t)(sizeof(out) + size)};
	struct iovec iov[2] = {{&out, sizeof(out)}, {(void *)body, size}};

	/* ENOENT: the process that asked was killed. */
	if (writev(fd, iov, 2) < 0 && errno != ENOENT)
		_exit(0);
}

static struct fuse_attr attr_of(uint64_t node)
{
	struct fuse_attr attr = {.ino = node,
		.nlink = 1,
		.uid = geteuid(),
		.gid = getegid(),
		.blksize = 4096,
		.mode = S_IFDIR | 0700};

	if (node > 1) {
		attr.mode = S_IFREG | 0600;
		attr.size = files[node - 2].size;
	}
	return attr;
}

static void answer_lookup(int fd, const struct fuse_in_header *in)
{
	struct fuse_entry_out out = {0};

	for (uint64_t i = 0; i < HANG_FILES; i++)
		if (strcmp((const char *)(in + 1), files[i].name) == 0)
			out.nodeid = i + 2;
	out.attr = attr_of(out.nodeid);
	reply(fd, in->unique, out.nodeid ? 0 : ENOENT, &out,
		out.nodeid ? sizeof(out) : 0);
}

static void answer_init(int fd, const struct fuse_in_header *in)
{
	struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
		.minor = 31,
		.max_write = 65536,
		.max_background = 64,
		.congestion_threshold = 48};

	reply(fd, in->unique, 0, &out, sizeof(out));
}

static void answer(int fd, const struct fuse_in_header *in)
{
	static const char zeros[1 << 20];
	const struct fuse_read_in *read_in = (const void *)(in + 1);
	struct fuse_attr_out attr = {.attr = attr_of(in->nodeid)};
	/* Or a file whose reads hang in the page cache could not be opened again:
	 * the kernel would wait for their pages, to drop them. */
	struct fuse_open_out open_out = {.open_flags = FOPEN_KEEP_CACHE};

	switch (in->opcode) {
	case FUSE_INIT:
		return answer_init(fd, in);
	case FUSE_LOOKUP:
		return answer_lookup(fd, in);
	case FUSE_GETATTR:
		return reply(fd, in->unique, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
		return reply(fd, in->unique, 0, &open_out, sizeof(open_out));
	case FUSE_READ:
		return reply(fd, in->unique, 0, zeros,
			read_in->size < sizeof(zeros) ? read_in->size
						      : sizeof(zeros));
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		return reply(fd, in->unique, 0, NULL, 0);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return; /* these want no answer */
	default:
		return reply(fd, in->unique, ENOSYS, NULL, 0);
	}
}

static bool hangs(const struct fuse_in_header *in)
{
	uint64_t file = in->nodeid - 2;

	if (!atomic_load(&shared->armed) || in->nodeid < 2)
		return false;
	return (file == HANG_GETATTR && in->opcode == FUSE_GETATTR) ||
	       (file == HANG_FLUSH && in->opcode == FUSE_FLUSH) ||
	       ((file == HANG_READ || file == HANG_DEEP ||
			file == HANG_DEEPER) &&
		       in->opcode == FUSE_READ);
}

static _Noreturn void serve(int fd)
{
	static union {
		struct fuse_in_header in;
		char bytes[1 << 18];
	} request;

	for (;;) {
		ssize_t n = read(fd, &request, sizeof(request) - 1);

		if (n < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (n < (ssize_t)sizeof(request.in))
			_exit(0);
		request.bytes[n] = 0;
		if (hangs(&request.in))
			atomic_fetch_add(&shared->caught, 1);
		else
			answer(fd, &request.in);
	}
}

/* ---- the mount ----------------------------------------------------------- */

/* An ordinary user may mount one in its own user namespace. */
static bool own_namespace(void)
{
	char map[64];
	unsigned uid = geteuid();
	int fd;

	if (uid == 0)
		return unshare(CLONE_NEWNS) == 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, strlen(map)) < 0)
		bail("uid_map: %m");
	close(fd);
	return true;
}

const char *hang_begin(void)
{
	static char why[200];
	static bool separated;
	char options[200];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		snprintf(why, sizeof(why), "/dev/fuse: %s", strerror(errno));
		return why;
	}
	if (!separated &&
		(!own_namespace() || mount("none", "/", "none",
					     MS_REC | MS_PRIVATE, NULL))) {
		snprintf(why, sizeof(why), "no mount namespace: %s",
			strerror(errno));
		close(fd);
		return why;
	}
	separated = true;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		bail("mmap: %m");
	snprintf(folder, sizeof(folder), "%s/hang", test_tmpdir());
	snprintf(options, sizeof(options),
		"fd=%d,rootmode=40000,user_id=%u,group_id=%u", fd, geteuid(),
		getegid());
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		bail("%s: %m", folder);
	if (mount("tarn-test", folder, "fuse", MS_NOSUID | MS_NODEV, options)) {
		snprintf(why, sizeof(why), "mount: %s", strerror(errno));
		close(fd);
		return why;
	}
	fflush(stdout);
	child = fork();
	if (child == 0)
		serve(fd);
	close(fd);
	return NULL;
}

void hang_arm(void)
{
	atomic_store(&shared->armed, true);
}

unsigned hang_caught(void)
{
	return atomic_load(&shared->caught);
}

bool hang_has_caught(unsigned n)
{
	for (int i = 0; i < 6000 && atomic_load(&shared->caught) < n; i++)
		usleep(10000);
	return atomic_load(&shared->caught) >= n;
}

void hang_end(void)
{
	/* The last descriptor of /dev/fuse goes with it: the kernel answers
	 * what it has left open. */
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
	munmap(shared, sizeof(*shared));
}
