/* SPDX-License-Identifier: MIT */
/*
 * Fields and notes of a set: published in the same moment as its tensors, read
 * back as they were, compared by tarn_set_check with a sentence that lists every
 * difference; limits; and bytes under PREFIX/.fields that others wrote.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "lib/set/form.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define FIELD(k, v)                                                            \
	{                                                                      \
		.key = (k), .value = (v)                                       \
	}

static tarn_store *store;

static const struct tarn_set_field policy[] = {
	FIELD("model", "llama-8b"),
	FIELD("dtype", "BF16"),
	FIELD("quant", ""),
	FIELD("comment", "gr\xc3\xbc\xc3\x9f"),
};

static tarn_tensor *numbers(double first)
{
	tarn_tensor *t;

	must(tarn_tensor_arange(TARN_F32, first, first + 6, 1, &t));
	return t;
}

static int publish(double first, const struct tarn_set_options *options)
{
	tarn_tensor *a = numbers(first), *b = numbers(first + 100);
	const struct tarn_publish_item items[] = {
		{.name = "a", .tensor = a},
		{.name = "deep/b", .tensor = b},
	};
	uint64_t versions[2];
	int r = tarn_set_publish(store, "policy", items, 2, options, versions);

	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	return r;
}

static tarn_set_fields *opened(const char *prefix)
{
	tarn_set_fields *fields = NULL;

	must(tarn_set_fields_open(store, prefix, &fields));
	return fields;
}

/* ---- there and back ------------------------------------------------------ */

static void test_back(void)
{
	static const char bytes[] = "\0\1scales";
	const struct tarn_set_note notes[] = {
		{.name = "deep/b", .bytes = bytes, .size = sizeof(bytes)},
		{.name = "a"},
	};
	const struct tarn_set_options options = {
		.fields = policy,
		.n_fields = 4,
		.notes = notes,
		.n_notes = 2,
	};
	struct tarn_set_field f = {0};
	struct tarn_set_note note = {0};
	tarn_set_fields *fields;
	tarn_tensor *t = NULL;

	is_int(0, publish(0, &options), "a set is published");
	fields = opened("policy");
	is_int(4, (int64_t)tarn_set_fields_count(fields),
		"all of its fields are there");
	must(tarn_set_fields_at(fields, 0, &f));
	is_str("comment", f.key, "the first field in the order of the keys");
	is_str(policy[3].value, f.value,
		"its value is the text that was given");
	is_int(-ERANGE, tarn_set_fields_at(fields, 4, &f),
		"there is no field past the last");
	is_str("", tarn_set_fields_get(fields, "quant"),
		"a value may be empty");
	ok(!tarn_set_fields_get(fields, "shards"),
		"a key that was not given has no value");
	must(tarn_set_note(fields, "deep/b", &note));
	ok(note.size == sizeof(bytes) &&
			!memcmp(note.bytes, bytes, sizeof(bytes)),
		"a note has its bytes");
	must(tarn_set_note(fields, "a", &note));
	is_int(0, (int64_t)note.size, "a note may have no bytes");
	is_int(-ENOENT, tarn_set_note(fields, "c", &note),
		"there is no note for another name");
	has_str("'c'", tarn_error_message(), "the sentence names it");
	tarn_set_fields_free(fields);
	must(tarn_store_lookup(store, "policy/deep/b", &t));
	tarn_tensor_unref(t);
	is_int(-ENOENT, tarn_set_fields_open(store, "other", &fields),
		"a set that was not published has no fields");
}

/* Names of the old version that the new one lacks are gone. */
static void test_replaced(void)
{
	tarn_tensor *a = numbers(7), *t;
	const struct tarn_publish_item item = {.name = "a", .tensor = a};
	struct tarn_set_options options = {.fields = policy, .n_fields = 1};
	uint64_t version = 0;

	must(tarn_set_publish(store, "policy", &item, 1, &options, &version));
	is_int(2, (int64_t)version, "a name gets its next version");
	is_int(-ENOENT, tarn_store_lookup(store, "policy/deep/b", &t),
		"a name that the new version lacks is gone");
	is_int(0, tarn_set_check(store, "policy", policy, 1),
		"the new version has its own fields");
	options.exclusive = true;
	is_int(-EEXIST,
		tarn_set_publish(store, "policy", &item, 1, &options, NULL),
		"an exclusive publication finds the names taken");
	tarn_tensor_unref(a);
}

