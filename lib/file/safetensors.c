/* SPDX-License-Identifier: MIT */
/*
 * safetensors: 8 bytes of length, a JSON object of that length, the tensors'
 * bytes. Every rule of the reference reader (huggingface/safetensors,
 * safetensors/src/tensor.rs, with serde_json underneath) is checked: that it is
 * JSON, each entry by itself (safetensors_entry.c), that the names differ, that
 * the tensors tile the data exactly.
 *
 * Nearly all entries have the plain form that writers produce, and are read
 * directly (safetensors_plain.c). The following is about the others.
 *
 * The root's members are given to jansson one by one: a hundred thousand small
 * trees that reuse the same memory are read in a third of the time of one big
 * one, and every member is available as text too. The facts that jansson does
 * not report (repeated keys, -0, integers beyond 63 bits) are determined from
 * that text by json_tally, after jansson has accepted it.
 */
#include "lib/file/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/swar.h"

/* serde_json stops at the 128th level; the root is the first. */
#define DEPTH_MAX 127

/* About the shortest member of the root for a tensor; and the typical share of
 * it that is kept. */
#define MEMBER_LEAST 48
#define KEPT_PART 4

#define METADATA "__metadata__"

struct header {
	struct tarn_file *file;
	struct safetensors_text t;
	struct safetensors_like like;
	bool metadata; /* there was one */
};

static int read_length(struct tarn_file *file, uint64_t *ret)
{
	unsigned char bytes[8];
	uint64_t n = 0;
	int r;

	if (file->size < 8)
		return tarn_fail(EBADMSG,
			"too short for a safetensors file: %" PRIu64
			" bytes, and its header's length alone takes 8",
			file->size);
	r = file_read(file, bytes, sizeof(bytes), 0);
	if (r < 0)
		return r;
	for (int i = 7; i >= 0; i--)
		n = n << 8 | bytes[i];
	if (n > SAFETENSORS_HEADER_MAX)
		return tarn_fail(EBADMSG,
			"not a tensor file (neither .npy nor safetensors): "
			"its first 8 bytes as the length of a header are "
			"%" PRIu64 ", and at most %d is allowed",
			n, SAFETENSORS_HEADER_MAX);
	if (n > file->size - 8)
		return tarn_fail(EBADMSG,
			"the header has %" PRIu64 " bytes, "
			"but only %" PRIu64 " follow: the file is cut off, or "
			"not a safetensors file",
			n, file->size - 8);
	*ret = n;
	return 0;
}

static int bad_json(const struct header *h, const char *why)
{
	char shown[FILE_TEXT_MAX];

	return tarn_fail(EBADMSG,
		"the header is not the JSON that it must be, "
		"at byte %zu of its %zu: %s",
		(size_t)(h->t.at + (size_t)(h->t.p - h->t.buf)),
		(size_t)h->t.size, file_clean(why, strlen(why), shown));
}

/* Is c next? Then it is consumed. */
static bool take(struct header *h, char c)
{
	h->t.p = json_skip_blanks(h->t.p, h->t.end);
	if (h->t.p == h->t.end || *h->t.p != c)
		return false;
	h->t.p++;
	return true;
}

/* Reads one value of any kind, with jansson. */
static int load(struct header *h, struct safetensors_value *ret)
{
	const size_t flags = JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK;
	size_t left = (size_t)(h->t.end - h->t.p);
	json_error_t error;

	*ret = (struct safetensors_value) {0};
	ret->json = json_loadb(h->t.p, left, flags, &error);
	if (!ret->json &&
		json_error_code(&error) == json_error_numeric_overflow) {
		ret->reals = true;
		ret->json = json_loadb(
			h->t.p, left, flags | JSON_DECODE_INT_AS_REAL, &error);
	}
	if (!ret->json && json_error_code(&error) == json_error_out_of_memory)
		return file_no_memory("the header of a file");
	h->t.p += error.position;
	if (!ret->json)
		return bad_json(h, error.text);
	json_tally((struct json_text) {h->t.p - error.position, h->t.p},
		&ret->tally);
	return 0;
}

/* Strings by name; null is none. Of repeated keys the last counts. */
static int read_metadata(
	struct tarn_file *file, const struct safetensors_value *metadata)
{
	json_t *json = metadata->json;
	char shown[FILE_TEXT_MAX], value[FILE_TEXT_MAX];
	struct file_pair *pair;
	const char *key;
	json_t *item;

