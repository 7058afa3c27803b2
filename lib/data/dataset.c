// SPDX-License-Identifier: MIT
/* Opening a dataset: options are checked, sources are counted in samples. */
#include "lib/data/dataset.h"
#include "lib/data/record.h"
#include "lib/data/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/reserved.h"
#include "lib/tensor/tensor.h"

/* ---- options ----------------------------------------------------------------- */

static int check_tokens(const struct tarn_data_options *o)
{
	enum tarn_dtype dtype = o->dtype ? o->dtype : TARN_I32;
	const char *name = tarn_dtype_name(dtype);
	unsigned width = data_token_width(dtype);

	if (!width)
		return tarn_fail(EINVAL,
			"data: tokens are delivered as integers, not as %s",
			name ? name : "an unknown dtype");
	if (data_token_at(&o->pad, dtype, width) != o->pad)
		return tarn_fail(EINVAL,
			"data: the token that fills up, %lld, does not fit into "
			"%s",
			(long long)o->pad, name);
	return 0;
}

static int check_windows(const struct tarn_data_options *o)
{
	if ((unsigned)o->windows > TARN_WINDOWS_RECORDS)
		return tarn_fail(EINVAL,
			"data: there are no windows %d: 0 to 5 are",
			(int)o->windows);
	if (o->windows == TARN_WINDOWS_ROWS ||
		o->windows == TARN_WINDOWS_RECORDS)
		return o->seq_len
			       ? tarn_fail(EINVAL,
					 "data: rows and records have no seq_len, and %u "
					 "is given",
					 o->seq_len)
			       : 0;
	if (!o->seq_len || o->seq_len > TARN_DATA_SEQ_MAX)
		return tarn_fail(EINVAL,
			"data: seq_len is 1 to %d tokens, not %u",
			TARN_DATA_SEQ_MAX, o->seq_len);
	return check_tokens(o);
}

static int check_options(const struct tarn_data_options *o, size_t n)
{
	int r = RESERVED_CHECK("tarn_data_options", o);

	if (r >= 0)
		r = check_windows(o);
	if (r >= 0 && (!n || n > TARN_DATA_SOURCES_MAX))
		r = tarn_fail(n ? E2BIG : EINVAL,
			"data: a dataset has 1 to %d sources, not %zu",
			TARN_DATA_SOURCES_MAX, n);
	if (r >= 0 && o->shuffle == TARN_SHUFFLE_BLOCKS && !o->block)
		r = tarn_fail_constant(EINVAL,
			"data: samples are shuffled within blocks of 1 at "
			"least, not 0");
	if (r >= 0 && (unsigned)o->shuffle > TARN_SHUFFLE_NONE)
		r = tarn_fail(EINVAL,
			"data: there is no shuffle %d: 0 shuffles all samples, "
			"1 within blocks, 2 none",
			(int)o->shuffle);
	/* Numbers of documents in a group have 32 bits. */
	if (r >= 0 && o->group > (1u << 24))
		r = tarn_fail(EINVAL,
			"data: a group has 16,777,216 documents at most, not %u",
			o->group);
	return r;
}

/* All sources have the rows of the first. */
static int check_rows(tarn_data *data, const tarn_data_source *source, size_t i)
{
	const struct tarn_layout *l = tarn_tensor_layout(source->rows);
	const tarn_data_source *first = i ? data->streams[0].source : source;
	uint64_t bits = (uint64_t)tarn_dtype_bits(l->dtype);

	for (int d = 1; d < l->ndim; d++)
		if (mul_u64(bits, (uint64_t)l->shape[d], &bits))
			return tarn_fail_constant(
				EOVERFLOW, "data: a row is too large");
	if (bits % 8)
		return tarn_fail(ENOTSUP,
			"data: a row of source %zu is not a whole number of "
			"bytes",
			i);
	if (i && (bits / 8 != data->row_bytes || first->dtype != l->dtype))
		return tarn_fail(EINVAL,
			"data: rows of source %zu are %llu bytes of %s, and "
			"those of source 0 %llu of %s",
			i, (unsigned long long)bits / 8,
			tarn_dtype_name(l->dtype),
			(unsigned long long)data->row_bytes,
			tarn_dtype_name(first->dtype));
	data->row_bytes = bits / 8;
	return 0;
}

