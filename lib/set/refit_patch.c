/* SPDX-License-Identifier: MIT */
/*
 * Sparse updates that make few pages new: patches (lib/store/patch.h).
 *
 * A set has one patch at most over each storage of its old version, for all
 * tensors there that change. In the old version some of these may lie in a patch
 * of that storage already, and others, which have not changed since, in the
 * storage itself. The new patch is over the newest of these, the tip, which has
 * the bytes of all of them; so storages do not grow in number with versions.
 *
 * An element is written when it is put, into a copy of its page, which is made for
 * the first one there. Copies lie in the patch's memory in the order in which they
 * are made; a commit puts them in that of their pages if that makes fewer runs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/layout.h"
#include "lib/set/elements.h"
#include "lib/set/refit.h"
#include "lib/store/created.h"
#include "lib/store/patch.h"

/* What a run costs each reader, beside its bytes: a mapping takes as long as
 * this many are copied. */
#define RUN_BYTES (16u << 10)
/* Of all patches of a set's old version and of its new one, which readers have mapped
 * at once: about two mappings each. A quarter of what a process may have. */
#define SET_RUNS_MAX (2 * PATCH_RUNS_MAX)
/* Of the pages of a tensor, and of a storage, that patches may have. */
#define TENSOR_SHARE 4u
#define STORAGE_SHARE 2u
/* Of 64 storages that a publication can have, with the buckets that there are; the
 * rest is for buckets to come. */
#define PATCHES_MAX 56u

struct refit_patch {
	struct refit_patch *next;
	tarn_storage *tip; /* a reference */
	bool possible;
	struct patch_base base;
	uint32_t *copies; /* of each page: the number of its copy + 1, or 0 */
	struct patch_maker maker;
	uint64_t n_runs; /* of all updates, at most */
	bool used;
	tarn_storage *made;
};

tarn_storage *refit_patch_storage(const struct refit_patch *patch)
{
	return patch->made;
}

/* ---- what it is over ----------------------------------------------------- */

static bool is_full(const struct tarn_refit *refit)
{
	return refit->n_patches + refit->n_buckets >= PATCHES_MAX;
}

static int patch_new(struct tarn_refit *refit, tarn_storage *storage,
	struct refit_patch **ret)
{
	struct refit_patch *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return tarn_fail_constant(ENOMEM, "out of memory for a patch");
	p->tip = refit_tip(refit, storage);
	r = refit_note_same_place(refit, p->tip);
	if (r < 0) {
		free(p);
		return r;
	}
	if (!refit->patches)
		refit->runs = refit_old_runs(refit);
	tarn_storage_ref(p->tip);
	p->possible = patch_may_be(refit->store, p->tip, &p->base) == 1;
	refit->n_patches += p->possible;
	p->next = refit->patches;
	refit->patches = p;
	*ret = p;
	return 0;
}

/* NULL: there are as many as there may be. */
static int patch_for(struct tarn_refit *refit, tarn_storage *storage,
	struct refit_patch **ret)
{
	struct refit_patch *p = refit->patches;

	while (p && p->tip != storage && patch_levels_over(p->tip, storage) < 0)
		p = p->next;
	*ret = p;
	return p || is_full(refit) ? 0 : patch_new(refit, storage, ret);
}

/* Runs of what it is over, which its readers map, too. */
static uint64_t runs_below(const struct refit_patch *p)
{
	const struct patched *below = patched_of(p->tip);

	return below ? below->runs : 0;
}

/* ---- a name's bytes ------------------------------------------------------ */

struct bytes {
	uint64_t begin, end; /* from page 0 on */
};

static struct bytes bytes_of(
	const struct refit_patch *p, const struct refit_name *name)
{
	return (struct bytes) {
		p->base.lead + name->begin, p->base.lead + name->end};
}

/* Those that lie in these pages. */
static struct bytes bytes_in(struct bytes b, uint64_t page, uint64_t n)
{
	return (struct bytes) {MAX(b.begin, page * PATCH_PAGE),
		MIN(b.end, (page + n) * PATCH_PAGE)};
}

