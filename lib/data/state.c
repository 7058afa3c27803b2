// SPDX-License-Identifier: MIT
/*
 * What decides which sample comes at which position, as text: a line for each
 * thing, so that two configurations can be compared in words. A state is that
 * text, its hash, and a position.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/dataset.h"
#include "lib/data/key.h"
#include "lib/data/record.h"
#include "lib/tensor/tensor.h"

#define HEAD_FORMAT                                                            \
	"tarn-data 1\nposition=%" PRIu64 "\nhash=%016" PRIx64 "%016" PRIx64 "\n"

/* ---- hashes --------------------------------------------------------------- */

/* Goes on with the hash that is there. */
void data_hash(const void *bytes, size_t size, uint64_t hash[2])
{
	const char *p = bytes;

	for (size_t i = 0; i <= size; i += 8) {
		uint64_t word = 0;

		memcpy(&word, p + i, MIN(size - i, 8u));
		/* The size is in the last word, which has at most 7 bytes. */
		if (size - i < 8)
			word |= (uint64_t)(size % 8) << 56;
		hash[0] = data_key(hash[0], word);
		hash[1] = data_mix(hash[1] + hash[0] * DATA_STEP) ^ word;
	}
}

/* Picked: what tells one corpus from another of the same size; and of how many
 * files, so that a dataset opens in milliseconds. */
#define MARK_BYTES 4096u
#define MARK_PARTS 16u

static int mark_part(
	const struct data_part *p, unsigned width, bool bytes, uint64_t hash[2])
{
	const uint64_t sizes[] = {p->n_tokens, p->n_documents};
	uint64_t all = p->n_tokens * width, n = MIN(all, MARK_BYTES);
	char buf[MARK_BYTES];
	int r = 0;

	data_hash(sizes, sizeof(sizes), hash);
	for (int end = 0; bytes && end < 2; end++) {
		r = tarn_storage_read(
			p->storage, p->at + (end ? all - n : 0), buf, n);
		if (r < 0)
			return tarn_fail_prefix(r, "%.300s: ", p->name);
		data_hash(buf, n, hash);
	}
	return r;
}

static int mark_column(const struct data_column *column, uint64_t hash[2])
{
	uint64_t mark[2];
	int r = data_source_mark(column->source, mark);

	if (r < 0)
		return tarn_fail_prefix(
			r, "the column '%.100s': ", column->name);
	data_hash(column->name, strlen(column->name), hash);
	data_hash(mark, sizeof(mark), hash);
	return 0;
}

/* As of parts: of some only what they are, beside their numbers. */
static int mark_chain(const struct data_chain *chain, uint64_t hash[2])
{
	size_t step = chain->n / MARK_PARTS + 1;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < chain->n; i++) {
		const struct data_link *link = &chain->at[i];
		uint64_t mark[2];

		data_hash(&link->first, sizeof(link->first), hash);
		if (i % step)
			continue;
		r = data_source_mark(link->source, mark);
		if (r >= 0)
			data_hash(mark, sizeof(mark), hash);
	}
	return r;
}

int data_source_mark(const tarn_data_source *source, uint64_t ret[2])
{
	size_t step = source->n_parts / MARK_PARTS + 1;
	int r = 0;

	ret[0] = ret[1] = 0;
	if (source->rows)
		data_hash(tarn_tensor_layout(source->rows)->shape,
			(size_t)tarn_tensor_layout(source->rows)->ndim *
				sizeof(int64_t),
			ret);
	if (source->shards)
		r = data_shards_mark(source->shards, ret);
	for (size_t i = 0; r >= 0 && source->columns && i < source->columns->n;
		i++)
		r = mark_column(&source->columns->at[i], ret);
	if (r >= 0 && source->chain)
		r = mark_chain(source->chain, ret);
	for (size_t i = 0; r >= 0 && i < source->n_parts; i++)
		r = mark_part(
			&source->parts[i], source->width, i % step == 0, ret);
	return r;
}

/* ---- the configuration -------------------------------------------------------- */

static const char *const windows[] = {
	"stream", "padded", "dropped", "packed", "rows", "records"};
static const char *const shuffles[] = {"all", "blocks", "none"};

static void put_options(FILE *f, const struct tarn_data *data)
{
	const struct tarn_data_options *o = &data->options;

	fprintf(f, "seed=%" PRIu64 "\nwindows=%s\nseq_len=%u\nshuffle=%s\n",
		o->seed, windows[o->windows], o->seq_len, shuffles[o->shuffle]);
	if (o->shuffle == TARN_SHUFFLE_BLOCKS)
		fprintf(f, "block=%" PRIu64 "\n", o->block);
	if (o->windows == TARN_WINDOWS_PADDED ||
		o->windows == TARN_WINDOWS_PACKED)
		fprintf(f, "pad=%" PRId64 "\n", o->pad);
	fprintf(f, "sources=%zu\n", data->n_streams);
}

static void put_source(FILE *f, const struct tarn_data *data, size_t i)
{
	const struct data_stream *s = &data->streams[i];

	fprintf(f,
		"source.%zu.tokens=%" PRIu64 "\nsource.%zu.documents=%" PRIu64
		"\nsource.%zu.samples=%" PRIu64 "\n",
		i, s->source->n_tokens, i, s->source->n_documents, i, s->n);
	if (data->shape.windows == TARN_WINDOWS_PACKED)
		fprintf(f, "source.%zu.group=%u\n", i, s->table.group);
	fprintf(f, "source.%zu.bytes=%016" PRIx64 "%016" PRIx64 "\n", i,
		s->mark[0], s->mark[1]);
}

