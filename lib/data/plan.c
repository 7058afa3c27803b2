// SPDX-License-Identifier: MIT
/*
 * Documents are cut into windows of seq_len + 1 tokens that share one token with
 * the next, so that each token but the first of a document is predicted once. The
 * windows that a document fills are samples of their own. What is left of it is
 * padded, dropped, or packed.
 *
 * Packing is best fit: the longest first, each goes to the sequence that has
 * least room left of those with enough. How many sequences that makes depends on
 * the lengths alone, so an epoch has the same number of samples whatever its
 * order. Rooms are a set of small numbers, kept as bits in levels of 64, and each
 * has a list of its sequences: a document costs a few steps whatever there is.
 */
#include "lib/data/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/key.h"

#define NONE UINT32_MAX
#define RADIX_BITS 11
#define RADIX (1u << RADIX_BITS)

/* ---- memory ---------------------------------------------------------------- */

static size_t level_words(uint32_t seq_len, int level)
{
	return (((size_t)seq_len + 1) >> (6 * (level + 1))) + 1;
}

static void end_rooms(struct data_plan *p)
{
	free(p->heads);
	p->heads = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(p->bits); i++) {
		free(p->bits[i]);
		p->bits[i] = NULL;
	}
	p->seq_len = 0;
}

static void end_documents(struct data_plan *p)
{
	free(p->lengths);
	free(p->rests);
	free(p->whole_before);
	free(p->first);
	free(p->members);
	free(p->order);
	free(p->other);
	free(p->place);
	free(p->next);
	p->lengths = p->whole_before = NULL;
	p->rests = p->first = p->members = p->order = p->other = p->place =
		p->next = NULL;
	p->room = 0;
}

void data_plan_end(struct data_plan *plan)
{
	end_rooms(plan);
	end_documents(plan);
}

static int room_for_documents(struct data_plan *p, size_t n)
{
	if (n <= p->room)
		return 0;
	end_documents(p);
	p->lengths = calloc(n, sizeof(*p->lengths));
	p->whole_before = calloc(n + 1, sizeof(*p->whole_before));
	p->rests = calloc(n, sizeof(*p->rests));
	p->first = calloc(n + 1, sizeof(*p->first));
	p->members = calloc(n, sizeof(*p->members));
	p->order = calloc(n, sizeof(*p->order));
	p->other = calloc(n, sizeof(*p->other));
	p->place = calloc(n, sizeof(*p->place));
	p->next = calloc(n, sizeof(*p->next));
	if (!p->lengths || !p->whole_before || !p->rests || !p->first ||
		!p->members || !p->order || !p->other || !p->place ||
		!p->next) {
		end_documents(p);
		return tarn_fail(ENOMEM,
			"data: no memory for the plan of %zu documents", n);
	}
	p->room = n;
	return 0;
}

static int room_for_rooms(struct data_plan *p, uint32_t seq_len)
{
	bool good;

	if (seq_len == p->seq_len)
		return 0;
	end_rooms(p);
	p->heads = malloc(((size_t)seq_len + 2) * sizeof(*p->heads));
	good = p->heads != NULL;
	for (int i = 0; i < (int)ARRAY_SIZE(p->bits); i++) {
		p->bits[i] =
			calloc(level_words(seq_len, i), sizeof(*p->bits[i]));
		good = good && p->bits[i];
	}
	if (!good) {
		end_rooms(p);
		return tarn_fail(ENOMEM,
			"data: no memory to pack sequences of %u tokens",
			seq_len);
	}
	p->seq_len = seq_len;
	return 0;
}

int data_plan_room(
	struct data_plan *plan, const struct data_shape *shape, size_t n)
{
	int r = room_for_documents(plan, MAX(n, 1u));

	return r >= 0 && shape->windows == TARN_WINDOWS_PACKED
		       ? room_for_rooms(plan, shape->seq_len)
		       : r;
}

