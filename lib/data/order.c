// SPDX-License-Identifier: MIT
/*
 * The order of an epoch: a Feistel network over a rectangle of rows * columns
 * numbers, rows an even number near the square root of n. A number is a pair
 * (row, column); each round adds to one of the two what a keyed function makes of
 * the other, which can be undone whatever that function is.
 *
 * The rectangle has fewer than n + rows numbers. One that is not below n is sent
 * through again (cycle walking) until it is: since that follows a cycle of the
 * permutation of the rectangle, which it entered below n, it ends there, and no
 * two numbers meet. One number in sqrt(n) needs a second turn, so it is the
 * rectangle, and not a power of two, that makes the time what it is.
 *
 * rows is even since a round whose modulus is odd moves numbers in cycles of odd
 * length only, and without odd permutations half of all orders of a few samples
 * would never occur. Additions of a keyed number before and after make each
 * sample exactly as likely as the others at each position.
 */
#include <math.h>

#include <tarn/data.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/key.h"

#define N_MAX ((uint64_t)1 << 63)

/* Where few numbers are to be mixed, each round can do little. Picked: with 12, 6
 * and 4 rounds the statistics of tests/data/order_quality are those of random
 * permutations already; with 8 those of seven samples are not. */
static uint32_t rounds_for(uint64_t n)
{
	return n < 1024 ? 14 : n < 65536 ? 10 : 8;
}

/* The smallest even number whose square is at least n; at least 2. */
static uint64_t even_root(uint64_t n)
{
	uint64_t root = (uint64_t)sqrt((double)n);

	while (root * root < n)
		root++;
	while (root > 1 && (root - 1) * (root - 1) >= n)
		root--;
	return MAX(2u, root + root % 2);
}

static void permutation_size(struct tarn_data_permutation *p, uint64_t n)
{
	*p = (struct tarn_data_permutation) {.n = n, .rounds = rounds_for(n)};
	if (n) {
		p->rows = even_root(n);
		p->columns = (n - 1) / p->rows + 1;
	}
}

static void permutation_key(struct tarn_data_permutation *p, uint64_t key)
{
	p->key = data_mix(key);
	p->turn_in = data_scale(data_key(key, 1), p->n);
	p->turn_out = data_scale(data_key(key, 2), p->n);
}

/* ---- rounds -------------------------------------------------------------- */

static inline uint64_t add(uint64_t a, uint64_t b, uint64_t n)
{
	a += b;
	return a >= n ? a - n : a;
}

static inline uint64_t sub(uint64_t a, uint64_t b, uint64_t n)
{
	return a >= b ? a - b : a + n - b;
}

/* A fraction of 2^64, of which the high bits count: so data_mix without its first
 * and last step, which mix low ones. Rounds differ by steps of the key that are
 * much larger than a row. */
static inline uint64_t draw(
	const struct tarn_data_permutation *p, uint32_t round, uint64_t x)
{
	x = (x + p->key + round * DATA_STEP) * 0xbf58476d1ce4e5b9u;
	return (x ^ x >> 32) * 0x94d049bb133111ebu;
}

static uint64_t encrypt(const struct tarn_data_permutation *p, uint64_t x)
{
	uint64_t row = x / p->columns, column = x % p->columns;

	for (uint32_t i = 0; i < p->rounds; i += 2) {
		row = add(
			row, data_scale(draw(p, i, column), p->rows), p->rows);
		column =
			add(column, data_scale(draw(p, i + 1, row), p->columns),
				p->columns);
	}
	return row * p->columns + column;
}

static uint64_t decrypt(const struct tarn_data_permutation *p, uint64_t x)
{
	uint64_t row = x / p->columns, column = x % p->columns;

	for (uint32_t i = p->rounds; i; i -= 2) {
		column =
			sub(column, data_scale(draw(p, i - 1, row), p->columns),
				p->columns);
		row = sub(row, data_scale(draw(p, i - 2, column), p->rows),
			p->rows);
	}
	return row * p->columns + column;
}

static uint64_t permute(const struct tarn_data_permutation *p, uint64_t x)
{
	x = add(x, p->turn_in, p->n);
	do
		x = encrypt(p, x);
	while (x >= p->n);
	return add(x, p->turn_out, p->n);
}

