/* SPDX-License-Identifier: MIT */
/*
 * What another user can do at a daemon of root's whose socket lets all users
 * connect: use its own memory, and nothing else. Each attempt is made by a
 * child that has become that user. Needs root, since only root can become two.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/store/store.h"
#include "shm/lease.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define STRANGER 12345
#define OVERFLOW 65534

static struct daemon server;
static struct witness witness;
static struct tarn_descriptor secret; /* of the witness's tensor */
static int secret_file;               /* which the stranger may read */

static void become(uid_t uid)
{
	/* Paths from here on begin in the socket's folder. */
	if (chdir(test_tmpdir()) < 0 || setgroups(0, NULL) < 0 ||
		setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0) {
		diag("becoming uid %u: %m", (unsigned)uid);
		_exit(2);
	}
}

/* What fn says in a child that is that user. */
static bool as(uid_t uid, bool (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		become(uid);
		_exit(fn() ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

/* ---- attempts: true if nothing came of it ---------------------------- */

static bool sees_no_name(void)
{
	struct tarn_descriptor d;
	struct table table;
	uint64_t version;
	struct raw raw;
	bool fine;

	raw_open(&raw, "s");
	fine = table_map(raw.table, false, &table) == 0 &&
	       table_lookup(&table, "innocent", 8, &d, &version) == -ENOENT &&
	       table.header->n_names == 0 && table.header->uid == STRANGER;
	raw_close(&raw);
	return fine;
}

/* The stranger opens for writing what it got a descriptor of. */
static bool reopens(int fd)
{
	char path[64];
	int rw;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rw = open(path, O_RDWR | O_CLOEXEC);
	fd_close(rw);
	return rw >= 0;
}

/* A memfd of that user's own, to see that the way is there. */
static bool reopens_own_memfd(void)
{
	int fd = memfd_create("own", MFD_CLOEXEC);
	bool done = reopens(fd);

	fd_close(fd);
	return done;
}

static bool changes(int fd)
{
	void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	return map == MAP_FAILED || reopens(fd) || fchmod(fd, 0666) == 0 ||
	       fchown(fd, STRANGER, STRANGER) == 0 || ftruncate(fd, 0) == 0 ||
	       pwrite(fd, "x", 1, 0) >= 0 ||
	       fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 ||
	       mprotect(map, 4096, PROT_READ | PROT_WRITE) == 0 ||
	       mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) !=
		       MAP_FAILED;
}

static bool cannot_write_table(void)
{
	struct raw raw;
	bool fine;

	raw_open(&raw, "s");
	fine = reopens_own_memfd() && !changes(raw.table);
	raw_close(&raw);
	return fine;
}

static bool write_text(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && fd_write_all(fd, text, strlen(text)) >= 0;
}

/* The root of a user namespace in which the daemon's uid is not mapped. 2: none
 * is to be had here. */
static int cannot_write_table_as_root(void)
{
	struct raw raw;
	char map[32];
	int fine;

	raw_open(&raw, "s");
	snprintf(map, sizeof(map), "0 %d 1", STRANGER);
	if (prctl(PR_SET_DUMPABLE, 1) < 0 || unshare(CLONE_NEWUSER) < 0 ||
		!write_text("/proc/self/uid_map", map) || geteuid() != 0)
		return 2;
	fine = reopens_own_memfd() && !changes(raw.table);
	raw_close(&raw);
	return !fine;
}

static bool gets_no_segment(void)
{
	struct msg_segments want = {.first = 0, .count = WIRE_FDS_MAX};
	struct raw raw;
	bool fine;

	raw_open(&raw, "s");
	raw_send(&raw, WIRE_SEGMENTS, &want, sizeof(want), NULL, 0);
	fine = raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_SEGMENT_FDS &&
	       raw.n_fds == 0;
	raw_close(&raw);
	return fine;
}

static bool imports_nothing(void)
{
	tarn_store *store;
	tarn_tensor *t;
	int r;

	if (tarn_store_open("s", NULL, &store) < 0) {
		diag("%s", tarn_error_message());
		return false;
	}
	r = tarn_store_import(store, &secret, &t);
	tarn_store_unref(store);
	return r == -ESTALE || r == -EBADMSG;
}

/* Its own lease page, full of leases on what is not its own. */
static bool fills_leases(void)
{
	struct lease_page *page;
	struct raw raw;

	raw_open(&raw, "s");
	if (lease_map(raw.lease, &page) < 0)
		return false;
	atomic_store(&page->used, LEASE_SLOTS);
	atomic_store(&page->noted, UINT32_MAX);
	for (uint32_t i = 0; i < LEASE_SLOTS; i++)
		atomic_store(
			&page->slots[i], lease_word(i % 64, 1 + i / 64 % 64));
	pause();
	return false;
}

static bool cannot_stop(void)
{
	struct raw raw;
	bool fine;

	raw_open(&raw, "s");
	raw_send(&raw, WIRE_STOP, NULL, 0, NULL, 0);
	fine = raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_ERROR &&
	       raw.error == EPERM;
	raw_close(&raw);
	return fine;
}

static bool cannot_remove(void)
{
	struct raw raw;
	bool fine;

	raw_open(&raw, "s");
	raw_send(&raw, WIRE_REMOVE, "innocent", 8, NULL, 0);
	fine = raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_ERROR &&
	       raw.error == ENOENT;
	raw_close(&raw);
	return fine;
}

/* The same file was loaded by root; its bytes are read again. */
static bool shares_no_bytes(void)
{
	struct order order = {0};
	struct raw raw;
	bool fine;

	raw_open(&raw, "s");
	order_range(&order, 0, 100000, 0);
	fine = order_load(&order, &raw, secret_file, -1) == WIRE_LOADED &&
	       !(raw.loaded.flags & LOADED_CACHED);
	raw_close(&raw);
	return fine;
}

static bool reaches(pid_t pid)
{
	struct iovec here = {(char[1]) {0}, 1}, there = {(void *)4096, 1};
	char path[64];
	int fd;

	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid,
			(const char *[]) {"mem", "fd", "map_files"}[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd_close(fd), fd >= 0)
			return true;
	}
	if (ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 || kill(pid, 0) == 0 ||
		errno != EPERM)
		return true;
	return process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0;
}

static bool reaches_no_process(void)
{
	pid_t loader = child_named(server.pid, "tarn-loader");
	struct raw raw;
	bool fine;

	raw_open(&raw, "s");
	fine = !reaches(raw.welcome.keeper_pid) &&
	       !reaches(raw.welcome.server_pid) && loader > 0 &&
	       !reaches(loader);
	raw_close(&raw);
	return fine;
}

static bool is_disconnected(void)
{
	struct raw raw;
	struct msg_hello hello = {.version = 1, .version_min = 1};
	bool fine;

	raw_connect(&raw, "s");
	raw_send(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	fine = raw_is_closed(&raw) && raw.table < 0;
	raw_close(&raw);
	return fine;
}

static bool cannot_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "s"};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool fine =
		connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 &&
		errno == EACCES;

	close(fd);
	return fine;
}

