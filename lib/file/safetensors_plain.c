// SPDX-License-Identifier: MIT
/*
 * One tensor's entry as writers write it, read without building a tree:
 *
 *	{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
 *
 * the three keys once each, in any order, blanks where JSON has them, numbers
 * of digits alone. Opening a file of 100,000 small tensors consists of reading
 * these, and jansson takes twenty times as long for each.
 *
 * This decides nothing. It accepts entries that are valid beyond doubt, and
 * leaves all others to safetensors_entry.c, which makes every decision and
 * every error sentence.
 *
 * Most entries differ from the one before in their offsets alone. The same text
 * up to there means the same: so it is compared, and not parsed again.
 */
#include <string.h>

#include "base/checked.h"
#include "lib/file/safetensors.h"
#include "lib/file/swar.h"

/* More than the tensors of any writer have; others are left to
 * safetensors_entry.c. */
#define PLAIN_NDIM 16

/* 18 digits stay below 2^63, so that the sum needs no check. */
#define PLAIN_DIGITS 18

/* Tests turn it off, to compare. */
bool safetensors_plain_on = true;

enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = DTYPE | SHAPE | OFFSETS };

struct plain {
	const char *p, *end;
	int dtype, ndim;
	uint64_t shape[PLAIN_NDIM];
	uint64_t offsets[2];
	const char *before_offsets; /* after their bracket; NULL: blanks */
	int last;                   /* field */
};

static bool take(struct plain *e, char c)
{
	if (e->p == e->end || *e->p != c) {
		e->p = json_skip_blanks(e->p, e->end);
		if (e->p == e->end || *e->p != c)
			return false;
	}
	e->p++;
	return true;
}

/* Consumes this text if it is next. */
static bool take_text(struct plain *e, const char *text, size_t size)
{
	if ((size_t)(e->end - e->p) < size || memcmp(e->p, text, size) != 0)
		return false;
	e->p += size;
	return true;
}

/* Digits, eight at a time while there are that many characters; ret_n: how
 * many. */
