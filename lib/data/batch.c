// SPDX-License-Identifier: MIT
/*
 * A batch is a handful of tensors, which keep the memory that they are in. Of
 * boundaries each rank makes its own list, since they count from the first token
 * of its rows; there are few of them.
 */
#include "lib/data/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

/* As in slots of channels. */
#define ALIGNMENT 64u

/* ---- forms ---------------------------------------------------------------- */

int batch_form_of(const tarn_data *data, unsigned parts, struct batch_form *ret)
{
	const tarn_data_source *source = data->streams[0].source;
	struct tarn_data_info info;

	tarn_data_info(data, &info);
	*ret = (struct batch_form) {
		.parts = parts, .sample_bytes = info.sample_bytes};
	if (source->rows) {
		const struct tarn_layout *l = &source->rows->layout;

		return tarn_layout_contiguous(
			l->dtype, l->ndim, l->shape, &ret->tokens);
	}
	ret->seq_len = info.sample_tokens - 1;
	return tarn_layout_contiguous(info.dtype, 2,
		(const int64_t[]) {1, info.sample_tokens}, &ret->tokens);
}

bool batch_layout(const struct batch_form *form, enum batch_tensor which,
	uint64_t n, struct tarn_layout *ret)
{
	static const unsigned part[] = {
		[BATCH_POSITIONS] = TARN_LOADER_POSITIONS,
		[BATCH_SEGMENTS] = TARN_LOADER_SEGMENTS,
		[BATCH_DOCUMENTS] = TARN_LOADER_DOCUMENTS,
	};

	if (which == BATCH_TOKENS) {
		*ret = form->tokens;
		ret->shape[0] = (int64_t)n;
		return true;
	}
	if (which == BATCH_CU_SEQLENS || !(form->parts & part[which]))
		return false;
	*ret = (struct tarn_layout) {.dtype = TARN_I32,
		.ndim = 2,
		.shape = {(int64_t)n, (int64_t)form->seq_len + 1},
		.stride = {(int64_t)form->seq_len + 1, 1}};
	if (which == BATCH_DOCUMENTS)
		*ret = (struct tarn_layout) {.dtype = TARN_U64,
			.ndim = 1,
			.shape = {(int64_t)n},
			.stride = {1}};
	return true;
}

/* Bytes of a part, rounded up. */
static int part_size(const struct batch_form *form, enum batch_tensor which,
	uint64_t n, uint64_t *ret)
{
	uint64_t one = 4 * ((uint64_t)form->seq_len + 1), size;

	if (which == BATCH_TOKENS)
		one = form->sample_bytes;
	else if (which == BATCH_DOCUMENTS)
		one = 8;
	else if (which == BATCH_CU_SEQLENS)
		one += 4;
	if (mul_u64(one, n, &size) || add_u64(size, ALIGNMENT, &size) ||
		round_up_u64(size, ALIGNMENT, &size) || size > INT64_MAX / 8)
		return tarn_fail(EOVERFLOW,
			"loader: %llu samples of %llu bytes are more than "
			"memory can hold",
			(unsigned long long)n, (unsigned long long)one);
	*ret = size;
	return 0;
}

int batch_size(const struct batch_form *form, uint64_t n, uint64_t *ret)
{
	uint64_t size = 0, part = 0;
	int r = 0;

	for (int i = 0; r >= 0 && i < BATCH_TENSORS; i++) {
		struct tarn_layout layout;

		if (!batch_layout(form, i, n, &layout) &&
			!(i == BATCH_CU_SEQLENS &&
				form->parts & TARN_LOADER_CU_SEQLENS))
			continue;
		/* Boundaries have one more list, of n + 1. */
		r = part_size(form, i, n, &part);
		if (r >= 0)
			size += part;
	}
	/* Numbers of tokens and boundaries have 31 bits. */
	if (r >= 0 && form->parts & TARN_LOADER_CU_SEQLENS &&
		n > INT32_MAX / ((uint64_t)form->seq_len + 1))
		r = tarn_fail(EOVERFLOW,
			"loader: boundaries among %llu samples of %u tokens do "
			"not fit into 31 bits",
			(unsigned long long)n, form->seq_len);
	if (r >= 0)
		*ret = size + 2 * ALIGNMENT;
	return r;
}