/* Tensors and text are of one version, in each snapshot. */
static void test_together(void)
{
	bool same = true;

	for (int i = 0; same && i < 20; i++) {
		char text[16];
		const struct tarn_set_field f = FIELD("first", text);
		const struct tarn_set_options options = {
			.fields = &f, .n_fields = 1};
		struct tarn_snapshot *s = NULL;
		tarn_set_fields *fields = NULL;
		int64_t zero = 0;
		double seen = -1;

		snprintf(text, sizeof(text), "%d", i);
		must(publish(i, &options));
		must(tarn_store_snapshot(store, "policy/", &s));
		for (size_t k = 0; k < s->n; k++) {
			const char *name = s->items[k].name;
			tarn_tensor *t = s->items[k].tensor;

			if (!strcmp(name, "policy/" TARN_SET_FIELDS))
				must(tarn_set_fields_of(t, &fields));
			if (!strcmp(name, "policy/a"))
				must(tarn_tensor_get_f64(t, &zero, &seen));
		}
		same = s->n == 3 && fields && seen == i &&
		       !strcmp(tarn_set_fields_get(fields, "first"), text);
		tarn_set_fields_free(fields);
		tarn_snapshot_free(s);
	}
	ok(same, "a snapshot has tensors and fields of one version");
}

/* ---- comparing ----------------------------------------------------------- */

static void test_check(void)
{
	const struct tarn_set_field wanted[] = {
		FIELD("dtype", "F8_E4M3"),
		FIELD("model", "llama-8b"),
		FIELD("shards", "4"),
		FIELD("quant", ""),
	};
	const struct tarn_set_options options = {
		.fields = policy, .n_fields = 4};

	must(publish(0, &options));
	is_int(0, tarn_set_check(store, "policy", policy, 4),
		"a set has the fields that it was given");
	is_int(-EMEDIUMTYPE, tarn_set_check(store, "policy", wanted, 4),
		"a set that differs is refused");
	is_str("the set 'policy' is not the one that is wanted: 'dtype' is "
	       "BF16, not F8_E4M3; 'shards' is missing; 'comment' = "
	       "'gr\xc3\xbc\xc3\x9f' is not wanted",
		tarn_error_message(), "the sentence lists every difference");
	is_int(-ENOENT, tarn_set_check(store, "other", policy, 4),
		"a set that is not there is no difference");
}

static void test_check_long(void)
{
	char keys[80][40];
	struct tarn_set_field f[80];

	for (int i = 0; i < 80; i++) {
		snprintf(
			keys[i], sizeof(keys[i]), "a-key-that-is-long-%02d", i);
		f[i] = (struct tarn_set_field)FIELD(keys[i], "1");
	}
	is_int(-EMEDIUMTYPE, tarn_set_check(store, "policy", f, 80),
		"a set that differs in 84 fields is refused");
	has_str("'a-key-that-is-long-05' is missing", tarn_error_message(),
		"its sentence begins with the differences");
	has_str(" differences more", tarn_error_message(),
		"its sentence ends with the number of those left out");
}

/* ---- limits -------------------------------------------------------------- */

static void refused(int error, const char *part,
	const struct tarn_set_options *options, const char *what)
{
	is_int(-error, publish(0, options), "%s is refused", what);
	has_str(part, tarn_error_message(), "%s: the sentence says why", what);
}

static void test_refused_fields(void)
{
	static char text[TARN_SET_TEXT_MAX + 2];
	struct tarn_set_field many[TARN_SET_FIELDS_MAX + 1] = {0};
	struct tarn_set_field two[] = {FIELD("k", "1"), FIELD("k", "2")};
	struct tarn_set_options o = {.fields = two, .n_fields = 2};

	refused(EINVAL, "'k' is given twice", &o, "a key that is given twice");
	two[1].key = "";
	refused(EINVAL, "empty", &o, "an empty key");
	two[1].key = "a\nb";
	refused(EINVAL, "U+000A", &o, "a key of two lines");
	two[1] = (struct tarn_set_field)FIELD("utf", "\xff");
	refused(EINVAL, "the field 'utf'", &o, "a value that is no UTF-8");
	memset(text, 'x', sizeof(text) - 1);
	two[1].value = text;
	refused(ENAMETOOLONG, "1025 bytes", &o, "a value that is too long");
	two[1] = (struct tarn_set_field) {.key = "k2"};
	refused(EINVAL, "no value", &o, "a field without a value");
	two[1] = (struct tarn_set_field)FIELD("k2", "");
	two[1].reserved[0] = 1;
	refused(EINVAL, "tarn_set_field", &o, "a reserved word that is set");
	o = (struct tarn_set_options) {
		.fields = many, .n_fields = TARN_SET_FIELDS_MAX + 1};
	refused(E2BIG, "257 fields", &o, "a field too many");
}

