/* SPDX-License-Identifier: MIT */
/*
 * tarn metrics: a report as OpenMetrics 1.0 text, for any collector that reads
 * a file or a command's output.
 *
 * One table has for each family its name, kind, unit and help text, and where
 * its value lies in a record; so all samples of a family stand together, as the
 * format requires, and none lacks its help text.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <tarn/report.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"

enum kind { GAUGE, COUNTER };

/* A number of 32 or 64 bits at a place of a record; for seconds it counts
 * milliseconds. */
struct family {
	const char *name;
	enum kind kind;
	const char *unit; /* the end of the name; NULL: none */
	const char *help;
	size_t at;
	size_t size;
};

#define AT(type, member)                                                       \
	.at = offsetof(struct type, member),                                   \
	.size = sizeof(((struct type *)NULL)->member)
#define BYTES .unit = "bytes"

static const struct family daemon_families[] = {
	{"tarn_uptime_seconds", GAUGE, "seconds", "Since the daemon began.",
		AT(tarn_report_daemon, uptime_ms)},
	{"tarn_server_uptime_seconds", GAUGE, "seconds",
		"Since its server began.",
		AT(tarn_report_daemon, server_uptime_ms)},
	{"tarn_restarts", COUNTER, NULL, "Servers that died.",
		AT(tarn_report_daemon, restarts)},
	{"tarn_upgrades", COUNTER, NULL,
		"Times that it became another program.",
		AT(tarn_report_daemon, upgrades)},
	{"tarn_draining", GAUGE, NULL, "1 while the daemon is ending.",
		AT(tarn_report_daemon, draining)},
	{"tarn_clients", GAUGE, NULL, "Connections.",
		AT(tarn_report_daemon, clients)},
	{"tarn_loaders", GAUGE, NULL, "Processes that read files.",
		AT(tarn_report_daemon, loaders)},
	{"tarn_names", GAUGE, NULL, "Published names.",
		AT(tarn_report_daemon, names)},
	{"tarn_storages", GAUGE, NULL, "Storages of any kind.",
		AT(tarn_report_daemon, storages)},
	{"tarn_budget_bytes", GAUGE, BYTES, "Memory that it may take.",
		AT(tarn_report_daemon, budget)},
	{"tarn_allocated_bytes", GAUGE, BYTES, "Memory of segments.",
		AT(tarn_report_daemon, allocated)},
	{"tarn_used_bytes", GAUGE, BYTES, "Memory taken for storages.",
		AT(tarn_report_daemon, used)},
	{"tarn_own_bytes", GAUGE, BYTES,
		"Of that: in memfds of single storages, beside segments.",
		AT(tarn_report_daemon, own_memory)},
	{"tarn_device_storages", GAUGE, NULL, "Storages in memory of devices.",
		AT(tarn_report_daemon, device_storages)},
	{"tarn_device_bytes", GAUGE, BYTES, "Memory of devices that is kept.",
		AT(tarn_report_daemon, device_memory)},
	{"tarn_loads", COUNTER, NULL, "Loads that succeeded.",
		AT(tarn_report_daemon, loads)},
	{"tarn_loads_cached", COUNTER, NULL, "Loads that needed no read.",
		AT(tarn_report_daemon, loads_cached)},
	{"tarn_loads_failed", COUNTER, NULL, "Loads that failed.",
		AT(tarn_report_daemon, loads_failed)},
	{"tarn_loads_active", GAUGE, NULL, "Loads under way.",
		AT(tarn_report_daemon, loads_active)},
	{"tarn_loaded_bytes", COUNTER, BYTES, "Bytes read from files.",
		AT(tarn_report_daemon, bytes_loaded)},
	{"tarn_evictions", COUNTER, NULL, "Loaded files that were dropped.",
		AT(tarn_report_daemon, evictions)},
	{"tarn_evicted_bytes", COUNTER, BYTES, "Their bytes.",
		AT(tarn_report_daemon, evicted_bytes)},
};

static const struct family pool_families[] = {
	{"tarn_pool_size_bytes", GAUGE, BYTES, "Memory that a pool may have.",
		AT(tarn_report_pool, size)},
	{"tarn_pool_allocated_bytes", GAUGE, BYTES, "Memory of its segments.",
		AT(tarn_report_pool, allocated)},
	{"tarn_pool_huge_bytes", GAUGE, BYTES, "Of that, in huge pages.",
		AT(tarn_report_pool, huge)},
	{"tarn_pool_used_bytes", GAUGE, BYTES, "Memory taken for storages.",
		AT(tarn_report_pool, used)},
	{"tarn_pool_own_bytes", GAUGE, BYTES,
		"Of that: in memfds of single storages.",
		AT(tarn_report_pool, own_memory)},
	{"tarn_pool_device_bytes", GAUGE, BYTES,
		"Memory of devices that is kept.",
		AT(tarn_report_pool, device_memory)},
	{"tarn_pool_created_bytes", GAUGE, BYTES,
		"Bytes of storages that clients created.",
		AT(tarn_report_pool, bytes.created)},
	{"tarn_pool_names", GAUGE, NULL, "Published names.",
		AT(tarn_report_pool, names)},
	{"tarn_pool_storages", GAUGE, NULL, "Storages of any kind.",
		AT(tarn_report_pool, storages)},
	{"tarn_pool_segments", GAUGE, NULL, "Segments.",
		AT(tarn_report_pool, segments)},
	{"tarn_pool_channels", GAUGE, NULL, "Channels.",
		AT(tarn_report_pool, channels)},
	{"tarn_pool_clients", GAUGE, NULL, "Connections.",
		AT(tarn_report_pool, clients)},
	{"tarn_pool_evictions", COUNTER, NULL,
		"Loaded files that were dropped.",
		AT(tarn_report_pool, evictions)},
	{"tarn_pool_evicted_bytes", COUNTER, BYTES, "Their bytes.",
		AT(tarn_report_pool, evicted_bytes)},
};

