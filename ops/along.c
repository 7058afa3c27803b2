// SPDX-License-Identifier: MIT
/*
 * Operations from rows to rows: softmax, sums up to each element, layers that
 * are normed. Each finds its rows, and gives them to a kernel for floats of one
 * type (kernels_rows.h).
 */
#include <errno.h>

#include "ops/result.h"
#include "ops/rows.h"

static int check_float(const char *op, const tarn_tensor *x)
{
	enum tarn_dtype dtype = tarn_tensor_layout(x)->dtype;

	if (dtype_kind(dtype) == KIND_FLOAT)
		return 0;
	return tarn_error_set(EINVAL,
		"%s: of %s; cast the tensor to F32, for example", op,
		tarn_dtype_name(dtype));
}

/* The result has the shape of x, and dtype. */
static int map(const char *op, enum row_op row, struct source *x,
	const bool gone[TARN_NDIM_MAX], enum tarn_dtype dtype,
	struct source *weights, struct row_args *args, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x->tensor);
	enum tarn_dtype computed = dtype_computed(dtype);
	row_fn *kernel = kernels()->row[kernels_type(computed)][row];
	struct result result;
	int r = result_begin(op, dtype, l->ndim, l->shape, out, &result);

	if (r >= 0 && !result.made)
		r = source_part(x, result.work);
	for (int i = 0; i < 2 && weights && r >= 0 && !result.made; i++)
		r = source_part(&weights[i], result.work);
	if (r >= 0 && weights) {
		args->weight = weights[0].tensor
				       ? tarn_tensor_data(weights[0].tensor)
				       : NULL;
		args->bias = weights[1].tensor
				     ? tarn_tensor_data(weights[1].tensor)
				     : NULL;
	}
	if (r >= 0)
		r = rows_map(op, result.work, x->tensor, gone, computed, kernel,
			args);
	return result_end(&result, r);
}

static int along(const char *op, enum row_op row, const tarn_tensor *x, int dim,
	bool floats, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	_cleanup_source_ struct source source = {0};
	enum tarn_dtype dtype = l->dtype;
	bool gone[TARN_NDIM_MAX] = {false};
	struct row_args none = {0};
	int r = source_open(op, x, &source);

	if (r >= 0 && floats)
		r = check_float(op, x);
	if (r >= 0)
		r = dim_of(op, dim, l->ndim, &dim);
	if (r < 0)
		return r;
	gone[dim] = true;
	if (dtype_kind(dtype) != KIND_FLOAT && dtype != TARN_U64)
		dtype = TARN_I64;
	return map(op, row, &source, gone, dtype, NULL, &none, out);
}

int tarn_softmax(const tarn_tensor *x, int dim, tarn_tensor **out)
{
	return along("softmax", ROW_SOFTMAX, x, dim, true, out);
}

int tarn_log_softmax(const tarn_tensor *x, int dim, tarn_tensor **out)
{
	return along("log_softmax", ROW_LOG_SOFTMAX, x, dim, true, out);
}

int tarn_cumulative_sum(const tarn_tensor *x, int dim, tarn_tensor **out)
{
	return along("cumulative_sum", ROW_CUMULATIVE_SUM, x, dim, false, out);
}

int tarn_cumulative_product(const tarn_tensor *x, int dim, tarn_tensor **out)
{
	return along("cumulative_product", ROW_CUMULATIVE_PRODUCT, x, dim,
		false, out);
}

/* ---- norms ---------------------------------------------------------------------- */

/* weight has the shape of the last n dimensions of x. */
static int open_weight(const char *op, const char *what, const tarn_tensor *x,
	int n, const tarn_tensor *weight, struct source *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(x), *w;
	bool same;

	if (!weight)
		return 0;
	w = tarn_tensor_layout(weight);
	same = w->ndim == n;
	for (int i = 0; same && i < n; i++)
		same = w->shape[i] == l->shape[l->ndim - n + i];
	if (!same)
		return tarn_error_set(EINVAL,
			"%s: the %s is %s, and the last %d dimensions of the "
			"tensor are %s",
			op, what, shape_words(w->ndim, w->shape).text, n,
			shape_words(n, l->shape + l->ndim - n).text);
	return source_open_plain(op, weight, dtype_computed(l->dtype), ret);
}

static int norm(const char *op, enum row_op row, const tarn_tensor *x,
	int n_dims, const tarn_tensor *weight, const tarn_tensor *bias,
	double epsilon, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	struct source source = {0}, weights[2] = {0};
	bool gone[TARN_NDIM_MAX] = {false};
	struct row_args args = {.epsilon = epsilon};
	int r = source_open(op, x, &source);

	if (r >= 0)
		r = check_float(op, x);
	if (r >= 0 && (n_dims < 1 || n_dims > l->ndim))
		r = tarn_error_set(EINVAL,
			"%s: over the last %d dimensions of %s; 1 to %d are "
			"possible",
			op, n_dims, shape_words(l->ndim, l->shape).text,
			l->ndim);
	if (r >= 0)
		r = open_weight(op, "weight", x, n_dims, weight, &weights[0]);
	if (r >= 0)
		r = open_weight(op, "bias", x, n_dims, bias, &weights[1]);
	for (int i = 0; i < l->ndim; i++)
		gone[i] = i >= l->ndim - n_dims;
	if (r >= 0)
		r = map(op, row, &source, gone, l->dtype, weights, &args, out);
	source_close(&weights[1]);
	source_close(&weights[0]);
	source_close(&source);
	return r;
}

int tarn_layer_norm(const tarn_tensor *x, int n_dims, const tarn_tensor *weight,
	const tarn_tensor *bias, double epsilon, tarn_tensor **out)
{
	return norm("layer_norm", ROW_LAYER_NORM, x, n_dims, weight, bias,
		epsilon, out);
}

int tarn_rms_norm(const tarn_tensor *x, int n_dims, const tarn_tensor *weight,
	double epsilon, tarn_tensor **out)
{
	return norm("rms_norm", ROW_RMS_NORM, x, n_dims, weight, NULL, epsilon,
		out);
}
