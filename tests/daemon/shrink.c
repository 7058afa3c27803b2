/* SPDX-License-Identifier: MIT */
/*
 * Memory without storages is given back to the system: first down to a reserve
 * that stays warm, then all of it; by keeper, server and loader at once, and
 * by a client at its next look. Memory around a hole is untouched, and later
 * files take the hole's place, even where a client had the old one mapped. A
 * new server finds the same state.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/report.h>

#include "base/fd.h"
#include "tests/kit/cgroup.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define SEGMENT (16 * MIB)
#define FILE_SIZE (48 * MIB)
#define PATIENCE 60.0

static const char *const args[] = {
	"--segment-size", "16M", "--idle", "4", NULL};
static struct daemon server;
static tarn_store *store;
static struct raw raw;

static uint64_t allocated(void)
{
	struct tarn_report_daemon s;

	if (report_daemon(store, &s) < 0)
		bail("status: %s", tarn_error_message());
	return s.allocated;
}

/* Waits until that much is allocated; how much it was last. */
static uint64_t wait_for(uint64_t bytes)
{
	double end = seconds() + PATIENCE;

	uint64_t now;

	while ((now = allocated()) != bytes && now && seconds() < end)
		usleep(20000);
	return now;
}

static void load(const char *path, const char *name)
{
	struct order order = {0};
	int fd = opened(path), direct = opened_direct(path);

	order_range(&order, 0, FILE_SIZE, 0);
	if (name)
		order_bytes(&order, name, (int64_t)FILE_SIZE);
	if (order_load(&order, &raw, fd, direct) != WIRE_LOADED)
		bail("%s: %s", path, raw.text);
	fd_close(fd);
	fd_close(direct);
}

static void drop_name(const char *name)
{
	if (tarn_store_remove(store, name) < 0)
		bail("remove: %s", tarn_error_message());
}

/* Looks a tensor up and at all of its pages. */
static bool has_bytes(const char *name, uint32_t seed)
{
	const unsigned char *p;
	tarn_tensor *t = NULL;
	uint64_t i;

	if (tarn_store_lookup(store, name, &t) < 0)
		bail("lookup: %s", tarn_error_message());
	p = tarn_tensor_data(t);
	for (i = 0; i < FILE_SIZE && p[i] == made_byte(i, seed);)
		i += 997;
	tarn_tensor_unref(t);
	return i >= FILE_SIZE;
}

/* How many MiB of pools a process has mapped; -1: one may not look. */
static long mapped_mib(pid_t pid)
{
	unsigned long start, end;
	char path[64], line[4096];
	uint64_t sum = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file)) {
		if (file)
			fclose(file);
		return -1;
	}
	do {
		const char *name = strstr(line, "/memfd:tarn-");

		if (name && name[12] >= '0' && name[12] <= '9' &&
			sscanf(line, "%lx-%lx", &start, &end) == 2)
			sum += end - start;
	} while (fgets(line, sizeof(line), file));
	fclose(file);
	return (long)(sum / MIB);
}

/* The memory goes first, what maps it a moment later. */
static void nobody_maps(const char *who, pid_t pid)
{
	long mib = mapped_mib(pid);

	for (int i = 0; i < 6000 && mib > 0; i++) {
		usleep(10000);
		mib = mapped_mib(pid);
	}
	if (mib < 0)
		skip(1, "the maps of the %s cannot be read (root can)", who);
	else
		is_int(0, mib, "the %s has no segment mapped", who);
}

/* A machine that stalls for memory, be it because of another test, makes the
 * daemon give back what is warm, too: then once more. */
static uint64_t down_to_warm(const char *file)
{
	uint64_t left = wait_for(SEGMENT);

	for (int i = 0; i < 8 && left == 0; i++) {
		load(file, "again");
		drop_name("again");
		left = wait_for(SEGMENT);
	}
	return left;
}

