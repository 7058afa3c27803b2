/* SPDX-License-Identifier: MIT */
/*
 * Digests that are published with a set: each is that of its tensor, in the first
 * version and in those that refits make; tarn_set_verify finds a tensor that has
 * another one, or none.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "lib/set/form.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static tarn_store *store;

static tarn_tensor *numbers(double first)
{
	tarn_tensor *t;

	must(tarn_tensor_arange(TARN_F32, first, first + 6, 1, &t));
	return t;
}

static void publish(bool digests)
{
	const struct tarn_set_field field = {.key = "step", .value = "1"};
	const struct tarn_set_note note = {
		.name = "deep/b", .bytes = "xyz", .size = 3};
	const struct tarn_set_options options = {.fields = &field,
		.n_fields = 1,
		.notes = &note,
		.n_notes = 1,
		.digests = digests};
	tarn_tensor *a = numbers(0), *b = numbers(100);
	const struct tarn_publish_item items[] = {
		{.name = "a", .tensor = a}, {.name = "deep/b", .tensor = b}};

	must(tarn_set_publish(store, "policy", items, 2, &options, NULL));
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
}

/* Has the set that digest for the name, which is that of its tensor? */
static bool says(const char *name, double first)
{
	struct tarn_digest said, seen;
	tarn_set_fields *fields;
	tarn_tensor *t = numbers(first);
	int r;

	must(tarn_set_fields_open(store, "policy", &fields));
	must(tarn_tensor_digest(t, NULL, &seen));
	r = tarn_set_digest(fields, name, &said);
	tarn_set_fields_free(fields);
	tarn_tensor_unref(t);
	return r == 0 && !memcmp(&said, &seen, sizeof(said));
}

static int verify(void)
{
	return tarn_set_verify(store, "policy", NULL);
}

static void test_published(void)
{
	tarn_set_fields *fields;
	struct tarn_digest said;

	publish(true);
	ok(says("a", 0) && says("deep/b", 100), "each tensor has its digest");
	is_int(0, verify(), "a set has the bytes that were published");
	must(tarn_set_fields_open(store, "policy", &fields));
	is_int(-ENOENT, tarn_set_digest(fields, "c", &said),
		"another name has no digest");
	has_str("'c'", tarn_error_message(), "the error names it");
	tarn_set_fields_free(fields);
}

static void test_without(void)
{
	publish(false);
	is_int(-ENODATA, verify(), "a set without digests cannot be verified");
	has_str("the set 'policy': 'a' was published without a digest",
		tarn_error_message(), "the error names a tensor");
	is_int(-ENOENT, tarn_set_verify(store, "other", NULL),
		"a set that is not there is none to verify");
	is_int(-EINVAL, tarn_set_verify(store, "policy/", NULL),
		"a prefix with a slash is no set's");
}

/* ---- refits -------------------------------------------------------------- */

static tarn_refit *begun(const struct tarn_refit_options *options)
{
	tarn_refit *refit;

	must(tarn_refit_begin(store, "policy", options, &refit));
	return refit;
}

static void put(tarn_refit *refit, const char *name, double first)
{
	tarn_tensor *t = numbers(first);

	must(tarn_refit_put(refit, name, t));
	tarn_tensor_unref(t);
}

static uint64_t version_of_fields(void)
{
	uint64_t version = 0;

	must(tarn_store_version(store, "policy/" TARN_SET_FIELDS, &version));
	return version;
}

static void test_refit(void)
{
	const struct tarn_set_field step = {.key = "step", .value = "2"};
	const struct tarn_refit_options options = {
		.fields = &step, .n_fields = 1, .add = true};
	const struct tarn_refit_options share = {.share_equal = true};
	tarn_set_fields *fields;
	struct tarn_set_note note;
	tarn_refit *refit;
	uint64_t before;

	publish(true);
	refit = begun(NULL);
	put(refit, "a", 7);
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	ok(says("a", 7) && says("deep/b", 100),
		"a refit gives what it changes a new digest");
	is_int(0, verify(), "the next version has its bytes");

	refit = begun(&options);
	put(refit, "a", 9);
	put(refit, "new", 20);
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	ok(says("a", 9) && says("deep/b", 100) && says("new", 20),
		"a name that is added has a digest");
	must(tarn_set_fields_open(store, "policy", &fields));
	is_str("2", tarn_set_fields_get(fields, "step"),
		"fields are replaced beside the digests");
	is_int(0, tarn_set_note(fields, "deep/b", &note),
		"notes stay beside the digests");
	tarn_set_fields_free(fields);

	before = version_of_fields();
	refit = begun(&share);
	put(refit, "a", 9);
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	is_int((int64_t)before, (int64_t)version_of_fields(),
		"a refit that changes nothing publishes no digests");
	is_int(0, verify(), "the set is as it was");
}

