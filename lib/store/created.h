/* SPDX-License-Identifier: MIT */
/*
 * Storages that this process made, to be published without a copy.
 */
#pragma once

#include <tarn/publish.h>

#include "lib/store/own_place.h"
#include "lib/store/store.h"

/* The arg of such a storage. */
struct created {
	void *addr; /* of the first byte */
	uint64_t size;
	struct patched *patched; /* NULL: it is no patch; patch.h */
	tarn_storage *under;     /* that it is over; a reference */
	int fd;                  /* its memfd */
	struct own_place place;
	bool mutable;
	bool blank; /* pages come as they are written */
	bool spent; /* the daemon has had its memfd: it can only be copied */
	unsigned claimed; /* created_claim.c */
};

/* NULL: it is another kind. A publisher claims it first: otherwise it may turn
 * into another kind at any time, and the result of this function be freed. */
struct created *created_of(const tarn_storage *storage);
/* Memory of which pages may be missing: what is stored through its address is
 * populated before. */
int created_blank(tarn_store *store, uint64_t size, tarn_storage **ret);
/* Writes bytes of it, and brings their pages. -EFAULT, -ENOMEM. */
int created_write(
	tarn_storage *storage, uint64_t offset, const void *src, uint64_t size);
/* Brings pages, to be stored in. */
int created_populate(tarn_storage *storage, uint64_t offset, uint64_t size);
/* Brings all pages from that byte on: without them it cannot be published. */
int created_complete(tarn_storage *storage, uint64_t from);
/* One that is a patch, and sealed. Takes the memfd and patched, unless it
 * fails. */
int created_patch(int fd, struct patched *patched, void *data,
	tarn_storage *under, tarn_storage **ret);
/* From here on a publication copies its bytes. Nothing publishes it meanwhile. */
void created_spend(tarn_storage *storage);
/* It has turned into another kind, which owns the mapping. */
void created_forget(struct created *created);

/* ---- created_claim.c --------------------------------------------------- */

/* Makes other threads wait that want to publish those of them that are created
 * ones, or memory of a device that is not published yet, until created_unclaim;
 * waits until no other thread publishes them. */
void created_claim(const struct tarn_publish_item *items, size_t n);
void created_unclaim(const struct tarn_publish_item *items, size_t n);
/* Turns a claimed one into one of a store's, as store_storage_turn does. */
void created_turn(tarn_storage *storage, struct shared_storage *shared);
/* The same for one in memory of a device: device_storage.c. */
void created_turn_device(tarn_storage *storage, struct shared_storage *shared);

/* ---- while it is published --------------------------------------------- */

/* Before its memfd goes to the daemon: makes it read-only here, and seals it
 * for good. */
int created_freeze(tarn_storage *storage);
/* After a failure: makes it writable again, in a copy if it was sealed. */
void created_thaw(tarn_storage *storage);

/* The daemon has its memfd: from now on it is the published storage, and
 * leased. If that is gone already, it stays memory of this process alone. */
void created_is_shared(tarn_storage *storage, struct tarn_store *store,
	const struct msg_stored *stored);