static const unsigned char *at(
	const struct refit_patch *p, const tarn_storage *storage, uint64_t byte)
{
	return (const unsigned char *)storage->data + (byte - p->base.lead);
}

/* A name may have gone back to an older version, or stand for bytes that a patch
 * of another set has changed: are its own the tip's? */
static bool is_in_tip(
	const struct refit_patch *p, const struct refit_name *name)
{
	const tarn_storage *old = name->old->storage;
	const struct patched *patched = patched_of(p->tip);
	int over = patch_levels_over(p->tip, old);

	for (int i = 0; i < over; i++) {
		const struct patch *level =
			&patched->levels[patched->depth - 1 - (unsigned)i]
				 .patch;

		for (uint32_t k = 0; k < level->n_runs; k++) {
			struct bytes b = bytes_in(bytes_of(p, name),
				level->runs[k].first, level->runs[k].n);

			if (b.begin < b.end &&
				memcmp(at(p, p->tip, b.begin),
					at(p, old, b.begin), b.end - b.begin))
				return false;
		}
	}
	return over >= 0;
}

/* ---- copies of pages ----------------------------------------------------- */

static unsigned char *copy_at(const struct refit_patch *p, uint64_t page)
{
	return p->maker.map + (uint64_t)(p->copies[page] - 1) * PATCH_PAGE;
}

/* What the storage has there; others' bytes in its first and last page, where
 * those of a pool have some, stay zeros. */
static void copy_bytes(
	const struct refit_patch *p, uint64_t page, unsigned char *to)
{
	struct bytes all = {
		p->base.lead, p->base.lead + tarn_storage_size(p->tip)};
	struct bytes b = bytes_in(all, page, 1);

	if (b.end - b.begin < PATCH_PAGE)
		memset(to, 0, PATCH_PAGE);
	memcpy(to + b.begin % PATCH_PAGE, at(p, p->tip, b.begin),
		b.end - b.begin);
}

/* An update that is being written. */
struct update {
	const struct tarn_refit *refit;
	struct refit_patch *patch;
	uint64_t left; /* pages that may still be copied */
	int error;     /* 0: none are left */
};

static unsigned char *page_of(void *arg, uint64_t page)
{
	struct update *u = arg;
	struct refit_patch *p = u->patch;
	int64_t n;

	if (p->copies[page])
		return copy_at(p, page);
	if (!u->left)
		return NULL;
	n = patch_take(&p->maker, u->refit->store);
	if (n < 0) {
		u->error = (int)n;
		return NULL;
	}
	u->left--;
	p->copies[page] = (uint32_t)n + 1;
	copy_bytes(p, page, copy_at(p, page));
	return copy_at(p, page);
}

/* Frees the copies that the update of a name has made, and restores the name's bytes
 * in those of others: the name may be put once more. n: copies that there were
 * before. */
static void undo(
	struct refit_patch *p, const struct refit_name *name, uint32_t n)
{
	struct bytes all = bytes_of(p, name);

	for (uint64_t i = all.begin / PATCH_PAGE; i * PATCH_PAGE < all.end;
		i++) {
		struct bytes b = bytes_in(all, i, 1);

		if (p->copies[i] > n)
			p->copies[i] = 0;
		else if (p->copies[i])
			memcpy(copy_at(p, i) + b.begin % PATCH_PAGE,
				at(p, p->tip, b.begin), b.end - b.begin);
	}
	p->maker.n = n;
}

/* ---- is it worth it? ----------------------------------------------------- */

/* The next run of copies from page i on, before page end. In order: as far as
 * they lie next to each other in the memory, too. */
static bool next_run(const uint32_t *copies, uint64_t i, uint64_t end,
	bool in_order, struct patch_run *ret)
{
	uint64_t n = 1;

	while (i < end && !copies[i])
		i++;
	if (i == end)
		return false;
	while (i + n < end && copies[i + n] &&
		(!in_order || copies[i + n] == copies[i] + n))
		n++;
	*ret = (struct patch_run) {
		.first = (uint32_t)i, .n = (uint32_t)n, .at = copies[i] - 1};
	return true;
}

