/* SPDX-License-Identifier: MIT */
/* tarn data cat: the samples that a rank gets, a line each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/data.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/size.h"
#include "cli/text.h"

struct cat {
	tarn_data *data;
	struct data_set set;
	struct tarn_data_info info;
	struct tarn_data_request request;
	bool json, pieces, records;
	uint64_t end;         /* of positions */
	uint64_t first, n;    /* of each batch */
	uint64_t batch, left; /* samples to print */
};

static int64_t token_of(const struct cat *cat, uint32_t i)
{
	const void *tokens = cat->request.tokens;

	return cat->info.dtype == TARN_I64 ? ((const int64_t *)tokens)[i]
					   : ((const int32_t *)tokens)[i];
}

static json_t *numbers(const struct cat *cat, bool segments)
{
	json_t *array = must(json_array());

	for (uint32_t i = 0; i < cat->info.sample_tokens; i++)
		if (json_array_append_new(array,
			    json_integer(segments ? cat->request.segments[i]
						  : token_of(cat, i))) < 0)
			must(NULL);
	return array;
}

/* Where there are several sources, which one it is of. */
static json_t *begin_json(const struct cat *cat, uint64_t g,
	const struct tarn_data_sample *sample)
{
	json_t *object = must(json_object());

	json_put(object, "g", json_u64(g));
	if (cat->set.n > 1)
		json_put(object, "source", json_u64(sample->source));
	return object;
}

static void begin_line(const struct cat *cat, uint64_t g,
	const struct tarn_data_sample *sample)
{
	printf("%" PRIu64 ": ", g);
	if (cat->set.n > 1)
		printf("source %u: ", sample->source);
}

/* ---- rows and records -------------------------------------------------------- */

static int print_row(const struct cat *cat, uint64_t g,
	const struct tarn_data_sample *sample)
{
	json_t *object;

	if (cat->json) {
		object = begin_json(cat, g, sample);
		json_put(object, "row", json_u64(sample->sample));
		return json_print(object);
	}
	begin_line(cat, g, sample);
	printf("row %" PRIu64 "\n", sample->sample);
	return EXIT_DONE;
}

static json_t *fields_json(const tarn_data_record *record)
{
	json_t *fields = must(json_object());

	for (size_t i = 0; i < tarn_data_record_count(record); i++) {
		const struct tarn_data_field *f =
			tarn_data_record_field(record, i);
		json_t *field = must(json_object()), *name = json_text(f->name);

		json_put(field, "size", json_u64(f->size));
		if (f->path) {
			json_put(field, "path", json_text(f->path));
			json_put(field, "offset", json_u64(f->offset));
		}
		json_put(fields, json_string_value(name), field);
		json_decref(name);
	}
	return fields;
}

static int print_record(const struct cat *cat, uint64_t g,
	const struct tarn_data_sample *sample)
{
	_cleanup_record_ tarn_data_record *record = NULL;
	char size[SIZE_TEXT_MAX];
	json_t *object;

	if (tarn_data_source_record(cat->set.sources[sample->source],
		    sample->sample, &record) < 0)
		return print_error();
	if (cat->json) {
		object = begin_json(cat, g, sample);
		json_put(object, "record", json_u64(sample->sample));
		json_put(
			object, "key", json_text(tarn_data_record_key(record)));
		json_put(object, "fields", fields_json(record));
		return json_print(object);
	}
	begin_line(cat, g, sample);
	text_put(stdout, tarn_data_record_key(record));
	for (size_t i = 0; i < tarn_data_record_count(record); i++) {
		const struct tarn_data_field *f =
			tarn_data_record_field(record, i);

		fputs(i ? ", " : ": ", stdout);
		text_put(stdout, f->name);
		printf(" %s", size_text((double)f->size, size));
	}
	putchar('\n');
	return EXIT_DONE;
}

/* ---- tokens -------------------------------------------------------------------- */

static int print_json(const struct cat *cat, uint64_t g,
	const struct tarn_data_sample *sample)
{
	json_t *object = begin_json(cat, g, sample);

	json_put(object, "document", json_u64(sample->document));
	json_put(object, "tokens", numbers(cat, false));
	if (cat->pieces)
		json_put(object, "segments", numbers(cat, true));
	return json_print(object);
}

static int print_sample(struct cat *cat, uint64_t g)
{
	struct tarn_data_sample sample;

	if (tarn_data_get(cat->data, g, &cat->request, &sample) < 0)
		return print_error();
	if (cat->records)
		return print_record(cat, g, &sample);
	if (!cat->info.sample_tokens)
		return print_row(cat, g, &sample);
	if (cat->json)
		return print_json(cat, g, &sample);
	begin_line(cat, g, &sample);
	printf("document %" PRIu64 ":", sample.document);
	for (uint32_t i = 0; i < sample.n_tokens; i++) {
		/* Where another document's begin. */
		if (i && cat->request.segments[i] !=
				 cat->request.segments[i - 1])
			fputs(" |", stdout);
		printf(" %" PRId64, token_of(cat, i));
	}
	putchar('\n');
	return EXIT_DONE;
}

