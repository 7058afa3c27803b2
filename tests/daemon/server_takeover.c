/* SPDX-License-Identifier: MIT */
/*
 * A server that takes over finds each segment where the table has it, however
 * many servers died before it and in the middle of what: readers unmap a
 * segment that gets another number or serial. The server gives no segment back
 * before it knows all storages in it. A table that has used all of its numbers
 * still works: a new segment gets the number of a dropped one, once the keeper
 * has dropped it, too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/server/server.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)
#define SEGMENTS 3u

static struct server server;
static struct domain domain;
static struct table table; /* the keeper's */
static struct mapped_segment inherited[SEGMENTS];
static int keeper;

/* As the keeper tells of one: in the order in which they came. */
static void bring_segment_at(uint32_t i, uint64_t offset)
{
	struct msg_segment body = {.number = i, .offset = offset, .size = MIB};
	struct wire_message m = {.n_fds = 1};

	m.fds[0] = memfd_create("segment", MFD_CLOEXEC);
	must(segment_come(&server, &body, &m));
	wire_message_clear(&m);
}

static void bring_segment(uint32_t i)
{
	bring_segment_at(i, i * MIB);
}

static void make_server(void)
{
	int pair[2];

	server = (struct server) {.domains = &domain};
	domain = (struct domain) {
		.server = &server, .table = table, .closer = closer_get(0)};
	for (uint32_t i = 0; i < SEGMENTS; i++)
		inherited[i] = (struct mapped_segment) {.number = i,
			.offset = i * MIB,
			.size = MIB,
			.addr = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
	server.start.segments = inherited;
	server.start.n_segments = SEGMENTS;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
		bail("a socket pair: %m");
	server.start.sock = pair[0];
	keeper = pair[1];
	must(loop_new(&server.loop));
	must(wire_writer_new(1 << 20, &server.writer));
	must(alloc_new(&domain.pool.alloc));
	must(alloc_new(&domain.pool.old_alloc));
	must(lease_batch_init(&domain.storages.batch));
	must(table_writer_new(&domain.table, &domain.writer));
}

static void begin(void)
{
	make_server();
	for (uint32_t i = 0; i < SEGMENTS; i++)
		bring_segment(i);
}

/* Everything private to it is gone. */
static void die(void)
{
	segments_free(&domain.pool);
	alloc_free(domain.pool.alloc);
	alloc_free(domain.pool.old_alloc);
	lease_batch_done(&domain.storages.batch);
	table_writer_free(domain.writer);
	wire_writer_free(server.writer);
	loop_free(server.loop);
	fd_close(server.start.sock);
	fd_close(keeper);
	free(domain.storages.infos);
	name_accounts_free(&domain.names);
}

static bool is_there(uint32_t i)
{
	return table_segment_serial(&table, i) && i < domain.pool.n_segments &&
	       domain.pool.segments[i].fd >= 0;
}

static void test_dropped_halfway(void)
{
	begin();
	must(segments_rebuild(&domain));
	is_int(3, table.header->n_segments, "three segments are in the table");
	/* It dies before the keeper hears of it. */
	table_drop_segment(domain.writer, 1);
	die();
	begin();
	must(segments_rebuild(&domain));
	is_int(3, table.header->n_segments,
		"the half dropped segment is not in the table");
	is_int(2, (int64_t)table_segment_serial(&table, 1),
		"the segment that was dropped halfway comes under a new "
		"serial");
	ok(is_there(0) && is_there(1) && is_there(2),
		"all three segments are there after the take-over");
	die();
	for (int i = 0; i < 3; i++) {
		begin();
		must(segments_rebuild(&domain));
		is_int(3, table.header->n_segments,
			"another take-over adds no segment");
		ok(table_segment_serial(&table, 0) == 1 &&
				table_segment_serial(&table, 1) == 2 &&
				table_segment_serial(&table, 2) == 1,
			"another take-over finds each segment under its "
			"serial");
		die();
	}
}

/* The keeper may tell it late: many clients, a machine that has other work. */
static void test_not_told_yet(void)
{
	begin();
	server_between_turns(&server);
	domain.pool.shrink.moved_at -= 3600ull * 1000000000;
	server_between_turns(&server);
	ok(is_there(0) && is_there(1) && is_there(2),
		"no segment is given back before the server knows all "
		"storages");
	must(segments_rebuild(&domain));
	server.serving = true;
	server_between_turns(&server);
	domain.pool.shrink.moved_at -= 3600ull * 1000000000;
	server_between_turns(&server);
	ok(!is_there(0) && !is_there(1) && !is_there(2),
		"all segments are given back afterwards");
}

/* As the keeper offers one, and tells of it once the server has mapped it. */
static void offer(uint32_t i, uint64_t offset)
{
	server.offered = (struct mapped_segment) {.number = i,
		.offset = offset,
		.size = MIB,
		.addr = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
	bring_segment_at(i, offset);
}

/* Goes on where the three segments were dropped and the keeper has not answered
 * yet. */
static void test_numbers(void)
{
	struct msg_segment gone = {.number = 1, .size = MIB};

	offer(3, 8 * MIB);
	ok(is_there(3),
		"a number is not used until the keeper dropped its segment");
	must(segment_dropped(&server, &gone));
	offer(4, 9 * MIB);
	is_int(3, (int64_t)table_segment_serial(&table, 1),
		"a new segment has the number under the next serial");
	is_int((int64_t)(9 * MIB), (int64_t)table.segments[1].offset,
		"the new segment has its own offset");
	for (uint32_t n = table.header->n_segments; n < TABLE_SEGMENTS_MAX; n++)
		must(table_add_segment(domain.writer, n, 0, 0, 63 * MIB, MIB));
	is_int(-ENOSPC,
		table_add_segment(
			domain.writer, TABLE_SEGMENTS_MAX, 0, 0, 63 * MIB, MIB),
		"a number beyond the last is refused");
	for (uint32_t n = 4; n < TABLE_SEGMENTS_MAX; n++)
		table_drop_segment(domain.writer, n);
	offer(5, 10 * MIB);
	is_int(2, (int64_t)table_segment_serial(&table, 4),
		"a table that has used all numbers takes one more segment");
	segments_trim(&domain, 0);
	ok(!is_there(1) && !is_there(3) && !is_there(4),
		"a table that has used all numbers still gives memory back");
	die();
}

static void drop_nothing(void *arg)
{
}

int main(void)
{
	struct table_pool pool = {.page_shift = 12, .reach = 64 * MIB};
	_cleanup_fd_ int fd = memfd_create("region", MFD_CLOEXEC);

	must(closers_begin(1, drop_nothing, NULL));
	must(table_create(fd, 7, 8, 0, 0, &table));
	make_server();
	must(table_add_pool(domain.writer, &pool));
	die();
	test_dropped_halfway();
	test_not_told_yet();
	test_numbers();
	table_unmap(&table);
	return done(18);
}