static const char *source_has(const tarn_data_source *source)
{
	if (data_has_records(source))
		return "records";
	if (source->ragged)
		return "ragged rows, for columns,";
	return source->rows ? "rows" : "tokens";
}

static int check_source(
	tarn_data *data, const tarn_data_source *source, size_t i)
{
	bool rows = data->shape.windows == TARN_WINDOWS_ROWS;
	bool records = data->shape.windows == TARN_WINDOWS_RECORDS;
	const char *wanted = rows ? "rows" : records ? "records" : "tokens";
	const char *seen = source_has(source);

	if (strcmp(wanted, seen) != 0)
		return tarn_fail(EINVAL,
			"data: source %zu has %s, and the windows are of %s", i,
			seen, wanted);
	return rows ? check_rows(data, source, i) : 0;
}

/* ---- streams ------------------------------------------------------------------ */

static int count_samples(struct tarn_data *data, size_t i)
{
	const struct tarn_data_options *o = &data->options;
	struct data_stream *s = &data->streams[i];
	uint32_t group = data_table_group(o, s->source);
	tarn_tensor *given = o->tables ? o->tables[i] : NULL;
	int r;

	switch (o->windows) {
	case TARN_WINDOWS_ROWS:
	case TARN_WINDOWS_RECORDS:
		s->n = data_source_count(s->source);
		return 0;
	case TARN_WINDOWS_STREAM:
		s->n = s->source->n_tokens
			       ? (s->source->n_tokens - 1) / o->seq_len
			       : 0;
		return 0;
	default:
		r = !given && o->side_car
			    ? data_table_make_beside(
				      &s->table, s, &data->shape, group, o)
			    : data_table_make(&s->table, s, &data->shape, group,
				      given, o);
		if (r >= 0)
			s->n = s->table.before[s->table.n_groups];
		return r < 0 ? tarn_fail_prefix(r, "source %zu: ", i) : 0;
	}
}

static int make_stream(
	struct tarn_data *data, tarn_data_source *source, size_t i)
{
	struct data_stream *s = &data->streams[i];
	int r = check_source(data, source, i);

	if (r < 0)
		return r;
	s->source = tarn_data_source_ref(source);
	data->n_streams = i + 1;
	r = data_source_mark(source, s->mark);
	if (r >= 0)
		r = count_samples(data, i);
	if (r < 0)
		return r;
	s->first = data->n;
	if (add_u64(data->n, s->n, &data->n) || data->n > INT64_MAX)
		return tarn_fail_constant(EOVERFLOW,
			"data: the sources have more than 2^63 samples");
	if (!s->n && data->mixture)
		return tarn_fail(EINVAL,
			"data: source %zu is mixed in, and its %llu tokens make "
			"no sample",
			i, (unsigned long long)source->n_tokens);
	return 0;
}

static int make_streams(
	struct tarn_data *data, tarn_data_source *const *sources, size_t n)
{
	int r = 0;

	data->streams = calloc(n, sizeof(*data->streams));
	if (!data->streams)
		return tarn_fail(ENOMEM, "data: no memory for %zu sources", n);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = make_stream(data, sources[i], i);
	if (r >= 0 && !data->n)
		r = data->shape.seq_len
			    ? tarn_fail(EINVAL,
				      "data: the sources have no sample of %u "
				      "tokens",
				      data->shape.seq_len + 1)
			    : tarn_fail_constant(EINVAL,
				      "data: the sources have no samples");
	return r;
}

/* ---- datasets --------------------------------------------------------------------- */

