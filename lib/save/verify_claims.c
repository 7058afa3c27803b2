/* SPDX-License-Identifier: MIT */
/*
 * The checksums that a file's metadata has for its tensors. A file may have a
 * hundred thousand of both, so the metadata is indexed once for all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"
#include "lib/file/write_head.h"
#include "lib/save/verify.h"

static const size_t prefix_size = sizeof(HEAD_CHECKSUM) - 1;

/* As this library writes them: 16 digits, small letters. Large ones are read
 * too. */
static bool parse_digits(const char *text, uint64_t *ret)
{
	uint64_t value = 0;

	for (int i = 0; i < HEAD_DIGITS; i++) {
		char c = text[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0)
			return false;
		value = value << 4 | (uint64_t)digit;
	}
	*ret = value;
	return !text[HEAD_DIGITS];
}

static int no_digits(
	const tarn_file *file, const char *tensor, const char *digits)
{
	char shown[FILE_TEXT_MAX], seen[FILE_TEXT_MAX];

	return tarn_fail(EBADMSG,
		"%.300s: the checksum of tensor '%s' is '%s', which is not "
		"%d hexadecimal digits",
		tarn_file_path(file), file_clean(tensor, strlen(tensor), shown),
		file_clean(digits, strlen(digits), seen), HEAD_DIGITS);
}

/* The part of a metadata key after the prefix; NULL: it is not a checksum's. */
static const char *summed_name(const char *key)
{
	return strncmp(key, HEAD_CHECKSUM, prefix_size) ? NULL
							: key + prefix_size;
}

int tarn_file_checksum(const tarn_file *file, const char *tensor, uint64_t *ret)
{
	_cleanup_free_ char *key = NULL;
	const struct file_pair *pair;
	size_t size = strlen(tensor);
	char shown[FILE_TEXT_MAX];

	if (file->shards) {
		const struct tarn_file_entry *t = tarn_file_find(file, tensor);

		/* An index has metadata of its own, and no bytes. */
		if (t)
			return tarn_file_checksum(
				tarn_file_shard(file, t->shard), tensor, ret);
	}
	key = malloc(prefix_size + size + 1);
	if (!key)
		return tarn_fail(ENOMEM, "%.300s: no memory for checksums",
			tarn_file_path(file));
	memcpy(key, HEAD_CHECKSUM, prefix_size);
	memcpy(key + prefix_size, tensor, size + 1);
	pair = file_metadata_find(file, key);
	if (pair && !parse_digits(pair->value, ret))
		return no_digits(file, tensor, pair->value);
	if (pair)
		return 0;
	return tarn_fail(ENOENT,
		"%.300s: there is no checksum of a tensor '%s'",
		tarn_file_path(file), file_clean(tensor, size, shown));
}

/* The claim of each tensor that has a key in the metadata. */
static int read_metadata(const tarn_file *file, struct claim *claims)
{
	for (size_t i = 0; i < tarn_file_metadata_count(file); i++) {
		const struct tarn_file_entry *t;
		const char *key, *value, *name;
		struct claim *c;
		int r = tarn_file_metadata_at(file, i, &key, &value);

		if (r < 0)
			return r;
		name = summed_name(key);
		t = name ? tarn_file_find(file, name) : NULL;
		if (!t)
			continue;
		c = &claims[t - tarn_file_at(file, 0)];
		c->result = parse_digits(value, &c->wanted) ? 0 : -EBADMSG;
	}
	return 0;
}

int verify_claims(const tarn_file *file, struct claim **ret)
{
	size_t n = tarn_file_count(file);
	struct claim *claims = calloc(n + 1, sizeof(*claims));
	int r;

	if (!claims)
		return tarn_fail(ENOMEM, "%.300s: no memory for checksums",
			tarn_file_path(file));
	for (size_t i = 0; i < n; i++) {
		claims[i].tensor = tarn_file_at(file, i);
		claims[i].result = -ENODATA;
	}
	r = read_metadata(file, claims);
	if (r < 0)
		free(claims);
	else
		*ret = claims;
	return r;
}

int verify_differs(
	const tarn_file *file, const struct claim *claim, uint64_t seen)
{
	const struct tarn_file_entry *t = claim->tensor;
	char shown[FILE_TEXT_MAX];
	uint64_t value;

	if (claim->result == -EBADMSG)
		return tarn_file_checksum(file, t->name, &value);
	return tarn_fail(EBADMSG,
		"%.300s: tensor '%s' is damaged: the checksum of its %llu "
		"bytes at byte %llu is %016llx, and was %016llx when it was "
		"saved",
		tarn_file_path(file), file_clean(t->name, t->name_size, shown),
		(unsigned long long)t->nbytes,
		(unsigned long long)t->file_offset, (unsigned long long)seen,
		(unsigned long long)claim->wanted);
}

/* One range after the other, each as one chunk. */
int verify_memory(const tarn_file *file, const void *data)
{
	_cleanup_free_ struct claim *claims = NULL;
	struct checksum_range range;
	struct checksums sums;
	uint64_t offset, size;
	int r = verify_claims(file, &claims);

	if (r >= 0)
		r = checksums_begin(&sums, &range, 1);
	if (r < 0)
		return r;
	tarn_file_data_range(file, &offset, &size);
	for (size_t i = 0; r >= 0 && i < tarn_file_count(file); i++) {
		const struct claim *c = &claims[i];
		const struct tarn_file_entry *t = c->tensor;

		if (c->result == -ENODATA)
			continue;
		range = (struct checksum_range) {.nbytes = t->nbytes};
		sums.done = 0;
		/* Without bytes there may be no address either. */
		checksums_feed(&sums, 0,
			t->nbytes
				? (const char *)data + (t->file_offset - offset)
				: "",
			t->nbytes);
		if (c->result < 0 || range.value != c->wanted)
			r = verify_differs(file, c, range.value);
	}
	checksums_end(&sums);
	return r;
}
