/* SPDX-License-Identifier: MIT */
/*
 * The picture of tarn top. The tables share the lines of the terminal, one each
 * in turn, so that none crowds out another; rows that are not shown are
 * counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/channel_table.h"
#include "cli/draw.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/screen.h"
#include "cli/status.h"
#include "cli/text.h"
#include "cli/top.h"
#include "cli/size.h"

#define NARROW 79  /* columns that the tables need */
#define BAR_MAX 40 /* columns of a bar of the tables */

struct picture {
	const struct look *look;
	FILE *f;
	int columns;
	struct channel_table channels;
};

/* ---- pieces ---------------------------------------------------------- */

static void put_share(struct picture *p, uint64_t part, uint64_t whole, int n,
	const char *mark)
{
	char bar[3 * GAUGE_COLUMNS_MAX + 1], rest[3 * GAUGE_COLUMNS_MAX + 1];
	double share = whole ? (double)MIN(part, whole) / (double)whole : 0;

	gauge_bar(bar, rest, n, share, draw_utf8());
	fprintf(p->f, "%s%s" MARK_PLAIN MARK_DIM "%s" MARK_PLAIN " %3d%%", mark,
		bar, rest, (int)(share * 100));
}

static const char *bytes_or_dash(double n, char buf[SIZE_TEXT_MAX])
{
	return n < 0 ? strcpy(buf, "-") : size_text(n, buf);
}

static void put_time(FILE *f, uint64_t s)
{
	if (s >= 86400)
		fprintf(f, "%" PRIu64 " d ", s / 86400);
	fprintf(f, "%02u:%02u:%02u", (unsigned)(s / 3600 % 24),
		(unsigned)(s / 60 % 60), (unsigned)(s % 60));
}

/* How much wider than the narrowest a table may be. */
static int spare(const struct picture *p)
{
	return MAX(p->columns - NARROW, 0);
}

/* ---- the daemon ------------------------------------------------------ */

static void put_head(struct picture *p)
{
	const struct tarn_report_daemon *d = &p->look->report->daemon;

	fputs(MARK_BOLD "tarnd ", p->f);
	text_put(p->f, d->version);
	fputs(MARK_PLAIN " at ", p->f);
	text_put(p->f, p->look->socket);
	fputs(MARK_DIM "  up ", p->f);
	put_time(p->f, d->uptime_ms / 1000);
	fputs(MARK_PLAIN, p->f);
	if (d->draining)
		fputs(MARK_YELLOW "  ending" MARK_PLAIN, p->f);
	if (d->restarts)
		fprintf(p->f, MARK_YELLOW "  restarts %" PRIu32 MARK_PLAIN,
			d->restarts);
	fputc('\n', p->f);
}

static void put_memory(struct picture *p)
{
	const struct tarn_report_daemon *d = &p->look->report->daemon;
	char taken[SIZE_TEXT_MAX], budget[SIZE_TEXT_MAX];
	const struct {
		uint64_t bytes;
		const char *what;
	} parts[] = {
		{d->bytes.named, "named"},
		{d->bytes.cached, "cached"},
		{d->bytes.unnamed, "held only"},
		{d->bytes.filling, "being filled"},
		{d->bytes.quarantined, "in quarantine"},
		{d->allocated + d->own_memory -
				MIN(d->used, d->allocated + d->own_memory),
			"free"},
	};
	const char *before = "           ";

	fputs("memory     ", p->f);
	put_share(p, d->allocated + d->own_memory, d->budget,
		24 + MIN(spare(p), 30), MARK_GREEN);
	fprintf(p->f, "  %s of %s\n",
		size_text((double)(d->allocated + d->own_memory), taken),
		size_text((double)d->budget, budget));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!parts[i].bytes)
			continue;
		fprintf(p->f, "%s%s %s", before,
			size_text((double)parts[i].bytes, taken),
			parts[i].what);
		before = ", ";
	}
	fputs(before[0] == ',' ? "\n" : "           nothing is stored\n", p->f);
}

