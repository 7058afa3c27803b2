/* SPDX-License-Identifier: MIT */
/*
 * As long as no input has written into a channel's memory, its participants
 * are honest, though some of them die; then more is checked than that the
 * server survives. The storages that an item keeps are noted here when the
 * item takes them, so that the check uses neither the ring nor the server.
 */
#include "tests/fuzz/wire_channel.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server/channel/internal.h"
#include "shm/ring_internal.h"
#include "tests/kit/tap.h"

#define CHANNELS 4u
#define SLOTS 4u
#define TENSORS 2u

/* Of one client in one channel. */
struct part {
	struct ring ring;
	uint32_t slots[SLOTS], n_slots;
	struct ring_item items[SLOTS];
	uint32_t n_items;
};

static struct channel {
	struct channel_map map;
	struct ring ring; /* as attached, to be copied by who joins */
	struct part parts[PEERS];
	bool poked;
	uint64_t kept[SLOTS * TENSORS]; /* lease words of honest items */
} channels[CHANNELS];
static uint32_t n_channels;

enum call {
	JOIN_TO_FILL,
	JOIN_TO_READ,
	JOIN_FOR_BOTH,
	ACQUIRE,
	KEEP, /* the storage leased last, in the slot acquired last */
	PUBLISH,
	ABANDON,
	RECEIVE,
	RELEASE,
	QUIET,
	LEAVE,
	DIE, /* and be forgotten, whatever it holds */
	CLOSE,
	CALLS
};

/* ---- making -------------------------------------------------------------- */

