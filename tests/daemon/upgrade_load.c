/* SPDX-License-Identifier: MIT */
/*
 * The daemon becomes another program, again and again, under a client that
 * publishes, one that looks up and one that loads: no call fails, no reader
 * gets old data, and old memory is given back when it holds no storage any
 * more. With each backend of the loop.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/publish.h>

#include "base/fail.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"
#include "tests/kit/upgrade.h"
#include "tests/kit/witness.h"

enum { LARGE = 3 << 20, ROUNDS = 6 };
#define PATIENCE_S 60.0

/* ---- under load ---------------------------------------------------------- */

/* What a publisher has finished; who looks up must not see less. */
struct board {
	_Atomic uint64_t done;
	_Atomic uint64_t looks, loads;
	_Atomic bool stop;
	char faults[3][300]; /* of the publisher, reader, loader */
};

static int publish(tarn_store *s, uint64_t number)
{
	struct tarn_publish_item item = {.name = "count"};
	int64_t size = 1;
	int r = tarn_store_create(s, TARN_U64, 1, &size, 0, &item.tensor);

	if (r >= 0) {
		memcpy(tarn_tensor_data(item.tensor), &number, sizeof(number));
		r = tarn_store_publish(s, &item, 1, NULL, NULL);
	}
	tarn_tensor_unref(item.tensor);
	return r;
}

static int run_publisher(struct board *board, tarn_store *s)
{
	int r = 0;

	for (uint64_t n = 1; r >= 0 && !atomic_load(&board->stop); n++) {
		r = publish(s, n);
		if (r >= 0)
			atomic_store(&board->done, n);
	}
	return r;
}

static int run_reader(struct board *board, tarn_store *s)
{
	while (!atomic_load(&board->stop)) {
		uint64_t least = atomic_load(&board->done), seen;
		tarn_tensor *t;
		int r;

		if (!least)
			continue;
		r = tarn_store_lookup(s, "count", &t);
		if (r < 0)
			return r;
		memcpy(&seen, tarn_tensor_data(t), sizeof(seen));
		tarn_tensor_unref(t);
		if (seen < least)
			return tarn_fail(ESTALE, "%llu was read after %llu",
				(unsigned long long)seen,
				(unsigned long long)least);
		atomic_fetch_add(&board->looks, 1);
	}
	return 0;
}

static int run_loader(struct board *board, tarn_store *s)
{
	char path[300];
	int r = 0;

	snprintf(path, sizeof(path), "%s", tensor_file("big", 7, LARGE));
	while (r >= 0 && !atomic_load(&board->stop)) {
		r = tensor_load(s, path, "big");
		if (r >= 0 && tensor_check(s, "big/x", 7, LARGE) != 1)
			r = tarn_fail(EIO, "its bytes are not what they were");
		if (r >= 0)
			r = tarn_store_remove(s, "big/x");
		atomic_fetch_add(&board->loads, 1);
	}
	return r;
}

static pid_t start(struct board *board, int role)
{
	static int (*const run[])(struct board * board, tarn_store * s) = {
		run_publisher, run_reader, run_loader};
	tarn_store *s;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	if (tarn_store_open(daemon_.socket, NULL, &s) < 0 ||
		run[role](board, s) < 0) {
		snprintf(board->faults[role], sizeof(board->faults[role]),
			"%.299s", tarn_error_message());
		_exit(1);
	}
	_exit(0);
}

static void test_under_load(void)
{
	static const char *const names[] = {"publisher", "reader", "loader"};
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double end = seconds() + PATIENCE_S;
	pid_t pids[3];
	int status;

	if (board == MAP_FAILED)
		bail("mmap: %m");
	for (int i = 0; i < 3; i++)
		pids[i] = start(board, i);
	while ((!atomic_load(&board->looks) || !atomic_load(&board->loads)) &&
		seconds() < end)
		usleep(1000);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t done = atomic_load(&board->done);
		uint64_t loads = atomic_load(&board->loads);

		upgrade();
		end = seconds() + PATIENCE_S;
		while ((atomic_load(&board->done) <= done + 1 ||
			       atomic_load(&board->loads) <= loads) &&
			seconds() < end)
			usleep(1000);
		ok(atomic_load(&board->done) > done + 1 &&
				atomic_load(&board->loads) > loads,
			"after upgrade %d the clients continue", i + 1);
	}
	atomic_store(&board->stop, true);
	for (int i = 0; i < 3; i++) {
		waitpid(pids[i], &status, 0);
		is_int(0, status, "no call of the %s failed: %s", names[i],
			board->faults[i]);
	}
	diag("%llu published, %llu looked up, %llu loaded",
		(unsigned long long)board->done,
		(unsigned long long)board->looks,
		(unsigned long long)board->loads);
	must(tarn_store_remove(store, "count"));
	may_fail(tarn_store_remove(store, "big/x"));
	munmap(board, sizeof(*board));
	ok(used_becomes(store, 0), "no memory is left taken");
	ok(taken_becomes(0), "no old segment is left of any upgrade");
}

int main(void)
{
	for (int i = 0; i < 2; i++) {
		upgrade_begin();
		test_under_load();
		upgrade_end();
		setenv("TARN_ENGINE", "threads", 1);
	}
	remove_files();
	return done(24);
}
