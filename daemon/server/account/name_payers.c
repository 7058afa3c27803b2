/* SPDX-License-Identifier: MIT */
/*
 * A name is charged to the user that published it.
 *
 * It is not charged to the creator of its storage: a user that may write in a
 * shared pool could publish a million names for another user's tensor, with
 * nothing on its own account, until the other could publish none. So each
 * version carries its publisher, and each domain counts its names by
 * publisher; a server that takes over counts them again while it walks all
 * names.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server/server.h"

/* ---- accounts ---------------------------------------------------------- */

/* Where it is, or would have to be. */
static uint32_t place_of(const struct name_accounts *accounts, uint32_t uid)
{
	uint32_t low = 0, high = accounts->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (accounts->v[middle].uid < uid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t name_accounts_get(const struct name_accounts *accounts, uint32_t uid)
{
	uint32_t i = place_of(accounts, uid);

	return i < accounts->n && accounts->v[i].uid == uid ? accounts->v[i].n
							    : 0;
}

int name_accounts_add(struct name_accounts *accounts, uint32_t uid, int64_t n)
{
	uint32_t i = place_of(accounts, uid), room;
	struct name_account *v;

	if (i == accounts->n || accounts->v[i].uid != uid) {
		if (accounts->n == accounts->room) {
			room = MAX(accounts->room * 2, 4u);
			v = reallocarray(accounts->v, room, sizeof(*v));
			if (!v)
				return tarn_fail(ENOMEM, "out of memory");
			accounts->v = v;
			accounts->room = room;
		}
		memmove(&accounts->v[i + 1], &accounts->v[i],
			(accounts->n - i) * sizeof(*v));
		accounts->v[i] = (struct name_account) {.uid = uid};
		accounts->n++;
	}
	accounts->v[i].n += (uint64_t)n;
	return 0;
}

void name_accounts_free(struct name_accounts *accounts)
{
	free(accounts->v);
	*accounts = (struct name_accounts) {0};
}

/* ---- publishers ---------------------------------------------------- */

/* The account has had an entry since names_check_quota: none is added. */
void quota_count_names(struct domain *domain, uint32_t publisher, int64_t n)
{
	struct domain *user = quota_user(domain, publisher);

	name_accounts_add(&domain->names, publisher, n);
	if (user)
		user->account.used[QUOTA_NAMES] += (uint64_t)n;
}

int quota_find_name(struct domain *domain, uint32_t publisher)
{
	return name_accounts_add(&domain->names, publisher, 1);
}

void quota_found_names(struct domain *domain)
{
	for (uint32_t i = 0; i < domain->names.n; i++) {
		const struct name_account *account = &domain->names.v[i];
		struct domain *user = quota_user(domain, account->uid);

		if (user)
			user->account.used[QUOTA_NAMES] += account->n;
	}
}
