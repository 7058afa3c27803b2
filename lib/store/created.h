/* SPDX-License-Identifier: MIT */
/*
 * Storages that this process made to be published, until they are.
 */
#pragma once

#include "lib/store/store.h"

/* The arg of such a storage. */
struct created {
	void *addr;
	uint64_t size;
	int fd; /* its memfd; -1: plain memory, to be copied */
	bool mutable;
	bool spent; /* the daemon has sealed its memfd: only to be copied */
};

/* NULL: it is something else. */
struct created *created_of(const tarn_storage *storage);

/* Before its memfd goes to the daemon: read-only here. */
int created_freeze(tarn_storage *storage);
/* Nothing came of it: writable as before. */
void created_thaw(tarn_storage *storage);

/* The daemon has its memfd: from now on it is the storage that was published,
 * and leased. If it is gone already, it stays memory of this process alone. */
void created_is_shared(tarn_storage *storage, struct tarn_store *store,
	const struct msg_stored *stored);
