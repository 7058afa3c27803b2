/* SPDX-License-Identifier: MIT */
/*
 * The head of a safetensors file: 8 bytes of length, a JSON object, blanks.
 *
 * Everything is known in advance except the checksums, which have a fixed
 * width; so the head is made complete, with zeros in their place, and they are
 * filled in after the bytes were written.
 *
 * Source: huggingface/safetensors, safetensors/src/tensor.rs, prepare(): the
 * order of the tensors and the padding; the output is the same, byte for byte.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/safetensors.h"
#include "lib/file/text.h"
#include "lib/file/write_head.h"

#define METADATA "__metadata__"

static const char *show(const char *name, char buf[static FILE_TEXT_MAX])
{
	return file_clean(name, strlen(name), buf);
}

/* Does it need no escape in a JSON string? Nearly every name needs none. */
static bool is_plain(const char *p)
{
	while (*p >= ' ' && *p <= '~' && *p != '"' && *p != '\\')
		p++;
	return !*p;
}

/* Without quotes. jansson makes escapes, and checks UTF-8. */
static int add_quoted(struct text *text, const char *s, const char *what)
{
	_cleanup_free_ char *quoted = NULL;
	char shown[FILE_TEXT_MAX];
	json_t *json;

	if (is_plain(s)) {
		text_add_string(text, s);
		return 0;
	}
	json = json_string(s);
	if (!json)
		return tarn_fail(
			EINVAL, "%s '%s' is not UTF-8", what, show(s, shown));
	quoted = json_dumps(json, JSON_ENCODE_ANY);
	json_decref(json);
	if (!quoted)
		return file_no_memory("the header of a file");
	text_add(text, quoted + 1, strlen(quoted) - 2);
	return 0;
}

/* ---- the names ------------------------------------------------------- */

typedef const char *get_name(const void *items, size_t i);

static const char *tensor_name(const void *items, size_t i)
{
	return ((const struct head_tensor *)items)[i].name;
}

static const char *pair_name(const void *items, size_t i)
{
	return ((const struct file_pair *)items)[i].key;
}

/* Checks that each name is there, and occurs once. */
static int check_names(
	const void *items, size_t n, get_name *get, const char *what)
{
	struct arena arena = {0};
	struct name_index index = {0};
	char shown[FILE_TEXT_MAX];
	int r = name_index_init(&index, &arena, n);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		const char *name = get(items, i);
		struct name_state state = {0};
		int64_t k;

		if (!name) {
			r = tarn_fail(EINVAL, "%s %zu has no name", what, i);
			break;
		}
		while ((k = name_index_next(
				&index, name, strlen(name), &state)) >= 0)
			if (!strcmp(name, get(items, (size_t)k)))
				r = tarn_fail(EINVAL, "two %ss are named '%s'",
					what, show(name, shown));
		name_index_add(&index, &state, (uint32_t)i);
	}
	arena_free(&arena);
	return r;
}

/* ---- where the bytes will be ----------------------------------------- */

static int measure(struct head_tensor *t)
{
	uint64_t pack = (uint64_t)tarn_dtype_pack(t->layout.dtype);
	char shown[FILE_TEXT_MAX];

	if (!strcmp(t->name, METADATA))
		return tarn_fail(EINVAL,
			"a tensor cannot be named '" METADATA "': the format "
			"has its metadata there");
	if ((uint64_t)tarn_layout_numel(&t->layout) % pack)
		return tarn_fail(ENOTSUP,
			"tensor '%s' has %lld elements of %s, which is no "
			"whole number of bytes: %llu fill one",
			show(t->name, shown),
			(long long)tarn_layout_numel(&t->layout),
			tarn_dtype_name(t->layout.dtype),
			(unsigned long long)pack);
	t->nbytes = (uint64_t)tarn_layout_nbytes(&t->layout);
	return 0;
}