static tarn_data *new_data(const struct tarn_data_options *o)
{
	tarn_data *data = calloc(1, sizeof(*data));

	if (!data)
		return NULL;
	data->options = *o;
	if (!o->dtype)
		data->options.dtype = TARN_I32;
	data->out_width = data_token_width(data->options.dtype);
	data->shape = (struct data_shape) {
		.windows = o->windows, .seq_len = o->seq_len};
	fork_lock_init(&data->lock);
	return data;
}

tarn_data *tarn_data_free(tarn_data *data)
{
	if (!data)
		return NULL;
	for (size_t i = 0; i < data->n_streams; i++) {
		data_table_end(&data->streams[i].table);
		tarn_data_source_unref(data->streams[i].source);
	}
	for (size_t i = 0; i < DATA_PLANS; i++)
		data_plan_end(&data->plans[i].plan);
	tarn_data_mixture_free(data->mixture);
	fork_lock_end(&data->lock);
	free(data->streams);
	free(data->text);
	free(data);
	return NULL;
}

int tarn_data_open(tarn_data_source *const *sources, size_t n,
	const struct tarn_data_options *options, tarn_data **ret)
{
	tarn_data *data;
	int r = check_options(options, n);

	if (r < 0)
		return r;
	data = new_data(options);
	if (!data)
		return tarn_fail_constant(
			ENOMEM, "data: no memory for a dataset");
	if (options->periods)
		r = tarn_data_mixture_new(n, options->periods,
			options->n_periods, &data->mixture);
	if (r >= 0)
		r = make_streams(data, sources, n);
	if (r >= 0)
		r = data_text_make(data, options->periods, options->n_periods);
	/* They are the caller's. */
	data->options.periods = NULL;
	data->options.tables = NULL;
	if (r < 0)
		tarn_data_free(data);
	else
		*ret = data;
	return r;
}

/* ---- asking ------------------------------------------------------------------------- */

void tarn_data_info(const tarn_data *data, struct tarn_data_info *ret)
{
	bool tokens = data->shape.seq_len != 0;

	*ret = (struct tarn_data_info) {.n_samples = data->n,
		.n_sources = (uint32_t)data->n_streams,
		.sample_tokens = tokens ? data->shape.seq_len + 1 : 0,
		.dtype = tokens ? data->options.dtype
				: data->streams[0].source->dtype,
		.sample_bytes = !tokens ? data->row_bytes
					: ((uint64_t)data->shape.seq_len + 1) *
						  data->out_width};
}

static int check_number(const tarn_data *data, uint32_t i)
{
	return i < data->n_streams
		       ? 0
		       : tarn_fail(ERANGE,
				 "data: source %u, of a dataset with %zu", i,
				 data->n_streams);
}

int tarn_data_source_samples(const tarn_data *data, uint32_t i, uint64_t *ret)
{
	int r = check_number(data, i);

	if (r >= 0)
		*ret = data->streams[i].n;
	return r;
}

int tarn_data_table(const tarn_data *data, uint32_t i, tarn_tensor **ret)
{
	int r = check_number(data, i);

	if (r < 0)
		return r;
	if (!data->streams[i].table.tensor)
		return tarn_fail_constant(ENOENT,
			"data: windows of a stream, rows and records need no "
			"table");
	*ret = tarn_tensor_ref(data->streams[i].table.tensor);
	return 0;
}

/* rank * global_batch / world, rounded down. */
int tarn_data_rank_part(uint64_t global_batch, uint32_t rank, uint32_t world,
	uint64_t *ret_first, uint64_t *ret_n)
{
	unsigned __int128 all = global_batch;

	if (rank >= world)
		return tarn_fail(
			EINVAL, "data: rank %u of a world of %u", rank, world);
	*ret_first = (uint64_t)(all * rank / world);
	*ret_n = (uint64_t)(all * (rank + (uint64_t)1) / world) - *ret_first;
	return 0;
}
