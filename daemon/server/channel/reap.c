/* SPDX-License-Identifier: MIT */
/*
 * Gives back what dead participants held in channels, once a turn of the loop.
 *
 * There is no list of the dead. A participant belongs to a connection; when one
 * has ended, or a server has taken over, the server compares all participants
 * with the connections that exist, and reaps those without one, in one sweep
 * over each ring, however many they are. Beginning again does the same, so it
 * does not matter where a server dies.
 *
 * Then the names of those that have come to their end are removed: of a channel
 * that was closed and has nothing left, since the next to look there wants the
 * next channel; and of an ephemeral one that all have left. First the dead are
 * reaped, so that an item which one of them was reading is seen to be left.
 * A channel that has ended stays so: nothing is published behind the end. So a
 * server that dies between the two, or does not notice that the last
 * participant left, removes the name when it looks next, and one that takes
 * over looks at all channels. A name stays a while after its end, so that a
 * process that waited for the channel, and was slower than all others, still
 * finds it.
 *
 * Then storages that only leases hold are looked at once more: items that are
 * gone now may have been the last to keep them.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/server/channel/internal.h"

#define LOOK_SHARE 10u         /* a tenth of the time at most; picked */
#define LOOK_SHORT 1000000     /* ns: too short to matter */
#define LOOK_AGAIN 1000000000u /* ns: when there was no memory */
#define OVER_NS 3000000000u    /* for waiters that are slow to wake; picked */

/* ---- participants -------------------------------------------------------- */

struct owners {
	uint32_t *sorted;
	uint32_t n;
};

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int find_owners(const struct domain *domain, struct owners *ret)
{
	uint32_t n = 0, i = 0;

	for (const struct client *c = domain->clients; c; c = c->next)
		n++;
	ret->n = n;
	ret->sorted = malloc((n + 1ul) * sizeof(uint32_t));
	if (!ret->sorted)
		return tarn_fail(ENOMEM, "out of memory");
	for (const struct client *c = domain->clients; c; c = c->next)
		ret->sorted[i++] = channel_owner(c);
	qsort(ret->sorted, n, sizeof(uint32_t), by_number);
	return 0;
}

static bool is_gone(void *arg, uint32_t owner)
{
	const struct owners *o = arg;

	return !bsearch(&owner, o->sorted, o->n, sizeof(owner), by_number);
}

/* ---- names that end with their users ------------------------------------- */

struct leading {
	const struct server_channel *to;
	char *names; /* each with a NUL behind it */
	size_t size;
};

static bool leads_to(
	const struct server_channel *c, const struct tarn_descriptor *d)
{
	return d->storage == c->holder.index &&
	       d->generation == c->holder.generation;
}

static int note_name(void *arg, const char *name, size_t size,
	const struct tarn_descriptor *d, uint64_t version)
{
	struct leading *l = arg;
	char *names;

	if (!leads_to(l->to, d))
		return 0;
	names = realloc(l->names, l->size + size + 1);
	if (!names)
		return tarn_fail(ENOMEM, "out of memory");
	memcpy(names + l->size, name, size + 1);
	l->names = names;
	l->size += size + 1;
	return 0;
}

/* Where it was not published, or by a server before this one. */
static int remove_all_names(
	struct domain *domain, const struct server_channel *c)
{
	struct leading l = {.to = c};
	int r = table_list(&domain->table, "", 0, note_name, &l);

	for (size_t at = 0; at < l.size && r >= 0;) {
		size_t size = strlen(l.names + at);

		r = storage_remove_name(domain, l.names + at, size);
		at += size + 1;
	}
	free(l.names);
	return r;
}

static int remove_names(struct domain *domain, const struct server_channel *c)
{
	struct tarn_descriptor d;
	uint64_t version;
	int r = 0;

	if (c->name &&
		table_lookup(&domain->table, c->name, strlen(c->name), &d,
			&version) == 0 &&
		leads_to(c, &d))
		r = storage_remove_name(domain, c->name, strlen(c->name));
	if (r >= 0 && domain->storages.infos[c->holder.index].names)
		r = remove_all_names(domain, c);
	return r;
}

static void on_over(void *arg)
{
	struct domain *domain = arg;

	domain->channels.left = true;
}

/* No client needs its name any more. */
static bool has_ended(struct domain *domain, struct server_channel *c)
{
	uint64_t now = loop_now(), then;

	if (channel_is_ephemeral(c) && ring_is_deserted(&c->ring))
		return true;
	if (!ring_is_over(&c->ring)) {
		c->over = 0;
		return false;
	}
	if (!c->over)
		c->over = now;
	then = c->over + OVER_NS;
	if (now >= then)
		return true;
	domain->channels.over.fn = on_over;
	domain->channels.over.arg = domain;
	deadline_set_by(loop_deadlines(domain->server->loop),
		&domain->channels.over, then);
	return false;
}

/* ---- a look -------------------------------------------------------- */

static int look(struct domain *domain)
{
	struct owners owners;
	uint32_t changed = 0;
	int r = find_owners(domain, &owners);

	if (r < 0)
		return r;
	deadline_set(loop_deadlines(domain->server->loop),
		&domain->channels.over, 0);
	for (struct server_channel *c = domain->channels.first; c;
		c = c->next) {
		if (!c->map.memory)
			continue;
		changed += ring_reap_gone(&c->ring, is_gone, &owners);
		/* A client that closes need not take part. */
		ring_finish_close(&c->ring);
		if (r >= 0 && domain->storages.infos[c->holder.index].names &&
			has_ended(domain, c))
			r = remove_names(domain, c);
	}
	free(owners.sorted);
	if (changed)
		log_info("channels_reaped", log_u64("domain", domain->number),
			log_u64("slots", changed));
	return r;
}

void channels_in_turn(struct domain *domain)
{
	struct deadlines *all = loop_deadlines(domain->server->loop);
	uint64_t began, took;
	int r;

	if (!domain->channels.left || domain->channels.next_look.at)
		return;
	domain->channels.left = false;
	if (!domain->channels.first)
		return;
	began = loop_now();
	r = look(domain);
	took = loop_now() - began;
	if (took > LOOK_SHORT)
		deadline_set(all, &domain->channels.next_look,
			began + took + LOOK_SHARE * took);
	if (r < 0) {
		log_error("channels_left", log_u64("domain", domain->number),
			log_text("error", tarn_fail_message()));
		domain->channels.left = true;
		deadline_set(
			all, &domain->channels.next_look, began + LOOK_AGAIN);
	}
	reap_unnamed(domain);
}
