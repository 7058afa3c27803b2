/* SPDX-License-Identifier: MIT */
/*
 * What must be true of a descriptor, for the library and the daemon alike.
 *
 * A descriptor proves nothing. It names a storage, and every other field is
 * checked against the table's entry for that storage; the layout only after it
 * has passed tarn_layout_check. Sizes are computed in bits, so that 4- and
 * 6-bit types need no case of their own, and each operation is checked.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/descriptor/descriptor.h"

int descriptor_check_header(const struct tarn_descriptor *d, uint64_t instance)
{
	if (d->magic != TARN_DESCRIPTOR_MAGIC)
		return tarn_fail(EBADMSG,
			"descriptor: magic %#x, not %#x: these bytes are "
			"something else",
			d->magic, TARN_DESCRIPTOR_MAGIC);
	if (d->version != TARN_DESCRIPTOR_VERSION)
		return tarn_fail(EBADMSG,
			"descriptor: version %u, this library reads %u",
			d->version, TARN_DESCRIPTOR_VERSION);
	if (d->flags)
		return tarn_fail(EBADMSG,
			"descriptor: flags %#x, none are known", d->flags);
	for (size_t i = 0; i < sizeof(d->zero); i++)
		if (d->zero[i])
			return tarn_fail(EBADMSG,
				"descriptor: byte %zu is %u, not 0",
				offsetof(struct tarn_descriptor, zero) + i,
				d->zero[i]);
	if (d->instance != instance)
		return tarn_fail(ESTALE,
			"descriptor: of daemon %016llx, connected to %016llx",
			(unsigned long long)d->instance,
			(unsigned long long)instance);
	return 0;
}

static int fail_rank(const struct tarn_descriptor *d)
{
	int i = d->ndim;

	while (!d->shape[i] && !d->stride[i])
		i++;
	return tarn_fail(EBADMSG,
		"descriptor: of rank %u, but dimension %d is %lld with stride "
		"%lld",
		d->ndim, i, (long long)d->shape[i], (long long)d->stride[i]);
}

/* Into the layout; there is nothing beyond the rank. */
static int read_dims(
	const struct tarn_descriptor *d, struct tarn_layout *ret_layout)
{
	int64_t rest = 0;

	if (d->ndim > TARN_NDIM_MAX)
		return tarn_fail(EBADMSG, "descriptor: rank %u, %d is the most",
			d->ndim, TARN_NDIM_MAX);
	for (int i = d->ndim; i < TARN_NDIM_MAX; i++)
		rest |= d->shape[i] | d->stride[i];
	if (rest)
		return fail_rank(d);
	memcpy(ret_layout->shape, d->shape, sizeof(d->shape));
	memcpy(ret_layout->stride, d->stride, sizeof(d->stride));
	return 0;
}

int descriptor_check(const struct tarn_descriptor *d, uint64_t instance,
	struct tarn_layout *ret_layout)
{
	int r = descriptor_check_header(d, instance);

	if (r >= 0)
		r = read_dims(d, ret_layout);
	if (r < 0)
		return r;
	ret_layout->dtype = d->dtype;
	ret_layout->ndim = d->ndim;
	memset(ret_layout->reserved, 0, sizeof(ret_layout->reserved));
	ret_layout->offset = d->offset;
	if (tarn_layout_check(ret_layout) < 0)
		return tarn_fail_prefix(-EBADMSG, "descriptor: ");
	return 0;
}

int descriptor_fits(const struct tarn_descriptor *d,
	const struct tarn_layout *layout, const struct table_storage *entry,
	uint64_t *ret_base)
{
	int64_t bits = tarn_dtype_bits(layout->dtype), first, count, end;
	uint64_t base;

	if (d->pool != entry->pool || d->size != entry->size)
		return tarn_fail(EBADMSG,
			"descriptor: storage %u has %llu bytes of pool %u, not "
			"%llu of pool %u",
			d->storage, (unsigned long long)entry->size,
			entry->pool, (unsigned long long)d->size, d->pool);
	if (__builtin_sub_overflow(d->base, entry->base, &base) ||
		base > entry->size || entry->size > INT64_MAX / 8)
		return tarn_fail(EBADMSG,
			"descriptor: byte %llu of the pool is outside of "
			"storage %u, %llu bytes at %llu",
			(unsigned long long)d->base, d->storage,
			(unsigned long long)entry->size,
			(unsigned long long)entry->base);
	tarn_layout_bounds(layout, &first, &count);
	/* In bits from the storage's first; base <= size, which fits. */
	if (count && (first < 0 || add_i64(first, count, &end) ||
			     mul_i64(end, bits, &end) ||
			     add_i64(end, (int64_t)base * 8, &end) ||
			     end > (int64_t)entry->size * 8))
		return tarn_fail(EBADMSG,
			"descriptor: elements %lld to %lld of %s from byte "
			"%llu reach outside of a storage of %llu bytes",
			(long long)first, (long long)(first + (count - 1)),
			tarn_dtype_name(layout->dtype),
			(unsigned long long)base,
			(unsigned long long)entry->size);
	*ret_base = base;
	return 0;
}

int descriptor_agrees(const struct table *table,
	const struct tarn_descriptor *descriptor,
	const struct table_storage *entry)
{
	struct tarn_descriptor d;
	struct tarn_layout layout;
	uint64_t base;
	int r;

	memcpy(&d, descriptor, sizeof(d));
	r = descriptor_check(&d, table->instance, &layout);
	return r < 0 ? r : descriptor_fits(&d, &layout, entry, &base);
}
