/* SPDX-License-Identifier: MIT */
/*
 * The global order of samples is the same for any world: ranks of 1, 2, 3 and 8,
 * jobs that are ended anywhere and go on with another number of ranks, in a
 * process that opens all anew, get together what one rank gets, none twice, none
 * missing. Threads do not matter, either. For each combination of windows,
 * shuffles and mixtures.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/data/datasets.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* Some three epochs. */
enum { POSITIONS = 3600, BATCH = 24 };

static uint64_t wanted[POSITIONS], seen[POSITIONS];

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint64_t)((unsigned __int128)state * n >> 64);
}

/* ---- worlds ------------------------------------------------------------------ */

/* A rank reads its part of the steps; positions that were read already are
 * spoilt. */
static void rank_reads(tarn_data *data, uint32_t rank, uint32_t world,
	uint64_t first_step, uint64_t end_step)
{
	uint64_t first, n;

	must(tarn_data_rank_part(BATCH, rank, world, &first, &n));
	for (uint64_t step = first_step; step < end_step; step++)
		for (uint64_t i = 0; i < n; i++) {
			uint64_t g = step * BATCH + first + i;

			seen[g] += datasets_sample(data, g, NULL);
		}
}

/* Each rank opens the dataset itself, and goes on from the state. */
static void world_reads(const struct tarn_data_options *options, uint32_t world,
	const char *saved, uint64_t end_step, char **ret_saved)
{
	for (uint32_t rank = 0; rank < world; rank++) {
		tarn_data *data = datasets_open(options);
		uint64_t g = 0;

		if (saved)
			must(tarn_data_resume(data, saved, &g));
		rank_reads(data, rank, world, g / BATCH, end_step);
		if (rank == 0)
			must(tarn_data_state(
				data, end_step * BATCH, ret_saved));
		tarn_data_free(data);
	}
}

static bool worlds(const struct tarn_data_options *options)
{
	static const uint32_t sizes[] = {1, 2, 3, 8};
	char *saved = NULL, *next = NULL;
	uint64_t end = POSITIONS / BATCH;

	memset(seen, 0, sizeof(seen));
	for (uint64_t step = 0; step < end;) {
		step += 1 + below(end / 4);
		step = MIN(end, step);
		world_reads(options, sizes[below(4)], saved, step, &next);
		free(saved);
		saved = next;
	}
	free(saved);
	return memcmp(wanted, seen, sizeof(wanted)) == 0;
}

/* ---- threads -------------------------------------------------------------------- */

static tarn_data *shared;

static void *read_some(void *arg)
{
	for (uint64_t g = (uint64_t)(uintptr_t)arg; g < POSITIONS; g += 4)
		seen[g] = datasets_sample(shared, g, NULL);
	return NULL;
}

static bool threads(const struct tarn_data_options *options)
{
	pthread_t thread[4];

	memset(seen, 0, sizeof(seen));
	shared = datasets_open(options);
	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, read_some, (void *)i))
			bail("no thread");
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	tarn_data_free(shared);
	return memcmp(wanted, seen, sizeof(wanted)) == 0;
}

/* ---- epochs ----------------------------------------------------------------------- */

/* Each epoch of a source, or of all, has each of its samples once, and is not in
 * the order of the one before it unless nothing is shuffled. */
static bool epochs(tarn_data *data, const struct tarn_data_options *options)
{
	enum { EPOCHS = 16 };
	static unsigned char times[2][EPOCHS][POSITIONS];
	uint64_t n[2], all = 0, got[2] = {0};
	bool good = true;

	memset(times, 0, sizeof(times));
	for (uint32_t i = 0; i < 2; i++) {
		must(tarn_data_source_samples(data, i, &n[i]));
		all += n[i];
	}
	for (uint64_t g = 0; good && g < POSITIONS; g++) {
		struct tarn_data_sample s;
		uint64_t *ordinal, size;

		datasets_sample(data, g, &s);
		ordinal = options->periods ? &got[s.source] : &got[0];
		size = options->periods ? n[s.source] : all;
		good = s.source < 2 && s.sample < n[s.source] &&
		       s.epoch == (*ordinal)++ / size && s.epoch < EPOCHS &&
		       !times[s.source][s.epoch][s.sample]++;
		if (options->shuffle == TARN_SHUFFLE_NONE && options->periods)
			good = good && s.sample == (*ordinal - 1) % size;
	}
	return good;
}

