/* SPDX-License-Identifier: MIT */
/*
 * tarn rm PREFIX/ is atomic: while it runs, a reader finds all names below the
 * prefix or none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/tap.h"
#include "tests/kit/tarn_start.h"

#define NAMES 500
#define OTHERS 3

static struct daemon server;
static tarn_store *store;
static char names[NAMES + OTHERS][32];

static void publish(void)
{
	static struct tarn_publish_item items[NAMES + OTHERS];
	int64_t n = 16;
	tarn_tensor *t;

	if (tarn_store_create(store, TARN_U8, 1, &n, 0, &t) < 0)
		bail("create: %s", tarn_error_message());
	for (int i = 0; i < NAMES + OTHERS; i++) {
		snprintf(names[i], sizeof(names[i]),
			i < NAMES ? "run/%03d" : "runner/%03d", i);
		items[i].name = names[i];
		items[i].tensor = t;
	}
	if (tarn_store_publish(store, items, NAMES + OTHERS, NULL, NULL) < 0)
		bail("publish: %s", tarn_error_message());
	tarn_tensor_unref(t);
}

static bool is_there(const char *name)
{
	tarn_tensor *t;
	int r = tarn_store_get(store, name, NULL, &t);

	if (r < 0)
		return false;
	tarn_tensor_unref(t);
	return true;
}

static int count(int from, int n)
{
	int there = 0;

	for (int i = from; i < from + n; i++)
		there += is_there(names[i]);
	return there;
}

static pid_t start_rm(void)
{
	return kit_tarn_start((const char *const[]) {
		"rm", "--socket", server.socket, "run/", NULL});
}

int main(void)
{
	int status = 0;
	pid_t pid;

	daemon_start(&server, "rm.sock", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	publish();
	is_int(NAMES, count(0, NAMES), "all names exist before tarn rm");
	pid = start_rm();
	/* In the order of names, which is that of one by one. */
	while (is_there(names[0]) && waitpid(pid, &status, WNOHANG) == 0)
		;
	is_int(0, count(0, NAMES), "all names are gone once the first one is");
	if (waitpid(pid, &status, 0) == pid || WIFEXITED(status))
		is_int(0, WEXITSTATUS(status), "tarn rm ends without error");
	is_int(OTHERS, count(NAMES, OTHERS),
		"names outside of the folder still exist");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(5);
}
