/* SPDX-License-Identifier: MIT */
/*
 * The tensors of an open file: listed, found by name, and made into views of
 * the one storage that is the file's data range.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"
#include "lib/file/huge_alloc.h"

/* How many slots of the index are prefetched. Picked. */
#define AHEAD ((size_t)8)

void file_expect(struct tarn_file *file, size_t count)
{
	uint64_t size;

	if (file->tensors || mul_u64(count, sizeof(*file->tensors), &size) ||
		size < HUGE_LEAST / 2)
		return;
	/* Otherwise it grows. */
	file->tensors = huge_alloc(size);
	if (!file->tensors)
		return;
	file->large = size;
	file->room = count;
}

void file_tensors_free(struct tarn_file *file)
{
	if (file->large)
		huge_free(file->tensors, file->large);
	else
		free(file->tensors);
	file->tensors = NULL;
	file->large = 0;
}

/* Doubles the list, in memory that can grow again. */
static bool grow(struct tarn_file *file)
{
	size_t room = file->room ? file->room * 2 : 16;
	struct tarn_file_entry *more = reallocarray(
		file->large ? NULL : file->tensors, room, sizeof(*more));

	if (!more)
		return false;
	if (file->large) {
		memcpy(more, file->tensors, file->count * sizeof(*more));
		file_tensors_free(file);
	}
	file->tensors = more;
	file->room = room;
	return true;
}

struct tarn_file_entry *file_add_tensor(
	struct tarn_file *file, const char *name, size_t size)
{
	struct tarn_file_entry *tensor;
	char *copy = arena_text(&file->arena, name, size);

	if (!copy || (file->count == file->room && !grow(file)))
		return NULL;
	tensor = &file->tensors[file->count++];
	*tensor = (struct tarn_file_entry) {.name = copy, .name_size = size};
	return tensor;
}

bool file_is_text(const char *text, size_t size)
{
	json_t *valid = memchr(text, 0, size) ? NULL : json_stringn(text, size);

	json_decref(valid);
	return valid;
}

struct tarn_file_entry *file_add_named(struct tarn_file *file)
{
	const char *slash = strrchr(file->path, '/');
	const char *base = slash ? slash + 1 : file->path;
	const char *dot = strrchr(base, '.');
	size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base);
	char *name = arena_text(&file->arena, base, n);
	bool is_text;

	if (!name)
		return NULL;
	is_text = file_is_text(base, n);
	for (size_t i = 0; !is_text && i < n; i++)
		if (name[i] & 0x80)
			name[i] = '?';
	return file_add_tensor(file, name, n);
}

static const struct tarn_file_entry *find(const tarn_file *file,
	const char *name, size_t size, struct name_state *state)
{
	int64_t i;

	while ((i = name_index_next(&file->index, name, size, state)) >= 0) {
		const struct tarn_file_entry *tensor = &file->tensors[i];

		if (tensor->name_size == size &&
			!memcmp(tensor->name, name, size))
			return tensor;
	}
	return NULL;
}

int file_named_twice(const char *name, size_t size)
{
	char shown[FILE_TEXT_MAX];

	return tarn_fail(EBADMSG, "the header names '%s' twice",
		file_clean(name, size, shown));
}

static void begin(const struct tarn_file *file, size_t i,
	struct name_state states[static AHEAD])
{
	const struct tarn_file_entry *tensor = &file->tensors[i];

	states[i % AHEAD] = (struct name_state) {0};
	name_index_begin(&file->index, tensor->name, tensor->name_size,
		&states[i % AHEAD]);
}

int file_index(struct tarn_file *file)
{
	int r = name_index_init(&file->index, &file->arena, file->count);
	struct name_state states[AHEAD];

	for (size_t i = 0; r >= 0 && i < MIN(file->count, AHEAD - 1); i++)
		begin(file, i, states);
	for (size_t i = 0; r >= 0 && i < file->count; i++) {
		const struct tarn_file_entry *tensor = &file->tensors[i];
		struct name_state *state = &states[i % AHEAD];

		if (i + AHEAD - 1 < file->count)
			begin(file, i + AHEAD - 1, states);
		if (find(file, tensor->name, tensor->name_size, state))
			return file_named_twice(
				tensor->name, tensor->name_size);
		name_index_add(&file->index, state, (uint32_t)i);
	}
	return r;
}

