// SPDX-License-Identifier: MIT
/*
 * A source is one sequence of tokens, and one of documents, over all of its
 * parts. What a source keeps in memory does not grow with its tokens and
 * documents, only with its parts.
 */
#include "lib/data/source.h"
#include "lib/data/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/reserved.h"
#include "lib/tensor/tensor.h"

tarn_data_source *data_source_new(const char *format)
{
	tarn_data_source *source = calloc(1, sizeof(*source));

	if (!source) {
		tarn_fail_constant(ENOMEM, "data: no memory for a source");
		return NULL;
	}
	atomic_init(&source->refs, 1);
	source->format = format;
	return source;
}

tarn_data_source *tarn_data_source_ref(tarn_data_source *source)
{
	if (source)
		atomic_fetch_add_explicit(
			&source->refs, 1, memory_order_relaxed);
	return source;
}

tarn_data_source *tarn_data_source_unref(tarn_data_source *source)
{
	/* Pairs with itself: what each user did is before its release, and the
	 * acquire of the last one is before the end. */
	if (!source || atomic_fetch_sub_explicit(
			       &source->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (size_t i = 0; i < source->n_parts; i++)
		data_part_end(&source->parts[i]);
	free(source->parts);
	tarn_tensor_unref(source->rows);
	tarn_tensor_unref(source->ragged);
	data_shards_free(source->shards);
	data_columns_free(source->columns);
	data_chain_free(source->chain);
	free(source);
	return NULL;
}

/* ---- parts ----------------------------------------------------------------- */

static int grow(tarn_data_source *source)
{
	size_t room = source->room ? 2 * source->room : 4;
	struct data_part *parts;

	if (source->n_parts < source->room)
		return 0;
	parts = reallocarray(source->parts, room, sizeof(*parts));
	if (!parts)
		return tarn_fail(ENOMEM, "data: no memory for %zu files", room);
	source->parts = parts;
	source->room = room;
	return 0;
}

/* All parts have the same tokens; one without any may have none that would
 * tell. */
static int agree(tarn_data_source *source, const struct data_part *part,
	const struct data_tokens *tokens)
{
	if (!tokens->width)
		return 0;
	if (!source->width) {
		source->width = tokens->width;
		source->dtype = tokens->dtype;
	}
	if (source->width != tokens->width || source->dtype != tokens->dtype)
		return tarn_fail(EINVAL,
			"%.300s: its tokens are %s of %u bytes, and those of "
			"%.300s, of the same source, %s of %u",
			part->name, tarn_dtype_name(tokens->dtype),
			tokens->width, source->parts[0].name,
			tarn_dtype_name(source->dtype), source->width);
	return 0;
}

int data_add_part(tarn_data_source *source, struct data_part *part,
	const struct data_tokens *tokens, const char *format)
{
	uint64_t n_tokens = 0, n_documents = 0;
	int r = agree(source, part, tokens);

	if (r >= 0)
		r = grow(source);
	if (r >= 0 && (add_u64(source->n_tokens, part->n_tokens, &n_tokens) ||
			      add_u64(source->n_documents, part->n_documents,
				      &n_documents) ||
			      n_tokens > INT64_MAX || n_documents > INT64_MAX))
		r = tarn_fail(EOVERFLOW,
			"%.300s: with it there are more than 2^63 tokens",
			part->name);
	if (r < 0) {
		data_part_end(part);
		return r;
	}
	part->first_token = source->n_tokens;
	part->first_document = source->n_documents;
	source->n_tokens = n_tokens;
	source->n_documents = n_documents;
	source->has_documents |= part->index.kind != DATA_WHOLE;
	source->format = !source->n_parts                 ? format
			 : strcmp(source->format, format) ? "mixed"
							  : source->format;
	source->parts[source->n_parts++] = *part;
	return 0;
}

/* The last part that begins at or before n, where the ones that are empty begin
 * where the next one does. */
const struct data_part *data_part_of_token(
	const tarn_data_source *source, uint64_t token)
{
	size_t low = 0, high = source->n_parts;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (source->parts[middle].first_token <= token)
			low = middle;
		else
			high = middle;
	}
	return &source->parts[low];
}

const struct data_part *data_part_of_document(
	const tarn_data_source *source, uint64_t document)
{
	size_t low = 0, high = source->n_parts;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (source->parts[middle].first_document <= document)
			low = middle;
		else
			high = middle;
	}
	return &source->parts[low];
}

/* ---- opening ----------------------------------------------------------------- */

static int raw_tokens(
	const struct tarn_data_source_options *o, struct data_tokens *ret)
{
	*ret = (struct data_tokens) {.width = 0};
	if (!o || (!o->dtype && !o->token_bytes))
		return 0;
	ret->dtype = o->dtype ? o->dtype : data_token_dtype(o->token_bytes);
	ret->width = o->dtype ? data_token_width(o->dtype) : o->token_bytes;
	if (o->token_bytes > 4 || !ret->width)
		return tarn_fail(EINVAL,
			"data: raw tokens have 1 to 4 bytes, or an integer "
			"dtype, not %u bytes and %s",
			o->token_bytes,
			o->dtype ? tarn_dtype_name(o->dtype) : "no dtype");
	return 0;
}

static int not_a_shard(const char *path, const char *shard)
{
	return tarn_fail(EINVAL,
		"%.300s: it is no tar file, as %.300s of the same source is",
		path, shard);
}

static int open_shards(const char *const *paths, size_t n,
	const struct tarn_data_source_options *options, tarn_data_source **ret)
{
	_cleanup_source_ tarn_data_source *source = data_source_new("tar");
	int r;

	if (!source)
		return -ENOMEM;
	for (size_t i = 1; i < n; i++)
		if (!data_is_shard(paths[i]))
			return not_a_shard(paths[i], paths[0]);
	r = data_shards_open(paths, n, options, &source->shards);
	if (r >= 0)
		*ret = STEAL(source);
	return r;
}

