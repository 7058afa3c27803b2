/* SPDX-License-Identifier: MIT */
/*
 * Orders are beside true random permutations: which sample comes where, which
 * are neighbours, how many stay in their place, and in what cycles the others
 * move. Seeds are fixed, so a result is the same at each run; z says how many
 * standard deviations a statistic is from what it is for random permutations.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* Of some hundred statistics, one in a thousand runs would have one beyond it,
 * were the seeds not fixed. */
#define Z_MAX 4.5

static struct tarn_data_order make(uint64_t n, uint64_t seed, uint64_t epoch)
{
	struct tarn_data_order o;

	must(tarn_data_order_init(&o, TARN_SHUFFLE_ALL, n, 0, seed, epoch));
	return o;
}

/* A chi-square of that many degrees of freedom as a normal variable (Wilson and
 * Hilferty). */
static double chi_z(double chi, double df)
{
	double v = 2 / (9 * df);

	return (cbrt(chi / df) - (1 - v)) / sqrt(v);
}

static double chi_of(const double *counts, size_t n, double wanted)
{
	double chi = 0;

	for (size_t i = 0; i < n; i++)
		chi += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
	return chi;
}

static double *counters(size_t n)
{
	double *p = calloc(n, sizeof(*p));

	if (!p)
		bail("out of memory");
	return p;
}

static void judge(double z, const char *what, uint64_t n)
{
	ok(fabs(z) < Z_MAX, "%s of %llu samples: z = %.2f", what,
		(unsigned long long)n, z);
}

/* ---- few samples: each order comes as often as any other ------------------ */

/* The number of an order among all of n samples. */
static size_t number_of(const struct tarn_data_order *o)
{
	size_t number = 0;

	for (uint64_t g = 0; g < o->n; g++) {
		size_t smaller = 0;

		for (uint64_t h = g + 1; h < o->n; h++)
			smaller += tarn_data_order_at(o, h) <
				   tarn_data_order_at(o, g);
		number = number * (o->n - g) + smaller;
	}
	return number;
}

static void orders(uint64_t n, unsigned trials)
{
	size_t all = 1;
	double *counts;

	for (uint64_t i = 2; i <= n; i++)
		all *= i;
	counts = counters(all);
	for (unsigned seed = 0; seed < trials; seed++) {
		struct tarn_data_order o = make(n, seed, 5);

		counts[number_of(&o)]++;
	}
	judge(chi_z(chi_of(counts, all, (double)trials / (double)all),
		      (double)all - 1),
		"all orders", n);
	free(counts);
}

/* ---- which sample comes where --------------------------------------------- */

static void positions(uint64_t n, unsigned trials)
{
	double *counts = counters(n * n);

	/* One seed, and its epochs. */
	for (unsigned epoch = 0; epoch < trials; epoch++) {
		struct tarn_data_order o = make(n, 17, epoch);

		for (uint64_t g = 0; g < n; g++)
			counts[g * n + tarn_data_order_at(&o, g)]++;
	}
	/* Lines and columns have the sums that they have. */
	judge(chi_z(chi_of(counts, n * n, trials / (double)n) *
			      (double)(n - 1) / (double)n,
		      (double)((n - 1) * (n - 1))),
		"positions", n);
	free(counts);
}

/* ---- neighbours ------------------------------------------------------------ */

static void neighbours(uint64_t n, unsigned trials)
{
	double *counts = counters(n), ascents = 0;
	double pairs = (double)trials * (double)(n - 1);

	for (unsigned seed = 0; seed < trials; seed++) {
		struct tarn_data_order o = make(n, seed, 0);
		uint64_t before = tarn_data_order_at(&o, 0);

		for (uint64_t g = 1; g < n; g++) {
			uint64_t sample = tarn_data_order_at(&o, g);

			counts[(sample + n - before) % n]++;
			ascents += sample > before;
			before = sample;
		}
	}
	judge(chi_z(chi_of(counts + 1, n - 1, pairs / (double)(n - 1)),
		      (double)n - 2),
		"distances of neighbours", n);
	judge((ascents - pairs / 2) / sqrt(trials * (double)(n + 1) / 12),
		"ascents", n);
	free(counts);
}

/* ---- cycles ----------------------------------------------------------------- */

static uint64_t cycle_of(const struct tarn_data_order *o, uint64_t g)
{
	uint64_t length = 1;

	for (uint64_t i = tarn_data_order_at(o, g); i != g; length++)
		i = tarn_data_order_at(o, i);
	return length;
}

