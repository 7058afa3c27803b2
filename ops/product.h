/* SPDX-License-Identifier: MIT */
/*
 * Operands and destinations of products: stacks of matrices, which are a tensor's
 * last two dimensions.
 */
#pragma once

#include "ops/blas.h"
#include "ops/result.h"

/* A tensor of matrices that BLAS takes as they lie, in a dtype and aligned to it:
 * the caller's, or a copy. What is repeated is repeated in the copy too. */
struct stack {
	struct source source;
	struct tarn_layout layout; /* offset 0 */
	char *at;
};

/* ndim >= 1; of a vector any stride of 1 and above fits. */
int stack_open(const char *op, const tarn_tensor *tensor, enum tarn_dtype dtype,
	struct stack *ret);
void stack_close(struct stack *stack);
#define _cleanup_stack_ _cleanup_(stack_close)

/* The matrix that the last two dimensions are. */
struct matrix stack_matrix(const struct tarn_layout *l, char *at);

/* As result_begin_plain, but work may be any view of matrices that BLAS can write;
 * rows: in which rows are packed. */
int result_begin_stack(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, bool rows, const struct stack *const *operands,
	size_t n, tarn_tensor **out, struct result *ret);

/* Broadcasts all dimensions but the last two of n layouts (with two at least) to
 * one shape, which each then has. -EINVAL: they do not fit. */
int stacks_broadcast(const char *op, struct tarn_layout *layouts, size_t n);

/* The reserved words of options, which are not NULL: 0, or -EINVAL. name: of the
 * struct. */
int options_check(const char *name, const uint64_t *words, size_t n);
#define OPTIONS_CHECK(name, options)                                           \
	options_check(                                                         \
		name, (options)->reserved, ARRAY_SIZE((options)->reserved))