static uint64_t digits_of(struct json_text text, size_t *ret_n)
{
	static const uint64_t tens[] = {
		1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
	const char *p = text.at;
	uint64_t n = 0;
	unsigned k = 8;

	while (k == 8 && text.end - p >= 8 && p - text.at <= PLAIN_DIGITS - 8) {
		uint64_t x = swar_at(p);

		k = swar_before(swar_not_digit(x));
		if (k)
			n = n * tens[k] + swar_number(x, k);
		p += k;
	}
	while (k == 8 && p < text.end && *p >= '0' && *p <= '9' &&
		p - text.at < PLAIN_DIGITS)
		n = n * 10 + (uint64_t)(*p++ - '0');
	*ret_n = (size_t)(p - text.at);
	return n;
}

/* JSON allows no leading zeros. */
static bool number(struct plain *e, uint64_t *ret)
{
	const char *p = json_skip_blanks(e->p, e->end);
	size_t digits;
	uint64_t n = digits_of((struct json_text) {p, e->end}, &digits);

	if (digits == 0 || (*p == '0' && digits > 1))
		return false;
	e->p = p + digits;
	*ret = n;
	return true;
}

/* Up to max of them, in brackets. A number that is not plain to its end is
 * followed by neither a comma nor a bracket. */
static int numbers(struct plain *e, uint64_t *ret, int max)
{
	int n = 0;

	if (!take(e, '['))
		return -1;
	if (take(e, ']'))
		return 0;
	do
		if (n == max || !number(e, &ret[n++]))
			return -1;
	while (take(e, ','));
	return take(e, ']') ? n : -1;
}

static bool is_dtype(struct plain *e, int dtype)
{
	const char *name = tarn_dtype_name(dtype);
	size_t size = strlen(name);

	if ((size_t)(e->end - e->p) <= size || e->p[size] != '"' ||
		memcmp(e->p, name, size) != 0)
		return false;
	e->dtype = dtype;
	e->p += size + 1;
	return true;
}

/* guess: usually the dtype of the tensor before. */
static bool read_dtype(struct plain *e, int guess)
{
	if (!take(e, '"'))
		return false;
	if (guess && is_dtype(e, guess))
		return true;
	for (int dtype = 1; dtype <= TARN_DTYPE_MAX; dtype++)
		if (is_dtype(e, dtype))
			return true;
	return false;
}

/* "key": value; returns which of the three it was, or 0. */
static int read_field(struct plain *e, int guess)
{
	if (!take(e, '"'))
		return 0;
	if (take_text(e, "dtype\"", 6))
		return take(e, ':') && read_dtype(e, guess) ? DTYPE : 0;
	if (take_text(e, "shape\"", 6)) {
		e->ndim = take(e, ':') ? numbers(e, e->shape, PLAIN_NDIM) : -1;
		return e->ndim >= 0 ? SHAPE : 0;
	}
	if (take_text(e, "data_offsets\"", 13) && take(e, ':')) {
		if (e->p < e->end && *e->p == '[')
			e->before_offsets = e->p + 1;
		return numbers(e, e->offsets, 2) == 2 ? OFFSETS : 0;
	}
	return 0;
}

static bool read_object(struct plain *e, int guess)
{
	int seen = 0;

	if (!take(e, '{'))
		return false;
	do {
		int field = read_field(e, guess);

		if (!field || (seen & field))
			return false;
		seen |= field;
		e->last = field;
	} while (take(e, ','));
	return seen == ALL && take(e, '}');
}

/* The same rule as check_size() in safetensors_entry.c. */
static bool size_is_right(const struct plain *e)
{
	uint64_t bits = 1, one = (uint64_t)tarn_dtype_bits(e->dtype);

	for (int i = 0; i < e->ndim; i++)
		if (mul_u64(bits, e->shape[i], &bits))
			return false;
	return !mul_u64(bits, one, &bits) && bits % 8 == 0 &&
	       e->offsets[0] <= e->offsets[1] &&
	       bits / 8 == e->offsets[1] - e->offsets[0];
}

/* ---- like the one before ---------------------------------------------- */

/* Remembers e up to its offsets, for the next entry. */
static void remember(struct safetensors_like *like, const char *text,
	const struct plain *e, const struct tarn_file_entry *tensor)
{
	size_t size = e->before_offsets ? (size_t)(e->before_offsets - text)
					: sizeof(like->text) + 1;

	like->size = 0;
	if (e->last != OFFSETS || size > sizeof(like->text))
		return;
	memcpy(like->text, text, size);
	like->size = size;
	like->tensor = *tensor;
}

/* Returns the end of the same text; NULL: it differs and must be read. */
static const char *same(const struct safetensors_like *like,
	struct json_text text, struct tarn_file_entry *ret)
{
	struct plain e = {.p = text.at, .end = text.end};
	uint64_t begin, end;

	if (!like->size || !take_text(&e, like->text, like->size) ||
		!number(&e, &begin) || !take(&e, ',') || !number(&e, &end) ||
		!take(&e, ']') || !take(&e, '}') || begin > end ||
		end - begin != like->tensor.nbytes)
		return NULL;
	*ret = like->tensor;
	ret->file_offset = begin;
	return e.p;
}

static const char *read_anew(struct tarn_file *file, struct json_text text,
	struct safetensors_like *like, struct tarn_file_entry *ret)
{
	struct plain e = {.p = text.at, .end = text.end};
	int guess = file->count ? file->tensors[file->count - 1].dtype : 0;
	uint64_t *shape;

	if (!read_object(&e, guess) || !size_is_right(&e))
		return NULL;
	shape = arena_array(&file->arena, (size_t)e.ndim, sizeof(*shape));
	if (!shape)
		return NULL;
	memcpy(shape, e.shape, (size_t)e.ndim * sizeof(*shape));
	*ret = (struct tarn_file_entry) {
		.file_offset = e.offsets[0],
		.nbytes = e.offsets[1] - e.offsets[0],
		.dtype = e.dtype,
		.ndim = e.ndim,
		.shape = shape,
	};
	remember(like, text.at, &e, ret);
	return e.p;
}

const char *safetensors_plain(struct tarn_file *file, struct json_text text,
	struct safetensors_like *like, struct tarn_file_entry *ret)
{
	const char *end;

	if (!safetensors_plain_on)
		return NULL;
	end = same(like, text, ret);
	return end ? end : read_anew(file, text, like, ret);
}
