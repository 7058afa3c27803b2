/* SPDX-License-Identifier: MIT */
/*
 * One of tarn's promises: a process that was given a segment to read can
 * neither change it nor resize it, by any route, with the same uid and as
 * root. The maker's mapping continues to write, and writes to a copy-on-write
 * mapping are seen by no other process.
 *
 * A child gets the descriptor over a socket, drops what the fork gave it, and
 * tries; what it did is written into shared memory and judged by the parent.
 */
#include <fcntl.h>
#include <grp.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "shm/segment.h"
#include "shm/messages.h"
#include "tests/kit/tap.h"

#define SIZE (1u << 20)
#define BYTE 0x5a
#define BY_FD 12                 /* attempts through one descriptor */
#define ATTEMPTS (3 * BY_FD + 6) /* as it came and twice reopened, and others */
#define AS_READER (ATTEMPTS + 14)

enum verdict { REFUSED = 1, DONE, CANNOT_TRY };

struct report {
	int n;
	struct {
		char what[128];
		int verdict;
	} rows[64];
};

static struct report *report;

static void note(const char *who, const char *what, int verdict)
{
	snprintf(report->rows[report->n].what, sizeof(report->rows[0].what),
		"%s: %s", who, what);
	report->rows[report->n++].verdict = verdict;
}

static void note_failed(const char *who, const char *what, bool failed)
{
	note(who, what, failed ? REFUSED : DONE);
}

/* Whatever a descriptor allows, if it was opened for writing or not. */
static void try_fd(const char *who, int fd)
{
	struct iovec iov = {(char[]) {"x"}, 1};
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	note_failed(who, "map it writable", p == MAP_FAILED);
	p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		_exit(4);
	note_failed(who, "mprotect it writable",
		mprotect(p, SIZE, PROT_READ | PROT_WRITE) < 0);
	note_failed(who, "MADV_REMOVE", madvise(p, 4096, MADV_REMOVE));
	munmap(p, SIZE);
	note_failed(who, "write", write(fd, "x", 1) < 0);
	note_failed(who, "pwrite", pwrite(fd, "x", 1, 100) < 0);
	note_failed(
		who, "pwritev2", pwritev2(fd, &iov, 1, 200, RWF_NOWAIT) < 0);
	note_failed(who, "shrink", ftruncate(fd, SIZE / 2) < 0);
	note_failed(who, "grow", ftruncate(fd, SIZE * 2) < 0);
	note_failed(who, "fallocate more", fallocate(fd, 0, 0, SIZE * 2) < 0);
	note_failed(who, "punch a hole",
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			4096) < 0);
	note_failed(who, "zero a range",
		fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096) < 0);
	note_failed(
		who, "add a seal", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
}

/* Roads that lead through the kernel to a read-only mapping. */
static void try_kernel(const char *who, void *map)
{
	struct iovec from = {(char[]) {"x"}, 1}, to = {map, 1};
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	int ends[2];

	note_failed(who, "process_vm_writev into it",
		process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0);
	if (mem >= 0) {
		note_failed(who, "write into it through /proc/self/mem",
			pwrite(mem, "x", 1, (off_t)(uintptr_t)map) < 0);
		close(mem);
	} else {
		note(who, "write through /proc/self/mem", CANNOT_TRY);
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		_exit(5);
	note_failed(who, "read from a pipe into it",
		write(ends[1], "x", 1) == 1 && read(ends[0], map, 1) < 0);
	close(ends[0]);
	close(ends[1]);
}

static void try_uring(const char *who, void *map)
{
	struct io_uring_params params = {.flags = 0};
	struct iovec iov = {map, 65536};
	const char *what = "register it as an io_uring buffer to read into";
	int ring = (int)syscall(SYS_io_uring_setup, 2, &params);

	if (ring < 0) {
		note(who, what, CANNOT_TRY);
		return;
	}
	note_failed(who, what,
		syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS,
			&iov, 1) < 0);
	close(ring);
}

static void try_reopened(const char *who, const char *what, int fd)
{
	char path[64], text[64];
	int rw;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rw = open(path, O_RDWR | O_CLOEXEC);
	snprintf(text, sizeof(text), "%s, %s", who, what);
	if (rw < 0) {
		note(text, "reopen it read-write", REFUSED);
		for (int i = 1; i < BY_FD; i++)
			note(text, "change what is not reopened", CANNOT_TRY);
		return;
	}
	try_fd(text, rw);
	close(rw);
}

static void try_all(const char *who, int fd)
{
	void *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	unsigned char *cow;

	note(who, "map it to read", map != MAP_FAILED ? REFUSED : DONE);
	try_fd(who, fd);
	try_kernel(who, map);
	try_uring(who, map);
	try_reopened(who, "reopened", fd);
	/* Owner or root may; nobody is helped by it. */
	(void)fchmod(fd, 0600);
	try_reopened(who, "after fchmod", fd);
	cow = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (cow != MAP_FAILED)
		cow[300] = 0x77;
	note(who, "a copy-on-write mapping is written, and no process sees it",
		cow != MAP_FAILED && cow[300] == 0x77 &&
				((unsigned char *)map)[300] == BYTE
			? REFUSED
			: DONE);
}

