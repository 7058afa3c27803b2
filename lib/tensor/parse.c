// SPDX-License-Identifier: MIT
/*
 * Nested values as text, "[[1, 2], [3, 4]]", to a tensor. One pass: numbers go
 * into a growing list as raw bits while the shape is determined; the first row
 * of each depth fixes that depth's extent, and every later one must agree.
 */
#include "lib/tensor/tensor.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/tensor/decimal.h"
#include "lib/number/number.h"

struct parser {
	int dtype;
	const char *text, *at;
	uint64_t *raw;
	size_t count, room;
	int depth;
	int ndim;                     /* -1: no number and no [] seen yet */
	int64_t shape[TARN_NDIM_MAX]; /* -1: not known yet */
	int64_t items[TARN_NDIM_MAX]; /* so far, in the open lists */
};

static int column(const struct parser *p)
{
	return (int)(p->at - p->text) + 1;
}

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static int append(struct parser *p, uint64_t raw)
{
	if (p->count == p->room) {
		size_t room = p->room ? 2 * p->room : 64;
		uint64_t *grown = reallocarray(p->raw, room, sizeof(*grown));

		if (!grown)
			return tarn_fail(ENOMEM, "parse: out of memory");
		p->raw = grown;
		p->room = room;
	}
	p->raw[p->count++] = raw;
	return 0;
}

/* ---- one value ----------------------------------------------------- */

static int bad_value(const char *word, const struct parser *p)
{
	return tarn_fail(EINVAL, "parse: \"%s\" at column %d is not a %s value",
		word, column(p), tarn_dtype_name(p->dtype));
}

/* Not through a double, which has only 53 bits. */
static bool parse_integer(const char *word, int dtype, uint64_t *ret, int *r)
{
	char *end;

	errno = 0;
	if (*word == '-') {
		long long n = strtoll(word, &end, 10);

		if (errno || *end)
			return false;
		*r = number_from_i64(dtype, n, ret);
	} else {
		unsigned long long n = strtoull(word, &end, 10);

		if (errno || *end)
			return false;
		*r = number_from_u64(dtype, n, ret);
	}
	return true;
}

/* "1.5", "2j", "1-2.5j" */
static int parse_complex(
	const struct parser *p, const char *word, uint64_t *ret)
{
	float c[2] = {0, 0};
	char *end;
	float x = strtof(word, &end);

	if (end == word)
		return bad_value(word, p);
	if (!strcmp(end, "j")) {
		c[1] = x;
		return number_from_c64(p->dtype, c, ret);
	}
	c[0] = x;
	if (*end == '+' || *end == '-') {
		const char *imaginary = end;

		c[1] = strtof(imaginary, &end);
		if (end == imaginary || strcmp(end, "j") != 0)
			return bad_value(word, p);
		return number_from_c64(p->dtype, c, ret);
	}
	return *end ? bad_value(word, p) : number_from_c64(p->dtype, c, ret);
}

static int parse_real(const struct parser *p, const char *word, uint64_t *ret)
{
	char *end;
	double d;

	if (p->dtype == TARN_F32) { /* rounded once */
		float f = strtof(word, &end);

		d = (double)f;
	} else {
		d = strtod(word, &end);
	}
	if (end == word || *end)
		return bad_value(word, p);
	if (number_is_integer(p->dtype) && d != __builtin_trunc(d))
		return tarn_fail(EINVAL,
			"parse: %s at column %d is not an integer, and %s holds"
			" nothing else",
			word, column(p), tarn_dtype_name(p->dtype));
	return number_from_f64(p->dtype, d, ret);
}

static int parse_word(const struct parser *p, const char *word, uint64_t *ret)
{
	int r = 0;

	if (!strcasecmp(word, "true"))
		return number_from_i64(p->dtype, 1, ret);
	if (!strcasecmp(word, "false"))
		return number_from_i64(p->dtype, 0, ret);
	if (number_is_integer(p->dtype) &&
		parse_integer(word, p->dtype, ret, &r))
		return r;
	if (p->dtype == TARN_C64)
		return parse_complex(p, word, ret);
	return parse_real(p, word, ret);
}

static int wrong_depth(const struct parser *p)
{
	return tarn_fail(EINVAL,
		"parse: column %d is %d lists deep, where the first value was"
		" %d deep",
		column(p), p->depth, p->ndim);
}

