/* SPDX-License-Identifier: MIT */
/*
 * Columns: a record has a row, a document, a ragged row and the members of a shard;
 * sources of records one after another; and datasets of records.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/data/corpus.h"
#include "tests/data/tars.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static char dir[256], shard[300];

/* ---- columns -------------------------------------------------------------------------- */

static tarn_tensor *tensor_of(enum tarn_dtype dtype, const char *text)
{
	tarn_tensor *t;

	must(tarn_tensor_parse(dtype, text, &t));
	return t;
}

static tarn_data_source *some_columns(void)
{
	tarn_tensor *rows = tensor_of(TARN_F32, "[[1, 2], [3, 4]]");
	tarn_tensor *labels = tensor_of(TARN_I64, "[7, 8]");
	tarn_tensor *tokens = tensor_of(TARN_U16, "[10, 11, 12, 13]");
	tarn_tensor *boxes =
		tensor_of(TARN_F64, "[[1, 1], [2, 2], [3, 3], [4, 4]]");
	tarn_tensor *offsets = tensor_of(TARN_I32, "[0, 1, 4]");
	struct tarn_data_column columns[] = {{.name = "image"},
		{.name = "label"}, {.name = "text"}, {.name = "boxes"},
		{.name = "tar"}};
	struct tar_made t = {.n = 0};
	tarn_data_source *s;

	tars_file(&t, "a.txt", "one");
	tars_file(&t, "b.txt", "two");
	tars_write(&t, shard);
	must(tarn_data_source_rows(rows, &columns[0].source));
	must(tarn_data_source_rows(labels, &columns[1].source));
	must(tarn_data_source_tokens(tokens, offsets, &columns[2].source));
	must(tarn_data_source_ragged(boxes, offsets, &columns[3].source));
	columns[4].source = records_open(shard, false);
	must(tarn_data_source_columns(columns, ARRAY_SIZE(columns), &s));
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		tarn_data_source_unref(columns[i].source);
	tarn_tensor_unref(rows);
	tarn_tensor_unref(labels);
	tarn_tensor_unref(tokens);
	tarn_tensor_unref(boxes);
	tarn_tensor_unref(offsets);
	return s;
}

static bool field_is(const tarn_data_record *record, const char *name,
	enum tarn_dtype dtype, const char *text)
{
	tarn_tensor *seen, *wanted = tensor_of(dtype, text);
	const struct tarn_data_field *f;
	char bytes[256];
	bool same;
	size_t i;

	must(tarn_data_record_find(record, name, &i));
	f = tarn_data_record_field(record, i);
	must(tarn_data_record_tensor(record, i, &seen));
	must(tarn_data_record_read(record, i, bytes, sizeof(bytes)));
	same = tarn_tensor_equal(seen, wanted) == 1 &&
	       !memcmp(bytes, tarn_tensor_data(wanted), f->size) &&
	       f->dtype == dtype && f->ndim == tarn_tensor_layout(wanted)->ndim;
	tarn_tensor_unref(seen);
	tarn_tensor_unref(wanted);
	return same;
}

static void test_columns(void)
{
	tarn_data_source *s = some_columns();
	tarn_data_record *record;
	char small[4];
	size_t i;

	is_int(2, (int64_t)records_count(s),
		"columns have as many records as each");
	must(tarn_data_source_record(s, 1, &record));
	is_str("b", tarn_data_record_key(record), "a shard gives the key");
	ok(field_is(record, "image", TARN_F32, "[3, 4]"), "a row is a field");
	ok(field_is(record, "label", TARN_I64, "8"), "a number is a field");
	ok(field_is(record, "text", TARN_U16, "[11, 12, 13]"),
		"a document is a field");
	ok(field_is(record, "boxes", TARN_F64, "[[2, 2], [3, 3], [4, 4]]"),
		"a ragged row is a field");
	ok(field_is(record, "tar.txt", TARN_U8, "[116, 119, 111]"),
		"a member of a shard is a field");
	is_int(-ENOENT, tarn_data_record_find(record, "txt", &i),
		"a field that is not there");
	has_str("it has image, label, text, boxes, tar.txt",
		tarn_error_message(), "the sentence lists those that are");
	is_int(-ENOBUFS, tarn_data_record_read(record, 0, small, 4),
		"a field needs room");
	is_int(-ERANGE, tarn_data_record_read(record, 5, small, 4),
		"there is no sixth field");
	ok(!tarn_data_record_field(record, 5),
		"a sixth field has no description");
	tarn_data_source_unref(s);
	ok(field_is(record, "label", TARN_I64, "8"),
		"a record keeps its source");
	tarn_data_record_free(record);
	unlink(shard);
}

