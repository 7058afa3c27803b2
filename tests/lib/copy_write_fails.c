/* SPDX-License-Identifier: MIT */
/*
 * What goes wrong while a file is written: writes come short or are
 * interrupted, the disk is full or fails, direct writes are refused, the file
 * may not grow, the caller changes its mind. The thread engine's pwrite is this
 * program's, so that it can do most of that on demand; a small tmpfs and
 * RLIMIT_FSIZE do the rest, with both engines.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/kit/must.h"
#include "tests/kit/written.h"

enum { SIZE = 3 << 20, BASE = 4000 };

static struct {
	_Atomic uint64_t error_at; /* writes that reach this byte fail */
	atomic_bool error_alone;   /* unless they begin past it */
	atomic_int error;          /* so; 0: none */
	atomic_bool refuse_direct;
	atomic_bool piecemeal;  /* a part of what was asked for */
	atomic_bool nothing;    /* 0, again and again */
	atomic_uint interrupts; /* so many EINTR and EAGAIN to give */
	atomic_uint calls;
} fault;

ssize_t pwrite(int fd, const void *buf, size_t size, off_t at)
{
	bool direct = fcntl(fd, F_GETFL) & O_DIRECT;
	unsigned n = atomic_load(&fault.interrupts);

	atomic_fetch_add(&fault.calls, 1);
	errno = fault.error;
	if (errno && (uint64_t)at + size > fault.error_at &&
		(!fault.error_alone || (uint64_t)at <= fault.error_at))
		return -1;
	errno = EINVAL;
	if (fault.refuse_direct && direct)
		return -1;
	if (fault.nothing)
		return 0;
	if (n && atomic_compare_exchange_strong(&fault.interrupts, &n, n - 1)) {
		errno = n % 2 ? EINTR : EAGAIN;
		return -1;
	}
	if (fault.piecemeal && size > 8192)
		size = direct ? size / 1536 * 512 : size / 3;
	return syscall(SYS_pwrite64, fd, buf, size, at);
}

static void calm(void)
{
	fault.error = 0;
	fault.error_alone = false;
	fault.refuse_direct = fault.piecemeal = fault.nothing = false;
	fault.interrupts = fault.calls = 0;
}

/* One copy of SIZE bytes to a fresh file; whether the file is right then. */
static int copy(const char *engine, enum tarn_io_mode io_mode, bool gathered,
	struct tarn_copy_info *info, bool *ret_right)
{
	struct tarn_copy_options o = {.engine = engine, .io_mode = io_mode};
	const int64_t shape[2] = {SIZE / 4096, 1024};
	struct tarn_layout l, from;
	struct written w;
	tarn_tensor *src;
	int r;

	must(tarn_layout_contiguous(TARN_F32, 2, shape, &l));
	from = l;
	if (gathered)
		must(tarn_layout_flip(&l, 1, &from));
	make_written(&w, BASE, BASE + SIZE);
	src = noise_tensor(&from, SIZE, BASE, 9);
	r = write_both(&w, BASE, &l, src, &o, info);
	*ret_right = first_unlike(&w) == -1;
	drop_written(&w);
	drop_noise(src, BASE);
	return r;
}

static void survives(const char *what, enum tarn_io_mode io_mode, bool gathered)
{
	struct tarn_copy_info info;
	bool right;

	is_int(0, copy("threads", io_mode, gathered, &info, &right),
		"a copy to a file survives %s", what);
	ok(right, "all bytes are in the file after the faults");
	is_int(SIZE, (int64_t)info.written,
		"each byte is counted as written once");
	calm();
}

static void passing_faults(bool direct)
{
	for (int gathered = 0; gathered < 2; gathered++) {
		fault.piecemeal = true;
		survives("short writes", TARN_IO_BUFFERED, gathered);
		fault.interrupts = 40;
		survives("EINTR and EAGAIN", TARN_IO_BUFFERED, gathered);
		if (!direct) {
			skip(9, "no direct I/O in %s", test_tmpdir());
			continue;
		}
		fault.piecemeal = true;
		survives("short direct writes", TARN_IO_DIRECT, gathered);
		fault.interrupts = 40;
		survives("interrupted direct writes", TARN_IO_DIRECT, gathered);
		fault.refuse_direct = true;
		survives("direct writes refused", TARN_IO_AUTO, gathered);
	}
}

static void fails(int wanted, const char *words, enum tarn_io_mode io_mode)
{
	struct tarn_copy_info info;
	bool right;

	for (int gathered = 0; gathered < 2; gathered++) {
		is_int(wanted,
			copy("threads", io_mode, gathered, &info, &right),
			"a copy to a file fails: %s", words);
		has_str(words, tarn_error_message(),
			"the error of the failed write contains the expected "
			"words");
		ok(!right, "the file does not have all bytes after a failed "
			   "write");
	}
	calm();
}

