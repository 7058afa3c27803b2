/* SPDX-License-Identifier: MIT */
/*
 * The segments of a pool, as the server has them.
 *
 * The idea: a sealed segment can be mapped writable by nobody any more, so the
 * keeper offers each while it is not sealed yet. A server that is forked later
 * inherits the keeper's mappings instead. Segments that are neighbours in the
 * pool need not be here, hence pool_write.
 */
#include "daemon/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/segment.h"

void segment_forget(struct server *server)
{
	if (server->offered.addr)
		munmap(server->offered.addr, server->offered.size);
	server->offered = (struct mapped_segment) {0};
}

int segment_offered(struct server *server, const struct msg_segment *from,
	struct wire_message *m)
{
	_cleanup_fd_ int fd = wire_take_fd(m, 0);
	struct msg_segment answer = *from;
	void *addr = NULL;
	int r;

	segment_forget(server);
	r = segment_map_rw(fd, from->size, &addr);
	if (r == 0)
		server->offered = (struct mapped_segment) {
			.rule = from->rule,
			.number = from->number,
			.offset = from->offset,
			.size = from->size,
			.addr = addr,
		};
	else
		answer.size = 0;
	/* The keeper waits for an answer, whichever it is. */
	server_tell_keeper(
		server, D_SEGMENT_MAPPED, &answer, sizeof(answer), NULL, 0);
	return r;
}

/* Room for n; those that nobody came for yet are not there. */
static int reserve(struct rule *rule, uint32_t n)
{
	struct segment *segments;

	if (n <= rule->n_segments)
		return 0;
	segments = reallocarray(rule->segments, n, sizeof(*segments));
	if (!segments)
		return tarn_fail(ENOMEM, "out of memory for %u segments", n);
	rule->segments = segments;
	while (rule->n_segments < n)
		segments[rule->n_segments++] =
			(struct segment) {.fd = -1, .state = SEGMENT_GONE};
	return 0;
}

/* The mapping of a segment that is told of: offered just before, or inherited,
 * in which case it comes in the order of those. */
static const struct mapped_segment *mapping_of(
	struct server *server, uint32_t number)
{
	const struct server_start *start = &server->start;

	if (server->offered.addr && server->offered.number == number)
		return &server->offered;
	if (server->n_inherited < start->n_segments &&
		start->segments[server->n_inherited].number == number)
		return &start->segments[server->n_inherited++];
	return NULL;
}

/* From a number on, up to another; that other one: there is none. */
static uint32_t find_between(
	const struct rule *rule, uint64_t offset, uint32_t from, uint32_t to)
{
	const struct table_segment *segments = rule->table.segments;

	while (from < to && (segments[from].state != SEGMENT_READY ||
				    segments[from].offset != offset))
		from++;
	return from;
}

/* The table's number of a segment that an earlier server had put there; one
 * beyond the last when it had not come to that, or had begun to drop it. They
 * are in the same order there, so that the search goes on behind the last that
 * was found; but for one that was dropped by a server that died before it told
 * the keeper, which the next one put behind all others. */
static uint32_t find_in_table(struct rule *rule, uint64_t offset)
{
	uint32_t n = rule->table.header->n_segments, found = rule->n_found;
	uint32_t i = find_between(rule, offset, found, n);

	if (i == n) {
		i = find_between(rule, offset, 0, found);
		if (i == found)
			return n;
	}
	rule->n_found = i + 1;
	return i;
}

/* There was no memory to write it down: the keeper takes it back, rather than
 * count what nobody can use. Who waits asks again. */
static void send_back(struct server *server, const struct msg_segment *from)
{
	/* In a take-over it is the server that goes. */
	if (!server->serving)
		return;
	segment_forget(server);
	server_tell_keeper(
		server, D_DROP_SEGMENT, from, sizeof(*from), NULL, 0);
}

int segment_come(struct server *server, const struct msg_segment *from,
	struct wire_message *m)
{
	struct rule *rule = rule_find(server, from->rule);
	const struct mapped_segment *mapped = mapping_of(server, from->number);
	_cleanup_fd_ int fd = wire_take_fd(m, 0);
	uint32_t index;
	bool is_new;
	int r = 0;

	if (!rule || fd < 0)
		return -EPROTO;
	if (!mapped || mapped->size != from->size)
		return tarn_fail(EPROTO,
			"segment %u was neither offered nor inherited",
			from->number);
	index = find_in_table(rule, from->offset);
	is_new = index == rule->table.header->n_segments;
	if (is_new)
		r = table_add_segment(rule->writer, rule->number, from->offset,
			from->size, &index);
	is_new &= r == 0;
	if (r == 0)
		r = reserve(rule, index + 1);
	if (r == 0)
		r = alloc_add(mapped->addr ? rule->alloc : rule->frozen,
			from->offset, from->size);
	if (r < 0) {
		if (is_new)
			table_drop_segment(rule->writer, index);
		send_back(server, from);
		return r;
	}
	rule->segments[index] =
		(struct segment) {.mapped = *mapped, .fd = fd_steal(&fd)};
	if (mapped == &server->offered)
		server->offered = (struct mapped_segment) {0};
	server->allocated += from->size;
	return 0;
}

int segments_rebuild(struct rule *rule)
{
	int r = reserve(rule, rule->table.header->n_segments);

	for (uint32_t i = 0; r == 0 && i < rule->n_segments; i++)
		if (rule->segments[i].fd < 0 &&
			rule->table.segments[i].state == SEGMENT_READY)
			table_drop_segment(rule->writer, i);
	return r;
}

void segments_free(struct rule *rule)
{
	for (uint32_t i = 0; i < rule->n_segments; i++) {
		struct mapped_segment *s = &rule->segments[i].mapped;

		if (s->addr)
			munmap(s->addr, s->size);
		fd_close(rule->segments[i].fd);
	}
	free(rule->segments);
}

/* The one that an offset lies in, which was taken, so there is one. */
static const struct mapped_segment *segment_at(
	const struct rule *rule, uint64_t offset)
{
	uint32_t i = 0;

	while (!rule->segments[i].mapped.addr ||
		offset - rule->segments[i].mapped.offset >=
			rule->segments[i].mapped.size)
		i++;
	return &rule->segments[i].mapped;
}

int pool_pieces(struct rule *rule, uint64_t offset, uint64_t size,
	struct iovec **ret, uint32_t *ret_n)
{
	uint64_t end = offset + size;
	struct iovec *v = NULL;
	uint32_t n = 0;

	while (offset < end) {
		struct iovec *more = reallocarray(v, n + 1, sizeof(*v));
		const struct mapped_segment *s;

		if (!more) {
			free(v);
			return tarn_fail(ENOMEM, "out of memory");
		}
		v = more;
		s = segment_at(rule, offset);
		v[n].iov_base = (char *)s->addr + (offset - s->offset);
		v[n].iov_len = MIN(end, s->offset + s->size) - offset;
		offset += v[n++].iov_len;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

void pool_write(
	struct rule *rule, uint64_t offset, const void *from, uint64_t size)
{
	uint64_t end = offset + size;

	for (uint32_t i = 0; i < rule->n_segments; i++) {
		const struct mapped_segment *s = &rule->segments[i].mapped;
		uint64_t a = MAX(offset, s->offset);
		uint64_t b = MIN(end, s->offset + s->size);
		unsigned char *to = s->addr;

		if (a >= b || !to)
			continue;
		to += a - s->offset;
		if (from)
			memcpy(to, (const char *)from + (a - offset), b - a);
		else
			memset(to, 0, b - a);
	}
}
