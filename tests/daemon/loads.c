/* SPDX-License-Identifier: MIT */
/*
 * Loads in difficult moments: many clients want one file, the file changes
 * before, after and in between, and any of the processes involved is killed. A
 * loader that is stopped (SIGSTOP) holds a load in its middle for as long as a
 * test needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/stamps.h"
#include "tests/kit/stopped_load.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define LARGE (64 * MIB)
#define SMALL (1 * MIB)
#define CLIENTS 20

static struct daemon server;
static struct witness witness;

static const char *large, *small, *other, *shrinking, *sparse;

static void order_file(
	struct raw *raw, const char *path, uint64_t size, const char *name)
{
	struct order order = {0};
	int fd = opened(path), direct = opened_direct(path);

	order_range(&order, 0, size, 0);
	if (name)
		order_bytes(&order, name, (int64_t)size);
	snprintf(order.label, sizeof(order.label), "%s", path);
	if (order_send(&order, raw, fd, direct) < 0)
		bail("a load could not be sent");
	fd_close(fd);
	fd_close(direct);
}

static int load(
	struct raw *raw, const char *path, uint64_t size, const char *name)
{
	order_file(raw, path, size, name);
	return raw_answer(raw);
}

static bool cached(const struct raw *raw)
{
	return raw->loaded.flags & LOADED_CACHED;
}

static void remove_name(struct raw *raw, const char *name)
{
	raw_send(raw, WIRE_REMOVE, name, strlen(name), NULL, 0);
	if (raw_receive(raw, RAW_PATIENCE_MS) != WIRE_DONE)
		bail("%s cannot be removed: %s", name, raw->text);
}

static bool has_bytes(const tarn_tensor *t, uint64_t size, uint32_t seed)
{
	const unsigned char *p = t ? tarn_tensor_data(t) : NULL;

	for (uint64_t i = 0; p && i < size; i += 61)
		if (p[i] != made_byte(i, seed))
			return false;
	return p;
}

static tarn_tensor *look_up(const char *name)
{
	tarn_tensor *t = NULL;

	if (tarn_store_lookup(witness.store, name, &t) < 0)
		diag("%s: %s", name, tarn_error_message());
	return t;
}

static bool is_published(const char *name, uint64_t size, uint32_t seed)
{
	tarn_tensor *t = look_up(name);
	bool fine = has_bytes(t, size, seed);

	tarn_tensor_unref(t);
	return fine;
}

static bool is_unknown(const char *name)
{
	tarn_tensor *t = NULL;
	int r = tarn_store_lookup(witness.store, name, &t);

	tarn_tensor_unref(t);
	return r == -ENOENT;
}

/* ---- one read for many --------------------------------------------------- */

static void single_flight(void)
{
	struct tarn_report_daemon before = witness_status(&witness);
	int loaded = 0, same = 0, from_cache = 0, right = 0;
	struct raw raw[CLIENTS];
	char name[20];

	for (int i = 0; i < CLIENTS; i++)
		raw_open(&raw[i], server.socket);
	for (int i = 0; i < CLIENTS; i++) {
		snprintf(name, sizeof(name), "large/%d", i);
		order_file(&raw[i], large, LARGE, name);
	}
	witness_is_served(&witness, "twenty want the same file");
	for (int i = 0; i < CLIENTS; i++) {
		loaded += raw_answer(&raw[i]) == WIRE_LOADED;
		from_cache += cached(&raw[i]);
		same += raw[i].loaded.index == raw[0].loaded.index &&
			raw[i].loaded.generation == raw[0].loaded.generation;
	}
	is_int(CLIENTS, loaded, "twenty clients load one file at once");
	is_int(CLIENTS, same, "all twenty clients get the same storage");
	is_int(CLIENTS - 1, from_cache, "one of twenty loads read the file");
	is_int((int64_t)(before.bytes_loaded + LARGE),
		(int64_t)witness_status(&witness).bytes_loaded,
		"the file's bytes were read once");
	for (int i = 0; i < CLIENTS; i++) {
		snprintf(name, sizeof(name), "large/%d", i);
		right += is_published(name, i ? 4096 : LARGE, 30);
		remove_name(&raw[i], name);
		raw_close(&raw[i]);
	}
	is_int(CLIENTS, right, "all twenty clients have the file's bytes");
}