static void lasting_faults(bool direct)
{
	for (unsigned at = 0; at < 4; at++) {
		static const uint64_t bytes[] = {
			BASE, BASE + 5000, BASE + (1 << 20), BASE + SIZE - 1};

		fault.error = EIO;
		fault.error_at = bytes[at];
		fails(-EIO, "copy: writing at byte ", TARN_IO_BUFFERED);
	}
	/* Of several that fail at once, who is first is the threads' affair. */
	fault.error = ENOSPC;
	fault.error_at = BASE;
	fault.error_alone = true;
	fails(-ENOSPC, "copy: writing at byte 4000 of ", TARN_IO_BUFFERED);
	fault.error = EDQUOT;
	fault.error_at = BASE;
	fails(-EDQUOT, "/written: ", TARN_IO_BUFFERED);
	fault.nothing = true;
	fails(-EIO, "copy: writing at byte ", TARN_IO_BUFFERED);
	fault.error = EAGAIN;
	fault.error_at = BASE;
	fails(-EAGAIN, "copy: writing at byte ", TARN_IO_BUFFERED);
	if (!direct) {
		skip(12, "no direct I/O in %s", test_tmpdir());
		return;
	}
	fault.error = EIO;
	fault.error_at = BASE + (1 << 20);
	fails(-EIO, "copy: writing at byte ", TARN_IO_DIRECT);
	fault.refuse_direct = true;
	fails(-EINVAL, "copy: writing at byte ", TARN_IO_DIRECT);
}

static int cancel_at(void *arg, uint64_t done, uint64_t total)
{
	unsigned *left = arg;

	return done < total && (*left)-- == 0;
}

static void cancelled(const char *engine)
{
	const int64_t n = SIZE;
	struct tarn_layout l;
	tarn_tensor *src;

	must(tarn_layout_contiguous(TARN_U8, 1, &n, &l));
	src = noise_tensor(&l, SIZE, 64, 9);
	for (unsigned calls = 0; calls < 3; calls++) {
		unsigned left = calls;
		struct tarn_copy_options o = {
			.engine = engine, .progress = cancel_at, .arg = &left};
		struct written w;
		int r;

		make_written(&w, 0, SIZE);
		r = write_both(&w, 0, &l, src, &o, NULL);
		ok(r == -ECANCELED || (calls > 0 && r == 0),
			"%s: a copy that is cancelled at call %u ends "
			"cancelled or done",
			engine, calls);
		drop_written(&w);
	}
	drop_noise(src, 64);
}

enum { CANNOT = 77 };

/* Runs in a child what would spoil the parent; its exit status. */
static int in_child(int (*f)(const char *engine), const char *engine)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(f(engine));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int wants(const char *engine, int wanted, const char *words)
{
	for (unsigned io_mode = 0; io_mode < 2; io_mode++) {
		struct tarn_copy_info info;
		bool right;
		int r = copy(engine, (enum tarn_io_mode)io_mode, io_mode, &info,
			&right);

		if (r == wanted && !right &&
			strstr(tarn_error_message(), words))
			continue;
		diag("%s: %d, %s", engine, r, tarn_error_message());
		return 1;
	}
	return 0;
}

/* Nobody has asked that the signal be ignored: the kernel would kill. */
static int limited(const char *engine)
{
	struct rlimit l = {1 << 20, 1 << 20};

	signal(SIGXFSZ, SIG_DFL);
	if (setrlimit(RLIMIT_FSIZE, &l) < 0)
		return CANNOT;
	return wants(engine, -EFBIG, "/written: no file of this process");
}

static bool write_text(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && fd_write_all(fd, text, strlen(text)) >= 0;
}

/* Mounts of its own: as root, or as one's own root. */
static bool leave_world(void)
{
	char uids[64], gids[64];

	snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
	if (unshare(CLONE_NEWNS) < 0 &&
		(unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
			!write_text("/proc/self/setgroups", "deny") ||
			!write_text("/proc/self/uid_map", uids) ||
			!write_text("/proc/self/gid_map", gids)))
		return false;
	return mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0;
}

/* The folder of the test gets a tmpfs of 1 MiB. */
static int full(const char *engine)
{
	if (!leave_world() ||
		mount("none", test_tmpdir(), "tmpfs", 0, "size=1m") < 0)
		return CANNOT;
	return wants(engine, -ENOSPC, "copy: writing at byte ");
}

static void in_children(const char *engine)
{
	static const struct {
		int (*run)(const char *engine);
		const char *what;
	} cases[] = {
		{limited, "a file that may not grow"},
		{full, "a full disk"},
	};

	for (unsigned i = 0; i < 2; i++) {
		int status = in_child(cases[i].run, engine);

		if (status == CANNOT)
			skip(1, "%s: cannot be arranged here", cases[i].what);
		else
			is_int(0, status,
				"%s: a child's copy to a file that cannot "
				"grow fails: %s",
				engine, cases[i].what);
	}
}

int main(void)
{
	int probe;
	char path[4200];

	snprintf(path, sizeof(path), "%s/probe", test_tmpdir());
	probe = open(path, O_CREAT | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
	unlink(path);
	passing_faults(probe >= 0);
	lasting_faults(probe >= 0);
	fd_close(probe);
	for (unsigned i = 0; i < 2; i++) {
		if (!engine_works(engines[i])) {
			skip(5, "%s: %s", engines[i], tarn_error_message());
			continue;
		}
		cancelled(engines[i]);
		in_children(engines[i]);
	}
	rmdir(test_tmpdir());
	return done(100);
}
