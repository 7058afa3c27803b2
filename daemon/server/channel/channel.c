/* SPDX-License-Identifier: MIT */
/*
 * The channels of a domain, and the storages that their items keep.
 *
 * The idea: a channel is a storage with a memfd of its own. The server maps
 * what comes before the records, as a participant does: to give back what dead
 * participants held (channel/reap_dead.c), and to find, when it
 * looks for leases, what lies in items. It is mapped from when it is published
 * until its storage is free, unnamed or not; a server that takes over maps
 * what the table says and the keeper has kept.
 *
 * All participants write that memory, and some may be hostile. Its size is
 * sealed, so no access to it can fail; its geometry was copied when it was
 * mapped; each walk over it has an end. Invalid data there harms only the
 * channel's own users: an item that lists no reference keeps nothing.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/server/channel/internal.h"
#include "shm/ring_internal.h"

/* Each is looked at when a client ends: 1024 places of a line each. */
#define CHANNELS_MAX 1024u
/* Words of all channels of a domain that a search for leases may read: 128 MiB,
 * some tens of milliseconds; picked. */
#define CHANNEL_WORDS_MAX (1u << 24)

static uint64_t words_of(const struct server_channel *c)
{
	const struct channel_geometry *g = &c->map.geometry;

	return g->ring.slots *
	       (sizeof(struct ring_slot) / sizeof(uint64_t) + g->tensors);
}

struct server_channel *channel_find(
	const struct domain *domain, uint32_t index, uint64_t generation)
{
	struct server_channel *c = domain->channels.first;

	while (c && (c->holder.index != index ||
			    c->holder.generation != generation))
		c = c->next;
	return c;
}

/* ---- memory ---------------------------------------------------------- */

