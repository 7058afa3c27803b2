/* SPDX-License-Identifier: MIT */
/*
 * Ranks that share a loader are killed at random: the one that reads, others, all
 * of them, and started again where they were. Each gets all of its batches, none
 * twice, none missing, none wrong, and none waits for the dead.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/data/datasets.h"
#include "tests/data/ranks.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { RANKS = 3, BATCH = 12, STEPS = 400 };

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint64_t)((unsigned __int128)state * n >> 64);
}

struct job {
	struct rank ranks[RANKS];
	struct rank_word words[RANKS];
	uint64_t end;
	unsigned kills;
};

static void start(struct job *job, int i)
{
	struct rank *rank = &job->ranks[i];

	rank->options.from = rank->position;
	rank_start(rank);
	rank_go(rank, (job->end - rank->position) / BATCH);
}

static void begin(struct job *job, const char *name, uint64_t from)
{
	*job = (struct job) {.end = from + (uint64_t)STEPS * BATCH};
	for (int i = 0; i < RANKS; i++) {
		job->ranks[i].options =
			(struct tarn_loader_options) {.name = name,
				.global_batch = BATCH,
				.rank = (uint32_t)i,
				.world = RANKS,
				.ahead = 2,
				.parts = BATCHES_PARTS};
		job->ranks[i].position = from;
	}
	for (int i = 0; i < RANKS; i++)
		start(job, i);
}

static bool is_running(const struct job *job, int i)
{
	return job->ranks[i].position < job->end;
}

static int running(const struct job *job)
{
	int n = 0;

	for (int i = 0; i < RANKS; i++)
		n += is_running(job, i);
	return n;
}

/* Takes what ranks say, for about so many words. False: one is wrong, or says
 * nothing for a minute. */
static bool listen_to(struct job *job, uint64_t words)
{
	while (words-- && running(job)) {
		struct pollfd fds[RANKS];

		for (int i = 0; i < RANKS; i++)
			fds[i] = (struct pollfd) {.events = POLLIN,
				.fd = is_running(job, i) ? job->ranks[i].from
							 : -1};
		if (poll(fds, RANKS, 60000) <= 0) {
			diag("no rank says anything");
			return false;
		}
		for (int i = 0; i < RANKS; i++)
			if (fds[i].revents &&
				(!rank_hear(&job->ranks[i], &job->words[i]) ||
					job->words[i].wrong))
				return false;
	}
	return true;
}

/* What a dead rank has said before it was killed counts: its position is there. */
static void kill_one(struct job *job, int i)
{
	struct rank *rank = &job->ranks[i];

	if (!is_running(job, i))
		return;
	rank_kill(rank);
	job->kills++;
}

enum victim { READER, OTHER, ANY, ALL };

static bool is_victim(const struct job *job, int i, enum victim who)
{
	bool reads = job->words[i].info.reads;

	return who == ALL || (who == READER && reads) ||
	       (who == OTHER && !reads) || (who == ANY && below(2));
}

/* Kills some, and starts them again, at once or after the others have gone on. */
static bool strike(struct job *job, enum victim who)
{
	bool dead[RANKS], right = true;

	for (int i = 0; i < RANKS; i++)
		dead[i] = is_running(job, i) && is_victim(job, i, who);
	for (int i = 0; i < RANKS; i++)
		if (dead[i])
			kill_one(job, i);
	for (int i = 0; i < RANKS; i++)
		if (dead[i])
			start(job, i);
	return right;
}

/* How many were killed before all had all; or -1. */
static int run_killed(enum victim who, const char *name)
{
	struct job job;
	bool right = true;

	begin(&job, name, below(1000));
	while (right && running(&job)) {
		right = listen_to(&job, 1 + below(60));
		/* Anywhere between two batches, too. */
		usleep((useconds_t)below(3000));
		if (right && running(&job))
			right = strike(&job, who);
	}
	for (int i = 0; i < RANKS; i++)
		rank_kill(&job.ranks[i]);
	return right ? (int)job.kills : -1;
}

/* In several jobs, where a busy machine lets one end too soon. */
static void test_kills(enum victim who, const char *name)
{
	int kills = 0, r = 0;

	for (int n = 0; r >= 0 && kills <= 5 && n < 8; n++) {
		char job[64];

		snprintf(job, sizeof(job), "%s %d", name, n);
		r = run_killed(who, job);
		kills += r > 0 ? r : 0;
	}
	ok(r >= 0, "all ranks get all batches where they are killed: %s", name);
	ok(kills > 5, "some were killed: %s", name);
	diag("%d kills", kills);
}

/* ---- in step ------------------------------------------------------------------ */

/* As ranks of one job do that exchange gradients: none makes a step before all have
 * made the last one. All are killed, or one, who was sent on its way or not yet. */
static bool all_step(struct job *job, int dies)
{
	struct rank_word word;
	bool right = true;

	for (int i = 0; i < RANKS; i++) {
		rank_go(&job->ranks[i], 1);
		if (i == dies) {
			rank_kill(&job->ranks[i]);
			job->ranks[i].options.from = job->ranks[i].position;
			rank_start(&job->ranks[i]);
			rank_go(&job->ranks[i], 1);
		}
	}
	for (int i = 0; i < RANKS; i++) {
		right = rank_finish(&job->ranks[i], &word) && right;
		job->words[i] = word;
	}
	return right;
}

static void test_in_step(void)
{
	uint64_t shared = 0;
	struct job job = {.end = 0};
	bool right = true;

	for (int i = 0; i < RANKS; i++) {
		job.ranks[i].options =
			(struct tarn_loader_options) {.name = "in step",
				.global_batch = BATCH,
				.rank = (uint32_t)i,
				.world = RANKS,
				.parts = BATCHES_PARTS};
		rank_start(&job.ranks[i]);
	}
	for (int step = 0; right && step < STEPS; step++) {
		right = all_step(&job, (int)below(8 * RANKS));
		for (int i = 1; i < RANKS; i++)
			right = right &&
				job.ranks[i].position == job.ranks[0].position;
	}
	for (int i = 0; i < RANKS; i++) {
		shared += job.words[i].info.n_shared;
		rank_end(&job.ranks[i]);
	}
	ok(right, "ranks go on in step where one is killed now and then");
	ok(shared > 0, "those that were started again share again");
}

int main(void)
{
	struct corpus corpora[2];
	struct daemon server;

	datasets_begin(test_tmpdir(), corpora);
	daemon_start(&server, "kills.sock", (const char *[]) {NULL});
	ranks_socket = server.socket;
	ranks_dataset = datasets_options(15, NULL);
	test_kills(READER, "the one that reads");
	test_kills(OTHER, "the others");
	test_kills(ANY, "any");
	test_kills(ALL, "all");
	test_in_step();
	daemon_stop(&server);
	datasets_end(corpora);
	return done(2 * 4 + 2);
}