	if (json_is_null(json))
		return 0;
	if (!json_is_object(json))
		return tarn_fail(EBADMSG,
			METADATA " is %s, it must be an "
				 "object of strings",
			safetensors_show(metadata->tally.text, value));
	pair = file->pairs = arena_array(
		&file->arena, json_object_size(json), sizeof(*pair));
	if (!pair)
		return file_no_memory("the metadata of a file");
	json_object_foreach(json, key, item)
	{
		struct json_value last = {0};

		if (!json_is_string(item)) {
			json_count(metadata->tally.text, key, &last);
			return tarn_fail(EBADMSG,
				METADATA " '%s' is %s, it must "
					 "be a string",
				file_clean(key, strlen(key), shown),
				safetensors_show(last.text, value));
		}
		pair->key = arena_text(&file->arena, key, strlen(key));
		pair->value = arena_text(&file->arena, json_string_value(item),
			json_string_length(item));
		if (!pair->key || !pair->value)
			return file_no_memory("the metadata of a file");
		pair++;
		file->pair_count++;
	}
	return 0;
}

static bool is_metadata(const char *name, size_t size)
{
	return size == strlen(METADATA) && !memcmp(name, METADATA, size);
}

/* Reads a tensor, if its entry is plain: 1. 0: h is unchanged. */
static int read_plain(struct header *h, const char *name, size_t size)
{
	struct tarn_file_entry read, *tensor;
	const char *end;

	if (is_metadata(name, size))
		return 0;
	end = safetensors_plain(h->file, (struct json_text) {h->t.p, h->t.end},
		&h->like, &read);
	if (!end)
		return 0;
	tensor = file_add_tensor(h->file, name, size);
	if (!tensor)
		return file_no_memory("the tensors of a file");
	read.name = tensor->name;
	read.name_size = size;
	*tensor = read;
	h->t.p = end;
	return 1;
}

static int read_member(struct header *h, const char *name, size_t size,
	const struct safetensors_value *value)
{
	struct tarn_file_entry *tensor;
	char shown[FILE_TEXT_MAX];
	int r;

	if (value->tally.depth >= DEPTH_MAX)
		return tarn_fail(EBADMSG,
			"the header is nested %zu levels "
			"deep, at most %d are allowed",
			value->tally.depth + 1, DEPTH_MAX);
	if (is_metadata(name, size)) {
		if (h->metadata)
			return file_named_twice(name, size);
		h->metadata = true;
		return read_metadata(h->file, value);
	}
	tensor = file_add_tensor(h->file, name, size);
	if (!tensor)
		return file_no_memory("the tensors of a file");
	r = safetensors_entry(h->file, value, tensor);
	if (r < 0)
		return tarn_fail_prefix(
			r, "tensor '%s': ", file_clean(name, size, shown));
	return 0;
}

/* A name of plain ASCII, as nearly all are, needs no decoding: it is the text
 * between the quotes. NULL: jansson has to read it. */
static const char *plain_name(struct header *h, size_t *ret_size)
{
	const char *p = h->t.p + 1, *name = p;
	unsigned k = 8;

	for (; k == 8 && h->t.end - p >= 8; p += k)
		k = swar_before(swar_not_plain(swar_at(p)));
	while (p < h->t.end && *p >= ' ' && *p <= '~' && *p != '"' &&
		*p != '\\')
		p++;
	if (p == h->t.end || *p != '"')
		return NULL;
	h->t.p = p + 1;
	*ret_size = (size_t)(p - name);
	return name;
}

/* "name": value */
static int read_pair(struct header *h)
{
	struct safetensors_value decoded = {0}, value = {0};
	const char *name;
	size_t size = 0;
	int r = 0;

	h->t.p = json_skip_blanks(h->t.p, h->t.end);
	if (h->t.p == h->t.end || *h->t.p != '"')
		return bad_json(h, "a name in quotes or '}' expected");
	name = plain_name(h, &size);
	if (!name) {
		r = load(h, &decoded);
		name = json_string_value(decoded.json);
		size = json_string_length(decoded.json);
	}
	if (r >= 0 && !take(h, ':'))
		r = bad_json(h, "':' expected");
	if (r >= 0)
		r = read_plain(h, name, size);
	if (r == 0)
		r = load(h, &value);
	if (r == 0)
		r = read_member(h, name, size, &value);
	json_decref(decoded.json);
	json_decref(value.json);
	return r < 0 ? r : 0;
}

/* Reads a member, wherever it ends. An error in the window, which may only be
 * that the text is cut, is judged again with all of the text. */
