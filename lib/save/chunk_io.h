/* SPDX-License-Identifier: MIT */
/* Shared by writing and verifying a file chunk by chunk. */
#pragma once

#include <tarn/copy.h>

#include "lib/save/chunk.h"

enum {
	/* Chunks under way at once: they keep all requests of an engine (32 of
	 * 512 KiB) busy, and leave some to be filled or summed. */
	SLOTS = 12,
	/* How long a wait lasts before progress is reported again. */
	PROGRESS_MS = 100,
	REAPED_AT_ONCE = 16, /* picked */
};

/* The first failure of a copy on a stream, to be reported later. */
struct chunk_failure {
	int error;
	char message[sizeof((struct tarn_completion *)0)->message];
};

/* Counts a copy and records its failure. */
void chunk_count(struct tarn_copy_info *sum, struct chunk_failure *failure,
	const struct tarn_completion *c);

/* Memory of size bytes in *storage, unless it is there already; whole pages. */
int chunk_memory(tarn_storage **storage, uint64_t size);

/* size bytes of a storage, as U8. */
int chunk_view(
	tarn_storage *storage, uint64_t base, uint64_t size, tarn_tensor **ret);

/* Frees it and keeps the thread's sentence: cancelled copies set sentences of
 * their own. */
void chunk_free_stream(tarn_stream *stream);
