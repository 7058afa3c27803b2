/* SPDX-License-Identifier: MIT */
/*
 * Domains: each a control region, the pool that belongs to it, and what the
 * server needs to serve both.
 *
 * The region comes as two descriptors: by the first it is mapped for writing,
 * the second is for clients, and read-only. One that a server before this had
 * comes in the same way, also after an upgrade.
 */
#include "daemon/server/server.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"

void domain_leave(struct domain *domain)
{
	/* Clients first: what they load is taken from the loaders. */
	while (domain->clients)
		client_free(domain->clients);
	load_end_all(domain);
	loader_free_all(domain);
	domain->worker = worker_free(domain->worker);
}

static void cancel_deadlines(struct domain *domain)
{
	struct deadline *all[] = {&domain->channels.next_look,
		&domain->channels.over, &domain->storages.next_collect,
		&domain->storages.next_evict, &domain->closer_timer,
		&domain->pool.shrink_timer, &domain->loading.uncached_end};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		deadline_set(loop_deadlines(domain->server->loop), all[i], 0);
	log_budget_end(
		&domain->account.lines, loop_deadlines(domain->server->loop));
}

void domain_free(struct domain *domain)
{
	domain_leave(domain);
	cancel_deadlines(domain);
	channels_free(domain);
	domain->writer = table_writer_free(domain->writer);
	lease_batch_done(&domain->storages.batch);
	lanes_free(&domain->pool);
	domain->pool.old_alloc = alloc_free(domain->pool.old_alloc);
	segments_free(&domain->pool);
	free(domain->storages.infos);
	name_accounts_free(&domain->names);
	fd_store_free(&domain->unclosed);
	cache_free(domain);
	uncached_free(domain);
	fd_close(domain->table_fd);
	table_unmap(&domain->table);
	free(domain);
}

static int domain_open(struct server *server, struct domain *domain, int fd)
{
	struct table_pool pool = {
		.id = domain->number,
		.page_shift = pool_page_shift(&domain->spec),
		.reach = server->start.reach,
		.placement = domain->spec.placement,
		.flags = domain->spec.flags & POOL_REGISTER
				 ? TABLE_POOL_REGISTER
				 : 0,
	};
	int r = table_map(fd, true, &domain->table);

	if (r == 0)
		r = table_writer_take_over(
			&domain->table, rebuild_name, domain, &domain->writer);
	if (r == 0)
		r = alloc_new(&domain->pool.alloc);
	if (r == 0)
		r = alloc_new(&domain->pool.old_alloc);
	if (r == 0)
		r = lease_batch_init(&domain->storages.batch);
	if (r == 0)
		r = worker_new(server->loop, &domain->worker);
	if (r == 0 && domain->table.header->n_pools == 0)
		r = table_add_pool(domain->writer, &pool);
	return r;
}

static int domain_add(struct server *server, const struct msg_domain *from,
	struct wire_message *m)
{
	_cleanup_fd_ int fd = wire_take_fd(m, 0);
	struct domain *domain = calloc(1, sizeof(*domain));
	int r;

	if (!domain)
		return tarn_fail(ENOMEM, "out of memory");
	domain->server = server;
	domain->number = from->domain;
	domain->spec = from->spec;
	domain->table_fd = wire_take_fd(m, 1);
	domain->closer = closer_get(from->domain);
	domain->pool.old_used = UINT64_MAX;
	if (server->start.lanes > 1)
		domain->pool.lane_size =
			server->start.reach / server->start.lanes;
	r = domain_open(server, domain, fd);
	if (r < 0) {
		domain_free(domain);
		return r;
	}
	quota_set(domain);
	domain->next = server->domains;
	server->domains = domain;
	return 0;
}

/* ---- nothing is left ----------------------------------------------------- */

/* Nothing of its user's is charged for anywhere. */
static bool owes_nothing(const struct domain *domain)
{
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		if (domain->account.used[kind])
			return false;
	return true;
}

/* A loader of any pool may be reading its user's files. */
static bool has_loaders(const struct domain *domain)
{
	for (const struct domain *r = domain->server->domains; r; r = r->next)
		for (const struct loader *l = r->loading.loaders; l;
			l = l->next)
			if (l->domain == domain || l->user == domain)
				return true;
	return false;
}

static bool has_segments(const struct domain *domain)
{
	for (uint32_t i = 0; i < domain->pool.n_segments; i++)
		if (domain->pool.segments[i].state != SEGMENT_GONE)
			return true;
	return false;
}

static bool has_storages(const struct domain *domain)
{
	for (int kind = 0; kind < STORAGE_KINDS; kind++)
		if (domain->storages.counts.kinds[kind].n)
			return true;
	return domain->table.header->n_names || domain->channels.first;
}

static bool is_empty(const struct domain *domain)
{
	return !domain->spec.name[0] && !domain->account.n_connected &&
	       !domain->account.n_in_flight && !domain->clients &&
	       !domain->loading.loads && !domain->publishes &&
	       !domain->growth.growing && !domain->loading.loader_wanted &&
	       owes_nothing(domain) && !has_storages(domain) &&
	       !has_segments(domain) && !has_loaders(domain) &&
	       closer_is_idle(domain->closer) && !domain->unclosed.n;
}

void domain_poll(struct domain *domain)
{
	struct msg_domain empty = {
		.domain = domain->number, .spec = domain->spec};

	if (domain->reported_empty || !is_empty(domain))
		return;
	domain->reported_empty =
		server_send_keeper(domain->server, D_DOMAIN_EMPTY, &empty,
			sizeof(empty), NULL, 0) == 0;
}

/* Another user has got it, in a region of its own. It is empty: the keeper
 * knows the clients that it accepted since it was reported empty, and would
 * have kept it for them. */
static void forget_former(struct server *server, uint32_t number)
{
	struct domain **p = &server->domains, *domain;

	while (*p && (*p)->number != number)
		p = &(*p)->next;
	domain = *p;
	if (!domain)
		return;
	*p = domain->next;
	domain_free(domain);
}

/* ---- messages of the keeper -------------------------------------- */

int domain_come(struct server *server, const struct msg_domain *from,
	struct wire_message *m)
{
	int r;

	forget_former(server, from->domain);
	r = domain_add(server, from, m);
	/* In a take-over it is the server that goes. */
	if (r < 0 && server->serving)
		server_send_keeper(
			server, D_DOMAIN_FAILED, from, sizeof(*from), NULL, 0);
	return r;
}
