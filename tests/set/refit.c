/* SPDX-License-Identifier: MIT */
/* Refits of sets in memory. Each behaviour is a set of checks. */
#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "lib/set/rows.h"
#include "tests/cuda/cases.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"
#include "tests/set/refits.h"

/* Without digests, and with them. */
static void in_memory(void (*behaviour)(void), const char *what)
{
	int before = check_failures();

	for (int i = 0; i < 2; i++) {
		refits_digests = i;
		refits_begin(NULL, NULL);
		behaviour();
		refits_end();
	}
	is_int(before, check_failures(), "%s", what);
}

/* ---- rows ---------------------------------------------------------------- */

/* Against one flag a row. */
static void test_rows(void)
{
	enum { MANY = 60 };
	unsigned state = 1, bad = 0;

	for (int i = 0; i < 2000; i++) {
		bool there[MANY + 1] = {false};
		struct set_rows rows = {.n = 0};
		struct set_range missing;

		for (int k = 0; k < 40; k++) {
			int64_t begin, end, first = -1, seen = -1, at = 0;
			int r;

			state = state * 1664525u + 1013904223u;
			begin = (state >> 8) % MANY;
			end = MIN(begin + (state >> 20) % 5, MANY);
			for (int64_t j = end - 1; j >= begin; j--)
				first = there[j] ? j : first;
			r = must(set_rows_add(&rows, begin, end, &seen));
			bad += r != (first >= 0) || (r && seen != first);
			for (int64_t j = begin; !r && j < end; j++)
				there[j] = true;
			while (at < MANY && there[at])
				at++;
			bad += set_rows_missing(&rows, MANY, &missing) !=
			       (at < MANY);
			bad += at < MANY && missing.begin != at;
			while (at < MANY && !there[at])
				at++;
			bad += missing.begin < MANY && missing.end != at;
		}
		set_rows_free(&rows);
	}
	is_int(0, bad, "ranges of rows are what flags would be");
}

/* ---- the daemon's budget ------------------------------------------------- */

/* 3 times 12 MB fit into it, and 2 more do not. */
static void budget(void)
{
	enum { MORE = 5 * ROWS };
	tarn_tensor *t = refits_numbers(TARN_F32, MORE, COLUMNS, 60);
	tarn_refit *refit;
	uint64_t before;

	refits_publish(MORE, COLUMNS);
	before = refits_kept();
	refit = refits_refit(NULL);
	must(tarn_refit_put(refit, "a", t));
	must(tarn_refit_put(refit, "b", t));
	check_failed(-ENOSPC, "refit: ", tarn_refit_commit(refit),
		"a version that the daemon's budget does not hold");
	check_failed(-ENOSPC, "refit: ", tarn_refit_commit(refit),
		"the same once more");
	refits_check("a", TARN_F32, MORE, COLUMNS, 1, "after that");
	tarn_refit_free(refit);
	must(tarn_store_remove(refits_store, "w/c"));
	refits_check_kept(before / 3 * 2, "without a name");
	refit = refits_refit(NULL);
	must(tarn_refit_put(refit, "a", t));
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, MORE, COLUMNS, 60, "what it holds");
	tarn_tensor_unref(t);
}

/* What is put between two commits has its digest, too. */
static void repeated(void)
{
	enum { MORE = 5 * ROWS };
	const struct tarn_refit_options share = {.share_equal = true};
	tarn_tensor *other = refits_created(MORE, COLUMNS, 4);
	tarn_refit *refit;

	refits_digests = true;
	refits_publish(MORE, COLUMNS);
	must(tarn_store_publish_one(refits_store, "x", other, NULL, NULL));
	tarn_tensor_unref(other);
	refit = refits_refit(&share);
	refits_put(refit, "a", refits_numbers(TARN_F32, MORE, COLUMNS, 60));
	check_failed(-ENOSPC, "refit: ", tarn_refit_commit(refit),
		"a version for which others leave no room");
	must(tarn_store_remove(refits_store, "x"));
	refits_put(refit, "b", refits_numbers(TARN_F32, MORE, COLUMNS, 2));
	refits_commit(refit);
	refits_check("a", TARN_F32, MORE, COLUMNS, 60, "put before it failed");
}

static void one_small(void)
{
	static const char *const names[] = {"a"};
	tarn_tensor *t = refits_numbers(TARN_F32, 1, 1, 1);
	tarn_refit *refit;

	refits_publish_all(names, &t, 1, NULL);
	refit = refits_refit(NULL);
	refits_put(refit, "a", refits_numbers(TARN_F32, 1, 1, 2));
	refits_commit(refit);
	check(refits_kept() < TARN_ADOPT_MIN,
		"4 bytes do not take %llu of memory",
		(unsigned long long)refits_kept());
}

static void test_budget(void)
{
	int before = check_failures();

	refits_begin(NULL, "48M");
	budget();
	refits_end();
	refits_begin(NULL, "48M");
	repeated();
	refits_end();
	is_int(before, check_failures(),
		"a version beyond the budget leaves the old one");
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "victim"))
		refits_victim(argv[2], false);
	test_rows();
	in_memory(refits_versions, "a version is made beside the old one");
	in_memory(refits_fields, "fields change with the tensors");
	in_memory(refits_buckets, "tensors lie together in buckets");
	in_memory(refits_parts, "a tensor is put in rows");
	in_memory(refits_sparse, "a tensor is put by positions and values");
	in_memory(refits_sparse_refused, "positions are checked");
	in_memory(refits_ties, "tied names stay tied");
	in_memory(refits_ties_apart, "tied names are found behind others");
	in_memory(refits_ties_late, "tied names get memory that is adopted");
	in_memory(one_small, "a small tensor takes little memory");
	in_memory(refits_small, "many small tensors are in few buckets");
	in_memory(refits_packs, "parts of packed elements are whole bytes");
	in_memory(refits_overlaps, "names that share some bytes go together");
	in_memory(refits_sharing, "equal tensors are shared");
	in_memory(refits_refused, "what is wrong is refused with a sentence");
	in_memory(refits_added, "names are added");
	in_memory(refits_overtaken,
		"a commit leaves what others have published meanwhile");
	in_memory(refits_aborted, "an abort leaves nothing");
	in_memory(refits_file, "tensors come from files");
	in_memory(refits_file_shrinks,
		"a copy that fails leaves the old version");
	in_memory(refits_killed, "a kill leaves the old version");
	test_budget();
	return done(23);
}
