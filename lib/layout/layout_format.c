// SPDX-License-Identifier: MIT
/*
 * Layouts as text, both ways: "F32[2, 3]" and, where the strides or the offset
 * are not the usual ones, "F32[2, 3]:(1, 2)+5". The printed form can be parsed,
 * so that an error message may be pasted into a test.
 */
#include "lib/layout/layout.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A buffer that counts how much room the whole text needs, as snprintf does. */
struct text {
	char *buf;
	size_t size;
	size_t wanted;
};

static void _printf_(2, 3) text_add(struct text *t, const char *fmt, ...)
{
	size_t used = MIN(t->wanted, t->size);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf ? t->buf + used : NULL, t->size - used, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->wanted += n;
}

static void text_add_list(struct text *t, int n, const int64_t *v)
{
	for (int i = 0; i < n; i++)
		text_add(t, "%s%" PRId64, i ? ", " : "", v[i]);
}

const char *shape_text(char buf[SHAPE_TEXT_MAX], int ndim, const int64_t *shape)
{
	struct text t = {.buf = buf, .size = SHAPE_TEXT_MAX};

	text_add(&t, "[");
	text_add_list(&t, MIN(ndim, TARN_NDIM_MAX), shape);
	text_add(&t, ndim > TARN_NDIM_MAX ? ", ...]" : "]");
	return buf;
}

int tarn_layout_format(const struct tarn_layout *layout, char *buf, size_t size)
{
	struct text t = {.buf = size ? buf : NULL, .size = size};
	const char *name = tarn_dtype_name(layout->dtype);
	struct tarn_layout usual = *layout;
	int ndim = MIN(layout->ndim, TARN_NDIM_MAX);

	text_add(&t, "%s[", name ? name : "NONE");
	text_add_list(&t, ndim, layout->shape);
	text_add(&t, "]");
	usual.ndim = ndim;
	usual.offset = 0;
	layout_fill_contiguous(&usual);
	if (!tarn_layout_is_contiguous(layout) ||
		(tarn_layout_numel(layout) == 0 &&
			memcmp(usual.stride, layout->stride,
				ndim * sizeof(int64_t)) != 0)) {
		text_add(&t, ":(");
		text_add_list(&t, ndim, layout->stride);
		text_add(&t, ")");
	}
	if (layout->offset)
		text_add(&t, "%+" PRId64, layout->offset);
	return (int)t.wanted;
}

/* ---- parsing ------------------------------------------------------- */

struct spec {
	const char *text;
	const char *at;
};

static int spec_fail(const struct spec *s, const char *wanted)
{
	int column = (int)(s->at - s->text) + 1;

	if (*s->at == '\0')
		return tarn_fail(EINVAL,
			"layout: \"%.100s\" ends where %s should be", s->text,
			wanted);
	return tarn_fail(EINVAL,
		"layout: \"%.100s\": column %d: expected %s, not '%c'", s->text,
		column, wanted, *s->at);
}

static void spec_skip_blanks(struct spec *s)
{
	while (*s->at == ' ')
		s->at++;
}

static bool spec_take(struct spec *s, char c)
{
	spec_skip_blanks(s);
	if (*s->at != c)
		return false;
	s->at++;
	return true;
}

static int spec_number(struct spec *s, int64_t *ret)
{
	char *end;
	long long n;
	int saved = errno;
	int overflow;

	spec_skip_blanks(s);
	if (s->at[strspn(s->at, "+-")] < '0' ||
		s->at[strspn(s->at, "+-")] > '9' || strspn(s->at, "+-") > 1)
		return spec_fail(s, "a number");
	errno = 0;
	n = strtoll(s->at, &end, 10);
	overflow = errno == ERANGE;
	errno = saved;
	if (overflow)
		return tarn_fail(EOVERFLOW,
			"layout: \"%.100s\": column %d: the number does not "
			"fit in 64 bits",
			s->text, (int)(s->at - s->text) + 1);
	s->at = end;
	*ret = n;
	return 0;
}

/* "2, 3, 4" and the closing character; more than 12 numbers are an error. */
static int spec_list(struct spec *s, char close, int64_t *v, int *ret_n)
{
	int n = 0;
	int r;

	if (spec_take(s, close)) {
		*ret_n = 0;
		return 0;
	}
	do {
		if (n == TARN_NDIM_MAX)
			return tarn_fail(EINVAL,
				"layout: \"%.100s\" has more than %d "
				"dimensions",
				s->text, TARN_NDIM_MAX);
		r = spec_number(s, &v[n]);
		if (r < 0)
			return r;
		n++;
	} while (spec_take(s, ','));
	if (!spec_take(s, close))
		return spec_fail(s, close == ']' ? "',' or ']'" : "',' or ')'");
	*ret_n = n;
	return 0;
}

static int spec_dtype(struct spec *s, enum tarn_dtype *ret)
{
	char name[32];
	size_t n;

	spec_skip_blanks(s);
	n = strcspn(s->at, "[ ");
	if (n >= sizeof(name))
		n = sizeof(name) - 1;
	memcpy(name, s->at, n);
	name[n] = '\0';
	s->at += n;
	return tarn_dtype_from_name(name, ret);
}

int tarn_layout_parse(const char *spec, struct tarn_layout *ret)
{
	struct spec s = {.text = spec, .at = spec};
	int64_t shape[TARN_NDIM_MAX], stride[TARN_NDIM_MAX], offset = 0;
	int ndim, n_strides = -1;
	struct tarn_layout out;
	enum tarn_dtype dtype;
	int r;

	r = spec_dtype(&s, &dtype);
	if (r < 0)
		return r;
	if (!spec_take(&s, '['))
		return spec_fail(&s, "'['");
	r = spec_list(&s, ']', shape, &ndim);
	if (r == 0 && spec_take(&s, ':'))
		r = spec_take(&s, '(') ? spec_list(&s, ')', stride, &n_strides)
				       : spec_fail(&s, "'('");
	if (r < 0)
		return r;
	spec_skip_blanks(&s);
	if (*s.at == '+' || *s.at == '-')
		r = spec_number(&s, &offset);
	spec_skip_blanks(&s);
	if (r == 0 && *s.at)
		r = spec_fail(&s, "the end");
	if (r < 0)
		return r;
	if (n_strides >= 0 && n_strides != ndim)
		return tarn_fail(EINVAL,
			"layout: \"%.100s\" has %d sizes and %d strides", spec,
			ndim, n_strides);
	if (n_strides < 0) {
		r = tarn_layout_contiguous(dtype, ndim, shape, &out);
		if (r < 0)
			return r;
		memcpy(stride, out.stride, sizeof(stride));
	}
	return tarn_layout_strided(dtype, ndim, shape, stride, offset, ret);
}
