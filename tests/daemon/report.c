/* SPDX-License-Identifier: MIT */
/*
 * Reports: the sums agree with what was done, each client is listed with what
 * it holds, and a load under way with its file; no user sees another's; and a
 * report that is longer than a datagram arrives whole.
 */
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "base/fd.h"
#include "lib/store/store.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define CROWD 1000 /* 72,000 bytes of report: more than a frame */
#define STRANGER 12345

static struct daemon server;
static struct witness witness;

static struct tarn_report *reported(tarn_store *store)
{
	struct tarn_report *report = NULL;

	if (tarn_store_report(store, &report) < 0)
		bail("a report: %s", tarn_error_message());
	return report;
}

static const struct tarn_report_client *client_of(
	const struct tarn_report *report, pid_t pid, uint32_t leases)
{
	for (uint32_t i = 0; i < report->n_clients; i++)
		if (report->clients[i].pid == pid &&
			report->clients[i].leases == leases)
			return &report->clients[i];
	return NULL;
}

static uint64_t sum(const struct tarn_report_sums *s)
{
	return s->named + s->cached + s->unnamed + s->filling + s->quarantined;
}

static void test_sums(void)
{
	struct tarn_report_daemon s = witness_status(&witness);
	struct tarn_report *r = reported(witness.store);
	const struct tarn_report_daemon *d = &r->daemon;
	const struct tarn_report_client *c = client_of(r, getpid(), 1);

	is_int(server.pid, d->keeper_pid,
		"the report has the keeper that was started");
	is_int(s.server_pid, d->server_pid,
		"the report has the server that status names");
	is_int(0, d->restarts, "the report counts no restart");
	is_int(PROTOCOL_VERSION, d->protocol,
		"the report has the protocol's version");
	is_str(tarn_version(), d->version, "the report has tarn's version");
	is_str(s.engine, d->engine, "the report has the engine of status");
	is_int((int64_t)s.names, (int64_t)d->names,
		"the report has as many names as status");
	is_int((int64_t)s.storages, (int64_t)d->storages,
		"the report has as many storages as status");
	is_int((int64_t)s.used, (int64_t)d->used,
		"the report has as many used bytes as status");
	is_int((int64_t)s.allocated, (int64_t)d->allocated,
		"the report has as many allocated bytes as status");
	is_int((int64_t)s.loads, (int64_t)d->loads,
		"the report has as many loads as status");
	is_int((int64_t)s.bytes_loaded, (int64_t)d->bytes_loaded,
		"the report has as many loaded bytes as status");
	is_int((int64_t)s.bytes_loaded, (int64_t)d->bytes.named,
		"the report counts no storage without a name");
	is_int(1, r->n_pools, "the report has one pool");
	is_str(geteuid() ? "uid:" : "uid:0",
		geteuid() ? strncmp(r->pools[0].name, "uid:", 4) ? "?" : "uid:"
			  : r->pools[0].name,
		"the pool is this user's");
	is_int((int64_t)d->budget, (int64_t)r->pools[0].size,
		"the pool may have the whole budget");
	is_int((int64_t)d->names, (int64_t)r->pools[0].names,
		"the pool has all names");
	is_int((int64_t)sum(&d->bytes), (int64_t)sum(&r->pools[0].bytes),
		"the pool has all used bytes");
	is_int((int64_t)d->allocated, (int64_t)r->pools[0].allocated,
		"the pool has all allocated memory");
	ok(r->pools[0].segments > 0, "the pool has one segment or more");
	ok(c != NULL, "the witness is among the clients, with one lease");
	if (c) {
		is_int((int64_t)d->bytes.named, (int64_t)c->leased_bytes,
			"the witness's lease holds all loaded bytes");
		ok(c->connected_ms >= c->idle_ms && c->idle_ms < 60000,
			"the witness sent a message just now");
		is_int((int64_t)geteuid(), c->uid, "the witness has its uid");
		is_int(PROTOCOL_VERSION, c->protocol,
			"the witness has its protocol");
	}
	is_int(0, r->n_loads, "no load is listed when none is under way");
	tarn_report_free(r);
}

