/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a safetensors file. What is accepted is whole and consistent,
 * tiles its data, and is JSON to jansson at one go although it was read in
 * pieces; it is the same whatever way entries are read, through whatever
 * window; and what tarn writes of it is read as the same again.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>

#include "base/fail.h"
#include "lib/file/write_head.h"
#include "lib/file/safetensors.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "safetensors";

/* Integers over 63 bits are JSON too, jansson just does not keep them. */
static void judge_json(const uint8_t *bytes, size_t size)
{
	json_error_t error;
	json_t *root;
	uint64_t n;

	memcpy(&n, bytes, 8);
	if (n > size - 8)
		bail("accepted with a header of %llu bytes",
			(unsigned long long)n);
	root = json_loadb(
		(const char *)bytes + 8, n, JSON_DECODE_INT_AS_REAL, &error);
	if (!root)
		bail("accepted, and is no JSON: %s", error.text);
	json_decref(root);
}

/* Which mistake is the first may depend on where a window ends, if one of
 * them is a NUL. */
static bool same_sentence(const char *a, const char *b)
{
	return !strcmp(a, b) || strstr(a, "a NUL") || strstr(b, "a NUL");
}

/* Another way of reading comes to the same verdict and the same sentence. */
static void judge_way(tarn_file *file, const uint8_t *bytes, size_t size,
	bool plain, size_t window)
{
	size_t usual = safetensors_window;
	char sentence[TARN_MESSAGE_MAX];
	tarn_file *other;

	strcpy(sentence, file ? "" : tarn_error_message());
	safetensors_plain_on = plain;
	safetensors_window = window;
	other = file_judge_open(bytes, size);
	safetensors_plain_on = true;
	safetensors_window = usual;
	if (!file != !other)
		bail("accepted in one way, refused in the other: %s",
			file ? tarn_error_message() : sentence);
	if (!file && !same_sentence(sentence, tarn_error_message()))
		bail("refused as: %s, and as: %s", sentence,
			tarn_error_message());
	if (file)
		file_judge_same(file, other);
	tarn_file_unref(other);
}

static void judge_tiling(tarn_file *file, size_t size)
{
	uint64_t end, data;

	tarn_file_data_range(file, &end, &data);
	if (end + data != size)
		bail("the data end at %llu of %zu bytes",
			(unsigned long long)(end + data), size);
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);

		if (t->file_offset != end)
			bail("a gap before '%s'", t->name);
		end += t->nbytes;
	}
	if (end != size)
		bail("a gap behind the last tensor");
}

/* ---- written again ----------------------------------------------------- */

/* NULL: it has what is not written again here. */
static struct head_tensor *list(const tarn_file *file, size_t n)
{
	struct head_tensor *tensors = calloc(n + 1, sizeof(*tensors));

	for (size_t i = 0; i < n; i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);

		tensors[i].name = t->name;
		tensors[i].item = i;
		if (tarn_file_entry_layout(t, &tensors[i].layout) < 0) {
			free(tensors);
			return NULL;
		}
	}
	return tensors;
}

static struct file_pair *pairs_of(const tarn_file *file, size_t n)
{
	struct file_pair *pairs = calloc(n + 1, sizeof(*pairs));

	for (size_t i = 0; i < n; i++)
		must(tarn_file_metadata_at(
			file, i, &pairs[i].key, &pairs[i].value));
	return pairs;
}

/* A file of that head with the tensors' bytes behind it. */
static tarn_file *open_written(const tarn_file *file, const uint8_t *bytes,
	const struct head_tensor *tensors, const struct head *head)
{
	uint8_t *whole = calloc(1, head->file_size + 1);
	tarn_file *ret;

	memcpy(whole, head->bytes, head->size);
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *t =
			tarn_file_at(file, tensors[i].item);

		if (t->nbytes != tensors[i].nbytes)
			bail("'%s' is written with other bytes", t->name);
		memcpy(whole + tensors[i].offset, bytes + t->file_offset,
			t->nbytes);
	}
	ret = file_judge_open(whole, head->file_size);
	if (!ret)
		bail("written, and refused: %s", tarn_error_message());
	file_judge(ret, whole, head->file_size);
	free(whole);
	return ret;
}

static void judge_written(const tarn_file *file, const tarn_file *again)
{
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *x = tarn_file_at(file, i);
		const struct tarn_file_entry *y =
			tarn_file_find(again, x->name);

		if (!y || x->dtype != y->dtype || x->ndim != y->ndim ||
			memcmp(x->shape, y->shape,
				(size_t)x->ndim * sizeof(*x->shape)) != 0)
			bail("'%s' is written as another", x->name);
	}
	if (tarn_file_count(file) != tarn_file_count(again))
		bail("%zu tensors were written, %zu are read",
			tarn_file_count(file), tarn_file_count(again));
}

/* What tarn writes of it, tarn reads, and finds the same. */
static void judge_again(
	const tarn_file *file, const uint8_t *bytes, size_t size)
{
	size_t n = tarn_file_count(file), n_pairs;
	struct head_tensor *tensors = list(file, n);
	struct head_options options = {.checksums = size % 2};
	struct head head = {0};
	tarn_file *again;

	if (!tensors)
		return;
	n_pairs = options.n_pairs = tarn_file_metadata_count(file);
	options.pairs = pairs_of(file, n_pairs);
	if (safetensors_head(tensors, n, &options, &head) < 0)
		bail("read, and cannot be written: %s", tarn_error_message());
	again = open_written(file, bytes, tensors, &head);
	judge_written(file, again);
	tarn_file_unref(again);
	free(head.bytes);
	free((void *)options.pairs);
	free(tensors);
}

/* By its first bytes, whatever follows. */
static bool is_other_format(const uint8_t *bytes, size_t size)
{
	return (size >= 6 && !memcmp(bytes, "\x93NUMPY", 6)) ||
	       (size >= 4 && (!memcmp(bytes, "PK\3\4", 4) ||
				     !memcmp(bytes, "PK\5\6", 4)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	tarn_file *file;

	if (is_other_format(bytes, size))
		return 0;
	file = file_judge_open(bytes, size);
	judge_way(file, bytes, size, false, safetensors_window);
	judge_way(file, bytes, size, true, 16 + size % 64);
	if (file) {
		judge_json(bytes, size);
		file_judge(file, bytes, size);
		judge_tiling(file, size);
		judge_again(file, bytes, size);
		tarn_file_unref(file);
	}
	return 0;
}
