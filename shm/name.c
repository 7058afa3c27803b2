/* SPDX-License-Identifier: MIT */
/*
 * Valid names, and their hash.
 *
 * Names are shown to people, so they are UTF-8 in its shortest form and hold
 * no character that moves a terminal's cursor. The hash is seeded with a
 * random number of the region, so that no user outside its domain can choose
 * names that all fall into one bucket.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fail.h"
#include "shm/table.h"

#define NAME_MAX_SIZE 1024u /* as the design says; two versions are longer */

/* Bytes of the well-formed sequence at s (RFC 3629), and its code point; 0
 * where there is none. */
static size_t utf8_next(const unsigned char *s, size_t left, uint32_t *ret)
{
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t c = s[0];
	size_t n = c < 0x80   ? 1
		   : c < 0xc2 ? 0
		   : c < 0xe0 ? 2
		   : c < 0xf0 ? 3
		   : c < 0xf5 ? 4
			      : 0;

	if (n == 0 || n > left)
		return 0;
	if (n > 1)
		c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

int name_check(const char *name, size_t size)
{
	const unsigned char *s = (const unsigned char *)name;

	if (size == 0)
		return tarn_fail(EINVAL, "a name is empty");
	if (size > NAME_MAX_SIZE)
		return tarn_fail(ENAMETOOLONG,
			"a name has %zu bytes; %u are allowed (\"%.40s...\")",
			size, NAME_MAX_SIZE, name);
	for (size_t i = 0; i < size;) {
		uint32_t c;
		size_t n = utf8_next(s + i, size - i, &c);

		if (n == 0)
			return tarn_fail(EINVAL,
				"a name is not UTF-8: byte %zu is 0x%02x", i,
				s[i]);
		if (c < 0x20 || (c >= 0x7f && c < 0xa0))
			return tarn_fail(EINVAL,
				"a name has the control character U+%04X at "
				"byte %zu",
				c, i);
		i += n;
	}
	return 0;
}

uint64_t name_hash(const char *name, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(name, size, seed);
}