/* A loader that is stopped holds the load in its middle. */
static void test_load(void)
{
	const char *path = made_file("a\"file", 8 * MIB, 3);
	pid_t loader = child_named(server.pid, "tarn-loader");
	struct order order = {0};
	struct tarn_report *r;
	struct raw raw;
	int fd = opened(path);

	raw_open(&raw, server.socket);
	if (loader <= 0 || kill(loader, SIGSTOP) < 0)
		bail("there is no loader to stop");
	order_range(&order, 0, 8 * MIB, 0);
	snprintf(order.label, sizeof(order.label), "the file %s", path);
	order_send(&order, &raw, fd, -1);
	do {
		r = reported(witness.store);
		if (!r->n_loads)
			r = tarn_report_free(r);
	} while (!r);
	is_int(1, r->n_loads, "a load under way is listed");
	has_str("the file ", r->loads[0].label, "the load has its label");
	is_int(8 * MIB, (int64_t)r->loads[0].total, "the load has its size");
	is_int(0, (int64_t)r->loads[0].done, "no byte of the load has arrived");
	ok(r->loads[0].state == TARN_REPORT_LOAD_QUEUED ||
			r->loads[0].state == TARN_REPORT_LOAD_READING,
		"the load is queued or reading");
	ok(r->loads[0].client != 0, "the load has its client");
	is_int(1, (int64_t)r->daemon.loads_active,
		"the load is counted as active");
	tarn_report_free(r);
	kill(loader, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&raw),
		"the load ends when the loader continues");
	raw_close(&raw);
	fd_close(fd);
	unlink(path);
}

static void test_crowd(void)
{
	struct rlimit limit;
	struct tarn_report *r;
	struct raw *crowd;
	uint32_t n = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	/* Six descriptors a client, keeper.c; and three here. */
	if (limit.rlim_cur < 6 * (CROWD + 100))
		return skip(3, "only %llu descriptors are allowed",
			(unsigned long long)limit.rlim_cur);
	crowd = calloc(CROWD, sizeof(*crowd));
	for (int i = 0; i < CROWD; i++)
		raw_open(&crowd[i], server.socket);
	r = reported(witness.store);
	diag("%u clients", r->n_clients);
	ok(r->n_clients > CROWD, "a crowd of clients is listed");
	is_int(r->daemon.clients, r->n_clients, "the report lists all clients");
	for (uint32_t i = 0; i < r->n_clients; i++)
		n += r->clients[i].pid == getpid();
	is_int(r->n_clients, n, "each listed client is this process");
	tarn_report_free(r);
	for (int i = 0; i < CROWD; i++)
		raw_close(&crowd[i]);
	free(crowd);
}

/* In a child that is somebody else: 0 when it sees itself and nobody else. */
static int look_as_stranger(void)
{
	struct tarn_report *report = NULL;
	tarn_store *store = NULL;
	int wrong;

	if (setgid(STRANGER) < 0 || setuid(STRANGER) < 0 ||
		tarn_store_open(server.socket, NULL, &store) < 0)
		return 100;
	report = reported(store);
	wrong = (report->n_pools != 1) | (report->n_clients != 1) << 1 |
		(report->n_loads != 0) << 2;
	if (!wrong)
		wrong = (report->pools[0].uid != STRANGER) << 3 |
			(report->clients[0].uid != STRANGER) << 4 |
			(report->daemon.names == 0) << 5;
	tarn_report_free(report);
	tarn_store_unref(store);
	return wrong;
}

static void test_stranger(void)
{
	char folder[256];
	struct tarn_report *r;
	tarn_store *store = NULL;
	int status = 0;
	pid_t pid;

	if (geteuid() != 0 || !getenv("TARN_TEST_ID"))
		return skip(2, "needs root, and a folder of tests/run");
	/* Others may come as far as the socket. */
	chmod(test_tmpdir(), 0711);
	chmod(getenv("TMPDIR"), 0711);
	snprintf(folder, sizeof(folder), "%s", getenv("TMPDIR"));
	chmod(dirname(folder), 0711); /* of this test alone, tests/run.c */
	chmod(server.socket, 0666);
	pid = fork();
	if (pid == 0)
		_exit(look_as_stranger());
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 100) {
		skip(1, "the socket is out of a stranger's reach");
	} else {
		is_int(0, status, "another user sees itself and the sums");
	}
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("root's store: %s", tarn_error_message());
	r = reported(store);
	is_int(2, r->n_pools, "root sees both pools");
	tarn_report_free(r);
	tarn_store_unref(store);
}

int main(void)
{
	/* What was loaded is soon dropped, for the books to agree. */
	static const char *const idle[] = {"--idle", "1", NULL};

	daemon_start(&server, "report.sock", idle);
	witness_begin(&witness, &server);
	test_sums();
	test_load();
	test_crowd();
	witness_end(&witness);
	test_stranger();
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(48);
}
