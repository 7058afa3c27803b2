/* SPDX-License-Identifier: MIT */
/* What a new version takes from the old one. */
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
		positions = refits_placed(positions);
		values = refits_placed(values);
	}
	r = tarn_refit_sparse(refit, name, positions, values);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	return r;
}

static void check_sparse(const char *name, tarn_tensor *wanted,
	const double *at, const double *to, int64_t n, int64_t columns)
{
	tarn_tensor *t = refits_found(name);

	for (int64_t i = 0; i < n; i++) {
		const int64_t index[] = {
			(int64_t)at[i] / columns, (int64_t)at[i] % columns};

		must(tarn_tensor_set_f64(wanted, index, to[i]));
	}
	check(refits_equal(t, wanted),
		"the old numbers of '%s' and %lld new ones", name,
		(long long)n);
	tarn_tensor_unref(t);
	tarn_tensor_unref(wanted);
}

/* "t" is transposed, and "p" has gaps. */
void refits_sparse(void)
{
	static const char *const names[] = {"a", "t", "p", "e"};
	static const double at[] = {0, 5, 119, 60, 7},
			    to[] = {1, -2, 3, 200, 5};
	tarn_tensor *a = refits_created(12, 10, 1),
		    *b = refits_created(10, 12, 2);
	tarn_tensor *c = refits_created(12, 20, 3), *whole;
	tarn_tensor *t[] = {a, refits_view(b, ".transpose(0, 1)"),
		refits_view(c, "[:, ::2]"), refits_created(12, 10, 4)};
	tarn_refit *refit;

	refits_publish_all(names, t, 4, NULL);
	tarn_tensor_unref(b);
	tarn_tensor_unref(c);
	refit = refits_refit(NULL);
	must(put_sparse(refit, "a", TARN_I64, at, to, 5, true));
	must(put_sparse(refit, "t", TARN_I32, at, to, 5, false));
	must(put_sparse(refit, "p", TARN_I64, at, to, 5, false));
	must(put_sparse(refit, "e", TARN_I32, at, to, 0, true));
	refits_commit(refit);
	check_sparse("a", refits_numbers(TARN_F32, 12, 10, 1), at, to, 5, 10);
	whole = refits_numbers(TARN_F32, 10, 12, 2);
	check_sparse(
		"t", refits_view(whole, ".transpose(0, 1)"), at, to, 5, 10);
	tarn_tensor_unref(whole);
	whole = refits_numbers(TARN_F32, 12, 20, 3);
	check_sparse("p", refits_view(whole, "[:, ::2]"), at, to, 5, 10);
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
	refits_commit(refit);
	check_sparse("a", refits_numbers(TARN_F32, 12, 10, 1), good, to, 3, 10);
}

/* ---- ties ---------------------------------------------------------------- */

