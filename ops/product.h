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

/* The dtype in which n operands meet; floats_meet: -EINVAL unless it is a
 * float's. */
int dtypes_meet(const char *op, const tarn_tensor *const *operands, size_t n,
	enum tarn_dtype *ret);
int floats_meet(const char *op, const tarn_tensor *const *operands, size_t n,
	enum tarn_dtype *ret);

/*
 * Does the same to all items, several of them in each part of the pool's, with
 * BLAS in one thread. Each part has scratch bytes of its own, aligned to 64.
 */
struct parts {
	const char *op;
	int64_t items;
	double cost; /* of an item, in multiplications */
	int64_t scratch;
	void (*fn)(const void *arg, int64_t item, char *scratch);
	const void *arg;
	int64_t a_part; /* by parts_run, as memory */
	char *memory;
};

/* -ENOMEM. */
int parts_run(struct parts *parts);

#define PARTS_PAY 1e6 /* multiplications that pay for waking a thread */

/* The reserved words of options, which are not NULL: 0, or -EINVAL. name: of the
 * struct. */
int options_check(const char *name, const uint64_t *words, size_t n);
#define OPTIONS_CHECK(name, options)                                           \
	options_check(                                                         \
		name, (options)->reserved, ARRAY_SIZE((options)->reserved))
