// SPDX-License-Identifier: MIT
/*
 * Records. Whatever a source is, its sample is found as fields of one kind, each
 * with a name and a place; columns put those of several sources together.
 */
#include "lib/data/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/tensor/tensor.h"

/* ---- fields ------------------------------------------------------------------ */

static char *join_name(const char *prefix, const char *name)
{
	char *joined;

	if (asprintf(&joined, "%s%s%s", prefix, *prefix && *name ? "." : "",
		    name) < 0)
		return NULL;
	return joined;
}

/* One more, of that name below prefix; later ones may move it. */
static int add_field(tarn_data_record *record, const char *prefix,
	const char *name, struct data_field **ret)
{
	struct data_field *f;

	if (record->n == TARN_DATA_FIELDS_MAX)
		return tarn_fail(E2BIG,
			"data: a record has more than %d fields",
			TARN_DATA_FIELDS_MAX);
	if (record->n == record->room) {
		size_t room = record->room ? 2 * record->room : 8;

		f = reallocarray(record->fields, room, sizeof(*f));
		if (!f)
			return tarn_fail(
				ENOMEM, "data: no memory for %zu fields", room);
		record->fields = f;
		record->room = room;
	}
	f = &record->fields[record->n];
	*f = (struct data_field) {.name = join_name(prefix, name)};
	if (!f->name)
		return tarn_fail_constant(ENOMEM, "data: no memory for a name");
	f->shown.name = f->name;
	f->name_at = strlen(f->name) - strlen(name);
	record->n++;
	*ret = f;
	return 0;
}

/* ---- members of shards ---------------------------------------------------------- */

static int add_member(tarn_data_record *record, const char *prefix,
	const tarn_data_source *source, size_t shard, const char *key,
	const struct shard_member *member)
{
	struct data_field *f;
	int r = add_field(record, prefix, member->name, &f);

	if (r < 0)
		return r;
	f->source = source;
	f->shard = shard;
	f->member = *member;
	f->member.name = NULL;
	f->key = strdup(key);
	f->shown.dtype = TARN_U8;
	f->shown.ndim = 1;
	f->shown.shape[0] = (int64_t)member->size;
	f->shown.size = member->size;
	f->shown.path = source->shards->at[shard].path;
	f->shown.offset = member->data;
	return f->key ? 0
		      : tarn_fail_constant(
				ENOMEM, "data: no memory for a name");
}

static int add_members(tarn_data_record *record, const char *prefix,
	const tarn_data_source *source, uint64_t i)
{
	size_t shard = data_shards_find(source->shards, i), n = 0;
	const struct data_shard *s = &source->shards->at[shard];
	_cleanup_storage_ tarn_storage *storage = NULL;
	_cleanup_tensor_ tarn_tensor *index = NULL;
	struct shard_member *members = NULL;
	_cleanup_free_ char *key = NULL;
	int r = data_shards_use(source->shards, shard, &storage, &index);

	if (r < 0)
		return r;
	r = shard_index_record(
		index, &s->head, i - s->first, &key, &members, &n);
	if (r < 0)
		return tarn_fail_prefix(r, "%.300s: ", s->path);
	for (size_t k = 0; k < n; k++) {
		if (r >= 0)
			r = add_member(record, prefix, source, shard, key,
				&members[k]);
		free(members[k].name);
	}
	free(members);
	if (r >= 0 && !record->key)
		record->key = STEAL(key);
	return r;
}

static int read_member(const struct data_field *f, void *to)
{
	const struct data_shard *shard = &f->source->shards->at[f->shard];
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct shard_member member = f->member;
	int r = data_shards_use(f->source->shards, f->shard, &storage, NULL);

	if (r < 0)
		return r;
	member.name = f->name + f->name_at;
	r = shard_check_member(storage, f->key, &member);
	if (r >= 0)
		r = tarn_storage_read(storage, member.data, to, member.size);
	return r < 0 ? tarn_fail_prefix(r, "%.300s: ", shard->path) : 0;
}

