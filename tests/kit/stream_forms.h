/* SPDX-License-Identifier: MIT */
/* Random copies of all forms: runs, gaps, turned, reversed, broadcast, from one
 * dtype to another. */
#pragma once

#include <tarn/copy.h>

struct form {
	struct tarn_layout dst, src;
	struct tarn_copy_options options;
};

/* All that is random comes from it. */
void form_seed(uint64_t first);
uint64_t below(uint64_t n);

/* Of about most bytes, or few; to_file: with few gaps, since each costs a
 * request there. direct: there is direct I/O. */
void form_some(struct form *f, bool to_file, uint64_t most, bool direct);
void form_io_mode(struct tarn_copy_options *o, bool direct);
/* n elements, stride apart. */
void form_run(struct tarn_layout *l, int dtype, int64_t n, int64_t stride);
/* Bytes from the first to the last. */
uint64_t form_reach(const struct tarn_layout *l);
