/* SPDX-License-Identifier: MIT */
/*
 * The storages of a set's old version, as patches of them see them: which of them
 * lie over each other, and what readers have mapped of all.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/set/refit.h"
#include "lib/store/patch.h"

/* The storage of the i-th name by range; NULL: it is the one's before. */
static tarn_storage *another(const struct tarn_refit *refit, size_t i)
{
	tarn_storage *storage = refit->by_range[i]->old->storage;

	return i && !refit_storage_order(
			    refit->by_range[i - 1]->old->storage, storage)
		       ? NULL
		       : storage;
}

tarn_storage *refit_tip(const struct tarn_refit *refit, tarn_storage *storage)
{
	for (size_t i = 0; i < refit->n_old; i++) {
		tarn_storage *other = another(refit, i);

		if (other && patch_levels_over(other, storage) > 0)
			storage = other;
	}
	return storage;
}

uint64_t refit_old_runs(const struct tarn_refit *refit)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < refit->n_old; i++) {
		const tarn_storage *storage = another(refit, i);
		const struct patched *patched =
			storage ? patched_of(storage) : NULL;

		sum += patched ? patched->runs : 0;
	}
	return sum;
}

static int by_begin(const void *a, const void *b)
{
	const struct refit_name *x = *(struct refit_name *const *)a;
	const struct refit_name *y = *(struct refit_name *const *)b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

int refit_note_same_place(
	const struct tarn_refit *refit, const tarn_storage *tip)
{
	_cleanup_free_ struct refit_name **names =
		calloc(refit->n_old + 1, sizeof(struct refit_name *));
	const tarn_storage *storage = NULL;
	uint64_t end = 0;
	bool below = false;
	size_t n = 0;

	if (!names)
		return tarn_fail(
			ENOMEM, "out of memory for %zu names", refit->n_old);
	for (size_t i = 0; i < refit->n_old; i++) {
		if (refit->by_range[i]->old->storage != storage) {
			storage = refit->by_range[i]->old->storage;
			below = patch_levels_over(tip, storage) >= 0;
		}
		if (below &&
			refit->by_range[i]->begin < refit->by_range[i]->end)
			names[n++] = refit->by_range[i];
	}
	qsort(names, n, sizeof(*names), by_begin);
	for (size_t i = 0; i < n; i++) {
		if (names[i]->begin < end)
			refit_note_overlap(
				names[i]->leader, names[i - 1]->leader);
		end = MAX(end, names[i]->end);
	}
	return 0;
}
