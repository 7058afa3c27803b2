// SPDX-License-Identifier: MIT
/*
 * PyTorch's checkpoints: FOLDER/data.pkl tells of containers with tensors, and
 * FOLDER/data/KEY is the storage of that key.
 */
#include "lib/file/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fail.h"
#include "lib/file/pickle.h"
#include "lib/file/text.h"
#include "lib/file/write_head.h"
#include "lib/tensor/decimal.h"

/* A pickle of 100,000 tensors has some 20 MB. Picked. */
#define PICKLE_MAX (256u << 20)
/* Containers within each other. Picked; a container that contains itself would
 * have no end. */
#define DEPTH_MAX 64u
/* A name, with the keys that lead to it. Picked. */
#define NAME_MAX_BYTES 4096u
/* A value is visited as often as it is reached, and a small pickle may lead to
 * one along very many ways. In a checkpoint a byte leads to less than one value;
 * so many more are for what a tiny one shares. */
#define VISITS_MORE 65536u
/* The same of bytes: names repeat the keys that lead to them, and a text may be
 * reached often. A list of truth values, a byte each, has the most in a
 * checkpoint: some hundred, its name. */
#define COPIED_PER_BYTE 256u
#define COPIED_MORE (16u << 20)

struct walk {
	struct tarn_file *file;
	const struct zip *zip;
	const struct zip_record *pickle;
	struct text path;
	unsigned depth;
	uint64_t visits;
	uint64_t copied; /* bytes of names, shapes and texts */
	bool unnamed; /* a key on the path is neither a text nor an integer */
	struct file_pair *pairs;
	size_t n_pairs, room;
};

static const char *shown_path(
	const struct walk *w, char buf[static FILE_TEXT_MAX])
{
	return file_clean(w->path.bytes, w->path.size, buf);
}

/* Before so many bytes are copied for a value. */
static int spend(struct walk *w, uint64_t bytes)
{
	uint64_t most = COPIED_PER_BYTE * w->pickle->size + COPIED_MORE;

	if (bytes > most - w->copied)
		return tarn_fail(EBADMSG,
			"its names and texts have more than %" PRIu64
			" bytes, of a pickle of %" PRIu64,
			most, w->pickle->size);
	w->copied += bytes;
	return 0;
}

/* ---- tensors ------------------------------------------------------------- */

static const struct zip_record *find_storage(
	const struct walk *w, const struct pickle_storage *storage)
{
	/* The pickle's folder, with the slash. */
	size_t folder = w->pickle->name_size - strlen("data.pkl");
	_cleanup_text_ struct text name = {0};

	text_add(&name, w->pickle->name, folder);
	text_add_string(&name, "data/");
	text_add(&name, storage->key, storage->key_size);
	return name.failed ? NULL : zip_find(w->zip, name.bytes, name.size);
}

/* How many elements there are from the first to the last; 0: there are none.
 * True: they are more than any record has. */
static bool reach_of(const struct pickle_tensor *t, uint64_t *ret)
{
	uint64_t reach = 1, n;

	*ret = 0;
	for (int i = 0; i < t->ndim; i++)
		if (!t->shape[i])
			return false;
	for (int i = 0; i < t->ndim; i++)
		if (mul_u64(t->shape[i] - 1, (uint64_t)t->stride[i], &n) ||
			add_u64(reach, n, &reach))
			return true;
	*ret = reach;
	return false;
}

static bool is_packed(const struct pickle_tensor *t)
{
	uint64_t n = 1;

	for (int i = t->ndim - 1; i >= 0; i--) {
		if (t->shape[i] != 1 && (uint64_t)t->stride[i] != n)
			return false;
		/* All of it lies within a record. */
		n *= t->shape[i];
	}
	return true;
}

/* Where its bytes are. */
static int place(const struct walk *w, const struct pickle_tensor *t,
	uint64_t *ret_offset, uint64_t *ret_bytes)
{
	const struct zip_record *record = find_storage(w, t->storage);
	uint64_t size = (uint64_t)tarn_dtype_bits(t->storage->dtype) / 8;
	uint64_t reach, end, bytes;
	char shown[FILE_TEXT_MAX], key[FILE_TEXT_MAX];

	if (!record)
		return tarn_fail(EBADMSG,
			"there is no record of tensor '%s', data/%s",
			shown_path(w, shown),
			file_clean(t->storage->key, t->storage->key_size, key));
	if (mul_u64(t->storage->numel, size, &bytes) || bytes > record->size)
		return tarn_fail(EBADMSG,
			"tensor '%s' is of a storage of %" PRIu64
			" elements, and its record has %" PRIu64 " bytes",
			shown_path(w, shown), t->storage->numel, record->size);
	if (reach_of(t, &reach) || add_u64(t->offset, reach, &end) ||
		(reach && end > t->storage->numel))
		return tarn_fail(EBADMSG,
			"tensor '%s' reaches outside of its storage of %" PRIu64
			" elements",
			shown_path(w, shown), t->storage->numel);
	*ret_bytes = reach * size;
	*ret_offset = record->offset + (reach ? t->offset * size : 0);
	return 0;
}

