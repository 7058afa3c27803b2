/* SPDX-License-Identifier: MIT */
/*
 * What a save will write: the head, and for each tensor the view whose elements
 * in C order are its bytes in the file.
 */
#pragma once

#include <tarn/save.h>

#include "lib/file/head.h"
#include "lib/tensor/tensor.h"

/* A tensor that is to lie in a file. */
struct part {
	const struct tarn_save_item *item;
	tarn_tensor *src;        /* in the order of the file; a reference */
	struct tarn_layout file; /* the same shape, as it lies there */
	uint64_t offset, nbytes; /* in the file */
	uint64_t digits;         /* of the head: those of its checksum */
	/* Its smallest piece: pack elements, in unit bytes. */
	unsigned pack, unit;
	bool memory;        /* src has an address */
	uint64_t crosswise; /* bytes to be brought in first, or 0 */
	const char *bytes; /* they are there, as the file wants them; or NULL */
	struct tarn_copy_options convert; /* for src: channel_dim is its */
};

struct save_plan {
	struct head head;
	struct part *parts; /* in the order of the file */
	size_t n;
	uint64_t bytes; /* of all of them */
	uint64_t work;  /* bytes of the file, and those brought in before */
};

/* Starts as all zeroes; to be freed after a failure too. -EINVAL, -ENOTSUP,
 * -E2BIG, -ENOMEM: as tarn_save, before anything is written. */
int save_plan_make(const char *path, const struct tarn_save_item *items,
	size_t n, const struct tarn_save_options *options,
	struct save_plan *plan) _must_check_;
void save_plan_free(struct save_plan *plan);

/* The first part that has bytes past offset; n: none. */
size_t save_plan_find(const struct save_plan *plan, uint64_t offset);
