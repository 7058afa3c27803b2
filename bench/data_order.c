/* SPDX-License-Identifier: MIT */
/*
 * The cost of a position in a shuffled order:
 *
 *	bench/data_order
 *
 * Each position is known only when the sample before it is, so that calls do not
 * overlap. Beside it a list of all samples, as other loaders make at each start:
 * what it costs to make it, its memory, and to read it at random.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/data.h>

#include "bench/times.h"

enum { ROUNDS = 11, CALLS = 100000 };

#define LISTED ((uint64_t)1 << 24)

static uint64_t sum; /* so that nothing is optimised away */

/* Of this process: a machine that others share would be measured else. */
static double cpu_ns(void)
{
	return 1e9 * seconds(CLOCK_PROCESS_CPUTIME_ID);
}

static double one_round(const struct tarn_data_order *order)
{
	double start = cpu_ns();

	for (int i = 0; i < CALLS; i++)
		sum += tarn_data_order_at(
			order, (sum + (uint64_t)i) % order->n);
	return (cpu_ns() - start) / CALLS;
}

static void measure(uint64_t n, enum tarn_data_shuffle shuffle)
{
	struct tarn_data_order order;
	double ns[ROUNDS];

	if (tarn_data_order_init(&order, shuffle, n, 4096, 42, 1) < 0) {
		fprintf(stderr, "%s\n", tarn_error_message());
		exit(1);
	}
	for (int i = 0; i < ROUNDS; i++)
		ns[i] = one_round(&order);
	printf("%20llu samples%s: %6.1f ns a call, %zu bytes%s\n",
		(unsigned long long)n,
		shuffle == TARN_SHUFFLE_BLOCKS ? " in blocks" : "",
		median(ns, ROUNDS), sizeof(order),
		shuffle == TARN_SHUFFLE_ALL ? " (at most 150 ns)" : "");
}

/* Fisher and Yates. */
static void listed(void)
{
	uint64_t *list = malloc(LISTED * sizeof(*list)), state = 1;
	double start = cpu_ns(), made;

	if (!list)
		exit(1);
	for (uint64_t i = 0; i < LISTED; i++) {
		uint64_t k;

		state = state * 6364136223846793005u + 1442695040888963407u;
		k = (uint64_t)((unsigned __int128)state * (i + 1) >> 64);
		list[i] = list[k];
		list[k] = i;
	}
	made = cpu_ns();
	for (int i = 0; i < 10 * CALLS; i++)
		sum += list[(sum + (uint64_t)i) % LISTED];
	printf("%20llu samples in a list: %6.1f ns a read, %llu MB, made in "
	       "%.1f s\n",
		(unsigned long long)LISTED, (cpu_ns() - made) / (10 * CALLS),
		(unsigned long long)(LISTED * sizeof(*list) / 1000000),
		(made - start) / 1e9);
	free(list);
}

int main(void)
{
	static const uint64_t n[] = {
		1000, 1000000, 1000000000, 1000000000000, (uint64_t)1 << 63};

	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++)
		measure(n[i], TARN_SHUFFLE_ALL);
	measure(1000000000000, TARN_SHUFFLE_BLOCKS);
	listed();
	return sum == 42;
}
