/* SPDX-License-Identifier: MIT */
/*
 * What one user may take of a daemon, quota by quota: a request beyond it is
 * refused with the figure and the key to change, what the user gives back can
 * be taken again, and a server that takes over knows what the user has. What a
 * refused request leaves as it was is in quotas_refused.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/device.h"
#include "tests/kit/must.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/quota.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

static void refused(int r, const char *figures, const char *key)
{
	is_int(-EDQUOT, r, "a request beyond the quota of %s is refused", key);
	has_str(figures, tarn_error_message(),
		"the error has the quota's figures");
	has_str(key, tarn_error_message(), "the error names the quota's key");
}

/* ---- tables ------------------------------------------------------------ */

static void restart_server(void)
{
	struct tarn_report_daemon status;
	int32_t old;

	if (report_daemon(kit_quota_store, &status) < 0)
		bail("status: %s", tarn_error_message());
	old = status.server_pid;
	kill(old, SIGKILL);
	kit_quota_store = tarn_store_unref(kit_quota_store);
	for (int ms = 0; ms < RAW_PATIENCE_MS; ms += 10) {
		if (tarn_store_open(kit_quota_pool.daemon.socket, NULL,
			    &kit_quota_store) >= 0 &&
			report_daemon(kit_quota_store, &status) >= 0 &&
			status.server_pid != old)
			return;
		kit_quota_store = tarn_store_unref(kit_quota_store);
		usleep(10000);
	}
	bail("no server took over");
}

static void storages(void)
{
	kit_quota_begin("storages = 2");
	is_int(0, kit_quota_load("a", 100),
		"a first storage is within the quota");
	is_int(0, kit_quota_load("b", 100),
		"a second storage is within the quota");
	refused(kit_quota_load("c", 100), "has 2 and wants 1 more", "storages");
	is_int(0, tarn_store_remove(kit_quota_store, "b/t"),
		"the second storage's name is removed");
	is_int(0, kit_quota_load("d", 100),
		"a removed storage makes room, though it was cached");
	restart_server();
	refused(kit_quota_load("e", 100), "has 2 and wants 1 more", "storages");
	is_int(0, tarn_store_remove(kit_quota_store, "a/t"),
		"the first storage's name is removed");
	is_int(0, kit_quota_load("f", 100),
		"a removed storage makes room under the next server, too");
	kit_quota_end("storages");
}

static void bytes(void)
{
	int r = 0;

	kit_quota_begin("bytes = 1M");
	is_int(0, kit_quota_load("a", 700000), "700 kB are within the quota");
	refused(kit_quota_load("b", 700000), "has 0.7 MiB", "bytes");
	is_int(0, kit_quota_load("c", 300000),
		"300 kB more are within the quota");
	must(tarn_store_remove(kit_quota_store, "a/t"));
	must(tarn_store_remove(kit_quota_store, "c/t"));
	/* Each is kept for who asks again, and none of them is asked for. */
	for (int i = 0; i < 20 && r == 0; i++) {
		char name[8];

		snprintf(name, sizeof(name), "n%d", i);
		r = kit_quota_load(name, 600000);
		snprintf(name, sizeof(name), "n%d/t", i);
		must(tarn_store_remove(kit_quota_store, name));
	}
	is_int(0, r, "twenty files one after the other are within the quota %s",
		r < 0 ? tarn_error_message() : "");
	kit_quota_end("bytes");
}

static int publish_device(const char *name, int64_t size)
{
	tarn_tensor *t = kit_device_empty(size);
	int r = tarn_store_publish_one(kit_quota_store, name, t, NULL, NULL);

	tarn_tensor_unref(t);
	return r;
}

/* It counts for nothing else: not for bytes. */
static void device(void)
{
	kit_device_begin();
	kit_quota_begin("device = 1M\nbytes = 100K");
	is_int(0, publish_device("a", 700000),
		"700 kB of a device are within the quota");
	refused(publish_device("b", 700000), "has 0.7 MiB", "device");
	restart_server();
	refused(publish_device("b", 700000), "has 0.7 MiB", "device");
	must(tarn_store_remove(kit_quota_store, "a"));
	is_int(0, publish_device("b", 700000),
		"what is removed makes room on the device");
	must(tarn_store_remove(kit_quota_store, "b"));
	kit_quota_end("device");
}