static uint64_t unpermute(const struct tarn_data_permutation *p, uint64_t x)
{
	x = sub(x, p->turn_out, p->n);
	do
		x = decrypt(p, x);
	while (x >= p->n);
	return sub(x, p->turn_in, p->n);
}

/* ---- orders -------------------------------------------------------------- */

int tarn_data_order_init(struct tarn_data_order *order,
	enum tarn_data_shuffle shuffle, uint64_t n, uint64_t block,
	uint64_t seed, uint64_t epoch)
{
	const bool blocks = shuffle == TARN_SHUFFLE_BLOCKS;
	struct tarn_data_order o = {.n = n, .shuffle = shuffle};
	uint64_t n_blocks = 0;

	if (n > N_MAX)
		return tarn_fail(EOVERFLOW,
			"data: an order has 2^63 samples at most, not %llu",
			(unsigned long long)n);
	if (!blocks && shuffle != TARN_SHUFFLE_ALL &&
		shuffle != TARN_SHUFFLE_NONE)
		return tarn_fail(EINVAL,
			"data: there is no shuffle %d: 0 shuffles all samples, "
			"1 within blocks, 2 none",
			(int)shuffle);
	if (blocks && !block)
		return tarn_fail_constant(EINVAL,
			"data: samples are shuffled within blocks of 1 at "
			"least, not 0");
	if (blocks && n) {
		o.block = MIN(block, n);
		n_blocks = (n - 1) / o.block + 1;
	}
	permutation_size(&o.all, blocks ? n_blocks : n);
	permutation_key(&o.all, data_key(seed, epoch));
	if (n_blocks) {
		permutation_size(&o.inner, o.block);
		permutation_size(&o.last, n - (n_blocks - 1) * o.block);
		o.last_at = unpermute(&o.all, n_blocks - 1);
	}
	*order = o;
	return 0;
}

/* The permutation of the samples of a block. */
static struct tarn_data_permutation within(
	const struct tarn_data_order *o, uint64_t block)
{
	struct tarn_data_permutation p =
		block == o->all.n - 1 ? o->last : o->inner;

	permutation_key(&p, data_key(o->all.key, block));
	return p;
}

/* Where the last block, which is shorter, begins. */
static uint64_t last_begins(const struct tarn_data_order *o)
{
	return o->last_at * o->block;
}

static uint64_t blocks_at(const struct tarn_data_order *o, uint64_t position)
{
	uint64_t at = position / o->block, in = position % o->block, block;
	struct tarn_data_permutation p;

	if (position >= last_begins(o) + o->last.n) {
		position -= o->last.n;
		at = position / o->block + 1;
		in = position % o->block;
	} else if (position >= last_begins(o)) {
		at = o->last_at;
		in = position - last_begins(o);
	}
	block = permute(&o->all, at);
	p = within(o, block);
	return block * o->block + permute(&p, in);
}

static uint64_t blocks_find(const struct tarn_data_order *o, uint64_t sample)
{
	uint64_t block = sample / o->block, at = unpermute(&o->all, block);
	struct tarn_data_permutation p = within(o, block);
	uint64_t begins = at <= o->last_at ? at * o->block
					   : (at - 1) * o->block + o->last.n;

	return begins + unpermute(&p, sample % o->block);
}

uint64_t tarn_data_order_at(
	const struct tarn_data_order *order, uint64_t position)
{
	if (position >= order->n)
		return TARN_DATA_NONE;
	switch (order->shuffle) {
	case TARN_SHUFFLE_BLOCKS:
		return blocks_at(order, position);
	case TARN_SHUFFLE_NONE:
		return position;
	default:
		return permute(&order->all, position);
	}
}

uint64_t tarn_data_order_find(
	const struct tarn_data_order *order, uint64_t sample)
{
	if (sample >= order->n)
		return TARN_DATA_NONE;
	switch (order->shuffle) {
	case TARN_SHUFFLE_BLOCKS:
		return blocks_find(order, sample);
	case TARN_SHUFFLE_NONE:
		return sample;
	default:
		return unpermute(&order->all, sample);
	}
}

uint64_t tarn_data_order(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t g)
{
	struct tarn_data_permutation p;

	if (g >= n || n > N_MAX)
		return TARN_DATA_NONE;
	permutation_size(&p, n);
	permutation_key(&p, data_key(seed, epoch));
	return permute(&p, g);
}
