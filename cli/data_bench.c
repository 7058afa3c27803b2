/* SPDX-License-Identifier: MIT */
/* tarn data bench: how long it takes to open a dataset, what memory that costs,
 * and how fast samples are read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/data.h"
#include "cli/json.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/size.h"

struct figures {
	double open_seconds;  /* source and dataset */
	uint64_t open_memory; /* bytes of private memory more than before */
	double first_seconds; /* the first sample */
	uint64_t samples, tokens, bytes;
	bool has_tokens;
	double seconds;
};

/* Bytes of this process that no other has. */
static uint64_t private_memory(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0, shared = 0;

	if (!f || fscanf(f, "%*u %lu %lu", &pages, &shared) != 2)
		pages = shared = 0;
	if (f)
		fclose(f);
	return pages > shared ? (uint64_t)(pages - shared) * 4096 : 0;
}

static double since(int64_t begun)
{
	return (double)(live_now() - begun) / 1e9;
}

/* All fields of a record; *buf grows as need be. */
static int read_record(const tarn_data_source *source, uint64_t i, void **buf,
	uint64_t *size, uint64_t *ret_bytes)
{
	_cleanup_record_ tarn_data_record *record = NULL;
	int r = tarn_data_source_record(source, i, &record);

	for (size_t k = 0; r >= 0 && k < tarn_data_record_count(record); k++) {
		uint64_t n = tarn_data_record_field(record, k)->size;

		if (n > *size) {
			*size = 2 * n;
			free(*buf);
			*buf = must(malloc(*size));
		}
		r = tarn_data_record_read(record, k, *buf, *size);
		*ret_bytes += n;
	}
	return r;
}

/* One sample, of any kind. */
static int read_sample(const struct data_set *set, tarn_data *data,
	struct tarn_data_request *request, uint64_t *size, struct figures *f)
{
	struct tarn_data_source_info info;
	struct tarn_data_sample sample;
	int r = tarn_data_get(data, f->samples, request, &sample);

	if (r < 0)
		return r;
	tarn_data_source_info(set->sources[sample.source], &info);
	if (info.n_records)
		return read_record(set->sources[sample.source], sample.sample,
			&request->tokens, size, &f->bytes);
	f->tokens += sample.n_tokens;
	f->bytes += f->has_tokens ? (uint64_t)sample.n_tokens * info.token_bytes
				  : request->size;
	return 0;
}

static int measure(const struct data_set *set, tarn_data *data, double seconds,
	struct figures *f)
{
	struct tarn_data_info info;
	struct tarn_data_request request = {.size = 0};
	int64_t begun = live_now();
	uint64_t size;
	int r = 0;

	tarn_data_info(data, &info);
	size = request.size = info.sample_bytes;
	f->has_tokens = info.sample_tokens > 0;
	request.tokens = must(malloc(size + 1));
	while (r >= 0 && (!f->samples || f->seconds < seconds)) {
		r = read_sample(set, data, &request, &size, f);
		f->seconds = since(begun);
		if (r >= 0 && !f->samples++)
			f->first_seconds = f->seconds;
	}
	free(request.tokens);
	return r < 0 ? print_error() : EXIT_DONE;
}

static void print_figures(const struct figures *f)
{
	char memory[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];

	printf("opened in %.1f ms, with %s of private memory; the first sample "
	       "after %.2f ms\n",
		1e3 * f->open_seconds,
		size_text((double)f->open_memory, memory),
		1e3 * f->first_seconds);
	printf("%" PRIu64 " samples in %.2f s: %.0f samples/s, ", f->samples,
		f->seconds, (double)f->samples / f->seconds);
	if (f->has_tokens)
		printf("%.1f million tokens/s, ",
			(double)f->tokens / f->seconds / 1e6);
	printf("%s/s\n", size_text((double)f->bytes / f->seconds, rate));
}

static int print_json(const struct figures *f)
{
	json_t *object = must(json_object());

	json_put(object, "open_seconds", must(json_real(f->open_seconds)));
	json_put(object, "open_memory", json_u64(f->open_memory));
	json_put(object, "first_seconds", must(json_real(f->first_seconds)));
	json_put(object, "samples", json_u64(f->samples));
	json_put(object, "tokens", json_u64(f->tokens));
	json_put(object, "bytes", json_u64(f->bytes));
	json_put(object, "seconds", must(json_real(f->seconds)));
	return json_print(object);
}

static int bench(const struct usage *usage, const struct data_line *line,
	double seconds, char **paths, int n, struct figures *f)
{
	_cleanup_data_set_ struct data_set set = {.n = 0};
	_cleanup_data_ tarn_data *data = NULL;
	uint64_t before = private_memory(), after;
	int64_t begun = live_now();
	int r = data_set_open(usage, line, paths, n, &set);

	if (r == OPTIONS_DONE)
		r = data_dataset(usage, line, &set, &data);
	if (r != OPTIONS_DONE)
		return r;
	f->open_seconds = since(begun);
	after = private_memory();
	f->open_memory = after > before ? after - before : 0;
	return measure(&set, data, seconds, f);
}

int data_bench(int argc, char **argv)
{
	struct data_line line = {.dtype = NULL};
	struct figures f = {.samples = 0};
	const char *text = NULL;
	double seconds = 2;
	bool json = false;
	const struct option_row rows[] = {
		OPTIONS_DATA(line),
		{.name = "seconds",
			.letter = 't',
			.value = "N",
			.ret_text = &text,
			.help = "how long to read; 2 if none is given"},
		OPTION_JSON(&json),
		{0},
	};
	const struct usage usage = {.verb = "data bench",
		.arguments = "[OPTION]... FILE[@WEIGHT]...",
		.about = "Opens files as a dataset and reads samples in order, "
			 "in one thread.",
		.options = rows,
		.args_min = 1,
		.args_max = -1};
	char **args;
	int n, r = options_parse(&usage, argc, argv, &n, &args);

	if (r == OPTIONS_DONE)
		r = option_seconds(&usage, "seconds", text, &seconds);
	if (r != OPTIONS_DONE)
		return r;
	r = bench(&usage, &line, seconds, args, n, &f);
	if (r != EXIT_DONE)
		return r;
	if (json)
		return print_json(&f);
	print_figures(&f);
	return EXIT_DONE;
}
