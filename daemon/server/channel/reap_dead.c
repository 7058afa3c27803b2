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
 * Then the names of channels that have come to their end are removed
 * (channel/ended.c).
 *
 * Then storages that only leases hold are looked at once more: items that are
 * gone now may have been the last to keep them.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/server/channel/internal.h"

#define LOOK_SHARE 10u         /* a tenth of the time at most; picked */
#define LOOK_SHORT 1000000     /* ns: too short to matter */
#define LOOK_AGAIN 1000000000u /* ns: when there was no memory */

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

/* ---- a look -------------------------------------------------------- */

static int look(struct domain *domain)
{
	struct owners owners;
	uint32_t changed = 0;
	bool left = false;
	int r = find_owners(domain, &owners);

	if (r < 0)
		return r;
	deadline_set(loop_deadlines(domain->server->loop),
		&domain->channels.over, 0);
	for (struct server_channel *c = domain->channels.first; c;
		c = c->next) {
		c->ended = false;
		if (!c->map.memory)
			continue;
		changed += ring_reap_gone(&c->ring, is_gone, &owners);
		/* A client that closes need not take part. */
		ring_finish_close(&c->ring);
		if (r >= 0 && domain->storages.infos[c->holder.index].names &&
			channel_has_ended(domain, c))
			r = channel_remove_name(domain, c, &left);
	}
	if (r >= 0 && left)
		r = channels_remove_ended(domain);
	free(owners.sorted);
	if (changed && quota_may_log(domain))
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
	collect_unnamed(domain);
}
