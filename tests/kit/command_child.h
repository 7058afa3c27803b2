/* SPDX-License-Identifier: MIT */
/* A child that gets commands, a letter each, and answers with a number. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct command_child {
	pid_t pid;
	int ask, answer;
	int its[2]; /* the child's ends, until it is there */
};

/* Before a fork, and after it, in both: there the child does what be() does,
 * which is to read letters, write an int32_t for each, and return when there
 * is no other. */
struct command_child command_child_prepare(void);
void command_child_forked(struct command_child *child, pid_t pid,
	void (*be)(int ask, int answer));

/* What it answers. */
int32_t command_child_ask(const struct command_child *child, char what);
/* Closes its input; the parent waits for its end. */
void command_child_leave(const struct command_child *child);
