/* SPDX-License-Identifier: MIT */
/* tarn data info of records: which fields they have, how many of them, and of what
 * sizes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/data.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/progress.h"
#include "cli/size.h"
#include "cli/text.h"

struct field {
	char *name;
	uint64_t n, bytes, least, most;
};

/* Picked: a table of more lines is read by nobody. */
enum { FIELDS_MAX = 200 };

struct fields {
	struct field at[FIELDS_MAX];
	size_t n;
	uint64_t left_out; /* of all records */
};

static struct field *field_of(struct fields *f, size_t like, const char *name)
{
	/* Records mostly have the same fields in the same order. */
	if (like < f->n && !strcmp(f->at[like].name, name))
		return &f->at[like];
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->at[i].name, name))
			return &f->at[i];
	if (f->n == FIELDS_MAX)
		return NULL;
	f->at[f->n] = (struct field) {
		.name = must(strdup(name)), .least = UINT64_MAX};
	return &f->at[f->n++];
}

static void count_record(const tarn_data_record *record, struct fields *f)
{
	for (size_t i = 0; i < tarn_data_record_count(record); i++) {
		const struct tarn_data_field *shown =
			tarn_data_record_field(record, i);
		struct field *field = field_of(f, i, shown->name);

		if (!field) {
			f->left_out++;
			continue;
		}
		field->n++;
		field->bytes += shown->size;
		field->least = MIN(field->least, shown->size);
		field->most = MAX(field->most, shown->size);
	}
}

static int count_all(
	const tarn_data_source *source, uint64_t n, struct fields *f)
{
	struct progress_bar progress;
	int r = 0;

	progress_begin(&progress);
	for (uint64_t i = 0; r >= 0 && i < n; i++) {
		_cleanup_record_ tarn_data_record *record = NULL;

		r = tarn_data_source_record(source, i, &record);
		if (r >= 0)
			count_record(record, f);
		if (i % 1024 == 0)
			progress_step(&progress, i, n);
	}
	progress_end(&progress);
	return r < 0 ? print_error() : EXIT_DONE;
}

static void print_fields(
	const struct tarn_data_source_info *info, const struct fields *f)
{
	char all[SIZE_TEXT_MAX], least[SIZE_TEXT_MAX], most[SIZE_TEXT_MAX];
	char mean[SIZE_TEXT_MAX];

	printf("%zu file%s, %s: %" PRIu64 " record%s\n", info->n_files,
		info->n_files == 1 ? "" : "s", info->format, info->n_records,
		info->n_records == 1 ? "" : "s");
	if (f->n)
		printf("  %12s %12s %12s %12s %12s  %s\n", "RECORDS", "BYTES",
			"LEAST", "MEAN", "MOST", "FIELD");
	for (size_t i = 0; i < f->n; i++) {
		const struct field *field = &f->at[i];

		printf("  %12" PRIu64 " %12s %12s %12s %12s  ", field->n,
			size_text((double)field->bytes, all),
			size_text((double)field->least, least),
			size_text(
				(double)field->bytes / (double)field->n, mean),
			size_text((double)field->most, most));
		text_put(stdout, field->name);
		putchar('\n');
	}
	if (f->left_out)
		printf("  and %" PRIu64 " of other names\n", f->left_out);
}

static json_t *fields_json(
	const struct tarn_data_source_info *info, const struct fields *f)
{
	json_t *object = must(json_object()), *list = must(json_array());

	for (size_t i = 0; i < f->n; i++) {
		const struct field *field = &f->at[i];
		json_t *one = must(json_object());

		json_put(one, "name", json_text(field->name));
		json_put(one, "records", json_u64(field->n));
		json_put(one, "bytes", json_u64(field->bytes));
		json_put(one, "least", json_u64(field->least));
		json_put(one, "most", json_u64(field->most));
		if (json_array_append_new(list, one) < 0)
			must(NULL);
	}
	json_put(object, "format", json_text(info->format));
	json_put(object, "files", json_u64(info->n_files));
	json_put(object, "records", json_u64(info->n_records));
	json_put(object, "fields", list);
	json_put(object, "other_fields", json_u64(f->left_out));
	return object;
}

int data_records_info(const tarn_data_source *source, json_t **ret_json)
{
	struct fields *f = must(calloc(1, sizeof(*f)));
	struct tarn_data_source_info info;
	int r;

	tarn_data_source_info(source, &info);
	r = count_all(source, info.n_records, f);
	if (r == EXIT_DONE && ret_json)
		*ret_json = fields_json(&info, f);
	else if (r == EXIT_DONE)
		print_fields(&info, f);
	for (size_t i = 0; i < f->n; i++)
		free(f->at[i].name);
	free(f);
	return r;
}
