/* SPDX-License-Identifier: MIT */
/*
 * Mutable tensors: memory that all processes that open it share. Each sees the
 * writes of the others, even after its name was removed and its server was
 * killed; its size is fixed for good, and no process can take the right to
 * write from the others. And their locks: shared by readers, exclusive for a
 * writer, released by death.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "lib/store/own_map.h"
#include "lib/store/store.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define N 1000
#define LONG_MS 60000
#define ROUNDS 300
#define THREADS 3

static struct daemon server;
static const char *self;

static tarn_store *open_store(void)
{
	tarn_store *store;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	return store;
}

static tarn_tensor *looked_up(tarn_store *store, const char *name)
{
	tarn_tensor *t;

	if (tarn_store_lookup(store, name, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static tarn_tensor *publish(
	tarn_store *store, const char *name, int64_t n, unsigned flags)
{
	struct tarn_publish_item item = {.name = name};

	if (tarn_store_create(store, TARN_I64, 1, &n, flags, &item.tensor) <
			0 ||
		tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("%s: %s", name, tarn_error_message());
	return item.tensor;
}

static int64_t get(tarn_tensor *t, int64_t i)
{
	int64_t value = -1;

	must(tarn_tensor_get_i64(t, &i, &value));
	return value;
}

static void set(tarn_tensor *t, int64_t i, int64_t value)
{
	must(tarn_tensor_set_i64(t, &i, value));
}

/* ---- another process ------------------------------------------------- */

struct other {
	pid_t pid;
	int to, from;
};

/* This program again, which does what it is told, a letter each time. */
static void other_begin(struct other *other, const char *name)
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		bail("pipe: %m");
	other->pid = fork();
	if (other->pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 3);
		execl(self, self, "other", server.socket, name, NULL);
		_exit(9);
	}
	close(to[0]);
	close(from[1]);
	other->to = to[1];
	other->from = from[0];
}

/* What it answers: 0, or what failed. */
static int ask(struct other *other, char what)
{
	int r;

	if (write(other->to, &what, 1) != 1 ||
		read(other->from, &r, sizeof(r)) != sizeof(r))
		return -EPIPE;
	return r;
}

static void other_kill(struct other *other)
{
	kill(other->pid, SIGKILL);
	waitpid(other->pid, NULL, 0);
	close(other->to);
	close(other->from);
}

static int obey(tarn_tensor *t, char what)
{
	switch (what) {
	case 'p': /* plus one */
		set(t, 7, get(t, 7) + 1);
		return 0;
	case 'g':
		return (int)get(t, 7);
	case 'w':
		return tarn_tensor_lock(t, TARN_LOCK_WRITE, 0);
	case 'r':
		return tarn_tensor_lock(t, TARN_LOCK_READ, 0);
	case 'u':
		return tarn_tensor_unlock(t);
	case 'm': /* many */
		for (int i = 0; i < ROUNDS; i++) {
			if (tarn_tensor_lock(t, TARN_LOCK_WRITE, LONG_MS) < 0)
				return -ETIMEDOUT;
			set(t, 1, get(t, 1) + 1);
			tarn_tensor_unlock(t);
		}
		return 0;
	default:
		return -EINVAL;
	}
}

static int other(const char *name)
{
	tarn_store *store = open_store();
	tarn_tensor *t = looked_up(store, name);
	char what;

	while (read(0, &what, 1) == 1) {
		int r = obey(t, what);

		if (write(3, &r, sizeof(r)) != sizeof(r))
			break;
	}
	tarn_tensor_unref(t);
	tarn_store_unref(store);
	return 0;
}

/* ---- shared writes --------------------------------------------------- */

