// SPDX-License-Identifier: MIT
/*
 * Which source comes at a position: a walk down a tree whose leaves are the
 * sources. A node divides its positions, which it numbers from 0, between two
 * children: of its first m the left one has m * share, rounded to the nearest.
 * That grows by 0 or 1 with m, so whether position m is the left one's, and which
 * of the left one's it is, is known from m alone.
 *
 * Rounding errors do not add up if the tree is Huffman's, which joins the two
 * lightest nodes again and again. Let E be the largest difference between the
 * positions that a node has among the first g of all and its share of g: the
 * node's share of its parent is s, so
 *
 *	E <= s * E(parent) + 1/2,	E(root) = 0.
 *
 * For an inner node s <= 2/3: when its children were joined, its sibling, or what
 * the sibling was made of, was there and not lighter than the heavier of them
 * (they were the lightest two, and joined nodes are never lighter than earlier
 * ones), hence not lighter than half of the node. So E < 3/2 for inner nodes (the
 * fixed point of 2/3 * E + 1/2), and E < 3/2 + 1/2 = 2 for leaves. The expected
 * length of a walk is less than the entropy of the weights plus one.
 *
 * Shares are fractions of 2^64, whose rounding matters to nobody before position
 * 2^56.
 */
#include <math.h>
#include <stdlib.h>

#include <tarn/data.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fail.h"
#include "lib/reserved.h"

/* Bits of the heaviest weight; the sum of all fits into 63 bits. */
#define WEIGHT_BITS 50

/* A child is a node, or with this bit the number of a source. */
#define LEAF ((uint32_t)1 << 31)

struct node {
	uint64_t share; /* of the left one, in 2^-64; at most a half */
	uint32_t left, right;
};

struct period {
	uint64_t from;
	uint32_t root;
	const struct node *nodes;
	const uint64_t
		*before; /* positions of each source in earlier periods */
};

struct tarn_data_mixture {
	size_t n, n_periods;
	struct period *periods;
	struct node *nodes; /* n - 1 for each period */
	uint64_t *before;   /* n for each period */
};

/* ---- walking --------------------------------------------------------------- */

/* How many of the first m positions are the left child's. */
static inline uint64_t left_of(const struct node *node, uint64_t m)
{
	return (uint64_t)(((unsigned __int128)m * node->share +
				  ((uint64_t)1 << 63)) >>
			  64);
}

static const struct period *period_at(const tarn_data_mixture *m, uint64_t g)
{
	size_t low = 0, high = m->n_periods;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (m->periods[middle].from <= g)
			low = middle;
		else
			high = middle;
	}
	return &m->periods[low];
}

void tarn_data_mixture_at(const tarn_data_mixture *mixture, uint64_t g,
	uint32_t *ret_source, uint64_t *ret_ordinal)
{
	const struct period *p = period_at(mixture, g);
	uint64_t m = g - p->from;
	uint32_t at = p->root;

	while (!(at & LEAF)) {
		const struct node *node = &p->nodes[at];
		uint64_t left = left_of(node, m);

		if (left_of(node, m + 1) > left) {
			m = left;
			at = node->left;
		} else {
			m -= left;
			at = node->right;
		}
	}
	*ret_source = at & ~LEAF;
	*ret_ordinal = p->before[at & ~LEAF] + m;
}

/* Adds the first m positions of a node to its sources. A tree of weights of 50
 * bits has less than a hundred levels. */
static void spread(
	const struct period *p, uint32_t at, uint64_t m, uint64_t *counts)
{
	while (!(at & LEAF)) {
		const struct node *node = &p->nodes[at];
		uint64_t left = left_of(node, m);

		spread(p, node->left, left, counts);
		m -= left;
		at = node->right;
	}
	counts[at & ~LEAF] += m;
}

void tarn_data_mixture_counts(
	const tarn_data_mixture *mixture, uint64_t g, uint64_t *ret_counts)
{
	/* The last position before g decides: at the begin of a period that is
	 * one of the period before. */
	const struct period *p = period_at(mixture, g ? g - 1 : 0);

	for (size_t i = 0; i < mixture->n; i++)
		ret_counts[i] = p->before[i];
	spread(p, p->root, g - p->from, ret_counts);
}

/* ---- making a tree ---------------------------------------------------------- */

struct weight {
	uint64_t weight;
	uint32_t at; /* as a child */
};

