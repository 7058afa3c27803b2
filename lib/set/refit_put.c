/* SPDX-License-Identifier: MIT */
/* Tensors and parts of tensors become those of the next version. */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/layout.h"
#include "lib/set/refit.h"

int refit_find_free(
	struct tarn_refit *refit, const char *name, struct refit_name **ret)
{
	int r = refit_find(refit, name, ret);
	const struct refit_name *by = r < 0 ? NULL : (*ret)->leader->taken;

	if (by == *ret && by)
		return tarn_fail(EEXIST, "it was put already");
	if (by)
		return tarn_fail(EEXIST,
			"it shares its bytes with '%.200s', which was put "
			"already: put one of them",
			by->name);
	return r;
}

int refit_take(struct tarn_refit *refit, struct refit_name *name, bool holds)
{
	int r = refit_place(refit, name->leader);

	if (r < 0)
		return r;
	if (holds)
		r = refit_reserve(refit, name->leader);
	if (r == -ENOMEM && refit_make_room(refit) == 1)
		r = refit_reserve(refit, name->leader);
	if (r < 0)
		refit_unplace(refit, name->leader);
	else
		name->leader->taken = name;
	return r;
}

/* ---- whole tensors ------------------------------------------------------- */

static int check_shape(
	const struct refit_name *name, const struct tarn_layout *new)
{
	const struct tarn_layout *old = &name->layout;

	if (new->ndim == old->ndim &&
		!memcmp(new->shape, old->shape,
			(size_t)old->ndim * sizeof(old->shape[0])))
		return 0;
	return tarn_fail(EINVAL,
		"a tensor of shape %s was put, the set has one of shape %s",
		LAYOUT_TEXT(new), LAYOUT_TEXT(old));
}

/* Is the old one where the new one shall be? */
static bool may_stay(
	const struct tarn_refit *refit, const struct refit_name *name)
{
	struct set_place place;

	if (!name->old || !refit->has_place)
		return name->old;
	place = set_place_of(name->old);
	return set_place_same(&place, &refit->place);
}

static bool is_old(const struct refit_name *name, const tarn_tensor *tensor)
{
	return tensor->storage == name->old->storage &&
	       tensor->base == name->old->base &&
	       tarn_layout_equal(&tensor->layout, &name->old->layout);
}

/* 1: the tensor has the old one's bytes. What has another dtype is converted
 * first, and is then a tensor of its own. */
static int equals(const struct tarn_refit *refit, const struct refit_name *name,
	tarn_tensor **tensor)
{
	const struct tarn_copy_options options = {
		.cuda_stream = refit->cuda_stream};
	const enum tarn_dtype dtype = name->layout.dtype;
	struct set_place place = set_place_of(name->old);
	struct tarn_digest a, b;
	tarn_tensor *cast;
	int r = 0;

	if ((*tensor)->layout.dtype != dtype) {
		r = set_place_copy(
			&place, *tensor, dtype, refit->cuda_stream, &cast);
		if (r < 0)
			return r;
		tarn_tensor_unref(*tensor);
		*tensor = cast;
	}
	r = tarn_tensor_digest(*tensor, &options, &a);
	if (r >= 0)
		r = tarn_tensor_digest(name->old, &options, &b);
	return r < 0 ? r : !memcmp(&a, &b, sizeof(a));
}

static void keep(struct tarn_refit *refit, struct refit_name *name)
{
	name->leader->taken = name;
	name->leader->kept = true;
	refit->untaken -= refit_room(name->leader);
	refit->info.bytes_shared += name->leader->size;
	refit->info.names_shared++;
}

static int put(struct tarn_refit *refit, const char *name, tarn_tensor **tensor)
{
	const tarn_tensor *given = *tensor;
	struct refit_name *to;
	int r = refit_check(refit);

	if (r < 0)
		return r;
	r = refit_find_free(refit, name, &to);
	if (r == -ENOENT && refit->add)
		r = refit_name_add(refit, name, &(*tensor)->layout, &to);
	if (r >= 0)
		r = check_shape(to, &(*tensor)->layout);
	if (r >= 0 && may_stay(refit, to) && is_old(to, *tensor)) {
		keep(refit, to);
		return 0;
	}
	if (r >= 0 && refit->share_equal && may_stay(refit, to))
		r = equals(refit, to, tensor);
	if (r == -ENOMEM && refit_make_room(refit) == 1)
		r = equals(refit, to, tensor);
	if (r == 1) {
		keep(refit, to);
		return 0;
	}
	if (r >= 0)
		r = refit_take(refit, to, *tensor != given);
	return r < 0 ? r
		     : refit_add_piece(refit, to, *tensor, *tensor != given, 0,
			       -1, NULL, NULL);
}

