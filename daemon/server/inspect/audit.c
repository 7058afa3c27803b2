/* SPDX-License-Identifier: MIT */
/*
 * What is looked at: tables for storages and names, clients, loads and
 * publications for all else. Each holds for itself what it was charged with.
 */
#include "daemon/server/inspect/audit.h"

#include "base/checked.h"
#include "daemon/server/publish/internal.h"
#include "shm/table_check.h"

typedef unsigned long long ull;

/* Of a user, or of all. */
struct held {
	uint64_t used[QUOTA_KINDS], awaited[QUOTA_KINDS];
	uint64_t in_flight;
	uint32_t n_clients, n_publishes, n_more_leases;
	struct admitted admitted;
	uint32_t n_waiting[ADMISSION_KINDS];
};

/* ---- looking ----------------------------------------------------------- */

static void add_admission(struct held *held, const struct admission *a)
{
	if (a->admitted)
		held->admitted.n[a->kind] += a->n;
	if (!a->waits)
		return;
	held->n_waiting[a->kind]++;
	held->admitted.waiting += admission_places(a);
}

/* NULL: that of any user. */
static bool is_of(const struct domain *user, const struct domain *only)
{
	return !only || user == only;
}

static void add_clients(
	struct held *held, const struct domain *pool, const struct domain *only)
{
	for (const struct client *c = pool->clients; c; c = c->next) {
		uint32_t more = MAX(c->n_leases, 1u) - 1;

		if (!is_of(c->user, only))
			continue;
		held->n_clients++;
		held->n_more_leases += more;
		held->in_flight += c->in_flight;
		held->used[QUOTA_DESCRIPTORS] += more;
		held->used[QUOTA_REQUESTS] += c->held;
	}
}

static void add_loads(
	struct held *held, const struct domain *pool, const struct domain *only)
{
	for (const struct load *l = pool->loading.loads; l; l = l->next) {
		if (!is_of(l->user, only))
			continue;
		held->used[QUOTA_LOADS]++;
		held->used[QUOTA_DESCRIPTORS] += l->n_fds;
		held->used[QUOTA_REQUESTS] += l->message.size;
		held->awaited[QUOTA_STORAGES] += l->awaited.counts;
		if (l->awaited.counts)
			held->awaited[QUOTA_BYTES] += l->awaited.bytes;
		add_admission(held, &l->admission);
	}
}

static void add_publishes(
	struct held *held, const struct domain *pool, const struct domain *only)
{
	for (const struct publish *p = pool->publishes; p; p = p->next) {
		if (!is_of(p->user, only))
			continue;
		held->n_publishes++;
		held->used[QUOTA_DESCRIPTORS] += p->n_fds;
		held->used[QUOTA_REQUESTS] += p->message.size;
		publish_add_awaited(p, held->awaited);
		add_admission(held, &p->admission);
	}
}

static void look(const struct server *server, const struct domain *only,
	struct held *ret)
{
	*ret = (struct held) {.in_flight = in_flight_left(server, only)};
	for (const struct domain *r = server->domains; r; r = r->next) {
		add_clients(ret, r, only);
		add_loads(ret, r, only);
		add_publishes(ret, r, only);
		if (is_of(r, only))
			ret->used[QUOTA_REQUESTS] += check_charged(r);
	}
}

static void add_storages(
	struct held *held, const struct domain *pool, uint32_t uid)
{
	uint32_t n =
		MIN(pool->storages.n_infos, pool->table.header->n_storages);

	for (uint32_t i = 0; i < n; i++) {
		const struct table_storage *e = &pool->table.storages[i];

		if (pool->storages.infos[i].kind == KIND_FREE ||
			quota_payer(pool, i) != uid)
			continue;
		held->used[QUOTA_STORAGES]++;
		held->used[QUOTA_BYTES] += storage_memory(e);
		held->used[QUOTA_DEVICE] += storage_device_memory(e);
		held->used[QUOTA_DESCRIPTORS] += !!(e->flags & STORAGE_OWN);
	}
	held->used[QUOTA_NAMES] += name_accounts_get(&pool->names, uid);
}

/* ---- a user ------------------------------------------------------------ */

static void compare(struct faults *faults, const struct domain *user,
	const char *what, uint64_t seen, uint64_t counted)
{
	if (seen != counted)
		fault_add(faults,
			"account of uid %u: %llu %s, the server counts %llu",
			user->spec.uid, (ull)seen, what, (ull)counted);
}

