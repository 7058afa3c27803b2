/* SPDX-License-Identifier: MIT */
#include "tests/set/refits.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

enum { PATIENCE_MS = 60000 };

tarn_store *refits_store;

static const struct tarn_cuda_device *where;
static struct daemon server;

/* ---- the daemon ---------------------------------------------------------- */

void refits_begin(const struct tarn_cuda_device *device, const char *budget)
{
	static unsigned n;
	const char *const extra[] = {budget ? "--budget" : NULL, budget, NULL};
	char name[32];

	where = device;
	snprintf(name, sizeof(name), "refit%u.sock", n++);
	daemon_start(&server, name, extra);
	must(tarn_store_open(server.socket, NULL, &refits_store));
}

uint64_t refits_kept(void)
{
	struct tarn_report_daemon d = {0};

	must(report_daemon(refits_store, &d));
	return where ? d.device_memory : d.own_memory;
}

/* The last release is noticed a moment later. */
void refits_check_kept(uint64_t bytes, const char *what)
{
	uint64_t seen = refits_kept();

	for (int ms = 0; seen != bytes && ms < PATIENCE_MS; ms += 2) {
		usleep(2000);
		seen = refits_kept();
	}
	check(seen == bytes, "%s: %llu bytes are kept, not %llu", what,
		(unsigned long long)seen, (unsigned long long)bytes);
}

void refits_end(void)
{
	const struct tarn_publish_options all = {.replace = "w/"};

	must(tarn_store_publish(refits_store, NULL, 0, &all, NULL));
	refits_check_kept(0, "without names");
	tarn_store_unref(refits_store);
	check(daemon_stop(&server) == 0, "the daemon ends");
}

/* ---- tensors ------------------------------------------------------------- */

tarn_tensor *refits_numbers(
	enum tarn_dtype dtype, int64_t rows, int64_t columns, int seed)
{
	const int64_t shape[] = {rows, columns};
	tarn_tensor *wide, *t;
	float *p;

	must(tarn_tensor_zeros(TARN_F32, 2, shape, &wide));
	p = tarn_tensor_data(wide);
	for (int64_t i = 0; i < rows * columns; i++)
		p[i] = (float)((seed + i) % 101);
	must(tarn_tensor_zeros(dtype, 2, shape, &t));
	must(tarn_copy(t, wide, NULL, NULL));
	tarn_tensor_unref(wide);
	return t;
}

/* There, where sets are. */
static tarn_tensor *placed(tarn_tensor *t)
{
	tarn_tensor *ret;

	if (!where)
		return t;
	must(tarn_tensor_to_device(t, where, NULL, &ret));
	tarn_tensor_unref(t);
	return ret;
}

static tarn_tensor *view(tarn_tensor *t, const char *expr)
{
	tarn_tensor *ret;

	must(tarn_tensor_eval(t, expr, &ret));
	return ret;
}

static tarn_tensor *found(const char *name)
{
	tarn_tensor *t;
	char whole[64];

	snprintf(whole, sizeof(whole), "w/%s", name);
	must(tarn_store_lookup(refits_store, whole, &t));
	return t;
}

static bool equal(const tarn_tensor *t, const tarn_tensor *wanted)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	tarn_tensor *here;
	bool same;

	must(tarn_tensor_zeros(l->dtype, l->ndim, l->shape, &here));
	must(tarn_copy(here, t, NULL, NULL));
	same = must(tarn_tensor_equal(here, wanted)) == 1;
	tarn_tensor_unref(here);
	return same;
}

void refits_check(const char *name, enum tarn_dtype dtype, int64_t rows,
	int64_t columns, int seed, const char *what)
{
	tarn_tensor *t = found(name);
	tarn_tensor *wanted = refits_numbers(dtype, rows, columns, seed);

	check(equal(t, wanted), "%s: the numbers of '%s'", what, name);
	if (where)
		check(tarn_storage_kind(tarn_tensor_storage(t)) ==
				TARN_STORAGE_DEVICE,
			"%s: '%s' is on the device", what, name);
	tarn_tensor_unref(t);
	tarn_tensor_unref(wanted);
}