static void put_activity(struct picture *p)
{
	const struct tarn_report_daemon *d = &p->look->report->daemon;
	char curve[3 * GAUGE_COLUMNS_MAX + 1], bytes[SIZE_TEXT_MAX];
	double rate = look_rate(p->look);

	gauge_curve(curve, MIN(p->look->n, 32), p->look->curve, p->look->n,
		draw_utf8());
	bytes_or_dash(rate, bytes);
	fprintf(p->f, "reading    %s%-*s " MARK_GREEN "%s" MARK_PLAIN "\n",
		bytes, 13 - (int)strlen(bytes), rate < 0 ? "" : "/s",
		p->look->n ? curve : "");
	fprintf(p->f,
		"loads      %" PRIu64 " (%" PRIu64 " cached, %" PRIu64
		" failed), clients %" PRIu32 ", names %" PRIu64
		", channels %zu\n",
		d->loads, d->loads_cached, d->loads_failed, d->clients,
		d->names, p->look->channels.n);
}

/* ---- tables: a heading, or row i ------------------------------------- */

static void load_line(struct picture *p, size_t i)
{
	const struct tarn_report_load *l = &p->look->report->loads[i];
	char size[SIZE_TEXT_MAX], speed[SIZE_TEXT_MAX];
	bool memory = l->state == TARN_REPORT_LOAD_WAITING && l->memory_wanted;
	double rate = memory ? -1 : look_load_rate(p->look, l);
	uint64_t left = rate > 0 ? (uint64_t)((double)(l->total -
						       MIN(l->done, l->total)) /
					      rate)
				 : 0;

	text_put_end(p->f, l->label, 22 + spare(p) / 2);
	fprintf(p->f, " %-8s ",
		memory ? "memory" : report_load_state(l->state));
	put_share(p, memory ? l->memory_ready : l->done,
		memory ? l->memory_wanted : l->total,
		MIN(12 + spare(p) / 2, BAR_MAX),
		memory ? MARK_YELLOW : MARK_GREEN);
	fprintf(p->f, " %11s %11s", size_text((double)l->total, size),
		bytes_or_dash(rate, speed));
	if (rate > 0 && left < 6000)
		fprintf(p->f, " %2u:%02u", (unsigned)left / 60,
			(unsigned)left % 60);
}

static void load_head(struct picture *p)
{
	text_put_end(p->f, "LOAD", 22 + spare(p) / 2);
	fprintf(p->f, " %-8s %-*s %11s %11s %5s", "STATE",
		MIN(12 + spare(p) / 2, BAR_MAX) + 5, "DONE", "SIZE", "BYTES/S",
		"LEFT");
}

static void channel_line(struct picture *p, size_t i)
{
	channel_table_row(&p->channels, p->look->channels.at[i]);
}

static void channel_head(struct picture *p)
{
	channel_table_head(&p->channels);
}

static void pool_line(struct picture *p, size_t i)
{
	const struct tarn_report_pool *pool = &p->look->report->pools[i];
	char used[SIZE_TEXT_MAX], limit[SIZE_TEXT_MAX];

	text_put_end(p->f, pool->name, 22 + spare(p) / 2);
	fputc(' ', p->f);
	put_share(p, pool->used, pool->size, MIN(12 + spare(p) / 2, BAR_MAX),
		MARK_GREEN);
	fprintf(p->f, " %11s %11s %6" PRIu64 " %7" PRIu32,
		size_text((double)pool->used, used),
		size_text((double)pool->size, limit), pool->names,
		pool->clients);
}

static void pool_head(struct picture *p)
{
	text_put_end(p->f, "POOL", 22 + spare(p) / 2);
	fprintf(p->f, " %-*s %11s %11s %6s %7s",
		MIN(12 + spare(p) / 2, BAR_MAX) + 5, "USED", "BYTES", "LIMIT",
		"NAMES", "CLIENTS");
}