static uint64_t count_runs(
	const uint32_t *copies, uint64_t first, uint64_t end, bool in_order)
{
	struct patch_run run = {.first = (uint32_t)first};
	uint64_t n = 0;

	while (next_run(copies, run.first + run.n, end, in_order, &run))
		n++;
	return n;
}

static uint64_t left_of(uint64_t all, uint64_t taken)
{
	return all - MIN(taken, all);
}

/* Runs that there may be, beside those of other updates and of what is below; the
 * bytes of a name buy some. */
static uint64_t most_runs(const struct tarn_refit *refit,
	const struct refit_patch *p, const struct refit_name *name)
{
	uint64_t left = left_of(PATCH_RUNS_MAX, p->n_runs + runs_below(p));
	uint64_t in_set = refit->runs + (p->used ? 0 : runs_below(p));

	left = MIN(left, left_of(SET_RUNS_MAX, in_set));
	return MIN(left, (name->end - name->begin) / TENSOR_SHARE / RUN_BYTES);
}

static uint64_t most_pages(
	const struct refit_patch *p, const struct refit_name *name)
{
	const struct patched *below = patched_of(p->tip);
	uint64_t taken = p->maker.n + (below ? below->pages : 0);

	return MIN(left_of(p->base.pages / STORAGE_SHARE, taken),
		(name->end - name->begin) / TENSOR_SHARE / PATCH_PAGE);
}

/* ---- putting ------------------------------------------------------------- */

/* 1: it is written; 0: that would make more pages or runs new than pays. */
static int write(struct tarn_refit *refit, struct refit_patch *p,
	const struct refit_name *name, const struct elements *e)
{
	struct bytes b = bytes_of(p, name);
	const struct elements_place place = {
		.start = p->base.lead + name->old->base +
			 (uint64_t)name->old->layout.offset * e->size,
		.first = b.begin / PATCH_PAGE,
		.n = (b.end - 1) / PATCH_PAGE + 1 - b.begin / PATCH_PAGE};
	struct update u = {
		.refit = refit, .patch = p, .left = most_pages(p, name)};
	uint32_t n = p->maker.n;
	uint64_t runs = 0;
	int r;

	if (elements_guess_pages(e, &place) > 2 * u.left)
		return 0;
	r = elements_write_pages(e, &place, page_of, &u);
	if (r == 1)
		r = u.error;
	else if (r == 0) {
		runs = count_runs(
			p->copies, place.first, place.first + place.n, false);
		r = runs <= most_runs(refit, p, name);
	}
	if (r != 1) {
		undo(p, name, n);
		return r;
	}
	refit->runs += runs + (p->used ? 0 : runs_below(p));
	p->n_runs += runs;
	p->used = true;
	return 1;
}

/* What others overlap in part becomes new for each of them alone. */
static bool can_be_patched(const struct refit_name *name)
{
	return name->old->storage->data && !name->leader->overlapped &&
	       !tarn_layout_overlaps_itself(&name->old->layout);
}

/* A commit has begun to make it, and has failed. */
static bool is_made(const struct refit_patch *p)
{
	return p->made || p->maker.sealed;
}

int refit_patch_put(struct tarn_refit *refit, struct refit_name *name,
	const tarn_tensor *positions, const tarn_tensor *values)
{
	struct refit_patch *p = NULL;
	struct elements e;
	int r;

	if (refit->whole || !positions->layout.shape[0] ||
		!can_be_patched(name))
		return 0;
	r = patch_for(refit, name->old->storage, &p);
	if (r < 0 || !p || !p->possible || is_made(p) ||
		name->leader->overlapped || !is_in_tip(p, name))
		return MIN(r, 0);
	if (!p->copies)
		p->copies = calloc(p->base.pages, sizeof(*p->copies));
	if (!p->copies)
		return tarn_fail_constant(
			ENOMEM, "out of memory for the pages of a patch");
	elements_of(positions, values, &name->old->layout, &e);
	r = write(refit, p, name, &e);
	if (r != 1)
		return r;
	name->leader->taken = name;
	name->leader->patch = p;
	refit->untaken -= refit_room(name->leader);
	return 1;
}