/* Publishes n names onto one file: the error, or 0. */
static int publish_names(const char *prefix, int n)
{
	static struct order order;
	struct raw raw;
	char name[32];
	int fd = open(kit_pool_file(&kit_quota_pool, prefix, 4096, 4, 0),
		O_RDONLY | O_CLOEXEC);
	int type;

	raw_open(&raw, kit_quota_pool.daemon.socket);
	order_range(&order, 100, 1000, 0);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%d", prefix, i);
		order_bytes(&order, name, 1000);
	}
	type = order_load(&order, &raw, fd, -1);
	raw_close(&raw);
	fd_close(fd);
	if (type == WIRE_ERROR && raw.error != EDQUOT)
		diag("%s", raw.text);
	return type == WIRE_LOADED ? 0 : type == WIRE_ERROR ? raw.error : -type;
}

static void names(void)
{
	kit_quota_begin("names = 10");
	is_int(0, publish_names("a", 6), "six names are within the quota");
	is_int(EDQUOT, publish_names("b", 5),
		"five more names are beyond the quota");
	is_int(0, publish_names("b", 4),
		"four more names are within the quota");
	is_int(0, publish_names("a", 6),
		"publishing the same names again needs no quota");
	is_int(EDQUOT, publish_names("a", 7),
		"one new name beyond the quota is refused");
	restart_server();
	is_int(EDQUOT, publish_names("c", 1),
		"the next server counts the user's names");
	is_int(0, tarn_store_remove(kit_quota_store, "a/0"),
		"one name is removed");
	is_int(0, publish_names("c", 1),
		"after removing one name another fits");
	kit_quota_end("names");
}

static int publish_byte(struct raw *raw, const char *name)
{
	struct publish_msg p = {.n_sources = 0};
	unsigned char body[PUBLISH_MSG_MAX];

	publish_msg_source(&p, SOURCE_BYTES, 1);
	publish_msg_name(&p, name, 0, 0, 1, 1);
	p.n_bytes = 8;
	return raw_send(
		raw, WIRE_PUBLISH, body, publish_msg_write(&p, body), NULL, 0);
}

/* One connection removes, and another publishes, before anybody has looked
 * whether what was removed is held. Mostly in that order: when the server goes
 * on, it finds both. */
static int remove_and_publish(struct raw *raws)
{
	struct tarn_report_daemon status;
	int removed, published;

	if (publish_byte(&raws[0], "x") < 0 ||
		raw_answer(&raws[0]) != WIRE_PUBLISHED)
		bail("x: %s", raws[0].text);
	if (report_daemon(kit_quota_store, &status) < 0)
		bail("status: %s", tarn_error_message());
	kill(status.server_pid, SIGSTOP);
	raw_send(&raws[0], WIRE_REMOVE, "x", 1, NULL, 0);
	publish_byte(&raws[1], "y");
	kill(status.server_pid, SIGCONT);
	removed = raw_answer(&raws[0]);
	published = raw_answer(&raws[1]);
	if (published == WIRE_PUBLISHED)
		must(tarn_store_remove(kit_quota_store, "y"));
	return removed == WIRE_DONE && published == WIRE_PUBLISHED;
}

static void let_go(void)
{
	struct raw raws[2];
	int fine = 0;

	kit_quota_begin("storages = 1");
	for (int i = 0; i < 2; i++)
		raw_open(&raws[i], kit_quota_pool.daemon.socket);
	for (int i = 0; i < 20; i++)
		fine += remove_and_publish(raws);
	diag("%d of 20", fine);
	ok(fine > 0, "a removed storage makes room at once");
	for (int i = 0; i < 2; i++)
		raw_close(&raws[i]);
	kit_quota_end("storages, one after the other");
}

/* ---- at work ----------------------------------------------------------- */

