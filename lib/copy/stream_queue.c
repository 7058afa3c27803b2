// SPDX-License-Identifier: MIT
/*
 * Queueing and cancelling copies. A copy is checked and planned when it is
 * queued, so that an invalid one is refused to its caller; and where the engine
 * has room its first requests are begun at once, a batch of them with one
 * system call, so that the disk works while the caller goes on.
 */
#include "lib/copy/stream.h"

#include <assert.h>

#include "base/checked.h"
#include "base/fail.h"

/* An id is a sequence number, and the job's place below it. */
enum { INDEX_BITS = 20 };

static_assert(STREAM_COPIES_MAX == 1 << INDEX_BITS, "a place fits");

static struct job *find_job(const tarn_stream *s, uint64_t id)
{
	uint64_t index = id & (STREAM_COPIES_MAX - 1);

	if (index >= s->fresh || s->jobs[index].id != id ||
		!s->jobs[index].list || s->jobs[index].done)
		return NULL;
	return &s->jobs[index];
}

static struct job *take_job(tarn_stream *s)
{
	struct job *job = s->unused.head;

	if (job)
		job_list_remove(job);
	else if (s->fresh < s->limit)
		job = &s->jobs[s->fresh++];
	else
		tarn_fail(EAGAIN,
			"stream: %u copies are not reaped, and no more fit; "
			"reap some",
			s->limit);
	return job;
}

/* Small reads wait until there are this many, or for tarn_stream_reap. */
enum { COMPANY = 256 };

static int begin_early(tarn_stream *s, bool small)
{
	if (small ? s->waiting.n % COMPANY != 0 : s->waiting.n > 1)
		return 0;
	if (s->running.n >= STREAM_RUNNING ||
		tarn_io_pending(s->env.io) >= TARN_IO_DEPTH)
		return 0;
	stream_look_at_clocks(s);
	stream_begin(s);
	if (s->unsubmitted < STREAM_BATCH)
		return 0;
	return stream_submit(s, 0, 0);
}

static void enter(tarn_stream *s, struct job *job, struct copy_op *copy_op,
	uint64_t user, int64_t deadline)
{
	enum medium to = medium_of(copy_op->dst->storage);
	enum medium from = medium_of(copy_op->src->storage);
	/* Such are pumped one after the other: one to or from a device fills
	 * the link, and waits for more than requests. */
	bool memory = to == MEDIUM_DEVICE || from == MEDIUM_DEVICE ||
		      (to == MEDIUM_MEMORY && from == MEDIUM_MEMORY);

	*job = (struct job) {
		.id = ++s->sequence << INDEX_BITS | (uint64_t)(job - s->jobs),
		.user = user,
		.copy_op = copy_op,
		.deadline = deadline,
	};
	if (!memory)
		copy_op->info.engine = tarn_io_name(s->env.io);
	s->earliest = MIN(s->earliest, deadline);
	s->bytes_total += copy_op->info.bytes;
	job_list_add(memory ? &s->memory : &s->waiting, job);
}

int tarn_stream_copy(tarn_stream *s, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options, int timeout_ms, uint64_t user,
	uint64_t *ret_id)
{
	struct copy_op head, *copy_op;
	struct job *job;
	bool small;
	int r = stream_check(s);

	if (r >= 0)
		r = copy_check(&head, dst, src, options);
	if (r < 0)
		return r;
	if (s->lost)
		return tarn_fail(EIO,
			"stream: its engine does not answer any more; free it "
			"and make another");
	/* Options that only make sense for a single copy, while its caller
	 * waits. */
	head.options.threads = 0;
	head.options.progress = NULL;
	job = take_job(s);
	if (!job)
		return -EAGAIN;
	small = stream_is_small(&head);
	r = small ? stream_new_small(&s->env, &head, &copy_op)
		  : copy_op_new_checked(&s->env, &head, &copy_op);
	if (r < 0) {
		job_list_add(&s->unused, job);
		return r;
	}
	if (timeout_ms >= 0)
		stream_look_at_clocks(s);
	enter(s, job, copy_op, user, stream_time(s, timeout_ms));
	if (ret_id)
		*ret_id = job->id;
	/* Later errors are reported when it is reaped. */
	if (job->list == &s->waiting)
		(void)begin_early(s, small);
	stream_poll_update(s);
	return 0;
}

static void cancel(tarn_stream *s, struct job *job)
{
	copy_op_cancel(job->copy_op);
	if (copy_op_finished(job->copy_op))
		stream_finish(s, job);
}

static void cancel_list(tarn_stream *s, struct job_list *list)
{
	struct job *next;

	for (struct job *job = list->head; job; job = next) {
		next = job->next;
		cancel(s, job);
	}
}

void stream_cancel_all(tarn_stream *s)
{
	cancel_list(s, &s->memory);
	cancel_list(s, &s->waiting);
	cancel_list(s, &s->running);
	for (int i = 0; i < STREAM_GATHERS; i++)
		cancel_list(s, &s->gathers[i].members);
}

int tarn_stream_cancel(tarn_stream *s, uint64_t id)
{
	struct job *job;
	int r = stream_check(s);

	if (r < 0)
		return r;
	if (id == 0) {
		stream_cancel_all(s);
	} else {
		job = find_job(s, id);
		if (!job)
			return tarn_fail(ENOENT,
				"stream: copy %llu is done, or never was",
				(unsigned long long)id);
		cancel(s, job);
	}
	stream_poll_update(s);
	return 0;
}