/* ---- making them --------------------------------------------------------- */

static struct patch_run *list_runs(
	const struct refit_patch *p, bool in_order, uint32_t *ret_n)
{
	uint64_t n = count_runs(p->copies, 0, p->base.pages, in_order);
	struct patch_run *runs = calloc(n + 1, sizeof(*runs));
	struct patch_run run = {.first = 0};

	*ret_n = 0;
	while (runs && next_run(p->copies, run.first + run.n, p->base.pages,
			       in_order, &run))
		runs[(*ret_n)++] = run;
	return runs;
}

/* Copies of the copies, in the order of their pages. Until all of them are there
 * the old ones count. */
static int sort_copies(const struct tarn_refit *refit, struct refit_patch *p)
{
	struct patch_maker sorted = {.map = NULL};
	uint32_t sum = 0;

	for (uint64_t i = 0; i < p->base.pages; i++) {
		int64_t n;

		if (!p->copies[i])
			continue;
		n = patch_take(&sorted, refit->store);
		if (n < 0) {
			patch_drop(&sorted);
			return (int)n;
		}
		memcpy(sorted.map + n * PATCH_PAGE, copy_at(p, i), PATCH_PAGE);
	}
	for (uint64_t i = 0; i < p->base.pages; i++)
		if (p->copies[i])
			p->copies[i] = ++sum;
	patch_drop(&p->maker);
	p->maker = sorted;
	return 0;
}

/* Updates were counted as if they were in order. */
static int order(const struct tarn_refit *refit, struct refit_patch *p)
{
	uint64_t n = count_runs(p->copies, 0, p->base.pages, true);
	uint64_t least = count_runs(p->copies, 0, p->base.pages, false);

	return n > least + least / 2 || n > PATCH_RUNS_MAX
		       ? sort_copies(refit, p)
		       : 0;
}

static int make(struct tarn_refit *refit, struct refit_patch *p)
{
	_cleanup_free_ struct patch_run *runs = NULL;
	uint64_t bytes = (uint64_t)p->maker.n * PATCH_PAGE;
	uint32_t n_runs;
	int r = order(refit, p);

	if (r < 0)
		return r;
	runs = list_runs(p, true, &n_runs);
	if (!runs)
		return tarn_fail_constant(
			ENOMEM, "out of memory for the runs of a patch");
	r = patch_end(&p->maker, refit->store, p->tip, runs, n_runs, &p->made);
	if (r >= 0)
		refit->info.bytes_moved += bytes;
	return r;
}

int refit_patches_make(struct tarn_refit *refit)
{
	int r = 0;

	for (struct refit_patch *p = refit->patches; r >= 0 && p; p = p->next)
		if (p->used && !p->made)
			r = make(refit, p);
	return r;
}

bool refit_patches_copy(struct tarn_refit *refit)
{
	bool any = false;

	for (size_t i = 0; i < refit->n; i++) {
		const struct refit_name *leader = refit->names[i]->leader;

		if (leader->patch && refit_needs_adoption(leader))
			return false;
		any = any || leader->patch;
	}
	for (struct refit_patch *p = refit->patches; any && p; p = p->next)
		if (p->made)
			created_spend(p->made);
	return any;
}

void refit_patches_done(struct tarn_refit *refit)
{
	struct refit_patch *p;

	while ((p = refit->patches)) {
		refit->patches = p->next;
		tarn_storage_unref(p->tip);
		tarn_storage_unref(p->made);
		patch_drop(&p->maker);
		free(p->copies);
		free(p);
	}
}
