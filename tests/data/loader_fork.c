/* SPDX-License-Identifier: MIT */
/*
 * Children of a process that has loaders: they may drop what is their parent's, and
 * read from its datasets, whatever its threads, which they do not have, were doing at
 * the moment of the fork.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/data/batches.h"
#include "tests/data/datasets.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static void test_fork(tarn_data *data)
{
	const struct tarn_loader_options options = {.global_batch = 8};
	tarn_loader *loader = batches_open(data, &options);
	tarn_batch *batch;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		bool refused = tarn_loader_next(loader, -1, &batch) == -ECHILD;

		tarn_loader_unref(loader);
		_exit(refused ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	is_int(0, status, "a loader is its process's alone");
	ok(batches_next(loader, data, &options),
		"the parent's is as it was after a child dropped its own");
	tarn_loader_unref(loader);
}

struct busy {
	tarn_loader *loader;
	atomic_bool stop;
};

/* Takes and drops batches as fast as it can. */
static void *be_busy(void *arg)
{
	struct busy *busy = arg;
	tarn_batch *batch;

	while (!atomic_load(&busy->stop)) {
		must(tarn_loader_next(busy->loader, -1, &batch));
		tarn_batch_unref(batch);
	}
	return NULL;
}

/* It ends, and is not killed by its alarm. */
static bool child_drops(tarn_batch *batch)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(300);
		tarn_batch_unref(batch);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

/* A child is forked while threads of its parent, which it does not have, give
 * batches and take them back: it still can drop those that it has. */
static void test_fork_drops(tarn_data *data)
{
	const struct tarn_loader_options options = {
		.global_batch = 1, .ahead = 4, .keeps = true};
	struct busy busy = {.loader = batches_open(data, &options)};
	tarn_batch *batch;
	pthread_t thread;
	int n = 0;

	must(tarn_loader_next(busy.loader, -1, &batch));
	if (pthread_create(&thread, NULL, be_busy, &busy))
		bail("no thread");
	while (n < 500 && child_drops(batch))
		n++;
	atomic_store(&busy.stop, true);
	pthread_join(thread, NULL);
	is_int(500, n, "children drop the batches of their parent");
	tarn_batch_unref(batch);
	tarn_loader_unref(busy.loader);
}

/* A child reads samples of its own, while threads that it does not have read. */
static bool child_reads(tarn_data *data, uint64_t position)
{
	struct tarn_data_info info;
	struct tarn_data_request request = {.document = false};
	struct tarn_data_sample sample;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(300);
		tarn_data_info(data, &info);
		request.size = info.sample_bytes;
		request.tokens = malloc(request.size);
		_exit(tarn_data_get(data, position, &request, &sample) < 0);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

static void test_fork_reads(void)
{
	const struct tarn_loader_options options = {
		.global_batch = 1, .ahead = 4, .keeps = true};
	struct tarn_data_options o = datasets_options(0, NULL);
	struct busy busy;
	pthread_t thread;
	tarn_data *data;
	uint64_t n = 0;

	for (int i = 0; o.windows != TARN_WINDOWS_PACKED; i++)
		o = datasets_options(i, NULL);
	data = datasets_open(&o);
	busy = (struct busy) {.loader = batches_open(data, &options)};
	if (pthread_create(&thread, NULL, be_busy, &busy))
		bail("no thread");
	while (n < 500 && child_reads(data, n * 7919))
		n++;
	atomic_store(&busy.stop, true);
	pthread_join(thread, NULL);
	is_int(500, (int64_t)n,
		"children read from the dataset of their parent");
	tarn_loader_unref(busy.loader);
	tarn_data_free(data);
}

int main(void)
{
	struct tarn_data_options o = datasets_options(15, NULL);
	struct corpus corpora[2];
	tarn_data *data;

	datasets_begin(test_tmpdir(), corpora);
	data = datasets_open(&o);
	test_fork(data);
	test_fork_drops(data);
	test_fork_reads();
	tarn_data_free(data);
	datasets_end(corpora);
	return done(4);
}
