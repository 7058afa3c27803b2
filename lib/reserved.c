// SPDX-License-Identifier: MIT
/* A reserved word that is not 0 comes from a later header, or from an
 * uninitialised struct. */
#include "lib/reserved.h"

#include "base/fail.h"
#include "config.h"

int reserved_check(const char *name, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (words[i])
			return tarn_fail(EINVAL,
				"struct %s: reserved word %zu is 0x%llx, not "
				"0: the struct was not initialised, or the "
				"program sets an option that libtarn %s does "
				"not support",
				name, i, (unsigned long long)words[i],
				PACKAGE_VERSION);
	return 0;
}
