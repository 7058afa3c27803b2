/* SPDX-License-Identifier: MIT */
/* The dictionary at the head of a .npy file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/file/file.h"

struct npy_header {
	int dtype;
	int ndim;
	bool fortran_order;
	const uint64_t *shape; /* in the arena */
};

/*
 * Reads "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }". python2
 * allows the L behind integers that numpy under Python 2 wrote. -EBADMSG:
 * invalid; -ENOTSUP: a dtype that is not supported, with its name.
 */
int npy_header_parse(const char *text, size_t size, bool python2,
	struct arena *arena, struct npy_header *ret);

/* The dtype that "<f4" names. */
int npy_dtype(const char *descr, size_t size, int *ret);

/* Where a file of one array is: the whole of file, or a part of it, which is
 * not read from front to back. */
struct npy_place {
	uint64_t offset, size;
	bool part;
};

/* All of *ret but its name. The array lies within that place. */
int npy_array(struct tarn_file *file, const struct npy_place *place,
	struct tarn_file_entry *ret);
