/* SPDX-License-Identifier: MIT */
#include "lib/set/elements.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/layout.h"
#include "lib/tensor/tensor.h"
#include "shm/patch.h"

#define ALWAYS static inline __attribute__((always_inline))
#define PAGE_BITS 12
static_assert(1u << PAGE_BITS == PATCH_PAGE, "pages of a patch");

void elements_of(const tarn_tensor *positions, const tarn_tensor *values,
	const struct tarn_layout *to, struct elements *ret)
{
	struct elements e = {
		.n = (uint64_t)positions->layout.shape[0],
		.limit = (uint64_t)tarn_layout_numel(to),
		.positions = tarn_tensor_data(positions),
		.values = tarn_tensor_data(values),
		.wide = positions->layout.dtype == TARN_I64,
		.size = (uint32_t)tarn_dtype_bits(to->dtype) / 8,
		.ndim = 1,
	};

	e.stride[0] = e.size;
	if (!tarn_layout_is_contiguous(to)) {
		e.ndim = to->ndim;
		for (int i = 0; i < to->ndim; i++) {
			e.extent[i] = to->shape[to->ndim - 1 - i];
			e.stride[i] =
				to->stride[to->ndim - 1 - i] * (int64_t)e.size;
		}
	}
	*ret = e;
}

/* ---- one of them --------------------------------------------------------- */

/* Once, whatever the compiler would like: it is checked, and then used. */
ALWAYS uint64_t position(const struct elements *e, bool wide, uint64_t i)
{
	return wide ? ((const volatile uint64_t *)e->positions)[i]
		    : (uint64_t)((const volatile int32_t *)e->positions)[i];
}

/* Bytes from the element at position 0 on. */
ALWAYS int64_t offset(
	const struct elements *e, bool flat, uint32_t size, uint64_t position)
{
	int64_t at = 0;

	if (flat)
		return (int64_t)(position * size);
	for (int d = 0; d < e->ndim; d++) {
		uint64_t extent = (uint64_t)e->extent[d], q = position / extent;

		at += (int64_t)(position - q * extent) * e->stride[d];
		position = q;
	}
	return at;
}

int elements_bad(int64_t position, uint64_t limit)
{
	return tarn_fail(ERANGE,
		"there is no element at position %lld; it has %llu",
		(long long)position, (unsigned long long)limit);
}

/* A loop for each size, and for each width: as fast as one of its own. */
#define FOR_SIZE(loop, e, ...)                                                 \
	((e)->size == 1          ? loop(e, __VA_ARGS__, 1)                     \
		: (e)->size == 2 ? loop(e, __VA_ARGS__, 2)                     \
		: (e)->size == 4 ? loop(e, __VA_ARGS__, 4)                     \
				 : loop(e, __VA_ARGS__, 8))
#define FOR_ALL(loop, e, ...)                                                  \
	((e)->ndim != 1 ? ((e)->wide ? FOR_SIZE(loop, e, __VA_ARGS__, true,    \
					       false)                          \
				     : FOR_SIZE(loop, e, __VA_ARGS__, false,   \
					       false))                         \
			: ((e)->wide ? FOR_SIZE(loop, e, __VA_ARGS__, true,    \
					       true)                           \
				     : FOR_SIZE(loop, e, __VA_ARGS__, false,   \
					       true)))

/* ---- all of them --------------------------------------------------------- */

int elements_check(const struct elements *e)
{
	for (uint64_t i = 0; i < e->n; i++) {
		uint64_t at = position(e, e->wide, i);

		if (at >= e->limit)
			return elements_bad((int64_t)at, e->limit);
	}
	return 0;
}

/* In variables of its own, of which no byte that is written can be a part. */
ALWAYS int write_range(const struct elements *given, uint64_t *ret,
	uint64_t first, uint64_t n, char *dst, bool wide, bool flat,
	uint32_t size)
{
	const struct elements e = *given;
	const char *values = e.values;
	uint64_t i = *ret;

	for (; i < e.n; i++) {
		uint64_t at = position(&e, wide, i);

		if (at >= e.limit)
			return elements_bad((int64_t)at, e.limit);
		if (at - first >= n)
			break;
		memcpy(dst + offset(&e, flat, size, at - first),
			values + i * size, size);
	}
	*ret = i;
	return 0;
}

int elements_write_range(const struct elements *e, uint64_t *i, uint64_t first,
	uint64_t n, void *dst)
{
	return FOR_ALL(write_range, e, i, first, n, (char *)dst);
}

int elements_write(const struct elements *e, void *dst)
{
	uint64_t i = 0;

	return elements_write_range(e, &i, 0, e->limit, dst);
}

/* ---- in pages ------------------------------------------------------------ */

#define GUESSES 1024u /* positions looked at; picked */

static uint64_t page_of(const struct elements *e,
	const struct elements_place *place, uint64_t i)
{
	uint64_t at = position(e, e->wide, i);

	if (at >= e->limit)
		return UINT64_MAX;
	return (place->start +
		       (uint64_t)offset(e, e->ndim == 1, e->size, at)) >>
	       PAGE_BITS;
}

/* How often does the next one lie in another page? */
uint64_t elements_guess_pages(
	const struct elements *e, const struct elements_place *place)
{
	uint64_t tried = MIN(e->n - 1, GUESSES), changes = 0;

	for (uint64_t k = 0; k < tried; k++) {
		uint64_t i = k * (e->n - 1) / tried;
		uint64_t here = page_of(e, place, i);
		uint64_t next = page_of(e, place, i + 1);

		if (here == UINT64_MAX || next == UINT64_MAX)
			return UINT64_MAX;
		changes += here != next;
	}
	return tried ? MIN(1 + (e->n - 1) / tried * changes, place->n) : 1;
}

/* A value that lies in two pages. */
static bool write_split(unsigned char *(*page)(void *arg, uint64_t page),
	void *arg, uint64_t byte, const char *value, uint32_t size)
{
	uint32_t here = PATCH_PAGE - (uint32_t)(byte % PATCH_PAGE);
	unsigned char *to = page(arg, byte >> PAGE_BITS);

	if (!to)
		return false;
	memcpy(to + byte % PATCH_PAGE, value, here);
	to = page(arg, (byte >> PAGE_BITS) + 1);
	if (!to)
		return false;
	memcpy(to, value + here, size - here);
	return true;
}

ALWAYS int write_pages(const struct elements *given,
	const struct elements_place *place,
	unsigned char *(*page)(void *arg, uint64_t page), void *arg, bool wide,
	bool flat, uint32_t size)
{
	const struct elements e = *given;
	const char *values = e.values;
	const uint64_t start = place->start;
	uint64_t last = UINT64_MAX;
	unsigned char *to = NULL;

	for (uint64_t i = 0; i < e.n; i++) {
		uint64_t at = position(&e, wide, i), byte, in;

		if (at >= e.limit)
			return elements_bad((int64_t)at, e.limit);
		byte = start + (uint64_t)offset(&e, flat, size, at);
		in = byte % PATCH_PAGE;
		if (in + size > PATCH_PAGE) {
			last = UINT64_MAX;
			if (!write_split(
				    page, arg, byte, values + i * size, size))
				return 1;
			continue;
		}
		if (byte >> PAGE_BITS != last) {
			last = byte >> PAGE_BITS;
			to = page(arg, last);
			if (!to)
				return 1;
		}
		memcpy(to + in, values + i * size, size);
	}
	return 0;
}

int elements_write_pages(const struct elements *e,
	const struct elements_place *place,
	unsigned char *(*page)(void *arg, uint64_t page), void *arg)
{
	return FOR_ALL(write_pages, e, place, page, arg);
}
