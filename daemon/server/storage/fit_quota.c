/* SPDX-License-Identifier: MIT */
/*
 * The quota of a user, for what lies in tables: storages and their bytes.
 *
 * Files that are only kept in case somebody wants them never stand in their
 * owner's way: they are dropped, the oldest first, when their bytes are what
 * is missing.
 */
#include "base/checked.h"
#include "daemon/server/server.h"

/* One of the files of that user: the one used longest ago in the first pool
 * with any. */
static bool evict_one_of(struct server *server, uint32_t uid)
{
	for (struct domain *domain = server->domains; domain;
		domain = domain->next) {
		uint32_t i = cache_oldest(domain, uid);

		if (i == UINT32_MAX)
			continue;
		cache_evict(domain, i, "its owner's quota is reached");
		collect(domain);
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
	uint64_t lacks = user->account.used[kind] -
			 (user->account.quota.limit[kind] - n);
	const struct domain *domain = user->server->domains;

	for (; domain && lacks; domain = domain->next)
		lacks -= MIN(lacks,
			reclaimable(domain, user->spec.uid, kind, lacks));
	return !lacks;
}

int storage_fit_quota(struct domain *user, enum quota_kind kind, uint64_t n)
{
	if (quota_fits(&user->account, kind, n))
		return 0;
	if (n > user->account.quota.limit[kind])
		return quota_check(&user->account, kind, n);
	collect_all(user->server);
	if (quota_fits(&user->account, kind, n))
		return 0;
	if (!could_fit(user, kind, n))
		return quota_check(&user->account, kind, n);
	while (!quota_fits(&user->account, kind, n))
		if (!evict_one_of(user->server, user->spec.uid))
			return quota_check(&user->account, kind, n);
	return 0;
}

int storage_check_quota(
	struct domain *domain, const struct table_storage *entry)
{
	struct domain *user = quota_user(domain, entry->owner);
	int r;

	if (!user)
		return 0;
	r = storage_fit_quota(user, QUOTA_STORAGES, 1);
	if (r == 0)
		r = storage_fit_quota(user, QUOTA_BYTES, storage_memory(entry));
	if (r == 0 && entry->flags & STORAGE_OWN)
		r = quota_check(&user->account, QUOTA_DESCRIPTORS, 1);
	return r;
}
