/* SPDX-License-Identifier: MIT */
/*
 * What one user may take of a daemon, quota by quota: a request beyond it is
 * refused with the figure and the key to change, what the user gives back can
 * be taken again, and a server that takes over knows what the user has.
 *
 * The quotas are this user's own section, which binds even root.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/must.h"
#include "tests/kit/pool.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

static struct pool_kit kit;
static tarn_store *store;

static void begin(const char *quota)
{
	struct tarn_report_daemon status;
	char conf[256];

	kit = (struct pool_kit) {0};
	snprintf(conf, sizeof(conf), "[quota %u]\n%s\n", geteuid(), quota);
	kit_pool_start(&kit, conf);
	if (tarn_store_open(kit.daemon.socket, &store) < 0)
		bail("open: %s", tarn_error_message());
	/* The client that saw the daemon start may still be leaving. */
	for (int ms = 0; ms < RAW_PATIENCE_MS; ms += 10) {
		if (report_daemon(store, &status) < 0)
			bail("status: %s", tarn_error_message());
		if (status.clients == 1)
			break;
		usleep(10000);
	}
}

static void end(const char *what)
{
	store = tarn_store_unref(store);
	is_int(0, kit_pool_stop(&kit),
		"the daemon with a quota of %s ends without an error", what);
}

/* Loads a file of its own, and publishes it as name/t. */
static int load(const char *name, uint64_t size)
{
	const struct tarn_load_options options = {.name = name};
	const char *path = kit_pool_file(&kit, name, size, 3, 0);
	tarn_file *file = NULL;
	int r = tarn_file_open(path, &file);

	if (r >= 0)
		r = tarn_store_load(store, file, &options, NULL, NULL);
	tarn_file_unref(file);
	return r;
}

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

	if (report_daemon(store, &status) < 0)
		bail("status: %s", tarn_error_message());
	old = status.server_pid;
	kill(old, SIGKILL);
	store = tarn_store_unref(store);
	for (int ms = 0; ms < RAW_PATIENCE_MS; ms += 10) {
		if (tarn_store_open(kit.daemon.socket, &store) >= 0 &&
			report_daemon(store, &status) >= 0 &&
			status.server_pid != old)
			return;
		store = tarn_store_unref(store);
		usleep(10000);
	}
	bail("no server took over");
}

static void storages(void)
{
	begin("storages = 2");
	is_int(0, load("a", 100), "a first storage is within the quota");
	is_int(0, load("b", 100), "a second storage is within the quota");
	refused(load("c", 100), "has 2 and wants 1 more", "storages");
	is_int(0, tarn_store_remove(store, "b/t"),
		"the second storage's name is removed");
	is_int(0, load("d", 100),
		"a removed storage makes room, though it was cached");
	restart_server();
	refused(load("e", 100), "has 2 and wants 1 more", "storages");
	is_int(0, tarn_store_remove(store, "a/t"),
		"the first storage's name is removed");
	is_int(0, load("f", 100),
		"a removed storage makes room under the next server, too");
	end("storages");
}

static void bytes(void)
{
	int r = 0;

	begin("bytes = 1M");
	is_int(0, load("a", 700000), "700 kB are within the quota");
	refused(load("b", 700000), "has 0.7 MiB", "bytes");
	is_int(0, load("c", 300000), "300 kB more are within the quota");
	must(tarn_store_remove(store, "a/t"));
	must(tarn_store_remove(store, "c/t"));
	/* Each is kept for who asks again, and none of them is asked for. */
	for (int i = 0; i < 20 && r == 0; i++) {
		char name[8];

		snprintf(name, sizeof(name), "n%d", i);
		r = load(name, 600000);
		snprintf(name, sizeof(name), "n%d/t", i);
		must(tarn_store_remove(store, name));
	}
	is_int(0, r, "twenty files one after the other are within the quota %s",
		r < 0 ? tarn_error_message() : "");
	end("bytes");
}

/* Publishes n names onto one file: the error, or 0. */
static int publish_names(const char *prefix, int n)
{
	static struct order order;
	struct raw raw;
	char name[32];
	int fd = open(
		kit_pool_file(&kit, prefix, 4096, 4, 0), O_RDONLY | O_CLOEXEC);
	int type;

	raw_open(&raw, kit.daemon.socket);
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
	begin("names = 10");
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
	is_int(0, tarn_store_remove(store, "a/0"), "one name is removed");
	is_int(0, publish_names("c", 1),
		"after removing one name another fits");
	end("names");
}

/* ---- what is refused drops nothing --------------------------------------- */

/* What is wanted, and the quota that does not allow it; size 0: as much as the
 * daemon's budget. */
