// SPDX-License-Identifier: MIT
#include "ops/product.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "ops/threads.h"

struct matrix stack_matrix(const struct tarn_layout *l, char *at)
{
	int n = l->ndim;

	return (struct matrix) {at, l->shape[n - 2], l->shape[n - 1],
		l->stride[n - 2], l->stride[n - 1]};
}

/* ---- operands --------------------------------------------------------------- */

static bool fits(const tarn_tensor *t, enum tarn_dtype dtype)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	struct matrix m = {.rows = 1, .cols = 1};

	if (l->ndim > 1) {
		m = stack_matrix(l, NULL);
	} else if (l->ndim) {
		m.rows = l->shape[0];
		m.down = l->stride[0];
	}
	return l->dtype == dtype && matrix_fits(&m) &&
	       (uintptr_t)tarn_tensor_data(t) %
			       (unsigned)(tarn_dtype_bits(dtype) / 8) ==
		       0;
}

/* A copy in C order, but for dimensions that are repeated: those are again. */
static int pack(const char *op, const tarn_tensor *tensor,
	enum tarn_dtype dtype, struct stack *ret)
{
	struct tarn_layout once = *tarn_tensor_layout(tensor);
	_cleanup_tensor_ tarn_tensor *view = NULL;
	tarn_tensor *held = tarn_tensor_ref((tarn_tensor *)tensor);
	int r;

	for (int i = 0; i < once.ndim - 2; i++)
		if (!once.stride[i] && once.shape[i] > 1)
			once.shape[i] = 1;
	r = tarn_tensor_with_layout(held, &once, &view);
	tarn_tensor_unref(held);
	if (r >= 0)
		r = source_open_plain(op, view, dtype, &ret->source);
	if (r < 0)
		return r;
	if (!ret->source.copy)
		ret->source.copy = STEAL(view);
	ret->layout = *tarn_tensor_layout(ret->source.tensor);
	for (int i = 0; i < once.ndim - 2; i++)
		if (ret->layout.shape[i] == 1)
			ret->layout.stride[i] = 0;
	return 0;
}

/* BLAS counts in int. */
static int check_extents(const char *op, const struct tarn_layout *l)
{
	for (int i = MAX(l->ndim - 2, 0); i < l->ndim; i++)
		if (l->shape[i] > INT_MAX)
			return tarn_error_set(ENOTSUP,
				"%s: a matrix of %s; %d rows and as many "
				"columns are the most; cut it",
				op, shape_words(l->ndim, l->shape).text,
				INT_MAX);
	return 0;
}

int stack_open(const char *op, const tarn_tensor *tensor, enum tarn_dtype dtype,
	struct stack *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	int r = check_extents(op, l);

	if (r >= 0)
		r = source_open(op, tensor, &ret->source);
	if (r < 0)
		return r;
	ret->layout = *tarn_tensor_layout(ret->source.tensor);
	if (!fits(ret->source.tensor, dtype)) {
		struct source first = ret->source;

		ret->source = (struct source) {0};
		r = pack(op, first.tensor, dtype, ret);
		source_close(&first);
		if (r < 0)
			return r;
	}
	for (int i = 0; i < l->ndim; i++)
		ret->layout.shape[i] = l->shape[i];
	ret->layout.offset = 0;
	ret->at = tarn_tensor_data(ret->source.tensor);
	return 0;
}

void stack_close(struct stack *stack)
{
	source_close(&stack->source);
}

int stacks_broadcast(const char *op, struct tarn_layout *layouts, size_t n)
{
	struct tarn_layout batch[4];
	int r, ndim = 0;

	for (size_t i = 0; i < n; i++)
		ndim = MAX(ndim, layouts[i].ndim);
	if (ndim == 2)
		return 0;
	for (size_t i = 0; i < n; i++) {
		batch[i] = layouts[i];
		batch[i].ndim = (uint8_t)(layouts[i].ndim - 2);
		for (int j = batch[i].ndim; j < layouts[i].ndim; j++)
			batch[i].shape[j] = batch[i].stride[j] = 0;
	}
	r = tarn_layout_broadcast(batch, n, batch);
	if (r < 0 || batch[0].ndim + 2 > TARN_NDIM_MAX)
		return tarn_error_set(EINVAL,
			"%s: the shapes %s and %s do not fit: extents before "
			"the last two must be the same, or 1",
			op, shape_words(layouts[0].ndim, layouts[0].shape).text,
			shape_words(layouts[n - 1].ndim, layouts[n - 1].shape)
				.text);
	for (size_t i = 0; i < n; i++) {
		for (int j = 0; j < 2; j++) {
			int from = layouts[i].ndim - 2 + j, to = batch[i].ndim;

			batch[i].shape[to] = layouts[i].shape[from];
			batch[i].stride[to] = layouts[i].stride[from];
			batch[i].ndim++;
		}
		layouts[i] = batch[i];
	}
	return 0;
}

