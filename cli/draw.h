/* SPDX-License-Identifier: MIT */
/* Layouts drawn for a person, in 80 columns of plain text. */
#pragma once

#include <tarn/layout.h>

/* One link of an expression: what it made of before. */
void draw_link(const struct tarn_layout *before, const char *link, int copies,
	const struct tarn_layout *after);

/* How view walks through a storage of size elements; row is how many of them
 * make a line, if that many fit. Nothing is drawn of what is too large. */
void draw_walk(const struct tarn_layout *view, int64_t size, int64_t row);

/* Sizes, strides and what they mean. */
void draw_summary(const struct tarn_layout *view);
