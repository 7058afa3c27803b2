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
#define VERSION 1u
#define HEAD 16u

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

/* The sizes are below their limits, so only the number of notes could make the
 * sum large: 64 bits hold it. */
static uint64_t form_size(const struct tarn_set_field *fields, size_t n,
	const struct tarn_set_note *notes, size_t n_notes)
{
	uint64_t size = HEAD;

	for (size_t i = 0; i < n; i++)
		size += 8 + strlen(fields[i].key) + 1 +
			strlen(fields[i].value) + 1;
	for (size_t i = 0; i < n_notes; i++)
		size += 8 + strlen(notes[i].name) + 1 + notes[i].size;
	return size;
}

static void put_form(unsigned char *p, const struct tarn_set_field *fields,
	size_t n, const struct tarn_set_note *notes, size_t n_notes)
{
	p = put_number(p, MAGIC);
	p = put_number(p, VERSION);
	p = put_number(p, n);
	p = put_number(p, n_notes);
	for (size_t i = 0; i < n; i++) {
		size_t key = strlen(fields[i].key);
		size_t value = strlen(fields[i].value);

		p = put_number(p, key);
		p = put_number(p, value);
		p = put_bytes(p, fields[i].key, key + 1);
		p = put_bytes(p, fields[i].value, value + 1);
	}
	for (size_t i = 0; i < n_notes; i++) {
		size_t name = strlen(notes[i].name);

		p = put_number(p, name);
		p = put_number(p, notes[i].size);
		p = put_bytes(p, notes[i].name, name + 1);
		p = put_bytes(p, notes[i].bytes, notes[i].size);
	}
}

int set_form_write(const struct tarn_set_field *fields, size_t n,
	const struct tarn_set_note *notes, size_t n_notes, tarn_tensor **ret)
{
	_cleanup_free_ struct tarn_set_field *sorted = NULL;
	_cleanup_free_ struct tarn_set_note *sorted_notes = NULL;
	uint64_t size;
	int64_t shape;
	int r = set_fields_sort(fields, n, &sorted);

	if (r >= 0)
		r = sort_notes(notes, n_notes, &sorted_notes);
	if (r < 0)
		return r;
	size = form_size(sorted, n, sorted_notes, n_notes);
	if (size > TARN_SET_BYTES_MAX)
		return tarn_fail(E2BIG,
			"fields and notes have %llu bytes; %u are the most",
			(unsigned long long)size, TARN_SET_BYTES_MAX);
	shape = (int64_t)size;
	r = tarn_tensor_zeros(TARN_U8, 1, &shape, ret);
	if (r >= 0)
		put_form(tarn_tensor_data(*ret), sorted, n, sorted_notes,
			n_notes);
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

/* Each record has 10 bytes at least, so numbers that the bytes do not bear out
 * allocate nothing. */
static int read_head(struct reader *from, struct tarn_set_fields *to)
{
	uint32_t magic, version, n, n_notes;

	if (!take_number(from, &magic) || !take_number(from, &version) ||
		!take_number(from, &n) || !take_number(from, &n_notes) ||
		magic != MAGIC)
		return fail_form("they begin otherwise");
	if (version != VERSION)
		return tarn_fail(EBADMSG,
			"its fields are of version %u, this library reads %u",
			version, VERSION);
	if (n > TARN_SET_FIELDS_MAX || n > from->left / 10 ||
		n_notes > from->left / 10)
		return fail_form("there are fewer records than it says");
	to->n = n;
	to->n_notes = n_notes;
	to->fields = calloc((size_t)n + 1, sizeof(*to->fields));
	to->notes = calloc((size_t)n_notes + 1, sizeof(*to->notes));
	return to->fields && to->notes
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
		free(fields->bytes);
		free(fields);
	}
	return NULL;
}
