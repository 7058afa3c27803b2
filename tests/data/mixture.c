/* SPDX-License-Identifier: MIT */
/*
 * Mixtures beside a slow model, which counts: ordinals are the counts, each
 * source's count stays within 2 of its share at every position, and weights may
 * change.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { SOURCES = 40 };

static uint64_t state = 1;

static uint64_t next(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 11;
}

static double uniform(void)
{
	return (double)next() / 9007199254740992.0;
}

static tarn_data_mixture *make(size_t n, const double *weights)
{
	const struct tarn_data_weights period = {.weights = weights};
	tarn_data_mixture *m;

	must(tarn_data_mixture_new(n, &period, 1, &m));
	return m;
}

/* The largest difference to a share at any position up to g; infinity: an
 * ordinal, or a count, is wrong. */
static double worst(const tarn_data_mixture *m, size_t n, const double *weights,
	uint64_t begin, uint64_t end, uint64_t *counts)
{
	uint64_t seen[SOURCES], was[SOURCES];
	double most = 0, sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += weights[i];
	memcpy(was, counts, sizeof(was));
	for (uint64_t g = begin; g < end; g++) {
		uint64_t ordinal;
		uint32_t source;

		tarn_data_mixture_at(m, g, &source, &ordinal);
		if (source >= n || ordinal != counts[source])
			return INFINITY;
		counts[source]++;
		for (size_t i = 0; i < n; i++) {
			double share =
				weights[i] / sum * (double)(g + 1 - begin);

			most = MAX(most,
				fabs((double)(counts[i] - was[i]) - share));
		}
		if (g % 64)
			continue;
		tarn_data_mixture_counts(m, g + 1, seen);
		if (memcmp(seen, counts, n * sizeof(*seen)) != 0)
			return INFINITY;
	}
	return most;
}

static double worst_of(size_t n, const double *weights, uint64_t end)
{
	tarn_data_mixture *m = make(n, weights);
	uint64_t counts[SOURCES] = {0};
	double most = worst(m, n, weights, 0, end, counts);

	tarn_data_mixture_free(m);
	return most;
}

/* ---- one period -------------------------------------------------------------- */

static void test_known(void)
{
	static const double equal[] = {1, 1, 1, 1, 1, 1, 1},
			    apart[] = {1, 1e3, 1e6}, zero[] = {0, 3, 0, 7, 0},
			    one[] = {5}, half[] = {0.5, 0.5},
			    tiny[] = {1e-300, 2e-300, 7e-300},
			    huge[] = {1e300, 5e299, 1};
	double powers[20], fibonacci[20] = {1, 1};

	for (int i = 0; i < 20; i++)
		powers[i] = ldexp(1, i);
	for (int i = 2; i < 20; i++)
		fibonacci[i] = fibonacci[i - 1] + fibonacci[i - 2];
#define JUDGE(weights)                                                         \
	ok(worst_of(ARRAY_SIZE(weights), weights, 100000) < 2,                 \
		"weights '" #weights "' are met within 2 at each of 100,000 "  \
		"positions")
	JUDGE(equal);
	JUDGE(apart);
	JUDGE(zero);
	JUDGE(one);
	JUDGE(half);
	JUDGE(tiny);
	JUDGE(huge);
	JUDGE(powers);
	JUDGE(fibonacci);
}

static void test_random(void)
{
	unsigned trials = test_cases(400);
	double most = 0;

	for (unsigned t = 0; t < trials; t++) {
		size_t n = 1 + next() % SOURCES;
		double weights[SOURCES];

		for (size_t i = 0; i < n; i++)
			weights[i] = t % 3 == 0   ? uniform()
				     : t % 3 == 1 ? exp(12 * uniform())
						  : (double)(1 + next() % 9);
		most = MAX(most, worst_of(n, weights, 4000));
	}
	ok(most < 2, "random weights are met within %.3f, less than 2", most);
}

