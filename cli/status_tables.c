/* SPDX-License-Identifier: MIT */
/*
 * The tables of a report, in 80 columns: pools, clients, loads under way. The
 * first questions of a user come first: which pool is full, which client holds
 * it, what is slow.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/status.h"
#include "cli/text.h"
#include "cli/size.h"

#define BAR 20 /* columns */
#define LABEL_MAX 21
#define ROWS_MAX_CLIENTS 40 /* people see no more; --json has all */

/* ---- pieces ----------------------------------------------------------- */

/* The largest unit alone: "12 s", "3 min", "5 h", "9 d". */
static const char *short_duration(uint64_t ms, char buf[SIZE_TEXT_MAX])
{
	static const struct {
		uint64_t seconds;
		const char *unit;
	} units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};
	uint64_t s = ms / 1000;
	size_t i = 0;

	while (i < ARRAY_SIZE(units) && s < units[i].seconds)
		i++;
	if (i == ARRAY_SIZE(units))
		snprintf(buf, SIZE_TEXT_MAX, "%u s", (unsigned)s);
	else
		snprintf(buf, SIZE_TEXT_MAX, "%u %s",
			(unsigned)MIN(s / units[i].seconds, 99999999ull),
			units[i].unit);
	return buf;
}

/* Rounded down: only a full one shows 100 %. */
static unsigned percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned)(100.0 * (double)MIN(part, whole) /
				  (double)whole)
		     : 0;
}

static void print_bar(uint64_t part, uint64_t whole)
{
	unsigned n = percent(part, whole) * BAR / 100;

	putchar('[');
	for (unsigned i = 0; i < BAR; i++)
		putchar(i < n ? '#' : '.');
	printf("] %3u%%", percent(part, whole));
}

/* ---- tables ----------------------------------------------------------- */

/* What it asks for, and what came of it. */
static void print_pages(const struct tarn_report_pool *p, bool registers)
{
	char size[SIZE_TEXT_MAX];

	/* A daemon that knows nothing of them says nothing. */
	if (!p->allocated || !p->pages[0])
		return;
	printf("%15spages: ", "");
	text_put(stdout, p->pages);
	printf("; %u %% of %s in huge ones%s\n", percent(p->huge, p->allocated),
		size_text((double)p->allocated, size),
		registers ? "; register = yes" : "");
}

static void print_device(const struct tarn_report_pool *p)
{
	char size[SIZE_TEXT_MAX];

	if (p->device_memory)
		printf("%15sdevices: %s of their memory\n", "",
			size_text((double)p->device_memory, size));
}

static void print_pools(const struct tarn_report *report)
{
	char used[SIZE_TEXT_MAX], taken[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];

	if (!report->n_pools)
		return;
	printf("\n%-14s %-27s %11s %11s %11s\n", "POOL", "USED OF LIMIT",
		"USED", "TAKEN", "LIMIT");
	for (uint32_t i = 0; i < report->n_pools; i++) {
		const struct tarn_report_pool *p = &report->pools[i];

		text_put_padded(stdout, p->name, 14);
		putchar(' ');
		print_bar(p->used, p->size);
		printf(" %11s %11s %11s\n", size_text((double)p->used, used),
			size_text(
				(double)(p->allocated + p->own_memory), taken),
			size_text((double)p->size, size));
		print_pages(p, report->nodes[i].registers);
		print_device(p);
	}
}

/* Those that hold most come first, then those that did something last. */
static int by_weight(const void *a, const void *b)
{
	const struct tarn_report_client *const *x = a, *const *y = b;

	if ((*x)->leased_bytes != (*y)->leased_bytes)
		return (*x)->leased_bytes < (*y)->leased_bytes ? 1 : -1;
	return ((*x)->idle_ms > (*y)->idle_ms) -
	       ((*x)->idle_ms < (*y)->idle_ms);
}

static void print_client(
	const struct tarn_report *report, const struct tarn_report_client *c)
{
	char comm[COMM_MAX], leases[SIZE_TEXT_MAX], held[SIZE_TEXT_MAX],
		idle[SIZE_TEXT_MAX], here[SIZE_TEXT_MAX], pid[16] = "-";

	if (c->pid)
		snprintf(pid, sizeof(pid), "%d", c->pid);
	snprintf(leases, sizeof(leases), "%" PRIu32, c->leases);
	printf("%8s ", pid);
	text_put_padded(stdout, c->pid ? pid_comm(c->pid, comm) : "-", 15);
	printf(" %6" PRIu32 " ", c->uid);
	text_put_padded(stdout, report_pool_name(report, c->domain), 10);
	printf(" %6s %11s %8s %8s\n", c->leases == UINT32_MAX ? "many" : leases,
		c->leases == UINT32_MAX
			? "?"
			: size_text((double)c->leased_bytes, held),
		short_duration(c->idle_ms, idle),
		short_duration(c->connected_ms, here));
}

static void print_clients(const struct tarn_report *report)
{
	const struct tarn_report_client **rows;
	uint32_t n = report->n_clients;

	rows = n ? malloc(n * sizeof(rows[0])) : NULL;
	if (!rows)
		return;
	for (uint32_t i = 0; i < n; i++)
		rows[i] = &report->clients[i];
	qsort(rows, n, sizeof(rows[0]), by_weight);
	printf("\n%8s %-15s %6s %-10s %6s %11s %8s %8s\n", "PID", "COMMAND",
		"UID", "POOL", "LEASES", "HELD", "IDLE", "HERE");
	for (uint32_t i = 0; i < MIN(n, ROWS_MAX_CLIENTS); i++)
		print_client(report, rows[i]);
	if (n > ROWS_MAX_CLIENTS)
		printf("... and %" PRIu32 " more; --json has all\n",
			n - ROWS_MAX_CLIENTS);
	free(rows);
}

/* The end of a path matters more than its beginning; from a character on. */
static const char *label_end(const char *label)
{
	size_t n = strlen(label);

	label += n > LABEL_MAX ? n - LABEL_MAX : 0;
	while ((*label & 0xc0) == 0x80)
		label++;
	return label;
}

static void print_running(const struct tarn_report *report)
{
	char size[SIZE_TEXT_MAX], time[SIZE_TEXT_MAX];

	if (!report->n_loads)
		return;
	printf("\n%-27s %-8s %11s %8s %s\n", "LOADS UNDER WAY", "STATE", "SIZE",
		"SINCE", "FILE");
	for (uint32_t i = 0; i < report->n_loads; i++) {
		const struct tarn_report_load *l = &report->loads[i];

		if (l->memory_wanted)
			print_bar(l->memory_ready, l->memory_wanted);
		else
			print_bar(l->done, l->total);
		printf(" %-8s %11s %8s ",
			l->memory_wanted ? "memory"
					 : report_load_state(l->state),
			size_text((double)l->total, size),
			short_duration(l->running_ms, time));
		text_put(stdout, label_end(l->label));
		putchar('\n');
	}
	if (report->cut)
		printf("... and more that the daemon did not list\n");
}

void status_print_tables(const struct tarn_report *report)
{
	print_pools(report);
	status_print_nodes(report);
	print_clients(report);
	print_running(report);
}