/* ---- memory ---------------------------------------------------------------- */

void batch_set(struct batch_memory *memory, enum batch_tensor which, void *at)
{
	switch (which) {
	case BATCH_TOKENS:
		memory->tokens = at;
		break;
	case BATCH_POSITIONS:
		memory->positions = at;
		break;
	case BATCH_SEGMENTS:
		memory->segments = at;
		break;
	case BATCH_DOCUMENTS:
		memory->documents = at;
		break;
	default:
		break;
	}
}

/* Where a part begins that ends the last one at `at`. */
static uint64_t lay_one(const struct tarn_layout *layout, uint64_t *at)
{
	uint64_t begin = round_down_u64(*at + ALIGNMENT - 1, ALIGNMENT);

	*at = begin + (uint64_t)tarn_layout_nbytes(layout);
	return begin;
}

void batch_lay(const struct batch_form *form, uint64_t n, unsigned char *bytes,
	struct batch_memory *ret)
{
	struct tarn_layout layout;
	uint64_t at = 0;

	*ret = (struct batch_memory) {.tokens = NULL};
	for (int i = 0; i < BATCH_TENSORS; i++)
		if (batch_layout(form, i, n, &layout))
			batch_set(ret, i, bytes + lay_one(&layout, &at));
}

/* ---- boundaries -------------------------------------------------------------- */

/* The list of a batch; at is private, and was checked. */
static int join_boundaries(const struct batch_form *form, const int32_t *at,
	const int32_t *starts, uint64_t n, tarn_tensor **ret)
{
	const int64_t shape[] = {(int64_t)at[n] - at[0] + 1};
	_cleanup_tensor_ tarn_tensor *list = NULL;
	int r = tarn_tensor_alloc("loader", false, TARN_I32, 1, shape, &list);
	int32_t *to;

	if (r < 0)
		return r;
	to = tarn_tensor_origin(list);
	for (uint64_t i = 0; i < n; i++)
		for (int32_t k = at[i]; k < at[i + 1]; k++)
			*to++ = (int32_t)i * (int32_t)form->seq_len + starts[k];
	*to = (int32_t)n * (int32_t)form->seq_len;
	*ret = STEAL(list);
	return 0;
}

static bool are_boundaries(
	const struct batch_form *form, const struct boundaries *own, uint64_t n)
{
	for (uint64_t i = 0; i <= n; i++)
		if (own->at[i] < (i ? own->at[i - 1] : 0) ||
			(size_t)own->at[i] > own->n_starts)
			return false;
	for (size_t i = 0; i < own->n_starts; i++)
		if (own->starts[i] < 0 ||
			(uint32_t)own->starts[i] >= form->seq_len)
			return false;
	return true;
}

static void *copy_of(const int32_t *from, uint64_t n)
{
	int32_t *copy = malloc((n + 1) * sizeof(*copy));

	if (copy && n)
		memcpy(copy, from, n * sizeof(*copy));
	return copy;
}

int batch_cu_seqlens(const struct batch_form *form, const struct boundaries *b,
	uint64_t first, uint64_t n, tarn_tensor **ret)
{
	_cleanup_free_ int32_t *at = copy_of(b->at + first, n + 1);
	_cleanup_free_ int32_t *starts = copy_of(b->starts, b->n_starts);
	const struct boundaries own = {
		.at = at, .starts = starts, .n_starts = b->n_starts};

	if (!at || !starts)
		return tarn_fail_constant(
			ENOMEM, "loader: no memory for a batch's boundaries");
	if (!are_boundaries(form, &own, n))
		return tarn_fail_constant(EBADMSG,
			"loader: a process of the stream gave boundaries that "
			"are none");
	return join_boundaries(form, at, starts, n, ret);
}

/* ---- batches ---------------------------------------------------------------- */

