/* SPDX-License-Identifier: MIT */
/* Whom the OOM killer takes: a worker first, the keeper last. */
#pragma once

#include <stdint.h>

/* The keeper, if it may: what it holds cannot be made again. While it is
 * dumpable. */
void oom_protect(void);
/* The keeper, around each fork. */
void oom_before_fork(void);
void oom_after_fork(void);
/* A child of it: rather than the keeper. */
void oom_be_child(void);

/* The state that the program which replaces this one needs. */
struct oom_score {
	int32_t lowered, before;
};
struct oom_score oom_score(void);
/* In the new program: while it is dumpable, and when it knows. */
void oom_reopen(void);
void oom_adopt(const struct oom_score *score);

/* A child that is best killed first. */
void oom_offer(void);
