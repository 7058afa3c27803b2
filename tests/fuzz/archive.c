/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a zip archive: a PyTorch checkpoint or an .npz. What is accepted
 * are tensors that lie in the file, or in the one that it is inflated to,
 * whatever strides they have, and whose elements are read from where those lead.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/error.h>

#include "tests/fuzz/files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/kit/file_bytes.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "archive";

#define READ_MAX 4096u /* bytes of a tensor that is read */
#define READ_COUNT 4   /* tensors of a file that are read */

/* Each element by its own strides. */
static void judge_elements(const struct tarn_file_entry *t,
	const struct tarn_layout *layout, const uint8_t *bytes,
	const uint8_t *read)
{
	size_t size = tarn_dtype_bits(t->dtype) / 8;
	int64_t n = tarn_layout_numel(layout);

	for (int64_t i = 0; i < n; i++) {
		int64_t rest = i, at = 0;

		for (int d = layout->ndim - 1; d >= 0; d--) {
			at += rest % layout->shape[d] * layout->stride[d];
			rest /= layout->shape[d];
		}
		if (memcmp(read + (size_t)i * size,
			    bytes + t->file_offset + (size_t)at * size, size))
			bail("'%s': element %lld has other bytes", t->name,
				(long long)i);
	}
}

static void judge_bytes(tarn_file *file, const struct tarn_file_entry *t,
	const struct tarn_layout *layout, const uint8_t *bytes)
{
	uint8_t read[READ_MAX];
	tarn_tensor *tensor;

	if (tarn_file_tensor(file, t->name, &tensor) < 0)
		bail("'%s' cannot be viewed: %s", t->name,
			tarn_error_message());
	if (tarn_tensor_ravel(
		    tensor, TARN_ORDER_C, read, tarn_layout_nbytes(layout)) < 0)
		bail("'%s' cannot be read: %s", t->name, tarn_error_message());
	judge_elements(t, layout, bytes, read);
	tarn_tensor_unref(tensor);
}

static void judge_all(tarn_file *file, const uint8_t *bytes, size_t size)
{
	uint64_t offset, all, before = 0;
	int n_read = 0;

	bool npz = !strcmp(tarn_file_format(file), "npz");

	bytes_walk(file);
	tarn_file_data_range(file, &offset, &all);
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);
		struct tarn_layout layout;

		if (t->file_offset < before || t->file_offset < offset ||
			t->file_offset + t->nbytes > offset + all ||
			offset + all > size)
			bail("'%s' is out of order, or out of the file",
				t->name);
		/* Arrays share none, as records do not. */
		before = t->file_offset + (npz ? t->nbytes : 0);
		if (tarn_file_entry_layout(t, &layout) < 0)
			continue;
		if (tarn_layout_check(&layout) < 0)
			bail("'%s': %s", t->name, tarn_error_message());
		if (tarn_layout_nbytes(&layout) <= READ_MAX &&
			tarn_layout_numel(&layout) <= READ_MAX &&
			n_read++ < READ_COUNT)
			judge_bytes(file, t, &layout, bytes);
	}
}

/* Where records were compressed the file is another, which holds them all. */
static void judge(tarn_file *file)
{
	int fd = tarn_file_fd(file);
	off_t size = lseek(fd, 0, SEEK_END);
	uint8_t *bytes = size < 0 ? NULL : malloc((size_t)size + 1);

	if (!bytes || pread(fd, bytes, (size_t)size, 0) != size)
		bail("the file has other than %lld bytes", (long long)size);
	judge_all(file, bytes, (size_t)size);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	tarn_file *file;

	if (size < 4 || memcmp(bytes, "PK", 2) != 0)
		return 0;
	file = file_judge_open(bytes, size);
	if (!file)
		return 0;
	judge(file);
	tarn_file_unref(file);
	return 0;
}
