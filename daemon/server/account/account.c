/* SPDX-License-Identifier: MIT */
/*
 * What each user has taken, and whether it may take more.
 *
 * A user's account lies in the domain of its own memory. The contents of a
 * table are counted where every change of them passes (storage_recount, and
 * the two functions that change a storage's names), so no caller can forget
 * to, and a server that rebuilds itself from the tables counts them again on
 * the way. A request is checked against the quota before anything is taken.
 *
 * A storage is charged to its owner as long as it has a name, by which the
 * owner can find and remove it. Without a name it is kept by its holders, and
 * one of them is charged: the user that was charged before, the owner at first,
 * as long as it is one of them, so that charges rarely move. After the death of
 * a server the choice begins anew with the owner.
 *
 * Files that are only kept in the cache never use up their owner's quota: they
 * are dropped, the oldest first, when their bytes are needed.
 */
#include "daemon/server/server.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server/account/account.h"

/* Of no user: for a uid for which no domain could be made. */
struct domain *quota_user(struct domain *domain, uint32_t uid)
{
	if (!domain->spec.name[0] && domain->spec.uid == uid)
		return domain;
	return domain_of_user(domain->server, uid);
}

/* ---- limits ------------------------------------------------------------ */

void quota_set(struct domain *user)
{
	user->account.uid = user->spec.uid;
	user->account.quota =
		config_quota(user->server->start.config, user->spec.uid);
}

void quota_set_all(struct server *server)
{
	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		quota_set(domain);
}

bool quota_fits(const struct account *account, enum quota_kind kind, uint64_t n)
{
	uint64_t sum;

	return account->quota.limit[kind] == QUOTA_UNSAID ||
	       (!add_u64(account->used[kind], n, &sum) &&
		       sum <= account->quota.limit[kind]);
}

static bool in_bytes(enum quota_kind kind)
{
	return kind == QUOTA_BYTES || kind == QUOTA_REQUESTS ||
	       kind == QUOTA_DEVICE;
}

static void print(char *text, size_t size, enum quota_kind kind, uint64_t n)
{
	if (in_bytes(kind))
		snprintf(text, size, "%.1f MiB", (double)n / 1048576);
	else
		snprintf(text, size, "%" PRIu64, n);
}

static const char *name_of(enum quota_kind kind)
{
	if (kind == QUOTA_DEVICE)
		return "device memory";
	return kind == QUOTA_BYTES ? "memory" : quota_key(kind);
}

static int exceeded(
	const struct account *account, enum quota_kind kind, uint64_t n)
{
	char has[32], more[32], limit[32];

	print(has, sizeof(has), kind, account->used[kind]);
	print(more, sizeof(more), kind, n);
	print(limit, sizeof(limit), kind, account->quota.limit[kind]);
	return tarn_fail(EDQUOT,
		"uid %u has %s and wants %s more, but its quota of %s is %s "
		"(%s under [quota] in tarnd.conf)",
		account->uid, has, more, name_of(kind), limit, quota_key(kind));
}

int quota_check(const struct account *account, enum quota_kind kind, uint64_t n)
{
	return quota_fits(account, kind, n) ? 0 : exceeded(account, kind, n);
}

int quota_charge(struct account *account, enum quota_kind kind, uint64_t n)
{
	int r = quota_check(account, kind, n);

	if (r == 0)
		account->used[kind] += n;
	return r;
}

void quota_return(struct account *account, enum quota_kind kind, uint64_t n)
{
	account->used[kind] -= n;
}

bool quota_may_log(struct domain *user)
{
	return log_may(&user->account.lines, loop_deadlines(user->server->loop),
		loop_now(), user->spec.uid);
}

/* ---- storages ---------------------------------------------------------- */

uint32_t quota_payer(const struct domain *domain, uint32_t index)
{
	uint32_t holder = domain->storages.infos[index].holder;

	return holder ? holder - 1 : domain->table.storages[index].owner;
}

static void count(struct domain *domain, uint32_t index, uint64_t sign)
{
	const struct table_storage *entry = &domain->table.storages[index];
	struct domain *user = quota_user(domain, quota_payer(domain, index));

	if (!user)
		return;
	user->account.used[QUOTA_STORAGES] += sign;
	user->account.used[QUOTA_BYTES] += sign * storage_memory(entry);
	user->account.used[QUOTA_DEVICE] += sign * storage_device_memory(entry);
	if (entry->flags & STORAGE_OWN)
		user->account.used[QUOTA_DESCRIPTORS] += sign;
}

void quota_count_storage(struct domain *domain, uint32_t index, bool there)
{
	count(domain, index, there ? 1 : -1ull);
	if (!there)
		domain->storages.infos[index].holder = 0;
}

void quota_hand_on(struct domain *domain, uint32_t index, uint32_t uid)
{
	if (quota_payer(domain, index) == uid)
		return;
	count(domain, index, -1ull);
	domain->storages.infos[index].holder =
		uid == domain->table.storages[index].owner ? 0 : uid + 1;
	count(domain, index, 1);
}

void quota_own(struct domain *domain, uint32_t index, uint32_t uid)
{
	quota_hand_on(domain, index, uid);
	/* A reader gets the old or the new value meanwhile. */
	domain->table.storages[index].owner = uid;
	domain->storages.infos[index].holder = 0;
}

/* ---- messages ---------------------------------------------------------- */

void quota_count_answers(struct client *client)
{
	uint64_t now = wire_writer_held(client->writer);

	client->user->account.used[QUOTA_REQUESTS] += now - client->held;
	client->held = now;
}

/* Answers that the client has read since then no longer count, which is noticed
 * here only where there was no other answer to send. */
static void recount(const struct domain *user)
{
	for (const struct domain *r = user->server->domains; r; r = r->next)
		for (struct client *c = r->clients; c; c = c->next)
			if (c->user == user && c->held && !c->gone &&
				wire_flush(c->writer, c->sock) >= 0)
				quota_count_answers(c);
}

int quota_check_message(const struct domain *user, uint64_t size)
{
	if (!quota_fits(&user->account, QUOTA_REQUESTS, size))
		recount(user);
	return quota_check(&user->account, QUOTA_REQUESTS, size);
}

int quota_charge_message(
	struct domain *user, const struct wire_message *message)
{
	uint64_t n_fds = (uint64_t)message->n_fds;
	int r = quota_charge(&user->account, QUOTA_DESCRIPTORS, n_fds);

	if (r == 0) {
		r = quota_check_message(user, message->size);
		if (r < 0)
			quota_return(&user->account, QUOTA_DESCRIPTORS, n_fds);
		else
			user->account.used[QUOTA_REQUESTS] += message->size;
	}
	return r;
}
