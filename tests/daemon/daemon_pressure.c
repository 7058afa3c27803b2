/* SPDX-License-Identifier: MIT */
/*
 * In a real memory cgroup that other processes fill, files without a holder
 * are evicted before any process is killed; named files stay, with every byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/headroom.h"
#include "daemon/server/storage/pressure_relief.h"
#include "tests/kit/cgroup.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define GROUP (640 * MIB)
#define FILE_SIZE (48 * MIB)
#define FILES 5
#define PATIENCE 60.0

static const char *files[FILES];
static struct daemon server;
static tarn_store *store;

static void load(struct raw *raw, int i, const char *name)
{
	struct order order = {0};
	int fd = opened(files[i]), direct = opened_direct(files[i]);

	order_range(&order, 0, FILE_SIZE, 0);
	if (name)
		order_bytes(&order, name, (int64_t)FILE_SIZE);
	if (order_load(&order, raw, fd, direct) != WIRE_LOADED)
		bail("%s: %s", files[i], raw->text);
	fd_close(fd);
	fd_close(direct);
}

static struct tarn_report_daemon status(void)
{
	struct tarn_report_daemon s;

	if (report_daemon(store, &s) < 0)
		bail("status: %s", tarn_error_message());
	return s;
}

/* Leaves the group so many bytes of headroom. */
static void fill_up(uint64_t left)
{
	uint64_t room;
	void *p;

	if (headroom(&room, NULL, 0) < 0 || room < left)
		bail("headroom: %llu", (unsigned long long)room);
	p = mmap(NULL, room - left, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		bail("mmap: %m");
}

static bool holds(const tarn_tensor *t, uint32_t seed)
{
	const unsigned char *p = tarn_tensor_data(t);
	uint64_t i = 0;

	while (i < FILE_SIZE && p[i] == made_byte(i, seed))
		i += 509;
	return i >= FILE_SIZE;
}

static int inside(void)
{
	const char *const args[] = {
		"--budget", "2G", "--segment-size", "16M", NULL};
	struct tarn_report_daemon before, after;
	double end = seconds() + PATIENCE;
	tarn_tensor *stays = NULL;
	struct raw raw;

	cgroup_enter();
	daemon_start(&server, "s", args);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	raw_open(&raw, server.socket);
	load(&raw, 0, "stays");
	for (int i = 1; i < FILES; i++)
		load(&raw, i, NULL);
	before = status();
	ok(before.used >= FILES * FILE_SIZE, "five loaded files are in memory");
	fill_up(PRESSURE_LOW * 3 / 4);
	do {
		usleep(50000);
		after = status();
	} while (after.allocated + PRESSURE_LOW > before.allocated &&
		 seconds() < end);
	diag("%lld MiB are given back",
		(long long)(before.allocated - after.allocated) /
			(long long)MIB);
	ok(after.allocated + PRESSURE_LOW <= before.allocated,
		"the daemon gives memory back under pressure");
	ok(after.used >= FILE_SIZE, "the daemon keeps the named file's memory");
	is_int(0, tarn_store_lookup(store, "stays", &stays),
		"the named file is found under pressure");
	ok(stays && holds(stays, 1),
		"a named tensor keeps its bytes under memory pressure");
	is_int(0, cgroup_kills(), "no process of the group was killed");
	tarn_tensor_unref(stays);
	tarn_store_unref(store);
	raw_close(&raw);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(7);
}

int main(void)
{
	int wait_status = -1;
	pid_t pid;

	if (!cgroup_make(GROUP))
		skip_all("no memory cgroup can be made here (it needs root, "
			 "and the controller)");
	for (uint32_t i = 0; i < FILES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		files[i] = made_file(name, FILE_SIZE, i + 1);
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		exit(inside());
	if (pid > 0)
		waitpid(pid, &wait_status, 0);
	if (!cgroup_remove())
		bail("the group is left behind: %m");
	remove_files();
	if (!WIFEXITED(wait_status))
		bail("the process in the group: status %d", wait_status);
	return WEXITSTATUS(wait_status);
}
