/* SPDX-License-Identifier: MIT */
/*
 * The channels of a rule: which there are, and what their items keep.
 *
 * The idea: a channel is a storage with a memfd of its own, of which the
 * server maps what comes before the records, as one more who takes part: to
 * give back what the dead held (server_channel_look.c), and to find, when it
 * looks for leases, what lies in items. It is mapped from when it is published
 * until its storage is free, nameless or not; a server that takes over maps
 * what the table says and the keeper has kept.
 *
 * All who take part write that memory, and some may lie. Its size is sealed,
 * so no access to it can fail; its geometry was copied when it was mapped;
 * each walk over it has an end. What they write there harms the channel's own
 * users: an item that says that it keeps nothing keeps nothing.
 */
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/log.h"
#include "daemon/server_channel_impl.h"
#include "shm/ring_words.h"

/* Each is looked at when a client ends: 1024 places of a line each. */
#define CHANNELS_MAX 1024u
/* Words of all channels of a rule that a search for leases may read: 128 MiB,
 * some tens of milliseconds; picked. */
#define CHANNEL_WORDS_MAX (1u << 24)

static uint64_t words_of(const struct server_channel *c)
{
	const struct channel_geometry *g = &c->map.geometry;

	return g->ring.slots *
	       (sizeof(struct ring_slot) / sizeof(uint64_t) + g->tensors);
}

struct server_channel *channel_find(
	const struct rule *rule, uint32_t index, uint64_t generation)
{
	struct server_channel *c = rule->channels;

	while (c && (c->index != index || c->generation != generation))
		c = c->next;
	return c;
}

/* ---- memory ---------------------------------------------------------- */

/* Of huge pages there may be none left when one is touched. */
static int check_kind(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return tarn_fail(
			errno, "channel: fstatfs: %s", tarn_errno_text(errno));
	if (fs.f_type != TMPFS_MAGIC)
		return tarn_fail(EINVAL,
			"channel: its memfd is of file system %#lx; one "
			"without MFD_HUGETLB is wanted",
			(unsigned long)fs.f_type);
	return 0;
}

static int map(struct server_channel *c, uint64_t size, int fd)
{
	char *at;
	int r = check_kind(fd);

	if (r < 0)
		return r;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return tarn_fail(errno, "channel: mapping %llu bytes: %s",
			(unsigned long long)size, tarn_errno_text(errno));
	r = channel_attach(&c->map, at, size);
	if (r == 0)
		r = ring_attach(&c->ring, c->map.ring, c->map.ring_size);
	if (r < 0) {
		munmap(at, size);
		c->map = (struct channel_map) {0};
		return r;
	}
	/* Records and bytes are none of our business. */
	munmap(at + c->map.words_size, size - c->map.words_size);
	return 0;
}

static void unmap(struct server_channel *c)
{
	if (c->map.memory)
		munmap(c->map.memory, c->map.words_size);
}

/* ---- which there are -------------------------------------------------- */

static void join(struct rule *rule, struct server_channel *c)
{
	c->next = rule->channels;
	rule->channels = c;
	rule->n_channels++;
	rule->channel_words += words_of(c);
}

static void leave(struct rule *rule, struct server_channel *c)
{
	struct server_channel **p = &rule->channels;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	rule->n_channels--;
	rule->channel_words -= words_of(c);
	unmap(c);
	free(c->name);
	free(c);
}

static int may_have(const struct rule *rule, const struct server_channel *c)
{
	if (rule->channel_words + words_of(c) > CHANNEL_WORDS_MAX)
		return tarn_fail(ENOSPC,
			"channel: %u slots of %u tensors take %llu words; all "
			"channels of a pool may have %u, and %llu are taken",
			c->map.geometry.ring.slots, c->map.geometry.tensors,
			(unsigned long long)words_of(c), CHANNEL_WORDS_MAX,
			(unsigned long long)rule->channel_words);
	return 0;
}

static int make(const struct rule *rule, uint32_t index, uint64_t generation,
	int fd, struct server_channel **ret)
{
	struct server_channel *c = calloc(1, sizeof(*c));

	*ret = c;
	if (!c)
		return tarn_fail(ENOMEM, "out of memory");
	c->index = index;
	c->generation = generation;
	return map(c, rule->table.storages[index].size, fd);
}

int channel_open(struct rule *rule, uint32_t index, uint64_t generation, int fd)
{
	struct server_channel *c;
	int r;

	if (rule->n_channels >= CHANNELS_MAX)
		return tarn_fail(ENOSPC,
			"channel: there are %u in this pool, which is the "
			"limit; remove some",
			rule->n_channels);
	r = make(rule, index, generation, fd, &c);
	if (r == 0)
		r = may_have(rule, c);
	if (r < 0) {
		if (c)
			unmap(c);
		free(c);
		return r;
	}
	join(rule, c);
	return 0;
}

