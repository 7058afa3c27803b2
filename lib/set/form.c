/* SPDX-License-Identifier: MIT */
/*
 * Fields and notes as bytes. Any user that may publish in the pool can have
 * written them, so the reader believes no number before it was compared with the
 * bytes that are left.
 */
#include "lib/set/form.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/reserved.h"
#include "shm/table.h"

#define MAGIC 0x46534e54u /* "TNSF" */
#define VERSION 2u        /* 1 had no digests */
#define HEAD 20u

/* ---- texts --------------------------------------------------------------- */

int set_name(const char *prefix, const char *name, char **ret)
{
	size_t n = strlen(prefix), m = strlen(name);
	char *all;

	if (!n || prefix[n - 1] == '/')
		return tarn_fail(EINVAL,
			"a set's prefix is '%.200s'; it is a name, to which "
			"'/' and the tensors' names are added",
			prefix);
	if (n > TARN_NAME_MAX || m > TARN_NAME_MAX || n + 1 + m > TARN_NAME_MAX)
		return tarn_fail(ENAMETOOLONG,
			"'%.40s/%.40s' would have %zu bytes; a name has %d at "
			"most",
			prefix, name, n + 1 + m, TARN_NAME_MAX);
	all = malloc(n + 1 + m + 1);
	if (!all)
		return tarn_fail_constant(ENOMEM, "out of memory for a name");
	memcpy(all, prefix, n);
	all[n] = '/';
	memcpy(all + n + 1, name, m + 1);
	*ret = all;
	return 0;
}

/* Keys, values and names are what a name may be; a value may be empty. */
static int check_text(const char *what, const char *text, size_t size)
{
	int r = name_check(text, size);

	return r < 0 ? tarn_fail_prefix(r, "%s: ", what) : 0;
}

static int check_field(const struct tarn_set_field *f)
{
	int r = RESERVED_CHECK("tarn_set_field", f);

	if (r >= 0 && (!f->key || !f->value))
		return tarn_fail(
			EINVAL, "a field has no %s", f->key ? "value" : "key");
	if (r >= 0)
		r = check_text("a field's key", f->key, strlen(f->key));
	if (r >= 0 && *f->value) {
		r = check_text("its value", f->value, strlen(f->value));
		if (r < 0)
			tarn_fail_prefix(r, "the field '%.200s': ", f->key);
	}
	return r;
}

static int by_key(const void *a, const void *b)
{
	const struct tarn_set_field *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static int by_name(const void *a, const void *b)
{
	const struct tarn_set_note *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int set_fields_sort(const struct tarn_set_field *fields, size_t n,
	struct tarn_set_field **ret)
{
	_cleanup_free_ struct tarn_set_field *sorted = NULL;
	int r = 0;

	if (n > TARN_SET_FIELDS_MAX)
		return tarn_fail(E2BIG, "%zu fields; a set has %d at most", n,
			TARN_SET_FIELDS_MAX);
	sorted = calloc(n + 1, sizeof(*sorted));
	if (!sorted)
		return tarn_fail(ENOMEM, "out of memory for %zu fields", n);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		sorted[i] = fields[i];
		r = check_field(&fields[i]);
	}
	if (r < 0)
		return r;
	qsort(sorted, n, sizeof(*sorted), by_key);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(sorted[i - 1].key, sorted[i].key))
			return tarn_fail(EINVAL,
				"the field '%.200s' is given twice",
				sorted[i].key);
	*ret = STEAL(sorted);
	return 0;
}

const struct tarn_set_field *set_field_find(
	const struct tarn_set_field *fields, size_t n, const char *key)
{
	const struct tarn_set_field wanted = {.key = key};

	return n ? bsearch(&wanted, fields, n, sizeof(*fields), by_key) : NULL;
}

/* ---- writing ------------------------------------------------------------- */

