/* SPDX-License-Identifier: MIT */
/*
 * Where a job's bytes go. The loader does not trust the ranges that the server
 * sends: they must lie inside the file as it was seen, inside the allocation,
 * and apart from each other, and the allocation inside the segments that are
 * mapped here. After that each fill gets a window of its own, from the end of
 * the range before it to the start of the one behind it, since direct reads are
 * rounded outward and must not touch the bytes of a neighbouring range.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/nodes.h"
#include "daemon/loader/internal.h"
#include "daemon/loop/log.h"

typedef unsigned long long llu;

/* The segment that holds pool offset at; n_segments when none does. */
static uint32_t segment_at(const struct loader_process *loader, uint64_t at)
{
	uint32_t lo = 0, hi = loader->n_segments;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		const struct mapped_segment *s = &loader->segments[mid];

		if (at < s->offset)
			hi = mid;
		else if (at - s->offset >= s->size)
			lo = mid + 1;
		else
			return mid;
	}
	return loader->n_segments;
}

bool loader_has_mapped(
	const struct loader_process *loader, uint64_t at, uint64_t end)
{
	while (at < end) {
		uint32_t i = segment_at(loader, at);

		if (i == loader->n_segments)
			return false;
		at = loader->segments[i].offset + loader->segments[i].size;
	}
	return true;
}

static int check_range(const struct msg_identity *file,
	const struct msg_fill *target, const struct msg_fill_range *range,
	uint32_t i)
{
	uint64_t end, alloc_end = target->alloc_offset + target->alloc_size;

	if (add_u64(range->file_offset, range->size, &end) ||
		end > file->file.size)
		return tarn_fail(EINVAL,
			"range %u: %llu bytes at byte %llu are not inside the "
			"file of %llu bytes",
			i, (llu)range->size, (llu)range->file_offset,
			(llu)file->file.size);
	if (range->pool_offset < target->alloc_offset ||
		add_u64(range->pool_offset, range->size, &end) ||
		end > alloc_end)
		return tarn_fail(EINVAL,
			"range %u: %llu bytes at pool offset %llu are not "
			"inside the allocation of %llu bytes at %llu",
			i, (llu)range->size, (llu)range->pool_offset,
			(llu)target->alloc_size, (llu)target->alloc_offset);
	return 0;
}

static bool overlap(
	const struct msg_fill_range *a, const struct msg_fill_range *b)
{
	return a->pool_offset < b->pool_offset + b->size &&
	       b->pool_offset < a->pool_offset + a->size;
}

int loader_check_target(const struct loader_process *loader,
	const struct msg_identity *file, const struct msg_fill *target,
	const struct msg_fill_range *ranges)
{
	uint64_t end;

	if (add_u64(target->alloc_offset, target->alloc_size, &end) ||
		!loader_has_mapped(loader, target->alloc_offset, end))
		return tarn_fail(EFAULT,
			"the allocation of %llu bytes at %llu is not inside "
			"the %u segments that this loader has mapped",
			(llu)target->alloc_size, (llu)target->alloc_offset,
			loader->n_segments);
	for (uint32_t i = 0; i < target->n_ranges; i++) {
		int r = check_range(file, target, &ranges[i], i);

		if (r < 0)
			return r;
		for (uint32_t j = 0; j < i; j++)
			if (overlap(&ranges[i], &ranges[j]))
				return tarn_fail(EINVAL,
					"ranges %u and %u overlap in the pool",
					j, i);
	}
	return 0;
}

/* Could not be registered before: another process may free memlock. */
static void try_register(struct loader_process *loader, uint32_t i)
{
	const struct mapped_segment *s = &loader->segments[i];

	loader->tried[i] = true;
	loader->registered[i] =
		i < TARN_IO_BUFFERS && s->size <= TARN_IO_BUFFER_MAX &&
		tarn_io_register(loader->io, i, s->addr, s->size) == 0;
}

/* The buffer slot of segment i; -1: it cannot be registered, or its pages are
 * still being made, which registering would wait for. */
static int registered(struct loader_process *loader, uint32_t i)
{
	if (!loader->registered[i] && pages_are_here(loader->pages, i))
		try_register(loader, i);
	return loader->registered[i] ? (int)i : -1;
}

