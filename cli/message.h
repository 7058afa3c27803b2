/* SPDX-License-Identifier: MIT */
/*
 * Messages of the command on stderr: "tarn: SENTENCE", and on the next line,
 * indented, what to do about it.
 */
#pragma once

#include "base/cleanup.h"

/* A sentence of ours. Returns EXIT_FAILED. */
int print_failure(const char *fmt, ...) _printf_(1, 2);

/* The library's sentence for its last failure. Returns EXIT_FAILED. */
int print_error(void);

/* A hint what to do next. */
void print_hint(const char *fmt, ...) _printf_(1, 2);

/* p, unless memory has run out: then prints that and exits. */
void *must(void *p);

/* Gives stdout to the kernel. EXIT_DONE, or EXIT_FAILED when that did not
 * work: silently if the reader has gone, since it knows. */
int print_end(void);