static int memory_of(uint64_t size)
{
	int fd = memfd_create("a channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fchmod(fd, 0600) < 0)
		bail("a channel: %m");
	return fd;
}

int peer_channel_new(unsigned kind)
{
	const struct channel_geometry g = {
		.ring = {.mode = kind & 1 ? RING_BROADCAST : RING_QUEUE,
			.slots = SLOTS,
			.slot_bytes = CHANNEL_PAGE},
		.tensors = TENSORS,
		.flags = kind & 2 ? CHANNEL_EPHEMERAL : 0};
	struct channel *c = &channels[n_channels];
	uint64_t size;
	void *memory;
	int fd;

	if (n_channels == CHANNELS)
		return -1;
	if (channel_size(&g, &size) < 0 || size != CHANNEL_SIZE)
		bail("a channel of another size than CHANNEL_SIZE");
	fd = memory_of(size);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*c = (struct channel) {0};
	if (memory == MAP_FAILED || channel_init(memory, size, &g) < 0 ||
		channel_attach(&c->map, memory, size) < 0 ||
		ring_attach(&c->ring, c->map.ring, c->map.ring_size) < 0)
		bail("a channel: %s", tarn_fail_message());
	for (uint32_t i = 0; i < PEERS; i++)
		c->parts[i].ring = c->ring;
	/* How the judge knows it again. */
	((struct channel_head *)memory)->rest[0] = (char)++n_channels;
	return fd;
}

void channels_forget(void)
{
	while (n_channels > 0) {
		struct channel_map *map = &channels[--n_channels].map;

		munmap(map->memory, map->size);
	}
}

static struct channel *take_channel(struct input *in)
{
	uint8_t which = input_byte(in);

	return n_channels ? &channels[which % n_channels] : NULL;
}

void peer_channel_poke(struct input *in, enum ring_part part)
{
	struct channel *c = take_channel(in);

	if (!c)
		return;
	c->poked = true;
	ring_poke(&c->map, &c->ring, c->map.words_size, part, in);
}

/* The domain that has it; NULL: the server knows none such. */
static struct domain *user_of(
	const struct channel *c, const struct server_channel **ret)
{
	char number = (char)(c - channels + 1);

	for (struct domain *domain = server.domains; domain;
		domain = domain->next)
		for (*ret = domain->channels.first; *ret; *ret = (*ret)->next) {
			const struct channel_head *head = (*ret)->map.memory;

			if (head && head->rest[0] == number)
				return domain;
		}
	return NULL;
}

/* ---- taking part --------------------------------------------------------- */

static void join(struct part *part, unsigned kinds, uint32_t owner)
{
	ring_join(&part->ring, kinds, owner);
}

/* As item_leases_left() does: what the server may wait for is told of. */
static void look(const struct channel *c, struct peer *peer, uint64_t word)
{
	const struct server_channel *known;
	const struct domain *domain = user_of(c, &known);
	const struct table *table = peer_table(peer);
	uint32_t index = lease_index(word);

	if (word && domain && table == &domain->table &&
		index < table->header->n_storages &&
		lease_is_awaited(table, index, word >> TABLE_INDEX_BITS))
		peer_send_released(peer, word);
}

/* As item_leases_clear() does. */
static void acquire(struct channel *c, struct part *part, struct peer *peer)
{
	uint32_t slot;

	if (part->n_slots == SLOTS || ring_acquire(&part->ring, &slot) != 1)
		return;
	if (slot >= SLOTS)
		bail("slot %u of %u", slot, SLOTS);
	part->slots[part->n_slots++] = slot;
	for (uint32_t i = slot * TENSORS; i < (slot + 1) * TENSORS; i++) {
		look(c, peer, atomic_exchange(&c->map.held[i], 0));
		c->kept[i] = 0;
	}
}

/* As item_leases_install() does, with the client's own lease to hold it
 * meanwhile. */
static void keep(struct channel *c, struct part *part, const struct peer *peer)
{
	const struct server_channel *known;
	const struct domain *domain = user_of(c, &known);
	const struct table *table = peer_table(peer);
	uint64_t word = peer->n_slots ? peer->honest[peer->n_slots - 1] : 0;
	uint32_t i;

	if (!part->n_slots || !word || !domain || table != &domain->table)
		return;
	i = part->slots[part->n_slots - 1] * TENSORS;
	atomic_store(&c->map.held[i], word);
	c->kept[i] = word;
}

static void publish(struct part *part)
{
	const struct ring_note note = {.bytes = 1, .tensors = 1};

	if (part->n_slots)
		ring_publish(&part->ring, part->slots[--part->n_slots], &note);
}

static void receive(struct part *part)
{
	struct ring_item item;

	if (part->n_items == SLOTS || ring_receive(&part->ring, &item) != 1)
		return;
	if (item.slot >= SLOTS)
		bail("an item in slot %u of %u", item.slot, SLOTS);
	part->items[part->n_items++] = item;
}

static void part_end(struct channel *c, struct part *part)
{
	*part = (struct part) {.ring = c->ring};
}

static void do_call(
	struct channel *c, struct part *part, enum call call, struct peer *peer)
{
	uint32_t owner = (uint32_t)(peer - peers) + 1;

	switch (call) {
	case JOIN_TO_FILL:
	case JOIN_TO_READ:
	case JOIN_FOR_BOTH:
		return join(part, call + 1, owner);
	case ACQUIRE:
		return acquire(c, part, peer);
	case KEEP:
		return keep(c, part, peer);
	case PUBLISH:
		return publish(part);
	case ABANDON:
		if (part->n_slots)
			ring_abandon(&part->ring, part->slots[--part->n_slots]);
		return;
	case RECEIVE:
		return receive(part);
	case RELEASE:
		if (part->n_items)
			ring_release(
				&part->ring, &part->items[--part->n_items]);
		return;
	case QUIET:
		return ring_quiet(&part->ring);
	case LEAVE:
		ring_leave(&part->ring);
		return part_end(c, part);
	case DIE:
		return part_end(c, part);
	default:
		ring_close(&part->ring);
	}
}

void peer_channel_call(struct input *in, struct peer *peer)
{
	struct channel *c = take_channel(in);
	enum call call = input_byte(in) % CALLS;

	/* A user whose connection has ended is dead, and is reaped. */
	if (!c || peer->sock < 0)
		return;
	do_call(c, &c->parts[peer - peers], call, peer);
	/* Of all that it may have given back; who dies does not get so far. */
	for (uint32_t i = 0; i < SLOTS * TENSORS && call != DIE; i++)
		look(c, peer, atomic_load(&c->map.held[i]));
}

/* ---- judging ------------------------------------------------------------- */

static void judge_kept(const struct channel *c, const struct domain *domain)
{
	for (uint32_t i = 0; i < SLOTS * TENSORS; i++) {
		uint64_t slot = atomic_load(&c->map.slots[i / TENSORS].word);

		if (c->kept[i] && slot_state(slot) != SLOT_FREE)
			lease_judge(&domain->table, c->kept[i], "an item");
	}
}

static void judge_deserted(const struct channel *c)
{
	struct ring_stat stat;

	for (uint32_t i = 0; i < ring_places(&c->ring); i++)
		if (member_state(atomic_load(&c->ring.members[i].word)))
			bail("place %u of a channel is a dead one's", i);
	ring_stat(&c->ring, &stat);
	if (stat.filling || stat.reading)
		bail("the dead fill %u slots and read %u", stat.filling,
			stat.reading);
}

void channels_judge(bool all_gone)
{
	for (uint32_t i = 0; i < n_channels; i++) {
		const struct channel *c = &channels[i];
		const struct server_channel *known;
		const struct domain *domain = user_of(c, &known);

		if (c->poked || !domain)
			continue;
		judge_kept(c, domain);
		if (all_gone)
			judge_deserted(c);
	}
}

static bool is_kept(const struct server_channel *c, uint64_t lease)
{
	const struct channel_map *map = &c->map;
	uint32_t tensors = map->geometry.tensors;

	for (uint32_t i = 0; i < map->geometry.ring.slots * tensors; i++)
		if (atomic_load(&map->held[i]) == lease &&
			slot_state(atomic_load(
				&map->slots[i / tensors].word)) != SLOT_FREE)
			return true;
	return false;
}

void channels_judge_unnamed(const struct domain *domain)
{
	uint32_t i = storage_first(domain, KIND_UNNAMED);

	for (; i != UINT32_MAX; i = storage_after(domain, i)) {
		const struct table_storage *entry = &domain->table.storages[i];
		uint64_t generation =
			storage_word_generation(atomic_load(&entry->word));
		const struct server_channel *c = domain->channels.first;

		while (c && (!c->map.memory ||
				    !is_kept(c, lease_word(i, generation))))
			c = c->next;
		if (!c || entry->flags & STORAGE_CHANNEL)
			bail("storage %u, which nobody has, is there", i);
	}
}
