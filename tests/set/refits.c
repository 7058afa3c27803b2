/* SPDX-License-Identifier: MIT */
/* Whole versions: their tensors, fields, buckets and parts. */
#include "tests/set/refits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* ---- versions ------------------------------------------------------------ */

void refits_versions(void)
{
	struct tarn_refit_info info = {0};
	struct tarn_snapshot *s = NULL;
	tarn_tensor *wanted = refits_numbers(TARN_F32, ROWS, COLUMNS, 2), *c;
	tarn_refit *refit;
	uint64_t before;
	size_t b = 0;

	refits_publish(ROWS, COLUMNS);
	before = refits_kept();
	must(tarn_store_snapshot(refits_store, "w/", &s));
	while (strcmp(s->items[b].name, "w/b"))
		b++;
	refit = refits_refit(NULL);
	refits_put(refit, "b", refits_numbers(TARN_F64, ROWS, COLUMNS, 50));
	refits_put(refit, "a",
		refits_placed(refits_numbers(TARN_F32, ROWS, COLUMNS, 51)));
	refits_check("b", TARN_F32, ROWS, COLUMNS, 2, "before the commit");
	must(tarn_refit_commit(refit));
	tarn_refit_progress(refit, &info);
	check(info.bytes_moved == 2 * BYTES && info.names_changed == 2 &&
			!info.names_shared && info.seconds >= 0,
		"two names were changed: %llu, %llu bytes",
		(unsigned long long)info.names_changed,
		(unsigned long long)info.bytes_moved);
	check_failed(-EINVAL, "committed", tarn_refit_commit(refit),
		"a second commit");
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 51, "put");
	refits_check("b", TARN_F32, ROWS, COLUMNS, 50, "put and converted");
	refits_check("c", TARN_F32, ROWS, COLUMNS, 3, "not put");
	check(refits_equal(s->items[b].tensor, wanted),
		"a reader of the old version has its numbers");
	c = refits_found("c");
	check(tarn_tensor_same_storage(c, s->items[b].tensor) ||
			refits_kept() > before,
		"the old version is there as long as it is read");
	tarn_tensor_unref(c);
	tarn_snapshot_free(s);
	tarn_tensor_unref(wanted);
}

void refits_fields(void)
{
	const struct tarn_set_field fields[] = {
		{.key = "step", .value = "2"},
		{.key = "new", .value = "yes"},
		{.key = "model"},
	};
	const struct tarn_set_field wanted[] = {
		{.key = "step", .value = "2"}, {.key = "new", .value = "yes"}};
	const struct tarn_refit_options options = {
		.fields = fields, .n_fields = 3};
	struct tarn_set_note note = {0};
	tarn_set_fields *seen = NULL;
	tarn_refit *refit;

	refits_publish(10, 10);
	refit = refits_refit(&options);
	refits_put(refit, "a", refits_numbers(TARN_F32, 10, 10, 9));
	check(tarn_set_check(refits_store, "w", wanted, 2) == -EMEDIUMTYPE,
		"before the commit the set has its old fields");
	refits_commit(refit);
	check(tarn_set_check(refits_store, "w", wanted, 2) == 0,
		"the new version has the new fields: %s", tarn_error_message());
	must(tarn_set_fields_open(refits_store, "w", &seen));
	must(tarn_set_note(seen, "b", &note));
	check(note.size == 4 && !memcmp(note.bytes, "note", 4), "notes stay");
	tarn_set_fields_free(seen);
	refit = refits_refit(NULL);
	refits_put(refit, "a", refits_numbers(TARN_F32, 10, 10, 10));
	refits_commit(refit);
	check(tarn_set_check(refits_store, "w", wanted, 2) == 0,
		"without new fields they stay");
}

/* ---- buckets ------------------------------------------------------------- */

static size_t storages(const char *const *names, size_t n)
{
	tarn_tensor *t[16];
	size_t found_n = 0;

	for (size_t i = 0; i < n; i++) {
		bool new = true;

		t[i] = refits_found(names[i]);
		for (size_t k = 0; k < i; k++)
			new = new && !tarn_tensor_same_storage(t[i], t[k]);
		found_n += new;
	}
	for (size_t i = 0; i < n; i++)
		tarn_tensor_unref(t[i]);
	return found_n;
}

