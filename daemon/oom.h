/* SPDX-License-Identifier: MIT */
/* Whom the OOM killer takes: a worker first, the keeper last. */
#pragma once

/* The keeper, if it may: what it holds cannot be made again. While it is
 * dumpable. */
void oom_protect(void);
/* The keeper, around each fork. */
void oom_before_fork(void);
void oom_after_fork(void);
/* A child of it: rather than the keeper. */
void oom_be_child(void);
/* A child that is best killed first. */
void oom_offer(void);
