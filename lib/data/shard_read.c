// SPDX-License-Identifier: MIT
/*
 * Reading the index of a tar shard, which somebody else may have written: what it
 * says is checked against its own size, and in the end against the shard.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/shard.h"
#include "lib/data/tar.h"
#include "lib/tensor/tensor.h"

#define HEAD sizeof(struct shard_index_head)
#define RECORD sizeof(struct shard_index_record)
#define FIELD sizeof(struct shard_index_field)

static_assert(HEAD == 64 && RECORD == 16 && FIELD == 24,
	"indexes in files have these");

/* The index is wrong: it is no shard's, or not this one's. */
static int wrong(const char *what, uint64_t i)
{
	return tarn_fail(EBADMSG,
		"its index is wrong, %s of record %llu: remove the file "
		"beside it that ends with .tarn-index",
		what, (unsigned long long)i);
}

static int read_at(const tarn_tensor *index, uint64_t at, void *buf, size_t n)
{
	uint64_t size = (uint64_t)index->layout.shape[0];

	if (at > size || n > size - at)
		return tarn_fail_constant(
			EBADMSG, "its index is shorter than it says");
	return tarn_storage_read(index->storage,
		index->base + (uint64_t)index->layout.offset + at, buf, n);
}

/* Does an index of these numbers have that size? */
static bool adds_up(const struct shard_index_head *head, uint64_t size)
{
	uint64_t records, fields, sum;

	return !add_u64(head->n_records, 1, &records) &&
	       !mul_u64(records, RECORD, &records) &&
	       !mul_u64(head->n_fields, FIELD, &fields) &&
	       !add_u64(records, fields, &sum) &&
	       !add_u64(sum, head->text_size, &sum) &&
	       !add_u64(sum, HEAD, &sum) && sum == size;
}

int shard_index_check(const tarn_tensor *index,
	const struct file_identity *shard, struct shard_index_head *ret)
{
	const struct tarn_layout *l = &index->layout;
	int r;

	if (l->dtype != TARN_U8 || l->ndim != 1 ||
		!tarn_layout_is_contiguous(l) || index->storage->on_device)
		return tarn_fail(EBADMSG,
			"an index is U8 of one dimension in memory or a file, "
			"not %s of %d",
			tarn_dtype_name(l->dtype), l->ndim);
	r = read_at(index, 0, ret, sizeof(*ret));
	if (r < 0)
		return r;
	if (ret->magic != SHARD_INDEX_MAGIC ||
		!adds_up(ret, (uint64_t)l->shape[0]))
		return tarn_fail(EBADMSG,
			"these %lld bytes are no index of a tar shard",
			(long long)l->shape[0]);
	if (ret->shard_size != shard->size || ret->shard_mtime != shard->mtime)
		return tarn_fail(EMEDIUMTYPE,
			"the index is of a shard of %llu bytes, or one that was "
			"changed at another time, and this one has %llu",
			(unsigned long long)ret->shard_size,
			(unsigned long long)shard->size);
	return 0;
}

/* ---- records ---------------------------------------------------------------- */

static int text_at(const tarn_tensor *index,
	const struct shard_index_head *head, uint32_t at, uint32_t size,
	char **ret)
{
	uint64_t text =
		HEAD + (head->n_records + 1) * RECORD + head->n_fields * FIELD;
	char *bytes;
	int r;

	*ret = NULL;
	if (at > head->text_size || size > head->text_size - at ||
		size > TAR_NAME_MAX)
		return -EBADMSG;
	bytes = malloc((size_t)size + 1);
	if (!bytes)
		return tarn_fail_constant(ENOMEM, "no memory for a name");
	r = read_at(index, text + at, bytes, size);
	if (r < 0) {
		free(bytes);
		return r;
	}
	bytes[size] = '\0';
	*ret = bytes;
	return memchr(bytes, 0, size) ? -EBADMSG : 0;
}

static int place_of(const struct shard_index_head *head,
	const struct shard_index_field *field, struct shard_member *ret)
{
	uint64_t end;

	if (field->at % TAR_BLOCK || !field->heads ||
		add_u64(field->at, (uint64_t)field->heads * TAR_BLOCK,
			&ret->data) ||
		add_u64(ret->data, field->size, &end) || end > head->shard_size)
		return -EBADMSG;
	ret->at = field->at;
	ret->size = field->size;
	return 0;
}

