/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a .npy file. What is accepted is one array, of a size that the
 * file has; and what tarn writes for its layout is read as the same again.
 */
#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>

#include "lib/file/write_head.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "npy";

/* The head of it, written; with the array behind it, where that is small. */
static void judge_again(tarn_file *file, const uint8_t *bytes)
{
	const struct tarn_file_entry *t = tarn_file_at(file, 0);
	struct head_tensor tensor = {.name = t->name};
	struct head head = {0};
	tarn_file *again;
	uint8_t *whole;

	if (t->nbytes > 4096 || tarn_file_entry_layout(t, &tensor.layout) < 0)
		return;
	if (npy_head(&tensor, 0, &head) < 0)
		bail("read, and cannot be written: %s", tarn_error_message());
	if (head.file_size != head.size + t->nbytes)
		bail("of %llu bytes, and is written in %llu",
			(unsigned long long)t->nbytes,
			(unsigned long long)head.file_size);
	whole = malloc(head.file_size);
	memcpy(whole, head.bytes, head.size);
	memcpy(whole + head.size, bytes + t->file_offset, t->nbytes);
	again = file_judge_open(whole, head.file_size);
	if (!again)
		bail("written, and refused: %s", tarn_error_message());
	file_judge(again, whole, head.file_size);
	tarn_file_unref(again);
	free(head.bytes);
	free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	tarn_file *file;

	if (size < 6 || memcmp(bytes, "\x93NUMPY", 6) != 0)
		return 0;
	file = file_judge_open(bytes, size);
	if (!file)
		return 0;
	if (tarn_file_count(file) != 1 || tarn_file_metadata_count(file))
		bail("a .npy file of %zu arrays", tarn_file_count(file));
	file_judge(file, bytes, size);
	judge_again(file, bytes);
	tarn_file_unref(file);
	return 0;
}
