/* SPDX-License-Identifier: MIT */
/* Corpora of documents whose tokens are known, written as the formats have
 * them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct corpus {
	size_t n;
	uint64_t *lengths; /* of documents, some of them 0 */
	uint64_t n_tokens;
};

/* n documents of up to so many tokens. */
struct corpus corpus_new(size_t n, uint64_t most, uint64_t seed);
void corpus_free(struct corpus *c);

/* Token i of any corpus: below 50,000, or below 200 for bytes. */
uint32_t corpus_token(uint64_t i, unsigned width);

/* Documents first to first + n - 1, as PREFIX.bin and PREFIX.idx with Megatron's
 * code of a dtype; as PATH and PATH.index, of width bytes. */
void corpus_megatron(const struct corpus *c, size_t first, size_t n,
	const char *prefix, unsigned code);
void corpus_datatrove(const struct corpus *c, size_t first, size_t n,
	const char *path, unsigned width);
/* Their tokens alone. */
void corpus_raw(const struct corpus *c, size_t first, size_t n,
	const char *path, unsigned width);

void corpus_write(const char *path, const void *bytes, size_t size);
/* Of width bytes, little-endian. */
uint64_t corpus_value(const void *tokens, size_t i, unsigned width);