static void identity(struct raw *raw)
{
	struct msg_loaded first;
	const char *young;

	is_int(WIRE_LOADED, load(raw, small, SMALL, "s"),
		"a small file is loaded");
	ok(!cached(raw), "the small file is read");
	first = raw->loaded;
	is_int(WIRE_LOADED, load(raw, small, SMALL, "s2"),
		"a second load of the small file succeeds");
	ok(cached(raw) && raw->loaded.index == first.index,
		"the second load is from the cache");
	is_int(WIRE_LOADED, load(raw, small, SMALL - 1, NULL),
		"a load of one byte less succeeds");
	ok(!cached(raw), "another range of the file is not from the cache");
	if (rename(other, small) < 0)
		bail("rename: %m");
	is_int(WIRE_LOADED, load(raw, small, SMALL, "s2"),
		"a file that took the other's place is loaded");
	ok(!cached(raw) && raw->loaded.index != first.index,
		"the file in the other's place is read");
	ok(is_published("s2", SMALL, 32), "the name has the new bytes");
	ok(is_published("s", SMALL, 31), "the other name keeps the old bytes");
	remove_name(raw, "s");
	remove_name(raw, "s2");
	young = made_file("young", SMALL, 50);
	/* Under a name: without one it would go after --idle. */
	is_int(WIRE_LOADED, load(raw, young, SMALL, "young"),
		"a file that was just written is loaded");
	first = raw->loaded;
	is_int(WIRE_LOADED, load(raw, young, SMALL, NULL),
		"a second load of the young file succeeds");
	ok(cached(raw) && raw->loaded.index == first.index,
		"the young file is not read again");
	remove_name(raw, "young");
}

/* ---- names under readers ------------------------------------------- */

/* A second process that holds a name from "ready" on, until it is asked. */
static void hold(int ask, int tell)
{
	tarn_store *store = NULL;
	tarn_tensor *t = NULL;
	char c = 'n';

	if (tarn_store_open(server.socket, NULL, &store) >= 0 &&
		tarn_store_lookup(store, "held", &t) >= 0)
		c = 'y';
	if (write(tell, &c, 1) != 1 || read(ask, &c, 1) != 1)
		_exit(1);
	c = has_bytes(t, SMALL, 32) ? 'y' : 'n';
	if (write(tell, &c, 1) != 1)
		_exit(1);
	_exit(0); /* without a word to the daemon */
}

static void removed_while_held(struct raw *raw)
{
	int ask[2], tell[2];
	char c = 'n';
	pid_t pid;

	if (load(raw, small, SMALL, "held") != WIRE_LOADED)
		bail("load: %s", raw->text);
	if (pipe2(ask, O_CLOEXEC) < 0 || pipe2(tell, O_CLOEXEC) < 0)
		bail("pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		hold(ask[0], tell[1]);
	ok(read(tell[0], &c, 1) == 1 && c == 'y',
		"another process holds a tensor of the name");
	remove_name(raw, "held");
	ok(is_unknown("held"), "the held name is removed");
	usleep(1500000); /* past --idle: the cache has let go, too */
	for (int i = 0; i < 5; i++)
		load(raw, shrinking, SMALL, NULL);
	ok(write(ask[1], "?", 1) == 1 && read(tell[0], &c, 1) == 1 && c == 'y',
		"the memory stays until the other process drops it");
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(ask[i]);
		close(tell[i]);
	}
}