static void test_sparse(void)
{
	int64_t at[] = {1, 4};
	float values[] = {-1, -2};
	const int64_t n = 2;
	tarn_tensor *positions, *new, *t;
	tarn_refit *refit = begun(NULL);
	double seen = 0;

	must(tarn_tensor_zeros(TARN_I64, 1, &n, &positions));
	must(tarn_tensor_zeros(TARN_F32, 1, &n, &new));
	memcpy(tarn_tensor_data(positions), at, sizeof(at));
	memcpy(tarn_tensor_data(new), values, sizeof(values));
	must(tarn_refit_sparse(refit, "deep/b", positions, new));
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(new);
	must(tarn_store_lookup(store, "policy/deep/b", &t));
	must(tarn_tensor_get_f64(t, &at[1], &seen));
	tarn_tensor_unref(t);
	ok(seen == -2 && !says("deep/b", 100),
		"a sparse update changes a tensor and its digest");
	is_int(0, verify(), "that is the digest of all of it");
}

/* ---- others ---------------------------------------------------------------- */

static void publish_beside(const char *name, double first)
{
	tarn_tensor *t = numbers(first);

	must(tarn_store_publish_one(store, name, t, NULL, NULL));
	tarn_tensor_unref(t);
}

static void test_others(void)
{
	publish(true);
	publish_beside("policy/a", 1);
	is_int(-EBADMSG, verify(), "other bytes under a name are found");
	has_str("'a' has digest ", tarn_error_message(),
		"the error names the tensor");
	has_str("its bytes have changed", tarn_error_message(),
		"the error says what has happened");
	publish(true);
	publish_beside("policy/more", 1);
	is_int(-ENODATA, verify(), "a name that others added has no digest");
	has_str("'more'", tarn_error_message(), "the error names it");
	publish_beside("policy/" TARN_SET_FIELDS, 1);
	is_int(-EBADMSG, verify(), "fields that are none are an error");
}

static void put_equal(const char *equal, double first, const char *other)
{
	const struct tarn_refit_options share = {.share_equal = true};
	tarn_refit *refit = begun(&share);
	struct tarn_refit_info info;

	if (equal)
		put(refit, equal, first);
	put(refit, other, 70);
	must(tarn_refit_commit(refit));
	tarn_refit_progress(refit, &info);
	is_int(equal ? 1 : 0, (int64_t)info.names_shared,
		"what is put and equal stays");
	tarn_refit_free(refit);
}

/* The fields are of before: they have another digest of "a", or none. */
static void test_others_then_refit(void)
{
	publish(true);
	publish_beside("policy/a", 50);
	put_equal(NULL, 0, "deep/b");
	ok(says("a", 50) && says("deep/b", 70),
		"a refit has the digest of what others published");
	is_int(0, verify(), "the set has its bytes");

	publish(true);
	publish_beside("policy/a", 60);
	put_equal("a", 60, "deep/b");
	ok(says("a", 60), "also of what was put, and found equal");

	publish_beside("policy/more", 80);
	put_equal(NULL, 0, "a");
	ok(says("more", 80), "also of a name that others added");
	is_int(0, verify(), "the set has its bytes again");
	must(tarn_store_remove(store, "policy/more"));
}

static void test_removed(void)
{
	publish(true);
	must(tarn_store_remove(store, "policy/a"));
	is_int(-EBADMSG, verify(), "a tensor that was removed is missed");
	has_str("'a' was published with digest ", tarn_error_message(),
		"the error names it");
	put_equal(NULL, 0, "deep/b");
	is_int(0, verify(), "the next version is without it");
}

/* Names that are not those of tensors are of no use, and do no harm. */
static void test_form(void)
{
	struct set_digest two[] = {{.name = "z", .digest = {{1, 2}}},
		{.name = "a", .digest = {{UINT64_MAX, 4}}}};
	const struct tarn_set_fields form = {.n_digests = 2, .digests = two};
	tarn_set_fields *fields;
	struct tarn_digest said = {{0, 0}};
	tarn_tensor *t;

	must(set_form_write(&form, &t));
	must(tarn_set_fields_of(t, &fields));
	must(tarn_set_digest(fields, "a", &said));
	ok(said.word[0] == UINT64_MAX && said.word[1] == 4,
		"a digest is read as it was written");
	tarn_set_fields_free(fields);
	((unsigned char *)tarn_tensor_data(t))[4] = 1;
	is_int(-EBADMSG, tarn_set_fields_of(t, &fields),
		"fields of an older version are refused");
	has_str("version 1, this library reads 2", tarn_error_message(),
		"the error has both versions");
	tarn_tensor_unref(t);
	two[1].name = "z";
	is_int(-EINVAL, set_form_write(&form, &t), "a name has one digest");
}

int main(void)
{
	struct daemon server;

	daemon_start(&server, "digests.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	test_published();
	test_without();
	test_refit();
	test_sparse();
	test_others();
	test_others_then_refit();
	test_removed();
	test_form();
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(40);
}
