/* SPDX-License-Identifier: MIT */
/*
 * Plans beside slow models: each token is in a sample, each is predicted once,
 * sequences are those of best fit done plainly, and hold 98 % of what they could
 * for documents as corpora have them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "lib/data/plan.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { DOCUMENTS = 300 };

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint64_t)((unsigned __int128)state * n >> 64);
}

/* Lengths near multiples of seq_len are where errors would be. */
static uint64_t some_length(uint32_t seq_len)
{
	switch (below(5)) {
	case 0:
		return below(3);
	case 1:
		return seq_len * below(4) + below(3);
	case 2:
		return below(4 * (uint64_t)seq_len);
	default:
		return below(seq_len) + 1;
	}
}

static void make(struct data_plan *p, const struct data_shape *shape, size_t n,
	uint64_t key)
{
	must(data_plan_room(p, shape, n));
	for (size_t i = 0; i < n; i++)
		p->lengths[i] = some_length(shape->seq_len);
	data_plan_make(p, shape, n, key);
}

/* ---- what samples hold -------------------------------------------------------- */

struct seen {
	uint64_t tokens[DOCUMENTS], predicted[DOCUMENTS];
	uint64_t starts[DOCUMENTS]; /* sum of starts: pieces of other places */
	uint32_t in_sample, pieces;
};

static int add(void *arg, const struct data_piece *piece)
{
	struct seen *seen = arg;

	seen->tokens[piece->document] += piece->n;
	seen->predicted[piece->document] += piece->n - 1;
	seen->starts[piece->document] += piece->start;
	seen->in_sample += piece->n;
	seen->pieces++;
	return piece->n == 0;
}

static uint64_t wanted_predicted(
	enum tarn_data_windows w, uint32_t seq_len, uint64_t length)
{
	uint64_t all = length ? length - 1 : 0;

	return w == TARN_WINDOWS_DROPPED ? all / seq_len * seq_len : all;
}

/* k pieces of a document begin at 0, seq_len, ... */
static uint64_t wanted_starts(uint64_t predicted, uint32_t seq_len)
{
	uint64_t k = predicted / seq_len + (predicted % seq_len != 0);

	return k ? seq_len * (k * (k - 1) / 2) : 0;
}

static bool judge(const struct data_plan *p, const struct data_shape *shape)
{
	struct seen *seen = calloc(1, sizeof(*seen));
	bool good = seen != NULL;

	for (uint64_t i = 0; good && i < p->n_whole + p->n_packed; i++) {
		seen->in_sample = seen->pieces = 0;
		good = data_plan_pieces(p, shape, i, add, seen) == 0 &&
		       seen->in_sample <= shape->seq_len + 1 &&
		       seen->pieces > 0 &&
		       (i >= p->n_whole || seen->pieces == 1);
	}
	for (size_t d = 0; good && d < p->n; d++) {
		uint64_t predicted = wanted_predicted(
			shape->windows, shape->seq_len, p->lengths[d]);

		good = seen->predicted[d] == predicted &&
		       seen->starts[d] ==
			       wanted_starts(predicted, shape->seq_len);
		/* One token predicts nothing, and is packed all the same. */
		if (shape->windows == TARN_WINDOWS_PACKED && p->lengths[d] == 1)
			good = good && seen->tokens[d] == 1;
		if (!good)
			diag("document %zu of %llu tokens, seq_len %u", d,
				(unsigned long long)p->lengths[d],
				shape->seq_len);
	}
	free(seen);
	return good;
}

/* ---- best fit, plainly ----------------------------------------------------------- */

static int downwards(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x < *y) - (*x > *y);
}

static uint64_t rest_of(uint64_t length, uint32_t seq_len)
{
	uint64_t whole = length ? (length - 1) / seq_len : 0;

	length -= whole * seq_len;
	return whole && length == 1 ? 0 : length;
}

/* Sets the rooms that are left in each sequence; returns how many there are. */
static size_t slow(const struct data_plan *p, uint32_t seq_len, uint64_t *rooms)
{
	uint64_t rests[DOCUMENTS];
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		rests[i] = rest_of(p->lengths[i], seq_len);
	qsort(rests, p->n, sizeof(*rests), downwards);
	for (size_t i = 0; i < p->n && rests[i]; i++) {
		size_t best = n;

		for (size_t k = 0; k < n; k++)
			if (rooms[k] >= rests[i] &&
				(best == n || rooms[k] < rooms[best]))
				best = k;
		if (best == n)
			rooms[n++] = seq_len + 1;
		rooms[best] -= rests[i];
	}
	qsort(rooms, n, sizeof(*rooms), downwards);
	return n;
}

