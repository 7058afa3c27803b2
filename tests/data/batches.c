/* SPDX-License-Identifier: MIT */
#include "tests/data/batches.h"

#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>

#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* Long, where processes are many and cores few; a test that waits so long
 * fails. */
#define LONG_MS 60000

tarn_loader *batches_open(
	tarn_data *data, const struct tarn_loader_options *options)
{
	tarn_loader *loader;

	must(tarn_loader_open(NULL, data, options, &loader));
	return loader;
}

struct sample {
	unsigned char *tokens;
	int32_t *positions, *segments, *cu_seqlens;
	struct tarn_data_sample is;
};

static void read_sample(tarn_data *data, uint64_t g, struct sample *ret)
{
	struct tarn_data_info info;
	struct tarn_data_request request = {.document = true};

	tarn_data_info(data, &info);
	ret->tokens = malloc(info.sample_bytes);
	ret->positions = calloc(info.sample_tokens + 1, 4);
	ret->segments = calloc(info.sample_tokens + 1, 4);
	ret->cu_seqlens = calloc(info.sample_tokens + 1, 4);
	request.tokens = ret->tokens;
	request.size = info.sample_bytes;
	if (info.sample_tokens) {
		request.positions = ret->positions;
		request.segments = ret->segments;
		request.cu_seqlens = ret->cu_seqlens;
	}
	must(tarn_data_get(data, g, &request, &ret->is));
}

static void free_sample(struct sample *s)
{
	free(s->tokens);
	free(s->positions);
	free(s->segments);
	free(s->cu_seqlens);
}

/* Row i of a part; NULL: it has another shape than n rows of size bytes. */
static const void *row(
	tarn_batch *batch, unsigned part, uint64_t i, uint64_t n, uint64_t size)
{
	const struct tarn_layout *l;
	tarn_tensor *t;
	const char *at;
	bool fits;

	must(tarn_batch_tensor(batch, part, &t));
	l = tarn_tensor_layout(t);
	at = tarn_tensor_data(t);
	fits = (uint64_t)l->shape[0] == n &&
	       (uint64_t)tarn_layout_nbytes(l) == n * size &&
	       tarn_layout_is_contiguous(l);
	tarn_tensor_unref(t);
	return fits ? at + i * size : NULL;
}

static bool same(tarn_batch *batch, unsigned part, uint64_t i, uint64_t n,
	const void *wanted, uint64_t size)
{
	const void *at = row(batch, part, i, n, size);

	return at && memcmp(at, wanted, size) == 0;
}

static bool right_sample(tarn_data *data, tarn_batch *batch, uint64_t i,
	uint64_t n, const struct sample *s, unsigned parts)
{
	struct tarn_data_info info;
	uint64_t row_bytes;

	tarn_data_info(data, &info);
	row_bytes = 4 * (uint64_t)info.sample_tokens;
	return same(batch, TARN_LOADER_TOKENS, i, n, s->tokens,
		       info.sample_bytes) &&
	       (!(parts & TARN_LOADER_POSITIONS) ||
		       same(batch, TARN_LOADER_POSITIONS, i, n, s->positions,
			       row_bytes)) &&
	       (!(parts & TARN_LOADER_SEGMENTS) ||
		       same(batch, TARN_LOADER_SEGMENTS, i, n, s->segments,
			       row_bytes)) &&
	       (!(parts & TARN_LOADER_DOCUMENTS) ||
		       same(batch, TARN_LOADER_DOCUMENTS, i, n, &s->is.document,
			       8));
}

/* The boundaries of a sample, which begin at *at of the batch's. */
static bool right_boundaries(const int32_t *cu, int64_t n_cu, int64_t *at,
	int32_t base, const struct sample *s)
{
	for (uint32_t k = 0; k + 1 < s->is.n_cu_seqlens; k++, ++*at)
		if (*at >= n_cu || cu[*at] != base + s->cu_seqlens[k])
			return false;
	return true;
}

bool batches_right(tarn_data *data, tarn_batch *batch, uint64_t position,
	uint64_t n, unsigned parts)
{
	struct tarn_data_info info;
	tarn_tensor *list = NULL;
	const int32_t *cu = NULL;
	int64_t n_cu = 0, at = 0, seq_len;
	bool right = tarn_batch_position(batch) == position &&
		     tarn_batch_samples(batch) == n;

	tarn_data_info(data, &info);
	seq_len = (int64_t)info.sample_tokens - 1;
	if (parts & TARN_LOADER_CU_SEQLENS) {
		must(tarn_batch_tensor(batch, TARN_LOADER_CU_SEQLENS, &list));
		n_cu = tarn_tensor_layout(list)->shape[0];
		cu = tarn_tensor_data(list);
	}
	for (uint64_t i = 0; right && i < n; i++) {
		struct sample s;

		read_sample(data, position + i, &s);
		right = right_sample(data, batch, i, n, &s, parts) &&
			(!cu || right_boundaries(cu, n_cu, &at,
					(int32_t)((int64_t)i * seq_len), &s));
		free_sample(&s);
		if (!right)
			diag("the sample at %llu differs",
				(unsigned long long)(position + i));
	}
	if (right && cu)
		right = at == n_cu - 1 && cu[at] == (int64_t)n * seq_len;
	tarn_tensor_unref(list);
	if (!right)
		diag("batch at %llu of %llu samples; wanted: at %llu of %llu",
			(unsigned long long)tarn_batch_position(batch),
			(unsigned long long)tarn_batch_samples(batch),
			(unsigned long long)position, (unsigned long long)n);
	return right;
}

bool batches_next(tarn_loader *loader, tarn_data *data,
	const struct tarn_loader_options *options)
{
	uint64_t position = tarn_loader_position(loader), first, n;
	uint64_t samples = options->global_batch;
	tarn_batch *batch;
	bool right;
	int r;

	if (options->until && samples > options->until - position)
		samples = options->until - position;
	must(tarn_data_rank_part(samples, options->rank,
		options->world ? options->world : 1, &first, &n));
	r = tarn_loader_next(loader, LONG_MS, &batch);
	if (r < 0) {
		diag("no batch at %llu: %s", (unsigned long long)position,
			tarn_error_message());
		return false;
	}
	right = batches_right(data, batch, position + first, n, options->parts);
	tarn_batch_unref(batch);
	return right && tarn_loader_position(loader) == position + samples;
}
