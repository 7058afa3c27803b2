// SPDX-License-Identifier: MIT
/*
 * A sample: its position leads to a source and a number there, the number to
 * pieces of documents, and those to bytes of files. Nothing is remembered from
 * one sample to the next but plans of groups, which save time alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/dataset.h"
#include "lib/data/key.h"
#include "lib/data/tokens.h"
#include "lib/reserved.h"
#include "lib/tensor/tensor.h"

/* Bytes that are read at a time, where tokens change their size. */
#define CHUNK 16384u

struct place {
	uint32_t stream;
	uint64_t epoch, sample;
};

/* A piece, by tokens of the source. */
struct piece {
	uint64_t document, start; /* of the document */
	uint64_t token;           /* of the source; NONE: not known yet */
	uint64_t length;          /* of the document, as the plan has it */
	uint32_t n;
};

struct pieces {
	struct piece *at;
	size_t n, room;
	const struct data_plan *plan;
	uint64_t first_document; /* of the group */
};

/* ---- positions --------------------------------------------------------------- */

/* The order of an epoch: made anew, or the one that was used last. */
static int order_of(const tarn_data *data, const struct data_read *read,
	uint32_t which, uint64_t n, uint64_t key, uint64_t epoch,
	struct tarn_data_order *own, const struct tarn_data_order **ret)
{
	const struct tarn_data_options *o = &data->options;
	struct data_last_order *last =
		read->orders ? &read->orders[which] : NULL;
	struct tarn_data_order *order = last ? &last->order : own;
	int r = 0;

	*ret = order;
	if (last && last->made && last->epoch == epoch)
		return 0;
	r = tarn_data_order_init(order, o->shuffle, n, o->block, key, epoch);
	if (last) {
		last->made = r >= 0;
		last->epoch = epoch;
	}
	return r;
}

/* which: of the orders that are kept, the stream's where they are mixed. */
static int sample_at(const tarn_data *data, const struct data_read *read,
	uint32_t which, uint64_t n, uint64_t key, uint64_t ordinal,
	struct place *ret)
{
	const struct tarn_data_order *order;
	struct tarn_data_order own;
	int r;

	ret->epoch = ordinal / n;
	r = order_of(data, read, which, n, key, ret->epoch, &own, &order);
	ret->sample = r < 0 ? 0 : tarn_data_order_at(order, ordinal % n);
	return r;
}

/* Where sources are not mixed: which one has a sample of all. */
static void split(const tarn_data *data, struct place *place)
{
	size_t low = 0, high = data->n_streams;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (data->streams[middle].first <= place->sample)
			low = middle;
		else
			high = middle;
	}
	place->stream = (uint32_t)low;
	place->sample -= data->streams[low].first;
}

static int locate(const tarn_data *data, const struct data_read *read,
	uint64_t g, struct place *ret)
{
	uint64_t ordinal;
	int r;

	if (!data->mixture) {
		r = sample_at(
			data, read, 0, data->n, data->options.seed, g, ret);
		split(data, ret);
		return r;
	}
	tarn_data_mixture_at(data->mixture, g, &ret->stream, &ordinal);
	return sample_at(data, read, ret->stream, data->streams[ret->stream].n,
		data_key(data->options.seed, ret->stream), ordinal, ret);
}

/* ---- plans ---------------------------------------------------------------------- */

static int make_plan(struct tarn_data *data, struct data_plan_entry *e,
	const struct place *place, uint64_t group)
{
	const struct data_stream *s = &data->streams[place->stream];
	uint64_t first = group * s->table.group;
	size_t n = MIN(s->table.group, s->source->n_documents - first);
	uint64_t key =
		data_key(data_key(data->options.seed, place->epoch), group);
	int r = data_plan_room(&e->plan, &data->shape, n);

	e->used = 0;
	if (r >= 0)
		r = tarn_data_source_lengths(
			s->source, first, n, e->plan.lengths);
	if (r < 0)
		return r;
	data_plan_make(&e->plan, &data->shape, n, key);
	e->stream = place->stream;
	e->group = group;
	e->epoch = place->epoch;
	return 0;
}

/* With the lock: the plan of a group, which is kept in place of the one that was
 * used longest ago. */
static int plan_of(struct tarn_data *data, const struct place *place,
	uint64_t group, const struct data_plan **ret)
{
	struct data_plan_entry *oldest = &data->plans[0];
	int r = 0;

	for (int i = 0; i < DATA_PLANS; i++) {
		struct data_plan_entry *e = &data->plans[i];

		if (e->used && e->group == group &&
			e->stream == place->stream &&
			e->epoch == place->epoch) {
			oldest = e;
			break;
		}
		if (e->used < oldest->used)
			oldest = e;
	}
	if (!oldest->used || oldest->group != group ||
		oldest->stream != place->stream ||
		oldest->epoch != place->epoch)
		r = make_plan(data, oldest, place, group);
	if (r < 0)
		return r;
	oldest->used = ++data->uses;
	*ret = &oldest->plan;
	return 0;
}

