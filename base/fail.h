/* SPDX-License-Identifier: MIT */
/*
 * Failures: a negative errno for the program, and one sentence for people, with
 * the values that were wrong. The sentence is thread-local and written where
 * the cause is first seen; callers forward the number only.
 */
#pragma once

#include <errno.h>
#include <stdarg.h>

#include "base/cleanup.h"

/* Long enough for a sentence with a path and a shape in it. */
#define TARN_MESSAGE_MAX 1024

/* Records what went wrong and returns -err. Never touches errno. */
int tarn_fail(int err, const char *fmt, ...) _printf_(2, 3);
int tarn_fail_list(int err, const char *fmt, va_list list) _printf_(2, 0);

/* The same for a constant text without values. It costs next to nothing, so it
 * suits results that a polling caller does not treat as a failure. */
int tarn_fail_constant(int err, const char *text);

/* The sentence of this thread's last failure; "" before the first. */
const char *tarn_fail_message(void);

/* Puts words in front of the sentence: "m.safetensors: header: ...". */
int tarn_fail_prefix(int r, const char *fmt, ...) _printf_(2, 3);

/* Sets the sentence as it came from elsewhere (the daemon's reply). */
int tarn_fail_verbatim(int err, const char *text);

/* The name of an errno, for messages: "ENOSPC"; thread-safe. */
const char *tarn_errno_text(int err);
