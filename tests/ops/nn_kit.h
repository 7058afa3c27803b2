/* SPDX-License-Identifier: MIT */
/* What the tests of module trees share. They link the shared libraries, so what
 * fails has its sentence there. */
#pragma once

#include <tarn/nn.h>
#include <tarn/tarn.h>

#include "tests/kit/tap.h"

/* Bails out with the call and its sentence if it fails; else its result. */
#define need(call) nn_need((call), #call, __LINE__)

static inline int nn_need(int r, const char *call, int line)
{
	if (r < 0)
		bail("line %d: %s: %d: %s", line, call, r,
			tarn_error_message());
	return r;
}

static inline tarn_tensor *nn_full(
	enum tarn_dtype dtype, int64_t rows, int64_t columns, double value)
{
	const int64_t shape[] = {rows, columns};
	tarn_tensor *t = NULL;

	need(tarn_tensor_full(dtype, columns ? 2 : 1, shape, value, &t));
	return t;
}

/* Adds what it drops. */
static inline tarn_parameter *nn_add(
	tarn_module *m, const char *path, tarn_tensor *t)
{
	tarn_parameter *p = NULL;

	need(tarn_module_add_parameter(m, path, t, &p));
	tarn_tensor_unref(t);
	return p;
}

static inline double nn_first(const tarn_tensor *t)
{
	int64_t index[TARN_NDIM_MAX] = {0};
	double value = -1;

	need(tarn_tensor_get_f64(t, index, &value));
	return value;
}

static inline tarn_parameter *nn_find(tarn_module *m, const char *path)
{
	tarn_parameter *p = NULL;

	need(tarn_module_find_parameter(m, path, &p));
	return p;
}

/* The first element of a tree's present tensor. */
static inline double nn_value(tarn_module *m, const char *path)
{
	tarn_tensor *t = tarn_parameter_tensor(nn_find(m, path));
	double value = nn_first(t);

	tarn_tensor_unref(t);
	return value;
}