static int read_value(struct parser *p)
{
	char word[80];
	size_t n = strcspn(p->at, "[], \t\r\n\v\f");
	uint64_t raw = 0;
	int r;

	if (n == 0)
		return tarn_fail(EINVAL,
			"parse: a value is missing at column %d", column(p));
	snprintf(word, sizeof(word), "%.*s", (int)MIN(n, sizeof(word) - 1),
		p->at);
	if (n >= sizeof(word))
		return bad_value(word, p);
	if (p->ndim < 0)
		p->ndim = p->depth;
	if (p->depth != p->ndim)
		return wrong_depth(p);
	r = parse_word(p, word, &raw);
	if (r >= 0)
		r = append(p, raw);
	p->at += n;
	return r;
}

/* ---- lists --------------------------------------------------------- */

static int open_list(struct parser *p)
{
	if (p->depth == TARN_NDIM_MAX)
		return tarn_fail(EINVAL,
			"parse: column %d is more than %d lists deep",
			column(p), TARN_NDIM_MAX);
	p->items[p->depth++] = 0;
	p->at++;
	if (p->ndim >= 0 && p->depth > p->ndim)
		return wrong_depth(p);
	return 0;
}

static int close_list(struct parser *p)
{
	int dim = p->depth - 1;
	int64_t items = p->items[dim];

	if (p->ndim < 0) /* "[]" came first */
		p->ndim = p->depth;
	if (p->depth != p->ndim && items == 0)
		return wrong_depth(p);
	if (p->shape[dim] < 0)
		p->shape[dim] = items;
	if (p->shape[dim] != items)
		return tarn_fail(EINVAL,
			"parse: the list that ends at column %d has %lld item%s,"
			" but the first list at this depth has %lld",
			column(p), (long long)items, items == 1 ? "" : "s",
			(long long)p->shape[dim]);
	p->depth--;
	p->at++;
	return 0;
}

/* After a value or a list: a comma and another one, or the list's end. */
static int after_item(struct parser *p, bool *ret_more)
{
	int r;

	*ret_more = false;
	while (p->depth > 0) {
		p->items[p->depth - 1]++;
		skip_space(p);
		if (*p->at == ',') {
			p->at++;
			*ret_more = true;
			return 0;
		}
		if (*p->at != ']')
			return tarn_fail(EINVAL,
				*p->at ? "parse: a comma or ] is missing at"
					 " column %d"
				       : "parse: a ] is missing at the end,"
					 " column %d",
				column(p));
		r = close_list(p);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_all(struct parser *p)
{
	bool more = true;
	int r;

	while (more) {
		skip_space(p);
		if (*p->at == '[') {
			r = open_list(p);
			skip_space(p);
			if (r >= 0 && *p->at != ']')
				continue;
			if (r >= 0)
				r = close_list(p);
		} else {
			r = read_value(p);
		}
		if (r >= 0)
			r = after_item(p, &more);
		if (r < 0)
			return r;
	}
	skip_space(p);
	if (*p->at)
		return tarn_fail(EINVAL,
			"parse: \"%.20s\" at column %d follows the end", p->at,
			column(p));
	return 0;
}

static int build(const struct parser *p, tarn_tensor **ret)
{
	int r = tarn_tensor_alloc(
		"parse", true, p->dtype, p->ndim, p->shape, ret);

	for (size_t i = 0; r >= 0 && i < p->count; i++)
		number_store(
			p->dtype, (*ret)->storage->data, (int64_t)i, p->raw[i]);
	return r;
}

int tarn_tensor_parse(
	enum tarn_dtype dtype, const char *text, tarn_tensor **ret)
{
	struct parser p = {
		.dtype = dtype, .text = text, .at = text, .ndim = -1};
	struct decimal_locale locale;
	int saved = errno, r;

	if (!tarn_dtype_bits(dtype))
		return tarn_fail(EINVAL, "parse: %d is no dtype", dtype);
	r = decimal_locale_enter(&locale);
	if (r < 0)
		return r;
	memset(p.shape, 0xff, sizeof(p.shape));
	r = read_all(&p);
	if (r >= 0)
		r = build(&p, ret);
	decimal_locale_leave(&locale);
	free(p.raw);
	errno = saved;
	return r;
}