static int read_fields(const tarn_tensor *index,
	const struct shard_index_head *head, uint64_t first, size_t n,
	struct shard_member *ret)
{
	uint64_t at = HEAD + (head->n_records + 1) * RECORD + first * FIELD;
	_cleanup_free_ struct shard_index_field *fields =
		calloc(n, sizeof(*fields));
	int r;

	if (!fields)
		return tarn_fail(ENOMEM, "no memory for %zu fields", n);
	r = read_at(index, at, fields, n * FIELD);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		r = place_of(head, &fields[i], &ret[i]);
		if (r >= 0)
			r = text_at(index, head, fields[i].name,
				fields[i].name_size, &ret[i].name);
	}
	return r;
}

static void free_members(struct shard_member *members, size_t n)
{
	for (size_t i = 0; members && i < n; i++)
		free(members[i].name);
	free(members);
}

/* The two entries that a record is between. */
static int read_entries(const tarn_tensor *index,
	const struct shard_index_head *head, uint64_t i,
	struct shard_index_record entries[2])
{
	int r = read_at(index, HEAD + i * RECORD, entries, 2 * RECORD);

	if (r >= 0 && (entries[0].field >= entries[1].field ||
			      entries[1].field > head->n_fields ||
			      entries[1].field - entries[0].field >
				      TARN_DATA_FIELDS_MAX))
		return wrong("the fields", i);
	return r;
}

int shard_index_record(const tarn_tensor *index,
	const struct shard_index_head *head, uint64_t i, char **ret_key,
	struct shard_member **ret, size_t *ret_n)
{
	struct shard_index_record entries[2];
	struct shard_member *members;
	char *key = NULL;
	size_t n;
	int r = read_entries(index, head, i, entries);

	if (r < 0)
		return r;
	n = (size_t)(entries[1].field - entries[0].field);
	members = calloc(n, sizeof(*members));
	if (!members)
		return tarn_fail(ENOMEM, "no memory for %zu fields", n);
	r = text_at(index, head, entries[0].key, entries[0].key_size, &key);
	if (r >= 0)
		r = read_fields(index, head, entries[0].field, n, members);
	if (r < 0) {
		free(key);
		free_members(members, n);
		/* What is read leaves a sentence. */
		return r == -EBADMSG ? wrong("a name or a place", i) : r;
	}
	*ret_key = key;
	*ret = members;
	*ret_n = n;
	return 0;
}

/* ---- the shard itself ----------------------------------------------------------- */

/* "KEY.FIELD", where the field may have had other letters. */
static bool name_is(
	const struct tar_member *seen, const char *key, const char *field)
{
	size_t key_size = strlen(key), field_size = strlen(field);
	size_t cut;

	return tar_key(seen->name, seen->name_size, &cut) && cut == key_size &&
	       seen->name_size == key_size + 1 + field_size &&
	       !memcmp(seen->name, key, key_size) &&
	       !strncasecmp(seen->name + key_size + 1, field, field_size);
}

int shard_check_member(const tarn_storage *storage, const char *key,
	const struct shard_member *member)
{
	struct tar_member seen;
	struct tar_scan scan;
	int r;

	tar_scan_begin(&scan, storage, member->at);
	scan.ahead =
		(size_t)MIN(member->data - member->at, (uint64_t)TAR_EXTRA_MAX);
	r = tar_next(&scan, &seen);
	if (r == 0)
		r = -EBADMSG;
	/* Where there is no member the sentence is of what is there instead. */
	if (r == -EBADMSG || r == -ENOTSUP ||
		(r > 0 && (!seen.file || seen.at != member->at ||
				  seen.data != member->data ||
				  seen.size != member->size ||
				  !name_is(&seen, key, member->name))))
		r = tarn_fail(EBADMSG,
			"its index is wrong: byte %llu is not the head of "
			"%.200s.%.100s with %llu bytes; remove the file beside "
			"it that ends with .tarn-index",
			(unsigned long long)member->at, key, member->name,
			(unsigned long long)member->size);
	tar_scan_end(&scan);
	return MIN(r, 0);
}
