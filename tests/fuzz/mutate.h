/* SPDX-License-Identifier: MIT */
/* Seeded changes to bytes, for where there is no libFuzzer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Words that a grammar stumbles over: lines of the form "word", with \xHH, \"
 * and \\ in them, as libFuzzer's dictionaries have them. */
struct words {
	struct word {
		size_t size;
		char bytes[64];
	} list[128];
	size_t n;
};

/* 0, or -errno; an unreadable line ends the test. */
int words_read(const char *path, struct words *ret);

struct mutator {
	uint64_t state; /* not 0 */
	const struct words *words;
};

size_t mutator_below(struct mutator *m, size_t n);

/* Changes size bytes in place, in room for max, a few times; other bytes may
 * be spliced in. Returns the new size. */
size_t mutate(struct mutator *m, uint8_t *bytes, size_t size, size_t max,
	const uint8_t *other, size_t other_size);