bool loader_register_next(struct loader_process *loader)
{
	for (uint32_t i = 0; i < loader->n_segments; i++)
		if (!loader->tried[i] && pages_are_here(loader->pages, i)) {
			try_register(loader, i);
			return true;
		}
	return false;
}

/* The part of the allocation that range i has to itself. */
static void window(const struct loader_job *job, uint32_t i, uint64_t *ret_from,
	uint64_t *ret_to)
{
	const struct msg_fill_range *range = &job->ranges[i];

	*ret_from = job->target.alloc_offset;
	*ret_to = job->target.alloc_offset + job->target.alloc_size;
	for (uint32_t j = 0; j < job->target.n_ranges; j++) {
		const struct msg_fill_range *other = &job->ranges[j];

		if (j == i || !other->size)
			continue;
		if (other->pool_offset >= range->pool_offset + range->size)
			*ret_to = MIN(*ret_to, other->pool_offset);
		else
			*ret_from = MAX(
				*ret_from, other->pool_offset + other->size);
	}
}

/*
 * A thread that is killed in a direct read of a network file system returns
 * before the server's answer has landed (nfs_direct_wait() is killable), and
 * the pipe of this process would end too early. Such a file system may lie below
 * an overlayfs, so threads read directly only where a read waits for a disk.
 * io_uring's requests hold the pipe until they have landed.
 */
static int direct_fd(
	const struct loader_process *loader, const struct loader_job *job)
{
	return job->prompt || loader_has_uring(loader) ? job->direct_fd : -1;
}

/* ---- near the memory --------------------------------------------------- */

static int node_of(const struct mapped_segment *s)
{
	return s->place >= PLACE_NODES ? (int)(s->place - PLACE_NODES) : -1;
}

/*
 * What this thread touches, copies from the page cache and submits is on the
 * node of the memory then, and so are io_uring's workers and the threads that
 * it starts. A job on another node moves it; where a cpuset forbids that it
 * stays.
 */
void loader_go_near(struct loader_process *loader, const struct loader_job *job)
{
	uint32_t i = segment_at(loader, job->target.alloc_offset);
	int node = -1;

	if (i < loader->n_segments)
		node = node_of(&loader->segments[i]);
	if (node == loader->node || !CPU_COUNT(&loader->all))
		return;
	loader->node = node;
	/* The node's CPUs are looked for among all that it may use. */
	(void)sched_setaffinity(0, sizeof(loader->all), &loader->all);
	node_stay(node);
}

/* Only the pages of segment k. */
static void want_pages(
	struct loader_process *loader, uint32_t k, uint64_t at, uint64_t size)
{
	const struct mapped_segment *s = &loader->segments[k];

	pages_want(loader->pages, k, node_of(s), s->addr, s->size,
		MAX(at, s->offset) - s->offset,
		MIN(at + size, s->offset + s->size) - s->offset);
}

void loader_want_pages(
	struct loader_process *loader, uint64_t at, uint64_t size)
{
	for (uint32_t k = segment_at(loader, at); k < loader->n_segments; k++) {
		if (loader->segments[k].offset >= at + size)
			break;
		want_pages(loader, k, at, size);
	}
}

void *loader_bytes_at(
	const struct loader_process *loader, uint64_t at, uint64_t *n)
{
	const struct mapped_segment *s =
		&loader->segments[segment_at(loader, at)];

	*n = MIN(*n, s->offset + s->size - at);
	return (char *)s->addr + (at - s->offset);
}

int loader_fill_range(struct loader_process *loader,
	const struct loader_job *job, uint32_t i, struct tarn_fill **ret)
{
	const struct msg_fill_range *range = &job->ranges[i];
	_cleanup_free_ struct tarn_fill_segment *segments = NULL;
	struct tarn_fill_job fill = {
		.direct_fd = direct_fd(loader, job),
		.buffered_fd = job->buffered_fd,
		.prompt = job->prompt,
		.file_offset = range->file_offset,
		.size = range->size,
		.base = range->pool_offset,
	};
	uint64_t from, to;
	uint32_t first, n = 0;

	window(job, i, &from, &to);
	fill.alloc_offset = from;
	fill.alloc_size = to - from;
	first = segment_at(loader, range->pool_offset);
	segments = calloc(loader->n_segments - first + 1, sizeof(*segments));
	if (!segments)
		return tarn_fail(ENOMEM, "no memory for a fill's segments");
	for (uint32_t k = first; k < loader->n_segments; k++) {
		const struct mapped_segment *s = &loader->segments[k];

		if (s->offset >= range->pool_offset + range->size)
			break;
		want_pages(loader, k, range->pool_offset, range->size);
		segments[n++] = (struct tarn_fill_segment) {
			.addr = s->addr,
			.pool_offset = s->offset,
			.size = s->size,
			.buffer = registered(loader, k),
		};
	}
	fill.segments = segments;
	fill.n_segments = n;
	return tarn_fill_new(loader->io, &fill, ret);
}

