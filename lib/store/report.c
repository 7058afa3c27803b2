/* SPDX-License-Identifier: MIT */
/*
 * Reports: from the daemon's format to the caller's.
 *
 * The sender states the size of its records, so each is copied into one of this
 * version: fields that a newer daemon has appended are dropped, and fields that
 * an older one does not have are 0.
 */
#include <tarn/report.h>

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/pid_namespace.h"
#include "lib/store/store.h"
#include "shm/report_record.h"

/* The unread rest of a reply. */
struct rest {
	const unsigned char *at;
	size_t left;
};

/* Copies n received records into zeroed records of this version. */
static int take_records(
	struct rest *rest, uint32_t n, uint32_t theirs, size_t ours, void *ret)
{
	unsigned char *records;
	uint64_t size;

	if (theirs < 8 || mul_u64(n, theirs, &size) || size > rest->left)
		return tarn_fail(EPROTO,
			"report: %u records of %u bytes do not fit the %zu "
			"that came",
			n, theirs, rest->left);
	records = calloc(n + 1ul, ours);
	if (!records)
		return tarn_fail(
			ENOMEM, "report: out of memory for %u records", n);
	for (uint32_t i = 0; i < n; i++)
		memcpy(records + i * ours, rest->at + (size_t)i * theirs,
			MIN((size_t)theirs, ours));
	rest->at += size;
	rest->left -= size;
	memcpy(ret, &records, sizeof(records));
	return 0;
}

/* Terminates all texts, whatever was sent. */
static void end_texts(
	struct tarn_report *report, struct tarn_report_load *loads)
{
	struct tarn_report_daemon *d = &report->daemon;

	d->engine[sizeof(d->engine) - 1] = '\0';
	d->loop[sizeof(d->loop) - 1] = '\0';
	d->inherited[sizeof(d->inherited) - 1] = '\0';
	d->version[sizeof(d->version) - 1] = '\0';
	for (uint32_t i = 0; i < report->n_loads; i++)
		loads[i].label[sizeof(loads[i].label) - 1] = '\0';
}

/* Pids of another namespace mean other processes here, or none. Where one of
 * the two namespaces is unknown, no pid is trusted. */
static void hide_pids(struct tarn_report_daemon *d,
	struct tarn_report_client *clients, uint32_t n_clients)
{
	if (d->pid_namespace && d->pid_namespace == pid_namespace())
		return;
	d->keeper_pid = d->server_pid = 0;
	for (uint32_t i = 0; i < n_clients; i++)
		clients[i].pid = 0;
}

/* The two halves of each record, which are arrays of their own for callers. */
static int split(struct tarn_report *report,
	const struct report_record *records, uint32_t n)
{
	struct tarn_report_pool *pools = calloc(n + 1ul, sizeof(*pools));
	struct tarn_report_nodes *nodes = calloc(n + 1ul, sizeof(*nodes));

	report->pools = pools;
	report->nodes = nodes;
	if (!pools || !nodes)
		return tarn_fail(
			ENOMEM, "report: out of memory for %u records", n);
	for (uint32_t i = 0; i < n; i++) {
		pools[i] = records[i].pool;
		pools[i].name[sizeof(pools[i].name) - 1] =
			pools[i].pages[sizeof(pools[i].pages) - 1] = '\0';
		nodes[i] = records[i].nodes;
	}
	return 0;
}

static int parse(const struct wire_message *reply, struct tarn_report *report)
{
	struct rest rest = {.at = reply->body, .left = reply->size};
	_cleanup_free_ struct tarn_report_daemon *daemon = NULL;
	_cleanup_free_ struct report_record *records = NULL;
	struct tarn_report_client *clients = NULL;
	struct tarn_report_load *loads = NULL;
	struct msg_report_is head;
	int r;

	memcpy(&head, rest.at, sizeof(head));
	rest.at += sizeof(head);
	rest.left -= sizeof(head);
	r = take_records(&rest, 1, head.daemon_size, sizeof(*daemon), &daemon);
	if (r >= 0)
		r = take_records(&rest, head.n_pools, head.pool_size,
			sizeof(*records), &records);
	if (r >= 0)
		r = split(report, records, head.n_pools);
	if (r >= 0)
		r = take_records(&rest, head.n_clients, head.client_size,
			sizeof(*clients), &clients);
	report->clients = clients;
	if (r >= 0)
		r = take_records(&rest, head.n_loads, head.load_size,
			sizeof(*loads), &loads);
	report->loads = loads;
	if (r < 0)
		return r;
	hide_pids(daemon, clients, head.n_clients);
	report->daemon = *daemon;
	report->n_pools = head.n_pools;
	report->n_clients = head.n_clients;
	report->n_loads = head.n_loads;
	report->cut = head.flags & REPORT_CUT;
	end_texts(report, loads);
	return 0;
}

int tarn_store_report(tarn_store *store, struct tarn_report **ret)
{
	const struct msg_report want = {0};
	struct wire_message reply = {0};
	struct tarn_report *report;
	int r = connection_call(&store->connection, WIRE_REPORT, &want,
		sizeof(want), WIRE_REPORT_IS, sizeof(struct msg_report_is),
		&reply);

	if (r < 0)
		return r;
	report = calloc(1, sizeof(*report));
	if (report)
		r = parse(&reply, report);
	else
		r = tarn_fail(ENOMEM, "report: out of memory");
	wire_message_clear(&reply);
	if (r < 0) {
		tarn_report_free(report);
		return r;
	}
	*ret = report;
	return 0;
}

struct tarn_report *tarn_report_free(struct tarn_report *report)
{
	if (!report)
		return NULL;
	free((void *)report->pools);
	free((void *)report->nodes);
	free((void *)report->clients);
	free((void *)report->loads);
	free(report);
	return NULL;
}
