/* SPDX-License-Identifier: MIT */
/*
 * What a client gets from a running daemon, it can read and no more: a segment
 * cannot be mapped writable, written, resized or reopened by it, also as the
 * daemon's own uid and as root. Nor can the control region, but for one route,
 * which only the daemon's own uid and root have: its memfd can be opened once
 * more, for writing, and not resized by that. The lease memfd, which a client
 * writes by right, cannot be resized; and the daemon's memory is out of its
 * reach.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/trace.h"
#include "tests/kit/witness.h"

static struct daemon server;
static struct witness witness;

static bool maps_writable(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p != MAP_FAILED)
		munmap(p, size);
	return p != MAP_FAILED;
}

static bool becomes_writable(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	bool done;

	if (p == MAP_FAILED)
		bail("%d cannot be mapped to read: %m", fd);
	done = mprotect(p, size, PROT_READ | PROT_WRITE) == 0;
	munmap(p, size);
	return done;
}

/* Whatever flags it was opened with. */
static void cannot_change(int fd, const char *what)
{
	ok(!maps_writable(fd, 4096),
		"%s: the descriptor cannot be mapped writable", what);
	ok(write(fd, "x", 1) < 0 && pwrite(fd, "x", 1, 0) < 0,
		"%s: the descriptor cannot be written", what);
	ok(ftruncate(fd, 4096) < 0 && ftruncate(fd, 1ll << 45) < 0,
		"%s: the descriptor cannot be resized", what);
	ok(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) <
			0,
		"%s: the descriptor cannot be punched", what);
}

/* The kernel may well let it be opened (root); then the seals must hold. */
static void cannot_reopen(int fd, const char *what, const char *how)
{
	char path[64], text[100];
	int rw;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	snprintf(text, sizeof(text), "%s, reopened %s", what, how);
	rw = open(path, O_RDWR | O_CLOEXEC);
	if (rw < 0) {
		is_int(EACCES, errno, "%s: the mode has no right to write",
			text);
		skip(3, "%s: it cannot be opened for writing", text);
		return;
	}
	cannot_change(rw, text);
	close(rw);
}

/* As it comes: also a control region. */
static void try_as_given(int fd, const char *what)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size < 4096)
		bail("%s: no size", what);
	is_int(O_RDONLY, fcntl(fd, F_GETFL) & O_ACCMODE,
		"%s: the descriptor is read-only", what);
	ok(!becomes_writable(fd, 4096), "%s: a mapping cannot be made writable",
		what);
	cannot_change(fd, what);
}

static void try_segment(int fd, const char *what)
{
	try_as_given(fd, what);
	cannot_reopen(fd, what, "as it is");
	/* 0400 and of the daemon's uid, which is ours. */
	if (fchmod(fd, 0666) < 0)
		diag("%s: fchmod: %m", what);
	cannot_reopen(fd, what, "after fchmod");
}

/* This process is of the daemon's uid, which owns the memfd: the one weakness
 * that tarn-security(7) names. Other uids: tests/daemon/security_uids. */
static void try_table(int fd)
{
	char path[64], byte;
	struct stat st;
	int rw;

	try_as_given(fd, "table");
	if (fstat(fd, &st) < 0)
		bail("table: %m");
	is_int(0400, st.st_mode & 07777,
		"table: no uid but its owner's opens it");
	is_int(geteuid(), st.st_uid, "table: its owner is the daemon's uid");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (geteuid() != 0)
		ok(open(path, O_RDWR | O_CLOEXEC) < 0 && errno == EACCES,
			"table: its mode has no right to write");
	else
		skip(1, "table: root opens it whatever its mode");
	fchmod(fd, 0600);
	rw = open(path, O_RDWR | O_CLOEXEC);
	ok(rw >= 0 && pread(fd, &byte, 1, 0) == 1 &&
			pwrite(rw, &byte, 1, 0) == 1,
		"table: the daemon's own uid can open it for writing");
	ok(ftruncate(rw, 4096) < 0 && ftruncate(rw, 1ll << 45) < 0,
		"table: it cannot be resized by that descriptor");
	ok(fcntl(rw, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0,
		"table: it takes no seal that would block the daemon");
	close(rw);
	fchmod(fd, 0400);
}

static void try_lease(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		bail("lease: %m");
	ok(ftruncate(fd, 0) < 0, "lease: its memfd cannot be made smaller");
	ok(ftruncate(fd, 2 * st.st_size) < 0,
		"lease: its memfd cannot be made larger");
	ok(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0,
		"lease: its memfd takes no seal");
}

#ifdef __SANITIZE_ADDRESS__
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

static void try_processes(const struct raw *raw, bool may_try)
{
	pid_t loader = child_named(server.pid, "tarn-loader");

	if (sanitized) {
		skip(3, "sanitizers attach to the daemon, so it lets itself be "
			"traced");
		return;
	}
	if (!may_try) {
		skip(3, "whether a process can be reached cannot be tried");
		return;
	}
	ok(!trace_reaches(raw->welcome.keeper_pid),
		"an equal user reaches no memory of the keeper");
	ok(!trace_reaches(raw->welcome.server_pid),
		"an equal user reaches no memory of the server");
	ok(loader > 0 && !trace_reaches(loader),
		"an equal user reaches no memory of the loader");
}

int main(void)
{
	const char *const args[] = {"--idle", "1", NULL};
	struct msg_segments want = {.first = 0, .count = WIRE_FDS_MAX};
	bool may_try = trace_as_equal();
	struct raw raw;

	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	raw_open(&raw, server.socket);
	try_processes(&raw, may_try);
	raw_send(&raw, WIRE_SEGMENTS, &want, sizeof(want), NULL, 0);
	if (raw_receive(&raw, RAW_PATIENCE_MS) != WIRE_SEGMENT_FDS ||
		!raw.n_fds)
		bail("no segments");
	is_int(1, raw.n_fds, "the pool has one segment to try");
	try_table(raw.table);
	for (int i = 0; i < raw.n_fds; i++)
		try_segment(raw.fds[i], "segment");
	try_lease(raw.lease);
	raw_close(&raw);
	witness_can_load(&witness, "after all that");
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(43);
}