static void test_columns_refused(void)
{
	tarn_tensor *two = tensor_of(TARN_I64, "[7, 8]");
	tarn_tensor *three = tensor_of(TARN_I64, "[0, 1, 2]");
	tarn_tensor *scalar = tensor_of(TARN_I64, "3");
	struct tarn_data_column columns[2] = {{.name = "a"}, {.name = "b"}};
	tarn_data_source *s, *rows;
	tarn_data_record *record;

	must(tarn_data_source_rows(two, &columns[0].source));
	must(tarn_data_source_rows(three, &columns[1].source));
	is_int(-EINVAL, tarn_data_source_columns(columns, 2, &s),
		"columns of other lengths are refused");
	has_str("'b' has 3 samples, and 'a' has 2", tarn_error_message(),
		"the sentence has both");
	rows = columns[1].source;
	columns[1] = columns[0];
	is_int(-EINVAL, tarn_data_source_columns(columns, 2, &s),
		"so is a name that comes twice");
	is_int(-EINVAL, tarn_data_source_columns(columns, 0, &s),
		"and no columns at all");
	is_int(-EINVAL, tarn_data_source_record(rows, 0, &record),
		"rows alone are no records");
	is_int(-EINVAL, tarn_data_source_ragged(scalar, three, &s),
		"ragged values have a dimension");
	is_int(-EBADMSG, tarn_data_source_ragged(three, two, &s),
		"offsets lead outside of them");
	tarn_data_source_unref(columns[0].source);
	tarn_data_source_unref(rows);
	tarn_tensor_unref(two);
	tarn_tensor_unref(three);
	tarn_tensor_unref(scalar);
}

static void test_chain(void)
{
	tarn_data_source *sources[3] = {some_columns(), NULL, NULL}, *s;
	tarn_data_source *rows;
	tarn_tensor *two = tensor_of(TARN_I64, "[7, 8]");
	tarn_data_record *record;

	sources[1] = records_open(shard, false);
	sources[2] = sources[0];
	must(tarn_data_source_chain(sources, 3, &s));
	is_int(6, (int64_t)records_count(s), "a chain has the records of all");
	is_str("b txt=two", records_text(s, 3),
		"a record of the second source");
	must(tarn_data_source_record(s, 5, &record));
	ok(field_is(record, "label", TARN_I64, "8"), "a record of the last");
	tarn_data_record_free(record);
	is_int(-ERANGE, tarn_data_source_record(s, 6, &record),
		"there are no more");
	tarn_data_source_unref(s);
	must(tarn_data_source_rows(two, &rows));
	is_int(-EINVAL, tarn_data_source_chain(&rows, 1, &s),
		"rows are no records");
	is_int(-EINVAL, tarn_data_source_chain(&rows, 0, &s),
		"a chain has a source");
	tarn_data_source_unref(rows);
	tarn_tensor_unref(two);
	tarn_data_source_unref(sources[0]);
	tarn_data_source_unref(sources[1]);
	unlink(shard);
}

/* ---- datasets ------------------------------------------------------------------------ */

static void test_dataset(void)
{
	const double weights[] = {3, 1};
	const struct tarn_data_weights periods = {.weights = weights};
	struct tarn_data_options options = {.seed = 5,
		.windows = TARN_WINDOWS_RECORDS,
		.periods = &periods,
		.n_periods = 1};
	const struct tarn_data_request request = {.size = 0};
	tarn_data_source *sources[2] = {some_columns(), NULL};
	unsigned counts[2] = {0}, seen[2][2] = {{0}};
	struct tarn_data_sample sample;
	tarn_data *data, *again;
	uint64_t g = 0;
	char *state;
	int r = 0;

	sources[1] = records_open(shard, false);
	must(tarn_data_open(sources, 2, &options, &data));
	for (uint64_t i = 0; r >= 0 && i < 400; i++) {
		r = tarn_data_get(data, i, &request, &sample);
		counts[sample.source]++;
		seen[sample.source][sample.sample & 1]++;
	}
	ok(r >= 0 && counts[0] == 300 && counts[1] == 100 &&
			seen[0][0] == 150 && seen[1][1] == 50,
		"records are mixed and shuffled: %u, %u", counts[0], counts[1]);
	must(tarn_data_state(data, 17, &state));
	has_str("windows=records", state, "a state says that they are records");
	must(tarn_data_open(sources, 2, &options, &again));
	must(tarn_data_resume(again, state, &g));
	is_int(17, (int64_t)g, "it is resumed");
	tarn_data_free(again);
	options.windows = TARN_WINDOWS_ROWS;
	is_int(-EINVAL, tarn_data_open(sources, 2, &options, &again),
		"records are no rows");
	options.windows = TARN_WINDOWS_RECORDS;
	options.seq_len = 4;
	is_int(-EINVAL, tarn_data_open(sources, 2, &options, &again),
		"and have no length");
	tarn_data_free(data);
	tarn_data_source_unref(sources[0]);
	tarn_data_source_unref(sources[1]);
	free(state);
	unlink(shard);
}

int main(void)
{
	snprintf(dir, sizeof(dir), "%s", test_tmpdir());
	snprintf(shard, sizeof(shard), "%s/s.tar", dir);
	test_columns();
	test_columns_refused();
	test_chain();
	test_dataset();
	return done(13 + 7 + 6 + 5);
}
