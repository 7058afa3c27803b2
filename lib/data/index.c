// SPDX-License-Identifier: MIT
/*
 * Where the documents of a part are. Two forms: Megatron's .idx, which has a
 * length and a pointer for each, and ends, as datatrove writes them beside its
 * .ds files and as offsets of ragged rows are.
 *
 * An index is hostile until it is checked, and may be larger than memory. So each
 * entry is checked when it is read, and an error says which it is.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/source.h"
#include "lib/tensor/storage.h"

#define MAGIC "MMIDIDX\0" /* and the NUL at its end: 9 bytes */
#define HEADER_SIZE 34u   /* magic 9, version 8, dtype 1, two counts of 8 */

/* Bytes of entries that are read at a time. */
#define CHUNK 32768u

static int read_index(const struct data_index *index, uint64_t offset,
	void *buf, uint64_t size)
{
	int r = tarn_storage_read(index->storage, offset, buf, size);

	return r < 0 ? tarn_fail_prefix(r, "%.300s: ", index->name) : 0;
}

static uint64_t u64_at(const unsigned char *p)
{
	uint64_t n;

	memcpy(&n, p, sizeof(n));
	return n;
}

/* ---- Megatron's ------------------------------------------------------------ */

/* The codes of Megatron's DType. */
static int megatron_dtype(const char *name, unsigned code, enum tarn_dtype *ret)
{
	static const enum tarn_dtype dtypes[] = {[1] = TARN_U8,
		[2] = TARN_I8,
		[3] = TARN_I16,
		[4] = TARN_I32,
		[5] = TARN_I64,
		[6] = TARN_F64,
		[7] = TARN_F32,
		[8] = TARN_U16};

	if (code < 1 || code >= ARRAY_SIZE(dtypes))
		return tarn_fail(EBADMSG,
			"%.300s: byte 17 is %u, which is no code of a dtype (1 "
			"to 8)",
			name, code);
	if (!data_token_width(dtypes[code]))
		return tarn_fail(ENOTSUP,
			"%.300s: its elements are %s, and tokens are integers",
			name, tarn_dtype_name(dtypes[code]));
	*ret = dtypes[code];
	return 0;
}

/* Do the arrays fill the file? Modes of sequences, a byte for each, may follow
 * them. */
static int megatron_size(
	const struct data_index *index, uint64_t sequences, uint64_t documents)
{
	uint64_t size = tarn_storage_size(index->storage), a, b, wanted;

	if (mul_u64(sequences, 12, &a) || mul_u64(documents, 8, &b) ||
		add_u64(a, b, &wanted) ||
		add_u64(wanted, HEADER_SIZE, &wanted) ||
		(size != wanted && (add_u64(wanted, sequences, &wanted) ||
					   size != wanted)))
		return tarn_fail(EBADMSG,
			"%.300s: bytes 18 to 33 announce %llu sequences and %llu "
			"documents, which do not make a file of %llu bytes",
			index->name, (unsigned long long)sequences,
			(unsigned long long)documents,
			(unsigned long long)size);
	return 0;
}

/* The pointer of a sequence in tokens, and its length, which fit into the part. */
static int megatron_place(const struct data_part *part, unsigned width,
	uint64_t sequence, uint64_t *ret_token, uint64_t *ret_length)
{
	const struct data_index *index = &part->index;
	uint64_t at = index->pointers_at + 8 * sequence, bytes;
	int64_t pointer;
	int32_t length;
	int r = read_index(index, at, &pointer, sizeof(pointer));

	if (r >= 0)
		r = read_index(index, index->lengths_at + 4 * sequence, &length,
			sizeof(length));
	if (r < 0)
		return r;
	bytes = part->n_tokens * width;
	if (length < 0 || pointer < 0 || (uint64_t)pointer % width ||
		(uint64_t)pointer > bytes ||
		(uint64_t)length > (bytes - (uint64_t)pointer) / width)
		return tarn_fail(EBADMSG,
			"%.300s: sequence %llu has the pointer %lld (at byte "
			"%llu) and %d tokens (at byte %llu) of %u bytes, which "
			"are not within the %llu bytes of tokens",
			index->name, (unsigned long long)sequence,
			(long long)pointer, (unsigned long long)at, length,
			(unsigned long long)(index->lengths_at + 4 * sequence),
			width, (unsigned long long)bytes);
	*ret_token = (uint64_t)pointer / width;
	*ret_length = (uint64_t)length;
	return 0;
}

/* The last one ends where the tokens do: an index of another file hardly does
 * that. */
