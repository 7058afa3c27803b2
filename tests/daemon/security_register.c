/* SPDX-License-Identifier: MIT */
/*
 * A pool of kind register: clients of the daemon's own uid get its segments for
 * writing, so that they can register them; other users get them for reading, and
 * cannot open them for writing. Other pools have none for writing.
 *
 * The users are children of root's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/pool_deeds.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

static struct pool_kit kit;

/* What a client sees of the first segment. */
enum {
	WRITES = 1,          /* by the descriptor */
	WRITES_REOPENED = 2, /* by another one that it makes of that */
	MAY_READ = 4,
	RAISES = 8, /* the rights of a mapping of it */
};

struct question {
	const char *pool;
	uint16_t flags;
	uint16_t count;
};

static uint64_t look_at(int fd)
{
	void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	uint64_t rights = 0;

	if (map != MAP_FAILED) {
		rights |= MAY_READ;
		if (mprotect(map, 4096, PROT_READ | PROT_WRITE) == 0)
			rights |= RAISES;
		munmap(map, 4096);
	}
	if (kit_pool_writes(fd))
		rights |= WRITES;
	if (kit_pool_writes_reopened(fd))
		rights |= WRITES_REOPENED;
	return rights;
}

/* Asks for segments from 0 on; r: the type of the answer, or -errno; n: the
 * rights; bytes[0]: how many came. */
static void ask(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct question *q = arg;
	const struct msg_segments want = {.count = q->count, .flags = q->flags};
	struct raw raw;

	raw_open_pool(&raw, k->daemon.socket, q->pool);
	raw_send(&raw, WIRE_SEGMENTS, &want, sizeof(want), NULL, 0);
	seen->r = raw_receive(&raw, RAW_PATIENCE_MS);
	if (seen->r == WIRE_ERROR) {
		seen->r = -raw.error;
		snprintf(seen->text, sizeof(seen->text), "%.500s", raw.text);
	} else if (raw.n_fds) {
		seen->bytes[0] = (unsigned char)raw.n_fds;
		seen->n = look_at(raw.fds[0]);
	}
	raw_close(&raw);
}

static const struct seen *as(uint32_t uid, const char *pool, uint16_t flags)
{
	struct question q = {.pool = pool, .flags = flags, .count = 64};

	return kit_pool_as(&kit, uid, ask, &q);
}

static void fill(const char *pool)
{
	const char *file = kit_pool_file(&kit, pool, 5 << 20, 5, 0);
	struct wish wish = {.pool = pool, .file = file, .name = "w"};
	const struct seen *s = kit_pool_as(&kit, 0, deed_load, &wish);

	if (s->r < 0)
		bail("the pool %s cannot be filled: %s", pool, s->text);
}

static void test_own_uid(const char *when)
{
	const struct seen *s = as(0, "both", SEGMENTS_WRITABLE);

	ok(s->r == WIRE_SEGMENT_FDS && s->bytes[0] == 1 && s->n & WRITES,
		"a client of the daemon's uid gets one segment to write by %s",
		when);
	s = as(0, "both", 0);
	ok(s->r == WIRE_SEGMENT_FDS && s->bytes[0] > 1 &&
			(s->n & (MAY_READ | WRITES | RAISES)) == MAY_READ,
		"without the flag it gets them all for reading %s", when);
	ok(s->n & WRITES_REOPENED,
		"the daemon's own uid can open them for writing %s", when);
}

static void test_other_uids(const char *when)
{
	static const uint32_t uids[] = {OWNER, STRANGER};

	for (int i = 0; i < 2; i++) {
		const struct seen *s = as(uids[i], "both", SEGMENTS_WRITABLE);

		is_int(-EPERM, s->r,
			"another uid gets no descriptor to write by %s", when);
		has_str("only clients of uid 0", s->text,
			"the error says which uid would get one");
		s = as(uids[i], "both", 0);
		ok(s->r == WIRE_SEGMENT_FDS && s->n == MAY_READ,
			"another uid can read the segments, and write them by "
			"no way, %s (%d)",
			when, (int)s->n);
	}
}

static void test_other_pools(const char *pool)
{
	const struct seen *s = as(0, pool, SEGMENTS_WRITABLE);

	is_int(-EPERM, s->r,
		"a sealed pool gives the daemon's uid no segment to write by");
	has_str("register = yes", s->text, "the error names the setting");
	s = as(0, pool, 0);
	ok(s->r == WIRE_SEGMENT_FDS && s->n == MAY_READ,
		"the segments of a sealed pool can be written by no way");
}

/* Of a segment that is not there, and of none. */
static void test_none(void)
{
	const struct msg_segments wants[] = {
		{.first = 12345, .count = 1, .flags = SEGMENTS_WRITABLE},
		{.first = ~0u, .count = 1, .flags = SEGMENTS_WRITABLE},
		{.first = 0, .count = 0, .flags = SEGMENTS_WRITABLE},
	};

	for (int i = 0; i < 3; i++) {
		struct raw raw;

		raw_open_pool(&raw, kit.daemon.socket, "both");
		raw_send(&raw, WIRE_SEGMENTS, &wants[i], sizeof(wants[i]), NULL,
			0);
		is_int(WIRE_SEGMENT_FDS, raw_receive(&raw, RAW_PATIENCE_MS),
			"a request for no segment is answered");
		is_int(0, raw.n_fds, "no segment comes without descriptors");
		raw_close(&raw);
	}
}

static void next_server(void)
{
	const char *file = kit_pool_file(&kit, "over", 5000, 6, 0);
	struct wish wish = {.pool = "both", .file = file, .name = "over"};
	const struct seen *s = kit_pool_as(&kit, 0, deed_take_over, &wish);

	ok(s->r == 0 && s->n == 1, "the server is killed, and another serves");
}

/* A report says of each pool whether it is of that kind. */
static void test_report(void)
{
	static const char *const pools[] = {"both", "plain", "no"};
	struct tarn_report *report = NULL;
	tarn_store *store = NULL;

	if (tarn_store_open(kit.daemon.socket, NULL, &store) < 0 ||
		tarn_store_report(store, &report) < 0)
		bail("report: %s", tarn_error_message());
	for (int i = 0; i < 3; i++) {
		uint32_t n = 0;

		while (n < report->n_pools &&
			strcmp(report->pools[n].name, pools[i]) != 0)
			n++;
		ok(n < report->n_pools &&
				report->nodes[n].registers == (i == 0),
			"a report says whether the pool %s is of kind register",
			pools[i]);
	}
	tarn_report_free(report);
	tarn_store_unref(store);
}

int main(void)
{
	if (!kit_pool_is_root())
		skip_all("several users need root");
	kit_pool_start(&kit,
		"[daemon]\nsegment-size = 2M\n"
		"[pool both]\nregister = yes\nowner = 61001\nmode = 0666\n"
		"[pool plain]\nmode = 0666\n"
		"[pool no]\nregister = no\n");
	fill("both");
	fill("plain");
	fill("no");
	test_own_uid("at first");
	test_other_uids("at first");
	test_other_pools("plain");
	test_other_pools("no");
	test_none();
	test_report();
	next_server();
	test_own_uid("under the next server");
	test_other_uids("under the next server");
	is_int(0, kit_pool_stop(&kit), "the daemon ends without an error");
	return done(35);
}