int dtypes_meet(const char *op, const tarn_tensor *const *operands, size_t n,
	enum tarn_dtype *ret)
{
	enum tarn_dtype dtype = tarn_tensor_layout(operands[0])->dtype;
	int r = dtype_check(op, dtype);

	for (size_t i = 1; i < n && r >= 0; i++)
		r = tarn_promote(
			dtype, tarn_tensor_layout(operands[i])->dtype, &dtype);
	if (r >= 0)
		*ret = dtype;
	return r;
}

int floats_meet(const char *op, const tarn_tensor *const *operands, size_t n,
	enum tarn_dtype *ret)
{
	int r = dtypes_meet(op, operands, n, ret);

	if (r < 0 || dtype_kind(*ret) == KIND_FLOAT)
		return r;
	return tarn_error_set(EINVAL, "%s: of %s; cast it to F32, for example",
		op, tarn_dtype_name(*ret));
}

/* ---- destinations ------------------------------------------------------------ */

static bool writes_as_it_lies(
	const tarn_tensor *to, enum tarn_dtype dtype, bool rows)
{
	const struct tarn_layout *l = tarn_tensor_layout(to);

	if (rows && l->ndim && l->shape[l->ndim - 1] > 1 &&
		l->stride[l->ndim - 1] != 1)
		return false;
	return fits(to, dtype);
}

int result_begin_stack(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, bool rows, const struct stack *const *operands,
	size_t n, tarn_tensor **out, struct result *ret)
{
	bool as_it_lies;
	int r = result_begin(op, dtype, ndim, shape, out, ret);

	if (r < 0 || ret->made)
		return r;
	as_it_lies = writes_as_it_lies(*out, dtype, rows);
	for (size_t i = 0; as_it_lies && i < n; i++)
		as_it_lies = !tensors_overlap(*out, operands[i]->source.tensor);
	if (as_it_lies)
		return 0;
	ret->apart = true;
	return result_new(op, dtype, ndim, shape, &ret->work);
}

/* ---- parts -------------------------------------------------------------------- */

#define FOR_A_THREAD 6 /* parts: they may differ in length */

static void run_part(void *arg, size_t number)
{
	const struct parts *p = arg;
	int64_t first = (int64_t)number * p->a_part;
	int64_t end = MIN(first + p->a_part, p->items);

	for (; first < end; first++)
		p->fn(p->arg, first, p->memory + (int64_t)number * p->scratch);
}

int parts_run(struct parts *p)
{
	int64_t most = (int64_t)threads_count() * FOR_A_THREAD, n;

	p->a_part = MAX((int64_t)(PARTS_PAY / MAX(p->cost, 1.0)) + 1,
		(p->items + most - 1) / most);
	n = (p->items + p->a_part - 1) / p->a_part;
	p->scratch = (p->scratch + 63) / 64 * 64;
	p->memory = NULL;
	if (p->scratch) {
		p->memory = aligned_alloc(64, (size_t)(n * p->scratch));
		if (!p->memory)
			return tarn_error_set(ENOMEM,
				"%s: no memory for %lld parts of the work",
				p->op, (long long)n);
	}
	blas_enter();
	threads_run((size_t)n, run_part, p);
	blas_leave();
	free(p->memory);
	return 0;
}

/* ---- options ----------------------------------------------------------------- */

int options_check(const char *name, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (words[i])
			return tarn_error_set(EINVAL,
				"struct %s: reserved word %zu is 0x%llx, not "
				"0: the struct was not initialised, or is of a "
				"later version",
				name, i, (unsigned long long)words[i]);
	return 0;
}
