/* SPDX-License-Identifier: MIT */
/* Which of a storage's replicas a reader gets. */
#pragma once

#include "lib/store/store.h"

/*
 * Changes *storage, which is held and has that entry, for a replica of it that
 * is nearer to where this store wants memory, or to this thread's CPU; it stays
 * as it is where there is none.
 */
void replica_prefer(tarn_store *store, uint32_t index, uint64_t generation,
	const struct table_storage *entry, tarn_storage **storage);