static void test_shared(tarn_store *store, int64_t n, const char *name)
{
	tarn_tensor *t = publish(store, name, n, TARN_CREATE_MUTABLE), *again;
	struct other o;

	ok(tarn_storage_writable(tarn_tensor_storage(t)),
		"%s: the creator of a mutable tensor may still write it", name);
	again = looked_up(store, name);
	ok(tarn_storage_writable(tarn_tensor_storage(again)),
		"%s: a process that opens a mutable tensor may write it", name);
	other_begin(&o, name);
	set(t, 7, 40);
	is_int(40, ask(&o, 'g'), "%s: another process sees the creator's write",
		name);
	is_int(0, ask(&o, 'p'), "%s: another process writes the tensor", name);
	is_int(41, get(t, 7), "%s: the creator sees the other's write", name);
	is_int(41, get(again, 7), "%s: a second mapping sees the other's write",
		name);
	is_int(0, tarn_store_remove(store, name),
		"%s: the name of the mutable tensor is removed", name);
	is_int(0, ask(&o, 'p'),
		"%s: the holders keep the tensor without a name", name);
	is_int(42, get(t, 7), "%s: the holders still share the tensor's memory",
		name);
	tarn_tensor_unref(again);
	tarn_tensor_unref(t);
	is_int(0, ask(&o, 'p'),
		"%s: the other process writes after all others dropped it",
		name);
	is_int(43, ask(&o, 'g'), "%s: the other process reads its own write",
		name);
	other_kill(&o);
}

static void test_size(tarn_store *store)
{
	tarn_tensor *t = publish(store, "size", N, TARN_CREATE_MUTABLE);
	const struct shared_storage *shared =
		store_storage_of(tarn_tensor_storage(t));
	int fds[2];

	if (!shared)
		bail("what is published is not shared");
	for (int i = 0; i < 2; i++) {
		fds[i] = own_fetch(store, shared->index, shared->generation,
			STORAGE_ALONE);
		if (fds[i] < 0)
			bail("%s", tarn_error_message());
	}
	ok(ftruncate(fds[0], 0) < 0, "a mutable tensor cannot be made smaller");
	ok(ftruncate(fds[0], 1 << 20) < 0,
		"a mutable tensor cannot be made larger");
	ok(fcntl(fds[0], F_ADD_SEALS, F_SEAL_WRITE) < 0,
		"a client cannot take the right to write from others");
	ok(fcntl(fds[0], F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0,
		"a mutable tensor cannot be sealed against future writers");
	lseek(fds[0], 100, SEEK_SET);
	is_int(0, lseek(fds[1], 0, SEEK_CUR),
		"each client gets its own open file description");
	close(fds[0]);
	close(fds[1]);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "size"));
}

/* ---- locks ----------------------------------------------------------- */

static void test_what_locks(tarn_store *store)
{
	tarn_tensor *t = publish(store, "sealed", N, 0), *plain, *seen;
	const int64_t n = 3;

	seen = looked_up(store, "sealed");
	is_int(-ENOTSUP, tarn_tensor_lock(seen, TARN_LOCK_READ, 0),
		"a sealed tensor has no lock");
	has_str("never changes", tarn_error_message(),
		"the error says that a sealed tensor never changes");
	must(tarn_tensor_zeros(TARN_F32, 1, &n, &plain));
	is_int(-ENOTSUP, tarn_tensor_lock(plain, TARN_LOCK_READ, 0),
		"private memory cannot be locked");
	tarn_tensor_unref(plain);
	tarn_tensor_unref(seen);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "sealed"));
}

/* The third time something has come. */
static int look(void *arg)
{
	int *looks = arg;

	return ++*looks == 3 ? -EINTR : 0;
}

static void test_lock(tarn_store *store)
{
	int looks = 0;
	tarn_tensor *t = publish(store, "lock", N, TARN_CREATE_MUTABLE), *view;
	struct other o;

	must(tarn_tensor_eval(t, "[10:20]", &view));
	other_begin(&o, "lock");
	is_int(-EINVAL, tarn_tensor_lock(t, (enum tarn_lock)3, 0),
		"an unknown lock mode is refused");
	is_int(-EPERM, tarn_tensor_unlock(t),
		"unlocking without a lock is refused");
	is_int(0, tarn_tensor_lock(t, TARN_LOCK_READ, 0),
		"a process takes the read lock");
	is_int(0, ask(&o, 'r'), "two processes can have the read lock");
	is_int(-ETIMEDOUT, tarn_tensor_lock(view, TARN_LOCK_WRITE, 50),
		"a writer waits for readers, also through a view");
	is_int(0, ask(&o, 'u'), "one of the readers unlocks");
	is_int(-ETIMEDOUT, ask(&o, 'w'),
		"a writer waits for the reader that is left");
	is_int(0, tarn_tensor_unlock(view), "the last reader unlocks");
	is_int(0, ask(&o, 'w'), "a writer takes the lock");
	is_int(-ETIMEDOUT, tarn_tensor_lock(t, TARN_LOCK_READ, 50),
		"a reader waits for the writer");
	is_int(-EINTR,
		tarn_tensor_lock_while(t, TARN_LOCK_WRITE, -1, look, &looks),
		"a wait ends when its caller has seen something");
	is_int(3, looks, "the caller looks again and again");
	other_kill(&o);
	is_int(0, tarn_tensor_lock(t, TARN_LOCK_WRITE, 0),
		"the lock is free at once when its writer is killed");
	is_int(-EDEADLK, tarn_tensor_lock(t, TARN_LOCK_READ, -1),
		"a lock that is held cannot be taken again");
	is_int(0, tarn_tensor_unlock(t), "the lock is released");
	tarn_tensor_unref(view);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "lock"));
}

