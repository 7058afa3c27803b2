/* SPDX-License-Identifier: MIT */
/*
 * Reports on the daemon: WIRE_STATUS for every client, WIRE_REPORT in detail,
 * with what the client's user may know.
 *
 * Everything in a report is counted already when a client asks for it, so that
 * frequent requests cost other clients nothing. The one exception are the
 * leases, which lie in the clients' own pages and are counted there, up to a
 * limit for all of them together: a page full of invalid entries takes long.
 */
#include "daemon/server/server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/report.h>

#include "base/checked.h"
#include "base/fail.h"
#include "config.h"
#include "shm/report_record.h"

#define REPORT_LOADS_MAX 1024u      /* picked; more is of no use to a reader */
#define REPORT_SLOTS_MAX (1u << 20) /* of lease pages: a millisecond or two */

static_assert(sizeof(struct tarn_report_daemon) == 456, "as sent");
static_assert(sizeof(struct tarn_report_pool) == 224, "as sent");
static_assert(sizeof(struct report_record) == 224 + 576, "as sent");
static_assert(sizeof(struct tarn_report_client) == 72, "as sent");
static_assert(sizeof(struct tarn_report_load) == 312, "as sent");

/* ---- sums of all domains ------------------------------------------------ */

static void add_sums(struct tarn_report_sums *to, const struct domain *domain)
{
	const struct domain_counts *c = &domain->storages.counts;

	to->named += c->kinds[KIND_NAMED].bytes;
	to->cached += c->kinds[KIND_CACHED].bytes;
	to->unnamed += c->kinds[KIND_UNNAMED].bytes;
	to->filling += c->kinds[KIND_FILLING].bytes;
	to->quarantined += c->kinds[KIND_QUARANTINED].bytes;
	to->created += c->created.bytes;
}

static uint64_t used_by(const struct domain *domain)
{
	return memory_used(&domain->pool) + domain->storages.counts.own.memory;
}

static uint64_t count_names(const struct domain *domain)
{
	return atomic_load_explicit(
		&domain->table.header->n_names, memory_order_relaxed);
}

static void count_domain(
	struct tarn_report_daemon *d, const struct domain *domain)
{
	d->pools++;
	d->names += count_names(domain);
	d->used += used_by(domain);
	d->own_memory += domain->storages.counts.own.memory;
	d->device_memory += domain->storages.counts.device;
	d->device_storages += domain->storages.counts.n_device;
	d->storages += storage_count_all(domain);
	d->evictions += domain->storages.counts.n_evicted;
	d->evicted_bytes += domain->storages.counts.bytes_evicted;
	add_sums(&d->bytes, domain);
	for (const struct loader *l = domain->loading.loaders; l; l = l->next)
		d->loaders++;
}

/* As the loaders told with each load: one user may have io_uring, and another
 * may not. */
static const char *engine_of(const struct server *server)
{
	if (server->totals.by_uring && server->totals.by_threads)
		return "both";
	if (server->totals.by_uring)
		return "io_uring";
	return server->totals.by_threads ? "threads" : "";
}

static struct tarn_report_daemon describe(const struct server *server)
{
	uint64_t now = loop_now();
	struct tarn_report_daemon d = {
		.instance = server->start.instance,
		.keeper_pid = server->start.keeper_pid,
		.server_pid = getpid(),
		.pid_namespace = server->start.pid_namespace,
		.protocol = PROTOCOL_VERSION,
		.restarts = server->start.restarts,
		.upgrades = server->start.upgrades,
		.uptime_ms = (now - server->start.began_at) / 1000000,
		.server_uptime_ms = (now - server->started_at) / 1000000,
		.budget = server->start.budget,
		.allocated = server->allocated,
		.loads = server->totals.loads,
		.loads_cached = server->totals.cached,
		.loads_failed = server->totals.failed,
		.loads_active = server->admissions.all.n[ADMISSION_LOADS],
		.bytes_loaded = server->totals.bytes,
		.clients = server->n_clients,
		.draining = server->drain.draining,
		.version = PACKAGE_VERSION,
	};

	strncpy(d.engine, engine_of(server), sizeof(d.engine) - 1);
	strncpy(d.inherited, server->start.inherited, sizeof(d.inherited) - 1);
	strncpy(d.loop, loop_name(server->loop), sizeof(d.loop) - 1);
	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		count_domain(&d, domain);
	return d;
}

/* ---- one by one ------------------------------------------------------- */

static uint32_t count_clients(const struct domain *domain)
{
	uint32_t n = 0;

	for (const struct client *c = domain->clients; c; c = c->next)
		n++;
	return n;
}

static void add_place(
	struct tarn_report_nodes *n, const struct table_segment *segment)
{
	uint32_t node = segment->place - PLACE_NODES;

	if (segment->place == PLACE_UNKNOWN)
		n->on_unknown += segment->size;
	else if (segment->place == PLACE_SPREAD || node >= TARN_REPORT_NODES)
		n->on_several += segment->size;
	else
		n->on_node[node] += segment->size;
}

