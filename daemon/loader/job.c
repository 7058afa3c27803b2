/* SPDX-License-Identifier: MIT */
/*
 * A job: one file on its way into one allocation. L_FILE makes it, and L_DONE,
 * L_FAILED or L_DROPPED ends it. Each of them is sent when none of its reads is
 * in flight any more, so it is what the server waits for before the memory is
 * used, or used again. L_DROP is always answered by L_DROPPED, also when the
 * job has just ended otherwise.
 *
 *	identified --L_FILL--> waiting --a place--> filling --> gone
 *
 * Its ranges are filled one after the other; several jobs go on side by side.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loader/internal.h"
#include "lib/io/io_mode.h"

/* ---- time ------------------------------------------------------------ */

/* Of all threads, the kernel's workers for this process too. */
static uint64_t cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return ((uint64_t)usage.ru_utime.tv_sec +
		       (uint64_t)usage.ru_stime.tv_sec) *
		       1000000000u +
	       ((uint64_t)usage.ru_utime.tv_usec +
		       (uint64_t)usage.ru_stime.tv_usec) *
		       1000u;
}

static uint64_t landed(const struct loader_job *job)
{
	return job->done +
	       (job->fill && !job->header ? tarn_fill_landed(job->fill) : 0);
}

/* Shares the CPU time since the last call out among the jobs, by the bytes
 * that landed for each in the meantime. */
static void share_cpu(struct loader_process *loader)
{
	uint64_t bytes = 0, spent = cpu_ns() - loader->cpu_mark;

	for (struct loader_job *job = loader->jobs; job; job = job->next)
		bytes += landed(job) - job->counted;
	if (!bytes)
		return;
	for (struct loader_job *job = loader->jobs; job; job = job->next) {
		job->cpu_ns += (uint64_t)((double)spent *
					  (double)(landed(job) - job->counted) /
					  (double)bytes);
		job->counted = landed(job);
	}
	loader->cpu_mark += spent;
}

/* ---- life ------------------------------------------------------------ */

static struct loader_job *find(struct loader_process *loader, uint64_t id)
{
	struct loader_job *job = loader->jobs;

	while (job && job->id != id)
		job = job->next;
	return job;
}

/* Nothing of it is in flight. */
static void job_free(struct loader_process *loader, struct loader_job *job)
{
	struct loader_job **at = &loader->jobs;

	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	if (job->state == JOB_FILLING)
		loader->n_filling--;
	tarn_fill_free(job->fill);
	header_free(job->header);
	closer_close(loader->closer, job->buffered_fd);
	closer_close(loader->closer, job->direct_fd);
	free(job);
}

static void fail(
	struct loader_process *loader, struct loader_job *job, int error)
{
	loader_send_failed(loader, job->id, error);
	job_free(loader, job);
}

static void dropped(struct loader_process *loader, uint64_t id)
{
	struct msg_job body = {.job = id};

	loader_send(loader, L_DROPPED, &body, sizeof(body));
}

/* What its bytes are; takes the descriptors over, if there are any. */
static int identify(const struct msg_file *file, struct wire_message *message,
	struct loader_job *job)
{
	int r;

	job->buffered_fd = job->direct_fd = -1;
	if (!message->n_fds && !file->copy_size)
		return tarn_fail(EINVAL,
			"a load came with 0 descriptors, and with no bytes to "
			"copy");
	if (!message->n_fds) {
		job->identity.file.size = file->copy_size;
		job->copy_offset = file->copy_offset;
		return 0;
	}
	r = loader_identify(message->fds[0],
		message->n_fds > 1 ? message->fds[1] : -1, &file->seen,
		&job->identity);
	if (r < 0)
		return r;
	job->seen = file->seen;
	job->sealed = file->copy_size > 0;
	job->buffered_fd = wire_take_fd(message, 0);
	job->direct_fd = wire_take_fd(message, 1);
	/* Asked here, where the server sees when there is no answer. */
	job->prompt = io_nowait_works(job->buffered_fd);
	return 0;
}

static int new_job(struct loader_process *loader, const struct msg_file *file,
	struct wire_message *message)
{
	struct loader_job *job, **at = &loader->jobs;
	uint64_t id = file->job;
	int r;

