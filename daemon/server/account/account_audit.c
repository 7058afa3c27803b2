/* SPDX-License-Identifier: MIT */
/*
 * Checks accounts: a user must be charged for exactly what it has, in its own
 * pool and others, which is found here by looking at everything.
 */
#include "base/checked.h"
#include "daemon/server/server.h"
#include "shm/table_check.h"

static void charge(const struct domain *pool, uint32_t uid, uint64_t *used)
{
	uint32_t n =
		MIN(pool->storages.n_infos, pool->table.header->n_storages);

	for (uint32_t i = 0; i < n; i++) {
		const struct table_storage *e = &pool->table.storages[i];

		if (pool->storages.infos[i].kind == KIND_FREE ||
			quota_payer(pool, i) != uid)
			continue;
		used[QUOTA_STORAGES]++;
		used[QUOTA_BYTES] += storage_memory(e);
	}
	used[QUOTA_NAMES] += name_accounts_get(&pool->names, uid);
}

static void check_account(const struct domain *user, struct faults *faults)
{
	static const enum quota_kind kinds[] = {
		QUOTA_STORAGES, QUOTA_BYTES, QUOTA_NAMES};
	uint64_t used[QUOTA_KINDS] = {0};

	if (user->spec.name[0])
		return;
	for (const struct domain *r = user->server->domains; r; r = r->next)
		if (r == user || r->spec.name[0])
			charge(r, user->spec.uid, used);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (used[kinds[i]] != user->account.used[kinds[i]])
			fault_add(faults,
				"account of uid %u: it has %llu %s, and is "
				"charged for %llu",
				user->spec.uid,
				(unsigned long long)used[kinds[i]],
				quota_key(kinds[i]),
				(unsigned long long)
					user->account.used[kinds[i]]);
}

static void check_whose(const struct name_accounts *seen,
	const struct name_accounts *kept, struct faults *faults)
{
	uint64_t sum = 0, kept_sum = 0;

	for (uint32_t i = 0; i < kept->n; i++)
		kept_sum += kept->v[i].n;
	for (uint32_t i = 0; i < seen->n; i++) {
		uint64_t n = name_accounts_get(kept, seen->v[i].uid);

		sum += seen->v[i].n;
		if (n != seen->v[i].n)
			fault_add(faults,
				"names: %llu are uid %u's, the server counts "
				"%llu",
				(unsigned long long)seen->v[i].n,
				seen->v[i].uid, (unsigned long long)n);
	}
	if (sum != kept_sum)
		fault_add(faults,
			"names: %llu are somebody's, the server counts %llu",
			(unsigned long long)sum, (unsigned long long)kept_sum);
}

void account_audit(const struct domain *domain,
	const struct name_accounts *whose, struct faults *faults)
{
	check_whose(whose, &domain->names, faults);
	check_account(domain, faults);
}
