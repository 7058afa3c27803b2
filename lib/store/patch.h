/* SPDX-License-Identifier: MIT */
/*
 * Patches (shm/patch.h): a storage that is another one, but for some pages.
 *
 * All of it is one range of addresses, in which the pages of the storage at the
 * root are mapped first, then those of each patch over it. The lease of the one on
 * top keeps all of them: the daemon frees no storage that a patch is over.
 */
#pragma once

#include "lib/store/cow_map.h"
#include "lib/store/own_place.h"
#include "lib/store/store.h"
#include "shm/patch.h"

/* Which storage, of one daemon. */
struct patch_key {
	uint32_t index;
	uint64_t generation;
};

struct patch_level {
	struct patch_key key;
	struct patch patch;
};

/* What a storage that is a patch has of its own: created.h, store.h. */
struct patched {
	struct cow_map map;
	struct patch_key root;
	unsigned depth; /* levels, the lowest first */
	struct patch_level levels[TABLE_PATCHES_MAX];
	uint32_t runs; /* of all of them */
	uint64_t pages;
};

/* Maps a leased storage for reading, whose entry that is. *ret_data is the first
 * byte. -EPROTO: its memfds are no patches of it. */
int patched_open(tarn_store *store, struct patch_key key,
	const struct table_storage *entry, struct patched **ret,
	void **ret_data);
/* One that was made here is that storage now. */
void patched_published(
	struct patched *patched, uint32_t index, uint64_t generation);
/* Unmaps it. Takes NULL. */
void patched_free(struct patched *patched);

/* All bytes of one, as cow_map_storage. */
int patched_map_cow(const struct shared_storage *shared, struct cow_map *map,
	void **ret_data);

/* NULL: it is no patch. */
const struct patched *patched_of(const tarn_storage *storage);
/* How many levels of the first lie over the second; -1: it is not below. */
int patch_levels_over(const tarn_storage *top, const tarn_storage *below);

/* ---- making one ---------------------------------------------------------- */

struct patch_base {
	uint64_t lead;  /* bytes of its first page before its first byte */
	uint64_t pages; /* into which it reaches */
};

/* May there be a patch over it? 1; 0: no: it is no storage of that store's, it
 * may change, it lies in huge pages of the reserve, or there are as many
 * patches already as there may be; the daemon is too old, or pages are larger. */
int patch_may_be(const tarn_store *store, const tarn_storage *under,
	struct patch_base *ret);

/* All 0: nothing is made yet. */
struct patch_maker {
	int fd; /* of a memfd that is there if map is */
	struct own_place place;
	uint64_t size;      /* of the mapping */
	unsigned char *map; /* writable; moves when it grows */
	uint32_t n;         /* pages that are taken */
	bool sealed;        /* map is gone, and nothing changes any more */
};

/* One more page, with any bytes: its number. -ENOMEM; -EFBIG. Not of one that is
 * sealed. */
int64_t patch_take(struct patch_maker *maker, const tarn_store *store);

/* The pages are as they shall be: a storage over that one, to be published. runs
 * are in order. The maker is empty then. After an error it has its pages still, and
 * the same call can be made again. */
int patch_end(struct patch_maker *maker, tarn_store *store, tarn_storage *under,
	const struct patch_run *runs, uint32_t n_runs, tarn_storage **ret);
void patch_drop(struct patch_maker *maker);
