/* SPDX-License-Identifier: MIT */
#include "shm/patch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fail.h"
#include "base/fd.h"

uint64_t patch_size(uint32_t n_pages, uint32_t n_runs)
{
	uint64_t size = (uint64_t)n_runs * sizeof(struct patch_run) +
			sizeof(struct patch_foot);

	size = (size + PATCH_PAGE - 1) & ~(uint64_t)(PATCH_PAGE - 1);
	return (uint64_t)n_pages * PATCH_PAGE + size;
}

static int read_all(int fd, void *to, size_t size, uint64_t offset)
{
	ssize_t n = fd_pread(fd, to, size, offset);

	if (n < 0)
		return tarn_fail((int)-n, "reading a patch: %s",
			tarn_errno_text((int)n));
	return (size_t)n == size
		       ? 0
		       : tarn_fail(EPROTO,
				 "a patch ends after %zd of %zu bytes at %llu",
				 n, size, (unsigned long long)offset);
}

static int read_foot(int fd, struct patch_foot *ret)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < sizeof(*ret))
		return tarn_fail_constant(EPROTO, "a patch without a foot");
	r = read_all(
		fd, ret, sizeof(*ret), (uint64_t)st.st_size - sizeof(*ret));
	if (r < 0)
		return r;
	if (ret->magic != PATCH_MAGIC || !ret->n_runs ||
		ret->n_runs > PATCH_RUNS_MAX)
		return tarn_fail(EPROTO,
			"a patch with magic %#llx and %u runs; %#llx and 1 to "
			"%u are possible",
			(unsigned long long)ret->magic, ret->n_runs,
			PATCH_MAGIC, PATCH_RUNS_MAX);
	if (ret->version != PATCH_VERSION || ret->pad)
		return tarn_fail(EPROTO,
			"a patch of version %u (%#x), this library reads %u",
			ret->version, ret->pad, PATCH_VERSION);
	if ((uint64_t)st.st_size != patch_size(ret->n_pages, ret->n_runs))
		return tarn_fail(EPROTO,
			"a patch of %u pages in %u runs has %lld bytes",
			ret->n_pages, ret->n_runs, (long long)st.st_size);
	return 0;
}

static int check_runs(const struct patch *patch, uint64_t pages)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < patch->n_runs; i++) {
		const struct patch_run *run = &patch->runs[i];

		if (!run->n || run->first < end ||
			(uint64_t)run->first + run->n > pages ||
			(uint64_t)run->at + run->n > patch->n_pages)
			return tarn_fail(EPROTO,
				"run %u of a patch has pages %u to %u + %u, "
				"which are its %u + %u; there are %llu from "
				"%llu on, and its %u",
				i, run->first, run->first, run->n, run->at,
				run->n, (unsigned long long)pages,
				(unsigned long long)end, patch->n_pages);
		end = (uint64_t)run->first + run->n;
	}
	return 0;
}

int patch_read(int fd, uint64_t pages, struct patch *ret)
{
	_cleanup_free_ struct patch_run *runs = NULL;
	struct patch_foot foot;
	struct patch patch;
	size_t size;
	int r = read_foot(fd, &foot);

	if (r < 0)
		return r;
	size = foot.n_runs * sizeof(*runs);
	runs = malloc(size);
	if (!runs)
		return tarn_fail(ENOMEM, "out of memory for %u runs of a patch",
			foot.n_runs);
	r = read_all(fd, runs, size, (uint64_t)foot.n_pages * PATCH_PAGE);
	patch = (struct patch) {
		.n_pages = foot.n_pages, .n_runs = foot.n_runs, .runs = runs};
	if (r == 0)
		r = check_runs(&patch, pages);
	if (r < 0)
		return r;
	runs = NULL;
	*ret = patch;
	return 0;
}