/* ---- forgetting a segment -------------------------------------------- */

static bool meets(const struct mapped_segment *s, uint64_t at, uint64_t size)
{
	return at < s->offset + s->size && s->offset < at + size;
}

static bool in_use(
	const struct loader_process *loader, const struct mapped_segment *s)
{
	for (const struct loader_job *job = loader->jobs; job;
		job = job->next) {
		if (job->state == JOB_IDENTIFIED)
			continue;
		if (meets(s, job->target.alloc_offset, job->target.alloc_size))
			return true;
		if (copy_is(job) &&
			meets(s, job->copy_offset, job->identity.file.size))
			return true;
	}
	return false;
}

/* The pages go back to the system once no process maps or pins them. The entry
 * stays, with no bytes, since buffers are numbered by it. */
static int forget(struct loader_process *loader, uint32_t i)
{
	struct mapped_segment *s = &loader->segments[i];
	int r = 0;

	if (in_use(loader, s))
		return tarn_fail(
			EBUSY, "segment %u is being filled", s->number);
	if (loader->registered[i])
		r = tarn_io_unregister(loader->io, i);
	if (r < 0)
		return r;
	pages_forget(loader->pages, i);
	munmap(s->addr, s->size);
	s->addr = NULL;
	s->size = 0;
	loader->registered[i] = false;
	return 0;
}

void loader_forget(
	struct loader_process *loader, const struct wire_message *message)
{
	const struct msg_forget *what =
		(const struct msg_forget *)message->body;
	uint32_t i;

	if (message->size != sizeof(*what)) {
		loader->ended = true;
		loader->status = 1;
		return;
	}
	for (i = 0; i < loader->n_segments; i++)
		if (loader->segments[i].size &&
			loader->segments[i].number == what->number)
			break;
	/* Without an answer it is not given back before this process ends. */
	if (i < loader->n_segments && forget(loader, i) < 0)
		return log_warning("segment_held",
			log_u64("segment", what->number),
			log_text("reason", tarn_fail_message()));
	loader_send(loader, L_FORGOTTEN, what, sizeof(*what));
}

/* ---- what no range fills ------------------------------------------------ */

static void zero(const struct loader_process *loader, uint64_t at, uint64_t end)
{
	while (at < end) {
		uint32_t i = segment_at(loader, at);
		const struct mapped_segment *s = &loader->segments[i];
		uint64_t n;

		/* loader_check_target saw to it that it is there. */
		if (i == loader->n_segments)
			return;
		n = MIN(end - at, s->offset + s->size - at);
		memset((char *)s->addr + (at - s->offset), 0, n);
		at += n;
	}
}

/* The range that begins first at or behind at; NULL if there is none. */
static const struct msg_fill_range *range_from(
	const struct loader_job *job, uint64_t at)
{
	const struct msg_fill_range *first = NULL;

	for (uint32_t i = 0; i < job->target.n_ranges; i++) {
		const struct msg_fill_range *range = &job->ranges[i];

		if (range->size && range->pool_offset >= at &&
			(!first || range->pool_offset < first->pool_offset))
			first = range;
	}
	return first;
}

void loader_zero_rest(
	const struct loader_process *loader, const struct loader_job *job)
{
	uint64_t at = job->target.alloc_offset;
	uint64_t end = at + job->target.alloc_size;
	const struct msg_fill_range *range;

	while ((range = range_from(job, at))) {
		zero(loader, at, range->pool_offset);
		at = range->pool_offset + range->size;
	}
	zero(loader, at, end);
}
