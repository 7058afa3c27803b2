/* SPDX-License-Identifier: MIT */
/*
 * The memory of a pool: its segments, what is taken of them, and how there
 * comes to be room.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "daemon/internal.h"

struct loader;
struct rule;
struct server;

/* So long somebody waits for room that is on its way, and others may take
 * before him; picked, twice as long as loaders have to let go of it. What one
 * that hangs keeps does not come back. */
#define ROOM_WAIT_NS 10000000000ull

enum segment_life {
	SEGMENT_HERE,
	SEGMENT_LEAVING, /* nothing lies in it; loaders are told */
	SEGMENT_LEFT,    /* and have it no more; the keeper is told */
	SEGMENT_GONE,
};

/* A segment of a pool as the server has it. */
struct segment {
	struct mapped_segment mapped; /* its number is the keeper's */
	int fd;                       /* O_RDONLY, for clients; -1 when left */
	enum segment_life state;
	uint64_t left_at; /* when loaders were told; loop_now() */
};

/* When memory was last taken or given back, and what was done since. */
struct shrink {
	uint64_t used, total; /* as they were then */
	uint64_t moved_at;
	int stage; /* 1: trimmed to what stays warm, 2: to nothing */
};

/* server_segments.c: the pool's memory */
/* D_SEGMENT_MAP: maps one before it is sealed, and says so. */
int segment_offered(struct server *server, const struct msg_segment *from,
	struct wire_message *m);
/* D_SEGMENT: it is sealed, and ours to give out. */
int segment_come(struct server *server, const struct msg_segment *from,
	struct wire_message *m);
/* Nothing will come of the one that was offered. */
void segment_forget(struct server *server);
/* The keeper has told of all that there are: others went. */
int segments_rebuild(struct rule *rule);
void segments_free(struct rule *rule);
/* The same place as pieces of our memory, malloc'ed. It stays where it is as
 * long as it is taken. */
int pool_pieces(struct rule *rule, uint64_t offset, uint64_t size,
	struct iovec **ret, uint32_t *ret_n);
/* Copies size bytes to a place in the pool that was taken (alloc.h), across
 * the borders of segments; from NULL writes zeroes. */
void pool_write(
	struct rule *rule, uint64_t offset, const void *from, uint64_t size);

/* server_frozen.c: segments of before an upgrade */
/* Takes what a storage has, when rebuilding; and gives it back. */
int memory_retake(struct rule *rule, uint32_t index);
void memory_give(struct rule *rule, uint32_t index);
/* Bytes of segments, and of these taken, frozen ones too. */
uint64_t memory_total(const struct rule *rule);
uint64_t memory_used(const struct rule *rule);
/* Can it be written, of those that are here? */
bool segment_is_frozen(const struct segment *segment);
/* Gives back frozen ones in which nothing lies: how much is going. */
uint64_t frozen_trim(struct rule *rule);
/* Looks for what is held by nobody, where some cannot ring any more; when to
 * look next, 0: never. */
uint64_t frozen_look(struct server *server, uint64_t now);

/* server_shrink.c: segments in which nothing lies */
/* Drops empty ones as long as keep bytes stay free: how much is going. */
uint64_t segments_trim(struct rule *rule, uint64_t keep);
/* One that is here and empty: does it go? */
bool segment_leave(struct rule *rule, struct segment *segment);
/* Trims what has been empty for a while; when to look again, 0: never. */
uint64_t segments_look(struct rule *rule, uint64_t now);
/* A loader has answered, or is new, or is no more. */
void segments_forgotten(struct loader *loader, uint32_t number);
void segments_tell_loader(struct loader *loader);
void segments_settle(struct rule *rule);
int segment_dropped(struct server *server, const struct msg_segment *which);

/* server_memory.c: memory of the pool */
/*
 * Takes size bytes, whole pages. 1: *ret_offset is where; 0: wait, the keeper
 * was asked for more, *ret_asked tells if it was now. -ENOSPC, without a
 * sentence: there is none, even where it could not grow (may_grow false) and
 * everything was evicted.
 */
int memory_take(struct rule *rule, uint64_t size, bool may_grow,
	bool *ret_asked, uint64_t *ret_offset);
/* Asks the keeper for memory that takes size bytes in one piece. */
int memory_ask(struct rule *rule, uint64_t size);

/* server_room.c: room where the keeper has none */
/* It refused what the rule had asked for. 1: there is room now; 0: memory is
 * on its way to the keeper, who will be asked again; -ENOSPC: there is none. */
int room_wanted(struct rule *rule);
/* For what is not in a pool: the same, and files that nobody holds are given
 * up for it. 0: publications of the rule will be gone on with; -ENOSPC is
 * without a sentence. */
int room_for_own(struct rule *rule, uint64_t size, bool may_wait);
/* Does memory come back to the rule of itself? Then who asks for some is parked
 * until it does, or until that time, which is set once. */
bool room_comes_back(const struct rule *rule, uint64_t *until);
/* Is he to ask again? Else, if he is parked, *next is not after his time. */
bool room_unpark(bool *parked, uint64_t until, uint64_t now, uint64_t *next);
/* Asks again where it is time; when to look next, 0: never. */
uint64_t room_look(struct server *server, uint64_t now);
/* Gives the system back at least so many bytes, if there are so many that
 * nobody holds; how many. */
uint64_t room_give(struct server *server, uint64_t bytes);
/* What that could be at best. */
uint64_t room_givable(const struct server *server);

/* server_pressure.c: when memory is short */
/* When all was told: triggers of another server may be among it. */
void server_pressure_begin(struct server *server);
/* Looks at the headroom where it is time; when to look next, 0: never. */
uint64_t server_pressure_look(struct server *server, uint64_t now);
