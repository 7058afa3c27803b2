/* SPDX-License-Identifier: MIT */
/*
 * Where the socket is looked for, and which folders and peers are refused: a
 * foreign one, one that others can write, a link, a path that is too long.
 */
#include "lib/store/socket_path.h"

#include <errno.h>
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
#include "tests/tap.h"

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
	struct socket_places p;
	char want[128];

	unsetenv("TARN_SOCKET");
	unsetenv("SLURM_JOB_ID");
	setenv("XDG_RUNTIME_DIR", "/run/user/77", 1);
	is_int(0, socket_places(NULL, &p), "the places");
	is_int(3, p.n, "three of them");
	is_str("/run/tarn/tarnd.sock", p.at[0].path, "the machine's");
	ok(!p.at[0].ours, "which nobody starts by himself");
	is_str("/run/user/77/tarn/tarnd.sock", p.at[1].path, "the session's");
	snprintf(want, sizeof(want), "/tmp/tarn-%u/tarnd.sock",
		(unsigned)geteuid());
	is_str(want, p.at[2].path, "the user's");
	ok(p.at[1].ours && p.at[2].ours, "which are his own");

	setenv("SLURM_JOB_ID", "4711_3", 1);
	socket_places(NULL, &p);
	is_str("/run/tarn/tarnd.sock", p.at[0].path,
		"the machine's is the same in a job");
	is_str("/run/user/77/tarn/tarnd-4711_3.sock", p.at[1].path,
		"the user's is the job's");
	setenv("SLURM_JOB_ID", "../x", 1);
	is_int(-EINVAL, socket_places(NULL, &p), "a job's name is no path");
	setenv("SLURM_JOB_ID",
		"12345678901234567890123456789012345678901234567890", 1);
	is_int(-ENAMETOOLONG, socket_places(NULL, &p), "nor endless");
	unsetenv("SLURM_JOB_ID");

	setenv("XDG_RUNTIME_DIR", "relative", 1);
	socket_places(NULL, &p);
	is_int(2, p.n, "a relative session folder is passed over");

	setenv("TARN_SOCKET", "/a/b.sock", 1);
	socket_places(NULL, &p);
	is_int(1, p.n, "TARN_SOCKET is the only place");
	is_str("/a/b.sock", p.at[0].path, "it is that one");
	ok(p.at[0].ours, "and a daemon may be started there");
	socket_places("/c/d.sock", &p);
	is_str("/c/d.sock", p.at[0].path, "what the caller names comes first");
	ok(!p.at[0].ours, "and nothing is started there");
	is_int(-EINVAL, socket_places("", &p), "an empty path");
	unsetenv("TARN_SOCKET");
}

static void test_too_long(void)
{
	struct socket_places p;
	char path[200];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[107] = '\0';
	is_int(0, socket_places(path, &p), "107 bytes fit");
	path[107] = 'x';
	path[108] = '\0';
	is_int(-ENAMETOOLONG, socket_places(path, &p), "108 do not");
	has_str("108 bytes, 107 are the most", tarn_fail_message(), "and says");
	setenv("TARN_SOCKET", path, 1);
	is_int(-ENAMETOOLONG, socket_places(NULL, &p), "nor from TARN_SOCKET");
	unsetenv("TARN_SOCKET");
}

static void test_folder(void)
{
	const char *sock;
	struct stat st;

	sock = in_top("new/s");
	is_int(-ENOENT, socket_folder_check(sock, false), "no folder");
	is_int(0, socket_folder_check(sock, true), "is made");
	stat(in_top("new"), &st);
	is_int(0700, st.st_mode & 07777, "for the user alone");
	is_int(0, socket_folder_check(sock, true), "once");

	mkdir(in_top("open"), 0700);
	chmod(in_top("open"), 0777);
	is_int(-EPERM, socket_folder_check(in_top("open/s"), true),
		"one that anybody can write is refused");
	has_str("mode 777", tarn_fail_message(), "and the sentence says it");
	chmod(in_top("open"), 01777);
	is_int(0, socket_folder_check(in_top("open/s"), true),
		"a sticky one (/tmp) of ours or root's is not");

	if (symlink(in_top("new"), in_top("link")) < 0)
		bail("symlink: %s", strerror(errno));
	is_int(-EPERM, socket_folder_check(in_top("link/s"), true),
		"a link is refused");
	has_str("is a link", tarn_fail_message(), "and the sentence says it");
	if (mknod(in_top("file"), S_IFREG | 0600, 0) < 0)
		bail("mknod: %s", strerror(errno));
	is_int(-EPERM, socket_folder_check(in_top("file/s"), true),
		"a file is refused");
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
	mkdir(in_top("his"), 0755);
	if (chown(in_top("his"), 12345, 12345) < 0)
		bail("chown: %s", strerror(errno));
	is_int(-EPERM, socket_folder_check(in_top("his/s"), true),
		"a folder of another user is refused");
	has_str("belongs to uid 12345", tarn_fail_message(), "by name");
	/* His socket in a folder of root's: the peer decides. */
	chmod(in_top("new"), 01777);
	/* By a relative path: he cannot walk down to it. */
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
	is_int(-EPERM, socket_connect(in_top("new/s"), &fd),
		"a socket that another user serves is refused");
	fd_close(listener);
	unlink(in_top("new/s"));
	rmdir(in_top("his"));
}

static void test_connect(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int listener, fd = -1;

	is_int(-ENOENT, socket_connect(in_top("new/none"), &fd), "no socket");
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", in_top("new/t"));
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) ||
		listen(listener, 1))
		bail("listen on %s: %s", a.sun_path, strerror(errno));
	is_int(0, socket_connect(a.sun_path, &fd), "our own is connected");
	fd_close(fd);
	fd_close(listener);
	fd = -1;
	is_int(-ECONNREFUSED, socket_connect(a.sun_path, &fd),
		"a socket that nobody serves");
	is_int(-1, fd, "gives nothing");
	unlink(a.sun_path);
}

int main(void)
{
	snprintf(top, sizeof(top), "%s", test_tmpdir());
	test_order();
	test_too_long();
	test_folder();
	test_foreign();
	test_connect();
	rmdir(in_top("new"));
	rmdir(in_top("open"));
	return done();
}
