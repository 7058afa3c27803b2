/* SPDX-License-Identifier: MIT */
/*
 * Where the client looks for the socket, and which folders and peers it
 * refuses: a foreign one, one that others can write, a link, a path that is
 * too long, and anything of the uid that stands for all users that a namespace
 * does not know. A connection that is not accepted ends in time.
 */
#include "lib/store/socket_connect.h"
#include "lib/store/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/tap.h"

static char top[64];

static const char *in_top(const char *name)
{
	static char path[2][256];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", top, name);
	return path[turn];
}

static void test_order(void)
{
	struct socket_candidates p;
	char want[128];

	unsetenv("TARN_SOCKET");
	unsetenv("SLURM_JOB_ID");
	setenv("XDG_RUNTIME_DIR", "/run/user/77", 1);
	is_int(0, socket_candidates(NULL, &p), "the candidate paths are found");
	is_int(3, p.n, "there are three candidate paths");
	is_str("/run/tarn/tarnd.sock", p.at[0].path,
		"the first candidate is the machine's socket");
	ok(!p.at[0].ours, "the machine's socket is not started by a client");
	is_str("/run/user/77/tarn/tarnd.sock", p.at[1].path,
		"the second candidate is in the session's folder");
	snprintf(want, sizeof(want), "/tmp/tarn-%u/tarnd.sock",
		(unsigned)geteuid());
	is_str(want, p.at[2].path,
		"the third candidate is in the user's own folder");
	ok(p.at[1].ours && p.at[2].ours,
		"the session's and the user's socket may be started");

	setenv("SLURM_JOB_ID", "4711_3", 1);
	socket_candidates(NULL, &p);
	is_str("/run/tarn/tarnd.sock", p.at[0].path,
		"the machine's candidate is the same in a job");
	is_str("/run/user/77/tarn/tarnd-4711_3.sock", p.at[1].path,
		"the user's candidate has the job's name");
	setenv("SLURM_JOB_ID", "../x", 1);
	is_int(-EINVAL, socket_candidates(NULL, &p),
		"a job's name with a slash is refused");
	setenv("SLURM_JOB_ID",
		"12345678901234567890123456789012345678901234567890", 1);
	is_int(-ENAMETOOLONG, socket_candidates(NULL, &p),
		"a job's name that is too long is refused");
	unsetenv("SLURM_JOB_ID");

	setenv("XDG_RUNTIME_DIR", "relative", 1);
	socket_candidates(NULL, &p);
	is_int(2, p.n, "a relative session folder is ignored");

	setenv("TARN_SOCKET", "/a/b.sock", 1);
	socket_candidates(NULL, &p);
	is_int(1, p.n, "TARN_SOCKET is the only place");
	is_str("/a/b.sock", p.at[0].path, "the only candidate is TARN_SOCKET");
	ok(p.at[0].ours, "a daemon may be started at that path");
	socket_candidates("/c/d.sock", &p);
	is_str("/c/d.sock", p.at[0].path,
		"the caller's path comes before TARN_SOCKET");
	ok(p.at[0].ours, "a daemon may be started at the caller's path");
	is_int(-EINVAL, socket_candidates("", &p), "an empty path is refused");
	unsetenv("TARN_SOCKET");
}

static void test_too_long(void)
{
	struct socket_candidates p;
	char path[200];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[107] = '\0';
	is_int(0, socket_candidates(path, &p),
		"a path of 107 bytes is accepted");
	path[107] = 'x';
	path[108] = '\0';
	is_int(-ENAMETOOLONG, socket_candidates(path, &p),
		"a path of 108 bytes is refused");
	has_str("108 bytes, 107 are the most", tarn_fail_message(),
		"the error has the length and the limit");
	setenv("TARN_SOCKET", path, 1);
	is_int(-ENAMETOOLONG, socket_candidates(NULL, &p),
		"a TARN_SOCKET that is too long is refused");
	unsetenv("TARN_SOCKET");
}

