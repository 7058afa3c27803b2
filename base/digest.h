/* SPDX-License-Identifier: MIT */
/*
 * A digest of bytes that come in pieces: XXH3 of 128 bits. It tells two
 * versions of a header apart. It is no defence against a writer that constructs
 * two headers of one digest: such a writer controls the content of the file
 * anyway.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct digest {
	uint64_t low, high;
};

static inline bool digest_same(const struct digest *a, const struct digest *b)
{
	return a->low == b->low && a->high == b->high;
}

struct digest_state;
/* NULL: out of memory. */
struct digest_state *digest_new(void);
void digest_add(struct digest_state *state, const void *bytes, size_t size);
struct digest digest_end(const struct digest_state *state);
/* Takes NULL and returns NULL. */
struct digest_state *digest_free(struct digest_state *state);