/* The numbers of the dtypes are in the order of the reference's enum. */
static int by_dtype_and_name(const void *a, const void *b)
{
	const struct head_tensor *x = a, *y = b;

	if (x->layout.dtype != y->layout.dtype)
		return x->layout.dtype > y->layout.dtype ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Sets offsets from the first byte of the data, for now. */
static int place(struct head_tensor *tensors, size_t n, uint64_t *ret_size)
{
	uint64_t end = 0;

	if (n)
		qsort(tensors, n, sizeof(*tensors), by_dtype_and_name);
	for (size_t i = 0; i < n; i++) {
		tensors[i].offset = end;
		if (add_u64(end, tensors[i].nbytes, &end) || end > INT64_MAX)
			return tarn_fail(EOVERFLOW,
				"the tensors have more than 2^63 bytes");
	}
	*ret_size = end;
	return 0;
}

/* ---- the text -------------------------------------------------------- */

static bool is_checksum(const char *key)
{
	return !strncmp(key, HEAD_CHECKSUM, strlen(HEAD_CHECKSUM));
}

/* "prefixKEY":" */
static int add_key(struct text *text, bool *first, const char *prefix,
	const char *key, const char *what)
{
	int r;

	text_add_string(text, *first ? "\"" : ",\"");
	*first = false;
	text_add_string(text, prefix);
	r = add_quoted(text, key, what);
	text_add_string(text, "\":\"");
	return r;
}

static int add_metadata(struct text *text, struct head_tensor *tensors,
	size_t n, const struct head_options *o)
{
	bool first = true;
	int r = 0;

	text_add_string(text, "\"" METADATA "\":{");
	for (size_t i = 0; r >= 0 && i < o->n_pairs; i++) {
		const struct file_pair *pair = &o->pairs[i];
		char shown[FILE_TEXT_MAX];

		/* Those belong to the file that this metadata came from. */
		if (is_checksum(pair->key))
			continue;
		if (!pair->value)
			return tarn_fail(EINVAL,
				"the metadata '%s' has no value",
				show(pair->key, shown));
		r = add_key(text, &first, "", pair->key, "the metadata's key");
		if (r >= 0)
			r = add_quoted(
				text, pair->value, "the metadata's value");
		text_add_string(text, "\"");
	}
	for (size_t i = 0; r >= 0 && o->checksums && i < n; i++) {
		r = add_key(text, &first, HEAD_CHECKSUM, tensors[i].name,
			"the name");
		tensors[i].digits = text->size;
		text_fill(text, '0', HEAD_DIGITS);
		text_add_string(text, "\"");
	}
	text_add_string(text, "}");
	return r;
}

static int add_tensor(struct text *text, const struct head_tensor *t)
{
	int r;

	text_add_string(text, "\"");
	r = add_quoted(text, t->name, "the name");
	text_add_string(text, "\":{\"dtype\":\"");
	text_add_string(text, tarn_dtype_name(t->layout.dtype));
	text_add_string(text, "\",\"shape\":[");
	for (int i = 0; i < t->layout.ndim; i++) {
		if (i)
			text_add_string(text, ",");
		text_add_number(text, (uint64_t)t->layout.shape[i]);
	}
	text_add_string(text, "],\"data_offsets\":[");
	text_add_number(text, t->offset);
	text_add_string(text, ",");
	text_add_number(text, t->offset + t->nbytes);
	text_add_string(text, "]}");
	return r;
}

static bool has_metadata(const struct head_options *o, size_t n)
{
	bool any = o->checksums && n;

	for (size_t i = 0; i < o->n_pairs; i++)
		any = any || !is_checksum(o->pairs[i].key);
	return any;
}

static int add_root(struct text *text, struct head_tensor *tensors, size_t n,
	const struct head_options *o)
{
	bool comma = has_metadata(o, n);
	int r = 0;

	text_add_string(text, "{");
	if (comma)
		r = add_metadata(text, tensors, n, o);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (comma)
			text_add_string(text, ",");
		comma = true;
		r = add_tensor(text, &tensors[i]);
	}
	text_add_string(text, "}");
	return r;
}

/* Adds blanks up to the first tensor, and the length in front. */
static int finish(struct text *text, uint64_t align)
{
	uint64_t end = 0, size;

	if (text->failed || round_up_u64(text->size, MAX(align, 8), &end))
		return file_no_memory("the header of a file");
	size = end - 8;
	if (size > SAFETENSORS_HEADER_MAX)
		return tarn_fail(E2BIG,
			"the header would have %llu bytes (aligned to %llu), "
			"readers take at most %d",
			(unsigned long long)size, (unsigned long long)align,
			SAFETENSORS_HEADER_MAX);
	text_fill(text, ' ', end - text->size);
	if (text->failed)
		return file_no_memory("the header of a file");
	for (int i = 0; i < 8; i++)
		text->bytes[i] = (char)(size >> 8 * i & 0xff);
	return 0;
}

int safetensors_head(struct head_tensor *tensors, size_t n,
	const struct head_options *options, struct head *ret)
{
	_cleanup_text_ struct text text = {0};
	uint64_t data_size = 0, end;
	int r = check_names(tensors, n, tensor_name, "tensor");

	if (r >= 0)
		r = check_names(options->pairs, options->n_pairs, pair_name,
			"metadata pair");
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = measure(&tensors[i]);
	if (r >= 0)
		r = place(tensors, n, &data_size);
	if (r < 0)
		return r;
	text_fill(&text, 0, 8);
	r = add_root(&text, tensors, n, options);
	if (r >= 0)
		r = finish(&text, options->align);
	if (r < 0)
		return r;
	if (add_u64(text.size, data_size, &end) || end > INT64_MAX)
		return tarn_fail(
			EOVERFLOW, "the tensors have more than 2^63 bytes");
	for (size_t i = 0; i < n; i++)
		tensors[i].offset += text.size;
	ret->size = text.size;
	ret->file_size = end;
	ret->bytes = STEAL(text.bytes);
	return 0;
}
