/* SPDX-License-Identifier: MIT */
/*
 * The plan of a save: the head, and for each tensor the view whose elements in
 * C order are its bytes in the file.
 */
#pragma once

#include <tarn/save.h>

#include "lib/file/write_head.h"
#include "lib/tensor/tensor.h"

/* A tensor to be saved. */
struct part {
	const struct tarn_save_item *item;
	tarn_tensor *src;        /* in the order of the file; a reference */
	struct tarn_layout file; /* the same shape, with its strides in the
				  * file */
	uint64_t offset, nbytes; /* in the file */
	uint64_t digits;         /* in the head: the digits of its checksum */
	/* Its smallest chunk: pack elements, in unit bytes. */
	unsigned pack, unit;
	bool memory;         /* src has an address */
	uint64_t transposed; /* bytes to be read into memory first, or 0 */
	const char *bytes;   /* its bytes in memory, in the file's form; or
			    * NULL */
	struct tarn_copy_options convert; /* for src: channel_dim is a dimension
					   * of it */
};

struct save_plan {
	struct head head;
	struct part *parts; /* in the order of the file */
	size_t n;
	uint64_t bytes; /* of all of them */
	uint64_t work;  /* bytes of the file, and those read into memory
			 * before */
};

/* All zeroes is an empty plan; free it after a failure too. -EINVAL, -ENOTSUP,
 * -E2BIG, -ENOMEM: as tarn_save, before anything is written. */
int save_plan_make(const char *path, const struct tarn_save_item *items,
	size_t n, const struct tarn_save_options *options,
	struct save_plan *plan) _must_check_;
void save_plan_free(struct save_plan *plan);

/* The first part that has bytes past offset; n: none. */
size_t save_plan_find(const struct save_plan *plan, uint64_t offset);
