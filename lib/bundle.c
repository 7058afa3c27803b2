/* SPDX-License-Identifier: MIT */
/*
 * What libtarn needs to have jansson inside (configure --enable-bundle).
 *
 * Distributions compile their archives for programs, where stdin has a fixed
 * place, and jansson compares one FILE with it to name it in errors; in a
 * library that does not link. The linker is told to take this for it
 * (--wrap=stdin): a FILE that is nobody's, since libtarn parses only memory.
 */
#include <stdio.h>

#pragma GCC visibility push(hidden)
extern FILE *__wrap_stdin;
FILE *__wrap_stdin;
#pragma GCC visibility pop