	if (find(loader, id))
		return tarn_fail(EEXIST, "there is a job %llu already",
			(unsigned long long)id);
	if (message->n_fds < 0 || message->n_fds > 2)
		return tarn_fail(EINVAL,
			"a load came with %d descriptors instead of 0 to 2",
			message->n_fds);
	job = calloc(1, sizeof(*job));
	if (!job)
		return tarn_fail(ENOMEM, "no memory for a load");
	r = identify(file, message, job);
	if (r < 0) {
		free(job);
		return r;
	}
	job->id = job->identity.job = id;
	while (*at)
		at = &(*at)->next;
	*at = job;
	loader_send(loader, L_IDENTITY, &job->identity, sizeof(job->identity));
	return 0;
}

/* A message of another size cannot be answered: it is a fault of the daemon
 * itself. */
static bool job_of(struct loader_process *loader,
	const struct wire_message *message, uint64_t *ret)
{
	struct msg_job body;

	if (message->size != sizeof(body)) {
		loader->ended = true;
		loader->status = 1;
		return false;
	}
	memcpy(&body, message->body, sizeof(body));
	*ret = body.job;
	return true;
}

void job_file(struct loader_process *loader, struct wire_message *message)
{
	struct msg_file file;
	int r;

	if (message->size != sizeof(file)) {
		loader->ended = true;
		loader->status = 1;
		return;
	}
	memcpy(&file, message->body, sizeof(file));
	r = new_job(loader, &file, message);
	if (r < 0)
		loader_send_failed(loader, file.job, r);
}

void job_drop(struct loader_process *loader, const struct wire_message *message)
{
	struct loader_job *job;
	uint64_t id;

	if (!job_of(loader, message, &id))
		return;
	job = find(loader, id);
	if (job && job->state == JOB_FILLING && !copy_is(job)) {
		/* Answered when what is in flight has landed. */
		job->dropped = true;
		tarn_fill_cancel(job->fill);
		return;
	}
	if (job)
		job_free(loader, job);
	dropped(loader, id);
}

/* The message into the job, checked. */
static int take_target(struct loader_process *loader, struct loader_job *job,
	const struct msg_fill *target, const struct wire_message *message)
{
	uint32_t n = target->n_ranges;
	int r;

	if (n < 1 || n > LOAD_RANGES_MAX ||
		message->size != sizeof(*target) + n * sizeof(job->ranges[0]))
		return tarn_fail(EINVAL,
			"a load of %u ranges in %u bytes; 1 to %u are allowed, "
			"of %zu bytes each",
			n, message->size, LOAD_RANGES_MAX,
			sizeof(job->ranges[0]));
	job->target = *target;
	memcpy(job->ranges, message->body + sizeof(*target),
		n * sizeof(job->ranges[0]));
	if (!loader->io)
		return tarn_fail_verbatim(-loader->io_error, loader->io_text);
	r = loader_check_target(
		loader, &job->identity, &job->target, job->ranges);
	return r == 0 && copy_is(job) ? copy_check(loader, job) : r;
}

void job_fill(struct loader_process *loader, const struct wire_message *message)
{
	struct loader_job *job;
	struct msg_fill target;
	int r;

	if (message->size < sizeof(target)) {
		loader->ended = true;
		loader->status = 1;
		return;
	}
	memcpy(&target, message->body, sizeof(target));
	job = find(loader, target.job);
	if (!job || job->state != JOB_IDENTIFIED) {
		/* One that runs goes on: it will have an end of its own. */
		if (!job)
			loader_send_failed(loader, target.job,
				tarn_fail(ENOENT, "there is no job %llu",
					(unsigned long long)target.job));
		return;
	}
	r = take_target(loader, job, &target, message);
	if (r < 0)
		fail(loader, job, r);
	else
		job->state = JOB_WAITING;
}

/* ---- filling --------------------------------------------------------- */

static int begin_range(struct loader_process *loader, struct loader_job *job)
{
	return loader_fill_range(loader, job, job->range, &job->fill);
}

static int begin(struct loader_process *loader, struct loader_job *job)
{
	const struct msg_progress body = {.job = job->id};

	if (!loader->n_filling)
		loader->cpu_mark = cpu_ns();
	loader_go_near(loader, job);
	loader->n_filling++;
	job->state = JOB_FILLING;
	job->direct = job->registered = true;
	job->reported_at = clock_ns(CLOCK_MONOTONIC);
	/* Nothing yet: but if this file blocks, the server knows it by this. */
	loader_send(loader, L_PROGRESS, &body, sizeof(body));
	if (copy_is(job)) {
		copy_begin(loader, job);
		return 0;
	}
	return job->seen.header_size ? header_begin(loader, job)
				     : begin_range(loader, job);
}

