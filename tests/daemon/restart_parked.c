/* SPDX-License-Identifier: MIT */
/*
 * Memory that a dead server's loader may still write comes back when that
 * loader's reads have ended: in a moment, or never, if a file system does not
 * answer. A client that needs it waits for a while, and then gets the error of
 * a full budget. Once it waited for ever, and with it all clients that wanted
 * more than was left.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/store/store.h"
#include "tests/kit/must.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/restart.h"
#include "tests/kit/stopped_load.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define LARGE (40 * MIB) /* one fits into 64 MiB, two do not */
#define ENOUGH_MS 60000  /* to be told no, on a loaded machine */
#define COMES_BACK_S 9.0 /* or not: it is waited for ten seconds */

static struct daemon daemon_;
static tarn_store *store;
static struct raw raw;

static bool is_filling(void)
{
	uint32_t n = store->table.header->n_storages;

	for (uint32_t i = 0; i < n; i++)
		if (storage_word_state(store->table.storages[i].word) ==
			STORAGE_FILLING)
			return true;
	return false;
}

struct asked {
	const char *path;
	int r;
	double took;
	char why[400];
};

static void *load(void *arg)
{
	struct asked *asked = arg;
	double start = seconds();

	asked->r = tensor_load(store, asked->path, "large");
	asked->took = seconds() - start;
	snprintf(
		asked->why, sizeof(asked->why), "%.399s", tarn_error_message());
	return NULL;
}

/* A load is in its middle when the server dies, and asked for again. Its
 * loader, which is stopped. */
static pid_t leave_in_quarantine(struct asked *asked, pthread_t *ret)
{
	pid_t loader = stopped_load_begin(&daemon_);
	double end = seconds() + 60;

	if (pthread_create(ret, NULL, load, asked) != 0)
		bail("no thread");
	stopped_load_await(&daemon_, store, loader);
	while (!is_filling() && seconds() < end)
		usleep(1000);
	if (!is_filling())
		bail("the load was not caught");
	server_kill(&daemon_);
	return loader;
}

static void publish_as_much(void)
{
	int fd = memfd_create("published", MFD_CLOEXEC);
	struct publish_msg p;
	static unsigned char body[PUBLISH_MSG_MAX];

	if (fd < 0 || ftruncate(fd, (off_t)LARGE) < 0)
		bail("a memfd: %m");
	p = publish_msg_of(SOURCE_COPY, LARGE, fd, "published");
	raw_send(&raw, WIRE_PUBLISH, body, publish_msg_write(&p, body), p.fds,
		p.n_fds);
	close(fd);
}

static void test_never(const char *path)
{
	struct asked asked = {.path = path};
	double start = seconds();
	pthread_t thread;
	pid_t loader = leave_in_quarantine(&asked, &thread);

	raw_open(&raw, daemon_.socket);
	publish_as_much();
	if (is_int(WIRE_ERROR, raw_receive(&raw, ENOUGH_MS),
		    "a publication that needs the quarantined memory is "
		    "refused")) {
		is_int(ENOSPC, raw.error,
			"the error of the publication is ENOSPC");
		has_str("budget of 64.0 MiB", raw.text,
			"the error has the limit of the budget");
	}
	diag("after %.1f s", seconds() - start);
	ok(seconds() - start > 2,
		"the refusal comes after the time that was waited");
	if (raw.error != ENOSPC) /* Else it is waited for for ever. */
		kill(loader, SIGKILL);
	pthread_join(thread, NULL);
	diag("the load: after %.1f s", asked.took);
	is_int(-ENOSPC, asked.r,
		"a load that needs the quarantined memory is refused");
	has_str("budget of 64.0 MiB", asked.why,
		"the error of the load names the budget");
	kill(loader, SIGCONT);
	raw_close(&raw);
	ok(used_becomes(store, 0), "the quarantined memory comes back at last");
}

static void test_soon(const char *path)
{
	struct asked asked = {.path = path};
	double start = seconds(); /* before the server that waits begins */
	pthread_t thread;
	pid_t loader = leave_in_quarantine(&asked, &thread);

	sleep(2);
	kill(loader, SIGCONT);
	pthread_join(thread, NULL);
	if (asked.r == -ENOSPC && seconds() - start > COMES_BACK_S) {
		skip(1, "the machine is too busy for it to come back in time");
		return;
	}
	if (!is_int(0, asked.r, "what comes back in time is loaded into"))
		diag("%s", asked.why);
	must(tarn_store_remove(store, "large/x"));
}

int main(void)
{
	const char *const args[] = {"--budget", "64M", "--idle", "1", NULL};
	static const char *const names[] = {"first", "soon", "never"};
	char *paths[3];

	for (uint32_t i = 0; i < 3; i++)
		paths[i] = strdup(tensor_file(names[i], i, LARGE));
	daemon_start(&daemon_, "s", args);
	if (tarn_store_open(daemon_.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	/* A loader that has memory for all that follows. */
	if (tensor_load(store, paths[0], "first") < 0)
		bail("%s", tarn_error_message());
	must(tarn_store_remove(store, "first/x"));
	test_soon(paths[1]);
	test_never(paths[2]);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	for (int i = 0; i < 3; i++)
		free(paths[i]);
	remove_files();
	return done(9);
}