static void replaced_while_held(struct raw *raw)
{
	tarn_tensor *old;

	if (load(raw, small, SMALL, "name") != WIRE_LOADED)
		bail("load: %s", raw->text);
	old = look_up("name");
	is_int(WIRE_LOADED, load(raw, large, SMALL, "name"),
		"another file takes a name");
	ok(is_published("name", SMALL, 30),
		"new readers see the new file's bytes");
	ok(has_bytes(old, SMALL, 32), "the old reader keeps the old bytes");
	tarn_tensor_unref(old);
	remove_name(raw, "name");
}

/* ---- in the middle ------------------------------------------------- */

static bool active(uint64_t n)
{
	for (int i = 0; i < 6000; i++) {
		if (witness_status(&witness).loads_active == n)
			return true;
		usleep(10000);
	}
	return false;
}

/* Memory for the next load is there and free, so that it neither waits nor
 * changes to another loader: the newest loader is the one that reads. */
static void settle(void)
{
	if (!active(0) || !witness_sees_used(&witness, witness.before.used))
		bail("earlier loads do not end");
}

/* A load that stays half done. */
static pid_t begin_and_stop(struct raw *raw, const char *path, const char *name)
{
	pid_t loader;

	settle();
	loader = stopped_load_begin(&server);
	order_file(raw, path, LARGE, name);
	stopped_load_await(&server, witness.store, loader);
	if (raw_receive(raw, RAW_PATIENCE_MS) != WIRE_LOADING)
		bail("no load began: %s", raw->text);
	return loader;
}

static void truncated(struct raw *raw)
{
	pid_t loader;

	loader = begin_and_stop(raw, shrinking, "shrinking");
	if (truncate(shrinking, 1000) < 0)
		bail("truncate: %m");
	kill(loader, SIGCONT);
	is_int(WIRE_ERROR, raw_answer(raw),
		"a load of a file that shrinks is refused");
	diag("%s", raw->text);
	has_str("byte", raw->text, "the error contains 'byte'");
	has_str(shrinking, raw->text, "the error names the file");
	ok(is_unknown("shrinking"),
		"a load of a file that shrinks publishes nothing");
}

static void cancelled(struct raw *raw)
{
	struct msg_cancel cancel;
	pid_t loader;

	loader = begin_and_stop(raw, large, "cancelled");
	cancel.serial = raw->serial;
	cancel.pad = 0;
	raw_send(raw, WIRE_CANCEL, &cancel, sizeof(cancel), NULL, 0);
	is_int(WIRE_ERROR, raw_answer(raw), "a cancelled load ends at once");
	is_int(ECANCELED, raw->error,
		"the error of a cancelled load is ECANCELED");
	kill(loader, SIGCONT);
	ok(is_unknown("cancelled"), "a cancelled load publishes nothing");
}