size_t tarn_file_count(const tarn_file *file)
{
	return file->count;
}

const struct tarn_file_entry *tarn_file_at(const tarn_file *file, size_t i)
{
	return i < file->count ? &file->tensors[i] : NULL;
}

const struct tarn_file_entry *tarn_file_find(
	const tarn_file *file, const char *name)
{
	struct name_state state = {0};

	return find(file, name, strlen(name), &state);
}

int tarn_file_entry_layout(
	const struct tarn_file_entry *tensor, struct tarn_layout *ret)
{
	char shown[FILE_TEXT_MAX];
	int64_t shape[TARN_NDIM_MAX];
	int r;

	file_clean(tensor->name, tensor->name_size, shown);
	if (tensor->ndim > TARN_NDIM_MAX)
		return tarn_fail(ENOTSUP,
			"tensor '%s' has %d dimensions; views "
			"have at most %d",
			shown, tensor->ndim, TARN_NDIM_MAX);
	for (int i = 0; i < tensor->ndim; i++) {
		if (tensor->shape[i] > INT64_MAX)
			return tarn_fail(ENOTSUP,
				"tensor '%s': dimension %d is "
				"%llu, views have at most 2^63 - 1",
				shown, i, (unsigned long long)tensor->shape[i]);
		shape[i] = (int64_t)tensor->shape[i];
	}
	if (tensor->stride)
		r = tarn_layout_strided(tensor->dtype, tensor->ndim, shape,
			tensor->stride, 0, ret);
	else if (tensor->fortran_order)
		r = tarn_layout_fortran(
			tensor->dtype, tensor->ndim, shape, ret);
	else
		r = tarn_layout_contiguous(
			tensor->dtype, tensor->ndim, shape, ret);
	/* In a valid file only sizes beside a zero can still be too large. */
	if (r == -EOVERFLOW)
		r = -ENOTSUP;
	return r < 0 ? tarn_fail_prefix(r, "tensor '%s': ", shown) : 0;
}

int file_find(const struct tarn_file *file, const char *name,
	const struct tarn_file_entry **ret)
{
	const struct tarn_file_entry *tensor = tarn_file_find(file, name);
	char shown[FILE_TEXT_MAX];

	if (!tensor)
		return tarn_fail(ENOENT,
			"there is no tensor '%s' among its %zu; tarn info "
			"lists them",
			file_clean(name, strlen(name), shown), file->count);
	*ret = tensor;
	return 0;
}

int tarn_file_bytes(const tarn_file *file, tarn_tensor **ret)
{
	const int64_t n = (int64_t)file->data_size;
	struct tarn_layout layout;
	int r;

	if (!file->storage)
		return tarn_fail(ENOTSUP,
			"%s: it is an index, and has no tensors' bytes; ask "
			"its shards",
			file->path);
	r = tarn_layout_contiguous(TARN_U8, 1, &n, &layout);
	return r < 0 ? r : tarn_tensor_new(file->storage, 0, &layout, ret);
}

int tarn_file_tensor(tarn_file *file, const char *name, tarn_tensor **ret)
{
	const struct tarn_file_entry *tensor;
	const struct tarn_file *shard;
	struct tarn_layout layout;
	int r = file_find(file, name, &tensor);

	if (r >= 0)
		r = tarn_file_entry_layout(tensor, &layout);
	if (r >= 0) {
		shard = tarn_file_shard(file, tensor->shard);
		r = tarn_tensor_new(shard->storage,
			tensor->file_offset - shard->data_offset, &layout, ret);
	}
	return r < 0 ? tarn_fail_prefix(r, "%s: ", file->path) : 0;
}
