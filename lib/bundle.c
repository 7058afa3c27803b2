/* SPDX-License-Identifier: MIT */
/*
 * Needed for jansson inside of libtarn (configure --enable-bundle).
 *
 * Distributions compile their archives for programs, where stdin has a fixed
 * place, and jansson compares one FILE with it to name it in errors; in a
 * library that does not link. The linker uses this in its place (--wrap=stdin):
 * a FILE that no one uses, since libtarn parses only memory.
 */
#include <stdio.h>

#pragma GCC visibility push(hidden)
extern FILE *__wrap_stdin;
FILE *__wrap_stdin;
#pragma GCC visibility pop
