/* SPDX-License-Identifier: MIT */
/*
 * Facts that a JSON parser discards, determined from text that it has accepted:
 * how often a key occurred, how deep the nesting was, how a number was written.
 * Nothing here decides whether text is JSON: jansson does that first. (On other
 * text the results are meaningless, but the functions stay within its bounds.)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_text {
	const char *at;
	const char *end;
};

struct json_value {
	struct json_text text; /* the value, no blanks around it */
	size_t members;        /* keys of an object, repeated ones too */
	size_t depth;          /* 0: not a container; 1: [] or {} */
	bool minus_zero;       /* contains something like -0, an integer or
			        * not */
};

/* The first NUL; NULL: there is none. JSON has none anywhere, but jansson (up
 * to 2.14) skips one after a number, and does not count it, so that a value
 * would end one byte early. Call it before jansson. */
const char *json_find_nul(struct json_text text);

/* Past JSON's four kinds of blanks. */
static inline const char *json_skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* The first value of text. */
void json_tally(struct json_text text, struct json_value *ret);

/*
 * The next member or element of a container. *rest is its text at first.
 * *ret_key is the key with its quotes, empty in an array. False: no more.
 */
bool json_next(struct json_text *rest, struct json_text *ret_key,
	struct json_value *ret_value);

/* How many members of an object have that name; *ret_value is the last. */
size_t json_count(struct json_text object, const char *name,
	struct json_value *ret_value);

/* Element i of an array, or false. */
bool json_element(
	struct json_text array, size_t i, struct json_value *ret_value);

/* A number of digits only that fits, exactly; false for any other text. */
bool json_u64(struct json_text number, uint64_t *ret);
