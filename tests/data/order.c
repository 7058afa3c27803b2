/* SPDX-License-Identifier: MIT */
/*
 * The order of an epoch is a permutation, whose inverse is found as well, for
 * every size; blocks stay together; what it was in the first version it is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define TRILLION 1000000000000u

static struct tarn_data_order make(enum tarn_data_shuffle shuffle, uint64_t n,
	uint64_t block, uint64_t seed, uint64_t epoch)
{
	struct tarn_data_order o;

	must(tarn_data_order_init(&o, shuffle, n, block, seed, epoch));
	return o;
}

/* Each sample comes once, and is found where it came. */
static bool is_permutation(const struct tarn_data_order *o)
{
	bool *seen = calloc(o->n + 1, sizeof(*seen));
	bool good = seen != NULL;

	for (uint64_t g = 0; good && g < o->n; g++) {
		uint64_t sample = tarn_data_order_at(o, g);

		good = sample < o->n && !seen[sample] &&
		       tarn_data_order_find(o, sample) == g;
		if (good)
			seen[sample] = true;
		else
			diag("sample %llu at %llu of %llu",
				(unsigned long long)sample,
				(unsigned long long)g,
				(unsigned long long)o->n);
	}
	free(seen);
	return good;
}

static const uint64_t sizes[] = {101, 127, 128, 129, 251, 255, 256, 257, 509,
	511, 512, 513, 997, 1021, 1023, 1024, 1025, 2047, 2048, 2049, 4093,
	4095, 4096, 4097, 16383, 16384, 16385, 65521, 65535, 65536, 65537,
	104729};

static bool all_sizes(enum tarn_data_shuffle shuffle, uint64_t block)
{
	for (uint64_t n = 0; n <= 100; n++)
		for (uint64_t seed = 0; seed < 20; seed++) {
			struct tarn_data_order o =
				make(shuffle, n, block, seed, seed / 3);

			if (!is_permutation(&o))
				return false;
		}
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct tarn_data_order o = make(shuffle, sizes[i], block, i, 1);

		if (!is_permutation(&o))
			return false;
	}
	return true;
}

static void test_sizes(void)
{
	ok(all_sizes(TARN_SHUFFLE_ALL, 0),
		"0 to 100 samples, primes, and powers of two with their "
		"neighbours are permuted");
	ok(all_sizes(TARN_SHUFFLE_BLOCKS, 7),
		"orders in blocks of 7 are permutations of any number");
	ok(all_sizes(TARN_SHUFFLE_BLOCKS, 64),
		"orders in blocks of 64 are permutations of any number");
	ok(all_sizes(TARN_SHUFFLE_BLOCKS, 1),
		"orders in blocks of 1 are permutations of any number");
	ok(all_sizes(TARN_SHUFFLE_BLOCKS, UINT64_MAX),
		"orders in blocks of 2^64 - 1 are permutations of any number");
	ok(all_sizes(TARN_SHUFFLE_NONE, 0),
		"orders that are not shuffled are permutations of any number");
}

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint64_t)((unsigned __int128)state * n >> 64);
}

static bool spots(enum tarn_data_shuffle shuffle, uint64_t n, uint64_t block)
{
	struct tarn_data_order o = make(shuffle, n, block, below(n), below(n));

	for (unsigned i = 0; i < test_cases(20000); i++) {
		/* The ends are where sums may overflow. */
		uint64_t g = i < 100   ? i
			     : i < 200 ? n - 1 - (i - 100)
				       : below(n);
		uint64_t sample = tarn_data_order_at(&o, g);

		if (sample >= n || tarn_data_order_find(&o, sample) != g) {
			diag("sample %llu at %llu of %llu",
				(unsigned long long)sample,
				(unsigned long long)g, (unsigned long long)n);
			return false;
		}
	}
	return true;
}

