/* SPDX-License-Identifier: MIT */
/*
 * The header of a .npy file is a Python dictionary, which numpy gives to
 * ast.literal_eval. This reads the one form that makes sense: three keys in any
 * order, a string, a bool and a tuple of sizes, in the spellings and spacings
 * that Python allows. One pass, no recursion.
 *
 * Source: numpy/lib/_format_impl.py, _read_array_header.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"
#include "lib/file/npy.h"

struct reader {
	const char *text, *p, *end;
	bool python2;
	struct arena *arena;
};

enum key { DESCR, FORTRAN_ORDER, SHAPE, KEYS };
static const char *const key_names[KEYS] = {"descr", "fortran_order", "shape"};

static void skip_blanks(struct reader *r)
{
	while (r->p < r->end && memchr(" \t\n\r\f", *r->p, 5))
		r->p++;
}

/* Consumes blanks and c, or nothing and returns false. */
static bool take(struct reader *r, char c)
{
	skip_blanks(r);
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static bool take_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(r);
	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n))
		return false;
	r->p += n;
	return true;
}

static int unexpected(const struct reader *r, const char *wanted)
{
	char shown[FILE_TEXT_MAX];
	size_t left = (size_t)(r->end - r->p);

	return tarn_fail(EBADMSG,
		"the header has %s%s%s at its byte %zu, where "
		"%s should be",
		left ? "\"" : "",
		left ? file_clean(r->p, MIN(left, 24), shown) : "its end",
		left ? "\"" : "", (size_t)(r->p - r->text), wanted);
}

/* 'text' or "text", without escapes: no key needs one. */
static int read_string(struct reader *r, const char *wanted, const char **ret,
	size_t *ret_size)
{
	const char *close;
	char quote;

	skip_blanks(r);
	if (r->p == r->end || (*r->p != '\'' && *r->p != '"'))
		return unexpected(r, wanted);
	quote = *r->p;
	close = memchr(r->p + 1, quote, (size_t)(r->end - r->p - 1));
	if (!close || memchr(r->p, '\\', (size_t)(close - r->p)) ||
		memchr(r->p, '\n', (size_t)(close - r->p)))
		return unexpected(r, wanted);
	*ret = r->p + 1;
	*ret_size = (size_t)(close - r->p - 1);
	r->p = close + 1;
	return 0;
}

static int read_descr(struct reader *r, int *ret)
{
	char shown[FILE_TEXT_MAX];
	const char *descr;
	size_t size;
	int err;

	skip_blanks(r);
	if (r->p < r->end && (*r->p == '[' || *r->p == '('))
		return tarn_fail(ENOTSUP,
			"dtype %s is structured (several "
			"fields in an element); save its fields one by one",
			file_clean(
				r->p, MIN((size_t)(r->end - r->p), 48), shown));
	err = read_string(r, "a dtype like '<f4'", &descr, &size);
	return err < 0 ? err : npy_dtype(descr, size, ret);
}

static int read_bool(struct reader *r, bool *ret)
{
	*ret = take_word(r, "True");
	if (!*ret && !take_word(r, "False"))
		return unexpected(r, "True or False");
	return 0;
}

static int read_size(struct reader *r, uint64_t *ret)
{
	const char *start;
	uint64_t n = 0;

	skip_blanks(r);
	start = r->p;
	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
		if (mul_u64(n, 10, &n) ||
			add_u64(n, (uint64_t)(*r->p - '0'), &n)) {
			r->p = start;
			return unexpected(r, "a size of at most 64 bits");
		}
	/* Python does not allow 007, and 0 only by itself. */
	if (r->p == start || (*start == '0' && r->p - start > 1 && n)) {
		r->p = start;
		return unexpected(r, "a size from 0 up");
	}
	if (r->python2 && r->p < r->end && *r->p == 'L')
		r->p++;
	*ret = n;
	return 0;
}

/* (), (3,), (3, 4) or (3, 4,); (3) is no tuple in Python. */
static int read_shape(struct reader *r, struct npy_header *ret)
{
	size_t most = 1, n = 0;
	uint64_t *sizes;
	bool comma = true;

	if (!take(r, '('))
		return unexpected(r, "a tuple of sizes");
	for (const char *p = r->p; p < r->end && *p != ')'; p++)
		most += *p == ',';
	sizes = arena_array(r->arena, most, sizeof(*sizes));
	if (!sizes)
		return file_no_memory("the shape of a tensor");
	while (!take(r, ')')) {
		int err;

		if (!comma)
			return unexpected(r, "',' or ')'");
		err = read_size(r, &sizes[n++]);
		if (err < 0)
			return err;
		comma = take(r, ',');
	}
	if (n == 1 && !comma)
		return tarn_fail(EBADMSG,
			"shape (%llu) is no tuple; Python "
			"writes (%llu,)",
			(unsigned long long)sizes[0],
			(unsigned long long)sizes[0]);
	ret->ndim = (int)n;
	ret->shape = sizes;
	return 0;
}

static int read_key(struct reader *r, unsigned *seen, enum key *ret)
{
	char shown[FILE_TEXT_MAX];
	const char *name;
	size_t size;
	int err = read_string(r, "a key in quotes or '}'", &name, &size);

	if (err < 0)
		return err;
	for (int i = 0; i < KEYS; i++) {
		if (size != strlen(key_names[i]) ||
			memcmp(name, key_names[i], size))
			continue;
		if (*seen & 1u << i)
			return tarn_fail(EBADMSG, "the header gives %s twice",
				key_names[i]);
		*seen |= 1u << i;
		*ret = (enum key)i;
		return 0;
	}
	return tarn_fail(EBADMSG,
		"the header has the key '%s'; there must be "
		"descr, fortran_order and shape, and no others",
		file_clean(name, size, shown));
}

static int read_member(
	struct reader *r, unsigned *seen, struct npy_header *header)
{
	enum key key = DESCR;
	int err = read_key(r, seen, &key);

	if (err < 0)
		return err;
	if (!take(r, ':'))
		return unexpected(r, "':'");
	switch (key) {
	case DESCR:
		return read_descr(r, &header->dtype);
	case FORTRAN_ORDER:
		return read_bool(r, &header->fortran_order);
	default:
		return read_shape(r, header);
	}
}

int npy_header_parse(const char *text, size_t size, bool python2,
	struct arena *arena, struct npy_header *ret)
{
	struct reader r = {text, text, text + size, python2, arena};
	struct npy_header header = {0};
	unsigned seen = 0;
	bool comma = true;

	if (!take(&r, '{'))
		return unexpected(&r, "'{'");
	while (!take(&r, '}')) {
		int err = comma ? read_member(&r, &seen, &header)
				: unexpected(&r, "',' or '}'");

		if (err < 0)
			return err;
		comma = take(&r, ',');
	}
	skip_blanks(&r);
	if (r.p < r.end)
		return unexpected(&r, "nothing more");
	for (int i = 0; i < KEYS; i++)
		if (!(seen & 1u << i))
			return tarn_fail(
				EBADMSG, "the header has no %s", key_names[i]);
	*ret = header;
	return 0;
}
