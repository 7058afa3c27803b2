/* SPDX-License-Identifier: MIT */
/*
 * Rules: each a control region, the pool that belongs to it, and what the
 * server needs to serve both.
 *
 * A new one comes as a descriptor that is not sealed yet, so that it can be
 * mapped for writing; one that a server before this had was mapped by the
 * keeper and inherited.
 */
#include "daemon/server.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/fd.h"

struct rule *rule_find(struct server *server, uint32_t number)
{
	struct rule *rule;

	for (rule = server->rules; rule; rule = rule->next)
		if (rule->number == number)
			return rule;
	tarn_fail(EPROTO, "there is no rule %u", number);
	return NULL;
}

void rule_leave(struct rule *rule)
{
	/* Clients first: what they load is taken from the loaders. */
	while (rule->clients)
		client_free(rule->clients);
	loader_free_all(rule);
	rule->worker = worker_free(rule->worker);
}

void rule_free(struct rule *rule)
{
	rule_leave(rule);
	channels_free(rule);
	rule->writer = table_writer_free(rule->writer);
	lease_batch_done(&rule->batch);
	rule->alloc = alloc_free(rule->alloc);
	rule->frozen = alloc_free(rule->frozen);
	rule->closer = closer_free(rule->closer);
	segments_free(rule);
	free(rule->infos);
	name_accounts_free(&rule->names);
	cache_free(rule);
	fd_close(rule->table_fd);
	table_unmap(&rule->table);
	free(rule);
}

static int rule_open(struct server *server, struct rule *rule, int fd)
{
	struct table_pool pool = {
		.id = rule->number,
		.page_shift = rule->spec.page_shift,
		.reach = server->start.reach,
	};
	const struct server_start *start = &server->start;
	int r = 0;

	if (fd >= 0)
		r = table_map(fd, true, &rule->table);
	else if (rule->number < start->n_tables)
		rule->table = start->tables[rule->number];
	else
		r = tarn_fail(
			EPROTO, "rule %u was not inherited", rule->number);
	if (r == 0)
		r = table_writer_take_over(
			&rule->table, rebuild_name, rule, &rule->writer);
	if (r == 0)
		r = alloc_new(&rule->alloc);
	if (r == 0)
		r = alloc_new(&rule->frozen);
	if (r == 0)
		r = lease_batch_init(&rule->batch);
	if (r == 0)
		r = closer_new(&rule->closer);
	if (r == 0)
		r = worker_new(server->loop, &rule->worker);
	if (r == 0 && rule->table.header->n_pools == 0)
		r = table_add_pool(rule->writer, &pool);
	return r;
}

static int rule_add(struct server *server, const struct msg_rule *from, int fd)
{
	struct rule *rule = calloc(1, sizeof(*rule));
	int r;

	if (!rule)
		return tarn_fail(ENOMEM, "out of memory");
	rule->server = server;
	rule->number = from->rule;
	rule->spec = from->spec;
	rule->table_fd = -1;
	rule->frozen_seen = UINT64_MAX;
	r = rule_open(server, rule, fd);
	if (r < 0) {
		rule_free(rule);
		return r;
	}
	quota_set(rule);
	rule->next = server->rules;
	server->rules = rule;
	return 0;
}

int rule_come(struct server *server, const struct msg_rule *from,
	struct wire_message *m)
{
	_cleanup_fd_ int fd = wire_take_fd(m, 0);
	struct msg_rule answer = *from;
	int r = rule_add(server, from, fd);

	if (fd < 0)
		return r;
	/* Of one that it could not map here the keeper tells again: without
	 * it, nobody under it would ever be served. */
	answer.failed = r < 0;
	server_tell_keeper(
		server, D_RULE_MAPPED, &answer, sizeof(answer), NULL, 0);
	return r;
}

/* Clients that came before the region was sealed are heard from now on. */
static void on_client_first(struct rule *rule)
{
	for (struct client *c = rule->clients; c; c = c->next)
		client_listen(c);
}

int rule_ready(struct server *server, const struct msg_rule *from,
	struct wire_message *m)
{
	struct rule *rule = rule_find(server, from->rule);

	if (!rule)
		return -EPROTO;
	fd_close(rule->table_fd);
	rule->table_fd = wire_take_fd(m, 0);
	on_client_first(rule);
	return 0;
}
