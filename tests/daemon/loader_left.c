/* SPDX-License-Identifier: MIT */
/*
 * A loader dies when it has read a file, and the server, which has not read its
 * answers yet, notices the death by a message that it cannot send. These answers
 * count all the same. They were dropped once, and the file was read again: here
 * it has changed by then, so that the load would fail.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/must.h"
#include "tests/kit/restart.h"
#include "tests/kit/stopped_load.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define SIZE (1u << 20)

struct asked {
	tarn_store *store;
	char *path;
	const char *name;
	pthread_t thread;
	int r;
	char why[400];
};

static struct daemon server;

static void *load(void *arg)
{
	struct asked *asked = arg;
	struct tarn_load_options options = {.name = asked->name};
	tarn_file *file;

	must(tarn_file_open(asked->path, &file));
	asked->r = tarn_store_load(asked->store, file, &options, NULL, NULL);
	strncpy(asked->why, tarn_error_message(), sizeof(asked->why) - 1);
	tarn_file_unref(file);
	return NULL;
}

static struct asked ask(const char *name, unsigned seed)
{
	struct asked asked = {.name = name};

	asked.path = strdup(tensor_file(name, seed, SIZE));
	must(tarn_store_open(server.socket, NULL, &asked.store));
	return asked;
}

static void begin(struct asked *asked)
{
	if (pthread_create(&asked->thread, NULL, load, asked) != 0)
		bail("no thread");
}

static void await(struct asked *asked, const char *what)
{
	pthread_join(asked->thread, NULL);
	if (!is_int(0, asked->r, "%s", what))
		diag("%s", asked->why);
	tarn_store_unref(asked->store);
	free(asked->path);
}

/* The order of events: what the loader has sent, then what a client has. */
static void let_finish(pid_t loader, struct asked *other)
{
	pid_t pid = server_of(&server);

	kill(pid, SIGSTOP);
	usleep(200000);
	stopped_load_let_work(loader);
	usleep(300000); /* for a disk that is slow, while it sleeps */
	kill(loader, SIGKILL);
	begin(other);
	usleep(300000);
}

int main(void)
{
	struct asked first, other;
	tarn_store *store;
	pid_t loader;

	daemon_start(&server, "s", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	/* Memory for what follows, and a loader that knows it. */
	tensor_load(store, tensor_file("before", 1, 4 * SIZE), "before");
	must(tarn_store_remove(store, "before/x"));
	tensor_load(store, tensor_file("again", 4, 4096), "again");
	first = ask("first", 2);
	other = ask("other", 3);
	loader = stopped_load_begin(&server);
	begin(&first);
	stopped_load_await(&server, store, loader);
	let_finish(loader, &other);
	if (truncate(first.path, SIZE / 2) < 0)
		bail("%s: %m", first.path);
	kill(server_of(&server), SIGCONT);
	await(&first,
		"a load that a loader had finished before it died is done");
	await(&other,
		"a load that the loader was to do next is done by another");
	is_int(1, tensor_check(store, "first/x", 2, SIZE),
		"the first load has the right bytes");
	is_int(1, tensor_check(store, "other/x", 3, SIZE),
		"the other load has the right bytes");
	must(tarn_store_remove(store, "first/x"));
	must(tarn_store_remove(store, "other/x"));
	must(tarn_store_remove(store, "again/x"));
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(5);
}