static void compare_quotas(struct faults *faults, const struct domain *user,
	const struct held *held)
{
	const struct account *account = &user->account;

	for (enum quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
		if (held->used[kind] != account->used[kind])
			fault_add(faults,
				"account of uid %u: it has %llu %s, and is "
				"charged for %llu",
				user->spec.uid, (ull)held->used[kind],
				quota_key(kind), (ull)account->used[kind]);
		if (held->awaited[kind] != account->awaited[kind])
			fault_add(faults,
				"account of uid %u: it awaits %llu %s, the "
				"server counts %llu",
				user->spec.uid, (ull)held->awaited[kind],
				quota_key(kind), (ull)account->awaited[kind]);
	}
}

/* A client whose user has no domain of its own is charged where it is. */
void audit_user(const struct domain *user, struct faults *faults)
{
	const struct account *account = &user->account;
	struct held held;

	look(user->server, user, &held);
	if (!user->spec.name[0])
		for (const struct domain *r = user->server->domains; r;
			r = r->next)
			if (r == user || r->spec.name[0])
				add_storages(&held, r, user->spec.uid);
	compare_quotas(faults, user, &held);
	compare(faults, user, "clients are connected", held.n_clients,
		account->n_connected);
	compare(faults, user, "descriptors are in flight", held.in_flight,
		account->n_in_flight);
	compare(faults, user, "loads are admitted",
		held.admitted.n[ADMISSION_LOADS],
		account->admitted.n[ADMISSION_LOADS]);
	compare(faults, user, "descriptors of publications are admitted",
		held.admitted.n[ADMISSION_PUBLISH_FDS],
		account->admitted.n[ADMISSION_PUBLISH_FDS]);
	compare(faults, user, "descriptors wait for their turn",
		held.admitted.waiting, account->admitted.waiting);
}

void audit_names(const struct domain *domain, const struct name_accounts *seen,
	struct faults *faults)
{
	const struct name_accounts *kept = &domain->names;
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
				(ull)seen->v[i].n, seen->v[i].uid, (ull)n);
	}
	if (sum != kept_sum)
		fault_add(faults,
			"names: %llu are somebody's, the server counts %llu",
			(ull)sum, (ull)kept_sum);
}

/* ---- all of them ------------------------------------------------------- */

static void compare_sum(struct faults *faults, const char *what, uint64_t seen,
	uint64_t counted)
{
	if (seen != counted)
		fault_add(faults, "all users: %llu %s, the server counts %llu",
			(ull)seen, what, (ull)counted);
}

static void check_waits(const struct domain *domain, struct faults *faults)
{
	uint32_t n = 0;

	for (const struct memory_wait *w = domain->server->memory.first; w;
		w = w->next)
		n += w->domain == domain;
	if (n != domain->growth.n_waits)
		fault_add(faults,
			"domain %u: %u requests wait for memory, the server "
			"counts %u",
			domain->number, n, domain->growth.n_waits);
}

static void check_loaders(const struct domain *domain, struct faults *faults)
{
	for (const struct loader *l = domain->loading.loaders; l; l = l->next) {
		uint32_t n = 0;

		for (const struct load *load = domain->loading.loads; load;
			load = load->next)
			n += load->loader == l;
		if (n != l->n_jobs)
			fault_add(faults,
				"loader %u: it has %u loads, the server counts "
				"%u",
				l->number, n, l->n_jobs);
	}
}

void audit_server(const struct server *server, struct faults *faults)
{
	const struct admissions *admissions = &server->admissions;
	uint32_t n_users = 0;
	struct held held;

	look(server, NULL, &held);
	for (const struct domain *r = server->domains; r; r = r->next) {
		n_users += !!r->account.n_connected;
		check_waits(r, faults);
		check_loaders(r, faults);
	}
	compare_sum(
		faults, "users are connected", n_users, server->turns.n_users);
	compare_sum(faults, "clients are connected", held.n_clients,
		server->n_clients);
	compare_sum(faults, "publications are under way", held.n_publishes,
		server->n_publishes);
	compare_sum(faults, "more lease pages", held.n_more_leases,
		server->n_more_leases);
	compare_sum(faults, "descriptors are in flight", held.in_flight,
		server->in_flight.n);
	for (int kind = 0; kind < ADMISSION_KINDS; kind++) {
		compare_sum(faults, "are admitted", held.admitted.n[kind],
			admissions->all.n[kind]);
		compare_sum(faults, "requests wait for their turn",
			held.n_waiting[kind], admissions->n_waiting[kind]);
	}
	compare_sum(faults, "descriptors wait for their turn",
		held.admitted.waiting, admissions->all.waiting);
}
