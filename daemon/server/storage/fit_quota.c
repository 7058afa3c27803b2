/* SPDX-License-Identifier: MIT */
/*
 * The quota of a user, for what lies in tables: storages and their bytes.
 *
 * Files that are only kept in case somebody wants them never stand in their
 * owner's way: they are dropped, the oldest first, when their bytes are what
 * is missing. To search for them takes time of which there is only a share: a
 * request that can wait does so in the queue for memory.
 */
#include "base/checked.h"
#include "daemon/server/server.h"

/* So much of it the user has too much for n more, which are within its limit. */
static uint64_t lacking(
	const struct account *account, enum quota_kind kind, uint64_t n)
{
	return account->used[kind] - (account->quota.limit[kind] - n);
}

/* Files of that user, as many as are missing: those used longest ago in the
 * first pool with any. */
static bool evict_some_of(
	struct domain *user, enum quota_kind kind, uint64_t lacks)
{
	const struct evict_limit limit = {
		.n = kind == QUOTA_STORAGES ? lacks : UINT64_MAX,
		.bytes = kind == QUOTA_BYTES ? lacks : UINT64_MAX};

	for (struct domain *domain = user->server->domains; domain;
		domain = domain->next) {
		uint64_t began = loop_now();

		if (!cache_evict_batch(domain, user->spec.uid, &limit,
			    "its owner's quota is reached"))
			continue;
		collect(domain);
		evict_spent(domain, began);
		return true;
	}
	return false;
}

/* What of a domain is kept for that uid, at best: what is leased is among it.
 * No more is looked at than makes enough. */
static uint64_t reclaimable(const struct domain *domain, uint32_t uid,
	enum quota_kind kind, uint64_t enough)
{
	uint32_t i = storage_first(domain, KIND_CACHED);
	uint64_t sum = 0;

	for (; i != UINT32_MAX && sum < enough; i = storage_after(domain, i)) {
		const struct table_storage *e = &domain->table.storages[i];

		if (e->owner == uid)
			sum += kind == QUOTA_BYTES ? storage_memory(e) : 1;
	}
	return sum;
}

/* A request that cannot fit must not cost the user its cache: storages that it
 * holds, which may be more than its quota, are not freed. n is within the limit,
 * but does not fit. */
static bool could_fit(
	const struct domain *user, enum quota_kind kind, uint64_t n)
{
	uint64_t lacks = lacking(&user->account, kind, n);
	const struct domain *domain = user->server->domains;

	for (; domain && lacks; domain = domain->next)
		lacks -= MIN(lacks,
			reclaimable(domain, user->spec.uid, kind, lacks));
	return !lacks;
}

/* The first kind of which it can have no more; QUOTA_KINDS: there is none. A
 * kind of which nothing is wanted is no concern of the request. */
static enum quota_kind first_unfit(
	const struct domain *user, const uint64_t *want)
{
	enum quota_kind kind = 0;

	while (kind < QUOTA_KINDS &&
		(!want[kind] || quota_fits(&user->account, kind, want[kind])))
		kind++;
	return kind;
}

/* Nothing that is cached takes up any other kind. */
static bool is_of_cached(enum quota_kind kind)
{
	return kind == QUOTA_STORAGES || kind == QUOTA_BYTES;
}

/* What can never fit: 0, or the error of the first kind. */
static int check_all(const struct domain *user, const uint64_t *want)
{
	for (enum quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
		if (!want[kind] || quota_fits(&user->account, kind, want[kind]))
			continue;
		if (want[kind] > user->account.quota.limit[kind] ||
			!is_of_cached(kind) ||
			!could_fit(user, kind, want[kind]))
			return quota_check(&user->account, kind, want[kind]);
	}
	return 0;
}

/* One step at least, since the pass before it may have spent the time. */
int storage_fit_quota(
	struct domain *user, const uint64_t *want, struct memory_wait *wait)
{
	enum quota_kind kind;
	uint64_t at = 0;
	int r;

	if (first_unfit(user, want) == QUOTA_KINDS)
		return 0;
	if (wait)
		at = evict_at(user->server, NULL);
	if (at)
		return memory_pause(wait, at);
	collect_all(user->server, NULL);
	r = check_all(user, want);
	while (r == 0 && (kind = first_unfit(user, want)) < QUOTA_KINDS) {
		if (at)
			return memory_pause(wait, at);
		if (!evict_some_of(user, kind,
			    lacking(&user->account, kind, want[kind])))
			r = quota_check(&user->account, kind, want[kind]);
		if (wait)
			at = evict_at(user->server, NULL);
	}
	return r;
}

int storage_fit_awaited(
	struct domain *user, const uint64_t *want, struct memory_wait *wait)
{
	uint64_t all[QUOTA_KINDS] = {0};

	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		if (want[kind] &&
			add_u64(want[kind], user->account.awaited[kind],
				&all[kind]))
			all[kind] = UINT64_MAX;
	return storage_fit_quota(user, all, wait);
}

static void add_bytes(uint64_t *sum, uint64_t bytes)
{
	if (add_u64(*sum, bytes, sum))
		*sum = UINT64_MAX;
}

void storage_add_wanted(const struct table_storage *entry, uint64_t *want)
{
	want[QUOTA_STORAGES]++;
	add_bytes(&want[QUOTA_BYTES], storage_memory(entry));
	add_bytes(&want[QUOTA_DEVICE], storage_device_memory(entry));
	if (entry->flags & STORAGE_OWN)
		want[QUOTA_DESCRIPTORS]++;
}

int storage_check_quota(struct domain *domain,
	const struct table_storage *entry, struct memory_wait *wait)
{
	struct domain *user = quota_user(domain, entry->owner);
	uint64_t want[QUOTA_KINDS] = {0};

	storage_add_wanted(entry, want);
	return user ? storage_fit_quota(user, want, wait) : 0;
}
