/* SPDX-License-Identifier: MIT */
/* Elements moved as they are: nests whose dtypes are of one size. */
#pragma once

#include "lib/move/nest.h"
#include "lib/move/raw.h"

/* How a nest was moved: one of raw.h's ways, or these. */
enum bytes_way {
	BYTES_BITS = RAW_WAYS, /* elements smaller than bytes, one by one */
	BYTES_NOTHING,         /* there are no elements */
	BYTES_WAYS,
};

/* For a tidy nest, by dst; large: written past the cache. Returns the way. */
int bytes_move(const struct nest *nest, bool large, void *dst, const void *src);

/* The loops of such a nest in bytes, its dtypes not smaller than a byte. Where
 * they begin is left out. */
void bytes_raw(const struct nest *nest, bool large, struct raw *ret);

/*
 * The loops of any tidy nest in bytes, also of elements smaller than those, as
 * far as its loops are in whole packs; false: they are not. ret_dst and
 * ret_src: where they begin, from the byte of element 0 of each side.
 */
bool bytes_loops(const struct nest *nest, bool large, struct raw *ret,
	int64_t *ret_dst, int64_t *ret_src);

/* For any nest; the addresses are of element 0 of each side. */
void move_nest(const struct nest *nest, void *dst, const void *src);

/* Are these more bytes than the cache holds? */
bool bytes_are_large(int64_t dst_bytes, int64_t src_bytes);
