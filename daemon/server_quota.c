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
 * A storage is its owner's as long as it has a name, by which he can find and
 * remove it. Without one, those keep it who hold it, and one of them is
 * charged: who was, the owner at first, as long as he is one of them, so that
 * little is moved about. After the death of a server that begins anew, from the
 * owner on.
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
struct rule *quota_home(struct rule *rule, uint32_t uid)
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

/* Who lets go of something has it until a pass has seen that nobody else holds
 * it, which may come much later than what he asks for next. */
static void reap_all(struct server *server)
{
	for (struct rule *rule = server->rules; rule; rule = rule->next)
		reap(rule);
}

/* What of a rule is kept for that uid, at best: what is leased is among it. No
 * more is looked at than makes enough. */
static uint64_t givable(const struct rule *rule, uint32_t uid,
	enum quota_kind kind, uint64_t enough)
{
	uint32_t i = storage_first(rule, KIND_CACHED);
	uint64_t sum = 0;

	for (; i != UINT32_MAX && sum < enough; i = storage_after(rule, i)) {
		const struct table_storage *e = &rule->table.storages[i];

		if (e->owner == uid)
			sum += kind == QUOTA_BYTES ? storage_memory(e) : 1;
	}
	return sum;
}

/* What cannot fit shall not cost him his cache: what he holds, which may be
 * more than his quota, does not go. n is within the limit, but does not fit. */
static bool could_fit(const struct rule *home, enum quota_kind kind, uint64_t n)
{
	uint64_t lacks = home->used[kind] - (home->quota.limit[kind] - n);
	const struct rule *rule = home->server->rules;

	for (; rule && lacks; rule = rule->next)
		lacks -= MIN(lacks, givable(rule, home->spec.uid, kind, lacks));
	return !lacks;
}

int quota_make_room(struct rule *home, enum quota_kind kind, uint64_t n)
{
	if (fits(home, kind, n))
		return 0;
	if (n > home->quota.limit[kind])
		return exceeded(home, kind, n);
	reap_all(home->server);
	if (fits(home, kind, n))
		return 0;
	if (!could_fit(home, kind, n))
		return exceeded(home, kind, n);
	while (!fits(home, kind, n))
		if (!evict_one_of(home->server, home->spec.uid))
			return exceeded(home, kind, n);
	return 0;
}

int quota_check_storage(struct rule *rule, const struct table_storage *entry)
{
	struct rule *home = quota_home(rule, entry->owner);
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

uint32_t quota_payer(const struct rule *rule, uint32_t index)
{
	uint32_t holder = rule->infos[index].holder;

	return holder ? holder - 1 : rule->table.storages[index].owner;
}

static void count(struct rule *rule, uint32_t index, uint64_t sign)
{
	const struct table_storage *entry = &rule->table.storages[index];
	struct rule *home = quota_home(rule, quota_payer(rule, index));

	if (!home)
		return;
	home->used[QUOTA_STORAGES] += sign;
	home->used[QUOTA_BYTES] += sign * storage_memory(entry);
	if (entry->flags & STORAGE_OWN)
		home->used[QUOTA_DESCRIPTORS] += sign;
}

void quota_count_storage(struct rule *rule, uint32_t index, bool there)
{
	count(rule, index, there ? 1 : -1ull);
	if (!there)
		rule->infos[index].holder = 0;
}

void quota_hand_on(struct rule *rule, uint32_t index, uint32_t uid)
{
	if (quota_payer(rule, index) == uid)
		return;
	count(rule, index, -1ull);
	rule->infos[index].holder =
		uid == rule->table.storages[index].owner ? 0 : uid + 1;
	count(rule, index, 1);
}

void quota_own(struct rule *rule, uint32_t index, uint32_t uid)
{
	quota_hand_on(rule, index, uid);
	/* Whoever reads it meanwhile gets the one or the other. */
	rule->table.storages[index].owner = uid;
	rule->infos[index].holder = 0;
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