static void test_large(void)
{
	static const uint64_t n[] = {1u << 31, (1ull << 32) - 1, 1ull << 32,
		TRILLION, TRILLION + 39, (1ull << 62) + 1, (1ull << 63) - 1,
		1ull << 63};
	bool all = true, blocks = true;

	for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
		all = all && spots(TARN_SHUFFLE_ALL, n[i], 0);
		blocks = blocks && spots(TARN_SHUFFLE_BLOCKS, n[i], 4096) &&
			 spots(TARN_SHUFFLE_BLOCKS, n[i], n[i] / 3) &&
			 spots(TARN_SHUFFLE_BLOCKS, n[i], n[i]) &&
			 spots(TARN_SHUFFLE_BLOCKS, n[i], 1);
	}
	ok(all, "2^31 to 2^63 samples: each is found at the position where it "
		"comes");
	ok(blocks, "2^31 to 2^63 samples in blocks: each is found at the "
		   "position where it comes");
}

/* Positions of one block follow each other. */
static void test_blocks(void)
{
	struct tarn_data_order o =
		make(TARN_SHUFFLE_BLOCKS, 1000003, 1000, 3, 4);
	uint64_t changes = 0, ascents = 0, before = TARN_DATA_NONE, first = 0;

	for (uint64_t g = 0; g < o.n; g++) {
		uint64_t sample = tarn_data_order_at(&o, g);

		changes += sample / 1000 != before / 1000;
		ascents += sample > before;
		first += sample % 1000 == 0 && sample / 1000 != before / 1000;
		before = sample;
	}
	is_int(1001, (int64_t)changes, "1,001 blocks come one after another");
	ok(first < 10, "%llu of them begin with their first sample",
		(unsigned long long)first);
	ok(ascents > 490000 && ascents < 510000,
		"%llu of 1,000,003 samples come after a smaller one",
		(unsigned long long)ascents);
}

static void test_limits(void)
{
	struct tarn_data_order o = make(TARN_SHUFFLE_ALL, 10, 0, 0, 0);
	bool same = true;

	ok(tarn_data_order_at(&o, 10) == TARN_DATA_NONE &&
			tarn_data_order_find(&o, 10) == TARN_DATA_NONE &&
			tarn_data_order(0, 0, 10, 10) == TARN_DATA_NONE,
		"there is no eleventh of ten samples");
	is_int(-EINVAL,
		tarn_data_order_init(&o, TARN_SHUFFLE_BLOCKS, 10, 0, 0, 0),
		"blocks of 0 samples are refused");
	has_str("blocks of 1 at least, not 0", tarn_error_message(),
		"the sentence names the size of a block");
	is_int(-EINVAL,
		tarn_data_order_init(
			&o, (enum tarn_data_shuffle)3, 10, 1, 0, 0),
		"a shuffle that does not exist is refused");
	is_int(-EOVERFLOW,
		tarn_data_order_init(
			&o, TARN_SHUFFLE_ALL, (1ull << 63) + 1, 1, 0, 0),
		"more than 2^63 samples are refused");
	for (uint64_t g = 0; g < 1000; g++) {
		o = make(TARN_SHUFFLE_ALL, TRILLION, 0, g, g / 7);
		same = same && tarn_data_order(g, g / 7, TRILLION, g) ==
				       tarn_data_order_at(&o, g);
	}
	ok(same, "tarn_data_order is tarn_data_order_at of an order that was "
		 "made");
}

/* A job that was begun with an older library goes on with this one. */
static void test_kept(void)
{
	char text[256];
	int used = 0;

	for (uint64_t g = 0; g < 10; g++)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
			"%llu ",
			(unsigned long long)tarn_data_order(42, 1, 10, g));
	is_str("1 3 9 5 4 7 8 6 0 2 ", text,
		"ten samples have the order that they had in the first "
		"version");
	used = 0;
	for (uint64_t g = 0; g < 4; g++)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
			"%llu ",
			(unsigned long long)tarn_data_order(
				42, 1, TRILLION, g));
	is_str("916005791061 490597594799 319809045645 182628350779 ", text,
		"10^12 samples have the order that they had in the first "
		"version");
}

int main(void)
{
	test_sizes();
	test_large();
	test_blocks();
	test_limits();
	test_kept();
	return done(19);
}