static int megatron_last(const struct data_part *part, unsigned width)
{
	uint64_t token, length;
	int r;

	if (!part->n_documents)
		return part->n_tokens
			       ? tarn_fail(EBADMSG,
					 "%.300s: it has no sequences, "
					 "and %.300s has %llu tokens",
					 part->index.name, part->name,
					 (unsigned long long)part->n_tokens)
			       : 0;
	r = megatron_place(part, width, part->n_documents - 1, &token, &length);
	if (r >= 0 && token + length != part->n_tokens)
		return tarn_fail(EBADMSG,
			"%.300s: its last sequence ends at token %llu, and "
			"%.300s has %llu",
			part->index.name, (unsigned long long)(token + length),
			part->name, (unsigned long long)part->n_tokens);
	return r;
}

int data_megatron_read(struct data_part *part, enum tarn_dtype *ret_dtype)
{
	struct data_index *index = &part->index;
	uint64_t size = tarn_storage_size(index->storage), bytes;
	unsigned char head[HEADER_SIZE];
	unsigned width;
	int r;

	if (size < HEADER_SIZE)
		return tarn_fail(EBADMSG,
			"%.300s: it has %llu bytes, and the header of a "
			"Megatron index has 34",
			index->name, (unsigned long long)size);
	r = read_index(index, 0, head, sizeof(head));
	if (r < 0)
		return r;
	if (memcmp(head, MAGIC, 9) != 0)
		return tarn_fail(EBADMSG,
			"%.300s: bytes 0 to 8 are not those of a Megatron "
			"index, MMIDIDX and two zeros",
			index->name);
	if (u64_at(head + 9) != 1)
		return tarn_fail(EBADMSG,
			"%.300s: bytes 9 to 16 have version %llu of a Megatron "
			"index, not 1",
			index->name, (unsigned long long)u64_at(head + 9));
	r = megatron_dtype(index->name, head[17], ret_dtype);
	if (r >= 0)
		r = megatron_size(index, u64_at(head + 18), u64_at(head + 26));
	if (r < 0)
		return r;
	width = data_token_width(*ret_dtype);
	bytes = tarn_storage_size(part->storage);
	if (bytes % width)
		return tarn_fail(EBADMSG,
			"%.300s: its %llu bytes are not whole tokens of %u "
			"bytes, as %.300s has them",
			part->name, (unsigned long long)bytes, width,
			index->name);
	index->kind = DATA_MEGATRON;
	index->lengths_at = HEADER_SIZE;
	index->pointers_at = HEADER_SIZE + 4 * u64_at(head + 18);
	part->n_tokens = bytes / width;
	part->n_documents = u64_at(head + 18);
	return megatron_last(part, width);
}

/* Of n sequences, n <= CHUNK / 4. */
static int megatron_lengths(
	const struct data_part *part, uint64_t first, size_t n, uint64_t *ret)
{
	const struct data_index *index = &part->index;
	uint64_t at = index->lengths_at + 4 * first;
	int32_t lengths[CHUNK / 4];
	int r = read_index(index, at, lengths, 4 * n);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (lengths[i] < 0)
			return tarn_fail(EBADMSG,
				"%.300s: sequence %llu has %d tokens (at byte "
				"%llu)",
				index->name, (unsigned long long)(first + i),
				lengths[i], (unsigned long long)(at + 4 * i));
		ret[i] = (uint64_t)lengths[i];
	}
	return r;
}

/* ---- ends --------------------------------------------------------------------- */

/* n ends from a document on; document -1 is where the first begins. */
static int read_ends(
	const struct data_part *part, int64_t first, size_t n, uint64_t *ret)
{
	const struct data_index *index = &part->index;
	unsigned char bytes[CHUNK];
	uint64_t at;
	int r;

	if (first < 0 && !index->lead) {
		*ret++ = 0;
		first++;
		n--;
	}
	at = index->ends_at +
	     (uint64_t)(first + (int64_t)index->lead) * index->end_width;
	r = n ? read_index(index, at, bytes, n * index->end_width) : 0;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		int32_t narrow;

		if (index->end_width == 8) {
			ret[i] = u64_at(bytes + 8 * i);
		} else {
			memcpy(&narrow, bytes + 4 * i, 4);
			ret[i] = (uint64_t)(int64_t)narrow;
		}
		if (ret[i] < index->base ||
			ret[i] - index->base > part->n_tokens)
			return tarn_fail(EBADMSG,
				"%.300s: document %lld ends at token %lld (at "
				"byte %llu), and there are %llu",
				index->name, (long long)first + (long long)i,
				(long long)ret[i],
				(unsigned long long)(at + i * index->end_width),
				(unsigned long long)part->n_tokens);
		ret[i] -= index->base;
	}
	return r;
}

