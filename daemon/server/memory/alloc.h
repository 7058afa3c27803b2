/* SPDX-License-Identifier: MIT */
/*
 * Which bytes of a pool are free: extents of its address range, best fit.
 *
 * Pure book-keeping in the server's private memory; it can be rebuilt from
 * the storage table. Sizes and offsets are multiples of 4096. An allocation
 * may span segments that are adjacent in the pool.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct alloc;

int alloc_new(struct alloc **ret);
struct alloc *alloc_free(struct alloc *alloc);

/* New memory at [offset, offset + size); joins its free neighbours. */
int alloc_add(struct alloc *alloc, uint64_t offset, uint64_t size);
/* Takes size bytes: the smallest free extent that fits, lowest offset first.
 * -ENOSPC (no sentence: the caller knows what to do about it). */
int alloc_take(struct alloc *alloc, uint64_t size, uint64_t *ret_offset);
/* Takes exactly that range, when rebuilding: -EBUSY if any of it is taken. */
int alloc_take_at(struct alloc *alloc, uint64_t offset, uint64_t size);
/* Gives back; joins neighbours. */
void alloc_give(struct alloc *alloc, uint64_t offset, uint64_t size);

/* Is all of that range free? */
bool alloc_is_free(const struct alloc *alloc, uint64_t offset, uint64_t size);
/* Takes memory away that was added, whole or in part: -EBUSY if any of it is
 * taken. It may be added again. */
int alloc_remove(struct alloc *alloc, uint64_t offset, uint64_t size);

uint64_t alloc_total(const struct alloc *alloc); /* bytes added */
uint64_t alloc_used(const struct alloc *alloc);
uint64_t alloc_largest(const struct alloc *alloc); /* free extent */
/* The free extent that ends at the end of the added memory: what a growth
 * would be joined to. 0 if the last byte is taken. */
uint64_t alloc_tail(const struct alloc *alloc);