int tarn_data_source_open(const char *const *paths, size_t n,
	const struct tarn_data_source_options *options, tarn_data_source **ret)
{
	_cleanup_source_ tarn_data_source *source = NULL;
	struct data_tokens raw;
	int r = RESERVED_CHECK("tarn_data_source_options", options);

	if (r >= 0)
		r = raw_tokens(options, &raw);
	if (r >= 0 && !n)
		r = tarn_fail_constant(
			EINVAL, "data: a source has at least one file");
	if (r < 0)
		return r;
	if (data_is_shard(paths[0]))
		return open_shards(paths, n, options, ret);
	source = data_source_new(NULL);
	if (!source)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = data_open_path(source, paths[i], &raw);
	if (r < 0)
		return r;
	*ret = STEAL(source);
	return 0;
}

int tarn_data_source_tokens(
	tarn_tensor *values, tarn_tensor *offsets, tarn_data_source **ret)
{
	_cleanup_source_ tarn_data_source *source = data_source_new(NULL);
	struct data_part part = {.n_tokens = 0};
	struct data_tokens tokens;
	int r;

	if (!source)
		return -ENOMEM;
	r = data_tensor_part("a tensor", values, offsets, &part, &tokens);
	if (r < 0) {
		data_part_end(&part);
		return r;
	}
	r = data_add_part(
		source, &part, &tokens, offsets ? "ragged" : "tensor");
	if (r < 0)
		return r;
	*ret = STEAL(source);
	return 0;
}

int tarn_data_source_rows(tarn_tensor *tensor, tarn_data_source **ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	_cleanup_source_ tarn_data_source *source = data_source_new("rows");

	if (!source)
		return -ENOMEM;
	if (l->ndim < 1)
		return tarn_fail_constant(EINVAL,
			"data: a tensor without dimensions has no rows");
	source->rows = tarn_tensor_ref(tensor);
	source->dtype = l->dtype;
	*ret = STEAL(source);
	return 0;
}

/* ---- asking ------------------------------------------------------------------- */

void tarn_data_source_info(
	const tarn_data_source *source, struct tarn_data_source_info *ret)
{
	*ret = (struct tarn_data_source_info) {.format = source->format,
		.dtype = source->dtype,
		.token_bytes = source->width,
		.n_files = source->n_parts,
		.n_tokens = source->n_tokens,
		.n_documents = source->n_documents,
		.has_documents = source->has_documents};
	if (source->rows)
		ret->n_rows = data_source_count(source);
	if (source->shards)
		ret->n_files = source->shards->n;
	if (data_has_records(source))
		ret->n_records = data_source_count(source);
	if (!source->ragged)
		return;
	ret->n_rows = source->n_documents;
	ret->n_tokens = ret->n_documents = ret->token_bytes = 0;
	ret->has_documents = false;
}

static int check_range(
	const char *what, uint64_t first, uint64_t n, uint64_t all)
{
	if (first > all || n > all - first)
		return tarn_fail(ERANGE,
			"data: %s %llu and %llu more, of a source with %llu",
			what, (unsigned long long)first, (unsigned long long)n,
			(unsigned long long)all);
	return 0;
}

int tarn_data_source_lengths(
	const tarn_data_source *source, uint64_t first, size_t n, uint64_t *ret)
{
	int r = check_range("document", first, n, source->n_documents);

	while (r >= 0 && n) {
		const struct data_part *p =
			data_part_of_document(source, first);
		uint64_t at = first - p->first_document;
		size_t step = MIN(n, p->n_documents - at);

		r = data_index_lengths(p, at, step, ret);
		first += step;
		n -= step;
		ret += step;
	}
	return r;
}

int tarn_data_source_document(const tarn_data_source *source, uint64_t document,
	uint64_t *ret_token, uint64_t *ret_length)
{
	int r = check_range("document", document, 1, source->n_documents);
	const struct data_part *p;

	if (r < 0)
		return r;
	p = data_part_of_document(source, document);
	r = data_index_document(p, source->width, document - p->first_document,
		ret_token, ret_length);
	if (r >= 0)
		*ret_token += p->first_token;
	return r;
}

int tarn_data_source_find(
	const tarn_data_source *source, uint64_t token, uint64_t *ret_document)
{
	int r = check_range("token", token, 1, source->n_tokens);
	const struct data_part *p;

	if (r < 0)
		return r;
	p = data_part_of_token(source, token);
	r = data_index_find(
		p, source->width, token - p->first_token, ret_document);
	if (r >= 0)
		*ret_document += p->first_document;
	return r;
}

int tarn_data_source_read(
	const tarn_data_source *source, uint64_t first, size_t n, void *ret)
{
	int r = check_range("token", first, n, source->n_tokens);
	char *to = ret;

	while (r >= 0 && n) {
		const struct data_part *p = data_part_of_token(source, first);
		uint64_t at = first - p->first_token;
		size_t step = MIN(n, p->n_tokens - at);

		r = tarn_storage_read(p->storage, p->at + at * source->width,
			to, step * source->width);
		if (r < 0)
			return tarn_fail_prefix(r, "%.300s: ", p->name);
		first += step;
		n -= step;
		to += step * source->width;
	}
	return r;
}

int tarn_data_source_index(
	const tarn_data_source *source, size_t i, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;

	if (!source->shards)
		return tarn_fail(ENOENT,
			"data: a source of %s has no indexes of shards",
			source->format);
	if (i >= source->shards->n)
		return tarn_fail(ERANGE, "data: shard %zu, of %zu", i,
			source->shards->n);
	return data_shards_use(source->shards, i, &storage, ret);
}