struct too_much {
	const char *quota, *key;
	uint64_t sizes[3];
	uint32_t n_sources, n_names;
};

static const struct too_much too_much[] = {
	{"bytes = 64M", "bytes", {0}, 1, 1},
	{"names = 2", "names", {0}, 1, 3},
	{"bytes = 64M", "bytes", {40 << 20, 40 << 20}, 2, 2},
	{"storages = 1\nbytes = 64M", "bytes", {72 << 20}, 1, 1},
	{"bytes = 64M\ndescriptors = 4", "descriptors", {48 << 20, 4096, 4096},
		3, 3},
};

static struct tarn_report_daemon keep_a_file(void)
{
	struct tarn_report_daemon status;

	is_int(0, load("cached", 32 << 20), "a file is loaded");
	must(tarn_store_remove(store, "cached/t"));
	must(report_daemon(store, &status));
	ok(status.bytes.cached >= 32 << 20, "the file is kept without a name");
	return status;
}

static void is_kept(const struct tarn_report_daemon *before, const char *key)
{
	struct tarn_report_daemon after;

	must(report_daemon(store, &after));
	is_int((int64_t)before->bytes.cached, (int64_t)after.bytes.cached,
		"the file is still kept, though the quota of %s is too small "
		"for what was asked",
		key);
}

static int sparse_memfd(uint64_t size)
{
	int fd = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fchmod(fd, 0600) < 0)
		bail("a memfd: %m");
	publish_msg_seal(fd, SOURCE_MUTABLE);
	return fd;
}

/* A publication that its user's quota does not allow costs nobody a cached
 * file, not even where the daemon's budget would not hold it either. */
static void refused_first(const struct too_much *t)
{
	struct tarn_report_daemon before;
	struct publish_msg p = {.n_sources = 0};
	struct raw raw;

	begin(t->quota);
	before = keep_a_file();
	for (uint32_t i = 0; i < t->n_sources; i++) {
		uint64_t size =
			t->sizes[i] ? t->sizes[i] : before.budget & ~4095ull;

		publish_msg_source(&p, SOURCE_MUTABLE, size);
		publish_msg_fd(&p, sparse_memfd(size));
	}
	for (uint32_t i = 0; i < t->n_names; i++) {
		char name[32];

		snprintf(name, sizeof(name), "sparse/%u", i);
		publish_msg_name(&p, name, MIN(i, t->n_sources - 1), 0, 1, 1);
	}
	raw_open(&raw, kit.daemon.socket);
	is_int(WIRE_ERROR, publish_msg_answer(&p, &raw),
		"a publication beyond the quota of %s is refused", t->key);
	is_int(EDQUOT, raw.error, "because of its user's quota");
	has_str(t->key, raw.text, "the error names the key %s", t->key);
	is_kept(&before, t->key);
	raw_close(&raw);
	for (int i = 0; i < p.n_fds; i++)
		close(p.fds[i]);
	end(t->quota);
}

static void load_refused_first(void)
{
	static struct order order;
	struct tarn_report_daemon before;
	struct raw raw;
	int fd;

	begin("bytes = 64M\nnames = 1");
	before = keep_a_file();
	fd = open(kit_pool_file(&kit, "more", 48 << 20, 4, 0),
		O_RDONLY | O_CLOEXEC);
	raw_open(&raw, kit.daemon.socket);
	order_range(&order, 0, 48 << 20, 0);
	order_bytes(&order, "more/0", 1000);
	order_bytes(&order, "more/1", 1000);
	is_int(WIRE_ERROR, order_load(&order, &raw, fd, -1),
		"a load of more names than the quota is refused");
	is_int(EDQUOT, raw.error, "because of its user's quota");
	is_kept(&before, "names");
	raw_close(&raw);
	fd_close(fd);
	end("names, for which nothing is dropped");
}

/* More names than the quota are not even looked at: here all are the same. */
static void not_read(void)
{
	struct publish_msg p = {.n_sources = 0};
	static struct order order;
	struct raw raw;

	begin("names = 2");
	raw_open(&raw, kit.daemon.socket);
	publish_msg_source(&p, SOURCE_BYTES, 1);
	p.n_bytes = 8;
	for (int i = 0; i < 3; i++) {
		publish_msg_name(&p, "same", 0, 0, 1, 1);
		order_bytes(&order, "same", 0);
	}
	is_int(WIRE_ERROR, publish_msg_answer(&p, &raw), "too many names");
	is_int(EDQUOT, raw.error, "are refused for the quota, unread");
	is_int(WIRE_ERROR, order_load(&order, &raw, -1, -1), "so are those");
	is_int(EDQUOT, raw.error, "of a load");
	raw_close(&raw);
	end("names, which are not read");
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
	if (report_daemon(store, &status) < 0)
		bail("status: %s", tarn_error_message());
	kill(status.server_pid, SIGSTOP);
	raw_send(&raws[0], WIRE_REMOVE, "x", 1, NULL, 0);
	publish_byte(&raws[1], "y");
	kill(status.server_pid, SIGCONT);
	removed = raw_answer(&raws[0]);
	published = raw_answer(&raws[1]);
	must(tarn_store_remove(store, "y"));
	return removed == WIRE_DONE && published == WIRE_PUBLISHED;
}

