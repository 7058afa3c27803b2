/* SPDX-License-Identifier: MIT */
/*
 * The names of channels that have come to their end are removed: of a channel
 * that was closed and has nothing left, since the next to look there wants the
 * next channel; and of an ephemeral one that all have left. First the dead are
 * reaped, so that an item which one of them was reading is seen to be left.
 * A channel that has ended stays so: nothing is published behind the end. So a
 * server that dies between the two, or does not notice that the last
 * participant left, removes the name when it looks next, and one that takes
 * over looks at all channels. A name stays a while after its end, so that a
 * process that waited for the channel, and was slower than all others, still
 * finds it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "daemon/server/channel/internal.h"

#define OVER_NS 3000000000u /* for waiters that are slow to wake; picked */

struct leading {
	const struct domain *domain;
	char *names; /* each with a NUL behind it */
	size_t size;
};

static bool leads_to(
	const struct server_channel *c, const struct tarn_descriptor *d)
{
	return d->storage == c->holder.index &&
	       d->generation == c->holder.generation;
}

static bool leads_to_ended(
	const struct domain *domain, const struct tarn_descriptor *d)
{
	const struct server_channel *c;

	if (d->storage >= domain->storages.n_infos ||
		!(domain->table.storages[d->storage].flags & STORAGE_CHANNEL))
		return false;
	c = channel_find(domain, d->storage, d->generation);
	return c && c->ended;
}

static int note_name(void *arg, const char *name, size_t size,
	const struct tarn_descriptor *d, uint64_t version)
{
	struct leading *l = arg;
	char *names;

	if (!leads_to_ended(l->domain, d))
		return 0;
	names = realloc(l->names, l->size + size + 1);
	if (!names)
		return tarn_fail(ENOMEM, "out of memory");
	memcpy(names + l->size, name, size + 1);
	l->names = names;
	l->size += size + 1;
	return 0;
}

int channels_remove_ended(struct domain *domain)
{
	struct leading l = {.domain = domain};
	int r = table_list(&domain->table, "", 0, note_name, &l);

	for (size_t at = 0; at < l.size && r >= 0;) {
		size_t size = strlen(l.names + at);

		r = storage_remove_name(domain, l.names + at, size);
		at += size + 1;
	}
	free(l.names);
	return r;
}

int channel_remove_name(
	struct domain *domain, struct server_channel *c, bool *ret_left)
{
	struct tarn_descriptor d;
	uint64_t version;
	int r = 0;

	if (c->name &&
		table_lookup(&domain->table, c->name, strlen(c->name), &d,
			&version) == 0 &&
		leads_to(c, &d))
		r = storage_remove_name(domain, c->name, strlen(c->name));
	c->ended = r >= 0 && domain->storages.infos[c->holder.index].names;
	*ret_left |= c->ended;
	return r;
}

static void on_over(void *arg)
{
	struct domain *domain = arg;

	domain->channels.left = true;
}

bool channel_has_ended(struct domain *domain, struct server_channel *c)
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
