/* SPDX-License-Identifier: MIT */
/* What movers share, made together and given back together. */
#pragma once

#include "lib/copy/mover.h"

/* An engine (NULL: the better one that works) and what hangs on it; buffers of
 * that many bytes; with_regions: memory may be registered. */
int mover_env_open(struct mover_env *env, const char *engine, uint64_t buffer,
	bool with_regions) _must_check_;

/*
 * Waits until the kernel has let go of everything. 0; else the engine does not
 * answer any more: then nothing that it was given may be freed, ever, and the
 * env must be left as it is.
 */
int mover_env_settle(struct mover_env *env) _must_check_;

/* Nothing is under way, and no mover is left. */
void mover_env_close(struct mover_env *env);
