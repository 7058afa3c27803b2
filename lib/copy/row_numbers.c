// SPDX-License-Identifier: MIT
/*
 * Numbers of rows. A list is checked by its least and its greatest number, and
 * a block as it is read, without a branch for each; only then is the bad one
 * looked for.
 */
#include "lib/copy/row_numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

/* Numbers among which a bad one is looked for. */
#define BLOCK 256

/* As if it had been read from the list only now, so that the compiler cannot
 * read it there again: others may write to it. */
#define READ_ONCE(v) __asm__("" : "+r"(v))

/*
 * read: from_end is the count of rows, if negative numbers are counted from the
 * end. span: what is negative as an int64_t in a U64 is too large, and so is
 * not valid as a negative number either.
 */
#define READ(name, type)                                                       \
	static bool read_##name(const char *at, int64_t step, int64_t n,       \
		int64_t rows, int64_t from_end, int64_t *ret)                  \
	{                                                                      \
		bool bad = false;                                              \
                                                                               \
		for (int64_t i = 0; i < n; i++, at += step) {                  \
			int64_t number;                                        \
			type given;                                            \
                                                                               \
			memcpy(&given, at, sizeof(given));                     \
			number = (int64_t)given;                               \
			READ_ONCE(number);                                     \
			number += number < 0 ? from_end : 0;                   \
			bad |= (uint64_t)number >= (uint64_t)rows;             \
			ret[i] = number;                                       \
		}                                                              \
		return bad;                                                    \
	}                                                                      \
                                                                               \
	static void span_##name(const char *at, int64_t step, int64_t n,       \
		int64_t *ret_least, int64_t *ret_greatest)                     \
	{                                                                      \
		int64_t least = 0, greatest = -1;                              \
                                                                               \
		for (int64_t i = 0; i < n; i++, at += step) {                  \
			type given;                                            \
                                                                               \
			memcpy(&given, at, sizeof(given));                     \
			least = MIN(least, (int64_t)given);                    \
			greatest = MAX(greatest, (int64_t)given);              \
		}                                                              \
		*ret_least = least;                                            \
		*ret_greatest = greatest;                                      \
	}

READ(i8, int8_t)
READ(u8, uint8_t)
READ(i16, int16_t)
READ(u16, uint16_t)
READ(i32, int32_t)
READ(u32, uint32_t)
READ(i64, int64_t)
READ(u64, uint64_t)

static const struct {
	bool (*read)(const char *at, int64_t step, int64_t n, int64_t rows,
		int64_t from_end, int64_t *ret);
	void (*span)(const char *at, int64_t step, int64_t n,
		int64_t *ret_least, int64_t *ret_greatest);
	bool is_signed;
} readers[] = {
	[TARN_I8] = {read_i8, span_i8, true},
	[TARN_U8] = {read_u8, span_u8, false},
	[TARN_I16] = {read_i16, span_i16, true},
	[TARN_U16] = {read_u16, span_u16, false},
	[TARN_I32] = {read_i32, span_i32, true},
	[TARN_U32] = {read_u32, span_u32, false},
	[TARN_I64] = {read_i64, span_i64, true},
	[TARN_U64] = {read_u64, span_u64, false},
};

bool row_numbers_dtype(int dtype)
{
	return dtype >= 0 && dtype < (int)ARRAY_SIZE(readers) &&
	       readers[dtype].read;
}

static int fail_number(const struct row_numbers *l, int64_t first, int64_t n,
	const int64_t *is)
{
	bool is_signed = readers[l->dtype].is_signed;
	int64_t i = 0, number;
	char text[32];

	while (i < n - 1 && (uint64_t)is[i] < (uint64_t)l->rows)
		i++;
	number = is[i];
	if (!is_signed)
		snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)number);
	else /* one from the end is still negative, or it would be valid */
		snprintf(text, sizeof(text), "%" PRId64,
			number < 0 ? number - l->rows : number);
	return tarn_fail(ERANGE,
		"gather: number %lld of index is %s; the table has %lld rows",
		(long long)(first + i), text, (long long)l->rows);
}

static int64_t from_end(const struct row_numbers *l)
{
	return readers[l->dtype].is_signed ? l->rows : 0;
}

int row_numbers_read(const struct row_numbers *numbers, int64_t first,
	int64_t n, int64_t *ret)
{
	const struct row_numbers *l = numbers;

	if (readers[l->dtype].read(l->at + first * l->step, l->step, n, l->rows,
		    from_end(l), ret))
		return fail_number(l, first, n, ret);
	return 0;
}

int row_numbers_check(const struct row_numbers *numbers)
{
	const struct row_numbers *l = numbers;
	int64_t least, greatest, block[BLOCK];
	int r = 0;

	readers[l->dtype].span(l->at, l->step, l->n, &least, &greatest);
	if (least >= -from_end(l) && greatest < l->rows)
		return 0;
	for (int64_t at = 0; r >= 0 && at < l->n; at += BLOCK)
		r = row_numbers_read(l, at, MIN(l->n - at, BLOCK), block);
	return r;
}