/* ---- sets ---------------------------------------------------------------- */

/* Takes the tensors over; a name may be a view of another's tensor. */
static void publish(const char *const *names, tarn_tensor **tensors, size_t n,
	const struct tarn_set_options *options)
{
	struct tarn_publish_item items[16] = {0};

	for (size_t i = 0; i < n; i++)
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = tensors[i]};
	must(tarn_set_publish(refits_store, "w", items, n, options, NULL));
	for (size_t i = 0; i < n; i++)
		tarn_tensor_unref(tensors[i]);
}

static tarn_tensor *created(int64_t rows, int64_t columns, int seed)
{
	const int64_t shape[] = {rows, columns};
	tarn_tensor *t, *numbers;

	numbers = refits_numbers(TARN_F32, rows, columns, seed);
	if (where)
		return placed(numbers);
	must(tarn_store_create(refits_store, TARN_F32, 2, shape, 0, &t));
	must(tarn_copy(t, numbers, NULL, NULL));
	tarn_tensor_unref(numbers);
	return t;
}

void refits_publish(int64_t rows, int64_t columns)
{
	static const char *const names[] = {"a", "b", "c"};
	const struct tarn_set_field fields[] = {
		{.key = "model", .value = "m"}, {.key = "step", .value = "1"}};
	const struct tarn_set_note note = {
		.name = "b", .bytes = "note", .size = 4};
	const struct tarn_set_options options = {
		.fields = fields, .n_fields = 2, .notes = &note, .n_notes = 1};
	tarn_tensor *t[3];

	for (int i = 0; i < 3; i++)
		t[i] = created(rows, columns, i + 1);
	publish(names, t, 3, &options);
}

tarn_refit *refits_refit(const struct tarn_refit_options *options)
{
	tarn_refit *refit = NULL;

	must(tarn_refit_begin(refits_store, "w", options, &refit));
	return refit;
}

static void put(tarn_refit *refit, const char *name, tarn_tensor *t)
{
	must(tarn_refit_put(refit, name, t));
	tarn_tensor_unref(t);
}

static void commit(tarn_refit *refit)
{
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
}

/* ---- versions ------------------------------------------------------------ */

enum { ROWS = 1000, COLUMNS = 600, BYTES = ROWS * COLUMNS * 4 };

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
	put(refit, "b", refits_numbers(TARN_F64, ROWS, COLUMNS, 50));
	put(refit, "a", placed(refits_numbers(TARN_F32, ROWS, COLUMNS, 51)));
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
	check(equal(s->items[b].tensor, wanted),
		"a reader of the old version has its numbers");
	c = found("c");
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
	put(refit, "a", refits_numbers(TARN_F32, 10, 10, 9));
	check(tarn_set_check(refits_store, "w", wanted, 2) == -EMEDIUMTYPE,
		"before the commit the set has its old fields");
	commit(refit);
	check(tarn_set_check(refits_store, "w", wanted, 2) == 0,
		"the new version has the new fields: %s", tarn_error_message());
	must(tarn_set_fields_open(refits_store, "w", &seen));
	must(tarn_set_note(seen, "b", &note));
	check(note.size == 4 && !memcmp(note.bytes, "note", 4), "notes stay");
	tarn_set_fields_free(seen);
	refit = refits_refit(NULL);
	put(refit, "a", refits_numbers(TARN_F32, 10, 10, 10));
	commit(refit);
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

		t[i] = found(names[i]);
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
		t[i] = created(ROWS, COLUMNS, i);
	t[7] = created(5 * ROWS, COLUMNS, 7);
	publish(names, t, 8, NULL);
	refit = refits_refit(&options);
	for (int i = 0; i < 7; i++)
		put(refit, names[i],
			refits_numbers(TARN_F16, ROWS, COLUMNS, 60 + i));
	put(refit, "big", refits_numbers(TARN_F32, 5 * ROWS, COLUMNS, 67));
	commit(refit);
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
		put(refit, names[i],
			refits_numbers(TARN_F32, ROWS, COLUMNS, 70 + i));
		must(tarn_refit_flush(refit));
	}
	commit(refit);
	for (int i = 0; i < 7; i++)
		refits_check(
			names[i], TARN_F32, ROWS, COLUMNS, 70 + i, "flushed");
	check(storages(names, 7) == 4, "7 flushes make %zu buckets, not 4",
		storages(names, 7));
}