/* Large enough that the store shares them: "head" is "embed", and "turned" the same bytes in another order. */
void refits_ties(void)
{
	static const char *const names[] = {"embed", "head", "turned", "other"};
	tarn_tensor *a = refits_created(ROWS, COLUMNS, 1), *embed, *head,
		    *turned, *back;
	tarn_tensor *t[] = {a, refits_view(a, "[:]"),
		refits_view(a, ".transpose(0, 1)"),
		refits_created(ROWS, COLUMNS, 2)};
	tarn_refit *refit;

	refits_publish_all(names, t, 4, NULL);
	refit = refits_refit(NULL);
	refits_put(refit, "head", refits_numbers(TARN_F32, ROWS, COLUMNS, 9));
	embed = refits_numbers(TARN_F32, ROWS, COLUMNS, 9);
	check_failed(-EEXIST, "'embed': it shares its bytes with 'w/head'",
		tarn_refit_put(refit, "embed", embed), "a tied name twice");
	tarn_tensor_unref(embed);
	refits_commit(refit);
	refits_check("head", TARN_F32, ROWS, COLUMNS, 9, "put");
	refits_check(
		"embed", TARN_F32, ROWS, COLUMNS, 9, "tied to what was put");
	embed = refits_found("embed");
	head = refits_found("head");
	turned = refits_found("turned");
	back = refits_view(turned, ".transpose(0, 1)");
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

static void check_tied(const char *one, const char *other)
{
	tarn_tensor *a = refits_found(one), *b = refits_found(other);

	check(tarn_tensor_same_storage(a, b) &&
			tarn_tensor_base(a) == tarn_tensor_base(b),
		"'%s' is tied to '%s'", one, other);
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
}

/* "b" is the first and the last of the elements that "a" and "c" have. */
void refits_ties_apart(void)
{
	static const char *const names[] = {"a", "b", "c"};
	tarn_tensor *a = refits_created(ROWS * COLUMNS, 1, 1);
	tarn_tensor *t[] = {
		a, refits_view(a, "[::599999]"), refits_view(a, "[:]")};
	tarn_refit *refit;

	refits_publish_all(names, t, 3, NULL);
	refit = refits_refit(NULL);
	refits_put(refit, "a", refits_numbers(TARN_F32, ROWS * COLUMNS, 1, 9));
	refits_put(refit, "b", refits_numbers(TARN_F32, 2, 1, 9));
	refits_commit(refit);
	refits_check("c", TARN_F32, ROWS * COLUMNS, 1, 9, "tied to 'a'");
	check_tied("a", "c");
}

/* A bucket that has small memory already cannot keep names tied. */
void refits_ties_late(void)
{
	static const char *const names[] = {"x", "y"};
	const struct tarn_refit_options options = {
		.add = true, .bucket_bytes = 65536};
	tarn_tensor *a = refits_created(ROWS, COLUMNS, 1);
	tarn_tensor *t[] = {refits_view(a, "[:10]"), refits_view(a, "[:10]")};
	tarn_refit *refit;

	refits_publish_all(names, t, 2, NULL);
	tarn_tensor_unref(a);
	refit = refits_refit(&options);
	refits_put(refit, "new", refits_numbers(TARN_F32, 10, 10, 4));
	must(tarn_refit_flush(refit));
	refits_put(refit, "x", refits_numbers(TARN_F32, 10, COLUMNS, 9));
	refits_commit(refit);
	refits_check("y", TARN_F32, 10, COLUMNS, 9, "tied to 'x'");
	check_tied("x", "y");
}

/* "q" and "k" are rows of "qk"; "even" and "odd" are columns, which share no
 * byte. */
void refits_overlaps(void)
{
	static const char *const names[] = {"qk", "q", "even", "odd"};
	tarn_tensor *a = refits_created(ROWS, COLUMNS, 1),
		    *b = refits_created(ROWS, COLUMNS, 2);
	tarn_tensor *t[] = {a, refits_view(a, "[:500]"),
		refits_view(b, "[:, ::2]"), refits_view(b, "[:, 1::2]")};
	tarn_refit *refit;

	refits_publish_all(names, t, 4, NULL);
	tarn_tensor_unref(b);
	refit = refits_refit(NULL);
	refits_put(refit, "q", refits_numbers(TARN_F32, ROWS / 2, COLUMNS, 9));
	refits_put(
		refit, "odd", refits_numbers(TARN_F32, ROWS, COLUMNS / 2, 8));
	check_failed(-EINVAL,
		"'w/q' shares some of its bytes with 'w/qk', which was not put",
		tarn_refit_commit(refit), "a part of what another name has");
	refits_put(refit, "qk", refits_numbers(TARN_F32, ROWS, COLUMNS, 9));
	refits_commit(refit);
	refits_check("qk", TARN_F32, ROWS, COLUMNS, 9, "put");
	refits_check("q", TARN_F32, ROWS / 2, COLUMNS, 9, "put");
	refits_check("odd", TARN_F32, ROWS, COLUMNS / 2, 8, "put");
}

/* ---- equal tensors ------------------------------------------------------- */

void refits_sharing(void)
{
	const struct tarn_refit_options options = {.share_equal = true};
	struct tarn_refit_info info = {0};
	tarn_tensor *b, *same, *old;
	tarn_refit *refit;

	refits_publish(ROWS, COLUMNS);
	old = refits_found("b");
	refit = refits_refit(&options);
	refits_put(refit, "a", refits_numbers(TARN_F32, ROWS, COLUMNS, 1));
	refits_put(refit, "b", refits_numbers(TARN_F64, ROWS, COLUMNS, 2));
	b = refits_numbers(TARN_F32, ROWS, COLUMNS, 3);
	must(tarn_tensor_set_f64(b, (const int64_t[]) {ROWS - 1, 7}, 5000));
	must(tarn_refit_put(refit, "c", b));
	must(tarn_refit_commit(refit));
	tarn_refit_progress(refit, &info);
	check(info.names_shared == 2 && info.bytes_shared == 2 * BYTES &&
			info.names_changed == 1 && info.bytes_moved == BYTES,
		"two are shared and one is moved");
	tarn_refit_free(refit);
	same = refits_found("b");
	check(tarn_tensor_same_storage(old, same),
		"an equal one is the old one");
	tarn_tensor_unref(same);
	same = refits_found("c");
	check(refits_equal(same, b), "one that differs in one element is new");
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
