/* SPDX-License-Identifier: MIT */
/*
 * An exec makes a process dumpable again: others of its user may then trace
 * it, and open its memory and its descriptors, which are those of all users'
 * tensors. So the keeper's next program hides before it does anything that may
 * take time, and so does the one that tries whether it can go on. Both are
 * stopped here as they open the configuration, which is before the state is
 * looked at, and a process of the same user tries to reach them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/trace.h"

#define PATIENCE_S 60

static struct daemon daemon_;
static tarn_store *store;
static unsigned refused; /* upgrades before this one */
static char conf[300], stop[320], log_path[300];

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		bail("%s: %m", path);
	close(fd);
}

static void preload(void)
{
	const char *build = getenv("top_builddir");
	char module[4096];

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip_all(
		"sanitizers attach to the daemon, so it lets itself be traced");
#endif
	snprintf(module, sizeof(module), "%s/tests/kit/.libs/libstop_open.so",
		build ? build : ".");
	if (access(module, R_OK) < 0)
		skip_all("%s was not built (--disable-shared?)", module);
	setenv("TARN_TEST_STOP", conf, 1);
	setenv("LD_PRELOAD", module, 1);
}

/* Its state and its parent; false: it is gone. */
static bool stat_of(pid_t pid, char *ret_state, int *ret_parent)
{
	char path[64];
	bool done;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	done = f && fscanf(f, "%*d (%*[^)]) %c %d", ret_state, ret_parent) == 2;
	if (f)
		fclose(f);
	return done;
}

/* The keeper, or a child of it, that has stopped; 0: none has. */
static pid_t stopped_one(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	while (proc && !found && (e = readdir(proc))) {
		pid_t pid = atoi(e->d_name);
		char state;
		int parent;

		if (pid > 0 && stat_of(pid, &state, &parent) && state == 'T' &&
			(pid == daemon_.pid || parent == daemon_.pid))
			found = pid;
	}
	if (proc)
		closedir(proc);
	return found;
}

static pid_t await_stopped(void)
{
	double end = seconds() + PATIENCE_S;
	pid_t pid;

	while (!(pid = stopped_one()) && seconds() < end)
		usleep(2000);
	return pid;
}

static uint32_t upgrades(void)
{
	struct tarn_report_daemon d;

	if (report_daemon(store, &d) < 0)
		bail("report: %s", tarn_error_message());
	return d.upgrades;
}

/* Stopped with that option as its first argument. The one that tries is killed
 * when it takes too long, which a busy machine may make it: then the upgrade is
 * refused, and that is no matter here. */
static void test_hidden(const char *option, const char *who)
{
	pid_t pid;

	refused = daemon_logged(log_path, "upgrade_refused");
	write_file(stop, option);
	kill(daemon_.pid, SIGUSR2);
	pid = await_stopped();
	ok(pid > 0, "%s is stopped as it opens the configuration", who);
	ok(pid > 0 && !trace_reaches(pid), "%s cannot be reached into", who);
	unlink(stop);
	if (pid > 0)
		kill(pid, SIGCONT);
}

/* It has come about, or was refused. */
static bool ends(uint32_t before)
{
	double end = seconds() + PATIENCE_S;

	while (seconds() < end) {
		if (upgrades() > before ||
			daemon_logged(log_path, "upgrade_refused") > refused)
			return true;
		usleep(5000);
	}
	return false;
}

int main(void)
{
	const char *const args[] = {"--config", conf, "--idle", "1", NULL};
	uint32_t before;

	snprintf(conf, sizeof(conf), "%s/conf", test_tmpdir());
	snprintf(stop, sizeof(stop), "%s.stop", conf);
	preload();
	if (!trace_as_equal())
		skip_all("whether a process can be reached cannot be tried");
	write_file(conf, "[daemon]\n");
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	daemon_start(&daemon_, "s", args);
	unsetenv("LD_PRELOAD");
	must(tarn_store_open(daemon_.socket, NULL, &store));
	ok(!trace_reaches(daemon_.pid), "the keeper cannot be reached into");
	test_hidden("--adopt-check", "the program that tries");
	ok(ends(0), "the upgrade comes about, or is refused");
	before = upgrades();
	test_hidden("--adopt", "the keeper's next program");
	ok(ends(before) && upgrades() > before, "the next upgrade comes about");
	ok(!trace_reaches(daemon_.pid),
		"the keeper cannot be reached into after the upgrade");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	unlink(conf);
	unlink(log_path);
	return done(9);
}