/* ---- parts --------------------------------------------------------------- */

static int put_rows(tarn_refit *refit, const char *name, int64_t start,
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
	must(put_rows(refit, "a", 500, 100, COLUMNS));
	must(put_rows(refit, "a", 0, 300, COLUMNS));
	must(put_rows(refit, "a", 600, 400, COLUMNS));
	check_failed(-EEXIST, "'a': row 299 was put already",
		put_rows(refit, "a", 299, 10, COLUMNS), "a row twice");
	check_failed(-EEXIST, "row 500 was put already",
		put_rows(refit, "a", 400, 200, COLUMNS), "rows twice");
	check_failed(-ERANGE, "10 rows from 995 on were put; it has 1000",
		put_rows(refit, "a", 995, 10, COLUMNS), "rows past the end");
	check_failed(-EINVAL, "shape [10, 599]",
		put_rows(refit, "a", 300, 10, COLUMNS - 1), "other rows");
	whole = refits_numbers(TARN_F32, ROWS, COLUMNS, 40);
	check_failed(-EEXIST, "put already", tarn_refit_put(refit, "a", whole),
		"a whole tensor after parts");
	tarn_tensor_unref(whole);
	check_failed(-EINVAL, "'w/a': rows 300 to 499 of 1000 were not put",
		tarn_refit_commit(refit), "a commit without some rows");
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "nothing was published");
	must(put_rows(refit, "a", 400, 100, COLUMNS));
	must(put_rows(refit, "a", 300, 0, COLUMNS));
	must(put_rows(refit, "a", 300, 100, COLUMNS));
	commit(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 40, "put in parts");
	refits_check("b", TARN_F32, ROWS, COLUMNS, 2, "not put");
}

/* ---- sparse -------------------------------------------------------------- */

static tarn_tensor *list(
	enum tarn_dtype dtype, const double *numbers, int64_t n)
{
	tarn_tensor *t;

	must(tarn_tensor_zeros(dtype, 1, &n, &t));
	for (int64_t i = 0; i < n; i++)
		must(tarn_tensor_set_f64(t, &i, numbers[i]));
	return t;
}

static int put_sparse(tarn_refit *refit, const char *name,
	enum tarn_dtype dtype, const double *at, const double *to, int64_t n,
	bool there)
{
	tarn_tensor *positions = list(dtype, at, n);
	tarn_tensor *values = list(TARN_F64, to, n);
	int r;

	if (there) {
		positions = placed(positions);
		values = placed(values);
	}
	r = tarn_refit_sparse(refit, name, positions, values);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	return r;
}

static void check_sparse(const char *name, tarn_tensor *wanted,
	const double *at, const double *to, int64_t n, int64_t columns)
{
	tarn_tensor *t = found(name);

	for (int64_t i = 0; i < n; i++) {
		const int64_t index[] = {
			(int64_t)at[i] / columns, (int64_t)at[i] % columns};

		must(tarn_tensor_set_f64(wanted, index, to[i]));
	}
	check(equal(t, wanted), "the old numbers of '%s' and %lld new ones",
		name, (long long)n);
	tarn_tensor_unref(t);
	tarn_tensor_unref(wanted);
}