static_assert(TARN_REPORT_NODES == NODES_MAX &&
		      TARN_REPORT_NODE_ONE == (int)PLACE_ON_NODE &&
		      TARN_REPORT_NODE_INTERLEAVE == (int)PLACE_INTERLEAVE,
	"a report has the numbers of place.h");

static struct tarn_report_pool describe_pool(const struct domain *domain)
{
	struct tarn_report_pool p = {
		.domain = domain->number,
		.uid = domain->spec.uid,
		.gid = domain->spec.gid,
		.mode = domain->spec.mode,
		.size = domain->spec.limit ? domain->spec.limit
					   : domain->server->start.budget,
		.used = used_by(domain),
		.page_size = 1ull << pool_page_shift(&domain->spec),
		.names = count_names(domain),
		.storages = storage_count_all(domain),
		.own_memory = domain->storages.counts.own.memory,
		.device_memory = domain->storages.counts.device,
		.evictions = domain->storages.counts.n_evicted,
		.evicted_bytes = domain->storages.counts.bytes_evicted,
		.clients = count_clients(domain),
		.channels = domain->channels.n,
		.channels_idle = channels_idle(domain),
	};

	if (domain->spec.name[0])
		snprintf(p.name, sizeof(p.name), "%s", domain->spec.name);
	else
		snprintf(p.name, sizeof(p.name), "uid:%u", domain->spec.uid);
	snprintf(
		p.pages, sizeof(p.pages), "%s", pool_pages_name(&domain->spec));
	for (uint32_t i = 0; i < domain->pool.n_segments; i++) {
		if (!table_segment_serial(&domain->table, i))
			continue;
		p.segments++;
		p.allocated += domain->table.segments[i].size;
		p.huge += domain->pool.segments[i].huge;
	}
	add_sums(&p.bytes, domain);
	return p;
}

static struct tarn_report_nodes describe_nodes(const struct domain *domain)
{
	struct tarn_report_nodes n = {
		.n = (uint32_t)__builtin_popcountll(
			domain->server->start.nodes.memory),
		.policy = domain->spec.placement.policy,
		.node = domain->spec.placement.node,
		.registers = domain->spec.flags & POOL_REGISTER,
	};

	for (uint32_t i = 0; i < domain->pool.n_segments; i++)
		if (table_segment_serial(&domain->table, i))
			add_place(&n, &domain->table.segments[i]);
	return n;
}

static uint64_t generation_of(const struct table *table, uint32_t index)
{
	return storage_word_generation(atomic_load_explicit(
		&table->storages[index].word, memory_order_relaxed));
}

/* The storages in its lease pages; a word that fits no storage holds none. */
static void count_page(const struct table *table, const struct lease_page *page,
	uint32_t used, struct tarn_report_client *ret)
{
	uint32_t n = atomic_load_explicit(
		&table->header->n_storages, memory_order_relaxed);

	for (uint32_t i = 0; i < used; i++) {
		uint64_t word = atomic_load_explicit(
			&page->slots[i], memory_order_relaxed);
		uint32_t index =
			(uint32_t)(word & ((1u << TABLE_INDEX_BITS) - 1));

		if (word && index < n &&
			generation_of(table, index) ==
				word >> TABLE_INDEX_BITS) {
			ret->leases++;
			ret->leased_bytes += table->storages[index].size;
		}
	}
}

static void count_leases(const struct client *client, uint32_t *slots_left,
	struct tarn_report_client *ret)
{
	for (uint32_t i = 0; i < client->n_leases; i++) {
		const struct lease_page *page = client->leases[i];
		uint32_t used = MIN(
			atomic_load_explicit(&page->used, memory_order_relaxed),
			(uint32_t)LEASE_SLOTS);

		if (used > *slots_left) {
			ret->leases = UINT32_MAX;
			ret->leased_bytes = 0;
			return;
		}
		*slots_left -= used;
		count_page(&client->domain->table, page, used, ret);
	}
}

static struct tarn_report_client describe_client(
	const struct client *client, uint64_t now, uint32_t *slots_left)
{
	struct tarn_report_client c = {
		.number = client->number,
		.pid = client->pid,
		.uid = client->uid,
		.domain = client->domain->number,
		.protocol = client->version,
		.loads = client->n_loads,
		.idle_ms = (now - client->last_message_at) / 1000000,
		.connected_ms = (now - client->came_at) / 1000000,
	};

	count_leases(client, slots_left, &c);
	return c;
}

static uint32_t state_of(const struct load *load)
{
	switch (load->state) {
	case LOAD_UNADMITTED:
	case LOAD_NEW:
	case LOAD_IDENTIFYING:
		return TARN_REPORT_LOAD_QUEUED;
	case LOAD_WAITING:
		return TARN_REPORT_LOAD_WAITING;
	case LOAD_FILLING:
		return TARN_REPORT_LOAD_READING;
	case LOAD_SHARING:
		return TARN_REPORT_LOAD_SHARING;
	case LOAD_DROPPING:
		return TARN_REPORT_LOAD_STOPPING;
	}
	return 0;
}

