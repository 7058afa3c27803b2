/* SPDX-License-Identifier: MIT */
/*
 * The digests of a set's next version: those of tensors that have not changed are
 * the old ones. What was published under a name of the set after its fields, as a
 * single tensor, is not what they have a digest of: that is made now. A digest is a
 * sum over words, so that of a patch is made from the old one and the pages that
 * have changed.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/set/digests.h"
#include "lib/number/word_sums.h"
#include "lib/set/refit.h"
#include "lib/store/patch.h"

/* NULL: the old version has none. */
static const struct tarn_snapshot_item *find_fields(
	const struct tarn_refit *refit)
{
	size_t lead = strlen(refit->prefix);

	for (size_t i = 0; i < refit->old->n; i++)
		if (!strcmp(refit->old->items[i].name + lead, TARN_SET_FIELDS))
			return &refit->old->items[i];
	return NULL;
}

int refit_old_fields(
	const struct tarn_refit *refit, struct tarn_set_fields **ret)
{
	const struct tarn_snapshot_item *fields = find_fields(refit);

	return fields ? tarn_set_fields_of(fields->tensor, ret) : 0;
}

/* The tensor of a name of the new version; 1: there is none. */
static int tensor_of(const struct refit_name *name, tarn_tensor **ret)
{
	if (refit_is_changed(name))
		return refit_fresh(name, ret);
	if (!name->old)
		return 1;
	*ret = tarn_tensor_ref(name->old);
	return 0;
}

/* ---- of a patch ---------------------------------------------------------- */

/* Adds the words of a tensor that lie in its bytes from one on to another, in
 * part or whole. */
static void add_words(struct word_sums *sums, const unsigned char *bytes,
	uint64_t size, uint64_t from, uint64_t to)
{
	uint64_t first = from / 8, whole = MIN((to + 7) / 8, size / 8);
	unsigned char last[8] = {0};

	if (first < whole)
		word_sums_add(sums, bytes + first * 8, whole - first, first);
	if (to <= size / 8 * 8)
		return;
	memcpy(last, bytes + size / 8 * 8, size % 8);
	word_sums_add(sums, last, 1, size / 8);
}

/* The next pages of a patch from run *i on that lie side by side: their first byte,
 * counted from the storage's, and the one behind them. */
static void next_pages(const struct patch *patch, uint64_t lead, uint32_t *i,
	uint64_t *ret_from, uint64_t *ret_to)
{
	const struct patch_run *run = &patch->runs[*i];
	uint64_t from = (uint64_t)run->first * PATCH_PAGE, to = from;

	while (*i < patch->n_runs &&
		(uint64_t)patch->runs[*i].first * PATCH_PAGE == to)
		to += (uint64_t)patch->runs[(*i)++].n * PATCH_PAGE;
	*ret_from = MAX(from, lead) - lead;
	*ret_to = to - lead;
}

static struct tarn_digest digest_of_patch(const struct refit_name *name,
	const tarn_tensor *new, const struct tarn_digest *before)
{
	const unsigned char *a = tarn_tensor_data(name->old);
	const unsigned char *b = tarn_tensor_data(new);
	const struct patched *p = patched_of(new->storage);
	const struct patch *patch = &p->levels[p->depth - 1].patch;
	uint64_t size = name->end - name->begin, from, to;
	uint64_t lead = (uintptr_t) new->storage->data % PATCH_PAGE;
	struct word_sums was = {0, 0}, is = {0, 0};
	struct tarn_digest d = *before;

	for (uint32_t i = 0; i < patch->n_runs;) {
		next_pages(patch, lead, &i, &from, &to);
		from = MAX(from, name->begin);
		to = MIN(to, name->end);
		if (from >= to)
			continue;
		add_words(&was, a, size, from - name->begin, to - name->begin);
		add_words(&is, b, size, from - name->begin, to - name->begin);
	}
	d.word[0] += is.a - was.a;
	d.word[1] += is.b - was.b;
	return d;
}

static bool is_patch(const struct refit_name *name)
{
	return refit_is_changed(name) && name->leader->patch &&
	       tarn_layout_is_contiguous(&name->old->layout);
}

/* ---- of all --------------------------------------------------------------- */

/* The digest of a name of the new version; 1: there is no tensor. commit: of the
 * old fields. */
static int digest_of(const struct tarn_refit *refit,
	const struct refit_name *name, const struct tarn_set_fields *old,
	uint64_t commit, struct set_digest *ret)
{
	const struct tarn_copy_options options = {
		.cuda_stream = refit->cuda_stream};
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	const struct set_digest *before;
	int r;

	ret->name = name->name + strlen(refit->prefix);
	before = set_digest_find(old, ret->name);
	if (before && !refit_is_changed(name) && name->old &&
		name->commit <= commit) {
		ret->digest = before->digest;
		return 0;
	}
	r = tensor_of(name, &tensor);
	if (r == 0 && before && name->commit <= commit && is_patch(name))
		ret->digest = digest_of_patch(name, tensor, &before->digest);
	else if (r == 0)
		r = tarn_tensor_digest(tensor, &options, &ret->digest);
	return r < 0 ? tarn_fail_prefix(r, "'%.200s': ", name->name) : r;
}

/* The fields of the new version, from those of the old one, which has some with
 * digests. */
static int with_digests(const struct tarn_refit *refit,
	const struct tarn_set_fields *old, tarn_tensor **ret)
{
	const uint64_t commit = find_fields(refit)->commit;
	_cleanup_free_ struct set_digest *digests = NULL;
	struct tarn_set_fields form = *old;
	int r = set_digests_new(refit->n, &digests);

	form.digests = digests;
	form.n_digests = 0;
	for (size_t i = 0; r >= 0 && i < refit->n; i++) {
		r = digest_of(refit, refit->names[i], old, commit,
			&digests[form.n_digests]);
		form.n_digests += r == 0;
	}
	return r < 0 ? r : set_form_write(&form, ret);
}

int refit_renew_digests(struct tarn_refit *refit)
{
	_cleanup_fields_ struct tarn_set_fields *old = NULL;
	tarn_tensor *fields = NULL;
	bool changed = refit->fields;
	int r;

	for (size_t i = 0; !changed && i < refit->n; i++)
		changed = refit_is_changed(refit->names[i]);
	if (!changed)
		return 0;
	r = refit->fields ? tarn_set_fields_of(refit->fields, &old)
			  : refit_old_fields(refit, &old);
	/* What cannot be read has no digests, and stays as it is. */
	if (r < 0 || !old || !old->n_digests)
		return r == -EBADMSG ? 0 : MIN(r, 0);
	r = with_digests(refit, old, &fields);
	if (r < 0)
		return r;
	tarn_tensor_unref(refit->fields);
	refit->fields = fields;
	return 0;
}
