/* SPDX-License-Identifier: MIT */
/* The resources that copy operations share, made and freed together. */
#pragma once

#include "lib/copy/copy_op.h"

/* Makes an engine (NULL: the better one that works) and its tables; buffers of
 * that many bytes; with_regions: memory may be registered. */
int copy_env_open(struct copy_env *env, const char *engine, uint64_t buffer,
	bool with_regions) _must_check_;

/*
 * Waits until the kernel has finished all requests. 0; otherwise the engine
 * does not answer any more: then nothing that it was given may be freed, ever,
 * and the env must be left as it is.
 */
int copy_env_drain(struct copy_env *env) _must_check_;

/* No request may be under way, and no copy operation be left. */
void copy_env_close(struct copy_env *env);
