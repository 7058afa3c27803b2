/* SPDX-License-Identifier: MIT */
/*
 * Bounce buffers: memory for bytes of files that cannot go straight to their
 * destination, because they are read in another order, or must be converted, or
 * their destination is not aligned. A stream has a bounded number of them,
 * which is what bounds its memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "lib/io/io.h"

enum {
	/* Two of the largest requests, so that a range that begins anywhere and
	 * is rounded to blocks still fits with one. */
	BOUNCE_SIZE = 1 << 20,
	/* For direct I/O on any disk sold today. */
	BOUNCE_ALIGN = 4096,
	/* 1 GiB of them. More would hold memory and not be faster. */
	BOUNCE_MAX = 1024,
};

struct bounce;

struct bounce_buffer {
	char *addr;
	int slot; /* registered with the engine as this, or -1 */
	unsigned index;
};

/*
 * As many buffers as fit in bytes, at least two: a copy from file to file
 * reads one while it writes the other. They take no memory before they are
 * used. first_slot: of tarn_io_register, from which each gets the slot of its
 * index. -EINVAL: more than BOUNCE_MAX.
 */
int bounce_new(struct tarn_io *io, uint64_t bytes, unsigned first_slot,
	struct bounce **ret) _must_check_;

/* All buffers must have been returned, and no request of the kernel may use
 * one. Takes NULL. */
struct bounce *bounce_free(struct bounce *bounce);
DEFINE_CLEANUP(struct bounce *, bounce_free);

/*
 * 1, and a buffer; 0: none is free now; -ENOMEM. A copy operation that holds
 * one must have a request under way for it, or return it before its pump
 * returns: otherwise copy operations could wait for each other.
 */
int bounce_take(struct bounce *bounce, struct bounce_buffer *ret) _must_check_;
void bounce_give(struct bounce *bounce, const struct bounce_buffer *buffer);