/* ---- the format ------------------------------------------------------- */

static void put_head(
	const char *name, const char *kind, const char *unit, const char *help)
{
	printf("# TYPE %s %s\n", name, kind);
	if (unit)
		printf("# UNIT %s %s\n", name, unit);
	printf("# HELP %s %s\n", name, help);
}

/* KEY="VALUE", with what would end it escaped. */
static void put_label(const char *key, const char *value)
{
	printf("%s=\"", key);
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", stdout);
		else if (*value == '"' || *value == '\\')
			printf("\\%c", *value);
		else
			putchar(*value);
	}
	putchar('"');
}

static void put_value(const struct family *family, const void *record)
{
	const unsigned char *at = (const unsigned char *)record + family->at;
	uint64_t n = 0;

	memcpy(&n, at, family->size); /* little-endian */
	if (family->unit && strcmp(family->unit, "seconds") == 0)
		printf(" %" PRIu64 ".%03u\n", n / 1000, (unsigned)(n % 1000));
	else
		printf(" %" PRIu64 "\n", n);
}

static void put_family_head(const struct family *family)
{
	put_head(family->name, family->kind == COUNTER ? "counter" : "gauge",
		family->unit, family->help);
}

static void put_name(const struct family *family)
{
	printf("%s%s", family->name, family->kind == COUNTER ? "_total" : "");
}

/* ---- a report --------------------------------------------------------- */

static void put_build(const struct tarn_report_daemon *d)
{
	put_head("tarn_build", "info", NULL, "What runs.");
	printf("tarn_build_info{");
	put_label("version", d->version);
	printf(",protocol=\"%" PRIu32 "\",", d->protocol);
	put_label("engine", d->engine);
	putchar(',');
	put_label("loop", d->loop);
	printf("} 1\n");
}

static void put_daemon(const struct tarn_report_daemon *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(daemon_families); i++) {
		const struct family *family = &daemon_families[i];

		put_family_head(family);
		put_name(family);
		put_value(family, d);
	}
}

static void put_pools(const struct tarn_report *report)
{
	for (size_t i = 0; i < ARRAY_SIZE(pool_families); i++) {
		const struct family *family = &pool_families[i];

		put_family_head(family);
		for (uint32_t p = 0; p < report->n_pools; p++) {
			put_name(family);
			putchar('{');
			put_label("pool", report->pools[p].name);
			putchar('}');
			put_value(family, &report->pools[p]);
		}
	}
}

static void put_states(const struct tarn_report *report)
{
	static const struct {
		const char *state;
		size_t at;
	} states[] = {
		{"named", offsetof(struct tarn_report_sums, named)},
		{"cached", offsetof(struct tarn_report_sums, cached)},
		{"unnamed", offsetof(struct tarn_report_sums, unnamed)},
		{"filling", offsetof(struct tarn_report_sums, filling)},
		{"quarantined", offsetof(struct tarn_report_sums, quarantined)},
	};

	put_head("tarn_pool_storage_bytes", "gauge", "bytes",
		"Bytes of storages by what holds them.");
	for (uint32_t p = 0; p < report->n_pools; p++)
		for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
			const struct tarn_report_pool *pool = &report->pools[p];
			uint64_t n;

			memcpy(&n, (const char *)&pool->bytes + states[i].at,
				sizeof(n));
			printf("tarn_pool_storage_bytes{");
			put_label("pool", pool->name);
			printf(",state=\"%s\"} %" PRIu64 "\n", states[i].state,
				n);
		}
}

static void put_node(const char *pool, const char *node, uint64_t bytes)
{
	printf("tarn_pool_node_bytes{");
	put_label("pool", pool);
	putchar(',');
	put_label("node", node);
	printf("} %" PRIu64 "\n", bytes);
}

/* A node on which no pool has memory has no samples. */
static void put_nodes(const struct tarn_report *report)
{
	bool used[TARN_REPORT_NODES] = {0};
	char node[16];

	put_head("tarn_pool_node_bytes", "gauge", "bytes",
		"Memory of segments by the NUMA node on which it lies.");
	for (uint32_t p = 0; p < report->n_pools; p++)
		for (int i = 0; i < TARN_REPORT_NODES; i++)
			used[i] |= report->nodes[p].on_node[i] != 0;
	for (uint32_t p = 0; p < report->n_pools; p++) {
		const struct tarn_report_nodes *nodes = &report->nodes[p];
		const char *pool = report->pools[p].name;

		for (int i = 0; i < TARN_REPORT_NODES; i++) {
			snprintf(node, sizeof(node), "%d", i);
			if (used[i])
				put_node(pool, node, nodes->on_node[i]);
		}
		put_node(pool, "several", nodes->on_several);
		put_node(pool, "unknown", nodes->on_unknown);
	}
}

int cmd_metrics(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	struct tarn_report *report = NULL;
	const char *socket = NULL;
	const struct option_row rows[] = {OPTION_SOCKET(&socket), {0}};
	const struct usage usage = {.verb = "metrics",
		.arguments = "[OPTION]...",
		.about = "The figures of tarn status as OpenMetrics text, for "
			 "a collector. No daemon is\nstarted if none runs.",
		.options = rows};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	if (tarn_store_report(store, &report) < 0)
		return print_error();
	put_build(&report->daemon);
	put_daemon(&report->daemon);
	put_pools(report);
	put_states(report);
	put_nodes(report);
	puts("# EOF");
	tarn_report_free(report);
	return EXIT_DONE;
}
