/* SPDX-License-Identifier: MIT */
/*
 * What a publication will lie in: for each tensor a source, shared with the
 * other tensors on the same storage where that saves bytes.
 */
#pragma once

#include <tarn/publish.h>

#include "lib/store/created.h"

struct plan_source {
	enum source_kind kind;
	tarn_storage *storage; /* a reference; NULL: copies only */
	bool frozen;	       /* created_freeze was called */
	uint32_t index;	       /* SOURCE_EXISTING */
	uint64_t generation;
	uint64_t size;
	unsigned char *bytes; /* SOURCE_BYTES: malloc'ed, or the storage's */
	int fd;		      /* of a memfd that is only for this; else -1 */
};

/* Where a tensor lies. */
struct plan_place {
	uint32_t source;
	uint64_t base;
	struct tarn_layout layout;
};

struct plan {
	uint32_t n_sources;
	struct plan_source sources[PUBLISH_SOURCES_MAX];
	uint64_t n_inline; /* bytes of SOURCE_BYTES */
	struct plan_place *places; /* one an item */
};

/* Makes all copies, and freezes what is to be adopted. -E2BIG: too many
 * storages. Undo it with plan_done, whatever comes. */
int plan_make(struct tarn_store *store, const struct tarn_publish_item *items,
	size_t n, struct plan *ret);
/* stored: what the daemon made of the sources; NULL: nothing, and what was
 * frozen thaws. */
void plan_done(struct plan *plan, struct tarn_store *store,
	const struct msg_stored *stored);

/* The descriptor that goes with a source; -1: none. */
int plan_fd(const struct plan_source *source);
