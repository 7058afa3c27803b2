/* SPDX-License-Identifier: MIT */
/* What torch.save has written, as tensors and pairs of a file. */
#pragma once

#include "lib/file/zip.h"

/*
 * Adds the tensors that the pickle has, under the keys and indices that lead to
 * them with dots in between, and its numbers, texts and truth values as pairs.
 * Tensors that are views of one storage share its bytes.
 */
int checkpoint_read(struct tarn_file *file, const struct zip *zip,
	const struct zip_record *pickle);