static void down_to_nothing(const char *file)
{
	long before = cgroup_shmem_mib();

	load(file, "big");
	ok(has_bytes("big", 1), "a file of three segments is loaded");
	ok(allocated() >= FILE_SIZE, "the file's segments are allocated");
	if (before >= 0)
		ok(cgroup_shmem_mib() - before >= (long)(FILE_SIZE / MIB),
			"the system has as much less memory as the segments "
			"take");
	else
		skip(1, "no memory cgroup can be made here");
	drop_name("big");
	is_int(SEGMENT, (int64_t)down_to_warm(file), "one segment stays warm");
	is_int(0, (int64_t)wait_for(0), "the last segment is given back later");
	ok(mapped_mib(getpid()) >= 48,
		"a client that does not look still maps the old segment");
	nobody_maps("keeper", server.pid);
	nobody_maps("server", child_named(server.pid, "tarn-server"));
	nobody_maps("loader", child_named(server.pid, "tarn-loader"));
}

/* Three files side by side; the one in the middle goes. */
static void in_the_middle(const char *const *files)
{
	uint64_t base;
	long here;

	load(files[0], "left");
	is_int(0, (int64_t)(raw.loaded.base / FILE_SIZE),
		"the next file begins at the pool's beginning");
	ok(has_bytes("left", 1), "the client sees the next file's bytes");
	load(files[1], "middle");
	base = raw.loaded.base;
	load(files[2], "right");
	ok(has_bytes("middle", 2) && has_bytes("right", 3),
		"two more files are loaded");
	here = mapped_mib(getpid());
	ok(here == (long)(allocated() / MIB),
		"no more is mapped than the files need");
	drop_name("middle");
	is_int(2 * FILE_SIZE, (int64_t)wait_for(2 * FILE_SIZE),
		"the file in the middle is given back");
	load(files[3], "new");
	is_int((int64_t)base, (int64_t)raw.loaded.base,
		"another file takes the hole");
	ok(has_bytes("new", 4),
		"a client that mapped the old file sees the new one's bytes");
	ok(has_bytes("left", 1) && has_bytes("right", 3),
		"the files beside the hole are unchanged");
	is_int((int64_t)(allocated() / MIB), mapped_mib(getpid()),
		"no segment that was given back is mapped");
	drop_name("left");
	drop_name("right");
	drop_name("new");
}

/* Another server finds the same segments, and knows of the same that went. */
static void restarted(void)
{
	pid_t old = child_named(server.pid, "tarn-server");
	struct tarn_check *check = NULL;

	raw_close(&raw);
	kill(old, SIGKILL);
	while (child_named(server.pid, "tarn-server") == old ||
		child_named(server.pid, "tarn-server") == 0)
		usleep(10000);
	if (tarn_store_check(store, &check) < 0)
		bail("check: %s", tarn_error_message());
	is_int(0, check->n_faults,
		"tarn check finds no fault under a new server");
	tarn_check_free(check);
	raw_open(&raw, server.socket);
}

static int run(void)
{
	const char *files[4];
	long before, left;
	double end;

	for (uint32_t i = 0; i < 4; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		files[i] = made_file(name, FILE_SIZE, i + 1);
	}
	before = cgroup_shmem_mib();
	daemon_start(&server, "s", args);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	raw_open(&raw, server.socket);
	down_to_nothing(files[0]);
	restarted();
	in_the_middle(files);
	restarted();
	is_int(0, (int64_t)wait_for(0), "all memory is given back at the end");
	tarn_store_unref(store);
	end = seconds() + PATIENCE;
	do
		left = cgroup_shmem_mib() - before;
	while (left >= 8 && seconds() < end && usleep(10000) == 0);
	if (before < 0)
		skip(1, "no memory cgroup can be made here");
	else if (!ok(left < 8,
			 "the system gets the memory of all segments back"))
		diag("%ld MiB are not", left);
	raw_close(&raw);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(23);
}

int main(void)
{
	int status = -1;
	pid_t pid;

	if (!cgroup_make(4096 * MIB))
		return run();
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		cgroup_enter();
		exit(run());
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (!cgroup_remove())
		bail("the group is left behind: %m");
	if (!WIFEXITED(status))
		bail("the process in the group: status %d", status);
	return WEXITSTATUS(status);
}