/* "t" is transposed, and "p" has gaps. */
void refits_sparse(void)
{
	static const char *const names[] = {"a", "t", "p", "e"};
	static const double at[] = {0, 5, 119, 60, 7},
			    to[] = {1, -2, 3, 200, 5};
	tarn_tensor *a = created(12, 10, 1), *b = created(10, 12, 2);
	tarn_tensor *c = created(12, 20, 3), *whole;
	tarn_tensor *t[] = {a, view(b, ".transpose(0, 1)"), view(c, "[:, ::2]"),
		created(12, 10, 4)};
	tarn_refit *refit;

	publish(names, t, 4, NULL);
	tarn_tensor_unref(b);
	tarn_tensor_unref(c);
	refit = refits_refit(NULL);
	must(put_sparse(refit, "a", TARN_I64, at, to, 5, true));
	must(put_sparse(refit, "t", TARN_I32, at, to, 5, false));
	must(put_sparse(refit, "p", TARN_I64, at, to, 5, false));
	must(put_sparse(refit, "e", TARN_I32, at, to, 0, true));
	commit(refit);
	check_sparse("a", refits_numbers(TARN_F32, 12, 10, 1), at, to, 5, 10);
	whole = refits_numbers(TARN_F32, 10, 12, 2);
	check_sparse("t", view(whole, ".transpose(0, 1)"), at, to, 5, 10);
	tarn_tensor_unref(whole);
	whole = refits_numbers(TARN_F32, 12, 20, 3);
	check_sparse("p", view(whole, "[:, ::2]"), at, to, 5, 10);
	tarn_tensor_unref(whole);
	check_sparse("e", refits_numbers(TARN_F32, 12, 10, 4), at, to, 0, 10);
}

void refits_sparse_refused(void)
{
	static const double past[] = {3, 120, 4}, below[] = {3, -1, 4};
	static const double good[] = {3, 119, 4}, to[] = {1, 2, 3};
	tarn_refit *refit;

	refits_publish(12, 10);
	refit = refits_refit(NULL);
	for (int there = 0; there < 2; there++) {
		check_failed(-ERANGE,
			"'a': there is no element at position 120; it has 120",
			put_sparse(refit, "a", TARN_I64, past, to, 3, there),
			"a position past the end");
		check_failed(-ERANGE, "position -1",
			put_sparse(refit, "a", TARN_I32, below, to, 3, there),
			"a position before the first");
	}
	check_failed(-EINVAL, "positions are F32",
		put_sparse(refit, "a", TARN_F32, good, to, 3, false),
		"positions that are no integers");
	check_failed(-ENOENT, "no tensor 'x'",
		put_sparse(refit, "x", TARN_I64, good, to, 3, false),
		"a name that is not there");
	must(put_sparse(refit, "a", TARN_I64, good, to, 3, false));
	check_failed(-EEXIST, "put already",
		put_sparse(refit, "a", TARN_I64, good, to, 3, false),
		"a name twice");
	commit(refit);
	check_sparse("a", refits_numbers(TARN_F32, 12, 10, 1), good, to, 3, 10);
}

/* ---- ties ---------------------------------------------------------------- */

/* Large enough that the store shares them: "head" is "embed", and "turned" the same bytes in another order. */
void refits_ties(void)
{
	static const char *const names[] = {"embed", "head", "turned", "other"};
	tarn_tensor *a = created(ROWS, COLUMNS, 1), *embed, *head, *turned,
		    *back;
	tarn_tensor *t[] = {a, view(a, "[:]"), view(a, ".transpose(0, 1)"),
		created(ROWS, COLUMNS, 2)};
	tarn_refit *refit;

	publish(names, t, 4, NULL);
	refit = refits_refit(NULL);
	put(refit, "head", refits_numbers(TARN_F32, ROWS, COLUMNS, 9));
	embed = refits_numbers(TARN_F32, ROWS, COLUMNS, 9);
	check_failed(-EEXIST, "'embed': it shares its bytes with 'w/head'",
		tarn_refit_put(refit, "embed", embed), "a tied name twice");
	tarn_tensor_unref(embed);
	commit(refit);
	refits_check("head", TARN_F32, ROWS, COLUMNS, 9, "put");
	refits_check(
		"embed", TARN_F32, ROWS, COLUMNS, 9, "tied to what was put");
	embed = found("embed");
	head = found("head");
	turned = found("turned");
	back = view(turned, ".transpose(0, 1)");
	check(tarn_tensor_same_storage(embed, head) &&
			tarn_tensor_base(embed) == tarn_tensor_base(head) &&
			tarn_layout_equal(tarn_tensor_layout(embed),
				tarn_tensor_layout(head)),
		"tied names are one range of bytes in the new version");
	check(tarn_tensor_same_storage(turned, head) &&
			tarn_layout_equal(tarn_tensor_layout(back),
				tarn_tensor_layout(head)),
		"a tied name keeps its strides");
	tarn_tensor_unref(back);
	tarn_tensor_unref(turned);
	tarn_tensor_unref(head);
	tarn_tensor_unref(embed);
}

