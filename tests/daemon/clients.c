/* SPDX-License-Identifier: MIT */
/*
 * A thousand clients that are connected and do nothing cost next to nothing:
 * little memory, no CPU; and what the daemon does for one more it does as
 * before. bench/clients.c measures the same, and the time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

enum {
	CLIENTS = 1000,
	CLIENT_KIB = 64,
	/* Each takes two here and two in the daemon; a sixth of the daemon's
	 * are for clients. */
	FDS_NEEDED = 6 * CLIENTS + 600,
};

static unsigned long resident_kib(pid_t pid)
{
	char path[64], line[256];
	unsigned long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %lu", &kib) == 1)
			break;
	if (!f || !kib)
		bail("%s says nothing", path);
	fclose(f);
	return kib;
}

/* Times that a process was put on a core: none while it sleeps. */
static unsigned long long turns(pid_t pid)
{
	char path[64];
	unsigned long long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%*u %*u %llu", &n) != 1)
		bail("%s says nothing", path);
	fclose(f);
	return n;
}

/* The lease memfd is closed: it counts against this process, not the other. */
static void come(struct raw *raw, const char *socket)
{
	raw_open(raw, socket);
	close(raw->table);
	close(raw->lease);
	raw->table = raw->lease = -1;
}

static void test_memory(pid_t keeper, pid_t server, unsigned long before)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(1, "a sanitizer's shadow is memory too");
#else
	/* Less than nothing, if pages of the program were dropped. */
	long more = (long)(resident_kib(keeper) + resident_kib(server)) -
		    (long)before;

	diag("%d clients take %ld KiB", CLIENTS, more);
	ok(more <= CLIENTS * CLIENT_KIB,
		"%d clients take at most %d KiB each of keeper and server",
		CLIENTS, CLIENT_KIB);
#endif
}

static void test_idle(pid_t keeper, pid_t server)
{
	unsigned long long before, after = 0;

	/* Quiet once is enough: there may still be something to tidy. */
	for (int i = 0; i < 20; i++) {
		before = turns(keeper) + turns(server);
		usleep(500000);
		after = turns(keeper) + turns(server);
		if (after == before)
			break;
	}
	is_int(0, (int64_t)(after - before),
		"idle clients wake neither keeper nor server for half a "
		"second");
}

int main(void)
{
	static struct raw clients[CLIENTS];
	struct rlimit limit;
	struct daemon daemon;
	struct raw first;
	pid_t keeper, server;
	unsigned long before;
	int welcome = 0;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < FDS_NEEDED)
		skip_all("%d descriptors are needed (ulimit -n)", FDS_NEEDED);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	daemon_start(&daemon, "sock", NULL);
	come(&first, daemon.socket);
	keeper = first.welcome.keeper_pid;
	server = first.welcome.server_pid;
	before = resident_kib(keeper) + resident_kib(server);
	for (int i = 0; i < CLIENTS; i++) {
		come(&clients[i], daemon.socket);
		welcome += clients[i].welcome.server_pid == server;
	}
	is_int(CLIENTS, welcome, "all clients are welcome");
	test_memory(keeper, server, before);
	test_idle(keeper, server);
	raw_send(&clients[CLIENTS / 2], WIRE_PING, NULL, 0, NULL, 0);
	is_int(WIRE_PONG, raw_receive(&clients[CLIENTS / 2], RAW_PATIENCE_MS),
		"one of many clients gets its answer");
	for (int i = 0; i < CLIENTS; i++)
		raw_close(&clients[i]);
	come(&clients[0], daemon.socket);
	is_int(server, clients[0].welcome.server_pid,
		"another client is welcome when the others have left");
	raw_close(&clients[0]);
	raw_close(&first);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	return done(6);
}
