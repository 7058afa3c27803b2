/* SPDX-License-Identifier: MIT */
/*
 * Storages that have a memfd of their own, in both directions: made here to be
 * published, and received from the daemon to be read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/store/cow_map.h"
#include "lib/store/own_pages.h"
#include "lib/store/own_place.h"
#include "shm/table.h"

struct tarn_store;

/* The mapping's size for size bytes: whole pages, and at least one. */
uint64_t own_mapped_size(uint64_t size);

/* A memfd of own_mapped_size() bytes, zeroed, mapped writable, with every page
 * allocated, and where place says. -ENOMEM; as own_place_bind. The caller closes
 * and unmaps. */
int own_create(uint64_t size, const struct own_place *place, int *ret_fd,
	void **ret_addr);

/* The same, but only the first bytes are allocated. */
int own_create_part(uint64_t size, uint64_t there,
	const struct own_place *place, int *ret_fd, void **ret_addr);
/* The same without any page, for own_write and own_take (own_pages.h); unless
 * pages are to lie on a node, or come as huge ones: then all of them are there, and
 * *ret_blank is false. */
int own_create_blank(uint64_t size, const struct own_place *place, int *ret_fd,
	void **ret_addr, bool *ret_blank);

/* Makes it longer, with every page allocated; *addr may move, also where it fails:
 * then its size is what it was. */
int own_grow(int fd, void **addr, uint64_t size, uint64_t to,
	const struct own_place *place);
/* Seals it for good, as the daemon requires: a memfd to adopt against all
 * writing, for which no process may have it mapped writable; a mutable one
 * against changes of its size and its seals. If the kernel refuses, the daemon
 * sees that, and copies or refuses. */
void own_seal(int fd, bool mutable);
/* Against writing. */
bool own_is_sealed(int fd);

/* Maps the same memory at the same address, but read-only for good. On failure
 * the old mapping stays. */
int own_remap_read_only(int fd, void *addr, uint64_t size);
/* Makes it writable again, from a descriptor opened for writing: false, without
 * a sentence, if that is not possible. */
bool own_try_writable(int fd, void *addr, uint64_t size);

/* Maps the same bytes at the same address in a new memfd, writable: *fd, which
 * cannot be written any more, is closed and replaced. */
int own_renew(
	int *fd, void *addr, uint64_t size, const struct own_place *place);

/* Asks the daemon for the memfd of a leased storage. flags: STORAGE_*. */
int own_fetch(struct tarn_store *store, uint32_t index, uint64_t generation,
	uint32_t flags);

/* The same; checks that the memfd is as large as the table says, and cannot
 * shrink. -EPROTO. */
int own_fetch_checked(struct tarn_store *store, uint32_t index,
	uint64_t generation, const struct table_storage *entry);

/* Asks the daemon for the memfd of a leased storage and maps it: writable if it
 * is mutable and the daemon permits that. The caller unmaps. */
int own_map(struct tarn_store *store, uint32_t index, uint64_t generation,
	const struct table_storage *entry, void **ret_addr, bool *ret_writable);

/* The same copy-on-write. -ENOTSUP: that is not possible. Whatever the result,
 * the caller ends the map. */
int own_map_cow(struct tarn_store *store, uint32_t index, uint64_t generation,
	const struct table_storage *entry, struct cow_map *map,
	void **ret_addr);
