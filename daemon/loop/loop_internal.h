/* SPDX-License-Identifier: MIT */
/*
 * The interface of a kind of loop to loop.c. The kernel knows a watch by a tag,
 * slot and generation, never by its address: an event that was on its way
 * when its watch went away finds another generation in the slot, and is
 * dropped.
 */
#pragma once

#include "daemon/loop/loop.h"

struct loop_watch {
	struct loop *loop;
	uint32_t slot;
	int fd;
	unsigned want;
	loop_fn fn;
	void *arg;
	bool muted;
	bool armed; /* io_uring: a poll is under way */
};

struct loop_ops {
	const char *name;
	void (*free)(struct loop *loop);
	int (*add)(struct loop_watch *watch);
	/* want has changed already; tag too if the kind asked for that. */
	int (*change)(struct loop_watch *watch);
	/* No more events, until change; the same of the tag. */
	int (*mute)(struct loop_watch *watch);
	void (*remove)(struct loop_watch *watch);
	/* Waits, at most until loop_wait_until, and dispatches one batch. */
	int (*turn)(struct loop *loop);
};

struct loop_slot {
	struct loop_watch *watch; /* NULL: free */
	uint32_t generation;
	uint32_t next_free;
};

/* The head of each kind's own structure. */
struct loop {
	const struct loop_ops *ops;
	struct loop_slot *slots;
	uint32_t n_slots;
	uint32_t first_free;
	bool quit;
	struct deadlines deadlines;
	void (*between_fn)(void *arg);
	void *between_arg;
};

/* -errno and a sentence when the kernel refuses. */
int loop_uring_new(struct loop **ret);
int loop_epoll_new(struct loop **ret);

static inline uint64_t loop_tag(const struct loop_watch *watch)
{
	return (uint64_t)watch->loop->slots[watch->slot].generation << 32 |
	       watch->slot;
}

/* From now on the old tag means nothing. */
static inline void loop_retag(struct loop_watch *watch)
{
	watch->loop->slots[watch->slot].generation++;
}

/* NULL: the watch is gone, or has another tag by now. */
static inline struct loop_watch *loop_find(struct loop *loop, uint64_t tag)
{
	uint32_t slot = (uint32_t)tag;

	if (slot >= loop->n_slots || !loop->slots[slot].watch ||
		loop->slots[slot].generation != tag >> 32)
		return NULL;
	return loop->slots[slot].watch;
}

/* ns from now until the first deadline, 0 when it is due; UINT64_MAX: none is
 * set. */
uint64_t loop_wait_until(const struct loop *loop);

/* poll(2) bits, which are epoll's too, and ours. */
unsigned loop_to_poll(unsigned want);
unsigned loop_from_poll(unsigned events);

/* Calls the watch that tag means, if it wants any of ready. */
void loop_dispatch(struct loop *loop, uint64_t tag, unsigned ready);