/* ---- pieces ----------------------------------------------------------------------- */

static int add_piece(void *arg, const struct data_piece *piece)
{
	struct pieces *pieces = arg;

	if (pieces->n == pieces->room) {
		size_t room = pieces->room ? 2 * pieces->room : 16;
		struct piece *at = reallocarray(pieces->at, room, sizeof(*at));

		if (!at)
			return tarn_fail(ENOMEM,
				"data: no memory for %zu documents of a sample",
				room);
		pieces->at = at;
		pieces->room = room;
	}
	pieces->at[pieces->n++] = (struct piece) {
		.document = pieces->first_document + piece->document,
		.start = piece->start,
		.token = TARN_DATA_NONE,
		.length = pieces->plan->lengths[piece->document],
		.n = piece->n};
	return 0;
}

static int planned(struct tarn_data *data, const struct place *place,
	struct pieces *pieces)
{
	const struct data_table *t = &data->streams[place->stream].table;
	uint64_t group = data_table_find(t, place->sample), i;
	const struct data_plan *plan;
	int r;

	i = place->sample - t->before[group];
	pieces->first_document = group * t->group;
	pthread_mutex_lock(&data->lock.mutex);
	r = plan_of(data, place, group, &plan);
	/* A table that was given may be another's. */
	if (r >= 0 && i >= plan->n_whole + plan->n_packed)
		r = tarn_fail(EBADMSG,
			"data: by the table group %llu of the documents has "
			"sample %llu, and they make %llu",
			(unsigned long long)group, (unsigned long long)i,
			(unsigned long long)(plan->n_whole + plan->n_packed));
	pieces->plan = r < 0 ? NULL : plan;
	if (r >= 0)
		r = data_plan_pieces(plan, &data->shape, i, add_piece, pieces);
	pthread_mutex_unlock(&data->lock.mutex);
	return r;
}

/* Finds the tokens of a piece. Its index may be another one by now. */
static int place_piece(const tarn_data_source *source, struct piece *piece)
{
	uint64_t token, length;
	int r = tarn_data_source_document(
		source, piece->document, &token, &length);

	if (r >= 0 && length != piece->length)
		return tarn_fail(EBADMSG,
			"%.300s: document %llu had %llu tokens, and has %llu",
			data_part_of_document(source, piece->document)
				->index.name,
			(unsigned long long)piece->document,
			(unsigned long long)piece->length,
			(unsigned long long)length);
	if (r >= 0)
		piece->token = token + piece->start;
	return r;
}

/* ---- tokens -------------------------------------------------------------- */

static int no_fit(const tarn_data *data, const tarn_data_source *source,
	uint64_t token, const unsigned char *bytes)
{
	const struct data_part *p = data_part_of_token(source, token);

	return tarn_fail(ERANGE,
		"%.300s: token %llu is %lld, which does not fit into %s",
		p->name, (unsigned long long)(token - p->first_token),
		(long long)data_token_at(bytes, source->dtype, source->width),
		tarn_dtype_name(data->options.dtype));
}

static int read_tokens(void *arg, const tarn_data *data, uint32_t stream,
	uint64_t token, size_t n, unsigned char *to)
{
	const tarn_data_source *source = data->streams[stream].source;
	unsigned width = source->width;
	unsigned char bytes[CHUNK];
	size_t bad;
	int r = 0;

	(void)arg;
	if (source->dtype == data->options.dtype)
		return tarn_data_source_read(source, token, n, to);
	for (size_t i = 0, step; r >= 0 && i < n; i += step) {
		step = MIN(n - i, CHUNK / width);
		r = tarn_data_source_read(source, token + i, step, bytes);
		if (r >= 0 && !data_tokens_convert(bytes, source->dtype, width,
				      step, to + i * data->out_width,
				      data->options.dtype, &bad))
			r = no_fit(data, source, token + i + bad,
				bytes + bad * width);
	}
	return r;
}

static int read_row(void *arg, const tarn_data *data, uint32_t stream,
	uint64_t number, unsigned char *to)
{
	_cleanup_tensor_ tarn_tensor *row = NULL;
	int r = tarn_tensor_select(
		data->streams[stream].source->rows, 0, (int64_t)number, &row);

	(void)arg;
	return r < 0 ? r
		     : tarn_tensor_ravel(
			       row, TARN_ORDER_C, to, data->row_bytes);
}

const struct data_read data_read_now = {.tokens = read_tokens, .row = read_row};

/* ---- what goes with tokens -------------------------------------------------------------- */

