// SPDX-License-Identifier: MIT
/*
 * Plans the bytes of a part. What is in memory is copied meanwhile; what is in
 * files becomes extents, sorted by file and byte; what is elsewhere, as on a
 * device, is read at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/reader.h"
#include "lib/data/tokens.h"
#include "lib/io/pages.h"

/* ---- planning ------------------------------------------------------------- */

static int add_extent(struct ahead_part *part, uint32_t file, uint64_t at,
	uint32_t size, unsigned char *to)
{
	if (part->n == part->room) {
		size_t room = part->room ? 2 * part->room : 64;
		struct read_extent *extents = reallocarray(
			part->extents, room, sizeof(*part->extents));

		if (!extents)
			return tarn_fail_constant(
				ENOMEM, "data: no memory for a batch's reads");
		part->extents = extents;
		part->room = room;
	}
	part->extents[part->n++] = (struct read_extent) {
		.to = to, .at = at, .file = file, .size = size};
	return 0;
}

/* Tokens of width bytes as they are delivered; false: one does not fit. */
bool reader_deliver(const struct reader *reader, const struct read_file *file,
	const void *from, size_t size, unsigned char *to)
{
	size_t bad;

	if (file->width)
		return data_tokens_convert(from, file->dtype, file->width,
			size / file->width, to, reader->data->options.dtype,
			&bad);
	memcpy(to, from, size);
	return true;
}

static void copy_oldest(struct reader *reader)
{
	const struct read_copy *c =
		&reader->copies[(reader->next_copy - reader->n_copies) %
				READER_COPIES];

	reader->n_copies--;
	if (!reader_deliver(reader, c->file, c->from, c->size, c->to))
		reader->part->failed = true;
}

static void copy_later(struct reader *reader, const struct read_file *file,
	const char *from, size_t size, unsigned char *to)
{
	if (reader->n_copies == READER_COPIES)
		copy_oldest(reader);
	for (size_t at = 0;
		at < size && at < (size_t)READER_LINES * READER_LINE;
		at += READER_LINE)
		__builtin_prefetch(from + at);
	reader->copies[reader->next_copy++ % READER_COPIES] =
		(struct read_copy) {
			.file = file, .from = from, .size = size, .to = to};
	reader->n_copies++;
}

static int take_bytes(struct reader *reader, uint32_t number, uint64_t at,
	uint64_t size, unsigned char *to)
{
	const struct read_file *file = &reader->files[number];
	unsigned width = file->width ? file->width : 1;
	unsigned out = file->width ? reader->data->out_width : 1;
	uint64_t most = READER_EXTENT / width * width, step;
	int r = 0;

	if (storage_by_address(file->storage)) {
		reader_count(&reader->counts->memory_bytes, size);
		copy_later(reader, file, (const char *)file->storage->data + at,
			size, to);
		return 0;
	}
	for (; r >= 0 && size; size -= step) {
		step = MIN(size, most);
		r = add_extent(reader->part, number, file->file->offset + at,
			(uint32_t)step, to);
		at += step;
		to += step / width * out;
	}
	return r;
}

static bool is_far(const struct reader *reader, const struct read_file *file)
{
	return !storage_by_address(file->storage) &&
	       (!file->file || !file->file->readable || !reader->io);
}

static int take_tokens(void *arg, const tarn_data *data, uint32_t stream,
	uint64_t token, size_t n, unsigned char *to)
{
	struct reader *reader = arg;
	const tarn_data_source *source = data->streams[stream].source;
	int r = 0;

	while (r >= 0 && n) {
		const struct data_part *p = data_part_of_token(source, token);
		uint32_t number = reader->first_file[stream] +
				  (uint32_t)(p - source->parts);
		uint64_t at = token - p->first_token;
		size_t step = MIN(n, p->n_tokens - at);

		if (!step)
			return tarn_fail(ERANGE, "data: no token %llu",
				(unsigned long long)token);
		if (is_far(reader, &reader->files[number])) {
			reader_count(&reader->counts->file_bytes,
				step * source->width);
			r = data_read_now.tokens(
				NULL, data, stream, token, step, to);
		} else {
			r = take_bytes(reader, number,
				p->at + at * source->width,
				step * source->width, to);
		}
		token += step;
		n -= step;
		to += step * data->out_width;
	}
	return r;
}

/* Where a row begins in its storage, if its bytes lie there as they are
 * delivered. */
static bool row_at(const tarn_tensor *rows, uint64_t number, uint64_t *ret)
{
	struct tarn_layout l = rows->layout;
	int64_t bits = tarn_dtype_bits(l.dtype), at = l.offset, next = 1;

	for (int d = l.ndim - 1; d > 0; d--) {
		if (l.shape[d] != 1 && l.stride[d] != next)
			return false;
		next *= l.shape[d];
	}
	/* The tensor's layout was checked: all of it lies in the storage. */
	at = (at + (int64_t)number * l.stride[0]) * bits;
	*ret = rows->base + (uint64_t)at / 8;
	return at % 8 == 0;
}

