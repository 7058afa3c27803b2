/* SPDX-License-Identifier: MIT */
/*
 * The cost of publishing:
 *
 *	bench/publish SOCKET PROCESSOR
 *
 * A tensor of 1 KiB is created, filled and published again and again, beside
 * as many bytes that go to a child over a bare SOCK_SEQPACKET socket and are
 * answered; the two take turns, so that both see the same machine, and the
 * child is on that processor, where the daemon is to be as well. Then 64 MiB
 * that are adopted, beside a memcpy of as many, and 1 MiB that is copied.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/pair.h"
#include "bench/times.h"

enum { ROUNDS = 15, CALLS = 1000, LARGE = 64 << 20, MEDIUM = 1 << 20 };

/* As many bytes as go one way for 1 KiB under a short name, and come back. */
enum { REQUEST = 1024 + 150, ANSWER = 72 };

static void die(const char *what)
{
	fprintf(stderr, "bench/publish: %s: %s\n", what, tarn_error_message());
	exit(1);
}

/* ---- the reference --------------------------------------------------- */

static void answer_for_ever(int sock)
{
	char bytes[REQUEST];

	while (recv(sock, bytes, sizeof(bytes), 0) == REQUEST)
		if (send(sock, bytes, ANSWER, MSG_NOSIGNAL) != ANSWER)
			break;
	_exit(0);
}

static int child(int processor)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair");
	if (fork() == 0) {
		close(pair[0]);
		pin(processor);
		answer_for_ever(pair[1]);
	}
	close(pair[1]);
	return pair[0];
}

static double ping_pong(int sock)
{
	char bytes[REQUEST] = {0};
	double start = wall();

	for (int i = 0; i < CALLS; i++)
		if (send(sock, bytes, REQUEST, MSG_NOSIGNAL) != REQUEST ||
			recv(sock, bytes, ANSWER, 0) != ANSWER)
			die("ping-pong");
	return (wall() - start) / CALLS * 1e6;
}

/* ---- publishing ------------------------------------------------------ */

static void publish(tarn_store *store, int64_t n, double *ret_seconds)
{
	struct tarn_publish_item item = {.name = "bench"};
	double start;

	if (tarn_store_create(store, TARN_U8, 1, &n, 0, &item.tensor) < 0)
		die("create");
	memset(tarn_tensor_data(item.tensor), 1, (size_t)n);
	start = wall();
	if (tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		die("publish");
	*ret_seconds = wall() - start;
	tarn_tensor_unref(item.tensor);
}

static double small(tarn_store *store)
{
	double start = wall(), only;

	for (int i = 0; i < CALLS; i++)
		publish(store, 1024, &only);
	return (wall() - start) / CALLS * 1e6;
}

static double large(tarn_store *store, int64_t n)
{
	double ms[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		publish(store, n, &ms[r]);
		ms[r] *= 1e3;
	}
	return median(ms, ROUNDS);
}

static double memory_copy(void)
{
	char *from = malloc(LARGE), *to = malloc(LARGE);
	double ms[ROUNDS];

	if (!from || !to)
		die("malloc");
	memset(from, 1, LARGE);
	memset(to, 2, LARGE);
	for (int r = 0; r < ROUNDS; r++) {
		double start = wall();

		memcpy(to, from, LARGE);
		__asm__ volatile("" : : "r"(to) : "memory");
		ms[r] = (wall() - start) * 1e3;
	}
	free(from);
	free(to);
	return median(ms, ROUNDS);
}

int main(int argc, char **argv)
{
	double bare[ROUNDS], ours[ROUNDS], factor[ROUNDS];
	tarn_store *store;
	int sock;

	if (argc != 3) {
		fprintf(stderr, "usage: bench/publish SOCKET PROCESSOR\n");
		return 2;
	}
	if (tarn_store_open(argv[1], NULL, &store) < 0)
		die("open");
	sock = child(atoi(argv[2]));
	small(store);
	for (int r = 0; r < ROUNDS; r++) {
		bare[r] = ping_pong(sock);
		ours[r] = small(store);
		factor[r] = ours[r] / bare[r];
	}
	printf("bare ping-pong:             %7.1f us\n", median(bare, ROUNDS));
	printf("create and publish 1 KiB:   %7.1f us, %.1f times as much (at "
	       "most 4)\n",
		median(ours, ROUNDS), median(factor, ROUNDS));
	printf("memcpy of 64 MiB:           %7.1f ms\n", memory_copy());
	printf("publish 64 MiB, adopted:    %7.1f ms\n", large(store, LARGE));
	printf("publish 1 MiB, copied:      %7.1f ms\n", large(store, MEDIUM));
	close(sock);
	wait(NULL);
	tarn_store_unref(store);
	return 0;
}
