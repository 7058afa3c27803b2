/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a tar shard, or as the index of one. A shard that is accepted has
 * records whose members are found again where its index says, within the shard,
 * one behind another; what is refused has a sentence. An index that others wrote
 * leads to a member of the name and size that it says, or to an error.
 *
 * The first byte decides which it is. An index is of the shard below, so its head
 * is made to say so.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>

#include "base/checked.h"
#include "lib/data/shard.h"
#include "lib/data/tar.h"
#include "lib/tensor/tensor.h"
#include "tests/fuzz/fuzz.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "tar";

#define RECORDS_MAX 2000u

static bool refused(int r)
{
	if (r >= 0)
		return false;
	if (r != -EBADMSG && r != -ENOTSUP && r != -EMEDIUMTYPE)
		bail("refused with %d: %s", r, tarn_error_message());
	if (!*tarn_error_message())
		bail("refused without a sentence");
	return true;
}

static tarn_storage *borrow(const uint8_t *bytes, size_t size)
{
	tarn_storage *storage;

	must(tarn_storage_borrow(
		(void *)(uintptr_t)bytes, size, 0, NULL, NULL, &storage));
	return storage;
}

/* Returns how many members are what the index says. */
static size_t judge_record(const tarn_storage *storage,
	const tarn_tensor *index, const struct shard_index_head *head,
	uint64_t i, bool own)
{
	uint64_t size = tarn_storage_size(storage), behind = 0;
	struct shard_member *members;
	size_t n, good = 0;
	char *key;

	if (refused(shard_index_record(index, head, i, &key, &members, &n))) {
		if (own)
			bail("record %llu of its own index is refused: %s",
				(unsigned long long)i, tarn_error_message());
		return 0;
	}
	for (size_t k = 0; k < n; k++) {
		const struct shard_member *m = &members[k];

		if (m->data > size || m->size > size - m->data)
			bail("a member lies outside of the shard");
		if (own && m->at < behind)
			bail("a member begins before the one before it ends");
		behind = m->data + m->size;
		good += !refused(shard_check_member(storage, key, m));
		if (own && good != k + 1)
			bail("a member is not found again: %s",
				tarn_error_message());
		free(members[k].name);
	}
	free(members);
	free(key);
	return good;
}

static void judge_index(const tarn_storage *storage, const tarn_tensor *index,
	const struct file_identity *shard, bool own)
{
	struct shard_index_head head;
	size_t fields = 0;

	if (refused(shard_index_check(index, shard, &head))) {
		if (own)
			bail("its own index is refused: %s",
				tarn_error_message());
		return;
	}
	for (uint64_t i = 0; i < MIN(head.n_records, RECORDS_MAX); i++)
		fields += judge_record(storage, index, &head, i, own);
	if (own && head.n_records <= RECORDS_MAX && fields != head.n_fields)
		bail("%zu fields, of %llu", fields,
			(unsigned long long)head.n_fields);
}

static void judge_shard(const uint8_t *bytes, size_t size)
{
	const struct file_identity shard = {.size = size, .mtime = 1};
	tarn_storage *storage = borrow(bytes, size);
	tarn_tensor *index;

	if (!refused(shard_index_make(storage, &shard, NULL, NULL, &index))) {
		judge_index(storage, index, &shard, true);
		tarn_tensor_unref(index);
	}
	tarn_storage_unref(storage);
}

/* ---- indexes ------------------------------------------------------------------- */

static void add_head(uint8_t *head, const char *name, unsigned size)
{
	unsigned sum = 0;
	char text[16];

	memcpy(head, name, strlen(name));
	snprintf(text, sizeof(text), "%011o", size);
	memcpy(head + 124, text, 12);
	head[156] = '0';
	memset(head + 148, ' ', 8);
	for (unsigned i = 0; i < TAR_BLOCK; i++)
		sum += head[i];
	snprintf(text, sizeof(text), "%06o", sum);
	memcpy(head + 148, text, 7);
}

static void judge_given(const uint8_t *bytes, size_t size)
{
	static uint8_t tar[6 * TAR_BLOCK];
	const struct file_identity shard = {.size = sizeof(tar), .mtime = 1};
	struct shard_index_head head;
	int64_t length = (int64_t)size;
	tarn_tensor *index;
	tarn_storage *storage;

	if (size < sizeof(head))
		return;
	if (!tar[0]) {
		add_head(tar, "a.b", 3);
		add_head(tar + 2 * TAR_BLOCK, "a.c", 300);
	}
	storage = borrow(tar, sizeof(tar));
	must(tarn_tensor_zeros(TARN_U8, 1, &length, &index));
	memcpy(&head, bytes, sizeof(head));
	head.magic = SHARD_INDEX_MAGIC;
	head.shard_size = shard.size;
	head.shard_mtime = shard.mtime;
	memcpy(tarn_tensor_data(index), bytes, size);
	memcpy(tarn_tensor_data(index), &head, sizeof(head));
	judge_index(storage, index, &shard, false);
	tarn_tensor_unref(index);
	tarn_storage_unref(storage);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (!size)
		return 0;
	if (bytes[0] & 1)
		judge_given(bytes + 1, size - 1);
	else
		judge_shard(bytes + 1, size - 1);
	return 0;
}
