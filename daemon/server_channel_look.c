/* SPDX-License-Identifier: MIT */
/*
 * What the dead held in channels is given back, once a turn of the loop.
 *
 * The idea: nobody keeps a list of who has died. A participant belongs to a
 * connection; when one has ended, or a server has taken over, all participants
 * are compared with the connections that there are, and those of none are
 * reaped, in one sweep over each ring, however many they are. To begin again
 * is to do the same, so it does not matter where a server dies.
 *
 * Then the names of those that have come to their end are removed: of a channel
 * that was closed and has nothing left, since the next to look there wants the
 * next channel; and of an ephemeral one that all have left. First the dead are
 * reaped, so that an item which one of them was reading is seen to be left.
 * What is over stays so: nothing is published behind the end. So a server that
 * dies between the two, or is not told of the last who left, removes the name
 * when it looks next, and one that takes over looks at all. A name stays a
 * while after its end: who waited for the channel, and was slower than all
 * others, finds that it has been.
 *
 * Then what only leases hold is looked at once more: items that are gone now
 * may have been the last to keep it.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/log.h"
#include "daemon/server_channel_impl.h"

#define LOOK_SHARE 10u         /* a tenth of the time at most; picked */
#define LOOK_SHORT 1000000     /* ns: nobody notices */
#define LOOK_AGAIN 1000000000u /* ns: when there was no memory */
#define OVER_NS 3000000000u    /* for who is slow to wake; picked */

/* ---- who is there -------------------------------------------------------- */

struct owners {
	uint32_t *sorted;
	uint32_t n;
};

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int find_owners(const struct rule *rule, struct owners *ret)
{
	uint32_t n = 0, i = 0;

	for (const struct client *c = rule->clients; c; c = c->next)
		n++;
	ret->n = n;
	ret->sorted = malloc((n + 1ul) * sizeof(uint32_t));
	if (!ret->sorted)
		return tarn_fail(ENOMEM, "out of memory");
	for (const struct client *c = rule->clients; c; c = c->next)
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
	return d->storage == c->index && d->generation == c->generation;
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
static int remove_all_names(struct rule *rule, const struct server_channel *c)
{
	struct leading l = {.to = c};
	int r = table_list(&rule->table, "", 0, note_name, &l);

	for (size_t at = 0; at < l.size && r >= 0;) {
		size_t size = strlen(l.names + at);

		r = storage_remove_name(rule, l.names + at, size);
		at += size + 1;
	}
	free(l.names);
	return r;
}

static int remove_names(struct rule *rule, const struct server_channel *c)
{
	struct tarn_descriptor d;
	uint64_t version;
	int r = 0;

	if (c->name &&
		table_lookup(&rule->table, c->name, strlen(c->name), &d,
			&version) == 0 &&
		leads_to(c, &d))
		r = storage_remove_name(rule, c->name, strlen(c->name));
	if (r >= 0 && rule->infos[c->index].names)
		r = remove_all_names(rule, c);
	return r;
}

/* Nobody needs its name any more. */
static bool has_ended(struct rule *rule, struct server_channel *c)
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
	if (!rule->channels_over || then < rule->channels_over)
		rule->channels_over = then;
	return false;
}

/* ---- a look ----------------------------------------------------------------
 */

static int look(struct rule *rule)
{
	struct owners owners;
	uint32_t changed = 0;
	int r = find_owners(rule, &owners);

	if (r < 0)
		return r;
	rule->channels_over = 0;
	for (struct server_channel *c = rule->channels; c; c = c->next) {
		if (!c->map.memory)
			continue;
		changed += ring_reap_gone(&c->ring, is_gone, &owners);
		/* Who closes need not take part. */
		ring_finish_close(&c->ring);
		if (r >= 0 && rule->infos[c->index].names && has_ended(rule, c))
			r = remove_names(rule, c);
	}
	free(owners.sorted);
	if (changed)
		log_info("channels_reaped", log_u64("rule", rule->number),
			log_u64("slots", changed));
	return r;
}

void channels_in_turn(struct rule *rule, uint64_t *ret_at)
{
	uint64_t began, took;
	int r;

	if (!rule->channels_left && !rule->channels_over)
		return;
	if (!rule->channels) {
		rule->channels_left = false;
		rule->channels_over = 0;
		return;
	}
	began = loop_now();
	if (!rule->channels_left && began < rule->channels_over) {
		*ret_at = MIN(*ret_at, rule->channels_over);
		return;
	}
	rule->channels_left = true;
	if (began < rule->next_channels) {
		*ret_at = MIN(*ret_at, rule->next_channels);
		return;
	}
	rule->channels_left = false;
	r = look(rule);
	took = loop_now() - began;
	rule->next_channels =
		took > LOOK_SHORT ? began + took + LOOK_SHARE * took : 0;
	if (r < 0) {
		log_error("channels_left", log_u64("rule", rule->number),
			log_text("error", tarn_fail_message()));
		rule->channels_left = true;
		rule->next_channels = began + LOOK_AGAIN;
		*ret_at = MIN(*ret_at, rule->next_channels);
	}
	if (rule->channels_over)
		*ret_at = MIN(*ret_at, rule->channels_over);
	reap_unnamed(rule);
}
