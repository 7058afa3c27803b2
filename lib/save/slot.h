/* SPDX-License-Identifier: MIT */
/* What writing and verifying a file piece by piece have in common. */
#pragma once

#include <tarn/copy.h>

#include "lib/save/piece.h"

enum {
	/* Pieces under way at once: they keep all requests of an engine (32 of
	 * 512 KiB) busy, and leave some to be filled or summed. */
	SLOTS = 12,
	/* How long one waits before it tells its progress again. */
	TELL_MS = 100,
	REAPED_AT_ONCE = 16, /* picked */
};

/* The first failure of a copy on a stream, to be told later. */
struct slot_failure {
	int error;
	char message[sizeof((struct tarn_completion *)0)->message];
};

/* Counts a copy and keeps its failure. */
void slot_count(struct tarn_copy_info *sum, struct slot_failure *failure,
	const struct tarn_completion *c);

/* Memory of size bytes in *storage, unless it is there already; whole pages. */
int slot_memory(tarn_storage **storage, uint64_t size);

/* size bytes of a storage, as U8. */
int slot_view(tarn_storage *storage, uint64_t base, uint64_t size,
	tarn_tensor **ret);

/* Frees it and leaves the thread's sentence as it is: copies that end with it
 * have some of their own. */
void slot_free_stream(tarn_stream *stream);