/* "q" and "k" are rows of "qk"; "even" and "odd" are columns, which share no
 * byte. */
void refits_overlaps(void)
{
	static const char *const names[] = {"qk", "q", "even", "odd"};
	tarn_tensor *a = created(ROWS, COLUMNS, 1),
		    *b = created(ROWS, COLUMNS, 2);
	tarn_tensor *t[] = {a, view(a, "[:500]"), view(b, "[:, ::2]"),
		view(b, "[:, 1::2]")};
	tarn_refit *refit;

	publish(names, t, 4, NULL);
	tarn_tensor_unref(b);
	refit = refits_refit(NULL);
	put(refit, "q", refits_numbers(TARN_F32, ROWS / 2, COLUMNS, 9));
	put(refit, "odd", refits_numbers(TARN_F32, ROWS, COLUMNS / 2, 8));
	check_failed(-EINVAL,
		"'w/q' shares some of its bytes with 'w/qk', which was not put",
		tarn_refit_commit(refit), "a part of what another name has");
	put(refit, "qk", refits_numbers(TARN_F32, ROWS, COLUMNS, 9));
	commit(refit);
	refits_check("qk", TARN_F32, ROWS, COLUMNS, 9, "put");
	refits_check("q", TARN_F32, ROWS / 2, COLUMNS, 9, "put");
	refits_check("odd", TARN_F32, ROWS, COLUMNS / 2, 8, "put");
}

/* ---- equal tensors ------------------------------------------------------- */

void refits_equal(void)
{
	const struct tarn_refit_options options = {.share_equal = true};
	struct tarn_refit_info info = {0};
	tarn_tensor *b, *same, *old;
	tarn_refit *refit;

	refits_publish(ROWS, COLUMNS);
	old = found("b");
	refit = refits_refit(&options);
	put(refit, "a", refits_numbers(TARN_F32, ROWS, COLUMNS, 1));
	put(refit, "b", refits_numbers(TARN_F64, ROWS, COLUMNS, 2));
	b = refits_numbers(TARN_F32, ROWS, COLUMNS, 3);
	must(tarn_tensor_set_f64(b, (const int64_t[]) {ROWS - 1, 7}, 5000));
	must(tarn_refit_put(refit, "c", b));
	must(tarn_refit_commit(refit));
	tarn_refit_progress(refit, &info);
	check(info.names_shared == 2 && info.bytes_shared == 2 * BYTES &&
			info.names_changed == 1 && info.bytes_moved == BYTES,
		"two are shared and one is moved");
	tarn_refit_free(refit);
	same = found("b");
	check(tarn_tensor_same_storage(old, same),
		"an equal one is the old one");
	tarn_tensor_unref(same);
	same = found("c");
	check(equal(same, b), "one that differs in one element is new");
	tarn_tensor_unref(same);
	tarn_tensor_unref(b);
	/* The old tensor itself is equal without a look at its bytes. */
	refit = refits_refit(NULL);
	must(tarn_refit_put(refit, "b", old));
	must(tarn_refit_commit(refit));
	tarn_refit_progress(refit, &info);
	check(info.names_shared == 1 && !info.names_changed,
		"the old tensor is shared");
	tarn_refit_free(refit);
	tarn_tensor_unref(old);
}

/* ---- refusals ------------------------------------------------------------ */

