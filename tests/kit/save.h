/* SPDX-License-Identifier: MIT */
/* Tensors with known bytes, saved and looked at again. */
#pragma once

#include <tarn/save.h>

#include "lib/tensor/tensor.h"

/* A path in the test's folder; one of a few buffers. */
const char *in(const char *name);

/* Fresh memory in C order, every byte a function of its place and seed. */
tarn_tensor *made(int dtype, int ndim, const int64_t *shape, unsigned seed);

#define MADE(dtype, seed, ...)                                                 \
	made(dtype,                                                            \
		sizeof((int64_t[]) {0, ##__VA_ARGS__}) / sizeof(int64_t) - 1,  \
		(int64_t[]) {0, ##__VA_ARGS__} + 1, seed)

static inline struct tarn_save_item item_of(
	const char *name, tarn_tensor *tensor)
{
	return (struct tarn_save_item) {.name = name, .tensor = tensor};
}

/* A view, or bail out. The tensor is consumed. */
tarn_tensor *viewed(tarn_tensor *tensor, const char *expr);

/* The items' tensors, dropped. */
void drop(struct tarn_save_item *items, size_t n);

/* One ok(): the file at path opens, and has these tensors, equal in dtype,
 * shape and bytes, and no others. */
bool holds(const char *path, const struct tarn_save_item *items, size_t n,
	const char *what);

/* What is in the test's folder, sorted, a blank between; static. */
const char *listing(void);

/* What was seen is an error as wanted, whose sentence has the words, and
 * nothing is left in the folder. */
void is_refused(int wanted, const char *words, int seen, const char *what);
void clear_folder(void);
