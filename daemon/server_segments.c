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
	int r, told;

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
	told = server_tell_keeper(
		server, D_SEGMENT_MAPPED, &answer, sizeof(answer), NULL, 0);
	return r < 0 ? r : told;
}

static int reserve(struct rule *rule)
{
	size_t n = (size_t)rule->n_segments + 1;
	struct segment *segments =
		reallocarray(rule->segments, n, sizeof(*segments));

	if (!segments)
		return tarn_fail(ENOMEM, "out of memory for %zu segments", n);
	rule->segments = segments;
	return 0;
}

int segment_come(struct server *server, const struct msg_segment *from,
	struct wire_message *m)
{
	struct mapped_segment *offered = &server->offered;
	struct rule *rule = rule_find(server, from->rule);
	_cleanup_fd_ int fd = wire_take_fd(m, 0);
	uint32_t index;
	int r;

	if (!rule || fd < 0)
		return -EPROTO;
	if (!offered->addr || offered->number != from->number ||
		offered->size != from->size)
		return tarn_fail(EPROTO, "segment %u was not offered before",
			from->number);
	r = reserve(rule);
	if (r == 0)
		r = table_add_segment(rule->writer, rule->number, from->offset,
			from->size, &index);
	if (r == 0 && index != rule->n_segments)
		r = tarn_fail(EPROTO, "segment %u is numbered %u",
			rule->n_segments, index);
	if (r == 0)
		r = alloc_add(rule->alloc, from->offset, from->size);
	if (r < 0)
		return r;
	rule->segments[index] =
		(struct segment) {.mapped = *offered, .fd = fd_steal(&fd)};
	*offered = (struct mapped_segment) {0};
	rule->n_segments++;
	server->allocated += from->size;
	return 0;
}

void segments_free(struct rule *rule)
{
	for (uint32_t i = 0; i < rule->n_segments; i++) {
		struct mapped_segment *s = &rule->segments[i].mapped;

		munmap(s->addr, s->size);
		fd_close(rule->segments[i].fd);
	}
	free(rule->segments);
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
