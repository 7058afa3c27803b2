// SPDX-License-Identifier: MIT
/*
 * What is in a head of a tar file, POSIX's ustar (IEEE 1003.1, pax): 512 bytes of
 * text fields, with numbers in octal, and in GNU's files in base 256 where octal
 * is too short. pax puts what does not fit into records of "LENGTH KEY=VALUE\n"
 * before the head.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/tar.h"

enum { NAME_AT = 0, NAME_SIZE = 100, SUM_AT = 148, SUM_SIZE = 8 };
enum { MAGIC_AT = 257, PREFIX_AT = 345, PREFIX_SIZE = 155 };

static bool base_256(const unsigned char *field, size_t size, uint64_t *ret)
{
	uint64_t n = 0;

	/* 0xff is a negative number's. */
	if (field[0] != 0x80)
		return false;
	for (size_t i = 1; i < size; i++) {
		if (n >> 55)
			return false;
		n = n << 8 | field[i];
	}
	*ret = n;
	return true;
}

bool tar_number(const unsigned char *field, size_t size, uint64_t *ret)
{
	uint64_t n = 0;
	size_t i = 0;

	if (field[0] & 0x80)
		return base_256(field, size, ret);
	while (i < size && field[i] == ' ')
		i++;
	for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
		n = n << 3 | (uint64_t)(field[i] - '0');
	/* 12 digits have 36 bits. */
	if (i < size && field[i] != ' ' && field[i] != '\0')
		return false;
	*ret = n;
	return true;
}

/* Some writers have summed up signed bytes. */
bool tar_sum_is_right(const unsigned char head[TAR_BLOCK])
{
	uint64_t wanted;
	int64_t sum = 0, signed_sum = 0;

	for (unsigned i = 0; i < TAR_BLOCK; i++) {
		bool is_sum = i >= SUM_AT && i < SUM_AT + SUM_SIZE;

		sum += is_sum ? ' ' : head[i];
		signed_sum += is_sum ? ' ' : (signed char)head[i];
	}
	return tar_number(head + SUM_AT, SUM_SIZE, &wanted) &&
	       ((int64_t)wanted == sum || (int64_t)wanted == signed_sum);
}

size_t tar_head_name(const unsigned char head[TAR_BLOCK], char *ret)
{
	const char *text = (const char *)head;
	size_t n = 0, size = strnlen(text + NAME_AT, NAME_SIZE);

	/* GNU's magic, "ustar  ", goes with other fields there. */
	if (!memcmp(head + MAGIC_AT, "ustar", 6))
		n = strnlen(text + PREFIX_AT, PREFIX_SIZE);
	memcpy(ret, text + PREFIX_AT, n);
	if (n)
		ret[n++] = '/';
	memcpy(ret + n, text + NAME_AT, size);
	ret[n + size] = '\0';
	return n + size;
}

/* ---- pax ------------------------------------------------------------------------ */

struct record {
	const char *key, *value;
	size_t key_size, value_size;
};

static bool key_is(const struct record *record, const char *key)
{
	return record->key_size == strlen(key) &&
	       !memcmp(record->key, key, record->key_size);
}

/* The record at the begin of a text; its size is *ret_size. */
static bool parse_record(
	const char *text, size_t size, struct record *ret, size_t *ret_size)
{
	size_t n = 0, i = 0;
	const char *equals;

	for (; i < size && text[i] >= '0' && text[i] <= '9' && n <= size; i++)
		n = 10 * n + (size_t)(text[i] - '0');
	if (!i || i >= size || text[i] != ' ' || n > size || n < i + 3 ||
		text[n - 1] != '\n')
		return false;
	ret->key = text + i + 1;
	equals = memchr(ret->key, '=', n - 2 - i);
	if (!equals)
		return false;
	ret->key_size = (size_t)(equals - ret->key);
	ret->value = equals + 1;
	ret->value_size = (size_t)(text + n - 1 - ret->value);
	*ret_size = n;
	return true;
}

