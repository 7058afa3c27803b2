/* SPDX-License-Identifier: MIT */
/*
 * The server dies while a file is loaded: another loader does the load again,
 * in other memory. The memory that the old loader may still write is used for
 * nothing until its pipe has ended. Without that the old loader would write
 * over the bytes of the next load.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/store/store.h"
#include "tests/kit/fuse_hang.h"
#include "tests/kit/must.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/stopped_load.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum { LARGE = 40 << 20, SMALL = 3 << 20 };

static struct daemon daemon_;
static tarn_store *store;
static uint64_t kept; /* bytes that are always used */

static uint64_t used(void)
{
	struct tarn_report_daemon s = {0};

	report_daemon(store, &s);
	return s.used;
}

/* And until the next one has looked at everything. */
static void kill_server(void)
{
	server_kill(&daemon_);
	used();
}

/* ---- what the table says ------------------------------------------- */

struct range {
	uint64_t from, to;
};

static bool is_filling(const struct table_storage *e)
{
	return storage_word_state(e->word) == STORAGE_FILLING;
}

static bool is_quarantined(const struct table_storage *e)
{
	return storage_word_state(e->word) != STORAGE_FREE &&
	       e->flags & STORAGE_QUARANTINE;
}

/* The memory of the one storage that is so; empty: there is none. */
static struct range find(bool (*is)(const struct table_storage *e))
{
	uint32_t n = store->table.header->n_storages;

	for (uint32_t i = 0; i < n; i++) {
		const struct table_storage *e = &store->table.storages[i];

		if (is(e))
			return (struct range) {e->alloc_offset,
				e->alloc_offset + e->alloc_size};
	}
	return (struct range) {0, 0};
}

static struct range await(bool (*is)(const struct table_storage *e))
{
	struct range range = {0, 0};
	double end = seconds() + 60;

	while (range.to == 0 && seconds() < end)
		range = find(is);
	return range;
}

static struct range range_of(const char *name)
{
	struct table_storage e = {0};
	struct tarn_descriptor d;
	uint64_t version;

	if (table_lookup(&store->table, name, strlen(name), &d, &version) < 0 ||
		table_storage_get(&store->table, d.storage, d.generation, &e) <
			0)
		bail("%s is not there", name);
	return (struct range) {e.alloc_offset, e.alloc_offset + e.alloc_size};
}

static bool apart(struct range a, struct range b)
{
	return a.to <= b.from || b.to <= a.from;
}

/* ---- a load of another thread -------------------------------------- */

struct asked {
	tarn_store *store;
	const char *path;
	const char *name;
	int r;
	char why[300];
};

static void *load(void *arg)
{
	struct asked *asked = arg;

	asked->r = tensor_load(asked->store, asked->path, asked->name);
	snprintf(
		asked->why, sizeof(asked->why), "%.299s", tarn_error_message());
	return NULL;
}

/* The loader is stopped half way, so it neither ends nor goes on. */
static void test_stopped(void)
{
	struct asked asked = {.store = store, .name = "large"};
	struct range left, now;
	uint64_t before = used();
	pthread_t thread;
	pid_t loader;

	asked.path = strdup(tensor_file("large", 1, LARGE));
	loader = stopped_load_begin(&daemon_);
	if (pthread_create(&thread, NULL, load, &asked) != 0)
		bail("no thread");
	stopped_load_await(&daemon_, store, loader);
	left = await(is_filling);
	if (!left.to)
		bail("the load was not caught");
	kill_server();
	pthread_join(thread, NULL);
	if (!is_int(0, asked.r, "the next server does the load again"))
		diag("%s", asked.why);
	is_int(1, tensor_check(store, "large/x", 1, LARGE),
		"the load has the right bytes");
	now = find(is_quarantined);
	ok(now.from == left.from && now.to == left.to,
		"the old loader's memory is in quarantine");
	ok(apart(left, range_of("large/x")),
		"the load was done in other memory");
	kill_server();
	now = find(is_quarantined);
	ok(now.from == left.from && now.to == left.to,
		"the quarantine remains when the next server dies");
	tensor_load(store, tensor_file("small", 2, SMALL), "small");
	ok(apart(left, range_of("small/x")),
		"another load is done in other memory, too");
	/* It writes what it had asked for, sees the end of its server, ends. */
	kill(loader, SIGCONT);
	is_int(1, tensor_check(store, "large/x", 1, LARGE),
		"the old loader writes, and the large file is intact");
	is_int(1, tensor_check(store, "small/x", 2, SMALL),
		"the old loader writes, and the small file is intact");
	must(tarn_store_remove(store, "large/x"));
	must(tarn_store_remove(store, "small/x"));
	ok(used_becomes(store, before),
		"the quarantine ends with the old loader");
	free((char *)asked.path);
}

/* ---- progress ------------------------------------------------------ */

static atomic_bool caught;

