/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the index of a file of tokens: Megatron's .idx, datatrove's
 * .index, or offsets of 4 or 8 bytes. What is accepted has documents within the
 * tokens, each found by its tokens if they follow each other, and of the lengths
 * that a list of them has; what is refused has a sentence with the file's name.
 *
 * The first byte is the kind, the next two how many bytes of tokens there are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>

#include "base/checked.h"
#include "lib/data/source.h"
#include "lib/tensor/storage.h"
#include "tests/fuzz/fuzz.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "data_index";

#define NAME "mutant"
#define DOCUMENTS_MAX 5000u

static char tokens[65536];

static bool refused(int r)
{
	if (r >= 0)
		return false;
	if (r != -EBADMSG && r != -ENOTSUP)
		bail("refused with %d: %s", r, tarn_error_message());
	if (strncmp(tarn_error_message(), NAME ": ", strlen(NAME) + 2) != 0)
		bail("refused without its name: %s", tarn_error_message());
	return true;
}

static void judge_document(const struct data_part *part, unsigned width,
	uint64_t i, uint64_t listed)
{
	uint64_t token, length, found;

	if (refused(data_index_document(part, width, i, &token, &length)))
		return;
	if (length != listed)
		bail("document %llu has %llu tokens, and %llu in the list",
			(unsigned long long)i, (unsigned long long)length,
			(unsigned long long)listed);
	if (token > part->n_tokens || length > part->n_tokens - token)
		bail("document %llu lies outside of the tokens",
			(unsigned long long)i);
	if (!length || refused(data_index_find(part, width, token, &found)))
		return;
	if (refused(data_index_document(part, width, found, &token, &length)))
		bail("document %llu was found, and cannot be read",
			(unsigned long long)found);
}

static void judge(const struct data_part *part, unsigned width)
{
	size_t n = MIN(part->n_documents, DOCUMENTS_MAX);
	uint64_t *lengths = calloc(n + 1, sizeof(*lengths));

	if (!lengths)
		bail("no memory");
	if (!refused(data_index_lengths(part, 0, n, lengths)))
		for (size_t i = 0; i < n; i++)
			judge_document(part, width, i, lengths[i]);
	free(lengths);
}

/* As data_tensor_part has it. */
static int read_offsets(struct data_part *part, size_t size, unsigned width)
{
	uint64_t last;
	int r;

	if (size < width)
		return tarn_error_set(EBADMSG, NAME ": no offsets");
	part->index.kind = DATA_ENDS;
	part->index.end_width = width;
	part->index.lead = true;
	part->n_documents = size / width - 1;
	r = data_ends_begin(part);
	if (r < 0)
		return r;
	part->n_tokens -= part->index.base;
	r = data_ends_last(part, &last);
	if (r >= 0)
		part->n_tokens = last;
	return r;
}

static int open_part(
	uint8_t kind, size_t size, struct data_part *part, unsigned *ret_width)
{
	enum tarn_dtype dtype = TARN_U16;
	int r;

	*ret_width = 2;
	switch (kind % 4) {
	case 0:
		r = data_megatron_read(part, &dtype);
		*ret_width = data_token_width(dtype);
		return r;
	case 1:
		return data_datatrove_read(part, ret_width);
	default:
		return read_offsets(part, size, kind % 4 == 2 ? 4 : 8);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct data_part part = {.name = (char *)(uintptr_t)NAME};
	uint64_t n_bytes;
	unsigned width;

	if (size < 3)
		return 0;
	n_bytes = (uint64_t)bytes[1] | (uint64_t)bytes[2] << 8;
	part.n_tokens = n_bytes / 2;
	part.index.name = NAME;
	must(tarn_storage_borrow(
		tokens, n_bytes, 0, NULL, NULL, &part.storage));
	must(tarn_storage_borrow((void *)(uintptr_t)(bytes + 3), size - 3, 0,
		NULL, NULL, &part.index.storage));
	if (!refused(open_part(bytes[0], size - 3, &part, &width)))
		judge(&part, width);
	tarn_storage_unref(part.storage);
	tarn_storage_unref(part.index.storage);
	return 0;
}