static void client_killed(void)
{
	struct raw raw;
	pid_t loader, pid;
	int lead[2];

	if (pipe2(lead, O_CLOEXEC) < 0)
		bail("pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		raw_open(&raw, server.socket);
		loader = begin_and_stop(&raw, large, "orphan");
		if (write(lead[1], &loader, sizeof(loader)) == sizeof(loader))
			pause();
		_exit(1);
	}
	close(lead[1]);
	if (read(lead[0], &loader, sizeof(loader)) != sizeof(loader))
		bail("the client did not get that far");
	close(lead[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	witness_is_served(&witness, "a client was killed while it loaded");
	kill(loader, SIGCONT);
	ok(is_unknown("orphan"), "a load of a killed client publishes nothing");
}

/* Other memory, another loader: nobody notices but by the time. */
static void loader_killed(struct raw *raw)
{
	struct raw shares;
	pid_t loader;

	raw_open(&shares, server.socket);
	loader = begin_and_stop(raw, large, "lost");
	order_file(&shares, small, SMALL, "lost too");
	witness_is_served(&witness, "the loader is stopped");
	kill(loader, SIGKILL);
	is_int(WIRE_LOADED, raw_answer(&shares),
		"another loader takes over from a killed one");
	is_int(WIRE_LOADED, raw_answer(raw),
		"the other loader also does what was half done");
	ok(is_published("lost", LARGE, 30),
		"the load of two loaders has the right bytes");
	remove_name(raw, "lost");
	remove_name(raw, "lost too");
	raw_close(&shares);
}

static void loader_killed_twice(struct raw *raw)
{
	pid_t loader = begin_and_stop(raw, large, "lost");

	loader = stopped_load_next(&server, witness.store, loader);
	if (raw_receive(raw, RAW_PATIENCE_MS) != WIRE_LOADING)
		bail("it did not begin again: %s", raw->text);
	kill(loader, SIGKILL);
	is_int(WIRE_ERROR, raw_answer(raw),
		"a load whose two loaders are killed is refused");
	is_int(EIO, raw->error, "the error of two killed loaders is EIO");
	has_str("two loader processes died", raw->text,
		"the error says that two loaders died");
	has_str("large", raw->text, "the error names the lost file");
	ok(is_unknown("lost"),
		"a load whose two loaders are killed publishes nothing");
	is_int(WIRE_LOADED, load(raw, large, LARGE, "again"),
		"the same file is loaded afterwards");
	ok(is_published("again", LARGE, 30),
		"the file loaded afterwards has the right bytes");
	remove_name(raw, "again");
}

/*
 * 1. A load waits for memory, another shares it.
 * 2. The loader dies.
 * 3. Another loader is asked for, and both go on; the second was once
 *    forgotten, and waited for ever.
 * The keeper is stopped, so that the memory does not come; when it goes on it
 * has none.
 */
static void loader_killed_while_waiting(struct raw *raw)
{
	struct raw shares;
	pid_t loader;

	raw_open(&shares, server.socket);
	load(raw, small, SMALL, NULL); /* now there is a loader */
	settle();
	loader = child_named(server.pid, "tarn-loader");
	kill(server.pid, SIGSTOP);
	order_file(raw, sparse, 400 * MIB, "waiting");
	order_file(&shares, sparse, 400 * MIB, "shares");
	ok(active(2), "two loads are under way");
	usleep(300000);
	kill(loader, SIGKILL);
	witness_is_served(&witness, "the keeper is stopped");
	ok(active(2), "a load that waits for memory outlives its loader");
	kill(server.pid, SIGCONT);
	is_int(ENOSPC, raw_answer(raw) == WIRE_ERROR ? raw->error : 0,
		"a load that waits for memory that cannot come is refused");
	is_int(ENOSPC, raw_answer(&shares) == WIRE_ERROR ? shares.error : 0,
		"a load that shares the waiting one is refused, too");
	is_int(WIRE_LOADED, load(raw, small, SMALL, NULL),
		"the next load succeeds");
	raw_close(&shares);
}

int main(void)
{
	const char *const args[] = {"--idle", "1", "--budget", "128M", NULL};
	struct raw raw;

	large = strdup(made_file("large", LARGE, 30));
	small = strdup(made_file("small", SMALL, 31));
	other = strdup(made_file("other", SMALL, 32));
	shrinking = strdup(made_file("shrinking", LARGE, 33));
	sparse = strdup(made_file("sparse", 0, 34));
	if (truncate(sparse, 400 * MIB) < 0)
		bail("%s: %m", sparse);
	if (!stamps_last(large)) {
		remove_files();
		skip_all(
			"no file of %s is kept for later loads", test_tmpdir());
	}
	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	single_flight();
	raw_open(&raw, server.socket);
	identity(&raw);
	removed_while_held(&raw);
	replaced_while_held(&raw);
	truncated(&raw);
	cancelled(&raw);
	client_killed();
	loader_killed(&raw);
	loader_killed_twice(&raw);
	loader_killed_while_waiting(&raw);
	raw_close(&raw);
	witness_can_load(&witness, "after all that");
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(61);
}