/* Of n documents, n < CHUNK / 8. */
static int ends_lengths(
	const struct data_part *part, uint64_t first, size_t n, uint64_t *ret)
{
	uint64_t ends[CHUNK / 8];
	int r = read_ends(part, (int64_t)first - 1, n + 1, ends);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (ends[i + 1] < ends[i])
			return tarn_fail(EBADMSG,
				"%.300s: document %llu ends at token %llu, "
				"before it begins at token %llu",
				part->index.name,
				(unsigned long long)(first + i),
				(unsigned long long)ends[i + 1],
				(unsigned long long)ends[i]);
		ret[i] = ends[i + 1] - ends[i];
	}
	return r;
}

int data_ends_last(const struct data_part *part, uint64_t *ret)
{
	*ret = 0;
	return part->n_documents
		       ? read_ends(part, (int64_t)part->n_documents - 1, 1, ret)
		       : 0;
}

int data_ends_begin(struct data_part *part)
{
	struct data_index *index = &part->index;
	uint64_t base = 0;
	int r = index->lead ? read_ends(part, -1, 1, &base) : 0;

	if (r >= 0)
		index->base = base;
	return r;
}

/* The bytes of a token follow from the last end, which datatrove keeps nowhere
 * else that could be relied on. */
int data_datatrove_read(struct data_part *part, unsigned *ret_width)
{
	struct data_index *index = &part->index;
	uint64_t bytes = tarn_storage_size(part->storage), last;
	uint64_t size = tarn_storage_size(index->storage);
	int r;

	if (size % 8)
		return tarn_fail(EBADMSG,
			"%.300s: its %llu bytes are not whole ends of documents "
			"of 8 bytes",
			index->name, (unsigned long long)size);
	index->kind = DATA_ENDS;
	index->end_width = 8;
	part->n_documents = size / 8;
	part->n_tokens = bytes;
	r = data_ends_last(part, &last);
	if (r < 0)
		return r;
	if (last ? bytes % last || bytes / last > 8 : bytes)
		return tarn_fail(EBADMSG,
			"%.300s: its last document ends at token %llu, and "
			"%.300s has %llu bytes, which are no tokens of 1 to 8 "
			"bytes",
			index->name, (unsigned long long)last, part->name,
			(unsigned long long)bytes);
	*ret_width = last ? (unsigned)(bytes / last) : 0;
	part->n_tokens = last;
	return 0;
}

/* ---- any ------------------------------------------------------------------------ */

int data_index_lengths(
	const struct data_part *part, uint64_t first, size_t n, uint64_t *ret)
{
	int r = 0;

	for (size_t i = 0, step; r >= 0 && i < n; i += step) {
		step = MIN(n - i, CHUNK / 8 - 1);
		switch (part->index.kind) {
		case DATA_MEGATRON:
			r = megatron_lengths(part, first + i, step, ret + i);
			break;
		case DATA_ENDS:
			r = ends_lengths(part, first + i, step, ret + i);
			break;
		default:
			ret[i] = part->n_tokens;
		}
	}
	return r;
}

int data_index_document(const struct data_part *part, unsigned width,
	uint64_t document, uint64_t *ret_token, uint64_t *ret_length)
{
	uint64_t ends[2];
	int r = 0;

	switch (part->index.kind) {
	case DATA_MEGATRON:
		return megatron_place(
			part, width, document, ret_token, ret_length);
	case DATA_ENDS:
		r = ends_lengths(part, document, 1, ret_length);
		if (r >= 0)
			r = read_ends(part, (int64_t)document - 1, 1, ends);
		if (r >= 0)
			*ret_token = ends[0];
		return r;
	default:
		*ret_token = 0;
		*ret_length = part->n_tokens;
		return 0;
	}
}

/* The first token of a document, or where it ends. */
static int boundary(const struct data_part *part, unsigned width,
	uint64_t document, uint64_t *ret)
{
	uint64_t length;

	return part->index.kind == DATA_MEGATRON
		       ? megatron_place(part, width, document, ret, &length)
		       : read_ends(part, (int64_t)document - 1, 1, ret);
}

/* The last document that begins at the token or before it: those without tokens
 * begin where the next one does. */
int data_index_find(const struct data_part *part, unsigned width,
	uint64_t token, uint64_t *ret_document)
{
	uint64_t low = 0, high = part->n_documents, begins, length;
	int r = 0;

	if (part->index.kind == DATA_WHOLE) {
		*ret_document = 0;
		return 0;
	}
	while (r >= 0 && high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		r = boundary(part, width, middle, &begins);
		if (r >= 0 && begins <= token)
			low = middle;
		else
			high = middle;
	}
	if (r >= 0)
		r = data_index_document(part, width, low, &begins, &length);
	if (r >= 0 && (token < begins || token - begins >= length))
		r = tarn_fail(EBADMSG,
			"%.300s: token %llu is in no document: they are not "
			"one after another near document %llu",
			part->index.name, (unsigned long long)token,
			(unsigned long long)low);
	if (r >= 0)
		*ret_document = low;
	return r;
}
