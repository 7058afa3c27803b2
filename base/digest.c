/* SPDX-License-Identifier: MIT */
/* XXH3 behind tarn's own names, compiled once. */
#include "base/digest.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct digest_state {
	XXH3_state_t xxh;
};

struct digest_state *digest_new(void)
{
	/* The state is read and written by wide instructions. */
	struct digest_state *state = aligned_alloc(64, sizeof(*state));

	if (state)
		XXH3_128bits_reset(&state->xxh);
	return state;
}

void digest_add(struct digest_state *state, const void *bytes, size_t size)
{
	XXH3_128bits_update(&state->xxh, bytes, size);
}

struct digest digest_end(const struct digest_state *state)
{
	XXH128_hash_t hash = XXH3_128bits_digest(&state->xxh);

	return (struct digest) {.low = hash.low64, .high = hash.high64};
}

struct digest_state *digest_free(struct digest_state *state)
{
	free(state);
	return NULL;
}
