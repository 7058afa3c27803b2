/* SPDX-License-Identifier: MIT */
/* Saves to a folder, and looks at what is in it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

extern const char *kit_replace_folder;

/* Makes the folder. */
void kit_replace_begin(void);
/* Removes it, which is empty. */
void kit_replace_end(void);

/* The path of a name in the folder, in one of a few buffers: sentences compare
 * two. */
const char *kit_replace_in(const char *name);
/* Makes a file there. */
void kit_replace_put(const char *name, const char *text, mode_t mode);
/* An assertion: what is in the file. */
void kit_replace_contains(
	const char *name, const char *wanted, const char *what);
/* An assertion: what is in the folder, which is emptied. */
void kit_replace_only(const char *wanted, const char *what);

/* Begins, writes and commits; the first error. */
int kit_replace(const char *path, bool exclusive, const char *text);