static void put_period(
	FILE *f, const struct tarn_data_weights *period, size_t i, size_t n)
{
	fprintf(f, "weights.%zu=from %" PRIu64 ":", i, period->from);
	/* As many digits as tell any two numbers apart. */
	for (size_t k = 0; k < n; k++)
		fprintf(f, " %.17g", period->weights[k]);
	fputc('\n', f);
}

int data_text_make(struct tarn_data *data,
	const struct tarn_data_weights *periods, size_t n_periods)
{
	size_t size;
	FILE *f = open_memstream(&data->text, &size);

	if (!f)
		return tarn_fail_constant(
			ENOMEM, "data: no memory for a configuration");
	put_options(f, data);
	for (size_t i = 0; i < data->n_streams; i++)
		put_source(f, data, i);
	for (size_t i = 0; periods && i < n_periods; i++)
		put_period(f, &periods[i], i, data->n_streams);
	if (fclose(f) == EOF) {
		free(data->text);
		data->text = NULL;
		return tarn_fail_constant(
			ENOMEM, "data: no memory for a configuration");
	}
	data_hash(data->text, size, data->hash);
	return 0;
}

void tarn_data_hash(const tarn_data *data, uint64_t ret[2])
{
	ret[0] = data->hash[0];
	ret[1] = data->hash[1];
}

/* ---- states ----------------------------------------------------------------------- */

int tarn_data_state(const tarn_data *data, uint64_t g, char **ret)
{
	char *text;

	if (asprintf(&text, HEAD_FORMAT "%s", g, data->hash[0], data->hash[1],
		    data->text) < 0)
		return tarn_fail_constant(
			ENOMEM, "data: no memory for a state");
	*ret = text;
	return 0;
}

struct differences {
	char text[700]; /* a sentence has a thousand bytes at most */
	size_t size;
	unsigned left_out;
};

static void differ(struct differences *d, const char *fmt, ...) _printf_(2, 3);

static void differ(struct differences *d, const char *fmt, ...)
{
	size_t room = sizeof(d->text) - d->size;
	const char *between = d->size ? "; " : "";
	char one[300];
	va_list list;
	int n;

	va_start(list, fmt);
	n = vsnprintf(one, sizeof(one), fmt, list);
	va_end(list);
	if (n < 0 || (size_t)n + strlen(between) >= room)
		d->left_out++;
	else
		d->size += (size_t)snprintf(
			d->text + d->size, room, "%s%s", between, one);
}

/* The line of a text with the same key as line: what follows its '='; NULL. */
static const char *find(const char *text, const char *line)
{
	size_t key = strcspn(line, "=\n");

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		if (!strncmp(text, line, key) && text[key] == '=')
			return text + key + 1;
	return NULL;
}

static void compare(const char *seen, const char *wanted, struct differences *d)
{
	for (const char *line = wanted; *line;
		line += strcspn(line, "\n"), line += *line == '\n') {
		int key = (int)strcspn(line, "=\n");
		const char *value = find(seen, line);
		const char *own = line + key + (line[key] == '=');
		int n = (int)strcspn(own, "\n");

		if (!value)
			differ(d, "%.*s is missing", key, line);
		else if ((int)strcspn(value, "\n") != n ||
			 strncmp(value, own, (size_t)n) != 0)
			differ(d, "%.*s is %.*s, not %.*s", key, line,
				(int)MIN(strcspn(value, "\n"), 100u), value,
				MIN(n, 100), own);
	}
	for (const char *line = seen; *line;
		line += strcspn(line, "\n"), line += *line == '\n')
		if (!find(wanted, line))
			differ(d, "%.*s is not wanted",
				(int)MIN(strcspn(line, "\n"), 100u), line);
}

static int differs(const char *seen, const char *wanted)
{
	struct differences d = {.size = 0};
	char more[64] = "";

	compare(seen, wanted, &d);
	if (d.left_out)
		snprintf(more, sizeof(more), "%s%u differences more",
			d.size ? "; and " : "", d.left_out);
	return tarn_fail(EMEDIUMTYPE,
		"data: the state is of another configuration: %s%s",
		d.size || d.left_out ? d.text : "its hash differs", more);
}

int tarn_data_resume(const tarn_data *data, const char *state, uint64_t *ret_g)
{
	uint64_t g, hash[2];
	int n = 0;

	if (sscanf(state,
		    "tarn-data 1\nposition=%" SCNu64 "\nhash=%16" SCNx64
		    "%16" SCNx64 "\n%n",
		    &g, &hash[0], &hash[1], &n) != 3 ||
		!n)
		return tarn_fail(EBADMSG,
			"data: this is no state of a dataset, which begins with "
			"\"tarn-data 1\": '%.20s'",
			state);
	if (hash[0] != data->hash[0] || hash[1] != data->hash[1] ||
		strcmp(state + n, data->text) != 0)
		return differs(state + n, data->text);
	*ret_g = g;
	return 0;
}
