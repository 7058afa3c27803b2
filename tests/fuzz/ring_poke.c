/* SPDX-License-Identifier: MIT */
/*
 * Most of a channel's memory is never read, so an input first says which
 * structure it changes, and then which field: a few bytes of input reach a
 * word that counts.
 */
#include "tests/fuzz/ring_poke.h"

#include "base/checked.h"
#include "shm/ring_internal.h"

static char *in_head(struct ring_head *head, uint8_t which)
{
	void *const words[] = {&head->tail, &head->head, &head->items,
		&head->space, &head->returned, &head->closed, &head->places,
		&head->consumers};

	return words[which % ARRAY_SIZE(words)];
}

static char *in_member(const struct ring *ring, uint8_t which)
{
	struct ring_member *m = &ring->members[which & 3];
	void *const words[] = {&m->word, &m->start, &m->until, &m->published};

	/* Consumers of a broadcast come first, other participants later. */
	if (which & 64)
		m += RING_BROADCAST_CONSUMERS - (m - ring->members);
	return words[which >> 2 & 3];
}

static char *in_slot(const struct ring *ring, uint8_t which)
{
	struct ring_slot *s = &ring->slots[(which & 15) % ring->geometry.slots];
	void *const words[] = {&s->word, &s->pending[0], &s->pending[1],
		&s->bytes, &s->tensors, &s->note_position, &s->tag[0],
		&s->word};

	return words[which >> 4 & 7];
}

static char *in_order(const struct ring *ring, uint16_t past)
{
	uint64_t tail = atomic_load(&ring->head->tail);

	return (char *)ring_entry(ring, tail + (uint64_t)(int16_t)past);
}

static char *find(const struct channel_map *map, const struct ring *ring,
	uint64_t size, enum ring_part part, struct input *in)
{
	uint32_t n = map->geometry.ring.slots * map->geometry.tensors, at = 0;
	uint8_t which;

	if (part == PART_ANY) {
		input_take(in, &at, 4);
		return (char *)map->memory + at % (size - 7);
	}
	which = input_byte(in);
	switch (part) {
	case PART_HEAD:
		return in_head(ring->head, which);
	case PART_MEMBER:
		return in_member(ring, which);
	case PART_SLOT:
		return in_slot(ring, which);
	case PART_ENTRY:
		return in_order(ring, (uint16_t)(which | input_byte(in) << 8));
	case PART_HELD:
		return (char *)&map->held[which % n];
	default:
		at = input_byte(in) % (sizeof(*map->records) / 8);
		return (char *)&map->records[which % n] + at * 8;
	}
}

bool ring_poke(const struct channel_map *map, const struct ring *ring,
	uint64_t size, enum ring_part part, struct input *in)
{
	char *at = find(map, ring, size, part, in);
	uint64_t value;

	if (!input_take(in, &value, sizeof(value)))
		return false;
	if ((uint64_t)(at - (char *)map->memory) <= size - sizeof(value))
		memcpy(at, &value, sizeof(value));
	return true;
}
