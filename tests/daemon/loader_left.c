/* SPDX-License-Identifier: MIT */
/*
 * A loader dies when it has read a file, and the server, which has not read its
 * answers yet, notices the death by a message that it cannot send. These answers
 * count all the same. They were dropped once, and the file was read again: here
 * it has changed by then, so that the load would fail.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
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
	struct asked asked = {.name = strdup(name)};

	asked.path = strdup(tensor_file(name, seed, SIZE));
	must(tarn_store_open(server.socket, NULL, &asked.store));
	return asked;
}

static void begin(struct asked *asked)
{
	if (pthread_create(&asked->thread, NULL, load, asked) != 0)
		bail("no thread");
}

static int await(struct asked *asked)
{
	pthread_join(asked->thread, NULL);
	if (asked->r < 0)
		diag("%s: %s", asked->name, asked->why);
	tarn_store_unref(asked->store);
	return asked->r;
}

/* The order of events: what the loader has sent, then what a client has. */
static void let_finish(pid_t loader, struct asked *other, int round)
{
	pid_t pid = server_of(&server);

	kill(pid, SIGSTOP);
	usleep(200000u << round);
	stopped_load_let_work(loader);
	usleep(500000u << round); /* asleep it may wait for a disk */
	kill(loader, SIGKILL);
	begin(other);
	usleep(300000u << round);
}

static bool is_there(
	tarn_store *store, const struct asked *asked, unsigned seed)
{
	char name[64];
	bool there;

	snprintf(name, sizeof(name), "%s/x", asked->name);
	there = tensor_check(store, name, seed, SIZE) == 1;
	may_fail(tarn_store_remove(store, name));
	return there;
}

static const char *numbered(const char *name, int round)
{
	static char text[32];

	snprintf(text, sizeof(text), "%s%d", name, round);
	return text;
}

/* Did the first load end well? The other one must, in any case. */
static bool attempt(tarn_store *store, int round)
{
	struct asked first, other;
	pid_t loader;
	bool done;

	/* A loader that knows the memory. */
	tensor_load(store, tensor_file(numbered("again", round), 4, 4096),
		numbered("again", round));
	first = ask(numbered("first", round), 2);
	other = ask(numbered("other", round), 3);
	loader = stopped_load_begin(&server);
	begin(&first);
	stopped_load_await(&server, store, loader);
	let_finish(loader, &other, round);
	if (truncate(first.path, SIZE / 2) < 0)
		bail("%s: %m", first.path);
	kill(server_of(&server), SIGCONT);
	done = await(&first) == 0;
	is_int(0, await(&other),
		"a load that the loader was to do next is done by another");
	if (done)
		ok(is_there(store, &first, 2),
			"the first load has the right bytes");
	ok(is_there(store, &other, 3), "the other load has the right bytes");
	free(first.path);
	free((char *)first.name);
	free(other.path);
	free((char *)other.name);
	return done;
}

/* Nothing tells that a loader has sent its answers: on a loaded machine it may
 * be killed before. Each is given twice as long as the one before; of some it
 * has. */
#define ROUNDS 6

int main(void)
{
	tarn_store *store;
	bool finished = false;
	int rounds = 0;

	daemon_start(&server, "s", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	/* Memory for what follows. */
	tensor_load(store, tensor_file("before", 1, 4 * SIZE), "before");
	must(tarn_store_remove(store, "before/x"));
	while (!finished && rounds < ROUNDS)
		finished = attempt(store, rounds++);
	ok(finished,
		"a load that a loader had finished before it died is done");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(2 + 2 * rounds + (finished ? 1 : 0));
}