/* Tensors of 2.4 MB and one of 12 MB, in buckets of 5 MB: two to a bucket. */
void refits_buckets(void)
{
	static const char *const names[] = {
		"a", "b", "c", "d", "e", "f", "g", "big"};
	const struct tarn_refit_options options = {.bucket_bytes = 5000000};
	tarn_tensor *t[8];
	tarn_refit *refit;

	for (int i = 0; i < 7; i++)
		t[i] = refits_created(ROWS, COLUMNS, i);
	t[7] = refits_created(5 * ROWS, COLUMNS, 7);
	refits_publish_all(names, t, 8, NULL);
	refit = refits_refit(&options);
	for (int i = 0; i < 7; i++)
		refits_put(refit, names[i],
			refits_numbers(TARN_F16, ROWS, COLUMNS, 60 + i));
	refits_put(
		refit, "big", refits_numbers(TARN_F32, 5 * ROWS, COLUMNS, 67));
	refits_commit(refit);
	for (int i = 0; i < 7; i++)
		refits_check(names[i], TARN_F32, ROWS, COLUMNS, 60 + i,
			"in a bucket");
	refits_check("big", TARN_F32, 5 * ROWS, COLUMNS, 67, "large");
	check(storages(names, 7) == 4, "7 tensors are in %zu buckets, not 4",
		storages(names, 7));
	check(storages(names, 8) == 5, "the large one has its own storage");
	/* A flush for each tensor makes no more storages. */
	refit = refits_refit(&options);
	for (int i = 0; i < 7; i++) {
		refits_put(refit, names[i],
			refits_numbers(TARN_F32, ROWS, COLUMNS, 70 + i));
		must(tarn_refit_flush(refit));
	}
	refits_commit(refit);
	for (int i = 0; i < 7; i++)
		refits_check(
			names[i], TARN_F32, ROWS, COLUMNS, 70 + i, "flushed");
	check(storages(names, 7) == 4, "7 flushes make %zu buckets, not 4",
		storages(names, 7));
}

/* Each takes much more of a bucket than it has bytes. */
void refits_small(void)
{
	enum { TENSORS = 300 };
	const struct tarn_refit_options add = {
		.add = true, .device = refits_where};
	tarn_refit *refit = refits_refit(&add);
	char name[16];

	for (int i = 0; i < 2 * TENSORS; i++) {
		snprintf(name, sizeof(name), "%d", i % TENSORS);
		refits_put(refit, name, refits_numbers(TARN_F32, 1, 1, i));
		if (i >= TENSORS)
			must(tarn_refit_flush(refit));
		if (i + 1 != TENSORS)
			continue;
		refits_commit(refit);
		refit = refits_refit(NULL);
	}
	refits_commit(refit);
	refits_check("0", TARN_F32, 1, 1, TENSORS, "one of many small ones");
}

/* ---- parts --------------------------------------------------------------- */

int refits_put_rows(tarn_refit *refit, const char *name, int64_t start,
	int64_t rows, int64_t columns)
{
	tarn_tensor *all = refits_numbers(TARN_F32, ROWS, columns, 40), *part;
	int r;

	must(tarn_tensor_narrow(all, 0, MIN(start, ROWS - rows), rows, &part));
	r = tarn_refit_put_part(refit, name, start, part);
	tarn_tensor_unref(part);
	tarn_tensor_unref(all);
	return r;
}

void refits_parts(void)
{
	const struct tarn_refit_options options = {.bucket_bytes = 1000000};
	tarn_tensor *whole;
	tarn_refit *refit;

	refits_publish(ROWS, COLUMNS);
	refit = refits_refit(&options);
	must(refits_put_rows(refit, "a", 500, 100, COLUMNS));
	must(refits_put_rows(refit, "a", 0, 300, COLUMNS));
	must(refits_put_rows(refit, "a", 600, 400, COLUMNS));
	check_failed(-EEXIST, "'a': row 299 was put already",
		refits_put_rows(refit, "a", 299, 10, COLUMNS), "a row twice");
	check_failed(-EEXIST, "row 500 was put already",
		refits_put_rows(refit, "a", 400, 200, COLUMNS), "rows twice");
	check_failed(-ERANGE, "10 rows from 995 on were put; it has 1000",
		refits_put_rows(refit, "a", 995, 10, COLUMNS),
		"rows past the end");
	check_failed(-EINVAL, "shape [10, 599]",
		refits_put_rows(refit, "a", 300, 10, COLUMNS - 1),
		"other rows");
	whole = refits_numbers(TARN_F32, ROWS, COLUMNS, 40);
	check_failed(-EEXIST, "put already", tarn_refit_put(refit, "a", whole),
		"a whole tensor after parts");
	tarn_tensor_unref(whole);
	check_failed(-EINVAL, "'w/a': rows 300 to 499 of 1000 were not put",
		tarn_refit_commit(refit), "a commit without some rows");
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "nothing was published");
	must(refits_put_rows(refit, "a", 400, 100, COLUMNS));
	must(refits_put_rows(refit, "a", 300, 0, COLUMNS));
	must(refits_put_rows(refit, "a", 300, 100, COLUMNS));
	refits_commit(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 40, "put in parts");
	refits_check("b", TARN_F32, ROWS, COLUMNS, 2, "not put");
}

/* Elements that share bytes are put in whole bytes. */
void refits_packs(void)
{
	static const char *const names[] = {"f"};
	const int64_t n = 16;
	tarn_tensor *t, *part;
	tarn_refit *refit;

	must(tarn_tensor_zeros(TARN_F4, 1, &n, &t));
	must(tarn_tensor_narrow(t, 0, 0, 4, &part));
	t = refits_placed(t);
	refits_publish_all(names, &t, 1, NULL);
	refit = refits_refit(NULL);
	check_failed(-EINVAL, "4 rows of shape [16] from 3 on begin or end",
		tarn_refit_put_part(refit, "f", 3, part),
		"a part that begins inside a byte");
	for (int64_t i = 0; i < n; i += 4)
		must(tarn_refit_put_part(refit, "f", i, part));
	refits_commit(refit);
	tarn_tensor_unref(part);
}
