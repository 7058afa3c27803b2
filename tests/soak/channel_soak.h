/* SPDX-License-Identifier: MIT */
/*
 * What the soak of channels and its children share.
 *
 * A board in memory that all share has four bytes for each item: how far its
 * producer got (begun before it publishes, done after), how often the item came
 * for the first time, how often at all, and whether a receiver finished it and
 * lived to say so. An item that is done must have come to a receiver that
 * finished it; no item may come twice except as redelivered, or twice to one
 * listener.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SOAK_ITEMS (8u << 20)
#define SOAK_PATIENCE_S 120 /* for what takes long on a busy machine */

enum { BEGUN = 1, DONE = 2 };

enum role { QUEUE_OUT, QUEUE_IN, CAST_OUT, CAST_IN, CAST_STAY, ROLES };

struct soak_role {
	const char *name, *channel;
	int n;
	bool killed;
};
extern const struct soak_role soak_roles[ROLES];
#define SOAK_CHILDREN 7

struct soak_board {
	char socket[108];
	atomic_bool stop;
	atomic_uint next; /* item */
	atomic_uint faults, again, done, kept;
	char fault[300]; /* the first */
	/* The mode is known by the number: odd ones are broadcast. */
	atomic_uchar published[SOAK_ITEMS], first[SOAK_ITEMS], seen[SOAK_ITEMS];
	atomic_uchar through[SOAK_ITEMS];
};

/* Of this process: mapped, and its own chances. */
extern struct soak_board *soak_board;
extern uint64_t soak_rng;
uint32_t soak_below(uint32_t n);
void soak_nap_us(uint32_t us);
/* Maps the board at that descriptor, or bails out. */
void soak_map_board(int fd);

/* What must not be; the first is kept. */
void soak_fault(const char *fmt, ...) __attribute__((__format__(printf, 1, 2)));

/* Does what that role does to the end; the exit status. */
int soak_child(int role, int fd, uint64_t seed);
