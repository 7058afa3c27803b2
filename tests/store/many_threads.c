/* SPDX-License-Identifier: MIT */
/*
 * One process with more threads that load and publish than a daemon with few
 * descriptors serves at once. Some were once refused with EBUSY; now all wait
 * for their turn, also when the server dies meanwhile.
 *
 * What is under way needs memory that the keeper, which is stopped, makes
 * later.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/must.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

enum {
	DESCRIPTORS = 256, /* 16 loads at once, or 16 memfds of publications */
	LOADS = 30,
	PUBLISHES = 30,
	LARGE = 3 << 20, /* it comes as a memfd */
};

static struct daemon server;
static tarn_store *store, *other;
static char *path;
static atomic_int ended;

struct asked {
	pthread_t thread;
	char name[32];
	int r;
	char why[400];
};

static struct asked loads[LOADS], publishes[PUBLISHES];

static void note(struct asked *asked, int r)
{
	asked->r = r;
	if (r < 0)
		snprintf(asked->why, sizeof(asked->why), "%.399s",
			tarn_error_message());
	ended++;
}

static void *load(void *arg)
{
	struct asked *asked = arg;

	note(asked, CALL_AGAIN(tensor_load(store, path, asked->name)));
	return NULL;
}

static int publish_one(const char *name)
{
	struct tarn_publish_item item = {.name = name};
	const int64_t size = LARGE;
	int r = tarn_store_create(store, TARN_U8, 1, &size, 0, &item.tensor);

	if (r >= 0)
		r = tarn_store_publish(store, &item, 1, NULL, NULL);
	tarn_tensor_unref(item.tensor);
	return r;
}

static void *publish(void *arg)
{
	struct asked *asked = arg;

	note(asked, CALL_AGAIN(publish_one(asked->name)));
	return NULL;
}

static void begin(struct asked *asked, int n, void *(*ask)(void *arg),
	const char *what, const char *when)
{
	for (int i = 0; i < n; i++) {
		snprintf(asked[i].name, sizeof(asked[i].name), "%s/%s%d", when,
			what, i);
		if (pthread_create(&asked[i].thread, NULL, ask, &asked[i]) != 0)
			bail("no thread");
	}
}

static void end(struct asked *asked, int n, const char *what, const char *when)
{
	int done_well = 0;

	for (int i = 0; i < n; i++) {
		pthread_join(asked[i].thread, NULL);
		if (asked[i].r < 0)
			diag("%s: %s", asked[i].name, asked[i].why);
		else
			done_well++;
	}
	is_int(n, done_well, "%s: %s end well", when, what);
}

/* Until as many loads as can be have begun. */
static void until_full(void)
{
	struct tarn_report_daemon status = {0};

	while (status.loads_active < DESCRIPTORS / 16) {
		must(report_daemon(other, &status));
		usleep(1000);
	}
}

/* Publications do not begin while another's, of as many descriptors as a message
 * can bring, is under way. */
static void all(const char *when, bool server_dies)
{
	pid_t before = server_of(&server);
	struct raw raw;

	raw_open(&raw, server.socket);
	ended = 0;
	kill(server.pid, SIGSTOP);
	publish_msg_send_many(&raw, server_dies);
	begin(loads, LOADS, load, "load", when);
	until_full();
	begin(publishes, PUBLISHES, publish, "publish", when);
	usleep(100000);
	is_int(0, ended, "%s: all wait", when);
	if (server_dies)
		kill(before, SIGKILL);
	kill(server.pid, SIGCONT);
	end(loads, LOADS, "loads", when);
	end(publishes, PUBLISHES, "publications", when);
	ok((server_of(&server) != before) == server_dies,
		"%s: the server is the one it should be", when);
	raw_close(&raw);
}

int main(void)
{
	const char *const args[] = {"--segment-size", "64M", NULL};

	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&server, "s", args);
	must(tarn_store_open(server.socket, NULL, &store));
	must(tarn_store_open(server.socket, NULL, &other));
	path = strdup(tensor_file("first", 4, 100));
	must(tensor_load(store, path, "first"));
	unlink(path);
	free(path);
	path = strdup(tensor_file("large", 3, 65 << 20));
	all("a server that lives", false);
	unlink(path);
	free(path);
	path = strdup(tensor_file("large again", 5, 65 << 20));
	all("a server that dies", true);
	unlink(path);
	free(path);
	tarn_store_unref(store);
	tarn_store_unref(other);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(9);
}
