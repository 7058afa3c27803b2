/* SPDX-License-Identifier: MIT */
/*
 * A page that a mapping was promised and that no process has touched yet counts
 * as free, and cannot be had.
 */
#include "base/huge_reserve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fd.h"

#define FOLDER "/sys/kernel/mm/hugepages/hugepages-%llukB/"

static int read_count(
	const char *root, unsigned shift, const char *name, uint64_t *ret)
{
	char path[4096], text[32];
	ssize_t n;

	snprintf(path, sizeof(path), "%s" FOLDER "%s", root,
		1ull << (shift - 10), name);
	n = fd_read_text(path, text, sizeof(text));
	if (n < 0)
		return (int)n;
	*ret = strtoull(text, NULL, 10);
	return 0;
}

int huge_reserve_read(
	const char *root, unsigned shift, struct huge_reserve *ret)
{
	uint64_t promised = 0;
	int r = read_count(root, shift, "nr_hugepages", &ret->all);

	if (r == 0)
		r = read_count(root, shift, "free_hugepages", &ret->free);
	if (r == 0)
		r = read_count(root, shift, "resv_hugepages", &promised);
	if (r < 0)
		return r;
	ret->free -= MIN(ret->free, promised);
	snprintf(ret->setting, sizeof(ret->setting), FOLDER "nr_hugepages",
		1ull << (shift - 10));
	return 0;
}