/* Its lock goes with the last reference. */
static void test_dropped(tarn_store *store)
{
	tarn_tensor *t = publish(store, "drop", N, TARN_CREATE_MUTABLE);
	struct other o;

	other_begin(&o, "drop");
	is_int(0, tarn_tensor_lock(t, TARN_LOCK_WRITE, 0),
		"this process takes the write lock");
	is_int(-ETIMEDOUT, ask(&o, 'r'),
		"another process's reader waits for this writer");
	tarn_tensor_unref(t);
	is_int(0, ask(&o, 'r'),
		"the other process takes the read lock and drops its tensor");
	other_kill(&o);
	must(tarn_store_remove(store, "drop"));
}

static void *add(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (tarn_tensor_lock(arg, TARN_LOCK_WRITE, LONG_MS) < 0)
			return arg;
		set(arg, 1, get(arg, 1) + 1);
		tarn_tensor_unlock(arg);
	}
	return NULL;
}

static void test_many(tarn_store *store)
{
	tarn_tensor *t = publish(store, "many", N, TARN_CREATE_MUTABLE);
	pthread_t threads[THREADS];
	struct other o;

	other_begin(&o, "many");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, add, t);
	is_int(0, ask(&o, 'm'),
		"a process and several threads write under the lock");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_int((THREADS + 1) * ROUNDS, get(t, 1),
		"no addition under the lock is lost");
	other_kill(&o);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "many"));
}

/* ---- a killed server ------------------------------------------------- */

static uint64_t used(tarn_store *store)
{
	struct tarn_report_daemon s;

	if (report_daemon(store, &s) < 0)
		bail("%s", tarn_error_message());
	return s.used;
}

static void test_restart(tarn_store *store)
{
	tarn_tensor *t = publish(store, "kept", N, TARN_CREATE_MUTABLE);
	struct tarn_report_daemon s;
	struct other o;

	must(tarn_tensor_lock(t, TARN_LOCK_WRITE, 0));
	if (report_daemon(store, &s) < 0)
		bail("%s", tarn_error_message());
	kill(s.server_pid, SIGKILL);
	set(t, 7, 50);
	other_begin(&o, "kept");
	is_int(50, ask(&o, 'g'),
		"a client that opens the tensor after a crash shares it");
	is_int(0, ask(&o, 'p'),
		"a client that comes after a crash writes the tensor");
	is_int(51, get(t, 7), "the bytes written after the crash are read");
	is_int(-ETIMEDOUT, ask(&o, 'r'),
		"this process still has its lock after the crash");
	tarn_tensor_unlock(t);
	is_int(0, ask(&o, 'r'),
		"another process gets the lock when it is released");
	other_kill(&o);
	tarn_tensor_unref(t);
}

int main(int argc, char **argv)
{
	tarn_store *store;

	if (argc == 4) {
		snprintf(server.socket, sizeof(server.socket), "%s", argv[2]);
		return other(argv[3]);
	}
	self = argv[0];
	daemon_start(&server, "sock", NULL);
	store = open_store();
	test_shared(store, N, "small");
	test_shared(store, N * N, "large");
	test_size(store);
	test_what_locks(store);
	test_lock(store);
	test_dropped(store);
	test_many(store);
	for (int i = 0; i < 6000 && used(store); i++)
		usleep(10000);
	is_int(0, (int64_t)used(store), "all memory is given back at the end");
	test_restart(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(57);
}
