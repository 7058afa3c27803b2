/* SPDX-License-Identifier: MIT */
/* Datasets over two corpora, for tests: all windows, shuffles and mixtures. */
#pragma once

#include <tarn/data.h>

#include "tests/data/corpus.h"

enum { SEQ_LEN = 40, CONFIGURATIONS = 4 * 3 * 3 };

/* Writes the corpora's files below dir, and removes them. */
void datasets_begin(const char *dir, struct corpus ret[2]);
void datasets_end(struct corpus corpora[2]);

/* Opens source i, or both; anew at each call. */
tarn_data_source *datasets_source(int i);
/* Configuration i, whose name is static until the next call. */
struct tarn_data_options datasets_options(int i, const char **ret_name);
tarn_data *datasets_open(const struct tarn_data_options *options);

/* All that a sample has, as one number. */
uint64_t datasets_sample(
	tarn_data *data, uint64_t g, struct tarn_data_sample *ret);
