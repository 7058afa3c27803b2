/* SPDX-License-Identifier: MIT */
/*
 * The cost of a thousand connected clients for a daemon:
 *
 *	bench/clients SOCKET
 *
 * Connects them one after the other, each until it is welcome, with a lease
 * in its page; then leaves them alone. The first hundred are the reference
 * for the last hundred, each at its best of a few rounds. Memory is resident
 * memory of keeper and server from /proc, which counts memory that both map
 * twice, and does not count sockets and the kernel's memory for descriptors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "bench/times.h"
#include "shm/lease.h"
#include "shm/messages.h"

enum { CLIENTS = 1000, SAMPLE = 100, IDLE_S = 2, ROUNDS = 5 };

static pid_t keeper, server;

static void die(const char *what)
{
	fprintf(stderr, "bench/clients: %s: %s\n", what, tarn_fail_message());
	exit(1);
}

/* ---- one client -------------------------------------------------------- */

static void exchange_hello(int fd)
{
	struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	struct wire_message m = {0};
	const struct msg_welcome *welcome;
	struct lease_page *page;
	int r = wire_send(fd, WIRE_OUT(WIRE_HELLO, 1, &hello, sizeof(hello)));

	if (r >= 0)
		r = wire_receive(fd, NULL, &m);
	if (r < 0 || m.type != WIRE_WELCOME || m.size != sizeof(*welcome) ||
		m.n_fds != 2)
		die("hello");
	welcome = (const struct msg_welcome *)m.body;
	keeper = welcome->keeper_pid;
	server = welcome->server_pid;
	if (lease_map(m.fds[1], &page) < 0)
		die("lease page");
	/* Of a storage that there is not: it takes a slot, as any does. */
	page->used = 1;
	page->slots[0] = lease_word(7, 1);
	lease_unmap(page);
	wire_message_clear(&m);
}

static int come(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (fd < 0 ||
		connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		perror(path);
		exit(1);
	}
	exchange_hello(fd);
	return fd;
}

/* ---- what /proc says ---------------------------------------------------- */

static FILE *proc(pid_t pid, const char *name)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "r");
	if (!f) {
		perror(path);
		exit(1);
	}
	return f;
}

static unsigned long resident_kib(pid_t pid)
{
	FILE *f = proc(pid, "status");
	unsigned long kib = 0;
	char line[256];

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/* Nanoseconds on a core, as the scheduler counts them. */
static unsigned long long on_cpu(pid_t pid)
{
	FILE *f = proc(pid, "schedstat");
	unsigned long long ns = 0;

	if (fscanf(f, "%llu", &ns) != 1)
		ns = 0;
	fclose(f);
	return ns;
}

/* ---- the figures -------------------------------------------------------- */

/* The lower quartile: what others do on this machine only ever adds. */
static double usual_us(const double *seconds)
{
	double v[SAMPLE];

	memcpy(v, seconds, sizeof(v));
	sort_values(v, SAMPLE);
	return v[SAMPLE / 4] * 1e6;
}

static void show_memory(unsigned long keeper_kib, unsigned long server_kib)
{
	double k = (double)(resident_kib(keeper) - keeper_kib) / CLIENTS;
	double s = (double)(resident_kib(server) - server_kib) / CLIENTS;

	printf("memory of a client: keeper %5.1f KiB, server %5.1f KiB, "
	       "together %5.1f KiB (at most 64)\n",
		k, s, k + s);
}

static void show_idle(void)
{
	unsigned long long before;

	/* The last one is welcome, but not yet done with. */
	usleep(100000);
	before = on_cpu(keeper) + on_cpu(server);
	sleep(IDLE_S);
	/* The keeper looks every two seconds whether its socket is there. */
	printf("idle with %d clients: %.3f ms of CPU in %d s (at most 0.2)\n",
		CLIENTS,
		(double)(on_cpu(keeper) + on_cpu(server) - before) / 1e6,
		IDLE_S);
}

/* Connects all; what each took. */
static void connect_all(const char *path, int *ret_socks, double *ret_took)
{
	for (int i = 0; i < CLIENTS; i++) {
		double start = wall();

		ret_socks[i] = come(path);
		ret_took[i] = wall() - start;
	}
}

/* Closes all, and sees that the daemon knows. */
static double leave_all(const char *path, const int *socks)
{
	double start = wall();

	for (int i = 0; i < CLIENTS; i++)
		fd_close(socks[i]);
	fd_close(come(path));
	return wall() - start;
}

static void measure(const char *path)
{
	static double took[CLIENTS];
	static int socks[CLIENTS];
	unsigned long keeper_kib, server_kib;
	double first = 1e9, last = 1e9, left = 1e9;

	/* The very first makes the daemon's region for this user. */
	fd_close(come(path));
	keeper_kib = resident_kib(keeper);
	server_kib = resident_kib(server);
	for (int round = 0; round < ROUNDS; round++) {
		connect_all(path, socks, took);
		first = MIN(first, usual_us(took));
		last = MIN(last, usual_us(took + CLIENTS - SAMPLE));
		if (round == 0) {
			show_memory(keeper_kib, server_kib);
			show_idle();
		}
		left = MIN(left, leave_all(path, socks));
	}
	printf("connecting: the first %d %.0f us each, the last %d of %d "
	       "%.0f us: %.2f times (at most 1)\n",
		SAMPLE, first, SAMPLE, CLIENTS, last, last / first);
	printf("leaving: %.0f us each, until a new one is welcome\n",
		left / CLIENTS * 1e6);
}

int main(int argc, char **argv)
{
	const struct rlimit limit = {CLIENTS + 64, CLIENTS + 64};

	if (argc != 2) {
		fprintf(stderr, "usage: bench/clients SOCKET\n");
		return 2;
	}
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		perror("bench/clients: so many descriptors");
		return 1;
	}
	measure(argv[1]);
	return 0;
}
