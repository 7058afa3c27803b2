/* SPDX-License-Identifier: MIT */
/*
 * A report for people, in 80 columns: the daemon, a line for each fact about
 * it; tables follow (status_tables.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "cli/status.h"
#include "cli/text.h"
#include "cli/size.h"

/* ---- pieces ----------------------------------------------------------- */

static void print_duration(uint64_t ms)
{
	uint64_t s = ms / 1000;

	if (s >= 86400)
		printf("%" PRIu64 " d ", s / 86400);
	if (s >= 3600)
		printf("%" PRIu64 " h ", s / 3600 % 24);
	if (s >= 60)
		printf("%" PRIu64 " min ", s / 60 % 60);
	printf("%" PRIu64 " s", s % 60);
}

static void print_bytes(const char *before, uint64_t n, const char *after)
{
	char text[SIZE_TEXT_MAX];

	printf("%s%s%s", before, size_text((double)n, text), after);
}

/* ---- the daemon ------------------------------------------------------- */

static void print_head(const char *socket, const char *version)
{
	printf("tarnd ");
	text_put(stdout, version);
	printf(" at ");
	text_put(stdout, socket);
	putchar('\n');
}

static void print_loads(
	uint64_t all, uint64_t cached, uint64_t failed, uint64_t active)
{
	printf("  loads     %" PRIu64 ", of them %" PRIu64
	       " from the cache; %" PRIu64 " failed, %" PRIu64 " under way\n",
		all, cached, failed, active);
}

static void print_read(const struct tarn_report_daemon *d)
{
	print_bytes("  read      ", d->bytes_loaded, "");
	if (d->engine[0]) {
		printf(" by ");
		text_put(stdout, strcmp(d->engine, "both") == 0
					 ? "io_uring and threads"
					 : d->engine);
	}
	printf("; event loop: ");
	text_put(stdout, d->loop);
	putchar('\n');
}

/* The memory taken of the budget: segments, with the part that storages use,
 * and storages that have memory of their own. */
static void print_memory(
	uint64_t used, uint64_t allocated, uint64_t own, uint64_t budget)
{
	print_bytes("  memory    ", allocated + own, "");
	print_bytes(" taken of a budget of ", budget, "\n");
	print_bytes("            ", allocated, " in segments, ");
	print_bytes("", used - MIN(own, used), " of it used");
	if (own)
		print_bytes("; ", own, " beside them");
	putchar('\n');
}

/* A kind without bytes is left out. */
static void print_sums(const struct tarn_report_sums *b)
{
	const struct {
		const char *what;
		uint64_t bytes;
	} rows[] = {
		{"named", b->named},
		{"cached", b->cached},
		{"unnamed", b->unnamed},
		{"being filled", b->filling},
		{"in quarantine", b->quarantined},
	};
	const char *before = "            ";

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!rows[i].bytes)
			continue;
		print_bytes(before, rows[i].bytes, " ");
		fputs(rows[i].what, stdout);
		before = ", ";
	}
	if (before[0] == ',')
		putchar('\n');
	if (b->created)
		print_bytes("            ", b->created,
			" of it created by clients\n");
}

/* Those of the pools that are seen. */
static void print_channels(const struct tarn_report *report)
{
	uint64_t n = 0, idle = 0;

	for (uint32_t i = 0; i < report->n_pools; i++) {
		n += report->pools[i].channels;
		idle += report->pools[i].channels_idle;
	}
	printf("; channels: %" PRIu64, n);
	if (idle)
		printf(" (%" PRIu64 " idle)", idle);
	putchar('\n');
}

static void print_daemon(const char *socket, const struct tarn_report *report)
{
	const struct tarn_report_daemon *d = &report->daemon;

	print_head(socket, d->version);
	printf("  running   for ");
	print_duration(d->uptime_ms);
	if (d->keeper_pid)
		printf(", keeper %d, server %d", d->keeper_pid, d->server_pid);
	else
		printf(", in another pid namespace");
	printf("%s\n", d->draining ? "; it is ending" : "");
	if (d->restarts) {
		printf("  restarts  %" PRIu32 ", the last one ", d->restarts);
		print_duration(d->server_uptime_ms);
		printf(" ago\n");
	}
	if (d->inherited[0]) {
		printf("  inherited ");
		text_put(stdout, d->inherited);
		putchar('\n');
	}
	if (d->upgrades)
		printf("  upgrades  %" PRIu32 "\n", d->upgrades);
	print_memory(d->used, d->allocated, d->own_memory, d->budget);
	print_sums(&d->bytes);
	if (d->device_storages) {
		print_bytes("  devices   ", d->device_memory, "");
		printf(" of their memory, in %" PRIu64 " storages\n",
			d->device_storages);
	}
	printf("  tensors   %" PRIu64 " names, %" PRIu64 " storages", d->names,
		d->storages);
	print_channels(report);
	print_loads(
		d->loads, d->loads_cached, d->loads_failed, d->loads_active);
	print_read(d);
	if (d->evictions) {
		printf("  evicted   %" PRIu64 " files", d->evictions);
		print_bytes(", ", d->evicted_bytes, "\n");
	}
	printf("  clients   %" PRIu32 ", loaders: %" PRIu32 "\n", d->clients,
		d->loaders);
}

void status_print(const struct shown *shown)
{
	print_daemon(shown->socket, shown->report);
	status_print_tables(shown->report);
}
