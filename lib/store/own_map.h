/* SPDX-License-Identifier: MIT */
/*
 * Storages that have a memfd of their own, on both ways: made here to be
 * published, and asked for from the daemon to be read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/store/private_map.h"
#include "shm/table.h"

struct tarn_store;

/* What is mapped for size bytes: whole pages, and at least one. */
uint64_t own_mapped_size(uint64_t size);

/* A memfd of own_mapped_size() bytes, zeroed, mapped writable, every page of
 * it there. -ENOMEM. The caller closes and unmaps. */
int own_create(uint64_t size, int *ret_fd, void **ret_addr);

/* The same, of which only the first bytes are there. */
int own_create_part(
	uint64_t size, uint64_t there, int *ret_fd, void **ret_addr);
/* Is so much memory to be had? Of a memfd the kernel refuses no page, it
 * kills. -ENOMEM. */
int own_check_room(uint64_t size);

/* The same memory at the same address, but read-only for good. What is there
 * stays if it fails. */
int own_remap_read_only(int fd, void *addr, uint64_t size);
/* From a descriptor that may write, writable again: false, without a sentence,
 * if that is not to be. */
bool own_try_writable(int fd, void *addr, uint64_t size);

/* The same bytes at the same address in a memfd of their own, writable: *fd,
 * which cannot be written any more, is closed and replaced. */
int own_renew(int *fd, void *addr, uint64_t size);

/* Asks the daemon for the memfd of a leased storage. flags: STORAGE_*. */
int own_fetch(struct tarn_store *store, uint32_t index, uint64_t generation,
	uint32_t flags);

/* The same; what came is as large as the table says, and stays so. -EPROTO. */
int own_fetch_checked(struct tarn_store *store, uint32_t index,
	uint64_t generation, const struct table_storage *entry);

/* Asks the daemon for the memfd of a leased storage and maps it: writable if
 * it is mutable and the daemon says so. The caller unmaps. */
int own_map(struct tarn_store *store, uint32_t index, uint64_t generation,
	const struct table_storage *entry, void **ret_addr, bool *ret_writable);

/* The same copy-on-write. -ENOTSUP: it cannot be. Whatever it returns, the
 * caller ends the map. */
int own_map_private(struct tarn_store *store, uint32_t index,
	uint64_t generation, const struct table_storage *entry,
	struct private_map *map, void **ret_addr);
