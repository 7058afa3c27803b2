/* SPDX-License-Identifier: MIT */
/*
 * What a keeper leaves to the program that takes its place: records in a
 * memfd, and the descriptors that they name, all in the same process.
 */
#pragma once

#include <stdbool.h>

#include "daemon/door.h"
#include "daemon/keeper.h"
#include "daemon/oom.h"

/* What is not in the keeper itself. */
struct keeper_rest {
	struct door_parts door;
	struct oom_score oom;
	uint64_t left_at; /* CLOCK_MONOTONIC ns: nobody is served since then */
	char socket[108]; /* the door's path */
};

int keeper_state_write(struct keeper *keeper, const struct keeper_rest *rest,
	int *ret_fd);
/* Into an empty keeper, with what its records name, all of it checked:
 * -EPROTO, -ENOMEM. Does not close fd. */
int keeper_state_read(int fd, struct keeper *keeper, struct keeper_rest *ret);
/* Do all those descriptors survive an exec? */
void keeper_state_inherit(struct keeper *keeper, bool survive);
