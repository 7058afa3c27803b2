/* SPDX-License-Identifier: MIT */
/* The formats, byte by byte. */
#include "tests/data/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/tap.h"

static const unsigned widths[] = {0, 1, 1, 2, 4, 8, 8, 4, 2};

struct corpus corpus_new(size_t n, uint64_t most, uint64_t seed)
{
	struct corpus c = {.n = n, .lengths = calloc(n + 1, sizeof(uint64_t))};

	if (!c.lengths)
		bail("out of memory");
	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		/* Some are empty, some as long as may be. */
		c.lengths[i] = seed >> 60 == 0   ? 0
			       : seed >> 60 == 1 ? most
						 : (seed >> 20) % (most + 1);
		c.n_tokens += c.lengths[i];
	}
	return c;
}

void corpus_free(struct corpus *c)
{
	free(c->lengths);
	c->lengths = NULL;
}

uint32_t corpus_token(uint64_t i, unsigned width)
{
	return (uint32_t)((i * 0x9e3779b97f4a7c15u >> 33) %
			  (width == 1 ? 200 : 50000));
}

static void put(FILE *f, const void *bytes, size_t size)
{
	if (size && fwrite(bytes, 1, size, f) != size)
		bail("writing a corpus: %m");
}

static FILE *create(const char *path, const char *end)
{
	char name[512];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", path, end);
	f = fopen(name, "w");
	if (!f)
		bail("%s: %m", name);
	return f;
}

static void end(FILE *f)
{
	if (fclose(f) != 0)
		bail("writing a corpus: %m");
}

void corpus_write(const char *path, const void *bytes, size_t size)
{
	FILE *f = create(path, "");

	put(f, bytes, size);
	end(f);
}

static void put_tokens(
	const struct corpus *c, size_t first, size_t n, unsigned width, FILE *f)
{
	uint64_t at = 0;

	for (size_t i = 0; i < first + n; i++) {
		for (uint64_t k = 0; i >= first && k < c->lengths[i]; k++) {
			uint64_t token = corpus_token(at + k, width);

			put(f, &token, width);
		}
		at += c->lengths[i];
	}
}

void corpus_raw(const struct corpus *c, size_t first, size_t n,
	const char *path, unsigned width)
{
	FILE *f = create(path, "");

	put_tokens(c, first, n, width, f);
	end(f);
}

void corpus_megatron(const struct corpus *c, size_t first, size_t n,
	const char *prefix, unsigned code)
{
	const uint64_t version = 1, sequences = n, documents = n + 1;
	uint64_t at = 0;
	FILE *f = create(prefix, ".bin");

	put_tokens(c, first, n, widths[code], f);
	end(f);
	f = create(prefix, ".idx");
	put(f, "MMIDIDX\0", 9);
	put(f, &version, 8);
	put(f, &code, 1);
	put(f, &sequences, 8);
	put(f, &documents, 8);
	for (size_t i = first; i < first + n; i++)
		put(f, &c->lengths[i], 4);
	for (size_t i = first; i < first + n; i++) {
		put(f, &at, 8);
		at += c->lengths[i] * widths[code];
	}
	for (uint64_t i = 0; i <= n; i++)
		put(f, &i, 8);
	end(f);
}

void corpus_datatrove(const struct corpus *c, size_t first, size_t n,
	const char *path, unsigned width)
{
	uint64_t at = 0;
	FILE *f = create(path, ".index");

	for (size_t i = first; i < first + n; i++) {
		at += c->lengths[i];
		put(f, &at, 8);
	}
	end(f);
	corpus_raw(c, first, n, path, width);
}

uint64_t corpus_value(const void *tokens, size_t i, unsigned width)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)tokens + i * width, width);
	return value;
}