int tarn_refit_put(
	tarn_refit *refit, const char *name, const tarn_tensor *tensor)
{
	/* equals() may put another in its place. */
	_cleanup_tensor_ tarn_tensor *held =
		tarn_tensor_ref((tarn_tensor *)tensor);
	int r = put(refit, name, &held);

	return r < 0 ? tarn_fail_prefix(r, "refit: '%.200s': ", name) : 0;
}

/* ---- parts --------------------------------------------------------------- */

static int check_part(const struct refit_name *to, int64_t start,
	const struct tarn_layout *part)
{
	const struct tarn_layout *whole = &to->layout;
	int64_t end;

	if (!whole->ndim)
		return tarn_fail_constant(
			EINVAL, "a tensor of no dimensions has no rows");
	if (part->ndim != whole->ndim ||
		memcmp(&part->shape[1], &whole->shape[1],
			(size_t)(whole->ndim - 1) * sizeof(whole->shape[0])))
		return tarn_fail(EINVAL,
			"a part of shape %s was put, which has not the rows of "
			"shape %s",
			LAYOUT_TEXT(part), LAYOUT_TEXT(whole));
	if (start < 0 || add_i64(start, part->shape[0], &end) ||
		end > whole->shape[0])
		return tarn_fail(ERANGE,
			"%lld rows from %lld on were put; it has %lld",
			(long long)part->shape[0], (long long)start,
			(long long)whole->shape[0]);
	return 0;
}

/* Bytes that two parts share would be written by two copies at once. */
static int check_packs(const struct refit_name *to, int64_t start, int64_t rows)
{
	const struct tarn_layout *whole = &to->layout;
	struct tarn_layout part;
	int r;

	if (tarn_dtype_pack(whole->dtype) == 1 || !rows)
		return 0;
	r = tarn_layout_narrow(whole, 0, start, rows, &part);
	if (r >= 0 && start + rows < whole->shape[0])
		r = tarn_layout_narrow(whole, 0, start + rows,
			whole->shape[0] - start - rows, &part);
	return r < 0 ? tarn_fail(EINVAL,
			       "%lld rows of shape %s from %lld on begin or end "
			       "inside a byte of %s: put it whole",
			       (long long)rows, LAYOUT_TEXT(whole),
			       (long long)start, tarn_dtype_name(whole->dtype))
		     : 0;
}

static int put_part(struct tarn_refit *refit, const char *name, int64_t start,
	const tarn_tensor *part)
{
	int64_t rows = part->layout.ndim ? part->layout.shape[0] : 0, there;
	struct refit_name *to;
	int r = refit_check(refit);

	if (r >= 0)
		r = refit_find(refit, name, &to);
	if (r >= 0 && !to->in_parts)
		r = refit_find_free(refit, name, &to);
	if (r >= 0)
		r = check_part(to, start, &part->layout);
	if (r >= 0)
		r = check_packs(to, start, rows);
	if (r >= 0 && !to->in_parts) {
		r = refit_take(refit, to, false);
		to->in_parts = r >= 0;
	}
	if (r < 0 || !rows)
		return r;
	r = set_rows_add(&to->rows, start, start + rows, &there);
	if (r == 1)
		return tarn_fail(
			EEXIST, "row %lld was put already", (long long)there);
	return r < 0 ? r
		     : refit_add_piece(
			       refit, to, part, false, start, rows, NULL, NULL);
}

int tarn_refit_put_part(tarn_refit *refit, const char *name, int64_t start,
	const tarn_tensor *part)
{
	int r = put_part(refit, name, start, part);

	return r < 0 ? tarn_fail_prefix(r, "refit: '%.200s': ", name) : 0;
}
