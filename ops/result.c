// SPDX-License-Identifier: MIT
#include "ops/result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"

struct shape_text shape_words(int ndim, const int64_t *shape)
{
	struct shape_text t;
	size_t at = 0;

	t.text[at++] = '[';
	for (int i = 0; i < ndim; i++)
		at += (size_t)snprintf(t.text + at, sizeof(t.text) - at,
			"%s%lld", i ? ", " : "", (long long)shape[i]);
	snprintf(t.text + at, sizeof(t.text) - at, "]");
	return t;
}

int dim_of(const char *op, int dim, int ndim, int *ret)
{
	int n = MAX(ndim, 1); /* one without dimensions has 0 and -1 */

	if (dim < -n || dim >= n)
		return tarn_error_set(EINVAL,
			"%s: there is no dimension %d of %d", op, dim, ndim);
	*ret = dim < 0 ? dim + n : dim;
	return 0;
}

/* ---- operands ----------------------------------------------------------- */

static bool in_memory(const tarn_tensor *t)
{
	return tarn_storage_data(tarn_tensor_storage(t)) ||
	       !tarn_layout_numel(tarn_tensor_layout(t));
}

int refuse_device(const char *op, const tarn_tensor *t)
{
	if (tarn_storage_kind(tarn_tensor_storage(t)) != TARN_STORAGE_DEVICE)
		return 0;
	return tarn_error_set(ENOTSUP,
		"%s: the tensor is on a device; copy it to the host first", op);
}

int source_open(const char *op, const tarn_tensor *tensor, struct source *ret)
{
	int r = dtype_check(op, tarn_tensor_layout(tensor)->dtype);

	*ret = (struct source) {.tensor = tensor};
	if (r < 0 || in_memory(tensor))
		return r;
	r = refuse_device(op, tensor);
	if (r >= 0)
		r = tarn_tensor_clone(tensor, &ret->copy);
	if (r >= 0)
		ret->tensor = ret->copy;
	return r;
}

void source_close(struct source *source)
{
	source->copy = tarn_tensor_unref(source->copy);
}

static bool is_aligned(const tarn_tensor *t)
{
	int bits = tarn_dtype_bits(tarn_tensor_layout(t)->dtype);

	return (uintptr_t)tarn_tensor_data(t) % (unsigned)(bits / 8) == 0;
}

int source_open_plain(const char *op, const tarn_tensor *tensor,
	enum tarn_dtype dtype, struct source *ret)
{
	const struct tarn_layout *l;
	tarn_tensor *plain;
	int r = source_open(op, tensor, ret);

	if (r < 0)
		return r;
	l = tarn_tensor_layout(ret->tensor);
	if (l->dtype == dtype && tarn_layout_is_contiguous(l) &&
		is_aligned(ret->tensor))
		return 0;
	r = result_new(op, dtype, l->ndim, l->shape, &plain);
	if (r >= 0)
		r = tarn_copy(plain, ret->tensor, NULL, NULL);
	source_close(ret);
	if (r < 0)
		return r;
	ret->copy = plain;
	ret->tensor = plain;
	return 0;
}

/* ---- results ------------------------------------------------------------ */

int result_new(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **ret)
{
	return tarn_tensor_empty(dtype, ndim, shape, ret);
}

bool tensors_overlap(const tarn_tensor *a, const tarn_tensor *b)
{
	const struct tarn_layout *x = tarn_tensor_layout(a),
				 *y = tarn_tensor_layout(b);
	int64_t first[2], count[2];
	uintptr_t from[2], to[2];

	tarn_layout_bounds(x, &first[0], &count[0]);
	tarn_layout_bounds(y, &first[1], &count[1]);
	if (!count[0] || !count[1])
		return false;
	for (int i = 0; i < 2; i++) {
		const tarn_tensor *t = i ? b : a;
		int64_t size = tarn_dtype_bits((i ? y : x)->dtype) / 8;

		from[i] = (uintptr_t)tarn_storage_data(tarn_tensor_storage(t)) +
			  tarn_tensor_base(t) + (uintptr_t)(first[i] * size);
		to[i] = from[i] + (uintptr_t)(count[i] * size);
	}
	if (to[0] <= from[1] || to[1] <= from[0])
		return false;
	/* Interleaved, perhaps: told apart where they count alike. */
	if (tarn_tensor_same_storage(a, b) &&
		tarn_tensor_base(a) == tarn_tensor_base(b))
		return tarn_layout_overlaps(x, y);
	return true;
}

