/* SPDX-License-Identifier: MIT */
/* What must hold of any file, whatever reads it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tarn/file.h>

/* Opens these bytes. NULL: they were refused, as a refusal should be. */
tarn_file *file_judge_open(const uint8_t *bytes, size_t size);

/* All that it tells is consistent, and its tensors hold these bytes. */
void file_judge(tarn_file *file, const uint8_t *bytes, size_t size);

/* Do two tell the same? */
void file_judge_same(tarn_file *a, tarn_file *b);
