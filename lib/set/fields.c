/* SPDX-License-Identifier: MIT */
/*
 * A set is published by one publication, of which the tensor with its fields is
 * a part; its readers copy that tensor's bytes before they look at them, since a
 * publisher may have left them writable.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/reserved.h"
#include "lib/set/digests.h"
#include "lib/set/form.h"
#include "lib/tensor/tensor.h"

/* ---- publishing ---------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Is there a tensor for each note? */
static int check_notes(const struct tarn_publish_item *items, size_t n,
	const struct tarn_set_options *o)
{
	_cleanup_free_ const char **names = NULL;

	if (!o->n_notes)
		return 0;
	names = calloc(n, sizeof(*names));
	if (!names)
		return tarn_fail(ENOMEM, "out of memory for %zu names", n);
	for (size_t i = 0; i < n; i++)
		names[i] = items[i].name;
	qsort(names, n, sizeof(*names), by_text);
	for (size_t i = 0; i < o->n_notes; i++)
		if (o->notes[i].name && !bsearch(&o->notes[i].name, names, n,
						sizeof(*names), by_text))
			return tarn_fail(EINVAL,
				"a note is for '%.200s', which is not among "
				"the tensors",
				o->notes[i].name);
	return 0;
}

static int check_names(const struct tarn_publish_item *items, size_t n)
{
	if (!n)
		return tarn_fail_constant(EINVAL,
			"there are no tensors; tarn_store_publish with a "
			"prefix to replace removes a set");
	for (size_t i = 0; i < n; i++)
		if (!strcmp(items[i].name, TARN_SET_FIELDS))
			return tarn_fail_constant(EINVAL,
				"'" TARN_SET_FIELDS
				"' is the name of the set's fields");
	return 0;
}

/* The items by their whole names, and the fields behind them; whole[n + 1] is
 * the prefix with its '/'. */
static int name_items(const char *prefix, const struct tarn_publish_item *items,
	size_t n, tarn_tensor *fields, char **whole,
	struct tarn_publish_item *ret)
{
	int r = set_name(prefix, "", &whole[n + 1]);

	for (size_t i = 0; r >= 0 && i <= n; i++) {
		if (i < n)
			ret[i] = items[i];
		else
			ret[i].tensor = fields;
		r = set_name(prefix, i < n ? items[i].name : TARN_SET_FIELDS,
			&whole[i]);
		ret[i].name = whole[i];
	}
	return r;
}

static int publish_named(tarn_store *store, const char *prefix,
	const struct tarn_publish_item *items, size_t n,
	const struct tarn_set_options *o, tarn_tensor *fields,
	uint64_t *ret_versions)
{
	struct tarn_publish_options options = {
		.exclusive = o->exclusive, .ttl_ms = o->ttl_ms};
	char **whole = calloc(n + 2, sizeof(*whole));
	struct tarn_publish_item *all = calloc(n + 1, sizeof(*all));
	uint64_t *versions = calloc(n + 1, sizeof(*versions));
	int r = whole && all && versions
			? name_items(prefix, items, n, fields, whole, all)
			: tarn_fail(ENOMEM, "out of memory for %zu names", n);

	if (r >= 0) {
		options.replace = whole[n + 1];
		r = tarn_store_publish(store, all, n + 1, &options, versions);
	}
	if (r >= 0 && ret_versions)
		memcpy(ret_versions, versions, n * sizeof(*versions));
	for (size_t i = 0; whole && i < n + 2; i++)
		free(whole[i]);
	free(whole);
	free(all);
	free(versions);
	return r;
}

int tarn_set_publish(tarn_store *store, const char *prefix,
	const struct tarn_publish_item *items, size_t n,
	const struct tarn_set_options *options, uint64_t *ret_versions)
{
	static const struct tarn_set_options none;
	const struct tarn_set_options *o = options ? options : &none;
	_cleanup_tensor_ tarn_tensor *fields = NULL;
	_cleanup_free_ struct set_digest *digests = NULL;
	struct tarn_set_fields form;
	int r = RESERVED_CHECK("tarn_set_options", options);

	if (r >= 0)
		r = check_names(items, n);
	if (r >= 0)
		r = check_notes(items, n, o);
	if (r >= 0 && o->digests)
		r = set_digests_make(items, n, &digests);
	form = (struct tarn_set_fields) {.n = o->n_fields,
		.fields = (struct tarn_set_field *)o->fields,
		.n_notes = o->n_notes,
		.notes = (struct tarn_set_note *)o->notes,
		.n_digests = digests ? n : 0,
		.digests = digests};
	if (r >= 0)
		r = set_form_write(&form, &fields);
	if (r < 0)
		return tarn_fail_prefix(r, "the set '%.200s': ", prefix);
	return publish_named(store, prefix, items, n, o, fields, ret_versions);
}

/* ---- reading ------------------------------------------------------------- */

