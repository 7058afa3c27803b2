// SPDX-License-Identifier: MIT
/* Columns: several sources with the same number of samples, side by side; and
 * ragged rows, for which they are the only use. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/record.h"
#include "lib/reserved.h"
#include "lib/tensor/tensor.h"

struct data_columns *data_columns_free(struct data_columns *columns)
{
	if (!columns)
		return NULL;
	for (size_t i = 0; i < columns->n; i++) {
		free(columns->at[i].name);
		tarn_data_source_unref(columns->at[i].source);
	}
	free(columns->at);
	free(columns);
	return NULL;
}

uint64_t data_source_count(const tarn_data_source *source)
{
	if (source->chain)
		return source->chain->n_records;
	if (source->columns)
		return source->columns->n_records;
	if (source->shards)
		return source->shards->n_records;
	return source->rows ? (uint64_t)source->rows->layout.shape[0]
			    : source->n_documents;
}

static int check_column(
	const struct tarn_data_column *columns, size_t i, uint64_t n)
{
	const struct tarn_data_column *c = &columns[i];
	int r = RESERVED_CHECK("tarn_data_column", c);

	if (r >= 0 && (!c->source || !c->name || !*c->name))
		return tarn_fail(EINVAL, "data: column %zu has no %s", i,
			c->source ? "name" : "source");
	if (r >= 0 && data_source_count(c->source) != n)
		return tarn_fail(EINVAL,
			"data: the column '%.100s' has %llu samples, and "
			"'%.100s' has %llu",
			c->name,
			(unsigned long long)data_source_count(c->source),
			columns[0].name, (unsigned long long)n);
	for (size_t k = 0; r >= 0 && k < i; k++)
		if (strcmp(columns[k].name, c->name) == 0)
			return tarn_fail(EINVAL,
				"data: two columns have the name '%.100s'",
				c->name);
	return r;
}

static int add_column(
	struct data_columns *to, const struct tarn_data_column *column)
{
	char *name = strdup(column->name);

	if (!name)
		return tarn_fail_constant(ENOMEM, "data: no memory for a name");
	to->at[to->n++] = (struct data_column) {
		.name = name, .source = tarn_data_source_ref(column->source)};
	return 0;
}

static int make_columns(const struct tarn_data_column *columns, size_t n,
	struct data_columns **ret)
{
	struct data_columns *made = calloc(1, sizeof(*made));
	int r = 0;

	if (made)
		made->at = calloc(n, sizeof(*made->at));
	if (!made || !made->at)
		r = tarn_fail(ENOMEM, "data: no memory for %zu columns", n);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (i == 0 && columns[0].source)
			made->n_records = data_source_count(columns[0].source);
		r = check_column(columns, i, made->n_records);
		if (r >= 0)
			r = add_column(made, &columns[i]);
	}
	if (r < 0)
		data_columns_free(made);
	else
		*ret = made;
	return r;
}

int tarn_data_source_columns(const struct tarn_data_column *columns, size_t n,
	tarn_data_source **ret)
{
	_cleanup_source_ tarn_data_source *source = NULL;
	int r;

	if (!n || n > TARN_DATA_FIELDS_MAX)
		return tarn_fail(n ? E2BIG : EINVAL,
			"data: a source has 1 to %d columns, not %zu",
			TARN_DATA_FIELDS_MAX, n);
	source = data_source_new("columns");
	if (!source)
		return -ENOMEM;
	r = make_columns(columns, n, &source->columns);
	if (r >= 0)
		*ret = STEAL(source);
	return r;
}

/* ---- ragged rows ------------------------------------------------------------- */

static int row_bytes(const struct tarn_layout *l, uint64_t *ret)
{
	uint64_t bits = (uint64_t)tarn_dtype_bits(l->dtype);

	for (int d = 1; d < l->ndim; d++)
		if (mul_u64(bits, (uint64_t)l->shape[d], &bits))
			bits = 0;
	if (!bits || bits % 8 || bits / 8 > UINT32_MAX)
		return tarn_fail_constant(EINVAL,
			"data: a row of ragged values has at least one byte, "
			"and whole ones, below 2^32");
	*ret = bits / 8;
	return 0;
}

static int check_values(const tarn_tensor *values)
{
	if (values->layout.ndim < 1 ||
		!tarn_layout_is_contiguous(&values->layout))
		return tarn_fail(EINVAL,
			"data: ragged values are contiguous, with one dimension "
			"at least, not %d%s",
			values->layout.ndim,
			values->layout.ndim ? " and other strides" : "");
	return values->storage->on_device
		       ? tarn_fail_constant(EINVAL,
				 "data: ragged values are in memory of a device; "
				 "copy them to memory first")
		       : 0;
}

int tarn_data_source_ragged(
	tarn_tensor *values, tarn_tensor *offsets, tarn_data_source **ret)
{
	_cleanup_source_ tarn_data_source *source = NULL;
	struct data_part part = {.n_tokens = 0};
	struct data_tokens rows = {.dtype = values->layout.dtype};
	uint64_t width = 0;
	int r = check_values(values);

	if (r >= 0)
		r = row_bytes(&values->layout, &width);
	if (r < 0)
		return r;
	source = data_source_new("ragged");
	if (!source)
		return -ENOMEM;
	rows.width = (unsigned)width;
	r = data_ragged_part(
		"ragged values", values, offsets, rows.width, &part);
	if (r < 0) {
		data_part_end(&part);
		return r;
	}
	r = data_add_part(source, &part, &rows, "ragged");
	if (r < 0)
		return r;
	source->ragged = tarn_tensor_ref(values);
	*ret = STEAL(source);
	return 0;
}
