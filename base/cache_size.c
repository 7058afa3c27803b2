/* SPDX-License-Identifier: MIT */
/*
 * The size of the processor's cache.
 *
 * The kernel says what one core reaches. The C library's figure comes after it:
 * on AMD's processors that is all of a socket, ten times as much and more, of
 * which a core fills its own part alone. Moves that should go past the cache
 * would then go through it.
 */
#include "base/cache_size.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"

#define USUAL ((int64_t)8 << 20)
#define INDEX_MAX 8 /* kinds of caches; processors have four or five */

/* "32768K"; 0: there is none. */
static int64_t size_at(const char *root, int index)
{
	char path[4200], text[32], *unit;
	long long n;

	snprintf(path, sizeof(path),
		"%s/sys/devices/system/cpu/cpu0/cache/index%d/size", root,
		index);
	if (fd_read_text(path, text, sizeof(text)) <= 0)
		return 0;
	n = strtoll(text, &unit, 10);
	if (n <= 0 || n > INT64_MAX >> 20)
		return 0;
	return *unit == 'K' ? n << 10 : *unit == 'M' ? n << 20 : n;
}

int64_t cache_size(const char *root)
{
	int64_t most = 0;

	for (int i = 0; i < INDEX_MAX; i++) {
		int64_t size = size_at(root, i);

		if (size > most)
			most = size;
	}
	if (most == 0)
		most = sysconf(_SC_LEVEL3_CACHE_SIZE);
	return most > 0 ? most : USUAL;
}