/* Tokens begin .. end of the sample are piece number segment; 0: padding. */
static void mark(const struct tarn_data_request *to, uint32_t begin,
	uint32_t end, int32_t segment)
{
	int32_t n = (int32_t)(end - begin);

	/* Two loops, which are vectors, and none where nothing is asked for. */
	if (to->positions)
		for (int32_t i = 0; i < n; i++)
			to->positions[begin + (uint32_t)i] = segment ? i : 0;
	if (to->segments)
		for (int32_t i = 0; i < n; i++)
			to->segments[begin + (uint32_t)i] = segment;
}

/* A boundary among the tokens that are read, once. */
static void add_boundary(const tarn_data *data,
	const struct tarn_data_request *to, uint32_t at,
	struct tarn_data_sample *ret)
{
	at = MIN(at, data->shape.seq_len);
	if (!to->cu_seqlens)
		return;
	if (!ret->n_cu_seqlens ||
		to->cu_seqlens[ret->n_cu_seqlens - 1] < (int32_t)at)
		to->cu_seqlens[ret->n_cu_seqlens++] = (int32_t)at;
}

static void pad(const tarn_data *data, const struct tarn_data_request *to,
	uint32_t begin)
{
	unsigned char *tokens = to->tokens;
	uint32_t end = data->shape.seq_len + 1;

	mark(to, begin, end, 0);
	for (uint32_t i = begin; tokens && i < end; i++)
		memcpy(tokens + (size_t)i * data->out_width, &data->options.pad,
			data->out_width);
}

static int fill(const tarn_data *data, const struct data_read *read,
	uint32_t stream, struct pieces *pieces,
	const struct tarn_data_request *to, struct tarn_data_sample *ret)
{
	const tarn_data_source *source = data->streams[stream].source;
	unsigned char *tokens = to->tokens;
	uint32_t at = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < pieces->n; i++) {
		struct piece *piece = &pieces->at[i];

		if (tokens && piece->token == TARN_DATA_NONE)
			r = place_piece(source, piece);
		if (r >= 0 && tokens)
			r = read->tokens(read->arg, data, stream, piece->token,
				piece->n,
				tokens + (size_t)at * data->out_width);
		add_boundary(data, to, at, ret);
		mark(to, at, at + piece->n, (int32_t)i + 1);
		at += piece->n;
	}
	add_boundary(data, to, at, ret);
	add_boundary(data, to, data->shape.seq_len, ret);
	pad(data, to, at);
	ret->n_tokens = at;
	ret->n_pieces = (uint32_t)pieces->n;
	return r;
}

/* ---- samples ------------------------------------------------------------------------------ */

static int get_tokens(tarn_data *data, const struct data_read *read,
	const struct place *place, const struct tarn_data_request *request,
	struct tarn_data_sample *ret)
{
	const tarn_data_source *source = data->streams[place->stream].source;
	struct pieces pieces = {.at = NULL};
	struct piece window = {.n = data->shape.seq_len + 1};
	int r = 0;

	if (data->shape.windows != TARN_WINDOWS_STREAM) {
		r = planned(data, place, &pieces);
		if (r >= 0)
			ret->document = pieces.at[0].document;
	} else {
		window.token = place->sample * data->shape.seq_len;
		pieces.at = &window;
		pieces.n = 1;
		if (request->document)
			r = tarn_data_source_find(
				source, window.token, &ret->document);
	}
	if (r >= 0)
		r = fill(data, read, place->stream, &pieces, request, ret);
	if (pieces.at != &window)
		free(pieces.at);
	return r;
}

static int check_request(
	const tarn_data *data, const struct tarn_data_request *request)
{
	struct tarn_data_info info;
	int r = RESERVED_CHECK("tarn_data_request", request);

	tarn_data_info(data, &info);
	if (r >= 0 && request->tokens && request->size < info.sample_bytes)
		r = tarn_fail(ENOBUFS,
			"data: a sample has %llu bytes, and there is room for "
			"%zu",
			(unsigned long long)info.sample_bytes, request->size);
	return r;
}

int data_get(tarn_data *data, uint64_t g,
	const struct tarn_data_request *request, const struct data_read *read,
	struct tarn_data_sample *ret)
{
	struct tarn_data_sample sample = {.document = TARN_DATA_NONE};
	struct place place = {.stream = 0};
	int r = locate(data, read, g, &place);

	if (r < 0)
		return r;
	sample.epoch = place.epoch;
	sample.sample = place.sample;
	sample.source = place.stream;
	if (data->shape.windows == TARN_WINDOWS_ROWS) {
		if (request->tokens)
			r = read->row(read->arg, data, place.stream,
				place.sample, request->tokens);
	} else if (data->shape.windows != TARN_WINDOWS_RECORDS)
		r = get_tokens(data, read, &place, request, &sample);
	if (r >= 0)
		*ret = sample;
	return r;
}

int tarn_data_get(tarn_data *data, uint64_t g,
	const struct tarn_data_request *request, struct tarn_data_sample *ret)
{
	int r = check_request(data, request);

	return r < 0 ? r : data_get(data, g, request, &data_read_now, ret);
}