static int check_note(const struct tarn_set_note *note)
{
	int r = RESERVED_CHECK("tarn_set_note", note);

	if (r < 0)
		return r;
	if (!note->name || (note->size && !note->bytes))
		return tarn_fail_constant(
			EINVAL, "a note has no name or bytes");
	r = check_text("a note's name", note->name, strlen(note->name));
	if (r >= 0 && note->size > TARN_SET_NOTE_MAX)
		return tarn_fail(E2BIG,
			"the note of '%.200s' has %zu bytes; %d are the most",
			note->name, note->size, TARN_SET_NOTE_MAX);
	return r;
}

static int sort_notes(
	const struct tarn_set_note *notes, size_t n, struct tarn_set_note **ret)
{
	_cleanup_free_ struct tarn_set_note *sorted = NULL;
	uint64_t size;
	int r = 0;

	if (mul_u64(n + 1, sizeof(*sorted), &size) || !(sorted = malloc(size)))
		return tarn_fail(ENOMEM, "out of memory for %zu notes", n);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		sorted[i] = notes[i];
		r = check_note(&notes[i]);
	}
	if (r < 0)
		return r;
	qsort(sorted, n, sizeof(*sorted), by_name);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(sorted[i - 1].name, sorted[i].name))
			return tarn_fail(EINVAL,
				"the note of '%.200s' is given twice",
				sorted[i].name);
	*ret = STEAL(sorted);
	return 0;
}

static int by_digest(const void *a, const void *b)
{
	const struct set_digest *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int sort_digests(
	const struct set_digest *digests, size_t n, struct set_digest **ret)
{
	_cleanup_free_ struct set_digest *sorted =
		calloc(n + 1, sizeof(*sorted));

	if (!sorted)
		return tarn_fail(ENOMEM, "out of memory for %zu digests", n);
	if (n)
		memcpy(sorted, digests, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_digest);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(sorted[i - 1].name, sorted[i].name))
			return tarn_fail(EINVAL,
				"the name '%.200s' is given twice",
				sorted[i].name);
	*ret = STEAL(sorted);
	return 0;
}

const struct set_digest *set_digest_find(
	const struct tarn_set_fields *fields, const char *name)
{
	const struct set_digest wanted = {.name = name};

	return fields->n_digests
		       ? bsearch(&wanted, fields->digests, fields->n_digests,
				 sizeof(wanted), by_digest)
		       : NULL;
}

static unsigned char *put_number(unsigned char *p, size_t n)
{
	for (int i = 0; i < 4; i++)
		*p++ = (unsigned char)(n >> 8 * i);
	return p;
}

static unsigned char *put_bytes(unsigned char *p, const void *bytes, size_t n)
{
	if (n)
		memcpy(p, bytes, n);
	return p + n;
}

static unsigned char *put_digest(
	unsigned char *p, const struct tarn_digest *digest)
{
	for (int i = 0; i < 2; i++) {
		p = put_number(p, (uint32_t)digest->word[i]);
		p = put_number(p, (uint32_t)(digest->word[i] >> 32));
	}
	return p;
}

/* The sizes are below their limits, so only the numbers of notes and digests
 * could make the sum large: 64 bits hold it. */
static uint64_t form_size(const struct tarn_set_fields *of)
{
	uint64_t size = HEAD;

	for (size_t i = 0; i < of->n; i++)
		size += 8 + strlen(of->fields[i].key) + 1 +
			strlen(of->fields[i].value) + 1;
	for (size_t i = 0; i < of->n_notes; i++)
		size += 8 + strlen(of->notes[i].name) + 1 + of->notes[i].size;
	for (size_t i = 0; i < of->n_digests; i++)
		size += 4 + strlen(of->digests[i].name) + 1 + 16;
	return size;
}