/* ---- rows and tokens ------------------------------------------------------------- */

static void show(struct tarn_data_field *shown, const struct tarn_layout *l,
	uint64_t bytes)
{
	shown->dtype = l->dtype;
	shown->ndim = l->ndim;
	for (int d = 0; d < l->ndim; d++)
		shown->shape[d] = l->shape[d];
	shown->size = bytes;
}

static int add_row(tarn_data_record *record, const char *prefix,
	const tarn_data_source *source, uint64_t i)
{
	_cleanup_tensor_ tarn_tensor *row = NULL;
	struct data_field *f;
	int r = tarn_tensor_select(source->rows, 0, (int64_t)i, &row);

	if (r >= 0)
		r = add_field(record, prefix, "", &f);
	if (r < 0)
		return r;
	f->source = source;
	f->first = i;
	show(&f->shown, &row->layout,
		(uint64_t)tarn_layout_nbytes(&row->layout));
	return 0;
}

/* n tokens, or rows of ragged ones. */
static int add_elements(tarn_data_record *record, const char *prefix,
	const tarn_data_source *source, uint64_t i)
{
	struct data_field *f;
	uint64_t first, n;
	int r = tarn_data_source_document(source, i, &first, &n);

	if (r >= 0)
		r = add_field(record, prefix, "", &f);
	if (r < 0)
		return r;
	f->source = source;
	f->first = first;
	f->n = n;
	if (source->ragged)
		show(&f->shown, tarn_tensor_layout(source->ragged),
			n * source->width);
	else
		f->shown = (struct tarn_data_field) {.name = f->name,
			.dtype = source->dtype ? source->dtype : TARN_U8,
			.ndim = source->dtype ? 1 : 2,
			/* Three bytes are no dtype. */
			.shape = {0, source->dtype ? 0 : source->width},
			.size = n * source->width};
	f->shown.shape[0] = (int64_t)n;
	return 0;
}

static int read_row(const struct data_field *f, void *to)
{
	_cleanup_tensor_ tarn_tensor *row = NULL;
	int r = tarn_tensor_select(f->source->rows, 0, (int64_t)f->first, &row);

	return r < 0 ? r
		     : tarn_tensor_ravel(row, TARN_ORDER_C, to, f->shown.size);
}

/* ---- records ----------------------------------------------------------------------- */

static int add_sample(tarn_data_record *record, const char *prefix,
	const tarn_data_source *source, uint64_t i);

static int add_columns(tarn_data_record *record, const char *prefix,
	const struct data_columns *columns, uint64_t i)
{
	int r = 0;

	for (size_t k = 0; r >= 0 && k < columns->n; k++) {
		_cleanup_free_ char *name =
			join_name(prefix, columns->at[k].name);

		r = name ? add_sample(record, name, columns->at[k].source, i)
			 : tarn_fail_constant(
				   ENOMEM, "data: no memory for a name");
	}
	return r;
}

static int add_sample(tarn_data_record *record, const char *prefix,
	const tarn_data_source *source, uint64_t i)
{
	if (source->columns)
		return add_columns(record, prefix, source->columns, i);
	if (source->chain) {
		const struct data_link *link =
			data_chain_find(source->chain, i);

		return add_sample(
			record, prefix, link->source, i - link->first);
	}
	if (source->shards)
		return add_members(record, prefix, source, i);
	return source->rows ? add_row(record, prefix, source, i)
			    : add_elements(record, prefix, source, i);
}

int tarn_data_source_record(
	const tarn_data_source *source, uint64_t i, tarn_data_record **ret)
{
	tarn_data_record *record;
	int r;

	if (!data_has_records(source))
		return tarn_fail(EINVAL,
			"data: a source of %s has no records: make it a column",
			source->format);
	if (i >= data_source_count(source))
		return tarn_fail(ERANGE,
			"data: record %llu, of a source with %llu",
			(unsigned long long)i,
			(unsigned long long)data_source_count(source));
	record = calloc(1, sizeof(*record));
	if (!record)
		return tarn_fail_constant(
			ENOMEM, "data: no memory for a record");
	/* The count is no part of what a source is. */
	record->source =
		tarn_data_source_ref((tarn_data_source *)(uintptr_t)source);
	r = add_sample(record, "", source, i);
	if (r < 0)
		tarn_data_record_free(record);
	else
		*ret = record;
	return r;
}