/* ---- which rooms there are --------------------------------------------------- */

static void add_room(struct data_plan *p, uint32_t room, uint32_t sequence)
{
	bool is_new = true;

	for (int i = 0; is_new && i < (int)ARRAY_SIZE(p->bits); i++) {
		uint64_t *word = &p->bits[i][room >> (6 * (i + 1))];
		uint64_t bit = (uint64_t)1 << (room >> (6 * i) & 63);

		if (i == 0 && !(*word & bit))
			p->heads[room] = NONE;
		is_new = !*word;
		*word |= bit;
	}
	p->next[sequence] = p->heads[room];
	p->heads[room] = sequence;
}

/* Takes a sequence of that room, which there is. */
static uint32_t take_room(struct data_plan *p, uint32_t room)
{
	uint32_t sequence = p->heads[room];
	bool is_last = p->next[sequence] == NONE;

	p->heads[room] = p->next[sequence];
	for (int i = 0; is_last && i < (int)ARRAY_SIZE(p->bits); i++) {
		uint64_t *word = &p->bits[i][room >> (6 * (i + 1))];

		*word &= ~((uint64_t)1 << (room >> (6 * i) & 63));
		is_last = !*word;
	}
	return sequence;
}

/* The smallest room that is at least so large; NONE: there is none. */
static uint32_t find_room(const struct data_plan *p, uint32_t least)
{
	uint64_t at = least;

	for (int i = 0; i < (int)ARRAY_SIZE(p->bits); i++) {
		uint64_t word;

		if (at >> 6 >= level_words(p->seq_len, i))
			return NONE;
		word = p->bits[i][at >> 6] & UINT64_MAX << (at & 63);
		if (!word) {
			at = (at >> 6) + 1;
			continue;
		}
		at = (at & ~(uint64_t)63) | (uint64_t)__builtin_ctzll(word);
		while (i--)
			at = at << 6 |
			     (uint64_t)__builtin_ctzll(p->bits[i][at]);
		return (uint32_t)at;
	}
	return NONE;
}

/* ---- packing -------------------------------------------------------------------- */

/* Sets what is left of each document behind its whole windows: the tokens of its
 * last window, which begins with the last token of the one before it. */
static void set_rests(struct data_plan *p, uint32_t seq_len)
{
	for (size_t i = 0; i < p->n; i++) {
		uint64_t whole = p->whole_before[i + 1] - p->whole_before[i];
		uint64_t rest = p->lengths[i] - whole * seq_len;

		p->rests[i] = whole && rest == 1 ? 0 : (uint32_t)rest;
	}
}

/* Documents with a rest, in an order that the key decides (Fisher and Yates). */
static size_t shuffle(struct data_plan *p, uint64_t key)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->rests[i])
			p->order[n++] = (uint32_t)i;
	for (size_t i = n; i > 1; i--) {
		size_t k = (size_t)data_scale(data_mix(key + i * DATA_STEP), i);
		uint32_t moved = p->order[i - 1];

		p->order[i - 1] = p->order[k];
		p->order[k] = moved;
	}
	return n;
}

/* Sorts them by their rests, the longest first; equal ones stay in order. */
static void sort(struct data_plan *p, uint32_t seq_len, size_t n)
{
	uint32_t counts[RADIX];

	for (unsigned shift = 0; seq_len >> shift; shift += RADIX_BITS) {
		uint32_t sum = 0, *from = p->order;

		memset(counts, 0, sizeof(counts));
		for (size_t i = 0; i < n; i++)
			counts[p->rests[from[i]] >> shift & (RADIX - 1)]++;
		for (uint32_t i = RADIX; i--;) {
			uint32_t count = counts[i];

			counts[i] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n; i++)
			p->other[counts[p->rests[from[i]] >> shift &
					(RADIX - 1)]++] = from[i];
		p->order = p->other;
		p->other = from;
	}
}