static int by_weight(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static struct node join(const struct weight *light, const struct weight *heavy)
{
	unsigned __int128 one = (unsigned __int128)1 << 64;
	uint64_t sum = light->weight + heavy->weight;
	uint64_t share = (uint64_t)((light->weight * one + sum / 2) / sum);

	return (struct node) {
		.share = MAX(share, 1u), .left = light->at, .right = heavy->at};
}

/* Two queues, each in order of weight: the sources, and the nodes. Where weights
 * are equal a source goes first. */
static uint32_t join_all(struct weight *leaves, size_t n, struct weight *inner,
	struct node *nodes)
{
	size_t next = 0, first = 0;

	qsort(leaves, n, sizeof(*leaves), by_weight);
	for (size_t made = 0; made + 1 < n; made++) {
		struct weight pair[2];

		for (int k = 0; k < 2; k++)
			pair[k] =
				next < n && (first == made ||
						    leaves[next].weight <=
							    inner[first].weight)
					? leaves[next++]
					: inner[first++];
		nodes[made] = join(&pair[0], &pair[1]);
		inner[made] = (struct weight) {
			.weight = pair[0].weight + pair[1].weight,
			.at = (uint32_t)made};
	}
	return n > 1 ? (uint32_t)(n - 2) : leaves[0].at;
}

/* ---- checking ---------------------------------------------------------------- */

/* The weights as whole numbers; *ret_n: how many are not 0. */
static int weigh(const struct tarn_data_weights *w, size_t n, size_t period,
	struct weight *ret, size_t *ret_n)
{
	double most = 0;
	int exponent;

	for (size_t i = 0; i < n; i++) {
		if (!(w->weights[i] >= 0) || isinf(w->weights[i]))
			return tarn_fail(EINVAL,
				"data: the weight of source %zu in period %zu "
				"is %g, and should be a finite number from 0 up",
				i, period, w->weights[i]);
		most = MAX(most, w->weights[i]);
	}
	if (most <= 0)
		return tarn_fail(EINVAL,
			"data: all weights in period %zu are 0", period);
	frexp(most, &exponent);
	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		double scaled =
			ldexp(w->weights[i], WEIGHT_BITS - exponent) + 0.5;

		if (w->weights[i] > 0)
			ret[(*ret_n)++] = (struct weight) {
				.weight = MAX((uint64_t)scaled, 1u),
				.at = LEAF | (uint32_t)i};
	}
	return 0;
}

static int check(
	size_t n, const struct tarn_data_weights *periods, size_t n_periods)
{
	int r = 0;

	if (!n || n > TARN_DATA_SOURCES_MAX)
		return tarn_fail(n ? E2BIG : EINVAL,
			"data: a mixture has 1 to %d sources, not %zu",
			TARN_DATA_SOURCES_MAX, n);
	if (!n_periods || n_periods > TARN_DATA_PERIODS_MAX)
		return tarn_fail(n_periods ? E2BIG : EINVAL,
			"data: a mixture has weights of 1 to %d periods, not "
			"%zu",
			TARN_DATA_PERIODS_MAX, n_periods);
	for (size_t i = 0; r >= 0 && i < n_periods; i++) {
		r = RESERVED_CHECK("tarn_data_weights", &periods[i]);
		if (r >= 0 && !periods[i].weights)
			r = tarn_fail(
				EINVAL, "data: period %zu has no weights", i);
		if (r >= 0 && (i ? periods[i].from <= periods[i - 1].from
				 : periods[i].from != 0))
			r = tarn_fail(EINVAL,
				"data: period %zu of the weights begins at %llu;"
				" the first begins at 0, and each later one "
				"behind the one before it",
				i, (unsigned long long)periods[i].from);
	}
	return r;
}

/* ---- making a mixture --------------------------------------------------------- */

static int make_period(tarn_data_mixture *m, size_t i,
	const struct tarn_data_weights *w, struct weight *leaves,
	struct weight *inner)
{
	struct node *nodes = m->nodes + i * (m->n - 1);
	uint64_t *before = m->before + i * m->n;
	struct period *p = &m->periods[i];
	size_t n = 0;
	int r = weigh(w, m->n, i, leaves, &n);

	if (r < 0)
		return r;
	/* With the periods before it, which alone are there yet. */
	m->n_periods = i;
	if (i)
		tarn_data_mixture_counts(m, w->from, before);
	*p = (struct period) {.from = w->from,
		.root = join_all(leaves, n, inner, nodes),
		.nodes = nodes,
		.before = before};
	m->n_periods = i + 1;
	return 0;
}

tarn_data_mixture *tarn_data_mixture_free(tarn_data_mixture *mixture)
{
	if (!mixture)
		return NULL;
	free(mixture->periods);
	free(mixture->nodes);
	free(mixture->before);
	free(mixture);
	return NULL;
}

/* Sizes cannot overflow: both limits were checked. */
static tarn_data_mixture *allocate(size_t n, size_t n_periods)
{
	tarn_data_mixture *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->n = n;
	m->periods = calloc(n_periods, sizeof(*m->periods));
	m->nodes = calloc(n_periods * n, sizeof(*m->nodes));
	m->before = calloc(n_periods * n, sizeof(*m->before));
	return m->periods && m->nodes && m->before ? m
						   : tarn_data_mixture_free(m);
}

int tarn_data_mixture_new(size_t n, const struct tarn_data_weights *periods,
	size_t n_periods, tarn_data_mixture **ret)
{
	_cleanup_free_ struct weight *leaves = NULL, *inner = NULL;
	tarn_data_mixture *m;
	int r = check(n, periods, n_periods);

	if (r < 0)
		return r;
	leaves = calloc(n, sizeof(*leaves));
	inner = calloc(n, sizeof(*inner));
	m = allocate(n, n_periods);
	if (!leaves || !inner || !m)
		r = tarn_fail(ENOMEM,
			"data: no memory for a mixture of %zu sources", n);
	for (size_t i = 0; r >= 0 && i < n_periods; i++)
		r = make_period(m, i, &periods[i], leaves, inner);
	if (r < 0)
		tarn_data_mixture_free(m);
	else
		*ret = m;
	return r;
}
