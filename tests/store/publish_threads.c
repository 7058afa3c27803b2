/* SPDX-License-Identifier: MIT */
/*
 * One created tensor, many threads: each publishes it under its own name at
 * the same moment, while another looks at its storage. The first thread turns
 * it into a shared one; the others must neither see it half turned nor free it
 * twice, and all names lead to one storage.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define THREADS 3
#define ROUNDS 60
#define N ((int64_t)TARN_ADOPT_MIN)

static tarn_store *store;

struct round {
	pthread_barrier_t begin;
	tarn_tensor *tensor;
	tarn_tensor *small;
	atomic_bool over;
	atomic_uint failed;
	atomic_uint odd; /* exports that were neither refused nor right */
};

struct publisher {
	struct round *round;
	int number;
};

static void publish_as(struct round *round, const char *name, tarn_tensor *t)
{
	struct tarn_publish_item items[] = {{.name = name, .tensor = t},
		{.name = "small", .tensor = round->small}};

	if (tarn_store_publish(store, items, 2, NULL, NULL) < 0) {
		diag("%s: %s", name, tarn_error_message());
		round->failed++;
	}
}

static void *publish(void *arg)
{
	const struct publisher *me = arg;
	char name[16];

	snprintf(name, sizeof(name), "t/%d", me->number);
	pthread_barrier_wait(&me->round->begin);
	publish_as(me->round, name, me->round->tensor);
	return NULL;
}

/* It is this process's own, or all of it is shared. */
static void *look(void *arg)
{
	struct round *round = arg;
	struct tarn_descriptor d;

	pthread_barrier_wait(&round->begin);
	while (!round->over) {
		int r = tarn_store_export(store, round->tensor, &d);

		round->odd += r != -EINVAL && (r != 0 || d.size != N);
	}
	return NULL;
}

/* Do all names lead to the one storage that the tensor is by now? */
static bool is_one(const tarn_tensor *t)
{
	bool one = true;
	char name[16];

	for (int i = 0; i < THREADS; i++) {
		tarn_tensor *seen = NULL;

		snprintf(name, sizeof(name), "t/%d", i);
		one = tarn_store_lookup(store, name, &seen) >= 0 &&
		      tarn_tensor_same_storage(seen, t) && one;
		tarn_tensor_unref(seen);
	}
	return one;
}

static bool run_round(struct round *round)
{
	struct publisher publishers[THREADS];
	pthread_t threads[THREADS + 1];
	const int64_t n = N, few = 10;
	bool one;

	if (tarn_store_create(store, TARN_U8, 1, &n, 0, &round->tensor) < 0 ||
		tarn_store_create(store, TARN_U8, 1, &few, 0, &round->small) <
			0)
		bail("create: %s", tarn_error_message());
	round->over = false;
	for (int i = 0; i < THREADS; i++) {
		publishers[i] = (struct publisher) {round, i};
		pthread_create(&threads[i], NULL, publish, &publishers[i]);
	}
	pthread_create(&threads[THREADS], NULL, look, round);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	round->over = true;
	pthread_join(threads[THREADS], NULL);
	one = is_one(round->tensor);
	tarn_tensor_unref(round->tensor);
	tarn_tensor_unref(round->small);
	return one;
}

static void *publish_all_the_time(void *arg)
{
	struct round *round = arg;

	while (!round->over)
		publish_as(round, "t/x", round->tensor);
	return NULL;
}

/* A thread that is in the middle of it does not exist in a child, which must
 * not wait for it. */
static void test_fork(void)
{
	struct round round = {0};
	const int64_t n = N;
	pthread_t thread;
	int failed = 0;

	for (int i = 0; i < 10; i++) {
		int status;
		pid_t pid;

		round.over = false;
		must(tarn_store_create(
			store, TARN_U8, 1, &n, 0, &round.tensor));
		round.small = round.tensor;
		pthread_create(&thread, NULL, publish_all_the_time, &round);
		usleep(300 * (useconds_t)i);
		pid = fork();
		if (pid == 0) {
			alarm(300);
			publish_as(&round, "t/child", round.tensor);
			_exit(round.failed ? 1 : 0);
		}
		waitpid(pid, &status, 0);
		failed += status != 0;
		round.over = true;
		pthread_join(thread, NULL);
		tarn_tensor_unref(round.tensor);
	}
	is_int(0, failed,
		"10 children publish the tensor of a thread of their parent");
	is_int(0, round.failed, "no thread of the parent fails to publish");
}

/* GCC 12's sanitizer takes no lock of its allocator before a fork: where a
 * thread has one at that moment, the child waits for it for ever. */
static bool allocates_in_children(void)
{
#ifdef __SANITIZE_ADDRESS__
	return false;
#else
	return true;
#endif
}

int main(void)
{
	struct round round = {0};
	struct daemon daemon;
	int split = 0;

	daemon_start(&daemon, "tarnd.sock", NULL);
	if (tarn_store_open(daemon.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	pthread_barrier_init(&round.begin, NULL, THREADS + 1);
	for (int i = 0; i < ROUNDS; i++)
		split += !run_round(&round);
	is_int(0, round.failed,
		"%d times %d threads publish one tensor at once: all succeed",
		ROUNDS, THREADS);
	is_int(0, split, "the names of all threads lead to one storage");
	is_int(0, round.odd, "no thread sees the tensor half published");
	if (allocates_in_children())
		test_fork();
	else
		skip(2, "the sanitizer's allocator hangs in children of "
			"processes with threads");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	return done(6);
}
