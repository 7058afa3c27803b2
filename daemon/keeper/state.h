/* SPDX-License-Identifier: MIT */
/*
 * The state that a keeper hands to the program that replaces it: records in a
 * memfd, and the descriptors that they name, all in the same process.
 */
#pragma once

#include <stdbool.h>

#include "daemon/keeper/keeper.h"
#include "daemon/keeper/listener.h"
#include "daemon/keeper/oom.h"

/* State that is not in the keeper itself. */
struct keeper_rest {
	struct listener_parts listener;
	struct oom_score oom;
	uint64_t left_at; /* CLOCK_MONOTONIC ns: no client since then */
	char socket[108]; /* the listener's path */
};

/* What was in force of the configuration, for a program that cannot read it at
 * that moment. */
#define SETTINGS_VERSION 2u /* of this and of all that is in it */
struct keeper_settings {
	uint64_t budget;
	uint64_t segment_max;
	uint64_t idle_ns;
	uint16_t mode;
	struct placement placement; /* of older programs auto */
	uint32_t flags;             /* POOL_*, of pools that say nothing */
	uint32_t there;             /* in memory: it was handed over */
	struct config config;
};

int keeper_state_write(
	struct keeper *keeper, const struct keeper_rest *rest, int *ret_fd);
/* Into an empty keeper, with what its records name, all of it checked:
 * -EPROTO, -ENOMEM. waits: for memory, as long as there is none; then it is no
 * error. Does not close fd. */
int keeper_state_read(int fd, bool waits, struct keeper *keeper,
	struct keeper_rest *ret, struct keeper_settings *ret_settings);
/* Do all those descriptors survive an exec? */
void keeper_state_inherit(struct keeper *keeper, bool survive);