static void put_form(unsigned char *p, const struct tarn_set_fields *of)
{
	p = put_number(p, MAGIC);
	p = put_number(p, VERSION);
	p = put_number(p, of->n);
	p = put_number(p, of->n_notes);
	p = put_number(p, of->n_digests);
	for (size_t i = 0; i < of->n; i++) {
		size_t key = strlen(of->fields[i].key);
		size_t value = strlen(of->fields[i].value);

		p = put_number(p, key);
		p = put_number(p, value);
		p = put_bytes(p, of->fields[i].key, key + 1);
		p = put_bytes(p, of->fields[i].value, value + 1);
	}
	for (size_t i = 0; i < of->n_notes; i++) {
		size_t name = strlen(of->notes[i].name);

		p = put_number(p, name);
		p = put_number(p, of->notes[i].size);
		p = put_bytes(p, of->notes[i].name, name + 1);
		p = put_bytes(p, of->notes[i].bytes, of->notes[i].size);
	}
	for (size_t i = 0; i < of->n_digests; i++) {
		size_t name = strlen(of->digests[i].name);

		p = put_number(p, name);
		p = put_bytes(p, of->digests[i].name, name + 1);
		p = put_digest(p, &of->digests[i].digest);
	}
}

static int write_sorted(const struct tarn_set_fields *of, tarn_tensor **ret)
{
	uint64_t size = form_size(of);
	int64_t shape = (int64_t)size;
	int r;

	if (size > TARN_SET_BYTES_MAX)
		return tarn_fail(E2BIG,
			"fields, notes and digests have %llu bytes; %u are the "
			"most",
			(unsigned long long)size, TARN_SET_BYTES_MAX);
	r = tarn_tensor_zeros(TARN_U8, 1, &shape, ret);
	if (r >= 0)
		put_form(tarn_tensor_data(*ret), of);
	return r;
}

int set_form_write(const struct tarn_set_fields *of, tarn_tensor **ret)
{
	struct tarn_set_fields sorted = {
		.n = of->n, .n_notes = of->n_notes, .n_digests = of->n_digests};
	int r = set_fields_sort(of->fields, of->n, &sorted.fields);

	if (r >= 0)
		r = sort_notes(of->notes, of->n_notes, &sorted.notes);
	if (r >= 0)
		r = sort_digests(of->digests, of->n_digests, &sorted.digests);
	if (r >= 0)
		r = write_sorted(&sorted, ret);
	free(sorted.fields);
	free(sorted.notes);
	free(sorted.digests);
	return r;
}

/* ---- reading ------------------------------------------------------------- */

struct reader {
	const unsigned char *p;
	size_t left;
};

static int fail_form(const char *what)
{
	return tarn_fail(EBADMSG, "its bytes are no fields of a set: %s", what);
}

static bool take_number(struct reader *r, uint32_t *ret)
{
	if (r->left < 4)
		return false;
	*ret = (uint32_t)r->p[0] | (uint32_t)r->p[1] << 8 |
	       (uint32_t)r->p[2] << 16 | (uint32_t)r->p[3] << 24;
	r->p += 4;
	r->left -= 4;
	return true;
}

static bool take_bytes(struct reader *r, size_t n, const void **ret)
{
	if (n > r->left)
		return false;
	*ret = r->p;
	r->p += n;
	r->left -= n;
	return true;
}

/* n bytes of text, and the 0 that ends it. */
static bool take_text(struct reader *r, uint32_t n, const char **ret)
{
	const void *text;

	if (n > TARN_SET_TEXT_MAX || !take_bytes(r, (size_t)n + 1, &text))
		return false;
	*ret = text;
	return !(*ret)[n] && (!n || name_check(*ret, n) >= 0);
}

static int read_fields(struct reader *from, struct tarn_set_fields *to)
{
	for (size_t i = 0; i < to->n; i++) {
		struct tarn_set_field *f = &to->fields[i];
		uint32_t key, value;

		if (!take_number(from, &key) || !take_number(from, &value) ||
			!key || !take_text(from, key, &f->key) ||
			!take_text(from, value, &f->value))
			return fail_form("a field is cut off, or no text");
		if (i && strcmp(f[-1].key, f->key) >= 0)
			return fail_form("the keys do not ascend");
	}
	return 0;
}