static bool judge_fit(const struct data_plan *p, const struct data_shape *shape)
{
	uint64_t wanted[DOCUMENTS], rooms[DOCUMENTS];
	size_t n = slow(p, shape->seq_len, wanted);
	struct seen *seen = calloc(1, sizeof(*seen));
	bool good;

	if (n != p->n_packed || !seen) {
		diag("%zu sequences, not %llu", n,
			(unsigned long long)p->n_packed);
		free(seen);
		return false;
	}
	for (uint64_t i = 0; i < n; i++) {
		seen->in_sample = 0;
		may_fail(data_plan_pieces(p, shape, p->n_whole + i, add, seen));
		rooms[i] = shape->seq_len + 1 - seen->in_sample;
	}
	qsort(rooms, n, sizeof(*rooms), downwards);
	good = !n || memcmp(rooms, wanted, n * sizeof(*rooms)) == 0;
	free(seen);
	return good;
}

static void test_models(void)
{
	static const char *const names[] = {
		"stream", "padded", "dropped", "packed"};
	bool fit = true, same = true;

	for (int w = TARN_WINDOWS_PADDED; w <= TARN_WINDOWS_PACKED; w++) {
		struct data_plan p = {.n = 0};
		bool good = true;

		for (unsigned t = 0; good && t < test_cases(2000); t++) {
			/* Of all levels of rooms. */
			const uint32_t seq_len =
				(uint32_t)(below(3)   ? 1 + below(100)
					   : below(2) ? 4000 + below(200)
						      : 262140 + below(10));
			const struct data_shape shape = {
				.windows = (enum tarn_data_windows)w,
				.seq_len = seq_len};
			uint64_t n_packed;

			make(&p, &shape, below(DOCUMENTS + 1), t);
			good = judge(&p, &shape);
			if (w != TARN_WINDOWS_PACKED)
				continue;
			fit = fit && judge_fit(&p, &shape);
			n_packed = p.n_packed;
			data_plan_make(&p, &shape, p.n, t + 1);
			same = same && p.n_packed == n_packed &&
			       judge(&p, &shape);
		}
		ok(good, "windows '%s' have what documents have", names[w]);
		data_plan_end(&p);
	}
	ok(fit, "sequences have the room left that best fit leaves");
	ok(same, "another key makes as many sequences");
}

/* Which of equal documents is where depends on the key. */
static void test_key(void)
{
	const struct data_shape shape = {
		.windows = TARN_WINDOWS_PACKED, .seq_len = 99};
	struct data_plan p = {.n = 0};
	uint32_t members[2][DOCUMENTS];

	must(data_plan_room(&p, &shape, DOCUMENTS));
	for (uint64_t key = 0; key < 3; key++) {
		for (size_t i = 0; i < DOCUMENTS; i++)
			p.lengths[i] = 50;
		data_plan_make(&p, &shape, DOCUMENTS, key / 2);
		memcpy(members[key / 2], p.members, sizeof(members[0]));
		if (key == 1)
			is_mem(members[0], p.members, sizeof(members[0]),
				"one key makes one plan");
	}
	ok(memcmp(members[0], members[1], sizeof(members[0])) != 0,
		"another key makes other neighbours");
	data_plan_end(&p);
}

/* ---- documents as corpora have them ---------------------------------------------- */

static double normal(void)
{
	double a = ((double)below(1u << 30) + 1) / (1u << 30);
	double b = (double)below(1u << 30) / (1u << 30);

	return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}

/* Of this thread: how much the machine has to do besides is not counted. */
static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void realistic(uint32_t seq_len, size_t group)
{
	const struct data_shape shape = {
		.windows = TARN_WINDOWS_PACKED, .seq_len = seq_len};
	uint64_t tokens = 0, places = 0;
	struct data_plan p = {.n = 0};
	double start, spent = 0;

	for (int g = 0; g < 20; g++) {
		must(data_plan_room(&p, &shape, group));
		for (size_t i = 0; i < group; i++) {
			/* The median is 400 tokens, the mean some 800. */
			p.lengths[i] = 1 + (uint64_t)exp(6 + 1.2 * normal());
			tokens += p.lengths[i];
		}
		start = cpu_seconds();
		data_plan_make(&p, &shape, group, (uint64_t)g);
		spent += cpu_seconds() - start;
		places += (p.n_whole + p.n_packed) * (seq_len + 1);
	}
	ok((double)tokens > 0.98 * (double)places,
		"%.2f %% of the places of sequences of %u are used",
		100.0 * (double)tokens / (double)places, seq_len + 1);
	ok((double)tokens / spent > 20e6,
		"%.0f million tokens a second are "
		"planned",
		(double)tokens / spent / 1e6);
	data_plan_end(&p);
}

int main(void)
{
	test_models();
	test_key();
	realistic(2048, 1024);
	realistic(4096, 2048);
	realistic(8192, 4096);
	realistic(32768, 16384);
	return done(3 + 2 + 2 + 8);
}
