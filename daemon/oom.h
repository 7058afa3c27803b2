/* SPDX-License-Identifier: MIT */
/* Whom the OOM killer takes: a worker first, the keeper last. */
#pragma once

/* The keeper, if it may: what it holds cannot be made again. */
void oom_protect(void);
/* A child of it: as before that. */
void oom_restore(void);
/* A child that is best killed first. */
void oom_offer(void);
