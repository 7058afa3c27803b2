/* SPDX-License-Identifier: MIT */
/*
 * The sources of a publication: one for each tensor, shared with the other
 * tensors on the same storage where that saves bytes.
 */
#pragma once

#include <tarn/publish.h>

#include "lib/store/created.h"
#include "lib/store/own_place.h"

struct plan_source {
	enum source_kind kind;
	tarn_storage *storage; /* a reference; NULL: copies only */
	bool frozen;           /* created_freeze was called */
	tarn_storage *under;   /* SOURCE_PATCH: leased by the store */
	uint32_t index;        /* SOURCE_EXISTING, or of under */
	uint64_t generation;
	uint64_t size;
	unsigned char *bytes; /* SOURCE_BYTES: malloc'ed, or the storage's */
	int fd;               /* made or exported only for this; else -1 */
	bool blank;           /* of a copy: own_create_blank */
	uint8_t uuid[16];     /* SOURCE_DEVICE */
};

/* The place of a tensor. */
struct plan_place {
	uint32_t source;
	uint64_t base;
	struct tarn_layout layout;
};

struct plan {
	uint32_t n_sources;
	struct plan_source sources[PUBLISH_SOURCES_MAX];
	struct own_place place;    /* of the copies */
	uint64_t n_inline;         /* bytes of SOURCE_BYTES */
	struct plan_place *places; /* one for each item */
};

/* Makes all copies, and freezes the storages to be adopted. -E2BIG: too many
 * storages. Undo it with plan_done, whatever the result. */
int plan_make(struct tarn_store *store, const struct tarn_publish_item *items,
	size_t n, struct plan *ret);
/* stored: the storages that the daemon made of the sources; NULL: it made none,
 * and frozen ones become writable again. */
void plan_done(struct plan *plan, struct tarn_store *store,
	const struct msg_stored *stored);

/* The source of a storage in memory of a device that can be exported. */
int plan_device(struct plan *plan, const struct tarn_store *store,
	tarn_storage *storage, uint32_t *ret);

/* The descriptor to send for a source; -1: none. */
int plan_fd(const struct plan_source *source);