/* Far positions: each goes to one source, whose count it is. */
static void test_far(void)
{
	double weights[SOURCES], sum = 0, most = 0;
	tarn_data_mixture *m;
	bool good = true;

	for (int i = 0; i < SOURCES; i++)
		sum += weights[i] = exp(8 * uniform());
	m = make(SOURCES, weights);
	for (int t = 0; t < 20000; t++) {
		uint64_t g = next() >> (t % 40), ordinal, total = 0;
		uint64_t a[SOURCES], b[SOURCES];
		uint32_t source;

		tarn_data_mixture_counts(m, g, a);
		tarn_data_mixture_counts(m, g + 1, b);
		tarn_data_mixture_at(m, g, &source, &ordinal);
		for (uint32_t i = 0; i < SOURCES; i++) {
			good = good && b[i] - a[i] == (i == source);
			total += a[i];
			if (g < 1u << 30)
				most = MAX(most,
					fabs((double)a[i] -
						weights[i] / sum * (double)g));
		}
		good = good && total == g && ordinal == a[source];
	}
	tarn_data_mixture_free(m);
	ok(good, "up to 2^53 each position is one more of one source");
	ok(most < 2, "up to 2^30 shares are met within %.3f, less than 2",
		most);
}

/* A job that was begun with an older library goes on with this one. */
static void test_kept(void)
{
	static const double weights[] = {0.5, 0.3, 0.2};
	tarn_data_mixture *m = make(3, weights);
	char text[21] = "";

	for (int g = 0; g < 20; g++) {
		uint64_t ordinal;
		uint32_t source;

		tarn_data_mixture_at(m, (uint64_t)g, &source, &ordinal);
		text[g] = (char)('a' + source);
	}
	tarn_data_mixture_free(m);
	is_str("abacabacababacabacab", text,
		"0.5, 0.3 and 0.2 are mixed as in the first version");
}

/* ---- periods ------------------------------------------------------------------- */

static void test_periods(void)
{
	static const double w[4][3] = {
		{1, 1, 1}, {0, 1, 5}, {10, 0, 0}, {0.1, 0.2, 0.7}};
	static const uint64_t from[] = {0, 1001, 1002, 5000, 20000};
	struct tarn_data_weights periods[4] = {0};
	uint64_t counts[SOURCES] = {0};
	tarn_data_mixture *m;

	for (int i = 0; i < 4; i++) {
		periods[i].from = from[i];
		periods[i].weights = w[i];
	}
	must(tarn_data_mixture_new(3, periods, 4, &m));
	for (int i = 0; i < 4; i++)
		ok(worst(m, 3, w[i], from[i], from[i + 1], counts) < 2,
			"weights of period %d are met within 2, and ordinals go "
			"on",
			i);
	tarn_data_mixture_free(m);
}

/* ---- what is refused ------------------------------------------------------------ */

static void refused(int wanted, const char *part, size_t n, double weight,
	uint64_t first, uint64_t second)
{
	const double good[] = {1, 1}, other[] = {0, weight};
	const struct tarn_data_weights periods[] = {
		{.from = first, .weights = good},
		{.from = second, .weights = other}};
	tarn_data_mixture *m = NULL;

	is_int(wanted, tarn_data_mixture_new(n, periods, 2, &m),
		"a mixture is refused: %s", part);
	has_str(part, tarn_error_message(), "the sentence has \"%s\"", part);
}

static void test_refused(void)
{
	refused(-EINVAL, "source 1 in period 1 is -1", 2, -1, 0, 5);
	refused(-EINVAL, "in period 1 is inf", 2, INFINITY, 0, 5);
	refused(-EINVAL, "in period 1 is nan", 2, fabs(NAN), 0, 5);
	refused(-EINVAL, "all weights in period 1 are 0", 2, 0, 0, 5);
	refused(-EINVAL, "period 0 of the weights begins at 3", 2, 1, 3, 5);
	refused(-EINVAL, "period 1 of the weights begins at 0", 2, 1, 0, 0);
	refused(-EINVAL, "1 to 4096 sources, not 0", 0, 1, 0, 5);
	refused(-E2BIG, "1 to 4096 sources, not 4097", 4097, 1, 0, 5);
}

int main(void)
{
	test_known();
	test_random();
	test_far();
	test_kept();
	test_periods();
	test_refused();
	return done(9 + 1 + 2 + 1 + 4 + 16);
}
