/* SPDX-License-Identifier: MIT */
/*
 * Storages that this process made to be published without a copy, until they
 * are.
 */
#pragma once

#include <tarn/publish.h>

#include "lib/store/store.h"

/* The arg of such a storage. */
struct created {
	void *addr;
	uint64_t size;
	int fd; /* its memfd */
	bool mutable;
	bool spent; /* the daemon has sealed its memfd: only to be copied */
	unsigned claimed; /* created_claim.c */
};

/* NULL: it is something else. Who publishes it claims it first: it may become
 * something else at any time, and then what this gave is gone. */
struct created *created_of(const tarn_storage *storage);
/* It has become something else, which has the mapping. */
void created_forget(struct created *created);

/* ---- created_claim.c --------------------------------------------------- */

/* Nobody else publishes those of them that are created ones, from here on
 * until created_unclaim; waits until it is so. */
void created_claim(const struct tarn_publish_item *items, size_t n);
void created_unclaim(const struct tarn_publish_item *items, size_t n);
/* A claimed one becomes one of a store's, as by store_storage_turn. */
void created_turn(tarn_storage *storage, struct shared_storage *shared);

/* ---- while it is published --------------------------------------------- */

/* Before its memfd goes to the daemon: read-only here. */
int created_freeze(tarn_storage *storage);
/* Nothing came of it: writable as before. */
void created_thaw(tarn_storage *storage);

/* The daemon has its memfd: from now on it is the storage that was published,
 * and leased. If it is gone already, it stays memory of this process alone. */
void created_is_shared(tarn_storage *storage, struct tarn_store *store,
	const struct msg_stored *stored);
