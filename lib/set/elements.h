/* SPDX-License-Identifier: MIT */
/*
 * Elements at positions of a tensor, on the host: the lists of a sparse update.
 *
 * Positions are read from memory that other threads of this process may write, so
 * each is checked whenever it was read, and is read once for each use: a wrong one
 * is an error, and never a byte outside of the tensor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/tensor.h>

#include "base/cleanup.h"

struct elements {
	uint64_t n;     /* positions */
	uint64_t limit; /* all are below it */
	const void *positions;
	const void *values; /* adjacent */
	bool wide;          /* positions have 64 bits, else 32 */
	uint32_t size;      /* bytes of a value: 1, 2, 4, 8 */
	int ndim;           /* 1: the element at position i is the i-th */
	/* In elements, the innermost first; strides in bytes. */
	int64_t extent[TARN_NDIM_MAX], stride[TARN_NDIM_MAX];
};

/* Both lists lie in memory, each in order and without gaps; values are of the
 * tensor's type. */
void elements_of(const tarn_tensor *positions, const tarn_tensor *values,
	const struct tarn_layout *to, struct elements *ret);

/* That is no position of so many elements: -ERANGE. */
int elements_bad(int64_t position, uint64_t limit);

/* Is each of them a position? -ERANGE. */
int elements_check(const struct elements *e) _must_check_;

/* Writes them; dst is the element at position 0. -ERANGE: some may be written. */
int elements_write(const struct elements *e, void *dst) _must_check_;

/* Writes those from *i on as long as they lie among the n elements from first on,
 * and sets *i to the next; dst is the first of these elements. first is 0 for
 * tensors with gaps. -ERANGE. */
int elements_write_range(const struct elements *e, uint64_t *i, uint64_t first,
	uint64_t n, void *dst) _must_check_;

/* Where they lie: pages are those of shm/patch.h. */
struct elements_place {
	uint64_t start; /* byte of the element at position 0 from page 0 on */
	uint64_t first; /* of the pages that the tensor reaches into */
	uint64_t n;     /* so many are there */
};

/* In about how many pages? A guess from some of them, too high where they are in
 * no order. UINT64_MAX: one that was looked at is no position. */
uint64_t elements_guess_pages(
	const struct elements *e, const struct elements_place *place);

/* Writes them, a page at a time: page() returns where that page of the tensor is
 * to be written. 0; 1: it has returned NULL; -ERANGE. Some may be written. */
int elements_write_pages(const struct elements *e,
	const struct elements_place *place,
	unsigned char *(*page)(void *arg, uint64_t page),
	void *arg) _must_check_;
