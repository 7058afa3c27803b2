/* SPDX-License-Identifier: MIT */
/*
 * What each user has taken, and whether he may take more.
 *
 * The idea: a user's account lies in the rule of his own memory. What is in a
 * table is counted where every change of it passes through (storage_recount,
 * and the two that change a storage's names), so nobody can forget to, and a
 * server that rebuilds itself from the tables counts it again without being
 * asked. What is asked for is checked before it is taken.
 *
 * Files that are only kept in case somebody wants them never stand in their
 * owner's way: they are dropped, the oldest first, when their bytes are what
 * is missing.
 */
#include "daemon/server.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server_quota.h"

/* Nobody's: of a uid whose own rule could not be made. */
static struct rule *home_of(struct rule *rule, uint32_t uid)
{
	if (!rule->spec.name[0] && rule->spec.uid == uid)
		return rule;
	return rule_of_user(rule->server, uid);
}

/* ---- limits ------------------------------------------------------------ */

void quota_set(struct rule *home)
{
	home->quota = config_quota(home->server->start.config, home->spec.uid);
}

void quota_set_all(struct server *server)
{
	for (struct rule *rule = server->rules; rule; rule = rule->next)
		quota_set(rule);
}

static bool fits(const struct rule *home, enum quota_kind kind, uint64_t n)
{
	uint64_t sum;

	return home->quota.limit[kind] == QUOTA_UNSAID ||
	       (!add_u64(home->used[kind], n, &sum) &&
		       sum <= home->quota.limit[kind]);
}

static bool in_bytes(enum quota_kind kind)
{
	return kind == QUOTA_BYTES || kind == QUOTA_REQUESTS;
}

static void print(char *text, size_t size, enum quota_kind kind, uint64_t n)
{
	if (in_bytes(kind))
		snprintf(text, size, "%.1f MiB", (double)n / 1048576);
	else
		snprintf(text, size, "%" PRIu64, n);
}

static int exceeded(const struct rule *home, enum quota_kind kind, uint64_t n)
{
	char has[32], more[32], limit[32];

	print(has, sizeof(has), kind, home->used[kind]);
	print(more, sizeof(more), kind, n);
	print(limit, sizeof(limit), kind, home->quota.limit[kind]);
	return tarn_fail(EDQUOT,
		"uid %u has %s and wants %s more, but its quota of %s is %s "
		"(%s under [quota] in tarnd.conf)",
		home->spec.uid, has, more,
		kind == QUOTA_BYTES ? "memory" : quota_key(kind), limit,
		quota_key(kind));
}

int quota_check(const struct rule *home, enum quota_kind kind, uint64_t n)
{
	return fits(home, kind, n) ? 0 : exceeded(home, kind, n);
}

int quota_charge(struct rule *home, enum quota_kind kind, uint64_t n)
{
	int r = quota_check(home, kind, n);

	if (r == 0)
		home->used[kind] += n;
	return r;
}

void quota_return(struct rule *home, enum quota_kind kind, uint64_t n)
{
	home->used[kind] -= n;
}

/* ---- storages ---------------------------------------------------------- */

/* One of that uid's: the one used longest ago in the first pool with any. */
static bool evict_one_of(struct server *server, uint32_t uid)
{
	for (struct rule *rule = server->rules; rule; rule = rule->next) {
		uint32_t i = cache_oldest(rule, uid);

		if (i == UINT32_MAX)
			continue;
		cache_evict(rule, i, "its owner's quota is reached");
		reap(rule);
		return true;
	}
	return false;
}

int quota_make_room(struct rule *home, enum quota_kind kind, uint64_t n)
{
	while (!fits(home, kind, n))
		if (n > home->quota.limit[kind] ||
			!evict_one_of(home->server, home->spec.uid))
			return exceeded(home, kind, n);
	return 0;
}

int quota_check_storage(struct rule *rule, const struct table_storage *entry)
{
	struct rule *home = home_of(rule, entry->owner);
	int r;

	if (!home)
		return 0;
	r = quota_make_room(home, QUOTA_STORAGES, 1);
	if (r == 0)
		r = quota_make_room(home, QUOTA_BYTES, storage_memory(entry));
	if (r == 0 && entry->flags & STORAGE_OWN)
		r = quota_check(home, QUOTA_DESCRIPTORS, 1);
	return r;
}

void quota_count_storage(struct rule *rule, uint32_t index, bool there)
{
	const struct table_storage *entry = &rule->table.storages[index];
	struct rule *home = home_of(rule, entry->owner);
	uint64_t sign = there ? 1 : -1ull;

	if (!home)
		return;
	home->used[QUOTA_STORAGES] += sign;
	home->used[QUOTA_BYTES] += sign * storage_memory(entry);
	home->used[QUOTA_NAMES] += sign * rule->infos[index].names;
	if (entry->flags & STORAGE_OWN)
		home->used[QUOTA_DESCRIPTORS] += sign;
}

/* ---- names ------------------------------------------------------------- */

void quota_count_names(struct rule *rule, uint32_t index, int64_t n)
{
	struct rule *home = home_of(rule, rule->table.storages[index].owner);

	if (home)
		home->used[QUOTA_NAMES] += (uint64_t)n;
}

static bool leads_to(
	const struct rule *rule, const struct named *named, uint32_t uid)
{
	struct tarn_descriptor d;
	uint64_t version;

	return table_lookup(&rule->table, named->name, named->name_size, &d,
		       &version) >= 0 &&
	       d.storage < rule->n_infos &&
	       rule->table.storages[d.storage].owner == uid;
}

/* How many of them lead to something of that uid's already. */
static uint64_t count_replaced(
	const struct rule *rule, uint32_t uid, const struct name_list *names)
{
	const unsigned char *at = names->at;
	struct named named;
	uint64_t n = 0;

	for (uint32_t i = 0; i < names->n; i++) {
		if (name_next(names, &at, &named) < 0)
			break;
		n += leads_to(rule, &named, uid);
	}
	return n;
}

int quota_check_names(
	struct rule *rule, uint32_t owner, const struct name_list *names)
{
	const struct rule *home = home_of(rule, owner);

	if (!home || fits(home, QUOTA_NAMES, names->n))
		return 0;
	/* Only at the limit is it worth asking which are new. */
	return quota_check(home, QUOTA_NAMES,
		names->n - count_replaced(rule, owner, names));
}

/* ---- messages ---------------------------------------------------------- */

int quota_charge_message(struct rule *home, const struct wire_message *message)
{
	uint64_t n_fds = (uint64_t)message->n_fds;
	int r = quota_charge(home, QUOTA_DESCRIPTORS, n_fds);

	if (r == 0) {
		r = quota_charge(home, QUOTA_REQUESTS, message->size);
		if (r < 0)
			quota_return(home, QUOTA_DESCRIPTORS, n_fds);
	}
	return r;
}

int quota_messages(struct client *client)
{
	uint64_t now = wire_reader_held(client->reader) +
		       wire_writer_held(client->writer);
	int r = 0;

	if (now > client->held)
		r = quota_check(
			client->home, QUOTA_REQUESTS, now - client->held);
	client->home->used[QUOTA_REQUESTS] += now - client->held;
	client->held = now;
	return r;
}
