/* SPDX-License-Identifier: MIT */
/* What verifying a file and verifying a copy of it in memory share. */
#pragma once

#include <tarn/save.h>

#include "lib/save/checksums.h"

/* A tensor and what its checksum should be. */
struct claim {
	const struct tarn_file_tensor *tensor;
	int result;	 /* 0: has a checksum; -ENODATA; -EBADMSG: no digits */
	uint64_t wanted; /* if result is 0 */
};

/* What the file says of each of its tensors, in their order: malloc'ed. */
int verify_claims(const tarn_file *file, struct claim **ret);

/* -EBADMSG, in words. */
int verify_differs(const tarn_file *file, const struct claim *claim,
	uint64_t seen);

/* data is the data range of file, in memory. 0, or -EBADMSG for the first
 * tensor that differs. */
int verify_memory(const tarn_file *file, const void *data);
