// SPDX-License-Identifier: MIT
/*
 * Making the index of a tar shard: its members in order, those of one key that
 * follow each other grouped into a record, as WebDataset groups them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/shard.h"
#include "lib/data/tar.h"
#include "lib/tensor/tensor.h"

/* Members between two calls of step. */
#define STEP 256u

struct array {
	unsigned char *at;
	size_t n, room; /* bytes */
};

struct maker {
	struct array records, fields, text;
	uint64_t n_records, n_fields;
	/* Of the record that is being made, and the one before it. */
	uint64_t first_field, before_field;
	const char *name; /* of the member */
	uint64_t at;
};

static int append(struct array *array, const void *bytes, size_t n)
{
	if (n > array->room - array->n) {
		size_t room = MAX(2 * array->room, array->n + n + 4096);
		unsigned char *at = realloc(array->at, room);

		if (!at)
			return tarn_fail(ENOMEM,
				"no memory for an index of %zu bytes", room);
		array->at = at;
		array->room = room;
	}
	memcpy(array->at + array->n, bytes, n);
	array->n += n;
	return 0;
}

static int add_text(struct maker *m, const char *text, size_t n, uint32_t *ret)
{
	if (n > UINT32_MAX - m->text.n)
		return tarn_fail_constant(EFBIG,
			"the names of its members have more than 2^32 "
			"bytes");
	*ret = (uint32_t)m->text.n;
	return append(&m->text, text, n);
}

/* The next field of the last record: n in all. */
static struct shard_index_field *field_at(const struct maker *m, uint64_t i)
{
	return (struct shard_index_field *)(void *)m->fields.at + i;
}

static struct shard_index_record *record_at(const struct maker *m, uint64_t i)
{
	return (struct shard_index_record *)(void *)m->records.at + i;
}

static bool field_is(
	const struct maker *m, uint64_t i, const char *name, size_t size)
{
	const struct shard_index_field *f = field_at(m, i);

	return f->name_size == size &&
	       !memcmp(m->text.at + f->name, name, size);
}

static bool is_new_key(const struct maker *m, const char *key, size_t size)
{
	const struct shard_index_record *r;

	if (!m->n_records)
		return true;
	r = record_at(m, m->n_records - 1);
	return r->key_size != size || memcmp(m->text.at + r->key, key, size);
}

static int add_record(struct maker *m, const char *key, size_t size)
{
	struct shard_index_record record = {
		.field = m->n_fields, .key_size = (uint32_t)size};
	int r = add_text(m, key, size, &record.key);

	if (r >= 0)
		r = append(&m->records, &record, sizeof(record));
	if (r < 0)
		return r;
	m->before_field = m->first_field;
	m->first_field = m->n_fields;
	m->n_records++;
	return 0;
}

/* Records mostly have the fields of the one before them, in its order: then the
 * name is there already. */
static int name_of(struct maker *m, const char *name, size_t size,
	struct shard_index_field *field)
{
	uint64_t like = m->before_field + (m->n_fields - m->first_field);

	field->name_size = (uint16_t)size;
	if (like < m->first_field && field_is(m, like, name, size)) {
		field->name = field_at(m, like)->name;
		return 0;
	}
	return add_text(m, name, size, &field->name);
}

static int add_field(struct maker *m, const struct tar_member *member,
	const char *name, size_t size)
{
	struct shard_index_field field = {.at = member->at,
		.size = member->size,
		.heads = (uint16_t)((member->data - member->at) / TAR_BLOCK)};
	int r;

	if (m->n_fields - m->first_field >= TARN_DATA_FIELDS_MAX)
		return tarn_fail(EBADMSG,
			"the member '%.100s' at byte %llu is one more than the "
			"%d that a record may have",
			member->name, (unsigned long long)member->at,
			TARN_DATA_FIELDS_MAX);
	for (uint64_t i = m->first_field; i < m->n_fields; i++)
		if (field_is(m, i, name, size))
			return tarn_fail(EBADMSG,
				"the member '%.100s' at byte %llu comes twice "
				"in one record",
				member->name, (unsigned long long)member->at);
	r = name_of(m, name, size, &field);
	if (r >= 0)
		r = append(&m->fields, &field, sizeof(field));
	m->n_fields += r >= 0;
	return r;
}

/* WebDataset's own notes: __this__ or a folder of such a name. */
static bool is_note(const char *name)
{
	size_t n = strcspn(name, "/");

	return n >= 4 && !strncmp(name, "__", 2) &&
	       !strncmp(name + n - 2, "__", 2);
}

static int add_member(struct maker *m, const struct tar_member *member)
{
	char lower[TAR_NAME_MAX];
	size_t key, n;
	int r = 0;

	if (!member->file || is_note(member->name) ||
		!tar_key(member->name, member->name_size, &key))
		return 0;
	n = member->name_size - key - 1;
	for (size_t i = 0; i < n; i++) {
		char c = member->name[key + 1 + i];

		lower[i] = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
	}
	if (is_new_key(m, member->name, key))
		r = add_record(m, member->name, key);
	return r < 0 ? r : add_field(m, member, lower, n);
}

static int scan_all(struct maker *m, struct tar_scan *scan,
	int (*step)(void *arg, uint64_t at), void *arg)
{
	struct tar_member member;
	int r;

	for (uint64_t i = 1;; i++) {
		r = tar_next(scan, &member);
		if (r <= 0)
			return r;
		r = add_member(m, &member);
		if (r >= 0 && step && i % STEP == 0)
			r = step(arg, scan->at);
		if (r < 0)
			return r;
	}
}

static int join(
	struct maker *m, const struct file_identity *shard, tarn_tensor **ret)
{
	struct shard_index_head head = {.magic = SHARD_INDEX_MAGIC,
		.shard_size = shard->size,
		.shard_mtime = shard->mtime,
		.n_records = m->n_records,
		.n_fields = m->n_fields,
		.text_size = m->text.n};
	struct shard_index_record end = {.field = m->n_fields};
	int64_t size;
	unsigned char *to;
	int r = append(&m->records, &end, sizeof(end));

	if (r < 0)
		return r;
	size = (int64_t)(sizeof(head) + m->records.n + m->fields.n + m->text.n);
	r = tarn_tensor_zeros(TARN_U8, 1, &size, ret);
	if (r < 0)
		return r;
	to = tarn_tensor_data(*ret);
	memcpy(to, &head, sizeof(head));
	to += sizeof(head);
	memcpy(to, m->records.at, m->records.n);
	to += m->records.n;
	if (m->fields.n)
		memcpy(to, m->fields.at, m->fields.n);
	to += m->fields.n;
	if (m->text.n)
		memcpy(to, m->text.at, m->text.n);
	return 0;
}

int shard_index_make(const tarn_storage *storage,
	const struct file_identity *shard, int (*step)(void *arg, uint64_t at),
	void *arg, tarn_tensor **ret)
{
	struct maker m = {.n_records = 0};
	struct tar_scan scan;
	int r;

	tar_scan_begin(&scan, storage, 0);
	r = scan_all(&m, &scan, step, arg);
	tar_scan_end(&scan);
	if (r >= 0)
		r = join(&m, shard, ret);
	free(m.records.at);
	free(m.fields.at);
	free(m.text.at);
	return r;
}