int tarn_set_fields_of(const tarn_tensor *tensor, tarn_set_fields **ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	_cleanup_free_ unsigned char *bytes = NULL;
	size_t size;
	int r;

	if (l->dtype != TARN_U8 || l->ndim != 1)
		return tarn_fail(EBADMSG,
			"a tensor of %s with %d dimensions is no fields of a "
			"set, which are U8 of one",
			tarn_dtype_name(l->dtype), l->ndim);
	/* A process that only reads memory loads no driver for it. */
	if (tarn_storage_kind(tarn_tensor_storage(tensor)) ==
		TARN_STORAGE_DEVICE)
		return tarn_fail_constant(EBADMSG,
			"a tensor on a device is no fields of a set, which are "
			"in memory");
	size = (size_t)l->shape[0];
	if (size > TARN_SET_BYTES_MAX)
		return tarn_fail(EBADMSG,
			"%zu bytes are no fields of a set, which has %u at "
			"most",
			size, TARN_SET_BYTES_MAX);
	bytes = malloc(size + 1);
	if (!bytes)
		return tarn_fail(ENOMEM, "out of memory for %zu bytes", size);
	r = tarn_tensor_ravel(tensor, TARN_ORDER_C, bytes, size);
	if (r >= 0)
		r = set_form_read(bytes, size, ret);
	if (r >= 0)
		bytes = NULL;
	return r;
}

int tarn_set_fields_open(
	tarn_store *store, const char *prefix, tarn_set_fields **ret)
{
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	_cleanup_free_ char *name = NULL;
	int r = set_name(prefix, TARN_SET_FIELDS, &name);

	if (r >= 0)
		r = tarn_store_lookup(store, name, &tensor);
	if (r >= 0) {
		r = tarn_set_fields_of(tensor, ret);
		if (r < 0)
			tarn_fail_prefix(r, "'%.200s': ", name);
	}
	return r < 0 ? tarn_fail_prefix(
			       r, "fields of the set '%.200s': ", prefix)
		     : 0;
}

size_t tarn_set_fields_count(const tarn_set_fields *fields)
{
	return fields->n;
}

int tarn_set_fields_at(
	const tarn_set_fields *fields, size_t i, struct tarn_set_field *ret)
{
	if (i >= fields->n)
		return tarn_fail(ERANGE, "field %zu of %zu", i, fields->n);
	*ret = fields->fields[i];
	return 0;
}

const char *tarn_set_fields_get(const tarn_set_fields *fields, const char *key)
{
	const struct tarn_set_field *f =
		set_field_find(fields->fields, fields->n, key);

	return f ? f->value : NULL;
}

static int by_name(const void *a, const void *b)
{
	const struct tarn_set_note *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int tarn_set_note(const tarn_set_fields *fields, const char *name,
	struct tarn_set_note *ret)
{
	const struct tarn_set_note wanted = {.name = name};
	const struct tarn_set_note *found = bsearch(&wanted, fields->notes,
		fields->n_notes, sizeof(wanted), by_name);

	if (!found)
		return tarn_fail(ENOENT, "there is no note for '%.200s'", name);
	*ret = *found;
	return 0;
}

/* ---- checking ------------------------------------------------------------ */

/* A list of differences; the room is that of a sentence, less what is in front
 * of it and the number of those that are left out. */
struct differences {
	char text[TARN_MESSAGE_MAX - 300];
	size_t size;
	unsigned left_out;
};

static void differ(struct differences *d, const char *fmt, ...) _printf_(2, 3);

static void differ(struct differences *d, const char *fmt, ...)
{
	size_t room = sizeof(d->text) - d->size;
	char *at = d->text + d->size;
	int lead = d->size ? 2 : 0, n;
	va_list ap;

	va_start(ap, fmt);
	n = room > 2 ? vsnprintf(at + lead, room - (size_t)lead, fmt, ap) : -1;
	va_end(ap);
	if (n < 0 || (size_t)(n + lead) >= room) {
		*at = '\0';
		d->left_out++;
		return;
	}
	memcpy(at, "; ", (size_t)lead);
	d->size += (size_t)(n + lead);
}

/* Both are sorted. */
static void compare(const struct tarn_set_fields *seen,
	const struct tarn_set_field *wanted, size_t n, struct differences *d)
{
	for (size_t i = 0; i < n; i++) {
		const char *value = tarn_set_fields_get(seen, wanted[i].key);

		if (!value)
			differ(d, "'%s' is missing", wanted[i].key);
		else if (strcmp(value, wanted[i].value))
			differ(d, "'%s' is %s, not %s", wanted[i].key, value,
				wanted[i].value);
	}
	for (size_t i = 0; i < seen->n; i++)
		if (!set_field_find(wanted, n, seen->fields[i].key))
			differ(d, "'%s' = '%s' is not wanted",
				seen->fields[i].key, seen->fields[i].value);
}

int tarn_set_check(tarn_store *store, const char *prefix,
	const struct tarn_set_field *fields, size_t n)
{
	_cleanup_free_ struct tarn_set_field *wanted = NULL;
	_cleanup_fields_ tarn_set_fields *seen = NULL;
	struct differences d = {.size = 0};
	char more[64] = "";
	int r = set_fields_sort(fields, n, &wanted);

	if (r >= 0)
		r = tarn_set_fields_open(store, prefix, &seen);
	if (r < 0)
		return r;
	compare(seen, wanted, n, &d);
	if (d.left_out)
		snprintf(more, sizeof(more), "%s%u differences %s",
			d.size ? "; and " : "", d.left_out,
			d.size ? "more" : "that are too long to show");
	if (d.size || d.left_out)
		return tarn_fail(EMEDIUMTYPE,
			"the set '%.150s' is not the one that is wanted: %s%s",
			prefix, d.text, more);
	return 0;
}