static void done(struct loader_process *loader, struct loader_job *job)
{
	struct msg_filled body = {
		.job = job->id,
		.bytes = job->done,
		.flags =
			(job->done && job->direct ? LOADED_DIRECT : 0) |
			(job->done && job->registered ? LOADED_REGISTERED : 0) |
			(loader_has_uring(loader) ? LOADED_URING : 0),
	};
	uint64_t rest;

	share_cpu(loader);
	rest = (cpu_ns() - loader->cpu_mark) / loader->n_filling;
	loader->cpu_mark += rest;
	body.cpu_ns = job->cpu_ns + rest;
	loader_send(loader, L_DONE, &body, sizeof(body));
	job_free(loader, job);
}

static int end_header(struct loader_process *loader, struct loader_job *job)
{
	int r = header_go_on(loader, job);

	if (r == 0)
		r = begin_range(loader, job);
	return r < 0 ? r : 1;
}

/* The range is there: 1, another is begun; 0, that was the last; or an
 * error. */
static int end_range(struct loader_process *loader, struct loader_job *job)
{
	int r;

	if (job->header)
		return end_header(loader, job);
	r = tarn_fill_result(job->fill);
	if (r < 0)
		return r;
	if (job->ranges[job->range].size) {
		job->direct &= tarn_fill_direct(job->fill);
		job->registered &= tarn_fill_registered(job->fill);
	}
	job->done += tarn_fill_landed(job->fill);
	job->fill = tarn_fill_free(job->fill);
	if (++job->range < job->target.n_ranges) {
		r = begin_range(loader, job);
		return r < 0 ? r : 1;
	}
	loader_zero_rest(loader, job);
	return job->sealed ? 0
			   : loader_unchanged(job->buffered_fd, job->direct_fd,
				     &job->identity);
}

static void send_progress(struct loader_process *loader, struct loader_job *job)
{
	struct msg_progress body = {.job = job->id, .bytes = landed(job)};
	uint64_t now;

	if (body.bytes == job->reported)
		return;
	now = clock_ns(CLOCK_MONOTONIC);
	if (body.bytes - job->reported < LOADER_REPORT_BYTES &&
		now - job->reported_at < LOADER_REPORT_NS)
		return;
	job->reported = body.bytes;
	job->reported_at = now;
	loader_send(loader, L_PROGRESS, &body, sizeof(body));
}

/* Goes on with a job until it waits for a read (true), or is gone. */
static bool advance(struct loader_process *loader, struct loader_job *job)
{
	int r = 1;

	if (job->state == JOB_WAITING) {
		r = begin(loader, job);
		r = r < 0 ? r : 1;
	}
	if (r > 0 && copy_is(job)) {
		r = copy_step(loader, job);
		if (r == 0)
			loader_zero_rest(loader, job);
	}
	while (r > 0 && !copy_is(job) && tarn_fill_finished(job->fill)) {
		if (job->dropped) {
			dropped(loader, job->id);
			job_free(loader, job);
			return false;
		}
		r = end_range(loader, job);
	}
	if (r > 0) {
		send_progress(loader, job);
		return true;
	}
	if (r == 0)
		done(loader, job);
	else
		fail(loader, job, r);
	return false;
}

/* The first that has waited, if there is a place for it. */
static struct loader_job *next_waiting(struct loader_process *loader)
{
	struct loader_job *job = loader->jobs;

	while (job && job->state != JOB_WAITING)
		job = job->next;
	return loader->n_filling < LOADER_PARALLEL ? job : NULL;
}

void jobs_advance(struct loader_process *loader)
{
	struct loader_job *job, *next;

	if (loader->n_filling)
		share_cpu(loader);
	for (job = loader->jobs; job; job = next) {
		next = job->next;
		if (job->state == JOB_FILLING)
			advance(loader, job);
	}
	while ((job = next_waiting(loader)))
		advance(loader, job);
	for (job = loader->jobs; job; job = job->next)
		if (job->state == JOB_FILLING && !copy_is(job))
			tarn_fill_pump(job->fill,
				MAX(TARN_IO_DEPTH / loader->n_filling, 1u));
}

bool jobs_end(struct loader_process *loader)
{
	struct loader_job *job, *next;

	for (job = loader->jobs; job; job = next) {
		next = job->next;
		if (job->fill && !tarn_fill_finished(job->fill)) {
			tarn_fill_cancel(job->fill);
			if (!tarn_fill_finished(job->fill))
				continue;
		}
		job_free(loader, job);
	}
	return !loader->jobs;
}
