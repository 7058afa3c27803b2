/* SPDX-License-Identifier: MIT */
/*
 * The OOM killer in a small cgroup, with a daemon and its clients in it. It
 * kills the server, a loader, a publisher, a reader, or the largest process;
 * what others have published is there afterwards, with the right bytes, and
 * the accounts are right. The keeper, whose death would end all, is never
 * chosen: it is the smallest, and has the lowest score.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/publish.h>
#include <tarn/report.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/cgroup.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define GROUP (256 * MIB)
#define TENSORS 12
#define USER 12345       /* nobody else here */
#define LARGE (3 * MIB)  /* adopted */
#define SMALL 4096       /* copied */
#define KEEPER_KIB 8192l /* of a daemon that keeps 20 MiB and more */
#define GROWTH_KIB 4096l

static struct daemon server;
static struct witness witness;

/* ---- what is published ------------------------------------------------- */

static int64_t size_of(int i)
{
	return i % 2 ? LARGE : SMALL;
}

/* False: there is no memory for it now. */
static bool publish(tarn_store *store, const char *name, int64_t size, int byte)
{
	struct tarn_publish_item item = {.name = name};
	int r = tarn_store_create(store, TARN_U8, 1, &size, 0, &item.tensor);

	if (r >= 0) {
		memset(tarn_tensor_data(item.tensor), byte, (size_t)size);
		r = tarn_store_publish(store, &item, 1, NULL, NULL);
	}
	tarn_tensor_unref(item.tensor);
	if (r < 0 && r != -ENOSPC && r != -ENOMEM)
		bail("%s: %s", name, tarn_error_message());
	return r >= 0;
}

static bool stands(int i)
{
	const unsigned char *bytes;
	char name[32];
	tarn_tensor *t;
	bool fine;

	snprintf(name, sizeof(name), "kept/%d", i);
	if (tarn_store_lookup(witness.store, name, &t) < 0) {
		diag("%s: %s", name, tarn_error_message());
		return false;
	}
	bytes = tarn_tensor_data(t);
	fine = bytes[0] == i + 1 &&
	       memcmp(bytes, bytes + 1, (size_t)size_of(i) - 1) == 0;
	tarn_tensor_unref(t);
	return fine;
}

static void all_stands(const char *who)
{
	struct tarn_check *check = NULL;
	int n = 0;

	for (int i = 0; i < TENSORS; i++)
		n += stands(i);
	is_int(TENSORS, n, "%s was killed: what others published is there",
		who);
	is_int(0, tarn_store_check(witness.store, &check),
		"tarn check is done after the kill");
	for (uint32_t i = 0; check && i < check->n_faults; i++)
		diag("fault: %s", check->faults[i]);
	is_int(0, check ? check->n_faults + check->n_more : 1,
		"tarn check finds no fault after the kill");
	tarn_check_free(check);
}

/* ---- processes --------------------------------------------------------- */

static long number_of(pid_t pid, const char *file, int nth)
{
	char path[64], text[256];
	const char *at = text;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	if (fd_read_text(path, text, sizeof(text)) <= 0)
		return -1;
	while (nth--)
		at = strchr(at, ' ') ? strchr(at, ' ') + 1 : at;
	return atol(at);
}

static bool prefer(pid_t pid, int score)
{
	char path[64], text[16];
	int n = snprintf(text, sizeof(text), "%d", score);
	_cleanup_fd_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, (size_t)n) == n;
}

/* Takes memory until somebody is killed for it, who may be itself. */
static void run_out_of_memory(void)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		unsigned char *p = mmap(NULL, 2 * GROUP, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(p, 1, 2 * GROUP);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	is_int(SIGKILL, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		"the process that takes all memory is killed");
}

static bool becomes(pid_t pid, bool (*fn)(pid_t))
{
	for (int ms = 0; ms < 60000; ms += 10) {
		if (fn(pid))
			return true;
		usleep(10000);
	}
	return false;
}

