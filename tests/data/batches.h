/* SPDX-License-Identifier: MIT */
/* Batches of loaders, beside what tarn_data_get reads. */
#pragma once

#include <stdbool.h>

#include <tarn/loader.h>

/* All parts that a batch of tokens can have. */
#define BATCHES_PARTS                                                          \
	(TARN_LOADER_POSITIONS | TARN_LOADER_SEGMENTS |                        \
		TARN_LOADER_CU_SEQLENS | TARN_LOADER_DOCUMENTS)

/* A loader of this process alone, which must open. */
tarn_loader *batches_open(
	tarn_data *data, const struct tarn_loader_options *options);

/* Has the batch all samples position .. position + n - 1, with these parts? What
 * differs is said. Any process. */
bool batches_right(tarn_data *data, tarn_batch *batch, uint64_t position,
	uint64_t n, unsigned parts);

/* The next batch of a loader, which must come, is the one that tarn_data_get and
 * the options say. */
bool batches_next(tarn_loader *loader, tarn_data *data,
	const struct tarn_loader_options *options);
