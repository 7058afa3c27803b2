/* SPDX-License-Identifier: MIT */
/*
 * A report as one JSON object. The name of a field never changes; a count is a
 * number, a list an array.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/checked.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/status.h"

struct number {
	const char *key;
	uint64_t value;
};

static void put_numbers(json_t *object, const struct number *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_put(object, numbers[i].key, json_u64(numbers[i].value));
}

/* It is random and of 64 bits, which many JSON readers round. */
static void put_instance(json_t *object, uint64_t instance)
{
	char text[17];

	snprintf(text, sizeof(text), "%016" PRIx64, instance);
	json_put(object, "instance", json_text(text));
}

/* null: it means nothing in this process's pid namespace. */
static void put_pid(json_t *object, const char *key, int32_t pid)
{
	json_put(
		object, key, pid ? must(json_integer(pid)) : must(json_null()));
}

static void put_pids(json_t *object, int32_t keeper, int32_t server)
{
	put_pid(object, "keeper_pid", keeper);
	put_pid(object, "server_pid", server);
}

/* ---- reports ---------------------------------------------------------- */

static json_t *sums_json(const struct tarn_report_sums *sums)
{
	const struct number numbers[] = {
		{"named", sums->named},
		{"cached", sums->cached},
		{"unnamed", sums->unnamed},
		{"filling", sums->filling},
		{"quarantined", sums->quarantined},
		{"created", sums->created},
	};
	json_t *object = must(json_object());

	put_numbers(object, numbers, ARRAY_SIZE(numbers));
	return object;
}

static json_t *client_json(
	const struct tarn_report *report, const struct tarn_report_client *c)
{
	const struct number numbers[] = {
		{"number", c->number},
		{"uid", c->uid},
		{"protocol", c->protocol},
		{"leased_bytes", c->leased_bytes},
		{"loads", c->loads},
		{"idle_ms", c->idle_ms},
		{"connected_ms", c->connected_ms},
	};
	json_t *object = must(json_object());
	char comm[COMM_MAX];

	put_pid(object, "pid", c->pid);
	json_put(object, "command", json_text(pid_comm(c->pid, comm)));
	json_put(
		object, "pool", json_text(report_pool_name(report, c->domain)));
	json_put(object, "leases",
		c->leases == UINT32_MAX ? must(json_null())
					: json_u64(c->leases));
	put_numbers(object, numbers, ARRAY_SIZE(numbers));
	return object;
}

/* Those of one pool, or all. */
static json_t *clients_json(
	const struct tarn_report *report, const struct tarn_report_pool *of)
{
	json_t *array = must(json_array());

	for (uint32_t i = 0; i < report->n_clients; i++) {
		const struct tarn_report_client *c = &report->clients[i];

		if ((!of || c->domain == of->domain) &&
			json_array_append_new(array, client_json(report, c)))
			must(NULL);
	}
	return array;
}

static json_t *pool_json(
	const struct tarn_report *report, const struct tarn_report_pool *p)
{
	const struct number numbers[] = {
		{"domain", p->domain},
		{"uid", p->uid},
		{"gid", p->gid},
		{"size", p->size},
		{"allocated", p->allocated},
		{"used", p->used},
		{"page_size", p->page_size},
		{"huge", p->huge},
		{"segments", p->segments},
		{"channels", p->channels},
		{"channels_idle", p->channels_idle},
		{"names", p->names},
		{"storages", p->storages},
		{"own_memory", p->own_memory},
		{"device_memory", p->device_memory},
		{"evictions", p->evictions},
		{"evicted_bytes", p->evicted_bytes},
		{"n_clients", p->clients},
	};
	json_t *object = must(json_object());
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", p->mode & 07777);
	json_put(object, "name", json_text(p->name));
	json_put(object, "mode", json_text(mode));
	json_put(object, "pages", json_text(p->pages));
	json_put(object, "register",
		json_boolean(report->nodes[p - report->pools].registers));
	put_numbers(object, numbers, ARRAY_SIZE(numbers));
	json_put(object, "bytes", sums_json(&p->bytes));
	status_put_nodes(object, &report->nodes[p - report->pools]);
	json_put(object, "clients", clients_json(report, p));
	return object;
}

static json_t *load_json(
	const struct tarn_report *report, const struct tarn_report_load *l)
{
	const struct number numbers[] = {
		{"client", l->client},
		{"done", l->done},
		{"total", l->total},
		{"running_ms", l->running_ms},
		{"memory_ready", l->memory_ready},
		{"memory_wanted", l->memory_wanted},
	};
	json_t *object = must(json_object());

	json_put(object, "label", json_text(l->label));
	json_put(
		object, "pool", json_text(report_pool_name(report, l->domain)));
	json_put(object, "state", json_text(report_load_state(l->state)));
	put_numbers(object, numbers, ARRAY_SIZE(numbers));
	return object;
}

static void put_daemon(json_t *object, const struct tarn_report_daemon *d)
{
	const struct number numbers[] = {
		{"protocol", d->protocol},
		{"restarts", d->restarts},
		{"upgrades", d->upgrades},
		{"n_clients", d->clients},
		{"loaders", d->loaders},
		{"uptime_ms", d->uptime_ms},
		{"server_uptime_ms", d->server_uptime_ms},
		{"names", d->names},
		{"storages", d->storages},
		{"budget", d->budget},
		{"allocated", d->allocated},
		{"used", d->used},
		{"own_memory", d->own_memory},
		{"device_storages", d->device_storages},
		{"device_memory", d->device_memory},
		{"cached", d->bytes.cached},
		{"loads", d->loads},
		{"loads_cached", d->loads_cached},
		{"loads_active", d->loads_active},
		{"loads_failed", d->loads_failed},
		{"bytes_loaded", d->bytes_loaded},
		{"evictions", d->evictions},
		{"evicted_bytes", d->evicted_bytes},
	};

	json_put(object, "version", json_text(d->version));
	put_instance(object, d->instance);
	put_pids(object, d->keeper_pid, d->server_pid);
	json_put(object, "engine", json_text(d->engine));
	json_put(object, "loop", json_text(d->loop));
	json_put(object, "inherited", json_text(d->inherited));
	json_put(object, "draining", must(json_boolean(d->draining)));
	put_numbers(object, numbers, ARRAY_SIZE(numbers));
	json_put(object, "bytes", sums_json(&d->bytes));
}

json_t *status_json(const struct shown *shown)
{
	const struct tarn_report *report = shown->report;
	json_t *object, *pools, *loads;

	object = must(json_object());
	pools = must(json_array());
	loads = must(json_array());
	json_put(object, "socket", json_text(shown->socket));
	put_daemon(object, &report->daemon);
	for (uint32_t i = 0; i < report->n_pools; i++)
		if (json_array_append_new(
			    pools, pool_json(report, &report->pools[i])))
			must(NULL);
	for (uint32_t i = 0; i < report->n_loads; i++)
		if (json_array_append_new(
			    loads, load_json(report, &report->loads[i])))
			must(NULL);
	json_put(object, "pools", pools);
	json_put(object, "clients", clients_json(report, NULL));
	json_put(object, "running_loads", loads);
	return object;
}