static void child(const char *who, int sock, void *inherited, int fd, uid_t uid)
{
	struct wire_message message;

	munmap(inherited, SIZE);
	close(fd);
	if (uid && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
			   setresuid(uid, uid, uid) < 0))
		_exit(2);
	if (wire_receive(sock, NULL, &message) != 1 ||
		segment_check(message.fds[0], SIZE) < 0)
		_exit(3);
	try_all(who, message.fds[0]);
	wire_message_clear(&message);
	_exit(0);
}

static bool all_bytes(const unsigned char *map, unsigned char byte)
{
	for (size_t i = 0; i < SIZE; i++)
		if (map[i] != byte)
			return false;
	return true;
}

/* A sealed segment, with the mapping of its maker. */
struct sealed {
	int fd, ro;
	unsigned char *map;
};

static void make_sealed(const char *who, struct sealed *s)
{
	void *p;

	if (segment_create("tarn-test", SIZE, 12, &s->fd) < 0 ||
		segment_map_rw(s->fd, SIZE, &p) < 0)
		bail("%s", tarn_fail_message());
	s->map = p;
	memset(s->map, 0, SIZE);
	is_int(-EPERM, segment_check(s->fd, SIZE),
		"%s: an unsealed segment is refused", who);
	if (segment_seal(s->fd) < 0 || segment_reopen(s->fd, &s->ro) < 0)
		bail("%s", tarn_fail_message());
	is_int(-EPERM, segment_check(s->fd, SIZE),
		"%s: a writable descriptor is refused", who);
	is_int(-EPERM, segment_check(s->ro, SIZE * 2),
		"%s: a segment of another size is refused", who);
	is_int(0, segment_check(s->ro, SIZE),
		"%s: a proper read-only segment is accepted", who);
	is_int(-EPERM, segment_check_register(s->fd, SIZE, O_RDWR),
		"%s: it is none that can be mapped writable", who);
	memset(s->map, BYTE, SIZE);
	ok(all_bytes(s->map, BYTE), "%s: the maker's mapping still writes",
		who);
}

/* A child that gets the segment by a message tries to change it. */
static void attempt_all(const char *who, uid_t uid, const struct sealed *s)
{
	int socks[2], status = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		bail("socketpair: %m");
	memset(report, 0, sizeof(*report));
	pid = fork();
	if (pid == 0)
		child(who, socks[1], s->map, s->fd, uid);
	if (wire_send(socks[0],
		    WIRE_OUT_FDS(WIRE_SEGMENT_FDS, 1, NULL, 0, &s->ro, 1)) < 0)
		bail("%s", tarn_fail_message());
	waitpid(pid, &status, 0);
	is_int(0, status, "%s: the child tried all attempts", who);
	for (int i = 0; i < report->n; i++) {
		if (report->rows[i].verdict == CANNOT_TRY)
			skip(1, "%s: not offered here", report->rows[i].what);
		else
			is_int(REFUSED, report->rows[i].verdict, "refused: %s",
				report->rows[i].what);
	}
	diag("%s: %d attempts", who, report->n);
	is_int(ATTEMPTS, report->n, "%s: each attempt was made or skipped",
		who);
	fd_close(socks[0]);
	fd_close(socks[1]);
}

/* One of a pool of kind register: as it is known by its pool, and no other. */
static void check_register(const char *who)
{
	int fd, ro;

	if (segment_create("tarn-test", SIZE, 12, &fd) < 0 ||
		segment_seal_register(fd) < 0 || segment_reopen(fd, &ro) < 0)
		bail("%s", tarn_fail_message());
	is_int(-EPERM, segment_check(ro, SIZE),
		"%s: one that is sealed in its size alone is refused", who);
	ok(segment_check_register(ro, SIZE, O_RDONLY) == 0 &&
			segment_check_register(fd, SIZE, O_RDWR) == 0,
		"%s: it is accepted as one of a pool of kind register", who);
	is_int(-EPERM, segment_check_register(ro, SIZE, O_RDWR),
		"%s: a descriptor for reading is none for writing", who);
	fd_close(ro);
	fd_close(fd);
}

/* A forked child that kept the mapping is a writer, as a loader is. */
static void forked_child_writes(const char *who, const struct sealed *s)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		s->map[5] = 0x11;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	is_int(0x11, s->map[5], "%s: a forked child of the maker still writes",
		who);
}

static void as_reader(const char *who, uid_t uid)
{
	struct sealed s = {-1, -1, NULL};
	struct stat st;

	make_sealed(who, &s);
	attempt_all(who, uid, &s);
	ok(all_bytes(s.map, BYTE), "%s: no byte of the segment has changed",
		who);
	is_int(SIZE, fstat(s.fd, &st) == 0 ? st.st_size : -1,
		"%s: the segment's size has not changed", who);
	forked_child_writes(who, &s);
	check_register(who);
	munmap(s.map, SIZE);
	fd_close(s.ro);
	fd_close(s.fd);
}

int main(void)
{
	int fd;

	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED)
		bail("mmap: %m");
	is_int(-EINVAL, segment_create("odd", 4097, 12, &fd),
		"a size that is no multiple of a page is refused");
	as_reader(geteuid() == 0 ? "root" : "the same uid", 0);
	if (geteuid() == 0)
		as_reader("another uid", 65534);
	else
		skip(AS_READER, "another uid: only root can become one");
	munmap(report, sizeof(*report));
	return done(1 + 2 * AS_READER);
}
