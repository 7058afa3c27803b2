/* SPDX-License-Identifier: MIT */
/*
 * How large the cache of a core is: the largest that the kernel lists for it,
 * and a guess where the kernel lists none, or says what is no size.
 */
#include "base/cache_size.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/put_file.h"
#include "tests/kit/tap.h"

#define PART "/sys/devices/system/cpu/cpu0/cache/index"

static void put(const char *root, const char *index, const char *size)
{
	char path[64];

	snprintf(path, sizeof(path), "%s%s/size", PART, index);
	put_file(root, path, "%s\n", size);
}

static void drop(const char *root, const char *index)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s%s%s/size", root, PART, index);
	unlink(path);
}

int main(void)
{
	char root[4096];
	int64_t guess;

	snprintf(root, sizeof(root), "%s/root", test_tmpdir());
	mkdir(root, 0700);
	guess = cache_size(root);
	ok(guess >= 1 << 16, "without a figure there is a guess: %lld",
		(long long)guess);
	put(root, "0", "32K");
	put(root, "2", "1024K");
	is_int(1 << 20, cache_size(root), "the largest one counts");
	put(root, "3", "32M");
	is_int(32 << 20, cache_size(root), "of whichever index and unit");
	put(root, "3", "-32K");
	is_int(1 << 20, cache_size(root), "a negative size is none");
	put(root, "3", "99999999999999999999K");
	is_int(1 << 20, cache_size(root),
		"a size past all memory is none, too");
	drop(root, "0");
	drop(root, "2");
	drop(root, "3");
	return done(5);
}
