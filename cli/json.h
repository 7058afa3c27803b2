/* SPDX-License-Identifier: MIT */
/* The output of --json: one object on one line. */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* As a string. Names of files may be bytes that are no UTF-8: such a byte
 * becomes U+FFFD. */
json_t *json_text(const char *s);

/* As an integer; where it is too large for one, as a real. */
json_t *json_u64(uint64_t n);

/* Sets object[key], or exits when there is no memory. */
void json_put(json_t *object, const char *key, json_t *value);

/* Prints the object, drops it, and returns the exit status. */
int json_print(json_t *object);
