/* SPDX-License-Identifier: MIT */
/*
 * Pickles of data: what torch.save writes for tensors in containers. Nothing is
 * executed: a pickle that asks for any other class or function is refused by
 * its name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/file/arena.h"

enum pickle_kind {
	PICKLE_NONE = 0,
	PICKLE_BOOL,
	PICKLE_INT,
	PICKLE_REAL,
	PICKLE_TEXT,   /* also of bytes, and of an integer past 64 bits */
	PICKLE_LIST,   /* also of tuples and sets */
	PICKLE_DICT,   /* a list of keys and values in turn */
	PICKLE_GLOBAL, /* a class or a function: number is one of globals */
	PICKLE_STORAGE,
	PICKLE_TENSOR,
};

struct pickle_value;

struct pickle_list {
	struct pickle_value **at;
	size_t n, room;
};

/* A record of an archive, as elements. */
struct pickle_storage {
	const char *key; /* names the record; not ended by a NUL */
	size_t key_size;
	int dtype; /* U8 for those without one */
	uint64_t numel;
};

struct pickle_tensor {
	const struct pickle_storage *storage;
	uint64_t offset; /* elements, as the sizes and strides */
	int ndim;
	const uint64_t *shape;
	const int64_t *stride;
};

struct pickle_value {
	enum pickle_kind kind;
	union {
		int64_t number;
		double real;
		struct {
			const char *text;
			size_t size;
		};
		struct pickle_list list;
		struct pickle_storage storage;
		struct pickle_tensor tensor;
	};
};

/*
 * Reads size bytes, which texts in the result point into. The rest of it is in
 * arena, and takes at most some 250 bytes for each byte of the pickle. Sizes and
 * strides are not negative, and there are as many of both; nothing else of them
 * is checked. A container may contain itself. -EBADMSG: damaged; -ENOTSUP: it
 * asks for what is no data.
 */
int pickle_read(const char *bytes, size_t size, struct arena *arena,
	const struct pickle_value **ret);
