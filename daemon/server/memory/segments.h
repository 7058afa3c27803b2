/* SPDX-License-Identifier: MIT */
/* The memory of a pool: its segments, and what is taken of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/nodes.h"
#include "daemon/loop/deadline.h"
#include "daemon/messages.h"
#include "daemon/server/memory/alloc.h"

struct domain;
struct memory_wait;
struct server;

enum segment_life {
	SEGMENT_HERE,
	SEGMENT_LEAVING, /* it is empty; loaders were notified */
	SEGMENT_LEFT,    /* loaders have unmapped it; sent to the keeper */
	SEGMENT_GONE,
};

/* A segment of a pool as the server has it. */
struct segment {
	struct mapped_segment mapped; /* its number is the keeper's */
	uint64_t huge;                /* bytes of it in huge pages */
	int fd;                       /* O_RDONLY, for clients; -1 when left */
	enum segment_life state;
	uint64_t left_at; /* when loaders were notified; loop_now() */
};

/*
 * A process that has segments mapped and writes them, so that none of them goes
 * before this process has forgotten it: a loader, of which this is a part. The
 * owner sets forget, n_segments and mute.
 */
struct segment_mapper {
	/* Asks the process to unmap that segment; with its answer the owner
	 * calls segments_forgotten(). */
	void (*forget)(struct segment_mapper *mapper, uint32_t number);
	uint32_t n_segments; /* it has those numbered below */
	bool mute; /* it answers nothing any more, and may still write */

	/* memory/trim.c: */
	struct segment_mapper *next; /* of the pool */
	uint32_t *forgetting;        /* segments that it was asked to unmap */
	uint32_t n_forgetting;
	uint64_t forget_at; /* since then it has forgotten none of them */
};

/* When memory was last taken or given back, and what was done since. */
struct shrink {
	uint64_t used, total; /* as they were then */
	uint64_t moved_at;
	int stage; /* 1: trimmed to what stays warm, 2: to nothing */
};

/* The memory of one domain. */
struct pool {
	/* Lane 0; and those of nodes, NULL where there is no memory. */
	struct alloc *alloc;
	struct alloc *on_node[NODES_MAX];
	uint32_t n_on_node; /* nodes from this number on have none */
	uint64_t lane_size; /* 0: lane 0 is all there is */
	/* Of segments that nobody can write any more: memory/old_segments.c. */
	struct alloc *old_alloc;
	uint64_t old_used; /* bytes used there when it was last looked at */
	struct segment *segments; /* by the table's number */
	uint32_t n_segments;
	uint32_t n_found; /* of those that a dead server had in the table */
	struct segment_mapper *mappers;
	struct shrink shrink;
	struct deadline shrink_timer;
};

/* memory/segments.c: the pool's memory */
/* D_SEGMENT_MAP: maps one before it is sealed, and answers. */
int segment_offered(struct server *server, const struct msg_segment *from,
	struct wire_message *m);
/* D_SEGMENT: it is sealed, and ours to give out. */
int segment_come(struct server *server, const struct msg_segment *from,
	struct wire_message *m);
/* Nothing will come of the one that was offered. */
void segment_forget(struct server *server);
/* The keeper has announced all of them: any others were dropped. */
int segments_rebuild(struct domain *domain);
void segments_free(struct pool *pool);
/* The same place as pieces of our memory, malloc'ed. It stays where it is as
 * long as it is taken. */
int pool_pieces(struct pool *pool, uint64_t offset, uint64_t size,
	struct iovec **ret, uint32_t *ret_n);
/* Copies size bytes to a place in the pool that was taken (alloc.h), across
 * the borders of segments; from NULL writes zeroes. */
void pool_write(
	struct pool *pool, uint64_t offset, const void *from, uint64_t size);

/* memory/lanes.c: the allocators of a pool */
/* NULL: no memory lies there. */
struct alloc *lane_alloc(const struct pool *pool, uint32_t lane);
struct alloc *lane_alloc_at(const struct pool *pool, uint64_t offset);
/* As alloc_add, in the lane of the offset. */
int lane_add(struct pool *pool, uint64_t offset, uint64_t size);
bool lane_take(
	struct pool *pool, uint32_t lane, uint64_t size, uint64_t *ret_offset);
/* In whichever lane there is room. */
bool lane_take_any(struct pool *pool, uint64_t size, uint64_t *ret_offset);
uint64_t lane_largest(const struct pool *pool, uint32_t lane);
uint64_t lane_tail(const struct pool *pool, uint32_t lane);
uint64_t lane_total(const struct pool *pool, uint32_t lane);
/* Of all lanes, without old segments. */
uint64_t lanes_total(const struct pool *pool);
uint64_t lanes_used(const struct pool *pool);
void lanes_free(struct pool *pool);
/* Is what lies there where a request insists on it, if it does? */
bool lane_fits(const struct pool *pool, uint32_t flags, uint64_t offset);
/* Sets lane and strict, once, by the pool's policy and by the node in a request's
 * flags (place.h): -EINVAL, -ENODEV, -ENOTSUP with a sentence. */
int lane_choose(
	const struct domain *domain, uint32_t flags, struct memory_wait *ret);

/* memory/old_segments.c: segments of before an upgrade */
/* Takes what a storage has, when rebuilding; and gives it back. */
int memory_retake(struct domain *domain, uint32_t index);
void memory_give(struct domain *domain, uint32_t index);
/* Bytes of segments, and of these taken, old ones too. */
uint64_t memory_total(const struct pool *pool);
uint64_t memory_used(const struct pool *pool);
/* Can it be written, of those that are here? */
bool segment_is_old(const struct segment *segment);
/* Gives back old ones in which nothing lies: how much is going. */
uint64_t old_segments_trim(struct domain *domain);

/* memory/trim.c: segments in which nothing lies */
/* Drops empty ones as long as keep bytes stay free: how much is going. */
uint64_t segments_trim(struct domain *domain, uint64_t keep);
/* One that is here and empty: does it go? */
bool segment_leave(struct domain *domain, struct segment *segment);
/* Between turns: trims what has been empty for a while. */
void segments_poll(struct domain *domain, uint64_t now);
/* A process maps them, and is asked at once to forget those that leave. */
void segments_map(struct domain *domain, struct segment_mapper *mapper);
/* It has forgotten that one. */
void segments_forgotten(
	struct domain *domain, struct segment_mapper *mapper, uint32_t number);
/* It is no more, and has forgotten all; it may be that it never mapped any. */
void segments_unmap(struct domain *domain, struct segment_mapper *mapper);
/* Those that leave and are mapped by nobody go. */
void segments_finish(struct domain *domain);
int segment_dropped(struct server *server, const struct msg_segment *which);