static bool same_layout(const tarn_tensor *a, const tarn_tensor *b)
{
	const struct tarn_layout *x = tarn_tensor_layout(a),
				 *y = tarn_tensor_layout(b);
	size_t size = (size_t)x->ndim * sizeof(int64_t);

	return tarn_tensor_data(a) == tarn_tensor_data(b) &&
	       x->dtype == y->dtype && x->ndim == y->ndim &&
	       !memcmp(x->shape, y->shape, size) &&
	       !memcmp(x->stride, y->stride, size);
}

int source_part(struct source *source, const tarn_tensor *to)
{
	tarn_tensor *copy;
	int r;

	if (!source->tensor || same_layout(source->tensor, to) ||
		!tensors_overlap(source->tensor, to))
		return 0;
	r = tarn_tensor_clone(source->tensor, &copy);
	if (r < 0)
		return r;
	source_close(source);
	source->copy = copy;
	source->tensor = copy;
	return 0;
}

static int check_shape(const char *op, int ndim, const int64_t *shape,
	const struct tarn_layout *l)
{
	bool same = l->ndim == ndim;

	for (int i = 0; same && i < ndim; i++)
		same = l->shape[i] == shape[i];
	if (same)
		return 0;
	return tarn_error_set(EINVAL,
		"%s: the result is %s, and the destination %s", op,
		shape_words(ndim, shape).text,
		shape_words(l->ndim, l->shape).text);
}

static int check_destination(
	const char *op, enum tarn_dtype dtype, const tarn_tensor *to)
{
	const struct tarn_layout *l = tarn_tensor_layout(to);

	if (dtype_kind(l->dtype) < dtype_kind(dtype))
		return tarn_error_set(EINVAL,
			"%s: the result is %s, which a destination of %s "
			"cannot hold; cast it",
			op, tarn_dtype_name(dtype), tarn_dtype_name(l->dtype));
	if (!tarn_storage_writable(tarn_tensor_storage(to)))
		return tarn_error_set(EROFS,
			"%s: the destination is read-only; write to a tensor "
			"of your own, or to a copy of this one",
			op);
	if (!in_memory(to))
		return tarn_error_set(ENOTSUP,
			"%s: the destination is not in memory; copy the result "
			"there",
			op);
	if (tarn_layout_overlaps_itself(l))
		return tarn_error_set(EINVAL,
			"%s: elements of the destination lie upon each other",
			op);
	return 0;
}

int result_begin(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **out, struct result *ret)
{
	int r;

	*ret = (struct result) {.out = out, .work = *out, .made = !*out};
	if (!*out)
		return result_new(op, dtype, ndim, shape, &ret->work);
	r = check_shape(op, ndim, shape, tarn_tensor_layout(*out));
	if (r >= 0)
		r = check_destination(op, dtype, *out);
	if (r < 0)
		ret->work = NULL;
	return r;
}

int result_begin_plain(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, const tarn_tensor *const *operands, size_t n,
	tarn_tensor **out, struct result *ret)
{
	const struct tarn_layout *l;
	bool plain;
	int r = result_begin(op, dtype, ndim, shape, out, ret);

	if (r < 0 || ret->made)
		return r;
	l = tarn_tensor_layout(*out);
	plain = l->dtype == dtype && tarn_layout_is_contiguous(l) &&
		is_aligned(*out);
	for (size_t i = 0; plain && i < n; i++)
		plain = !operands[i] || !tensors_overlap(*out, operands[i]);
	if (plain)
		return 0;
	ret->apart = true;
	ret->work = NULL;
	return result_new(op, dtype, ndim, shape, &ret->work);
}

int result_begin_apart(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, const tarn_tensor *const *operands, size_t n,
	tarn_tensor **out, struct result *ret)
{
	int r = result_begin(op, dtype, ndim, shape, out, ret);

	if (r < 0 || ret->made)
		return r;
	for (size_t i = 0; i < n && !ret->apart; i++)
		ret->apart = operands[i] && tensors_overlap(*out, operands[i]);
	if (!ret->apart)
		return 0;
	ret->work = NULL;
	return result_new(op, dtype, ndim, shape, &ret->work);
}

int result_end(struct result *result, int r)
{
	tarn_tensor *work = STEAL(result->work);

	if (r >= 0 && result->apart)
		r = tarn_copy(*result->out, work, NULL, NULL);
	if (r >= 0 && result->made)
		*result->out = work;
	else if (result->made || result->apart)
		tarn_tensor_unref(work);
	return r;
}
