// SPDX-License-Identifier: MIT
#include "ops/loops.h"

#include <string.h>

#include "base/checked.h"

void loops_begin(struct loops *loops, int ndim, const int64_t *shape)
{
	loops->n = ndim;
	loops->n_operands = 0;
	loops->empty = false;
	for (int i = 0; i < ndim; i++) {
		loops->extent[i] = shape[i];
		loops->empty = loops->empty || !shape[i];
	}
}

static struct loop_operand *add(
	struct loops *loops, enum tarn_dtype dtype, void *at)
{
	struct loop_operand *o = &loops->operand[loops->n_operands++];

	o->at = at;
	o->dtype = (uint8_t)dtype;
	o->size = (uint8_t)(tarn_dtype_bits(dtype) / 8);
	return o;
}

void loops_add(struct loops *loops, const tarn_tensor *tensor)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	struct loop_operand *o = add(loops, l->dtype, tarn_tensor_data(tensor));
	int first = loops->n - l->ndim;

	for (int i = 0; i < loops->n; i++)
		o->stride[i] = i < first || l->shape[i - first] == 1
				       ? 0
				       : l->stride[i - first];
}

void loops_add_value(struct loops *loops, enum tarn_dtype dtype, void *value)
{
	struct loop_operand *o = add(loops, dtype, value);

	for (int i = 0; i < loops->n; i++)
		o->stride[i] = 0;
}

bool loops_is_value(const struct loops *loops, int operand)
{
	for (int i = 0; i < loops->n; i++)
		if (loops->operand[operand].stride[i])
			return false;
	return true;
}

/* ---- dimensions ---------------------------------------------------------- */

static void move_dim(struct loops *loops, int to, int from)
{
	loops->extent[to] = loops->extent[from];
	for (int i = 0; i < loops->n_operands; i++)
		loops->operand[i].stride[to] = loops->operand[i].stride[from];
}

static void swap_dims(struct loops *loops, int a, int b)
{
	int64_t extent = loops->extent[a];

	loops->extent[a] = loops->extent[b];
	loops->extent[b] = extent;
	for (int i = 0; i < loops->n_operands; i++) {
		int64_t *stride = loops->operand[i].stride, kept = stride[a];

		stride[a] = stride[b];
		stride[b] = kept;
	}
}

/* A destination that runs backwards is walked forward by all. */
static void turn(struct loops *loops, int dim)
{
	for (int i = 0; i < loops->n_operands; i++) {
		struct loop_operand *o = &loops->operand[i];

		o->at += (loops->extent[dim] - 1) * o->stride[dim] * o->size;
		o->stride[dim] = -o->stride[dim];
	}
}

static int64_t magnitude(int64_t stride)
{
	return stride < 0 ? -stride : stride;
}

/* Is a to be outside of b? The first operand that has an opinion decides. */
static bool is_outer(const struct loops *loops, int a, int b)
{
	for (int i = 0; i < loops->n_operands; i++) {
		const int64_t *stride = loops->operand[i].stride;

		if (magnitude(stride[a]) != magnitude(stride[b]) && stride[a] &&
			stride[b])
			return magnitude(stride[a]) > magnitude(stride[b]);
	}
	return a < b;
}

static bool adjacent(const struct loops *loops, int outer, int inner)
{
	for (int i = 0; i < loops->n_operands; i++) {
		const int64_t *stride = loops->operand[i].stride;

		if (stride[outer] != stride[inner] * loops->extent[inner])
			return false;
	}
	return true;
}

void loops_fuse(struct loops *loops)
{
	int to = loops->n - 1;

	for (int from = to - 1; from >= 0; from--) {
		if (adjacent(loops, from, to)) {
			loops->extent[to] *= loops->extent[from];
			continue;
		}
		if (--to != from)
			move_dim(loops, to, from);
	}
	for (int i = 0; i < loops->n - to; i++)
		if (to > 0)
			move_dim(loops, i, i + to);
	loops->n = loops->n ? loops->n - to : 0;
}

void loops_tidy(struct loops *loops)
{
	int n = 0;

	if (loops->empty)
		return;
	for (int i = 0; i < loops->n; i++) {
		if (loops->extent[i] == 1)
			continue;
		if (n != i)
			move_dim(loops, n, i);
		n++;
	}
	loops->n = n;
	for (int i = 0; i < n; i++)
		if (loops->operand[0].stride[i] < 0)
			turn(loops, i);
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && !is_outer(loops, j - 1, j); j--)
			swap_dims(loops, j - 1, j);
	loops_fuse(loops);
}

/* ---- blocks ---------------------------------------------------------------- */

void loops_block(const struct loops *loops, const int64_t *extent,
	const int64_t *count, int64_t number, struct loops *ret)
{
	ret->n = loops->n;
	ret->n_operands = loops->n_operands;
	for (int i = 0; i < ret->n_operands; i++)
		ret->operand[i] = loops->operand[i];
	for (int dim = ret->n - 1; dim >= 0; dim--) {
		int64_t first = number % count[dim] * extent[dim];

		number /= count[dim];
		ret->extent[dim] = MIN(extent[dim], loops->extent[dim] - first);
		for (int i = 0; i < ret->n_operands; i++) {
			struct loop_operand *o = &ret->operand[i];

			o->at += first * o->stride[dim] * o->size;
		}
	}
}

void loops_pack(const struct loops *loops, enum tarn_dtype dtype,
	struct tarn_layout *ret)
{
	int64_t stride = 1;

	*ret = (struct tarn_layout) {
		.dtype = (uint8_t)dtype, .ndim = (uint8_t)loops->n};
	for (int dim = loops->n - 1; dim >= 0; dim--) {
		ret->shape[dim] = loops->extent[dim];
		ret->stride[dim] = stride;
		stride *= loops->extent[dim];
	}
}
