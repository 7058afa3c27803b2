/* SPDX-License-Identifier: MIT */
/* See upgrade.h. */
#include "tests/kit/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

struct daemon daemon_;
tarn_store *store;

#define PATIENCE_S 60.0

static char program[300], original[300];

/* ---- which program ----------------------------------------------------- */

/* A new file each time: nobody follows a link out of the folder, or writes
 * what is being executed. */
void program_install(const void *bytes, size_t size, mode_t mode)
{
	char fresh[320];
	int fd;

	snprintf(fresh, sizeof(fresh), "%s.new", program);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size ||
		fchmod(fd, mode) < 0 || close(fd) < 0 ||
		rename(fresh, program) < 0)
		bail("%s: %m", fresh);
}

static void install_daemon(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0 || fstat(fd, &st) < 0)
		bail("%s: %m", path);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		bail("%s: %m", path);
	program_install(map, (size_t)st.st_size, 0700);
	munmap(map, (size_t)st.st_size);
}

/* ---- upgrades ---------------------------------------------------------- */

struct tarn_report_daemon report(void)
{
	struct tarn_report_daemon d = {0};
	struct tarn_report *r;

	if (tarn_store_report(store, &r) < 0)
		bail("report: %s", tarn_error_message());
	d = r->daemon;
	tarn_report_free(r);
	return d;
}

bool upgraded(uint32_t times)
{
	double end = seconds() + PATIENCE_S;

	while (seconds() < end) {
		if (report().upgrades >= times)
			return true;
		usleep(5000);
	}
	return false;
}

void upgrade(void)
{
	uint32_t before = report().upgrades;

	/* The keeper kills a program that is too slow to say that it can take
	 * over: on a machine that is too slow for it, it is asked again. */
	for (int i = 0; i < 3; i++) {
		kill(daemon_.pid, SIGUSR2);
		if (upgraded(before + 1))
			return;
	}
	bail("no upgrade within %.0f s", 3 * PATIENCE_S);
}

void load_file(const char *name, uint32_t seed, uint64_t size)
{
	if (tensor_load(store, tensor_file("file", seed, size), name) < 0)
		bail("load %s: %s", name, tarn_error_message());
}

bool taken_becomes(uint64_t most)
{
	double end = seconds() + PATIENCE_S;

	while (seconds() < end) {
		if (report().allocated <= most)
			return true;
		usleep(10000);
	}
	diag("%llu bytes are taken", (unsigned long long)report().allocated);
	return false;
}

void program_restore(void)
{
	install_daemon(original);
}

void program_remove(void)
{
	unlink(program);
}

/* ---- the daemon -------------------------------------------------------- */

void upgrade_begin(void)
{
	upgrade_begin_with((const char *const[]) {
		"--budget", "512M", "--idle", "1", NULL});
}

void upgrade_begin_with(const char *const args[])
{
	const char *path = getenv("TARN_DAEMON");

	if (!path)
		bail("TARN_DAEMON is not set; run this through tests/run");
	if (!original[0])
		snprintf(original, sizeof(original), "%s", path);
	snprintf(program, sizeof(program), "%s/tarnd", test_tmpdir());
	setenv("TARN_DAEMON", program, 1);
	program_restore();
	daemon_start(&daemon_, "s", args);
	if (tarn_store_open(daemon_.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	diag("engine %s", report().engine);
}

void upgrade_end(void)
{
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	program_remove();
}