static int add_tensors(
	const struct batch_form *form, tarn_storage *storage, tarn_batch *batch)
{
	struct tarn_layout layout;
	uint64_t at = 0;
	int r = 0;

	for (int i = 0; r >= 0 && i < BATCH_TENSORS; i++)
		if (batch_layout(form, i, batch->n, &layout))
			r = tarn_tensor_new(storage, lay_one(&layout, &at),
				&layout, &batch->tensors[i]);
	return r;
}

int batch_of_storage(const struct batch_form *form, uint64_t position,
	uint64_t n, tarn_storage *storage, const struct boundaries *boundaries,
	tarn_batch **ret)
{
	_cleanup_batch_ tarn_batch *batch = calloc(1, sizeof(*batch));
	int r;

	if (!batch)
		return tarn_fail_constant(
			ENOMEM, "loader: no memory for a batch");
	batch->position = position;
	batch->n = n;
	r = add_tensors(form, storage, batch);
	if (r >= 0 && form->parts & TARN_LOADER_CU_SEQLENS)
		r = batch_cu_seqlens(form, boundaries, 0, n,
			&batch->tensors[BATCH_CU_SEQLENS]);
	if (r >= 0)
		*ret = STEAL(batch);
	return r;
}

int batch_detach(tarn_batch *batch)
{
	int r = 0;

	/* Boundaries are its own. */
	for (int i = 0; r >= 0 && i < BATCH_CU_SEQLENS; i++) {
		tarn_tensor *copy = NULL;

		if (!batch->tensors[i])
			continue;
		r = tarn_tensor_clone(batch->tensors[i], &copy);
		if (r < 0)
			break;
		tarn_tensor_unref(batch->tensors[i]);
		batch->tensors[i] = copy;
	}
	return r;
}

int batch_read(tarn_data *data, const struct batch_form *form,
	uint64_t position, uint64_t n, tarn_batch **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct boundaries boundaries = {.at = NULL};
	struct batch_memory memory;
	const struct batch_plan plan = {.data = data,
		.form = form,
		.position = position,
		.n = n,
		.memory = &memory,
		.boundaries = &boundaries,
		.read = &data_read_now};
	uint64_t size;
	int r = batch_size(form, n, &size);

	if (r >= 0)
		r = tarn_storage_alloc(size, &storage);
	if (r < 0)
		return r;
	batch_lay(form, n, storage->data, &memory);
	r = batch_plan(&plan);
	if (r >= 0)
		r = batch_of_storage(
			form, position, n, storage, &boundaries, ret);
	boundaries_end(&boundaries);
	return r;
}

uint64_t tarn_batch_samples(const tarn_batch *batch)
{
	return batch->n;
}

uint64_t tarn_batch_position(const tarn_batch *batch)
{
	return batch->position;
}

int tarn_batch_tensor(
	tarn_batch *batch, enum tarn_loader_part part, tarn_tensor **ret)
{
	static const int which[] = {
		[TARN_LOADER_TOKENS] = BATCH_TOKENS,
		[TARN_LOADER_POSITIONS] = BATCH_POSITIONS,
		[TARN_LOADER_SEGMENTS] = BATCH_SEGMENTS,
		[3] = BATCH_TENSORS,
		[TARN_LOADER_CU_SEQLENS] = BATCH_CU_SEQLENS,
		[5] = BATCH_TENSORS,
		[6] = BATCH_TENSORS,
		[7] = BATCH_TENSORS,
		[TARN_LOADER_DOCUMENTS] = BATCH_DOCUMENTS,
	};

	if ((unsigned)part >= ARRAY_SIZE(which) || which[part] == BATCH_TENSORS)
		return tarn_fail(
			EINVAL, "loader: a batch has no part %d", (int)part);
	if (!batch->tensors[which[part]])
		return tarn_fail(ENOENT,
			"loader: part %d of a batch is not among the parts of "
			"its loader's options",
			(int)part);
	*ret = tarn_tensor_ref(batch->tensors[which[part]]);
	return 0;
}

tarn_batch *tarn_batch_unref(tarn_batch *batch)
{
	if (!batch)
		return NULL;
	for (int i = 0; i < BATCH_TENSORS; i++)
		tarn_tensor_unref(batch->tensors[i]);
	free(batch);
	return NULL;
}