static bool is_gone(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

static bool is_reaped(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == pid;
}

/* ---- rounds ------------------------------------------------------------ */

/* One that publishes all the time, and leaves what it had not. */
static pid_t publisher(void)
{
	tarn_store *store;
	int ready[2];
	pid_t pid;
	char c;

	if (pipe2(ready, O_CLOEXEC) < 0)
		bail("pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid) {
		close(ready[1]);
		if (read(ready[0], &c, 1) != 1)
			bail("the publisher does not publish");
		close(ready[0]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		_exit(1);
	for (int i = 0;; i++) {
		if (!publish(store, "dying/a", LARGE, i) ||
			!publish(store, "dying/b", SMALL, i))
			usleep(1000);
		if (i == 3 && write(ready[1], "!", 1) != 1)
			_exit(1);
	}
}

static void take(pid_t pid, bool child, const char *who)
{
	long kills = cgroup_kills();

	if (!ok(prefer(pid, 1000), "%s is offered to the OOM killer", who))
		return;
	run_out_of_memory();
	ok(becomes(pid, child ? is_reaped : is_gone), "%s is killed", who);
	ok(cgroup_kills() >= kills + 2,
		"the OOM killer killed a process of the group");
	all_stands(who);
	witness_is_served(&witness, who);
	ok(kill(server.pid, 0) == 0, "the keeper survives");
}

static void rounds(void)
{
	pid_t keeper = server.pid;

	take(publisher(), true, "a publisher");
	take(child_named(keeper, "tarn-server"), false, "the server");
	witness_can_load(&witness, "the server was killed");
	take(child_named(keeper, "tarn-loader"), false, "a loader");
	witness_can_load(&witness, "a loader was killed");
	for (int i = 0; i < 3; i++)
		run_out_of_memory();
	all_stands("whoever is largest");
}

static long keeper_kib(void)
{
	return number_of(server.pid, "statm", 1) * 4;
}

/* Of all that it keeps it has next to nothing in its own memory. A sanitizer
 * has a memory of its own there, which grows with what was freed. */
static void keeper_is_small(long fresh)
{
	long kib = keeper_kib();

	diag("the keeper has %ld KiB, of which %ld since it began", kib,
		kib - fresh);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(2, "a sanitizer's own memory is larger than a keeper");
#else
	ok(kib > 0 && kib - fresh < GROWTH_KIB,
		"the keeper does not grow with what it keeps");
	ok(kib < KEEPER_KIB, "the keeper needs little memory");
#endif
}

/* Nobody needs to ask for the keeper not to be taken. */
static void keeper_is_last(long fresh)
{
	static const char *const names[] = {"tarn-server", "tarn-loader"};
	long score = number_of(server.pid, "oom_score_adj", 0);

	keeper_is_small(fresh);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		pid_t pid = child_named(server.pid, names[i]);
		long other = number_of(pid, "oom_score_adj", 0);

		if (!ok(other > score,
			    "%s has a higher OOM score setting than the keeper",
			    names[i]))
			diag("its score is %ld, the keeper's %ld", other,
				score);
		ok(number_of(pid, "oom_score", 0) >=
				number_of(server.pid, "oom_score", 0),
			"the kernel gives it a higher OOM score than the "
			"keeper");
	}
}

/* An ordinary user may lower no score, nor open its own daemon's files in
 * /proc. */
static bool scores_of_a_user(const char *folder)
{
	const char *const args[] = {"--idle", "1", NULL};
	char path[64];
	bool fine;
	pid_t pid;

	if (chdir(folder) < 0 || setgroups(0, NULL) < 0 ||
		setresgid(USER, USER, USER) < 0 ||
		setresuid(USER, USER, USER) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/s", folder);
	daemon_start(&server, path, args);
	pid = child_named(server.pid, "tarn-server");
	fine = pid > 0 && number_of(pid, "oom_score_adj", 0) >
				  number_of(server.pid, "oom_score_adj", 0);
	return daemon_stop(&server) == 0 && fine;
}

static void as_a_user(void)
{
	const char *folder = test_outside("oom");
	int status = -1;
	pid_t pid;

	if (chown(folder, USER, USER) < 0)
		bail("%s: %m", folder);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(scores_of_a_user(folder) ? 0 : 1);
	waitpid(pid, &status, 0);
	ok(status == 0, "an ordinary user's server is taken before its keeper");
	if (rmdir(folder) < 0)
		bail("%s: %m", folder);
}

static int inside(void)
{
	const char *const args[] = {"--budget", "96M", NULL};
	long fresh;

	as_a_user();
	cgroup_enter();
	daemon_start(&server, "s", args);
	fresh = keeper_kib();
	witness_begin(&witness, &server);
	for (int i = 0; i < TENSORS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "kept/%d", i);
		if (!publish(witness.store, name, size_of(i), i + 1))
			bail("%s: %s", name, tarn_error_message());
	}
	keeper_is_last(fresh);
	rounds();
	keeper_is_last(fresh);
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(49);
}

int main(void)
{
	int status = -1;
	pid_t pid;

	if (!cgroup_make(GROUP))
		skip_all("no memory cgroup can be made here (it needs root, "
			 "and the controller)");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		exit(inside());
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (!cgroup_remove())
		bail("the group is left behind: %m");
	remove_files();
	if (!WIFEXITED(status))
		bail("the process in the group: status %d", status);
	return WEXITSTATUS(status);
}
