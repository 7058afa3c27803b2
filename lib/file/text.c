/* SPDX-License-Identifier: MIT */
/*
 * Headers are built here, from a hundred thousand small pieces, each of which
 * might not fit. Callers need not check each time; they test once, at the end.
 */
#include "lib/file/text.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Makes room for count more bytes; NULL on failure. */
static char *extend(struct text *text, size_t count)
{
	char *at;

	if (text->failed)
		return NULL;
	if (count > text->room - text->size) {
		size_t room = MAX(text->room * 2, text->size + count);
		char *bytes;

		room = MAX(room, 256);
		bytes = room > text->size ? realloc(text->bytes, room) : NULL;
		if (!bytes) {
			text->failed = true;
			return NULL;
		}
		text->bytes = bytes;
		text->room = room;
	}
	at = text->bytes + text->size;
	text->size += count;
	return at;
}

void text_add(struct text *text, const char *bytes, size_t size)
{
	char *at = extend(text, size);

	if (at)
		memcpy(at, bytes, size);
}

void text_add_string(struct text *text, const char *string)
{
	text_add(text, string, strlen(string));
}

void text_add_number(struct text *text, unsigned long long number)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%llu", number);

	text_add(text, digits, (size_t)n);
}

void text_fill(struct text *text, char c, size_t count)
{
	char *at = extend(text, count);

	if (at)
		memset(at, c, count);
}