static bool shuffled(tarn_data *data)
{
	struct tarn_data_sample s;
	unsigned ascents = 0;
	uint64_t before = 0;

	for (uint64_t g = 0; g < 400; g++) {
		datasets_sample(data, g, &s);
		ascents += s.sample > before;
		before = s.sample;
	}
	return ascents > 100 && ascents < 300;
}

/* ---- states --------------------------------------------------------------------------- */

static void test_states(void)
{
	struct tarn_data_options o = datasets_options(15, NULL), other = o;
	static const double weights[] = {3, 2};
	const struct tarn_data_weights period = {.weights = weights};
	tarn_data *a = datasets_open(&o), *b;
	uint64_t g = 7, hash[2][2];
	char *saved;

	other.seed = 43;
	other.seq_len = 41;
	other.shuffle = TARN_SHUFFLE_BLOCKS;
	other.periods = &period;
	b = datasets_open(&other);
	must(tarn_data_state(a, UINT64_MAX, &saved));
	must(tarn_data_resume(a, saved, &g));
	ok(g == UINT64_MAX, "a state has any position");
	tarn_data_hash(a, hash[0]);
	tarn_data_hash(b, hash[1]);
	ok(memcmp(hash[0], hash[1], sizeof(hash[0])) != 0,
		"configurations have hashes of their own");
	is_int(-EMEDIUMTYPE, tarn_data_resume(b, saved, &g),
		"a state of another configuration is refused");
	has_str("seed is 42, not 43; seq_len is 40, not 41; shuffle is all, not "
		"blocks; block is missing;",
		tarn_error_message(), "the sentence lists what differs");
	has_str("weights.0 is from 0: 3 1, not from 0: 3 2",
		tarn_error_message(), "it has the weights");
	is_int(-EBADMSG, tarn_data_resume(a, "tarn-data 1\npos", &g),
		"what is no state is refused");
	/* One digit of the hash is wrong, and nothing else. */
	saved[strlen("tarn-data 1\nposition=18446744073709551615\nhash=")] ^= 1;
	is_int(-EMEDIUMTYPE, tarn_data_resume(a, saved, &g),
		"a state with another hash is refused");
	free(saved);
	tarn_data_free(a);
	tarn_data_free(b);
}

static void test_parts(void)
{
	uint64_t next, first, n;
	bool good = true;

	for (uint64_t batch = 0; batch < 50; batch++)
		for (uint32_t world = 1; world < 20; world++) {
			next = 0;
			for (uint32_t rank = 0; rank < world; rank++) {
				must(tarn_data_rank_part(
					batch, rank, world, &first, &n));
				good = good && first == next &&
				       (n == batch / world ||
					       n == batch / world + 1);
				next += n;
			}
			good = good && next == batch;
		}
	ok(good, "ranks' parts are the batch, in order, none more than one "
		 "larger");
	is_int(-EINVAL, tarn_data_rank_part(8, 3, 3, &first, &n),
		"rank 3 of 3 is refused");
}

int main(void)
{
	struct corpus corpora[2];

	datasets_begin(test_tmpdir(), corpora);
	for (int i = 0; i < CONFIGURATIONS; i++) {
		const char *name;
		struct tarn_data_options options = datasets_options(i, &name);
		tarn_data *data = datasets_open(&options);

		for (uint64_t g = 0; g < POSITIONS; g++)
			wanted[g] = datasets_sample(data, g, NULL);
		ok(epochs(data, &options),
			"each sample is once in an epoch: %s", name);
		ok(options.shuffle != TARN_SHUFFLE_ALL || shuffled(data),
			"samples that shall be shuffled are: %s", name);
		ok(worlds(&options), "worlds of 1, 2, 3 and 8 ranks: %s", name);
		ok(threads(&options), "four threads: %s", name);
		tarn_data_free(data);
	}
	test_states();
	test_parts();
	datasets_end(corpora);
	return done(4 * CONFIGURATIONS + 7 + 2);
}