/* Which sequence each document of order goes to; returns how many there are. */
static uint32_t best_fit(struct data_plan *p, uint32_t seq_len, size_t n)
{
	uint32_t sequences = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t rest = p->rests[p->order[i]];
		uint32_t room = find_room(p, rest), sequence;

		if (room == NONE) {
			room = seq_len + 1;
			sequence = sequences++;
		} else {
			sequence = take_room(p, room);
		}
		p->place[i] = sequence;
		if (room > rest)
			add_room(p, room - rest, sequence);
	}
	/* The next group begins without rooms. */
	for (uint32_t room = find_room(p, 1); room != NONE;
		room = find_room(p, room))
		take_room(p, room);
	return sequences;
}

static void pack(struct data_plan *p, uint32_t seq_len, uint64_t key)
{
	uint32_t sequences;
	size_t n;

	set_rests(p, seq_len);
	n = shuffle(p, key);
	sort(p, seq_len, n);
	sequences = best_fit(p, seq_len, n);
	memset(p->first, 0, ((size_t)sequences + 1) * sizeof(*p->first));
	for (size_t i = 0; i < n; i++)
		p->first[p->place[i] + 1]++;
	for (uint32_t i = 0; i < sequences; i++)
		p->first[i + 1] += p->first[i];
	/* Each sequence's begin, moved on by its members, is that of the next. */
	for (size_t i = 0; i < n; i++)
		p->members[p->first[p->place[i]]++] = p->order[i];
	memmove(p->first + 1, p->first, sequences * sizeof(*p->first));
	p->first[0] = 0;
	p->n_packed = sequences;
}

/* ---- plans ---------------------------------------------------------------------- */

static uint64_t samples_of(const struct data_shape *shape, uint64_t length)
{
	uint64_t predicted = length ? length - 1 : 0;
	bool padded = shape->windows == TARN_WINDOWS_PADDED;

	/* Most documents are shorter: a division takes longer than the rest. */
	if (predicted < shape->seq_len)
		return padded && predicted;
	return predicted / shape->seq_len +
	       (padded && predicted % shape->seq_len);
}

void data_plan_make(struct data_plan *plan, const struct data_shape *shape,
	size_t n, uint64_t key)
{
	plan->n = n;
	plan->n_packed = 0;
	plan->whole_before[0] = 0;
	for (size_t i = 0; i < n; i++)
		plan->whole_before[i + 1] = plan->whole_before[i] +
					    samples_of(shape, plan->lengths[i]);
	plan->n_whole = plan->whole_before[n];
	if (shape->windows == TARN_WINDOWS_PACKED)
		pack(plan, shape->seq_len, key);
}

/* The document of whole sample i. */
static uint32_t whole_at(const struct data_plan *p, uint64_t i)
{
	size_t low = 0, high = p->n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (p->whole_before[middle] <= i)
			low = middle;
		else
			high = middle;
	}
	return (uint32_t)low;
}

int data_plan_pieces(const struct data_plan *plan,
	const struct data_shape *shape, uint64_t i,
	int (*fn)(void *arg, const struct data_piece *piece), void *arg)
{
	struct data_piece piece;
	uint64_t k = i - plan->n_whole;
	int r = 0;

	if (i < plan->n_whole) {
		piece.document = whole_at(plan, i);
		piece.start = (i - plan->whole_before[piece.document]) *
			      shape->seq_len;
		piece.n = (uint32_t)MIN((uint64_t)shape->seq_len + 1,
			plan->lengths[piece.document] - piece.start);
		return fn(arg, &piece);
	}
	for (uint32_t m = plan->first[k]; r >= 0 && m < plan->first[k + 1];
		m++) {
		uint32_t d = plan->members[m];

		piece.document = d;
		piece.n = plan->rests[d];
		piece.start = plan->lengths[d] - piece.n;
		r = fn(arg, &piece);
	}
	return r;
}
