/* SPDX-License-Identifier: MIT */
/*
 * The cost of a snapshot of 1,000 names for each of them:
 *
 *	bench/snapshot SOCKET
 *
 * Beside it, in turns, as many single look-ups, which give no set: names in a
 * row, whose storages are opened anew, as those of the snapshot are. Then the
 * same beside a publisher that replaces one of the names as fast as it can.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"

enum { NAMES = 1000, ROUNDS = 201 };

static tarn_store *store;
static char names[NAMES][32];

static void check(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "bench/snapshot: %s: %s\n", what, tarn_error_message());
	exit(1);
}

static void publish(tarn_store *s, size_t n)
{
	struct tarn_publish_item items[NAMES] = {0};
	int64_t one = 1;

	for (size_t i = 0; i < n; i++) {
		items[i].name = names[i];
		check(tarn_store_create(
			      s, TARN_I64, 1, &one, 0, &items[i].tensor),
			"create");
	}
	check(tarn_store_publish(s, items, n, NULL, NULL), "publish");
	for (size_t i = 0; i < n; i++)
		tarn_tensor_unref(items[i].tensor);
}

static double snapshot(void)
{
	double start = wall_ns();
	struct tarn_snapshot *s;

	check(tarn_store_snapshot(store, "set/", &s), "snapshot");
	if (s->n != NAMES)
		exit(1);
	tarn_snapshot_free(s);
	return (wall_ns() - start) / NAMES;
}

static double lookups(void)
{
	tarn_tensor *tensors[NAMES];
	double start = wall_ns();

	for (int i = 0; i < NAMES; i++)
		check(tarn_store_lookup(store, names[i], &tensors[i]),
			names[i]);
	for (int i = 0; i < NAMES; i++)
		tarn_tensor_unref(tensors[i]);
	return (wall_ns() - start) / NAMES;
}

static void measure(const char *what)
{
	double sets[ROUNDS], singles[ROUNDS];

	for (int i = -1; i < ROUNDS; i++) {
		double a = snapshot(), b = lookups();

		if (i < 0)
			continue;
		sets[i] = a;
		singles[i] = b;
	}
	printf("%s: snapshot of %d names: %.0f ns a name; %.0f ns by single "
	       "look-ups\n",
		what, NAMES, median(sets, ROUNDS), median(singles, ROUNDS));
	fflush(stdout);
}

static pid_t publisher(const char *socket)
{
	pid_t pid = fork();

	if (pid == 0) {
		tarn_store *s;

		check(tarn_store_open(socket, NULL, &s), socket);
		for (;;)
			publish(s, 1);
	}
	return pid;
}

int main(int argc, char **argv)
{
	pid_t pid;

	if (argc != 2) {
		fprintf(stderr, "usage: bench/snapshot SOCKET\n");
		return 2;
	}
	for (int i = 0; i < NAMES; i++)
		snprintf(names[i], sizeof(names[i]), "set/%03d", i);
	check(tarn_store_open(argv[1], NULL, &store), argv[1]);
	publish(store, NAMES);
	measure("no publisher runs");
	pid = publisher(argv[1]);
	measure("one name is replaced in a loop");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	tarn_store_unref(store);
	return 0;
}
