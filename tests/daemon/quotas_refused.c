/* SPDX-License-Identifier: MIT */
/*
 * A request that its user's quota does not allow drops nothing: no cached file
 * makes room for it, and more names than the quota are not even read.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/must.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/quota.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

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

	is_int(0, kit_quota_load("cached", 32 << 20), "a file is loaded");
	must(tarn_store_remove(kit_quota_store, "cached/t"));
	must(report_daemon(kit_quota_store, &status));
	ok(status.bytes.cached >= 32 << 20, "the file is kept without a name");
	return status;
}

static void is_kept(const struct tarn_report_daemon *before, const char *key)
{
	struct tarn_report_daemon after;

	must(report_daemon(kit_quota_store, &after));
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

	kit_quota_begin(t->quota);
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
	raw_open(&raw, kit_quota_pool.daemon.socket);
	is_int(WIRE_ERROR, publish_msg_answer(&p, &raw),
		"a publication beyond the quota of %s is refused", t->key);
	is_int(EDQUOT, raw.error,
		"the refusal gives the user's quota as its reason");
	has_str(t->key, raw.text, "the error names the key %s", t->key);
	is_kept(&before, t->key);
	raw_close(&raw);
	for (int i = 0; i < p.n_fds; i++)
		close(p.fds[i]);
	kit_quota_end(t->quota);
}

static void load_refused_first(void)
{
	static struct order order;
	struct tarn_report_daemon before;
	struct raw raw;
	int fd;

	kit_quota_begin("bytes = 64M\nnames = 1");
	before = keep_a_file();
	fd = open(kit_pool_file(&kit_quota_pool, "more", 48 << 20, 4, 0),
		O_RDONLY | O_CLOEXEC);
	raw_open(&raw, kit_quota_pool.daemon.socket);
	order_range(&order, 0, 48 << 20, 0);
	order_bytes(&order, "more/0", 1000);
	order_bytes(&order, "more/1", 1000);
	is_int(WIRE_ERROR, order_load(&order, &raw, fd, -1),
		"a load of more names than the quota is refused");
	is_int(EDQUOT, raw.error,
		"the refusal gives the user's quota as its reason");
	is_kept(&before, "names");
	raw_close(&raw);
	fd_close(fd);
	kit_quota_end("names, for which nothing is dropped");
}

/* More names than the quota are not even looked at: here all are the same. */
static void not_read(void)
{
	struct publish_msg p = {.n_sources = 0};
	static struct order order;
	struct raw raw;

	kit_quota_begin("names = 2");
	raw_open(&raw, kit_quota_pool.daemon.socket);
	publish_msg_source(&p, SOURCE_BYTES, 1);
	p.n_bytes = 8;
	for (int i = 0; i < 3; i++) {
		publish_msg_name(&p, "same", 0, 0, 1, 1);
		order_bytes(&order, "same", 0);
	}
	is_int(WIRE_ERROR, publish_msg_answer(&p, &raw),
		"a publication of too many names is refused");
	is_int(EDQUOT, raw.error,
		"the server refuses it for the quota, before it reads the names");
	is_int(WIRE_ERROR, order_load(&order, &raw, -1, -1),
		"a load of too many names is refused");
	is_int(EDQUOT, raw.error, "the load is refused for the quota");
	raw_close(&raw);
	kit_quota_end("names, which are not read");
}

/* What a publication waits for counts as taken: a second one that could not
 * have it any more does not wait too, and drops nothing. */
static void waiting_counts(void)
{
	struct publish_msg p[2] = {{.n_sources = 0}};
	const uint64_t size = 40 << 20;
	struct raw raw;

	kit_quota_begin("bytes = 64M");
	raw_open(&raw, kit_quota_pool.daemon.socket);
	/* The keeper, which makes pools larger. */
	kill(kit_quota_pool.daemon.pid, SIGSTOP);
	for (int i = 0; i < 2; i++)
		p[i] = publish_msg_of(SOURCE_COPY, size, sparse_memfd(size),
			i ? "second" : "first");
	publish_msg_send(&p[0], &raw);
	is_int(WIRE_ERROR, publish_msg_answer(&p[1], &raw),
		"a publication is refused that does not fit beside one that "
		"waits for memory");
	is_int(EDQUOT, raw.error,
		"the refusal beside a waiting publication gives the user's "
		"quota as its reason");
	kill(kit_quota_pool.daemon.pid, SIGCONT);
	is_int(WIRE_PUBLISHED, raw_answer(&raw),
		"the publication that waited gets its memory");
	must(tarn_store_remove(kit_quota_store, "first"));
	is_int(WIRE_PUBLISHED, publish_msg_answer(&p[1], &raw),
		"the refused publication succeeds when the first one's tensor "
		"is gone: nothing is counted twice");
	raw_close(&raw);
	for (int i = 0; i < 2; i++)
		close(p[i].fds[0]);
	kit_quota_end("bytes that are waited for");
}

static void waiting_loads_count(void)
{
	static struct order orders[2];
	struct raw raw;
	int fds[2];

	kit_quota_begin("bytes = 160M");
	is_int(0, kit_quota_load("small", 100),
		"a file is loaded: there is a loader");
	raw_open(&raw, kit_quota_pool.daemon.socket);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "second" : "first";

		fds[i] = open(kit_pool_file(&kit_quota_pool, name, 100 << 20,
				      i + 5, 0),
			O_RDONLY | O_CLOEXEC);
		order_range(&orders[i], 0, 100 << 20, 0);
		order_bytes(&orders[i], name, 1000);
	}
	kill(kit_quota_pool.daemon.pid, SIGSTOP);
	order_send(&orders[0], &raw, fds[0], -1);
	is_int(WIRE_ERROR, order_load(&orders[1], &raw, fds[1], -1),
		"a load is refused that does not fit beside one that waits "
		"for memory");
	is_int(EDQUOT, raw.error,
		"the refusal beside a waiting load gives the user's quota as "
		"its reason");
	kill(kit_quota_pool.daemon.pid, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&raw),
		"the load that waited gets its memory");
	must(tarn_store_remove(kit_quota_store, "first"));
	is_int(WIRE_LOADED, order_load(&orders[1], &raw, fds[1], -1),
		"the refused load succeeds when the first one's tensor is "
		"gone: no load is counted twice");
	raw_close(&raw);
	for (int i = 0; i < 2; i++)
		fd_close(fds[i]);
	kit_quota_end("bytes that loads wait for");
}

int main(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(too_much); i++)
		refused_first(&too_much[i]);
	load_refused_first();
	not_read();
	waiting_counts();
	waiting_loads_count();
	return done(57);
}