static int copy_layout(struct tarn_file *file, const struct pickle_tensor *t,
	struct tarn_file_entry *ret)
{
	size_t n = (size_t)t->ndim;
	uint64_t *shape = arena_array(&file->arena, n, sizeof(*shape));
	int64_t *stride = arena_array(&file->arena, n, sizeof(*stride));

	if (!shape || !stride)
		return file_no_memory("a tensor");
	if (n) {
		memcpy(shape, t->shape, n * sizeof(*shape));
		memcpy(stride, t->stride, n * sizeof(*stride));
	}
	ret->ndim = t->ndim;
	ret->shape = shape;
	ret->stride = ret->nbytes && !is_packed(t) ? stride : NULL;
	return 0;
}

static int add_tensor(struct walk *w, const struct pickle_tensor *t)
{
	struct tarn_file_entry *tensor;
	uint64_t offset = 0, bytes = 0;
	int r = place(w, t, &offset, &bytes);

	if (r >= 0)
		r = spend(w, w->path.size + 16 * (uint64_t)t->ndim);
	if (r < 0)
		return r;
	if (w->unnamed)
		return tarn_fail(ENOTSUP,
			"a tensor has a key that is neither a text nor an "
			"integer; save it under another");
	tensor = w->path.size
			 ? file_add_tensor(w->file, w->path.bytes, w->path.size)
			 : file_add_named(w->file);
	if (!tensor)
		return file_no_memory("a tensor");
	tensor->file_offset = offset;
	tensor->nbytes = bytes;
	tensor->dtype = t->storage->dtype;
	return copy_layout(w->file, t, tensor);
}

/* ---- pairs --------------------------------------------------------------- */

/* The fewest digits that read back as the value. */
static void put_real(double value, char buf[static 40])
{
	for (int n = 15; n <= 17; n++) {
		snprintf(buf, 40, "%.*g", n, value);
		if (strtod(buf, NULL) == value)
			return;
	}
}

/* What stands for a value in the metadata; NULL: nothing does. */
static const char *text_of(
	const struct pickle_value *v, char buf[static 40], size_t *ret_size)
{
	const char *text = buf;

	switch (v->kind) {
	case PICKLE_NONE:
		text = "null";
		break;
	case PICKLE_BOOL:
		text = v->number ? "true" : "false";
		break;
	case PICKLE_INT:
		snprintf(buf, 40, "%" PRId64, v->number);
		break;
	case PICKLE_REAL:
		put_real(v->real, buf);
		break;
	case PICKLE_TEXT:
		*ret_size = v->size;
		return v->text;
	default:
		return NULL;
	}
	*ret_size = strlen(text);
	return text;
}

/* Those are of safetensors files, whose tensors share no bytes. */
static bool is_checksum(const struct walk *w)
{
	size_t n = strlen(HEAD_CHECKSUM);

	return w->path.size >= n && !memcmp(w->path.bytes, HEAD_CHECKSUM, n);
}

static int add_pair(struct walk *w, const struct pickle_value *v)
{
	char buf[40];
	size_t size = 0;
	const char *value = text_of(v, buf, &size);
	struct file_pair *pair;
	int r;

	if (!value || !w->path.size || w->unnamed || is_checksum(w))
		return 0;
	r = spend(w, w->path.size + size);
	if (r < 0 || (v->kind == PICKLE_TEXT && !file_is_text(value, size)))
		return r;
	if (w->n_pairs == w->room) {
		size_t room = w->room ? 2 * w->room : 16;
		struct file_pair *more =
			reallocarray(w->pairs, room, sizeof(*more));

		if (!more)
			return file_no_memory("metadata");
		w->pairs = more;
		w->room = room;
	}
	pair = &w->pairs[w->n_pairs++];
	pair->key = arena_text(&w->file->arena, w->path.bytes, w->path.size);
	pair->value = arena_text(&w->file->arena, value, size);
	return pair->key && pair->value ? 0 : file_no_memory("metadata");
}

static int keep_pairs(struct walk *w)
{
	size_t n = w->n_pairs;
	struct file_pair *pairs =
		arena_array(&w->file->arena, n, sizeof(*pairs));

	if (!pairs)
		return file_no_memory("metadata");
	if (n)
		memcpy(pairs, w->pairs, n * sizeof(*pairs));
	w->file->pairs = pairs;
	w->file->pair_count = n;
	return 0;
}

/* ---- containers ---------------------------------------------------------- */

