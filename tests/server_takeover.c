/* SPDX-License-Identifier: MIT */
/*
 * A server that takes over finds each segment where the table has it, however
 * many died before it and in the middle of what: a segment that gets another
 * number is unmapped by those who read in it. And it gives none back before it
 * was told what lies in them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server.h"
#include "tests/tap.h"

#define MIB (1ull << 20)
#define SEGMENTS 3u

static struct server server;
static struct rule rule;
static struct table table; /* the keeper's */
static struct mapped_segment inherited[SEGMENTS];
static int keeper;

static void must(int r)
{
	if (r < 0)
		bail("%s", tarn_fail_message());
}

/* As the keeper tells of one: in the order in which they came. */
static void tell(uint32_t i)
{
	struct msg_segment body = {.number = i, .offset = i * MIB, .size = MIB};
	struct wire_message m = {.n_fds = 1};

	m.fds[0] = memfd_create("segment", MFD_CLOEXEC);
	must(segment_come(&server, &body, &m));
	wire_message_clear(&m);
}

static void make_server(void)
{
	int pair[2];

	server = (struct server) {.rules = &rule};
	rule = (struct rule) {.server = &server, .table = table};
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
	must(alloc_new(&rule.alloc));
	must(alloc_new(&rule.frozen));
	must(lease_batch_init(&rule.batch));
	must(table_writer_new(&rule.table, &rule.writer));
}

static void begin(void)
{
	make_server();
	for (uint32_t i = 0; i < SEGMENTS; i++)
		tell(i);
}

/* Everything private to it is gone. */
static void die(void)
{
	segments_free(&rule);
	alloc_free(rule.alloc);
	alloc_free(rule.frozen);
	lease_batch_done(&rule.batch);
	table_writer_free(rule.writer);
	wire_writer_free(server.writer);
	loop_free(server.loop);
	fd_close(server.start.sock);
	fd_close(keeper);
	free(rule.infos);
	name_accounts_free(&rule.names);
}

static bool is_there(uint32_t i)
{
	return table.segments[i].state == SEGMENT_READY &&
	       i < rule.n_segments && rule.segments[i].fd >= 0;
}

static void test_dropped_halfway(void)
{
	begin();
	must(segments_rebuild(&rule));
	is_int(3, table.header->n_segments, "three segments");
	/* It dies before the keeper hears of it. */
	table_drop_segment(rule.writer, 1);
	die();
	begin();
	must(segments_rebuild(&rule));
	is_int(4, table.header->n_segments, "the second one comes again");
	ok(is_there(0) && is_there(2) && is_there(3), "behind the others");
	die();
	for (int i = 0; i < 3; i++) {
		begin();
		must(segments_rebuild(&rule));
		is_int(4, table.header->n_segments,
			"nothing is added any more");
		ok(is_there(0) && is_there(2) && is_there(3),
			"each is where it was");
		die();
	}
}

/* Who tells it may be slow: many clients, a machine that has other work. */
static void test_not_told_yet(void)
{
	begin();
	server_look_around(&server);
	rule.shrink.moved_at -= 3600ull * 1000000000;
	server_look_around(&server);
	ok(is_there(0) && is_there(2) && is_there(3),
		"nothing is given back before all was told");
	must(segments_rebuild(&rule));
	server.serving = true;
	server_look_around(&server);
	rule.shrink.moved_at -= 3600ull * 1000000000;
	server_look_around(&server);
	ok(!is_there(0) && !is_there(2) && !is_there(3), "afterwards it is");
	die();
}

int main(void)
{
	struct table_pool pool = {.page_shift = 12, .reach = 64 * MIB};
	_cleanup_fd_ int fd = memfd_create("region", MFD_CLOEXEC);

	must(table_create(fd, 7, 8, 0, 0, &table));
	make_server();
	must(table_add_pool(rule.writer, &pool));
	die();
	test_dropped_halfway();
	test_not_told_yet();
	table_unmap(&table);
	return done();
}
