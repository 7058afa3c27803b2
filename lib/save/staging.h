/* SPDX-License-Identifier: MIT */
/*
 * Filling a part of memory with bytes of a file to be written: those of the
 * tensors that lie there, wherever they are now.
 */
#pragma once

#include "lib/save/plan.h"

struct staging {
	uint64_t offset, size; /* in the file */
	tarn_storage *storage; /* its memory, which begins with the byte at
			        * offset */
};

/*
 * Copies tensors that are in memory, and queues copies of others on stream,
 * each with user; *ret_queued is their number. It calls wait when the stream
 * takes no more, until it does, or wait fails. After a failure some may be
 * queued.
 */
int staging_fill(struct staging *w, const struct save_plan *plan,
	tarn_stream *stream, uint64_t user, int (*wait)(void *arg), void *arg,
	unsigned *ret_queued);