void refits_refused(void)
{
	struct tarn_refit_options options = {.reserved = {1}};
	tarn_tensor *t = refits_numbers(TARN_F32, 10, 11, 1);
	tarn_refit *refit = NULL;

	check_failed(-ENOENT, "nothing is published below 'w/'",
		tarn_refit_begin(refits_store, "w", NULL, &refit),
		"a set that is not there");
	refits_publish(10, 10);
	check_failed(-EINVAL, "tarn_refit_options",
		tarn_refit_begin(refits_store, "w", &options, &refit),
		"a reserved word that is set");
	check_failed(-EINVAL, "prefix",
		tarn_refit_begin(refits_store, "w/", NULL, &refit),
		"a prefix with the slash");
	refit = refits_refit(NULL);
	check_failed(-ENOENT, "refit: 'x': the set has no tensor 'x'",
		tarn_refit_put(refit, "x", t), "a name that is not there");
	check_failed(-EINVAL,
		"'a': a tensor of shape [10, 11] was put, the set has one of "
		"shape [10, 10]",
		tarn_refit_put(refit, "a", t), "another shape");
	check_failed(-ENOENT, "no tensor '.fields'",
		tarn_refit_put(refit, TARN_SET_FIELDS, t), "the fields");
	tarn_tensor_unref(t);
	t = refits_numbers(TARN_F32, 10, 10, 5);
	must(tarn_refit_put(refit, "a", t));
	check_failed(-EEXIST, "'a': it was put already",
		tarn_refit_put(refit, "a", t), "a name twice");
	check_failed(-EEXIST, "'a': it was put already",
		tarn_refit_put_part(refit, "a", 0, t),
		"a part of what was put");
	commit(refit);
	refits_check("a", TARN_F32, 10, 10, 5, "after refusals");
	tarn_tensor_unref(t);
	tarn_refit_free(refits_refit(NULL));
	refit = refits_refit(NULL);
	commit(refit);
	refits_check("a", TARN_F32, 10, 10, 5, "after a commit of nothing");
}

void refits_added(void)
{
	const struct tarn_set_field field = {.key = "k", .value = "v"};
	const struct tarn_refit_options options = {
		.add = true, .fields = &field, .n_fields = 1, .device = where};
	tarn_tensor *t = refits_numbers(TARN_F16, 7, 5, 5);
	tarn_refit *refit = refits_refit(&options);

	must(tarn_refit_put(refit, "first", t));
	check_failed(-EINVAL, "name of the set's fields",
		tarn_refit_put(refit, TARN_SET_FIELDS, t), "the fields");
	check_failed(-ENOENT, "no tensor 'x'",
		tarn_refit_put_part(refit, "x", 0, t),
		"a part of a name that is not there");
	commit(refit);
	refits_check("first", TARN_F16, 7, 5, 5, "the first tensor of a set");
	check(tarn_set_check(refits_store, "w", &field, 1) == 0,
		"a new set has the fields");
	refit = refits_refit(&options);
	must(tarn_refit_put(refit, "second", t));
	commit(refit);
	refits_check("first", TARN_F16, 7, 5, 5, "an old tensor");
	refits_check("second", TARN_F16, 7, 5, 5, "an added tensor");
	tarn_tensor_unref(t);
}

/* ---- the end before the end ---------------------------------------------- */

void refits_aborted(void)
{
	const struct tarn_refit_options options = {.bucket_bytes = 1000000};
	tarn_refit *refit;
	uint64_t before;

	refits_publish(ROWS, COLUMNS);
	before = refits_kept();
	refit = refits_refit(&options);
	put(refit, "a", refits_numbers(TARN_F16, ROWS, COLUMNS, 50));
	put(refit, "b", placed(refits_numbers(TARN_F32, ROWS, COLUMNS, 50)));
	check(!tarn_refit_free(refit),
		"a refit is dropped with copies under way");
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "after an abort");
	refits_check_kept(before, "after an abort");
	for (int i = 0; i < 3; i++) {
		refit = refits_refit(&options);
		put(refit, "a", refits_numbers(TARN_F32, ROWS, COLUMNS, i));
		put(refit, "b", refits_numbers(TARN_F32, ROWS, COLUMNS, i));
		put(refit, "c", refits_numbers(TARN_F32, ROWS, COLUMNS, i));
		commit(refit);
	}
	refits_check_kept(before, "after three versions");
}

