/* SPDX-License-Identifier: MIT */
/* Layouts drawn for a person, in 80 columns of plain text. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/layout.h>

/* Has the terminal more than ASCII? */
bool draw_utf8(void);

/* One link of an expression: what it made of before. */
void draw_link(const struct tarn_layout *before, const char *link, int copies,
	const struct tarn_layout *after);

/* How view walks through a storage of size elements, which is what was given
 * or the last copy of it; row is how many elements make a line, if that many
 * fit. Of what is large, the middle is left out. */
void draw_walk(
	const struct tarn_layout *view, int64_t size, int64_t row, bool copied);

/* Sizes, strides and what they mean. */
void draw_summary(const struct tarn_layout *view);
