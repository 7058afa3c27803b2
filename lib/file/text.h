/* SPDX-License-Identifier: MIT */
/* A text that grows. All zeroes is an empty one; a failure is remembered. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct text {
	char *bytes; /* malloc'ed; no NUL at the end */
	size_t size, room;
	bool failed; /* out of memory: bytes added since are missing */
};

void text_add(struct text *text, const char *bytes, size_t size);
void text_add_string(struct text *text, const char *string);
void text_add_number(struct text *text, unsigned long long number);
void text_fill(struct text *text, char c, size_t count);

static inline void text_free(struct text *text)
{
	free(text->bytes);
}
#define _cleanup_text_ _cleanup_(text_free)
