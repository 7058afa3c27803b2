/* SPDX-License-Identifier: MIT */
/*
 * Untrusted text, shown to a person: names, metadata, paths. Characters that
 * could move a cursor, ring a bell or turn a line around are written as
 * escapes, so that a file can be looked at before it is trusted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes s to f (NULL: only measures); returns the columns that it takes. */
int text_put(FILE *f, const char *s);

/* Would all of s be written as it is? */
bool text_is_plain(const char *s);

/* Writes s, and spaces up to width columns. */
void text_put_padded(FILE *f, const char *s, int width);

/* The last width columns of s, padded: the end of a name or a path matters more
 * than its beginning. */
void text_put_end(FILE *f, const char *s, int width);

/* No more than size bytes of s, and how many there are if that is not all. */
void text_put_cut(FILE *f, const char *s, size_t size);