static int read_whole_pair(struct header *h)
{
	const char *p = h->t.p;
	size_t count = h->file->count, pair_count = h->file->pair_count;
	bool metadata = h->metadata;
	int r = read_pair(h);

	if (r >= 0 || safetensors_text_all(&h->t))
		return r;
	h->t.p = p;
	h->file->count = count;
	h->file->pair_count = pair_count;
	h->metadata = metadata;
	r = safetensors_text_rest(&h->t);
	return r < 0 ? r : read_pair(h);
}

/* Skips blanks, and moves on to the next window where little is left. */
static int come_to(struct header *h)
{
	size_t little = safetensors_window / 16;
	int r = 0;

	do {
		h->t.p = json_skip_blanks(h->t.p, h->t.end);
		if ((size_t)(h->t.end - h->t.p) > little ||
			safetensors_text_all(&h->t))
			break;
		r = safetensors_text_more(&h->t);
	} while (r >= 0);
	return r;
}

/* 1: c is next, and was consumed. */
static int take_next(struct header *h, char c)
{
	int r = come_to(h);

	return r < 0 ? r : take(h, c);
}

static int read_members(struct header *h)
{
	int r;

	do {
		r = read_whole_pair(h);
		if (r >= 0)
			r = take_next(h, ',');
	} while (r > 0);
	if (r == 0)
		r = take_next(h, '}');
	return r ? r : bad_json(h, "',' or '}' expected");
}

static int read_root(struct header *h)
{
	int r = take_next(h, '{');

	if (r == 0)
		return bad_json(h, "'{' expected");
	if (r > 0)
		r = take_next(h, '}');
	if (r == 0)
		r = read_members(h);
	if (r >= 0)
		r = come_to(h);
	if (r >= 0 && h->t.p < h->t.end)
		return bad_json(h, "only blanks may follow the last '}'");
	return r;
}

static int by_bytes(const void *a, const void *b)
{
	const struct tarn_file_entry *x = a, *y = b;

	if (x->file_offset != y->file_offset)
		return x->file_offset < y->file_offset ? -1 : 1;
	if (x->nbytes != y->nbytes)
		return x->nbytes < y->nbytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* As nearly all writers order them. */
static bool in_order(const struct tarn_file *file)
{
	for (size_t i = 1; i < file->count; i++)
		if (by_bytes(&file->tensors[i - 1], &file->tensors[i]) > 0)
			return false;
	return true;
}

/* The entries must tile the data: each begins where the last ended, and the
 * file ends with the last. */
static int place(struct tarn_file *file)
{
	char shown[FILE_TEXT_MAX];
	uint64_t end = 0;

	for (size_t i = 0; i < file->count; i++) {
		struct tarn_file_entry *t = &file->tensors[i];

		if (t->file_offset != end)
			return tarn_fail(EBADMSG,
				"tensor '%s' begins at byte %" PRIu64
				" of the data, the one before it ends "
				"at %" PRIu64 ": %s",
				file_clean(t->name, t->name_size, shown),
				t->file_offset, end,
				t->file_offset > end ? "a gap"
						     : "they overlap");
		end += t->nbytes;
		t->file_offset += file->data_offset;
	}
	if (end > file->data_size)
		return tarn_fail(EBADMSG,
			"the tensors need %" PRIu64
			" bytes, the file has %" PRIu64 " of them: it is cut "
			"off",
			end, file->data_size);
	if (end < file->data_size)
		return tarn_fail(EBADMSG,
			"the file goes on after its last "
			"tensor, for %" PRIu64 " bytes: there must be none",
			file->data_size - end);
	return 0;
}

int safetensors_read(struct tarn_file *file)
{
	struct header h = {.file = file, .t = {.file = file}};
	int r = read_length(file, &h.t.size);

	if (r < 0)
		return r;
	file->format = "safetensors";
	file->data_offset = SAFETENSORS_TEXT + h.t.size;
	file->data_size = file->size - file->data_offset;
	file_expect(file, h.t.size / MEMBER_LEAST + 1);
	arena_expect(&file->arena, h.t.size / KEPT_PART);
	r = safetensors_text_begin(&h.t);
	if (r >= 0)
		r = read_root(&h);
	free(h.t.buf);
	if (r < 0)
		return r;
	if (!in_order(file))
		qsort(file->tensors, file->count, sizeof(*file->tensors),
			by_bytes);
	r = file_index(file);
	return r < 0 ? r : place(file);
}
