/* SPDX-License-Identifier: MIT */
/* The digest of bytes that come in pieces, on the host. */
#pragma once

#include <tarn/set.h>

#include "lib/number/word_sums.h"

struct digest_state {
	struct word_sums sums;
	uint64_t size;         /* bytes so far */
	unsigned char word[8]; /* the last ones, which make no whole word */
};

void set_digest_add(struct digest_state *state, const void *bytes, size_t size);
struct tarn_digest set_digest_end(struct digest_state *state);

/* By sums of whole words that were made elsewhere. */
struct tarn_digest set_digest_of(const struct word_sums *sums, uint64_t size);