int channel_rebuild(
	struct rule *rule, uint32_t index, uint64_t generation, int fd)
{
	struct server_channel *c;
	int r = make(rule, index, generation, fd, &c);

	if (r == -ENOMEM) {
		free(c);
		return r;
	}
	/* Somebody has damaged it: nothing can be done for its users, and
	 * nobody else is concerned. It is there, and not looked at. */
	if (r < 0)
		log_warning("channel_damaged", log_u64("rule", rule->number),
			log_u64("storage", index),
			log_text("error", tarn_fail_message()));
	join(rule, c);
	rule->channels_left = true;
	return 0;
}

void channel_drop(struct rule *rule, uint32_t index, uint64_t generation)
{
	struct server_channel *c = channel_find(rule, index, generation);

	if (!c)
		return;
	leave(rule, c);
	/* What its items kept may be nobody's now. */
	reap_unnamed(rule);
}

void channels_free(struct rule *rule)
{
	while (rule->channels)
		leave(rule, rule->channels);
}

/* ---- what is asked of them --------------------------------------------- */

/*
 * No item keeps a channel. Nobody sends one, since there are no tensors over
 * it; but who writes there himself could have one keep itself, or two each
 * other, and they would stay when all are gone who know of them. What items
 * keep is charged to whom the channel is.
 */
void channels_search(const struct rule *rule, struct lease_batch *batch)
{
	for (const struct server_channel *c = rule->channels; c; c = c->next) {
		batch->whose = quota_payer(rule, c->index);
		if (c->map.memory)
			channel_search(&c->map, batch);
	}
	for (const struct server_channel *c = rule->channels; c; c = c->next)
		lease_batch_miss(batch, c->index, c->generation);
}

bool channel_is(const struct rule *rule, uint32_t index, uint64_t generation)
{
	/* Most names are no channels', and there may be many of both. */
	return rule->n_channels &&
	       rule->table.storages[index].flags & STORAGE_CHANNEL &&
	       channel_find(rule, index, generation);
}

bool channel_gives_way(
	const struct rule *rule, uint32_t index, uint64_t generation)
{
	const struct server_channel *c = channel_find(rule, index, generation);

	/* One that was damaged serves nobody. Of the others their users say
	 * what they are: a lie costs them items of their own, or a name that
	 * whoever could write it may remove as well. */
	return c && (!c->map.memory || (channel_is_closed(&c->map) &&
					       !ring_left(&c->ring)));
}

void channel_describe(const struct rule *rule, uint32_t index,
	uint64_t generation, char *ret, size_t size)
{
	const struct server_channel *c = channel_find(rule, index, generation);
	uint32_t left;

	if (c && c->map.memory && !channel_is_closed(&c->map)) {
		snprintf(ret, size, "open");
		return;
	}
	left = c && c->map.memory ? ring_left(&c->ring) : 0;
	snprintf(ret, size, left ? "closed, %u item%s not received" : "closed",
		left, left == 1 ? "" : "s");
}

int channel_check_taken(const struct rule *rule, const char *verb,
	const char *name, size_t size, const struct tarn_descriptor *d)
{
	const struct server_channel *c;

	if (!channel_is(rule, d->storage, d->generation) ||
		channel_gives_way(rule, d->storage, d->generation))
		return 0;
	c = channel_find(rule, d->storage, d->generation);
	if (channel_is_closed(&c->map))
		return tarn_fail(EBUSY,
			"%s: \"%.*s\" is a channel that is closed, with items "
			"that were not received; receive them or remove it "
			"first (tarn channel rm %.*s)",
			verb, (int)size, name, (int)size, name);
	return tarn_fail(EBUSY,
		"%s: \"%.*s\" is an open channel, whose users would lose what "
		"is in it; close it or remove it first (tarn channel rm %.*s)",
		verb, (int)size, name, (int)size, name);
}

/* Without memory it is found by looking at all names. */
void channel_named(struct rule *rule, uint32_t index, uint64_t generation,
	const char *name, size_t size)
{
	struct server_channel *c = channel_find(rule, index, generation);

	if (c && !c->name)
		c->name = strndup(name, size);
}

void channel_who(struct client *client, uint32_t serial)
{
	struct rule *rule = client->rule;
	const struct msg_channel is = {.owner = channel_owner(client)};
	uint64_t later = UINT64_MAX; /* the loop's turn says it again */

	/* It may have left one or closed it, and been the last for whom an item
	 * or the name was. Looked at before it is answered, if it is not too
	 * soon: what it opens next is not the one that it has just ended. */
	rule->channels_left = true;
	channels_in_turn(rule, &later);
	client_reply(client, WIRE_CHANNEL_IS, serial, &is, sizeof(is), NULL, 0);
}