static int map(struct server_channel *c, uint64_t size, int fd)
{
	char *at;
	int r;

	/* Of tmpfs, as publish/fd.c checked: this does not block. */
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

static void join(struct domain *domain, struct server_channel *c)
{
	c->next = domain->channels.first;
	domain->channels.first = c;
	domain->channels.n++;
	domain->channels.words += words_of(c);
	storage_holder_join(domain, &c->holder);
}

static void leave(struct domain *domain, struct server_channel *c)
{
	struct server_channel **p = &domain->channels.first;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	domain->channels.n--;
	domain->channels.words -= words_of(c);
	unmap(c);
	free(c->name);
	free(c);
}

static int may_have(const struct domain *domain, const struct server_channel *c)
{
	if (domain->channels.words + words_of(c) > CHANNEL_WORDS_MAX)
		return tarn_fail(ENOSPC,
			"channel: %u slots of %u tensors take %llu words; all "
			"channels of a pool may have %u, and %llu are taken",
			c->map.geometry.ring.slots, c->map.geometry.tensors,
			(unsigned long long)words_of(c), CHANNEL_WORDS_MAX,
			(unsigned long long)domain->channels.words);
	return 0;
}

static void search(
	const struct storage_holder *holder, struct lease_batch *batch)
{
	const struct server_channel *c =
		(const struct server_channel *)((const char *)holder -
						offsetof(struct server_channel,
							holder));

	if (c->map.memory)
		channel_search(&c->map, batch);
}

static void freed(struct storage_holder *holder, struct domain *domain)
{
	leave(domain, (struct server_channel *)((char *)holder -
						offsetof(struct server_channel,
							holder)));
}

static int make(const struct domain *domain, uint32_t index,
	uint64_t generation, int fd, struct server_channel **ret)
{
	struct server_channel *c = calloc(1, sizeof(*c));

	*ret = c;
	if (!c)
		return tarn_fail(ENOMEM, "out of memory");
	c->holder.index = index;
	c->holder.generation = generation;
	c->holder.search = search;
	c->holder.freed = freed;
	return map(c, domain->table.storages[index].size, fd);
}

int channel_open(
	struct domain *domain, uint32_t index, uint64_t generation, int fd)
{
	struct server_channel *c;
	int r;

	if (domain->channels.n >= CHANNELS_MAX)
		return tarn_fail(ENOSPC,
			"channel: there are %u in this pool, which is the "
			"limit; remove some",
			domain->channels.n);
	r = make(domain, index, generation, fd, &c);
	if (r == 0)
		r = may_have(domain, c);
	if (r < 0) {
		if (c)
			unmap(c);
		free(c);
		return r;
	}
	join(domain, c);
	return 0;
}

int channel_rebuild(
	struct domain *domain, uint32_t index, uint64_t generation, int fd)
{
	struct server_channel *c;
	int r = make(domain, index, generation, fd, &c);

	if (r == -ENOMEM) {
		free(c);
		return r;
	}
	/* A participant has damaged it: nothing can be done for its users, and
	 * no other client is affected. It stays, and is not looked at. */
	if (r < 0)
		log_warning("channel_damaged",
			log_u64("domain", domain->number),
			log_u64("storage", index),
			log_text("error", tarn_fail_message()));
	else /* the last server may have died before its thread woke them */
		ring_wake_everybody(&c->ring);
	join(domain, c);
	domain->channels.left = true;
	return 0;
}

void channels_free(struct domain *domain)
{
	while (domain->channels.first) {
		storage_holder_leave(domain, &domain->channels.first->holder);
		leave(domain, domain->channels.first);
	}
}

/* ---- what is asked of them --------------------------------------------- */

uint32_t channels_idle(const struct domain *domain)
{
	uint32_t n = 0;

	for (const struct server_channel *c = domain->channels.first; c;
		c = c->next)
		n += c->map.memory && ring_is_idle(&c->ring);
	return n;
}

bool channel_is(
	const struct domain *domain, uint32_t index, uint64_t generation)
{
	/* Most names are no channels', and there may be many of both. */
	return domain->channels.n &&
	       domain->table.storages[index].flags & STORAGE_CHANNEL &&
	       channel_find(domain, index, generation);
}

bool channel_gives_way(
	const struct domain *domain, uint32_t index, uint64_t generation)
{
	const struct server_channel *c =
		channel_find(domain, index, generation);

	/* A damaged one is of no use. For the others the server trusts the
	 * state that participants wrote: if it is false, they lose their own
	 * items, or a name that each of them may remove anyway. */
	return c && (!c->map.memory || (channel_is_closed(&c->map) &&
					       !ring_left(&c->ring)));
}

void channel_describe(const struct domain *domain, uint32_t index,
	uint64_t generation, char *ret, size_t size)
{
	const struct server_channel *c =
		channel_find(domain, index, generation);
	uint32_t left;

	if (c && c->map.memory && !channel_is_closed(&c->map)) {
		snprintf(ret, size, "open");
		return;
	}
	left = c && c->map.memory ? ring_left(&c->ring) : 0;
	snprintf(ret, size, left ? "closed, %u item%s not received" : "closed",
		left, left == 1 ? "" : "s");
}

int channel_check_taken(const struct domain *domain, const char *verb,
	const char *name, size_t size, const struct tarn_descriptor *d)
{
	const struct server_channel *c;

	if (!channel_is(domain, d->storage, d->generation) ||
		channel_gives_way(domain, d->storage, d->generation))
		return 0;
	c = channel_find(domain, d->storage, d->generation);
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
void channel_named(struct domain *domain, uint32_t index, uint64_t generation,
	const char *name, size_t size)
{
	struct server_channel *c = channel_find(domain, index, generation);

	if (c && !c->name)
		c->name = strndup(name, size);
}

void channel_who(struct client *client, uint32_t serial)
{
	struct domain *domain = client->domain;
	const struct msg_channel is = {.owner = channel_owner(client)};

	/* The client may have left a channel or closed it, as the last that
	 * needed an item or the name. The server looks before it answers, if
	 * that is not too soon after the last look: then the client does not
	 * open the channel again that it has just ended. */
	domain->channels.left = true;
	channels_in_turn(domain);
	client_reply(
		client, WIRE_OUT(WIRE_CHANNEL_IS, serial, &is, sizeof(is)));
}