/* ---- the tests ------------------------------------------------------- */

/* The daemon drops an unheld storage after a second, unless the stranger's
 * leases count. */
static void test_leases(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		become(STRANGER);
		_exit(fills_leases());
	}
	witness_is_served(&witness, "a stranger leases other users' storages");
	usleep(200000);
	witness_can_load(
		&witness, "while a stranger leases other users' storages");
	ok(witness_sees_used(&witness, witness.before.used),
		"a stranger's leases on other users' storages are ignored");
	is_int(0, waitpid(pid, NULL, WNOHANG),
		"the stranger was connected all the time");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_namespace(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		become(STRANGER);
		_exit(cannot_write_table_as_root() * 10);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 20)
		skip(1, "no user namespace is to be had here");
	else
		is_int(0, status,
			"the root of a user namespace cannot open its control "
			"region for writing");
}

static void test_open_listener(void)
{
	ok(as(STRANGER, sees_no_name),
		"a stranger sees no name of other users");
	ok(as(STRANGER, gets_no_segment),
		"a stranger gets no segment of other users");
	ok(as(STRANGER, cannot_write_table),
		"a stranger cannot open its control region for writing");
	test_namespace();
	ok(as(STRANGER, imports_nothing),
		"a stranger cannot import another user's descriptor");
	ok(as(STRANGER, cannot_remove),
		"a stranger removes no name of other users");
	ok(as(STRANGER, cannot_stop), "a stranger cannot stop the daemon");
	ok(as(STRANGER, shares_no_bytes),
		"a stranger does not get files that others loaded");
	if (child_named(server.pid, "tarn-loader") > 0)
		ok(as(STRANGER, reaches_no_process),
			"a stranger reaches no process of the daemon");
	else
		skip(1, "the daemon has no loader to be reached now");
	ok(as(OVERFLOW, is_disconnected), "the overflow uid is refused");
}

static void begin(const char *mode)
{
	const char *const args[] = {"--mode", mode, "--idle", "1", NULL};

	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
}

static void end(void)
{
	witness_is_served(&witness, "at the end");
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
}

int main(void)
{
	const char *path;

	if (geteuid() != 0)
		skip_all("only root can become other users");
	if (chmod(test_tmpdir(), 0711) < 0)
		bail("%s: %m", test_tmpdir());
	begin("0666");
	path = made_file("secret", 100000, 7);
	secret_file = opened(path);
	if (tarn_store_export(witness.store, witness.tensor, &secret) < 0)
		bail("%s", tarn_error_message());
	test_leases();
	test_open_listener();
	end();
	begin("0600");
	ok(as(STRANGER, cannot_connect),
		"a socket of mode 0600 refuses a stranger");
	end();
	close(secret_file);
	remove_files();
	return done(19);
}
