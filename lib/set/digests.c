/* SPDX-License-Identifier: MIT */
/*
 * The digests of a set's tensors. The publisher of the tensors says them, in the same
 * moment; a reader believes them as far as it believes that publisher, or verifies
 * them by its own.
 */
#include "lib/set/digests.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/snapshot.h>

#include "base/fail.h"
#include "lib/reserved.h"

/* ---- making ----------------------------------------------------------- */

int set_digests_new(size_t n, struct set_digest **ret)
{
	*ret = calloc(n + 1, sizeof(**ret));
	return *ret ? 0 : tarn_fail(ENOMEM, "out of memory for %zu digests", n);
}

int set_digests_make(const struct tarn_publish_item *items, size_t n,
	struct set_digest **ret)
{
	_cleanup_free_ struct set_digest *made = NULL;
	int r = set_digests_new(n, &made);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		made[i].name = items[i].name;
		r = tarn_tensor_digest(items[i].tensor, NULL, &made[i].digest);
		if (r < 0)
			tarn_fail_prefix(r, "'%.200s': ", items[i].name);
	}
	if (r >= 0)
		*ret = STEAL(made);
	return r;
}

/* ---- asking ----------------------------------------------------------- */

int tarn_set_digest(const tarn_set_fields *fields, const char *name,
	struct tarn_digest *ret)
{
	const struct set_digest *found = set_digest_find(fields, name);

	if (!found)
		return tarn_fail(
			ENOENT, "there is no digest of '%.200s'", name);
	*ret = found->digest;
	return 0;
}

static int verify_one(const char *name, const struct tarn_set_fields *fields,
	tarn_tensor *tensor, const struct tarn_copy_options *options)
{
	const struct set_digest *said = set_digest_find(fields, name);
	struct tarn_digest seen;
	int r;

	if (!said)
		return tarn_fail(ENODATA,
			"'%.200s' was published without a digest; publish the "
			"set with options.digests",
			name);
	r = tarn_tensor_digest(tensor, options, &seen);
	if (r < 0)
		return tarn_fail_prefix(r, "'%.200s': ", name);
	if (memcmp(&seen, &said->digest, sizeof(seen)) != 0)
		return tarn_fail(EBADMSG,
			"'%.200s' has digest %016" PRIx64 "%016" PRIx64
			", and was published with %016" PRIx64 "%016" PRIx64
			": its bytes have changed",
			name, seen.word[0], seen.word[1], said->digest.word[0],
			said->digest.word[1]);
	return 0;
}

static bool has(const struct tarn_snapshot *s, size_t lead, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->items[i].name + lead, name))
			return true;
	return false;
}

/* Of a set of which n tensors are there and have digests. */
static int verify_number(const struct tarn_snapshot *s, size_t lead,
	const struct tarn_set_fields *fields, size_t n)
{
	for (size_t i = 0; n < fields->n_digests && i < fields->n_digests; i++)
		if (!has(s, lead, fields->digests[i].name))
			return tarn_fail(EBADMSG,
				"'%.200s' was published with digest %016" PRIx64
				"%016" PRIx64 ", and was removed since",
				fields->digests[i].name,
				fields->digests[i].digest.word[0],
				fields->digests[i].digest.word[1]);
	return 0;
}

/* items: of one commit, whose names begin with lead bytes of the prefix. */
static int verify(const struct tarn_snapshot *s, size_t lead,
	const struct tarn_copy_options *options)
{
	_cleanup_fields_ tarn_set_fields *fields = NULL;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && !fields && i < s->n; i++)
		if (!strcmp(s->items[i].name + lead, TARN_SET_FIELDS))
			r = tarn_set_fields_of(s->items[i].tensor, &fields);
	if (r >= 0 && !fields)
		return tarn_fail_constant(
			ENOENT, "it has no fields, or is not published");
	for (size_t i = 0; r >= 0 && i < s->n; i++) {
		const char *name = s->items[i].name + lead;

		if (!strcmp(name, TARN_SET_FIELDS))
			continue;
		r = verify_one(name, fields, s->items[i].tensor, options);
		n++;
	}
	return r < 0 ? r : verify_number(s, lead, fields, n);
}

int tarn_set_verify(tarn_store *store, const char *prefix,
	const struct tarn_copy_options *options)
{
	_cleanup_free_ char *whole = NULL;
	struct tarn_snapshot *s = NULL;
	int r = RESERVED_CHECK("tarn_copy_options", options);

	if (r >= 0)
		r = set_name(prefix, "", &whole);
	if (r >= 0)
		r = tarn_store_snapshot(store, whole, &s);
	if (r >= 0)
		r = verify(s, strlen(whole), options);
	tarn_snapshot_free(s);
	return r < 0 ? tarn_fail_prefix(r, "the set '%.200s': ", prefix) : 0;
}
