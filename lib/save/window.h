/* SPDX-License-Identifier: MIT */
/*
 * Filling a stretch of memory with bytes of a file to be: those of the tensors
 * that lie there, from wherever these are now.
 */
#pragma once

#include "lib/save/plan.h"

struct window {
	uint64_t offset, size; /* in the file */
	tarn_storage *storage; /* its memory: offset is at its beginning */
};

/*
 * Copies what is in memory, and queues copies of what is not on stream, each
 * with user; *ret_queued says how many. wait is called when the stream takes
 * no more, until it does, or says no. After a failure some may be queued.
 */
int window_fill(struct window *w, const struct save_plan *plan,
	tarn_stream *stream, uint64_t user, int (*wait)(void *arg), void *arg,
	unsigned *ret_queued);