static void test_folder(void)
{
	const char *sock;
	struct stat st;

	sock = in_top("new/s");
	is_int(-ENOENT, socket_folder_check(sock, false),
		"a missing folder is not made when only checked");
	is_int(0, socket_folder_check(sock, true),
		"a missing folder is made when asked for");
	stat(in_top("new"), &st);
	is_int(0700, st.st_mode & 07777,
		"a folder that is made is the user's alone");
	is_int(0, socket_folder_check(sock, true),
		"a folder that was made is accepted");

	mkdir(in_top("open"), 0700);
	chmod(in_top("open"), 0777);
	is_int(-EPERM, socket_folder_check(in_top("open/s"), true),
		"a folder that anybody can write is refused");
	has_str("mode 777", tarn_fail_message(),
		"the error has the folder's mode");
	chmod(in_top("open"), 01777);
	is_int(0, socket_folder_check(in_top("open/s"), true),
		"a sticky folder of the user's or root's is accepted");

	if (symlink(in_top("new"), in_top("link")) < 0)
		bail("symlink: %s", strerror(errno));
	is_int(-EPERM, socket_folder_check(in_top("link/s"), true),
		"a folder that is a symbolic link is refused");
	has_str("is a link", tarn_fail_message(),
		"the error says that it is a link");
	if (mknod(in_top("file"), S_IFREG | 0600, 0) < 0)
		bail("mknod: %s", strerror(errno));
	is_int(-EPERM, socket_folder_check(in_top("file/s"), true),
		"a folder that is a regular file is refused");
	unlink(in_top("link"));
	unlink(in_top("file"));
}