static tarn_tensor *file_of(tarn_tensor *t, FILE **ret_file)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	size_t n = (size_t)tarn_layout_nbytes(l);
	tarn_storage *storage;
	FILE *f = tmpfile();
	tarn_tensor *ret;

	if (!f || fwrite(tarn_tensor_data(t), 1, n, f) != n || fflush(f))
		bail("a temporary file: %m");
	must(tarn_storage_from_fd(fileno(f), 0, n, &storage));
	must(tarn_tensor_new(storage, 0, l, &ret));
	tarn_storage_unref(storage);
	*ret_file = f;
	return ret;
}

void refits_file(void)
{
	tarn_tensor *t = refits_numbers(TARN_BF16, ROWS, COLUMNS, 44);
	tarn_refit *refit;
	FILE *f;

	refits_publish(ROWS, COLUMNS);
	refit = refits_refit(NULL);
	put(refit, "a", file_of(t, &f));
	commit(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 44, "put from a file");
	tarn_tensor_unref(t);
	fclose(f);
}

/* A copy that fails ends the refit, and leaves the old version. */
void refits_file_shrinks(void)
{
	tarn_tensor *t = refits_numbers(TARN_F32, ROWS, COLUMNS, 44);
	tarn_tensor *in_file;
	tarn_refit *refit;
	uint64_t before;
	FILE *f;

	refits_publish(ROWS, COLUMNS);
	before = refits_kept();
	refit = refits_refit(NULL);
	in_file = file_of(t, &f);
	put(refit, "a", in_file);
	if (ftruncate(fileno(f), 4096) < 0)
		bail("ftruncate: %m");
	check_failed(-ENODATA, "refit: 'w/a': ", tarn_refit_flush(refit),
		"a file that shrinks");
	check_failed(-ENODATA, "after a failure", tarn_refit_put(refit, "b", t),
		"a tensor that is put after that");
	check_failed(-ENODATA, "after a failure", tarn_refit_commit(refit),
		"the commit after that");
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "after a failure");
	refits_check_kept(before, "after a failure");
	tarn_tensor_unref(t);
	fclose(f);
}

/* ---- killed -------------------------------------------------------------- */

/* A process that is killed with some buckets copied and one open. */
static void victim(void)
{
	const struct tarn_refit_options options = {.bucket_bytes = 2000000};
	struct tarn_cuda_device gpu;
	tarn_refit *refit;

	must(tarn_store_open(server.socket, NULL, &refits_store));
	if (where)
		must(tarn_cuda_device("0", &gpu));
	refit = refits_refit(&options);
	put(refit, "a", refits_numbers(TARN_F32, ROWS, COLUMNS, 50));
	put(refit, "b", refits_numbers(TARN_F32, ROWS, COLUMNS, 50));
	put_rows(refit, "c", 0, 10, COLUMNS);
	raise(SIGKILL);
}

/* The child opens its own store, and a driver: the parent, a copy of which it
 * is, has used neither. */
static void run_victim(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "case", "victim", server.socket,
			where ? "there" : "here", NULL);
		_exit(9);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("a process that is killed: %m");
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		"the publisher is killed: %#x", status);
}

void refits_killed(void)
{
	uint64_t before;
	tarn_refit *refit;

	refits_publish(ROWS, COLUMNS);
	before = refits_kept();
	for (int i = 0; i < 3; i++)
		run_victim();
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "after a kill");
	refits_check("c", TARN_F32, ROWS, COLUMNS, 3, "after a kill");
	refits_check_kept(before, "after a kill");
	refit = refits_refit(NULL);
	put(refit, "a", refits_numbers(TARN_F32, ROWS, COLUMNS, 20));
	commit(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 20, "after the next refit");
}

void refits_victim(const char *socket, bool there)
{
	static const struct tarn_cuda_device any;

	snprintf(server.socket, sizeof(server.socket), "%s", socket);
	where = there ? &any : NULL;
	victim();
}