static struct tarn_report_load describe_load(
	const struct load *load, uint64_t now)
{
	const struct load *reads = load->share.with ? load->share.with : load;
	struct tarn_report_load l = {
		.client = load->client ? load->client->number : 0,
		.domain = load->domain->number,
		.state = state_of(load),
		.total = load->size,
		.running_ms = (now - load->began_at) / 1000000,
	};

	snprintf(
		l.label, sizeof(l.label), "%s", load->label ? load->label : "");
	if (reads->state == LOAD_FILLING)
		l.done = MIN(load->size,
			atomic_load_explicit(
				&load->domain->table
					 .storages[reads->bytes.index]
					 .landed,
				memory_order_relaxed));
	load_memory(load, &l.memory_ready, &l.memory_wanted);
	return l;
}

/* ---- a report --------------------------------------------------------- */

static bool is_master(const struct client *client)
{
	return client->uid == 0 || client->uid == geteuid();
}

/* Its own pool, and that of its uid: by domain, or by its owner. */
static bool sees_domain(
	const struct client *client, const struct domain *domain)
{
	return is_master(client) || client->domain == domain ||
	       domain->spec.uid == client->uid;
}

static bool sees_client(const struct client *client, const struct client *c)
{
	return is_master(client) || c->uid == client->uid;
}

static bool sees_load(const struct client *client, const struct load *l)
{
	return is_master(client) ||
	       (l->client && l->client->uid == client->uid);
}

/* The room that all records take; REPORT_LOADS_MAX loads at most. */
static size_t measure(const struct client *client, struct msg_report_is *ret)
{
	uint32_t n_loads = 0;

	*ret = (struct msg_report_is) {
		.daemon_size = sizeof(struct tarn_report_daemon),
		.pool_size = sizeof(struct report_record),
		.client_size = sizeof(struct tarn_report_client),
		.load_size = sizeof(struct tarn_report_load),
	};
	for (const struct domain *r = client->domain->server->domains; r;
		r = r->next) {
		ret->n_pools += sees_domain(client, r);
		for (const struct client *c = r->clients; c; c = c->next)
			ret->n_clients += sees_client(client, c);
		for (const struct load *l = r->loading.loads; l; l = l->next)
			n_loads += sees_load(client, l);
	}
	ret->n_loads = MIN(n_loads, REPORT_LOADS_MAX);
	if (ret->n_loads < n_loads)
		ret->flags |= REPORT_CUT;
	return sizeof(*ret) + ret->daemon_size +
	       (size_t)ret->n_pools * ret->pool_size +
	       (size_t)ret->n_clients * ret->client_size +
	       (size_t)ret->n_loads * ret->load_size;
}

static void write_pools(const struct client *client, struct report_record *to)
{
	for (const struct domain *r = client->domain->server->domains; r;
		r = r->next)
		if (sees_domain(client, r))
			*to++ = (struct report_record) {
				describe_pool(r), describe_nodes(r)};
}

static void write_clients(const struct client *client,
	struct tarn_report_client *to, uint64_t now)
{
	uint32_t slots_left = REPORT_SLOTS_MAX;

	for (const struct domain *r = client->domain->server->domains; r;
		r = r->next)
		for (const struct client *c = r->clients; c; c = c->next)
			if (sees_client(client, c))
				*to++ = describe_client(c, now, &slots_left);
}

static void write_loads(const struct client *client,
	struct tarn_report_load *to, uint32_t n, uint64_t now)
{
	for (const struct domain *r = client->domain->server->domains; r;
		r = r->next)
		for (const struct load *l = r->loading.loads; l && n;
			l = l->next)
			if (sees_load(client, l)) {
				*to++ = describe_load(l, now);
				n--;
			}
}

int report_send(struct client *client, uint32_t serial)
{
	struct msg_report_is head;
	size_t size = measure(client, &head);
	_cleanup_free_ unsigned char *body = malloc(size);
	unsigned char *at = body;
	struct tarn_report_daemon daemon;
	uint64_t now = loop_now();
	int r = quota_check_message(client->user, size);

	if (r < 0)
		return r;
	if (!body)
		return tarn_fail(
			ENOMEM, "no memory for a report of %zu bytes", size);
	daemon = describe(client->domain->server);
	at = mempcpy(at, &head, sizeof(head));
	at = mempcpy(at, &daemon, sizeof(daemon));
	write_pools(client, (struct report_record *)(void *)at);
	at += (size_t)head.n_pools * sizeof(struct report_record);
	write_clients(client, (struct tarn_report_client *)(void *)at, now);
	at += (size_t)head.n_clients * sizeof(struct tarn_report_client);
	write_loads(client, (struct tarn_report_load *)(void *)at, head.n_loads,
		now);
	client_reply(client, WIRE_OUT(WIRE_REPORT_IS, serial, body, size));
	return 0;
}