tarn_data_record *tarn_data_record_free(tarn_data_record *record)
{
	if (!record)
		return NULL;
	for (size_t i = 0; i < record->n; i++) {
		free(record->fields[i].name);
		free(record->fields[i].key);
	}
	free(record->fields);
	free(record->key);
	tarn_data_source_unref(record->source);
	free(record);
	return NULL;
}

const char *tarn_data_record_key(const tarn_data_record *record)
{
	return record->key ? record->key : "";
}

size_t tarn_data_record_count(const tarn_data_record *record)
{
	return record->n;
}

const struct tarn_data_field *tarn_data_record_field(
	const tarn_data_record *record, size_t i)
{
	return i < record->n ? &record->fields[i].shown : NULL;
}

static int no_such_field(const tarn_data_record *record, const char *name)
{
	char list[400] = "";
	size_t at = 0;

	for (size_t i = 0; i < record->n && at < sizeof(list); i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%.100s",
			i ? ", " : "", record->fields[i].name);
	return tarn_fail(ENOENT,
		"data: the record '%.200s' has no field '%.100s'; it has %s",
		tarn_data_record_key(record), name, list);
}

int tarn_data_record_find(
	const tarn_data_record *record, const char *name, size_t *ret)
{
	for (size_t i = 0; i < record->n; i++)
		if (strcmp(record->fields[i].name, name) == 0) {
			*ret = i;
			return 0;
		}
	return no_such_field(record, name);
}

/* ---- bytes --------------------------------------------------------------------------- */

static int check_field(const tarn_data_record *record, size_t i)
{
	return i < record->n ? 0
			     : tarn_fail(ERANGE,
				       "data: field %zu, of a record with %zu",
				       i, record->n);
}

int tarn_data_record_read(
	const tarn_data_record *record, size_t i, void *ret, size_t size)
{
	const struct data_field *f;
	int r = check_field(record, i);

	if (r < 0)
		return r;
	f = &record->fields[i];
	if (size < f->shown.size)
		return tarn_fail(ENOBUFS,
			"data: the field '%.100s' has %llu bytes, and there is "
			"room for %zu",
			f->name, (unsigned long long)f->shown.size, size);
	if (f->source->shards)
		return read_member(f, ret);
	return f->source->rows ? read_row(f, ret)
			       : tarn_data_source_read(f->source, f->first,
					 (size_t)f->n, ret);
}

/* The place of elements, which are of one document, and so of one part. */
static int view_elements(const struct data_field *f, tarn_tensor **ret)
{
	const struct data_part *p = data_part_of_token(f->source, f->first);
	struct tarn_layout l;
	int r = tarn_layout_contiguous(
		f->shown.dtype, f->shown.ndim, f->shown.shape, &l);

	return r < 0 ? r
		     : tarn_tensor_new(p->storage,
			       p->at + (f->first - p->first_token) *
					       f->source->width,
			       &l, ret);
}

int tarn_data_record_tensor(
	const tarn_data_record *record, size_t i, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	const struct data_field *f;
	int r = check_field(record, i);

	if (r < 0)
		return r;
	f = &record->fields[i];
	if (f->source->rows)
		return tarn_tensor_select(
			f->source->rows, 0, (int64_t)f->first, ret);
	if (!f->source->shards && f->n)
		return view_elements(f, ret);
	r = tarn_tensor_zeros(
		f->shown.dtype, f->shown.ndim, f->shown.shape, &tensor);
	if (r >= 0 && f->shown.size)
		r = tarn_data_record_read(record, i, tarn_tensor_data(tensor),
			(size_t)f->shown.size);
	if (r >= 0)
		*ret = STEAL(tensor);
	return r;
}