static int visit(struct walk *w, const struct pickle_value *v);

static int visit_as(struct walk *w, const char *key, size_t size, bool named,
	const struct pickle_value *v)
{
	size_t before = w->path.size;
	bool unnamed = w->unnamed;
	int r;

	if (size >= NAME_MAX_BYTES - before)
		return tarn_fail(EBADMSG,
			"a name in it has more than the %u bytes that are read",
			NAME_MAX_BYTES);
	if (before)
		text_add(&w->path, ".", 1);
	text_add(&w->path, key, size);
	w->unnamed = unnamed || !named;
	r = w->path.failed ? file_no_memory("a name") : visit(w, v);
	w->path.size = before;
	w->unnamed = unnamed;
	return r;
}

static int visit_number(
	struct walk *w, int64_t number, const struct pickle_value *v)
{
	char key[24];
	int n = snprintf(key, sizeof(key), "%" PRId64, number);

	return visit_as(w, key, (size_t)n, true, v);
}

static int visit_member(struct walk *w, const struct pickle_value *key,
	const struct pickle_value *v)
{
	if (key->kind == PICKLE_INT)
		return visit_number(w, key->number, v);
	if (key->kind == PICKLE_TEXT && key->size &&
		file_is_text(key->text, key->size))
		return visit_as(w, key->text, key->size, true, v);
	return visit_as(w, "?", 1, false, v);
}

static int visit_all(struct walk *w, const struct pickle_value *v)
{
	const struct pickle_list *list = &v->list;
	int r = 0;

	if (w->depth == DEPTH_MAX)
		return tarn_fail(EBADMSG,
			"more than %u containers within each other", DEPTH_MAX);
	w->depth++;
	if (v->kind == PICKLE_DICT)
		for (size_t i = 0; r >= 0 && i + 1 < list->n; i += 2)
			r = visit_member(w, list->at[i], list->at[i + 1]);
	else
		for (size_t i = 0; r >= 0 && i < list->n; i++)
			r = visit_number(w, (int64_t)i, list->at[i]);
	w->depth--;
	return r;
}

static int visit(struct walk *w, const struct pickle_value *v)
{
	if (w->visits++ == w->pickle->size + VISITS_MORE)
		return tarn_fail(EBADMSG,
			"its containers share values so often that there are "
			"more than %" PRIu64,
			w->visits - 1);
	switch (v->kind) {
	case PICKLE_TENSOR:
		return add_tensor(w, &v->tensor);
	case PICKLE_DICT:
	case PICKLE_LIST:
		return visit_all(w, v);
	default:
		return add_pair(w, v);
	}
}

/* ---- the file ------------------------------------------------------------ */

static int check_order(struct tarn_file *file, const struct zip *zip,
	const struct zip_record *pickle)
{
	size_t folder = pickle->name_size - strlen("data.pkl");
	_cleanup_text_ struct text name = {0};
	const struct zip_record *record;
	char order[3] = "lit";
	int r = 0;

	text_add(&name, pickle->name, folder);
	text_add_string(&name, "byteorder");
	if (name.failed)
		return file_no_memory("a name");
	record = zip_find(zip, name.bytes, name.size);
	/* Older ones have no such record, and were all little-endian. */
	if (record && record->size >= sizeof(order))
		r = file_read_at(file, order, sizeof(order), record->offset);
	if (r >= 0 && memcmp(order, "lit", 3) != 0)
		return tarn_fail(ENOTSUP,
			"the checkpoint is big-endian; save it again on a "
			"little-endian machine");
	return r;
}

int checkpoint_read(struct tarn_file *file, const struct zip *zip,
	const struct zip_record *pickle)
{
	_cleanup_free_ char *bytes = NULL;
	struct walk w = {.file = file, .zip = zip, .pickle = pickle};
	const struct pickle_value *root = NULL;
	struct arena arena = {0};
	struct decimal_locale locale;
	int r = check_order(file, zip, pickle);

	if (r >= 0 && pickle->size > PICKLE_MAX)
		r = tarn_fail(EBADMSG,
			"its pickle has %" PRIu64 " bytes, more than the %u "
			"that are read",
			pickle->size, PICKLE_MAX);
	if (r < 0)
		return r;
	bytes = malloc(pickle->size + 1);
	if (!bytes)
		return file_no_memory("a pickle");
	r = file_read_at(file, bytes, pickle->size, pickle->offset);
	if (r >= 0)
		r = pickle_read(bytes, pickle->size, &arena, &root);
	if (r >= 0)
		r = decimal_locale_enter(&locale);
	if (r >= 0) {
		r = visit(&w, root);
		decimal_locale_leave(&locale);
	}
	if (r >= 0)
		r = keep_pairs(&w);
	free(w.pairs);
	text_free(&w.path);
	arena_free(&arena);
	return r;
}
