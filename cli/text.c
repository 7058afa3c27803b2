/* SPDX-License-Identifier: MIT */
/*
 * Untrusted text, shown to a person.
 *
 * A character is written as it is only if the locale can print it and it stays
 * where it is put; everything else, also bytes that are no character, becomes
 * \xNN or \uNNNN.
 */
#include "cli/text.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* Marks that change the direction of what follows: a name could look like
 * another one. */
static bool is_turning(wchar_t c)
{
	return c == 0x061c || c == 0x200e || c == 0x200f ||
	       (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

#define ESCAPE_MAX 16

/* One character of s, which takes *ret_n bytes: returns its columns, and in
 * escape the text to write in its place, or nothing. */
static int look_at(const char *s, char escape[ESCAPE_MAX], size_t *ret_n)
{
	mbstate_t state = {0};
	wchar_t c = 0;
	size_t n = mbrtowc(&c, s, strnlen(s, MB_LEN_MAX), &state);
	int width = 0;

	escape[0] = '\0';
	if (n == 0 || n > MB_LEN_MAX) {
		snprintf(escape, ESCAPE_MAX, "\\x%02x", (unsigned char)*s);
		n = 1;
	} else if (!iswprint((wint_t)c) || is_turning(c)) {
		snprintf(escape, ESCAPE_MAX,
			(unsigned long)c < 0x80 ? "\\x%02lx" : "\\u%04lx",
			(unsigned long)c);
	} else {
		width = wcwidth(c);
	}
	*ret_n = n;
	return escape[0] ? (int)strlen(escape) : width > 0 ? width : 0;
}

static int put_one(FILE *f, const char *s, size_t *ret_n)
{
	char escape[ESCAPE_MAX];
	int columns = look_at(s, escape, ret_n);

	if (f && escape[0])
		fputs(escape, f);
	else if (f)
		fwrite(s, 1, *ret_n, f);
	return columns;
}

bool text_is_plain(const char *s)
{
	char escape[ESCAPE_MAX] = "";

	for (size_t n = 0; *s && !escape[0]; s += n)
		look_at(s, escape, &n);
	return !escape[0];
}

int text_put(FILE *f, const char *s)
{
	int columns = 0;

	for (size_t n = 0; *s; s += n)
		columns += put_one(f, s, &n);
	return columns;
}

void text_put_padded(FILE *f, const char *s, int width)
{
	int columns = text_put(f, s);

	if (columns < width)
		fprintf(f, "%*s", width - columns, "");
}

void text_put_end(FILE *f, const char *s, int width)
{
	while (text_put(NULL, s) > width)
		do
			s++;
		while ((*s & 0xc0) == 0x80);
	text_put_padded(f, s, width);
}

void text_put_cut(FILE *f, const char *s, size_t size)
{
	size_t all = strlen(s), at = 0, n = 0;

	for (; at < all && at < size; at += n)
		put_one(f, s + at, &n);
	if (at < all)
		fprintf(f, "... (%zu bytes in all)", all);
}
