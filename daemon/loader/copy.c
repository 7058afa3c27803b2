/* SPDX-License-Identifier: MIT */
/*
 * A job without a file: its bytes lie in the pool already, on another node.
 *
 * This thread copies them, some megabytes at a time, and takes messages and
 * completions in between. Nothing of it is ever in flight, so it can be dropped
 * at once.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loader/internal.h"

/* Of all of them together: a message waits for a millisecond, about. Picked. */
#define STEP (4ull << 20)

typedef unsigned long long llu;

bool copy_is(const struct loader_job *job)
{
	return job->buffered_fd < 0;
}

unsigned copies_going_on(const struct loader_process *loader)
{
	unsigned n = 0;

	for (const struct loader_job *job = loader->jobs; job; job = job->next)
		n += job->state == JOB_FILLING && copy_is(job);
	return n;
}

int copy_check(
	const struct loader_process *loader, const struct loader_job *job)
{
	const struct msg_fill *to = &job->target;
	uint64_t end;

	if (add_u64(job->copy_offset, job->identity.file.size, &end) ||
		!loader_has_mapped(loader, job->copy_offset, end))
		return tarn_fail(EFAULT,
			"the %llu bytes at %llu that are to be copied are not "
			"inside the %u segments that this loader has mapped",
			(llu)job->identity.file.size, (llu)job->copy_offset,
			loader->n_segments);
	if (to->n_ranges != 1 ||
		(job->copy_offset < to->alloc_offset + to->alloc_size &&
			to->alloc_offset < end))
		return tarn_fail(EINVAL,
			"bytes %llu to %llu cannot be copied in %u ranges to "
			"the allocation of %llu bytes at %llu",
			(llu)job->copy_offset, (llu)end, to->n_ranges,
			(llu)to->alloc_size, (llu)to->alloc_offset);
	return 0;
}

void copy_begin(struct loader_process *loader, struct loader_job *job)
{
	job->direct = job->registered = false;
	loader_want_pages(
		loader, job->ranges[0].pool_offset, job->ranges[0].size);
}

int copy_step(struct loader_process *loader, struct loader_job *job)
{
	const struct msg_fill_range *range = &job->ranges[0];
	uint64_t step = STEP / MAX(copies_going_on(loader), 1u);
	uint64_t stop = MIN(job->done + step, range->size);

	while (job->done < stop) {
		uint64_t n = stop - job->done;
		void *to = loader_bytes_at(
			loader, range->pool_offset + job->done, &n);
		void *from = loader_bytes_at(loader,
			job->copy_offset + range->file_offset + job->done, &n);

		memcpy(to, from, n);
		job->done += n;
	}
	return job->done < range->size;
}
