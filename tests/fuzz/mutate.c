/* SPDX-License-Identifier: MIT */
/*
 * Mutation without feedback, which finds less than libFuzzer does. With it
 * every build tries a few thousand new inputs, and the same seed makes the
 * same inputs everywhere.
 */
#include "tests/fuzz/mutate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "tests/kit/tap.h"

/* ---- words ------------------------------------------------------------- */

/* One character of a word; NULL: it is none. */
static const char *unescape(const char *at, char *ret)
{
	unsigned value;

	if (*at != '\\') {
		*ret = *at;
		return at + 1;
	}
	if (at[1] == '\\' || at[1] == '"') {
		*ret = at[1];
		return at + 2;
	}
	if (sscanf(at, "\\x%2x", &value) != 1)
		return NULL;
	*ret = (char)value;
	return at + 4;
}

static bool read_word(const char *line, struct word *ret)
{
	const char *at = strchr(line, '"');

	ret->size = 0;
	if (!at++)
		return false;
	while (*at && *at != '"' && ret->size < sizeof(ret->bytes)) {
		at = unescape(at, &ret->bytes[ret->size++]);
		if (!at)
			return false;
	}
	return *at == '"' && ret->size > 0;
}

int words_read(const char *path, struct words *ret)
{
	FILE *f = fopen(path, "re");
	char line[512];

	ret->n = 0;
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (ret->n == ARRAY_SIZE(ret->list) ||
			!read_word(line, &ret->list[ret->n++]))
			bail("%s: no word, or one too many: %s", path, line);
	}
	fclose(f);
	return 0;
}

/* ---- changes ----------------------------------------------------------- */

/* xorshift64*: seeded, the same everywhere. */
static uint64_t next_random(struct mutator *m)
{
	m->state ^= m->state >> 12;
	m->state ^= m->state << 25;
	m->state ^= m->state >> 27;
	return m->state * 0x2545f4914f6cdd1d;
}

size_t mutator_below(struct mutator *m, size_t n)
{
	return n ? next_random(m) % n : 0;
}

/* Numbers at which sums and signs go over. */
static size_t put_number(struct mutator *m, uint8_t *bytes, size_t size)
{
	static const uint64_t edges[] = {0, 1, 8, 63, 64, 4095, 4096, 65535,
		65536, INT32_MAX, UINT32_MAX, 1ull << 32, INT64_MAX / 8,
		INT64_MAX, 1ull << 63, UINT64_MAX};
	uint64_t value = edges[mutator_below(m, ARRAY_SIZE(edges))];
	size_t n = 1ul << mutator_below(m, 4);

	value += mutator_below(m, 5) - 2;
	if (n <= size) /* most things lie at multiples of their size */
		memcpy(bytes + mutator_below(m, size / n) * n, &value, n);
	return size;
}

/* n bytes from elsewhere at a place, over what is there or before it. */
static size_t put(struct mutator *m, uint8_t *bytes, size_t size, size_t max,
	const void *from, size_t n)
{
	size_t at = mutator_below(m, size + 1);

	if (mutator_below(m, 3) == 0) {
		n = MIN(n, size - at);
		memcpy(bytes + at, from, n);
		return size;
	}
	if (size + n > max)
		return size;
	memmove(bytes + at + n, bytes + at, size - at);
	memcpy(bytes + at, from, n);
	return size + n;
}

static size_t cut(struct mutator *m, uint8_t *bytes, size_t size)
{
	size_t at = mutator_below(m, size);
	size_t n = mutator_below(m, MIN(size - at, 32ul) + 1);

	memmove(bytes + at, bytes + at + n, size - at - n);
	return size - n;
}

static size_t repeat(struct mutator *m, uint8_t *bytes, size_t size, size_t max)
{
	uint8_t piece[64];
	size_t at = mutator_below(m, size), n = MIN(size - at, sizeof(piece));

	n = mutator_below(m, n + 1);
	memcpy(piece, bytes + at, n);
	return put(m, bytes, size, max, piece, n);
}

static size_t change(struct mutator *m, uint8_t *bytes, size_t size, size_t max,
	const uint8_t *other, size_t other_size)
{
	const struct word *word;
	size_t at = mutator_below(m, size);

	switch (mutator_below(m, 8)) {
	case 0:
		if (size)
			bytes[at] ^= (uint8_t)(1u << mutator_below(m, 8));
		return size;
	case 1:
		if (size)
			bytes[at] = (uint8_t)next_random(m);
		return size;
	case 2:
		return put_number(m, bytes, size);
	case 3:
		return cut(m, bytes, size);
	case 4:
		return repeat(m, bytes, size, max);
	case 5:
		at = mutator_below(m, other_size);
		return put(m, bytes, size, max, other + at,
			mutator_below(m, MIN(other_size - at, 256ul) + 1));
	default:
		if (!m->words->n)
			return size;
		word = &m->words->list[mutator_below(m, m->words->n)];
		return put(m, bytes, size, max, word->bytes, word->size);
	}
}

size_t mutate(struct mutator *m, uint8_t *bytes, size_t size, size_t max,
	const uint8_t *other, size_t other_size)
{
	for (size_t n = 1 + mutator_below(m, 4); n > 0; n--)
		size = change(m, bytes, size, max, other, other_size);
	return size;
}
