/* SPDX-License-Identifier: MIT */
/*
 * The segments of a pool, as the server has them.
 *
 * No process can map a sealed segment writable any more, so the keeper offers
 * each before it is sealed. A server that is forked later inherits the keeper's
 * mappings instead. Neighbouring segments of the pool need not be neighbours in
 * memory, hence pool_write.
 */
#include "daemon/server/server.h"

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
			.domain = from->domain,
			.number = from->number,
			.offset = from->offset,
			.size = from->size,
			.addr = addr,
		};
	else
		answer.size = 0;
	/* The keeper waits for an answer, in any case. */
	server_send_keeper(
		server, D_SEGMENT_MAPPED, &answer, sizeof(answer), NULL, 0);
	return r;
}

/* Makes the array large enough for n; new entries are empty. */
static int reserve(struct domain *domain, uint32_t n)
{
	struct segment *segments;

	if (n <= domain->pool.n_segments)
		return 0;
	segments = reallocarray(domain->pool.segments, n, sizeof(*segments));
	if (!segments)
		return tarn_fail(ENOMEM, "out of memory for %u segments", n);
	domain->pool.segments = segments;
	while (domain->pool.n_segments < n)
		segments[domain->pool.n_segments++] =
			(struct segment) {.fd = -1, .state = SEGMENT_GONE};
	return 0;
}

/* The mapping of an announced segment: offered just before, or inherited, in
 * which case they are announced in order. */
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
static uint32_t find_between(const struct domain *domain, uint64_t offset,
	uint32_t from, uint32_t to)
{
	const struct table *table = &domain->table;

	while (from < to && (!table_segment_serial(table, from) ||
				    table->segments[from].offset != offset))
		from++;
	return from;
}

/* The table's number of a segment that an earlier server had put there; one
 * beyond the last when it had not come to that, or had begun to drop it. The
 * search goes on behind the last that was found: as long as no number was used
 * again, the keeper announces segments in the order of their numbers. */
static uint32_t find_in_table(struct domain *domain, uint64_t offset)
{
	uint32_t n = domain->table.header->n_segments,
		 found = domain->pool.n_found;
	uint32_t i = find_between(domain, offset, found, n);

	if (i == n) {
		i = find_between(domain, offset, 0, found);
		if (i == found)
			return n;
	}
	domain->pool.n_found = i + 1;
	return i;
}

/* The number of a new segment. A segment that left keeps its number here until
 * the keeper has dropped it, too: loaders that are forked before that get a
 * message to unmap it. */
static uint32_t spare_number(const struct domain *domain)
{
	uint32_t i = table_spare_segment(&domain->table, 0);

	while (i < domain->pool.n_segments &&
		domain->pool.segments[i].state != SEGMENT_GONE)
		i = table_spare_segment(&domain->table, i + 1);
	return i;
}

/* There was no memory for its record: the keeper takes it back, rather than
 * count memory that the server cannot use. Requests that wait ask again. */
static void send_back(struct server *server, const struct msg_segment *from)
{
	/* In a take-over it is the server that goes. */
	if (!server->serving)
		return;
	segment_forget(server);
	server_send_keeper(
		server, D_DROP_SEGMENT, from, sizeof(*from), NULL, 0);
}

int segment_come(struct server *server, const struct msg_segment *from,
	struct wire_message *m)
{
	struct domain *domain = domain_find(server, from->domain);
	const struct mapped_segment *mapped = mapping_of(server, from->number);
	_cleanup_fd_ int fd = wire_take_fd(m, 0);
	uint32_t index;
	bool is_new;
	int r = 0;

	if (!domain || fd < 0)
		return -EPROTO;
	if (!mapped || mapped->size != from->size)
		return tarn_fail(EPROTO,
			"segment %u was neither offered nor inherited",
			from->number);
	index = find_in_table(domain, from->offset);
	is_new = index == domain->table.header->n_segments;
	if (is_new) {
		index = spare_number(domain);
		r = table_add_segment(domain->writer, index, domain->number,
			from->place, from->offset, from->size);
	}
	is_new &= r == 0;
	if (r == 0)
		r = reserve(domain, index + 1);
	if (r == 0)
		r = mapped->addr
			    ? lane_add(&domain->pool, from->offset, from->size)
			    : alloc_add(domain->pool.old_alloc, from->offset,
				      from->size);
	if (r < 0) {
		if (is_new)
			table_drop_segment(domain->writer, index);
		send_back(server, from);
		return r;
	}
	domain->pool.segments[index] = (struct segment) {.mapped = *mapped,
		.huge = MIN(from->huge, from->size),
		.fd = fd_steal(&fd)};
	if (mapped == &server->offered)
		server->offered = (struct mapped_segment) {0};
	server->allocated += from->size;
	return 0;
}

int segments_rebuild(struct domain *domain)
{
	int r = reserve(domain, domain->table.header->n_segments);

	for (uint32_t i = 0; r == 0 && i < domain->pool.n_segments; i++)
		if (domain->pool.segments[i].fd < 0 &&
			table_segment_serial(&domain->table, i))
			table_drop_segment(domain->writer, i);
	return r;
}

void segments_free(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_segments; i++) {
		struct mapped_segment *s = &pool->segments[i].mapped;

		if (s->addr)
			munmap(s->addr, s->size);
		fd_close(pool->segments[i].fd);
	}
	free(pool->segments);
}

/* The one that an offset lies in, which was taken, so there is one. */
static const struct mapped_segment *segment_at(
	const struct pool *pool, uint64_t offset)
{
	uint32_t i = 0;

	while (!pool->segments[i].mapped.addr ||
		offset - pool->segments[i].mapped.offset >=
			pool->segments[i].mapped.size)
		i++;
	return &pool->segments[i].mapped;
}

int pool_pieces(struct pool *pool, uint64_t offset, uint64_t size,
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
		s = segment_at(pool, offset);
		v[n].iov_base = (char *)s->addr + (offset - s->offset);
		v[n].iov_len = MIN(end, s->offset + s->size) - offset;
		offset += v[n++].iov_len;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

void pool_write(
	struct pool *pool, uint64_t offset, const void *from, uint64_t size)
{
	uint64_t end = offset + size;

	for (uint32_t i = 0; i < pool->n_segments; i++) {
		const struct mapped_segment *s = &pool->segments[i].mapped;
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