/* A client of another pid namespace has no pid here. */
static void client_line(struct picture *p, size_t i)
{
	const struct tarn_report *report = p->look->report;
	const struct tarn_report_client *c = &report->clients[i];
	char comm[COMM_MAX], held[SIZE_TEXT_MAX], pid[16] = "-";

	if (c->pid)
		snprintf(pid, sizeof(pid), "%d", c->pid);
	fprintf(p->f, "%10s ", pid);
	text_put_padded(p->f, pid_comm(c->pid, comm), 16);
	fprintf(p->f, " %10" PRIu32 " ", c->uid);
	text_put_end(
		p->f, report_pool_name(report, c->domain), 14 + spare(p) / 2);
	fprintf(p->f, " %12s",
		c->leases == UINT32_MAX
			? "?"
			: size_text((double)c->leased_bytes, held));
	fputs("  ", p->f);
	put_time(p->f, c->idle_ms / 1000);
}

static void client_head(struct picture *p)
{
	fprintf(p->f, "%10s %-16s %10s %-*s %12s  %8s", "CLIENT PID", "COMMAND",
		"UID", 14 + spare(p) / 2, "POOL", "HOLDS", "IDLE");
}

static const struct table {
	void (*head)(struct picture *);
	void (*line)(struct picture *, size_t i);
} tables[] = {
	{load_head, load_line},
	{channel_head, channel_line},
	{pool_head, pool_line},
	{client_head, client_line},
};

#define TABLES ARRAY_SIZE(tables)
#define HEAD_LINES 5

/* ---- sharing the lines ---------------------------------------------- */

/* A table costs an empty line, its heading, and a line a row. */
static void share_lines(int lines, const size_t n[TABLES], size_t ret[TABLES])
{
	int left = lines - HEAD_LINES;
	bool more = true;

	for (size_t t = 0; t < TABLES; t++) {
		ret[t] = 0;
		left -= n[t] ? 2 : 0;
	}
	while (left > 0 && more) {
		more = false;
		for (size_t t = 0; t < TABLES && left > 0; t++) {
			if (ret[t] == n[t])
				continue;
			ret[t]++;
			left--;
			more = true;
		}
	}
}

static void put_table(
	struct picture *p, const struct table *table, size_t n, size_t shown)
{
	/* The last line may have to count the rest. */
	size_t rows = shown < n ? shown - 1 : n;

	if (!shown)
		return;
	fputs("\n" MARK_BOLD, p->f);
	table->head(p);
	fputs(MARK_PLAIN "\n", p->f);
	for (size_t i = 0; i < rows; i++) {
		table->line(p, i);
		fputc('\n', p->f);
	}
	if (rows < n)
		fprintf(p->f, MARK_DIM "... and %zu more" MARK_PLAIN "\n",
			n - rows);
}

char *top_picture(const struct look *look, int columns, int lines)
{
	const struct tarn_report *report = look->report;
	const size_t n[TABLES] = {report->n_loads, look->channels.n,
		report->n_pools, report->n_clients};
	size_t shown[TABLES], size;
	char *text = NULL;
	struct picture p = {.look = look, .columns = columns};

	p.f = must(open_memstream(&text, &size));
	channel_table_fit(&p.channels, &look->channels, p.f, columns);
	share_lines(lines, n, shown);
	put_head(&p);
	put_memory(&p);
	put_activity(&p);
	for (size_t t = 0; t < TABLES; t++)
		put_table(&p, &tables[t], n[t], shown[t]);
	if (fclose(p.f) == EOF)
		must(NULL);
	return text;
}

/* ---- the same for programs ------------------------------------------- */

static json_t *rate_json(double rate)
{
	return must(rate < 0 ? json_null() : json_real(rate));
}

json_t *top_json(const struct look *look)
{
	const struct shown shown = {
		.socket = look->socket, .report = look->report};
	json_t *object = status_json(&shown), *array = must(json_array());

	json_put(object, "read_bytes_per_second", rate_json(look_rate(look)));
	for (size_t i = 0; i < look->channels.n; i++) {
		const struct row *row = look->channels.at[i];
		json_t *channel = channel_json(row->name, &row->last.info);

		json_put(channel, "published_per_second",
			rate_json(row->fresh ? -1 : row->rates.published));
		json_put(channel, "bytes_per_second",
			rate_json(row->fresh ? -1 : row->rates.bytes));
		if (json_array_append_new(array, channel) < 0)
			must(NULL);
	}
	json_put(object, "channels", array);
	return object;
}