static void let_go(void)
{
	struct raw raws[2];
	int fine = 0;

	begin("storages = 1");
	for (int i = 0; i < 2; i++)
		raw_open(&raws[i], kit.daemon.socket);
	for (int i = 0; i < 20; i++)
		fine += remove_and_publish(raws);
	diag("%d of 20", fine);
	ok(fine > 0, "a removed storage makes room at once");
	for (int i = 0; i < 2; i++)
		raw_close(&raws[i]);
	end("storages, one after the other");
}

/* ---- at work ----------------------------------------------------------- */

/* Loads that begin, and do not end as long as the loader is stopped. */
static void under_way(const char *quota, const char *key, int most)
{
	static struct order order;
	struct raw raw;
	pid_t loader;
	int fd, fine = 0;

	begin(quota);
	is_int(0, load("a", 100), "a file is loaded");
	loader = child_named(kit.daemon.pid, "tarn-loader");
	kill(loader, SIGSTOP);
	fd = open(kit_pool_file(&kit, "b", 100, 4, 0), O_RDONLY | O_CLOEXEC);
	raw_open(&raw, kit.daemon.socket);
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
	is_int(0, load("c", 100),
		"another load succeeds when those have ended");
	raw_close(&raw);
	fd_close(fd);
	end(key);
}

static void connections(void)
{
	tarn_store *more[3] = {0};
	int r;

	begin("connections = 3");
	is_int(0, tarn_store_open(kit.daemon.socket, &more[0]),
		"a second connection is within the quota");
	is_int(0, tarn_store_open(kit.daemon.socket, &more[1]),
		"a third connection is within the quota");
	r = tarn_store_open(kit.daemon.socket, &more[2]);
	refused(r, "has 3 connections, and may have 3", "connections");
	more[1] = tarn_store_unref(more[1]);
	for (int ms = 0; ms < RAW_PATIENCE_MS; ms += 10) {
		r = tarn_store_open(kit.daemon.socket, &more[1]);
		if (r != -EDQUOT)
			break;
		usleep(10000);
	}
	is_int(0, r, "a closed connection makes room");
	tarn_store_unref(more[0]);
	tarn_store_unref(more[1]);
	end("connections");
}

#define LONG 1000000 /* bytes of a message */

/* What was said before has been taken. */
static void is_heard(struct raw *raw, const char *what)
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

	begin("requests = 1536K");
	for (int i = 0; i < 3; i++)
		raw_open(&raw[i], kit.daemon.socket);
	is_int(0, load("a", 100), "a file is loaded before the requests");
	kill(kit.daemon.pid, SIGSTOP);
	publish_msg_send_waiting(&raw[0], LONG);
	is_heard(&raw[0], "a long request that waits is accepted");
	publish_msg_send_waiting(&raw[1], LONG);
	is_int(WIRE_ERROR, raw_receive(&raw[1], RAW_PATIENCE_MS),
		"a second long request is refused");
	is_int(EDQUOT, raw[1].error,
		"the error of the second long request is EDQUOT");
	has_str("requests", raw[1].text,
		"the error names the quota of requests");
	diag("%s", raw[1].text);
	is_heard(&raw[1], "the connection of the refused request");
	is_int(0, load("b", 100), "short requests of the same user");
	raw_close(&raw[0]);
	ok(is_taken(&raw[2]),
		"requests of a closed connection are not counted");
	for (int i = 1; i < 3; i++)
		raw_close(&raw[i]);
	kill(kit.daemon.pid, SIGCONT);
	end("requests");
}

int main(void)
{
	storages();
	bytes();
	names();
	for (size_t i = 0; i < ARRAY_SIZE(too_much); i++)
		refused_first(&too_much[i]);
	load_refused_first();
	not_read();
	let_go();
	under_way("loads = 3", "loads", 3);
	under_way("descriptors = 5", "descriptors", 5);
	connections();
	requests();
	return done(107);
}
