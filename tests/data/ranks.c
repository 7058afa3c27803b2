/* SPDX-License-Identifier: MIT */
#include "tests/data/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/data/feed.h"
#include "lib/data/loader.h"
#include "tests/data/datasets.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

const char *ranks_socket;
struct tarn_data_options ranks_dataset;

struct tarn_loader_options ranks_options(uint32_t rank, uint32_t world)
{
	return (struct tarn_loader_options) {.name = "train",
		.global_batch = RANKS_BATCH,
		.rank = rank,
		.world = world,
		.ahead = 2,
		.parts = BATCHES_PARTS};
}

tarn_loader *ranks_loader(tarn_store *store, tarn_data *data,
	const struct tarn_loader_options *options)
{
	tarn_loader *loader;

	must(tarn_loader_open(store, data, options, &loader));
	return loader;
}

void ranks_are_slow(void)
{
	loader_stalled_ms = 120000;
	feed_expect_ns = 120000000000u;
}

/* ---- the process ------------------------------------------------------------- */

static void say(int to, tarn_loader *loader, bool wrong, bool ended)
{
	struct rank_word word = {.position = tarn_loader_position(loader),
		.wrong = wrong,
		.ended = ended};

	tarn_loader_info(loader, &word.info);
	word.info.engine = NULL;
	if (write(to, &word, sizeof(word)) != sizeof(word))
		_exit(1);
}

static _Noreturn void be_rank(
	const struct tarn_loader_options *options, int from, int to)
{
	tarn_store *store = NULL;
	tarn_loader *loader;
	tarn_data *data;
	uint64_t steps;
	bool right = true;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (options->name)
		must(tarn_store_open(ranks_socket, NULL, &store));
	data = datasets_open(&ranks_dataset);
	must(tarn_loader_open(store, data, options, &loader));
	say(to, loader, false, false);
	/* 0 is the end: later ranks have this pipe, too. */
	while (read(from, &steps, sizeof(steps)) == sizeof(steps) && steps) {
		while (right && steps--) {
			right = batches_next(loader, data, options);
			say(to, loader, !right, false);
		}
		say(to, loader, !right, true);
	}
	tarn_loader_unref(loader);
	tarn_data_free(data);
	tarn_store_unref(store);
	_exit(0);
}

/* ---- the test ------------------------------------------------------------------ */

void rank_start(struct rank *rank)
{
	int to[2], from[2];
	struct rank_word word;

	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		bail("pipe: %m");
	rank->pid = fork();
	if (rank->pid < 0)
		bail("fork: %m");
	if (rank->pid == 0) {
		close(to[1]);
		be_rank(&rank->options, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	rank->to = to[1];
	rank->from = from[0];
	rank->position = rank->options.from;
	if (!rank_hear(rank, &word))
		bail("a rank did not open its loader");
}

void rank_go(struct rank *rank, uint64_t steps)
{
	if (write(rank->to, &steps, sizeof(steps)) != sizeof(steps))
		bail("a rank is gone: %m");
}

bool rank_hear(struct rank *rank, struct rank_word *ret)
{
	ssize_t n = read(rank->from, ret, sizeof(*ret));

	if (n != sizeof(*ret))
		return false;
	rank->position = ret->position;
	return true;
}

bool rank_finish(struct rank *rank, struct rank_word *ret)
{
	do
		if (!rank_hear(rank, ret))
			return false;
	while (!ret->ended);
	return !ret->wrong;
}

static void collect(struct rank *rank)
{
	close(rank->from);
	waitpid(rank->pid, NULL, 0);
	rank->pid = 0;
}

void rank_end(struct rank *rank)
{
	rank_go(rank, 0);
	close(rank->to);
	collect(rank);
}

void rank_kill(struct rank *rank)
{
	kill(rank->pid, SIGKILL);
	close(rank->to);
	collect(rank);
}