static void test_refused_notes(void)
{
	static char bytes[TARN_SET_NOTE_MAX + 1];
	struct tarn_set_note two[] = {{.name = "a"}, {.name = "a"}};
	struct tarn_set_options o = {.notes = two, .n_notes = 2};
	const struct tarn_publish_item fields = {.name = TARN_SET_FIELDS};

	refused(EINVAL, "'a' is given twice", &o, "a second note of a name");
	two[1].name = "b";
	refused(EINVAL, "'b', which is not among", &o,
		"a note for a name that is not there");
	two[1] = (struct tarn_set_note) {
		.name = "deep/b", .bytes = bytes, .size = sizeof(bytes)};
	refused(E2BIG, "65537 bytes", &o, "a note that is too large");
	o = (struct tarn_set_options) {.reserved = {1}};
	refused(EINVAL, "tarn_set_options", &o,
		"a reserved option that is set");
	is_int(-EINVAL,
		tarn_set_publish(store, "policy", &fields, 1, NULL, NULL),
		"a tensor by the name of the fields is refused");
	is_int(-EINVAL, tarn_set_publish(store, "p/", &fields, 0, NULL, NULL),
		"a set without tensors is refused");
}

/* ---- bytes of others ----------------------------------------------------- */

static unsigned state = 12345;

static unsigned next(unsigned n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

/* Reading must end, and what it accepts must write back as the same bytes. */
static bool survives(const unsigned char *bytes, size_t size)
{
	unsigned char *own = malloc(size + !size);
	struct tarn_set_fields *fields = NULL;
	tarn_tensor *again = NULL;
	bool same = true;
	int r;

	if (!own)
		bail("out of memory");
	memcpy(own, bytes, size);
	r = set_form_read(own, size, &fields);
	if (r < 0) {
		free(own);
		return r == -EBADMSG && tarn_error_message()[0];
	}
	must(set_form_write(fields, &again));
	same = tarn_storage_size(tarn_tensor_storage(again)) == size &&
	       !memcmp(tarn_tensor_data(again), bytes, size);
	tarn_tensor_unref(again);
	tarn_set_fields_free(fields);
	return same;
}

static void damage(unsigned char *bytes, size_t *size)
{
	static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff};

	for (unsigned n = 1 + next(4); n > 0 && *size; n--)
		switch (next(4)) {
		case 0:
			bytes[next((unsigned)*size)] ^=
				(unsigned char)(1u << next(8));
			break;
		case 1:
			bytes[next((unsigned)*size)] = edges[next(5)];
			break;
		case 2:
			*size = next((unsigned)*size + 1);
			break;
		default:
			bytes[next(16) % *size] = (unsigned char)next(256);
		}
}

static void test_hostile(void)
{
	const struct tarn_set_note notes[] = {
		{.name = "a", .bytes = "xyz", .size = 3}, {.name = "b"}};
	struct set_digest digests[] = {
		{.name = "a", .digest = {{1, 2}}}, {.name = "bc"}};
	const struct tarn_set_fields form = {.n = 4,
		.fields = (struct tarn_set_field *)policy,
		.n_notes = 2,
		.notes = (struct tarn_set_note *)notes,
		.n_digests = 2,
		.digests = digests};
	unsigned char whole[512], bytes[512];
	unsigned cases = test_cases(200000), bad = 0;
	tarn_tensor *t = NULL;
	size_t size;

	must(set_form_write(&form, &t));
	size = tarn_storage_size(tarn_tensor_storage(t));
	memcpy(whole, tarn_tensor_data(t), size);
	ok(survives(whole, size), "the form is read, and written alike");
	for (size_t n = 0; n < size; n++)
		bad += !survives(whole, n);
	is_int(0, bad, "a form that ends early is an error, at each length");
	for (unsigned i = 0; i < cases; i++) {
		size_t n = size;

		memcpy(bytes, whole, size);
		damage(bytes, &n);
		bad += !survives(bytes, n);
	}
	is_int(0, bad, "damaged forms are errors, or read as they are");
	tarn_tensor_unref(t);
}

static void test_other_tensors(void)
{
	tarn_tensor *t = numbers(0), *bytes;
	tarn_set_fields *fields = NULL;

	must(tarn_store_publish_one(
		store, "odd/" TARN_SET_FIELDS, t, NULL, NULL));
	is_int(-EBADMSG, tarn_set_fields_open(store, "odd", &fields),
		"numbers are no fields");
	has_str("F32", tarn_error_message(), "the sentence names their dtype");
	must(tarn_tensor_bitcast(t, TARN_U8, &bytes));
	must(tarn_store_publish_one(
		store, "odd/" TARN_SET_FIELDS, bytes, NULL, NULL));
	is_int(-EBADMSG, tarn_set_check(store, "odd", NULL, 0),
		"bytes of another form are no fields");
	tarn_tensor_unref(bytes);
	tarn_tensor_unref(t);
	is_int(-EINVAL, tarn_set_fields_open(store, "", &fields),
		"an empty prefix is refused");
	is_int(-EINVAL, tarn_set_fields_open(store, "a/", &fields),
		"a prefix with the slash is refused");
}

int main(void)
{
	struct daemon server;

	daemon_start(&server, "fields.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	test_back();
	test_replaced();
	test_together();
	test_check();
	test_check_long();
	test_refused_fields();
	test_refused_notes();
	test_hostile();
	test_other_tensors();
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(59);
}
