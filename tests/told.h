/* SPDX-License-Identifier: MIT */
/* A child that does what it is told, a letter each time, and answers with a
 * number. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct told {
	pid_t pid;
	int ask, hear;
	int its[2]; /* the child's ends, until it is there */
};

/* Before a fork, and after it, in both: there the child does what be() does,
 * which is to read letters, write an int32_t for each, and return when there
 * is no other. */
struct told told_prepare(void);
void told_forked(struct told *told, pid_t pid, void (*be)(int ask, int answer));

/* What it answers. */
int32_t tell(const struct told *told, char what);
/* It hears no more; whether it ends is for its parent to see. */
void told_leave(const struct told *told);