static int killing(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total)
{
	int *calls = arg;

	if ((*calls)++)
		return 0;
	while (!caught)
		usleep(1000);
	server_kill(&daemon_);
	return 0;
}

/* The loader is stopped, so that the load lasts until it is killed. */
static void *stop_for_a_while(void *loader)
{
	stopped_load_await(&daemon_, store, *(pid_t *)loader);
	caught = true;
	usleep(500000);
	kill(*(pid_t *)loader, SIGKILL);
	return NULL;
}

static void test_progress(void)
{
	int calls = 0;
	struct tarn_load_options options = {
		.name = "p", .progress = killing, .arg = &calls};
	pthread_t thread;
	tarn_file *file;
	pid_t loader;
	int r;

	loader = stopped_load_begin(&daemon_);
	if (tarn_file_open(tensor_file("progress", 3, LARGE), &file) < 0 ||
		pthread_create(&thread, NULL, stop_for_a_while, &loader) != 0)
		bail("%s", tarn_error_message());
	r = tarn_store_load(store, file, &options, NULL, NULL);
	is_int(0, r, "a load with progress continues under the next server");
	ok(calls > 0, "the progress callback killed the server");
	is_int(1, tensor_check(store, "p/x", 3, LARGE),
		"the load with progress has the right bytes");
	pthread_join(thread, NULL);
	must(tarn_store_remove(store, "p/x"));
	tarn_file_unref(file);
}

/* ---- a file that hangs --------------------------------------------- */

static pid_t load_what_hangs(void)
{
	struct order order = {0};
	struct raw raw;
	pid_t pid;
	int fd;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	fd = opened(hang_path(HANG_READ));
	raw_open(&raw, daemon_.socket);
	order_range(&order, 0, hang_size(HANG_READ), 0);
	hang_arm();
	order_send(&order, &raw, fd, -1);
	for (;;)
		pause();
}

static void test_hanging(void)
{
	const char *why = hang_begin();
	struct range left, now;
	pid_t pid;

	if (why) {
		skip(5, "no file system that hangs can be made here: %s", why);
		return;
	}
	ok(used_becomes(store, kept), "no further memory is taken");
	pid = load_what_hangs();
	left = await(is_filling);
	ok(hang_has_caught(1) && left.to, "a load hangs in its file");
	kill_server();
	kill(pid, SIGKILL);
	now = find(is_quarantined);
	ok(now.from == left.from && now.to == left.to,
		"the hanging load's memory is in quarantine");
	tensor_load(store, tensor_file("other", 4, SMALL), "other");
	ok(apart(left, range_of("other/x")),
		"another load is done in other memory");
	must(tarn_store_remove(store, "other/x"));
	hang_end();
	waitpid(pid, NULL, 0);
	ok(used_becomes(store, kept),
		"the quarantine ends when the file answers");
}

/* ---- the end ------------------------------------------------------- */

/* Asked to end, it waits for a load that is under way, and dies. */
static void test_stop(void)
{
	struct asked asked = {.store = store, .name = "last"};
	double end = seconds() + 60;
	int status = -1;
	pthread_t thread;
	pid_t loader;

	asked.path = strdup(tensor_file("last", 5, LARGE));
	loader = stopped_load_begin(&daemon_);
	if (pthread_create(&thread, NULL, load, &asked) != 0)
		bail("no thread");
	stopped_load_await(&daemon_, store, loader);
	if (!await(is_filling).to)
		bail("no load");
	is_int(0, tarn_store_stop(store), "the daemon is asked to end");
	kill(server_of(&daemon_), SIGKILL);
	pthread_join(thread, NULL);
	ok(asked.r == -ESHUTDOWN || asked.r == -ECONNRESET,
		"the load of the ending daemon is an error");
	diag("%s", asked.why);
	kill(loader, SIGCONT);
	while (seconds() < end &&
		waitpid(daemon_.pid, &status, WNOHANG) != daemon_.pid)
		usleep(10000);
	is_int(0, status,
		"the next server answers a request of the one before");
	free((char *)asked.path);
}

int main(void)
{
	const char *const args[] = {"--budget", "512M", "--idle", "1", NULL};

	daemon_start(&daemon_, "s", args);
	if (tarn_store_open(daemon_.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	/* Memory for all that follows, so that nothing waits for it. However
	 * long that takes, it is not given back as long as something lies
	 * there. */
	tensor_load(store, tensor_file("first", 9, 3 * LARGE), "first");
	kept = used();
	tensor_load(store, tensor_file("kept", 8, 4096), "kept");
	kept = used() - kept;
	must(tarn_store_remove(store, "first/x"));
	if (!used_becomes(store, kept))
		bail("the first load stays");
	test_stopped();
	test_progress();
	test_hanging();
	ok(used_becomes(store, kept), "no memory is taken at the end");
	test_stop();
	tarn_store_unref(store);
	remove_files();
	return done(21);
}
