/* SPDX-License-Identifier: MIT */
/*
 * A lexical walk over valid JSON: in such text a bracket outside of a string is
 * structure and a colon at the first level follows a key, so that counting
 * needs no grammar. Escapes in keys are decoded by jansson.
 */
#include "lib/file/json_tally.h"

#include <jansson.h>
#include <string.h>

#include "base/checked.h"

const char *json_find_nul(struct json_text text)
{
	return memchr(text.at, '\0', (size_t)(text.end - text.at));
}

/* p is at the opening quote; returns the position after the closing one. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\' && p + 1 < end)
			p++;
	return p < end ? p + 1 : end;
}

/* Past a number, true, false or null. */
static const char *skip_word(const char *p, const char *end)
{
	while (p < end && !memchr(",:]}\" \t\n\r", *p, 9))
		p++;
	return p;
}

static bool is_minus_zero(const char *p, const char *end)
{
	return *p == '-' && p + 1 < end && p[1] == '0';
}

void json_tally(struct json_text text, struct json_value *ret)
{
	const char *p = json_skip_blanks(text.at, text.end), *end = text.end;
	struct json_value v = {.text = {p, p}};
	size_t depth = 0;

	if (p < end && *p == '"') {
		p = skip_string(p, end);
	} else if (p < end && *p != '{' && *p != '[') {
		v.minus_zero = is_minus_zero(p, end);
		p = skip_word(p, end);
	} else
		while (p < end) {
			switch (*p) {
			case '"':
				p = skip_string(p, end);
				continue;
			case '{':
			case '[':
				if (++depth > v.depth)
					v.depth = depth;
				break;
			case '}':
			case ']':
				depth--;
				break;
			case ':':
				v.members += depth == 1;
				break;
			case '-':
				v.minus_zero |= is_minus_zero(p, end);
				break;
			}
			p++;
			if (!depth)
				break;
		}
	v.text.end = p;
	*ret = v;
}

bool json_next(struct json_text *rest, struct json_text *ret_key,
	struct json_value *ret_value)
{
	const char *p = json_skip_blanks(rest->at, rest->end), *end = rest->end;

	/* At first at the opening bracket, later after a value. */
	if (p == end || (*p != '{' && *p != '[' && *p != ','))
		return false;
	p = json_skip_blanks(p + 1, end);
	if (p == end || *p == '}' || *p == ']')
		return false;
	json_tally((struct json_text) {p, end}, ret_value);
	*ret_key = (struct json_text) {p, p};
	p = json_skip_blanks(ret_value->text.end, end);
	if (p < end && *p == ':') {
		*ret_key = ret_value->text;
		json_tally((struct json_text) {p + 1, end}, ret_value);
	}
	rest->at = ret_value->text.end;
	return true;
}

/* Is that quoted key, its escapes decoded, this name? */
static bool json_key_is(struct json_text key, const char *name)
{
	size_t size = (size_t)(key.end - key.at), n = strlen(name);
	json_t *decoded;
	bool same;

	if (size < 2)
		return false;
	if (!memchr(key.at, '\\', size))
		return size == n + 2 && !memcmp(key.at + 1, name, n);
	decoded = json_loadb(key.at, size, JSON_DECODE_ANY, NULL);
	same = json_is_string(decoded) &&
	       !strcmp(json_string_value(decoded), name);
	json_decref(decoded);
	return same;
}

size_t json_count(
	struct json_text object, const char *name, struct json_value *ret_value)
{
	struct json_text rest = object, key;
	struct json_value value;
	size_t n = 0;

	while (json_next(&rest, &key, &value)) {
		if (!json_key_is(key, name))
			continue;
		*ret_value = value;
		n++;
	}
	return n;
}

bool json_element(
	struct json_text array, size_t i, struct json_value *ret_value)
{
	struct json_text rest = array, key;
	struct json_value value;

	while (json_next(&rest, &key, &value))
		if (i-- == 0) {
			*ret_value = value;
			return true;
		}
	return false;
}

bool json_u64(struct json_text number, uint64_t *ret)
{
	uint64_t n = 0;

	if (number.at == number.end)
		return false;
	for (const char *p = number.at; p < number.end; p++)
		if (*p < '0' || *p > '9' || mul_u64(n, 10, &n) ||
			add_u64(n, (uint64_t)(*p - '0'), &n))
			return false;
	*ret = n;
	return true;
}