static int read_notes(struct reader *from, struct tarn_set_fields *to)
{
	for (size_t i = 0; i < to->n_notes; i++) {
		struct tarn_set_note *note = &to->notes[i];
		uint32_t name, size;

		if (!take_number(from, &name) || !take_number(from, &size) ||
			!name || !take_text(from, name, &note->name) ||
			size > TARN_SET_NOTE_MAX ||
			!take_bytes(from, size, &note->bytes))
			return fail_form("a note is cut off, or too large");
		note->size = size;
		if (i && strcmp(note[-1].name, note->name) >= 0)
			return fail_form("the names of notes do not ascend");
	}
	return 0;
}

static int read_digests(struct reader *from, struct tarn_set_fields *to)
{
	for (size_t i = 0; i < to->n_digests; i++) {
		struct set_digest *d = &to->digests[i];
		uint32_t name, half[4];

		if (!take_number(from, &name) || !name ||
			!take_text(from, name, &d->name))
			return fail_form("the name of a digest is cut off");
		for (int k = 0; k < 4; k++)
			if (!take_number(from, &half[k]))
				return fail_form("a digest is cut off");
		for (int k = 0; k < 2; k++)
			d->digest.word[k] =
				half[2 * k] | (uint64_t)half[2 * k + 1] << 32;
		if (i && strcmp(d[-1].name, d->name) >= 0)
			return fail_form("the names of digests do not ascend");
	}
	return 0;
}

/* Each record has 10 bytes at least, a digest 22, so numbers that the bytes do not
 * bear out allocate nothing. */
static int read_head(struct reader *from, struct tarn_set_fields *to)
{
	uint32_t magic, version, n, n_notes, n_digests;

	if (!take_number(from, &magic) || !take_number(from, &version) ||
		magic != MAGIC)
		return fail_form("they begin otherwise");
	if (version != VERSION)
		return tarn_fail(EBADMSG,
			"its fields are of version %u, this library reads %u",
			version, VERSION);
	if (!take_number(from, &n) || !take_number(from, &n_notes) ||
		!take_number(from, &n_digests))
		return fail_form("they begin otherwise");
	if (n > TARN_SET_FIELDS_MAX || n > from->left / 10 ||
		n_notes > from->left / 10 || n_digests > from->left / 22)
		return fail_form("there are fewer records than it says");
	to->n = n;
	to->n_notes = n_notes;
	to->n_digests = n_digests;
	to->fields = calloc((size_t)n + 1, sizeof(*to->fields));
	to->notes = calloc((size_t)n_notes + 1, sizeof(*to->notes));
	to->digests = calloc((size_t)n_digests + 1, sizeof(*to->digests));
	return to->fields && to->notes && to->digests
		       ? 0
		       : tarn_fail_constant(ENOMEM, "out of memory for fields");
}

int set_form_read(
	unsigned char *bytes, size_t size, struct tarn_set_fields **ret)
{
	_cleanup_fields_ struct tarn_set_fields *to = calloc(1, sizeof(*to));
	struct reader from = {.p = bytes, .left = size};
	int r;

	if (!to)
		return tarn_fail_constant(ENOMEM, "out of memory for fields");
	r = read_head(&from, to);
	if (r >= 0)
		r = read_fields(&from, to);
	if (r >= 0)
		r = read_notes(&from, to);
	if (r >= 0)
		r = read_digests(&from, to);
	if (r >= 0 && from.left)
		r = fail_form("something follows them");
	if (r < 0)
		return r;
	to->bytes = bytes;
	*ret = STEAL(to);
	return 0;
}

tarn_set_fields *tarn_set_fields_free(tarn_set_fields *fields)
{
	if (fields) {
		free(fields->fields);
		free(fields->notes);
		free(fields->digests);
		free(fields->bytes);
		free(fields);
	}
	return NULL;
}