static int take_row(void *arg, const tarn_data *data, uint32_t stream,
	uint64_t number, unsigned char *to)
{
	struct reader *reader = arg;
	const tarn_tensor *rows = data->streams[stream].source->rows;
	uint32_t file = reader->first_file[stream];
	uint64_t at;

	if (!is_far(reader, &reader->files[file]) && row_at(rows, number, &at))
		return take_bytes(reader, file, at, data->row_bytes, to);
	reader_count(&reader->counts->file_bytes, data->row_bytes);
	return data_read_now.row(NULL, data, stream, number, to);
}

const struct data_read *reader_into(
	struct reader *reader, struct ahead_part *part)
{
	reader->part = part;
	return &reader->read;
}

static int by_place(const void *a, const void *b)
{
	const struct read_extent *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

void reader_planned(struct reader *reader, struct ahead_part *part)
{
	while (reader->n_copies)
		copy_oldest(reader);
	if (part->n)
		qsort(part->extents, part->n, sizeof(*part->extents), by_place);
}

/* ---- beginning and end ----------------------------------------------------- */

static void add_file(struct reader *reader, tarn_storage *storage,
	const tarn_data_source *source)
{
	struct read_file *file = &reader->files[reader->n_files++];
	bool same =
		source->rows || source->dtype == reader->data->options.dtype;

	*file = (struct read_file) {.storage = storage,
		.file = storage_file(storage),
		.buffered = -1,
		.direct = -1,
		.dtype = source->dtype,
		.width = same ? 0 : source->width};
}

static void add_files(struct reader *reader)
{
	const tarn_data *data = reader->data;

	for (size_t i = 0; i < data->n_streams; i++) {
		const tarn_data_source *source = data->streams[i].source;

		reader->first_file[i] = (uint32_t)reader->n_files;
		if (source->rows)
			add_file(reader, source->rows->storage, source);
		for (size_t k = 0; k < source->n_parts; k++)
			add_file(reader, source->parts[k].storage, source);
	}
}

static size_t count_files(const tarn_data *data)
{
	size_t n = 0;

	for (size_t i = 0; i < data->n_streams; i++)
		n += data->streams[i].source->n_parts + 1;
	return n;
}

static bool has_files(const struct reader *reader)
{
	for (size_t i = 0; i < reader->n_files; i++)
		if (reader->files[i].file &&
			!storage_by_address(reader->files[i].storage))
			return true;
	return false;
}

/* Without an engine, or memory for it, reads are made one by one. */
static void start_engine(struct reader *reader)
{
	size_t size = (size_t)READER_REQUESTS * READER_BUFFER;

	if (!has_files(reader) || tarn_io_new(-1, &reader->io) < 0)
		return;
	reader->buffers = io_pages_map(size);
	if (!reader->buffers) {
		reader->io = tarn_io_free(reader->io);
		return;
	}
	reader->registered =
		tarn_io_register(reader->io, 0, reader->buffers, size) == 0;
	reader->unused = UINT64_MAX >> (64 - READER_REQUESTS);
	for (size_t i = 0; i < READER_REQUESTS; i++) {
		reader->requests[i].reader = reader;
		reader->requests[i].buffer =
			reader->buffers + i * READER_BUFFER;
	}
	/* Relaxed: the text is constant. */
	atomic_store_explicit(&reader->counts->engine,
		strcmp(tarn_io_name(reader->io), "io_uring") == 0 ? "io_uring"
								  : "threads",
		memory_order_relaxed);
}

int reader_new(
	tarn_data *data, struct ahead_counts *counts, struct reader **ret)
{
	size_t n = count_files(data);
	struct reader *reader =
		calloc(1, sizeof(*reader) + n * sizeof(*reader->files));

	if (reader) {
		reader->first_file =
			calloc(data->n_streams, sizeof(*reader->first_file));
		reader->read.orders =
			calloc(data->n_streams, sizeof(*reader->read.orders));
	}
	if (!reader || !reader->first_file || !reader->read.orders) {
		reader_free(reader);
		return tarn_fail_constant(
			ENOMEM, "data: no memory for reading ahead");
	}
	reader->data = data;
	reader->counts = counts;
	reader->read.tokens = take_tokens;
	reader->read.row = take_row;
	reader->read.arg = reader;
	add_files(reader);
	start_engine(reader);
	*ret = reader;
	return 0;
}

struct reader *reader_free(struct reader *reader)
{
	if (!reader)
		return NULL;
	while (reader_busy(reader))
		reader_wait(reader, -1);
	if (reader->io)
		tarn_io_free(reader->io);
	/* The kernel may still write to those of a broken engine. */
	if (!reader->broken)
		io_pages_unmap(reader->buffers,
			(size_t)READER_REQUESTS * READER_BUFFER);
	free(reader->first_file);
	free(reader->read.orders);
	free(reader);
	return NULL;
}