/* The rank's positions from g on. */
static int print_all(struct cat *cat, uint64_t g)
{
	uint64_t step = g / cat->batch;
	int r = EXIT_DONE;

	for (; r == EXIT_DONE && cat->left && cat->n; step++)
		for (uint64_t i = 0; r == EXIT_DONE && cat->left && i < cat->n;
			i++) {
			uint64_t at = step * cat->batch + cat->first + i;

			if (at < g)
				continue;
			if (at >= cat->end)
				return r;
			cat->left--;
			r = print_sample(cat, at);
			/* The reader has gone. */
			if (ferror(stdout))
				return r;
		}
	return r;
}

static int prepare(struct cat *cat, const struct data_line *line)
{
	struct tarn_data_source_info info;
	uint64_t n;

	tarn_data_source_info(cat->set.sources[0], &info);
	cat->records = info.n_records > 0;
	tarn_data_info(cat->data, &cat->info);
	n = cat->info.sample_tokens + 1;
	cat->pieces = line->windows && *line->windows == 'p';
	cat->request.document = true;
	cat->request.size = cat->info.sample_bytes;
	cat->request.tokens = must(malloc(cat->info.sample_bytes + 1));
	cat->request.segments = must(calloc(n, sizeof(int32_t)));
	return OPTIONS_DONE;
}

struct place {
	const char *epoch, *world, *rank, *batch, *from, *count;
};

/* Where to begin: *ret; and the rank's part. */
static int place(const struct usage *usage, const struct place *text,
	struct cat *cat, uint64_t *ret)
{
	uint64_t epoch = 0, world = 1, rank = 0, from = 0, begin, end;
	int r = data_number(usage, "epoch", text->epoch, &epoch);

	if (r == OPTIONS_DONE)
		r = option_count(usage, "world", text->world, &world);
	if (r == OPTIONS_DONE)
		r = data_number(usage, "rank", text->rank, &rank);
	cat->batch = world;
	if (r == OPTIONS_DONE)
		r = option_count(usage, "batch", text->batch, &cat->batch);
	if (r == OPTIONS_DONE)
		r = data_number(usage, "from", text->from, &from);
	cat->left = UINT64_MAX;
	if (r == OPTIONS_DONE)
		r = option_count(usage, "count", text->count, &cat->left);
	if (r != OPTIONS_DONE)
		return r;
	if (world > UINT32_MAX || rank >= world)
		return usage_failed(usage,
			"--rank is below --world: there is no rank %" PRIu64
			" of %" PRIu64,
			rank, world);
	if (mul_u64(epoch, cat->info.n_samples, &begin) ||
		add_u64(begin, from, &begin) || begin > INT64_MAX)
		return usage_failed(usage, "there are no positions so far");
	/* With a count it goes on into the next epochs. */
	if (text->count || mul_u64(epoch + 1, cat->info.n_samples, &end))
		end = INT64_MAX;
	cat->end = MAX(end, begin);
	*ret = begin;
	return tarn_data_rank_part(cat->batch, (uint32_t)rank, (uint32_t)world,
		       &cat->first, &cat->n) < 0
		       ? print_error()
		       : OPTIONS_DONE;
}

static int cat_files(const struct usage *usage, const struct data_line *line,
	const struct place *text, struct cat *cat, char **paths, int n)
{
	uint64_t g = 0;
	int r = data_set_open(usage, line, paths, n, &cat->set);

	if (r == OPTIONS_DONE)
		r = data_dataset(usage, line, &cat->set, &cat->data);
	if (r == OPTIONS_DONE)
		r = prepare(cat, line);
	if (r == OPTIONS_DONE)
		r = place(usage, text, cat, &g);
	if (r == OPTIONS_DONE)
		r = print_all(cat, g);
	free(cat->request.tokens);
	free(cat->request.segments);
	tarn_data_free(cat->data);
	data_set_end(&cat->set);
	return r;
}

#define OPTION(word, letter_, value_, text, words)                             \
	{                                                                      \
		.name = (word), .letter = (letter_), .value = (value_),        \
		.ret_text = (text), .help = (words)                            \
	}

int data_cat(int argc, char **argv)
{
	struct data_line line = {.dtype = NULL};
	struct place text = {.epoch = NULL};
	struct cat cat = {.data = NULL};
	const struct option_row rows[] = {
		OPTIONS_DATA(line),
		OPTION("epoch", 'e', "E", &text.epoch,
			"begin with this one, from 0"),
		OPTION("from", 'f', "G", &text.from,
			"begin with this position of the epoch"),
		OPTION("count", 'n', "N", &text.count,
			"print so many; else all to the end of the epoch"),
		OPTION("world", 'w', "W", &text.world, "how many ranks"),
		OPTION("rank", 'r', "R", &text.rank, "which of them, from 0"),
		OPTION("batch", 'B', "N", &text.batch,
			"samples of a step, of all ranks; else one each"),
		OPTION_JSON(&cat.json),
		{0},
	};
	const struct usage usage = {.verb = "data cat",
		.arguments = "[OPTION]... FILE[@WEIGHT]...",
		.about = "Prints the samples that a rank gets, in order: "
			 "position, then\nfirst document and tokens, "
			 "or the row, or key and fields of the record.",
		.options = rows,
		.args_min = 1,
		.args_max = -1};
	char **args;
	int n, r = options_parse(&usage, argc, argv, &n, &args);

	return r == OPTIONS_DONE
		       ? cat_files(&usage, &line, &text, &cat, args, n)
		       : r;
}