/* Loads that begin, and do not end as long as the loader is stopped. */
static void under_way(const char *quota, const char *key, int most)
{
	static struct order order;
	struct raw raw;
	pid_t loader;
	int fd, fine = 0;

	kit_quota_begin(quota);
	is_int(0, kit_quota_load("a", 100), "a file is loaded");
	loader = child_named(kit_quota_pool.daemon.pid, "tarn-loader");
	kill(loader, SIGSTOP);
	fd = open(kit_pool_file(&kit_quota_pool, "b", 100, 4, 0),
		O_RDONLY | O_CLOEXEC);
	raw_open(&raw, kit_quota_pool.daemon.socket);
	for (int i = 0; i <= most; i++) {
		order_range(&order, 0, 100, 0);
		order_send(&order, &raw, fd, -1);
	}
	is_int(WIRE_ERROR, raw_receive(&raw, RAW_PATIENCE_MS),
		"one load too many is refused at once");
	is_int(EDQUOT, raw.error, "the error of one load too many is EDQUOT");
	has_str(key, raw.text, "the error names the quota %s", key);
	kill(loader, SIGCONT);
	while (fine < most && raw_answer(&raw) == WIRE_LOADED)
		fine++;
	is_int(most, fine, "the loads within the quota succeed");
	is_int(0, kit_quota_load("c", 100),
		"another load succeeds when those have ended");
	raw_close(&raw);
	fd_close(fd);
	kit_quota_end(key);
}

/* The keeper counts a connection until it has heard from the server that it has
 * ended. */
static int open_soon(tarn_store **ret)
{
	int r = -EDQUOT;

	for (int ms = 0; ms < RAW_PATIENCE_MS && r == -EDQUOT; ms += 10) {
		r = tarn_store_open(kit_quota_pool.daemon.socket, NULL, ret);
		if (r == -EDQUOT)
			usleep(10000);
	}
	return r;
}

static void connections(void)
{
	tarn_store *more[3] = {0};
	int r;

	kit_quota_begin("connections = 3");
	is_int(0, open_soon(&more[0]),
		"a second connection is within the quota");
	is_int(0, open_soon(&more[1]),
		"a third connection is within the quota");
	r = tarn_store_open(kit_quota_pool.daemon.socket, NULL, &more[2]);
	refused(r, "has 3 connections, and may have 3", "connections");
	more[1] = tarn_store_unref(more[1]);
	is_int(0, open_soon(&more[1]), "a closed connection makes room");
	tarn_store_unref(more[0]);
	tarn_store_unref(more[1]);
	kit_quota_end("connections");
}

#define LONG 1000000 /* bytes of a message */

/* What was said before has been taken. */
static void is_answered(struct raw *raw, const char *what)
{
	raw_send(raw, WIRE_PING, NULL, 0, NULL, 0);
	is_int(WIRE_PONG, raw_receive(raw, RAW_PATIENCE_MS),
		"a request is answered: %s", what);
}

/* The next one, once the end of another connection has been noticed. */
static bool is_taken(struct raw *raw)
{
	bool taken = false;

	for (int ms = 0; ms < RAW_PATIENCE_MS && !taken; ms += 10) {
		publish_msg_send_waiting(raw, LONG);
		raw_send(raw, WIRE_PING, NULL, 0, NULL, 0);
		taken = raw_receive(raw, RAW_PATIENCE_MS) == WIRE_PONG;
		if (taken)
			break;
		raw_receive(raw, RAW_PATIENCE_MS);
		usleep(10000);
	}
	return taken;
}

static void requests(void)
{
	struct raw raw[3];

	kit_quota_begin("requests = 1536K");
	for (int i = 0; i < 3; i++)
		raw_open(&raw[i], kit_quota_pool.daemon.socket);
	is_int(0, kit_quota_load("a", 100),
		"a file is loaded before the requests");
	kill(kit_quota_pool.daemon.pid, SIGSTOP);
	publish_msg_send_waiting(&raw[0], LONG);
	is_answered(&raw[0], "a long request that waits is accepted");
	publish_msg_send_waiting(&raw[1], LONG);
	is_int(WIRE_ERROR, raw_receive(&raw[1], RAW_PATIENCE_MS),
		"a second long request is refused");
	is_int(EDQUOT, raw[1].error,
		"the error of the second long request is EDQUOT");
	has_str("requests", raw[1].text,
		"the error names the quota of requests");
	diag("%s", raw[1].text);
	is_answered(&raw[1], "the connection of the refused request");
	is_int(0, kit_quota_load("b", 100), "short requests of the same user");
	raw_close(&raw[0]);
	ok(is_taken(&raw[2]),
		"requests of a closed connection are not counted");
	for (int i = 1; i < 3; i++)
		raw_close(&raw[i]);
	kill(kit_quota_pool.daemon.pid, SIGCONT);
	kit_quota_end("requests");
}

int main(void)
{
	storages();
	bytes();
	device();
	names();
	let_go();
	under_way("loads = 3", "loads", 3);
	under_way("descriptors = 5", "descriptors", 5);
	connections();
	requests();
	return done(70);
}
