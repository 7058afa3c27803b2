/* SPDX-License-Identifier: MIT */
/*
 * Who is charged for a name: who published it.
 *
 * Not who has made the storage that it leads to: whoever may write in a shared
 * pool could publish a million names onto another's tensor, with nothing on
 * his own account, until the other could publish none. So each version carries
 * its publisher, and each rule knows how many of its names are whose, which a
 * server that takes over counts again on its way along all names. A version of
 * before there were publishers is charged to the owner of its storage.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server.h"

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

/* ---- who --------------------------------------------------------------- */

uint32_t quota_name_payer(
	const struct rule *rule, uint32_t index, uint32_t publisher)
{
	return publisher == TABLE_NOBODY ? rule->table.storages[index].owner
					 : publisher;
}

/* His account has a place since quota_check_names, so there is none to add. */
void quota_count_names(
	struct rule *rule, uint32_t index, uint32_t publisher, int64_t n)
{
	uint32_t uid = quota_name_payer(rule, index, publisher);
	struct rule *home = quota_home(rule, uid);

	name_accounts_add(&rule->names, uid, n);
	if (home)
		home->used[QUOTA_NAMES] += (uint64_t)n;
}

int quota_find_name(struct rule *rule, uint32_t index, uint32_t publisher)
{
	return name_accounts_add(
		&rule->names, quota_name_payer(rule, index, publisher), 1);
}

void quota_found_names(struct rule *rule)
{
	for (uint32_t i = 0; i < rule->names.n; i++) {
		const struct name_account *account = &rule->names.v[i];
		struct rule *home = quota_home(rule, account->uid);

		if (home)
			home->used[QUOTA_NAMES] += account->n;
	}
}

/* ---- may he have more? ------------------------------------------------- */

static bool is_his(
	const struct rule *rule, const struct named *named, uint32_t uid)
{
	struct tarn_descriptor d;
	uint32_t publisher;

	return table_publisher(&rule->table, named->name, named->name_size, &d,
		       &publisher) >= 0 &&
	       d.storage < rule->n_infos &&
	       quota_name_payer(rule, d.storage, publisher) == uid;
}

/* How many of them he has already. */
static uint64_t count_replaced(
	const struct rule *rule, uint32_t uid, const struct name_list *names)
{
	const unsigned char *at = names->at;
	struct named named;
	uint64_t n = 0;

	for (uint32_t i = 0; i < names->n; i++) {
		if (name_next(names, &at, &named) < 0)
			break;
		n += is_his(rule, &named, uid);
	}
	return n;
}

int quota_check_names(
	struct rule *rule, uint32_t uid, const struct name_list *names)
{
	const struct rule *home = quota_home(rule, uid);
	int r = name_accounts_add(&rule->names, uid, 0);

	if (r < 0 || !home || quota_check(home, QUOTA_NAMES, names->n) == 0)
		return r;
	/* Only at the limit is it worth asking which are new. */
	return quota_check(
		home, QUOTA_NAMES, names->n - count_replaced(rule, uid, names));
}