/* As root: folders and peers of somebody else, seen by a third. */
static void test_foreign(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int listener, fd = -1, status;
	pid_t pid;

	if (geteuid() != 0) {
		skip(3, "needs root, to make what belongs to others");
		return;
	}
	mkdir(in_top("theirs"), 0755);
	if (chown(in_top("theirs"), 12345, 12345) < 0)
		bail("chown: %s", strerror(errno));
	is_int(-EPERM, socket_folder_check(in_top("theirs/s"), true),
		"a folder of another user is refused");
	has_str("belongs to uid 12345", tarn_fail_message(),
		"the error names the owner of the folder");
	/* The other user's socket in a folder of root's: the peer decides. */
	chmod(in_top("new"), 01777);
	/* By a relative path: that user cannot walk down to it. */
	snprintf(a.sun_path, sizeof(a.sun_path), "s");
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid = fork();
	if (pid == 0) {
		if (chdir(in_top("new")) || setgid(12345) || setuid(12345) ||
			bind(listener, (struct sockaddr *)&a, sizeof(a)) ||
			listen(listener, 1))
			_exit(1);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (status)
		diag("the other user could not listen: %#x", status);
	is_int(-EPERM, socket_connect(in_top("new/s"), 10000, &fd),
		"a socket that another user serves is refused");
	fd_close(listener);
	unlink(in_top("new/s"));
	rmdir(in_top("theirs"));
}

#define OWNER 12346 /* of a socket that passes for somebody else's */

/* In a child, as the user, with the folder as its current one. */
static bool as_user(uid_t uid, const char *folder, bool (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		bool good = chdir(folder) == 0 && setgid(uid) == 0 &&
			    setuid(uid) == 0 && fn();

		if (!good)
			diag("as uid %u: %s", (unsigned)uid,
				tarn_fail_message());
		_exit(!good);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

static int foreign_listener;

static bool listens(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "s"};

	return bind(foreign_listener, (struct sockaddr *)&a, sizeof(a)) == 0 &&
	       listen(foreign_listener, 5) == 0;
}

static bool refuses_overflow(void)
{
	int fd = -1, r = socket_connect("s", 10000, &fd);

	return r == -EPERM && fd == -1 &&
	       strstr(tarn_fail_message(), "or map it");
}

static bool refuses_in_namespace(void)
{
	return unshare(CLONE_NEWUSER) == 0 && geteuid() == 65534 &&
	       refuses_overflow();
}

static bool may_unshare(void)
{
	return unshare(CLONE_NEWUSER) == 0;
}

/* In a namespace that maps uids 0 to 65535 to themselves. */
static bool in_partial_namespace(bool (*fn)(void))
{
	int ready[2], go[2], status;
	char path[64], byte = 'x';
	FILE *map;
	pid_t pid;

	if (pipe(ready) < 0 || pipe(go) < 0)
		bail("pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0 ||
			write(ready[1], &byte, 1) != 1 ||
			read(go[0], &byte, 1) != 1 ||
			chdir(in_top("over")) < 0 || setuid(65534) < 0 ||
			!fn());
	if (read(ready[0], &byte, 1) != 1)
		bail("the child did not begin");
	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	map = fopen(path, "w");
	if (!map || fputs("0 0 65536\n", map) < 0 || fclose(map) != 0 ||
		write(go[1], &byte, 1) != 1 || waitpid(pid, &status, 0) < 0)
		bail("%s: %m", path);
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	close(go[1]);
	return status == 0;
}

static bool connects(void)
{
	int fd = -1, r = socket_connect("s", 10000, &fd);

	fd_close(fd);
	return r == 0;
}

/* Its own folder and its own socket, as uid 65534. */
static void test_nobody(void)
{
	if (chown(in_top("over"), 65534, 65534) < 0)
		bail("chown: %s", strerror(errno));
	foreign_listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ok(as_user(65534, in_top("over"), listens),
		"a process of uid 65534 serves a socket");
	ok(as_user(65534, in_top("over"), connects),
		"uid 65534 is accepted as itself outside of a namespace");
	ok(in_partial_namespace(refuses_overflow),
		"uid 65534 is refused where a namespace maps some users only");
	fd_close(foreign_listener);
	unlink(in_top("over/s"));
}

/* Its folder and its socket both read as 65534 there, and so does geteuid(). */
static void test_overflow(void)
{
	if (geteuid() != 0) {
		skip(5, "needs root, to make what belongs to others");
		return;
	}
	mkdir(in_top("over"), 0755);
	if (chown(in_top("over"), OWNER, OWNER) < 0)
		bail("chown: %s", strerror(errno));
	foreign_listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ok(as_user(OWNER, in_top("over"), listens),
		"a process of one user serves a socket");
	chmod(in_top("over/s"), 0666);
	if (as_user(12345, in_top("over"), may_unshare))
		ok(as_user(12345, in_top("over"), refuses_in_namespace),
			"an unmapped user's socket is not taken for another's "
			"own");
	else
		skip(1, "this user may not make a user namespace");
	fd_close(foreign_listener);
	unlink(in_top("over/s"));
	test_nobody();
	rmdir(in_top("over"));
}

/* As many wait as the socket allows: the server is stopped, say. */
static void test_full(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int listener, fd = -1, waiting[16], n = 0;
	double began;

	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", in_top("new/full"));
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) ||
		listen(listener, 1))
		bail("listen on %s: %s", a.sun_path, strerror(errno));
	do {
		waiting[n] = socket(AF_UNIX,
			SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	} while (connect(waiting[n++], (struct sockaddr *)&a, sizeof(a)) == 0 &&
		 n < 16);
	began = seconds();
	is_int(-ETIMEDOUT, socket_connect(a.sun_path, 200, &fd),
		"a connection to a server that does not accept ends");
	ok(seconds() - began < 60,
		"a connection that is not accepted ends at its time limit");
	has_str("accepts no connection", tarn_fail_message(),
		"the error says that no connection is accepted");
	while (n--)
		fd_close(waiting[n]);
	fd_close(listener);
	unlink(a.sun_path);
}

static void test_other_kind(void)
{
	int fd = -1;

	fd_close(open(
		in_top("new/plain"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	is_int(-ENOTSOCK, socket_connect(in_top("new/plain"), 10000, &fd),
		"a connection to a file that is no socket is refused");
	has_str("new/plain is a regular file, not a socket",
		tarn_fail_message(),
		"the error says that the file is no socket");
	unlink(in_top("new/plain"));
}

static void test_connect(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int listener, fd = -1;

	is_int(-ENOENT, socket_connect(in_top("new/none"), 10000, &fd),
		"a connection to a missing socket is refused");
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", in_top("new/t"));
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) ||
		listen(listener, 1))
		bail("listen on %s: %s", a.sun_path, strerror(errno));
	is_int(0, socket_connect(a.sun_path, 10000, &fd),
		"a connection to the user's own socket succeeds");
	fd_close(fd);
	fd_close(listener);
	fd = -1;
	is_int(-ECONNREFUSED, socket_connect(a.sun_path, 10000, &fd),
		"a connection to a socket without a server is refused");
	is_int(-1, fd, "a refused connection gives no descriptor");
	unlink(a.sun_path);
}

int main(void)
{
	snprintf(top, sizeof(top), "%s", test_tmpdir());
	test_order();
	test_too_long();
	test_folder();
	test_foreign();
	test_overflow();
	test_connect();
	test_full();
	test_other_kind();
	rmdir(in_top("new"));
	rmdir(in_top("open"));
	return done(49);
}
