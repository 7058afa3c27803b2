/* SPDX-License-Identifier: MIT */
/* Batches: tensors over memory that a reader has filled. */
#pragma once

#include <tarn/loader.h>

#include "lib/data/ahead.h"
#include "lib/tensor/tensor.h"

enum batch_tensor {
	BATCH_TOKENS,
	BATCH_POSITIONS,
	BATCH_SEGMENTS,
	BATCH_DOCUMENTS,
	BATCH_CU_SEQLENS,
	BATCH_TENSORS,
};

struct tarn_batch {
	uint64_t position, n;
	tarn_tensor *tensors[BATCH_TENSORS]; /* NULL: not asked for */
};

/* -EOVERFLOW: a sample is too large. */
int batch_form_of(
	const tarn_data *data, unsigned parts, struct batch_form *ret);

/* The bytes that the parts of n samples need, with all boundaries that they can
 * have. -EOVERFLOW. */
int batch_size(const struct batch_form *form, uint64_t n, uint64_t *ret);

/* The layout of a part of n samples; false: it was not asked for, or it is the
 * boundaries. */
bool batch_layout(const struct batch_form *form, enum batch_tensor which,
	uint64_t n, struct tarn_layout *ret);

/* The pointer of a part, to be set. */
void batch_set(struct batch_memory *memory, enum batch_tensor which, void *at);

/* The parts one after another in memory of batch_size bytes. */
void batch_lay(const struct batch_form *form, uint64_t n, unsigned char *bytes,
	struct batch_memory *ret);

/* A batch of memory that batch_lay has laid out; it takes a reference to the
 * storage. */
int batch_of_storage(const struct batch_form *form, uint64_t position,
	uint64_t n, tarn_storage *storage, const struct boundaries *boundaries,
	tarn_batch **ret);

/* The boundaries of samples first .. first + n - 1 as one list. What is given may
 * be other processes' memory. -EBADMSG: it is none. */
int batch_cu_seqlens(const struct batch_form *form,
	const struct boundaries *boundaries, uint64_t first, uint64_t n,
	tarn_tensor **ret);

/* Copies what is in a reader's memory, which it keeps no more then. */
int batch_detach(tarn_batch *batch);

/* Samples position .. position + n - 1, read now, by this thread. */
int batch_read(tarn_data *data, const struct batch_form *form,
	uint64_t position, uint64_t n, tarn_batch **ret);

DEFINE_CLEANUP(tarn_batch *, tarn_batch_unref);
#define _cleanup_batch_ _cleanup_(tarn_batch_unrefp)