static unsigned cycles_in(const struct tarn_data_order *o)
{
	bool *seen = calloc(o->n, sizeof(*seen));
	unsigned n = 0;

	if (!seen)
		bail("out of memory");
	for (uint64_t g = 0; g < o->n; g++) {
		n += !seen[g];
		for (uint64_t i = g; !seen[i]; i = tarn_data_order_at(o, i))
			seen[i] = true;
	}
	free(seen);
	return n;
}

static void cycles(uint64_t n, unsigned trials)
{
	double *lengths = counters(n), sum = 0, mean = 0, var = 0, odd = 0;

	for (unsigned seed = 0; seed < trials; seed++) {
		struct tarn_data_order o = make(n, seed, 9);
		unsigned c = cycles_in(&o);

		lengths[cycle_of(&o, seed % n) - 1]++;
		sum += c;
		odd += (double)((n - c) % 2);
	}
	for (uint64_t i = 1; i <= n; i++) {
		mean += 1.0 / (double)i;
		var += 1.0 / (double)i - 1.0 / (double)(i * i);
	}
	judge(chi_z(chi_of(lengths, n, trials / (double)n), (double)n - 1),
		"lengths of cycles", n);
	judge((sum - mean * trials) / sqrt(var * trials), "numbers of cycles",
		n);
	judge((odd - trials / 2.0) / sqrt(trials / 4.0), "odd permutations", n);
	free(lengths);
}

/* How many of n stay: about a Poisson distribution of mean 1. */
static void fixed(uint64_t n, unsigned trials, bool epochs)
{
	enum { CLASSES = 6 };
	double counts[CLASSES] = {0}, wanted = trials / exp(1), chi = 0;
	double rest = trials;

	for (unsigned seed = 0; seed < trials; seed++) {
		struct tarn_data_order a = make(n, seed, 1),
				       b = make(n, seed, 2);
		unsigned same = 0;

		for (uint64_t g = 0; g < n; g++)
			same += tarn_data_order_at(&a, g) ==
				(epochs ? tarn_data_order_at(&b, g) : g);
		counts[MIN(same, CLASSES - 1)]++;
	}
	for (int i = 0; i < CLASSES; i++) {
		if (i == CLASSES - 1)
			wanted = rest;
		chi += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
		rest -= wanted;
		wanted /= i + 1;
	}
	judge(chi_z(chi, CLASSES - 1),
		epochs ? "samples that stay from epoch to epoch"
		       : "samples that stay",
		n);
}

/* ---- many samples ------------------------------------------------------------ */

/* Consecutive positions, and positions that are far apart in steps, fall into
 * CLASSES parts of all samples, as single ones and as pairs. */
static void parts(uint64_t n, uint64_t step)
{
	enum { CLASSES = 64, TRIALS = 200000 };
	struct tarn_data_order o = make(n, n ^ step, step);
	double *one = counters(CLASSES), *two = counters(CLASSES * CLASSES);
	size_t before = 0;

	for (uint64_t i = 0; i <= TRIALS; i++) {
		uint64_t sample = tarn_data_order_at(&o, i * step % n);
		size_t part = (size_t)((unsigned __int128)sample * CLASSES / n);

		if (i) {
			one[part]++;
			two[before * CLASSES + part]++;
		}
		before = part;
	}
	judge(chi_z(chi_of(one, CLASSES, (double)TRIALS / CLASSES),
		      CLASSES - 1),
		step > 1 ? "parts, in steps," : "parts", n);
	judge(chi_z(chi_of(two, CLASSES * CLASSES,
			    (double)TRIALS / CLASSES / CLASSES),
		      CLASSES * CLASSES - 1),
		step > 1 ? "pairs of parts, in steps," : "pairs of parts", n);
	free(one);
	free(two);
}

int main(void)
{
	static const uint64_t few[] = {7, 9, 16, 25, 50, 81, 97};
	static const uint64_t many[] = {100000007, 1u << 24, 1000000000000u,
		(1ull << 61) - 1, 1ull << 63};

	for (uint64_t n = 2; n <= 7; n++)
		orders(n, 40000);
	for (size_t i = 0; i < ARRAY_SIZE(few); i++) {
		positions(few[i], 10000);
		neighbours(few[i], 4000);
		cycles(few[i], 4000);
		fixed(few[i] < 16 ? 16 : few[i], 4000, false);
		fixed(few[i] < 16 ? 16 : few[i], 4000, true);
	}
	neighbours(1000, 300);
	cycles(1000, 300);
	neighbours(4999, 60);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		parts(many[i], 1);
		parts(many[i], many[i] / 1000 + 1);
	}
	return done(6 + 8 * 7 + 7 + 20);
}