static bool decimal(const struct record *record, uint64_t *ret)
{
	uint64_t n = 0;

	for (size_t i = 0; i < record->value_size; i++) {
		char c = record->value[i];

		if (c < '0' || c > '9' || mul_u64(n, 10, &n) ||
			add_u64(n, (uint64_t)(c - '0'), &n))
			return false;
	}
	*ret = n;
	return record->value_size && n <= INT64_MAX;
}

/* What is there of one set of records; the last of each kind counts. */
struct said {
	struct record name, size;
};

static int one_record(const struct record *record, uint64_t at, bool global,
	struct said *said)
{
	bool is_name = key_is(record, "path"), is_size = key_is(record, "size");

	if (record->key_size > 11 && !memcmp(record->key, "GNU.sparse.", 11))
		return tarn_fail(ENOTSUP,
			"the member at byte %llu has holes, which are not "
			"supported: write it without --sparse",
			(unsigned long long)at);
	if (global && (is_name || is_size))
		return tarn_fail(ENOTSUP,
			"the global records at byte %llu give all members one "
			"%s, which is not supported",
			(unsigned long long)at, is_name ? "name" : "size");
	if (is_name)
		said->name = *record;
	if (is_size)
		said->size = *record;
	return 0;
}

static int say(const struct said *said, uint64_t at, struct tar_extra *extra)
{
	const struct record *name = &said->name;
	uint64_t size = 0;

	if (said->size.key && !decimal(&said->size, &size))
		return tarn_fail(EBADMSG,
			"the pax record of a size at byte %llu is no number "
			"below 2^63: '%.*s'",
			(unsigned long long)at,
			(int)MIN(said->size.value_size, 40u), said->size.value);
	if (name->key &&
		(!name->value_size || name->value_size > TAR_NAME_MAX ||
			memchr(name->value, 0, name->value_size)))
		return tarn_fail(EBADMSG,
			"the pax record of a name at byte %llu has %zu bytes, "
			"or a zero among them; a name has 1 to %u",
			(unsigned long long)at, name->value_size, TAR_NAME_MAX);
	if (said->size.key && !extra->has_size) {
		extra->size = size;
		extra->has_size = true;
	}
	if (name->key && !extra->has_name) {
		memcpy(extra->name, name->value, name->value_size);
		extra->name_size = name->value_size;
		extra->has_name = true;
	}
	return 0;
}

int tar_pax(const unsigned char *records, size_t size, uint64_t at, bool global,
	struct tar_extra *extra)
{
	struct said said = {.name = {.key = NULL}};
	const char *text = (const char *)records;
	size_t n = 0;
	int r = 0;

	/* Some writers fill up with zeros. */
	for (size_t i = 0; r >= 0 && i < size && text[i]; i += n) {
		struct record record;

		if (!parse_record(text + i, size - i, &record, &n))
			return tarn_fail(EBADMSG,
				"byte %llu is no pax record, \"LENGTH KEY=VALUE\"",
				(unsigned long long)(at + i));
		r = one_record(&record, at, global, &said);
	}
	return r < 0 || global ? r : say(&said, at, extra);
}

/* ---- keys -------------------------------------------------------------------------- */

/* As the expression "^((?:.*" "/|)[^.]+)[.]([^/]*)$" of WebDataset finds them. */
bool tar_key(const char *name, size_t size, size_t *ret_key_size)
{
	const char *slash = memrchr(name, '/', size), *dot;
	size_t last = slash ? (size_t)(slash - name) + 1 : 0;

	dot = memchr(name + last, '.', size - last);
	if (!dot)
		return false;
	/* Where the last part begins with a dot, the expression takes the folder
	 * for the key, if that has no dot. */
	if (dot == name + last) {
		const char *folder =
			last > 1 ? memrchr(name, '/', last - 1) : NULL;
		size_t begin = folder ? (size_t)(folder - name) + 1 : 0;

		if (begin == last || memchr(name + begin, '.', last - begin))
			return false;
	}
	*ret_key_size = (size_t)(dot - name);
	return true;
}
