// SPDX-License-Identifier: MIT
/*
 * The work of a stream inside tarn_stream_reap. The engine is kept full: the
 * running copies are pumped in the order in which they came, and only the room
 * that they leave goes to the next waiting one. So a large copy has the disk to
 * itself, and small ones fill its queue together, those of one file gathered
 * (stream_gather.c). Copies of memory are moved a slice at a time, when there
 * is nothing to begin and instead of waiting.
 */
#include "lib/copy/stream.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"

/* Now and then, not for each copy: the CPU's clock is a system call. */
void stream_look_at_clocks(tarn_stream *s)
{
	s->now = (int64_t)clock_ns(CLOCK_MONOTONIC);
	s->cpu = (int64_t)clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void stream_finish(tarn_stream *s, struct job *job)
{
	struct copy_op *m = job->copy_op;

	if (job->started) {
		m->info.seconds = 1e-9 * (double)(s->now - job->begun);
		m->info.cpu_seconds = 1e-9 * (double)(s->cpu - job->cpu_begun);
	}
	s->bytes_done += m->done;
	job->done = true;
	job_list_remove(job);
	job_list_add(&s->done, job);
	/* It may be long until it is reaped, and others need its resources. */
	if (copy_op_finished(m))
		copy_op_release(m);
}

void stream_forget(tarn_stream *s, struct job *job)
{
	/* If the engine is lost, memory that it may still write to is not
	 * freed. */
	if (copy_op_finished(job->copy_op))
		copy_op_free(job->copy_op);
	job->copy_op = NULL;
	job_list_remove(job);
	job_list_add(&s->unused, job);
}

/* ---- beginning ------------------------------------------------------- */

void stream_start(tarn_stream *s, struct job *job)
{
	if (job->started)
		return;
	job->started = true;
	job->begun = s->now;
	job->cpu_begun = s->cpu;
}

/* Pumps as much as the engine has room for. */
static unsigned pump(tarn_stream *s, struct copy_op *m)
{
	unsigned room = TARN_IO_DEPTH - tarn_io_pending(s->env.io);
	unsigned begun = 0;

	if (!m->ended)
		begun = m->ops->pump(m, m->in_flight + room);
	s->unsubmitted += begun;
	return begun;
}

static unsigned pump_job(tarn_stream *s, struct job *job)
{
	unsigned begun = pump(s, job->copy_op);

	if (copy_op_finished(job->copy_op))
		stream_finish(s, job);
	return begun;
}

static unsigned pump_gather(tarn_stream *s, struct gather *g)
{
	unsigned begun = pump(s, g->reader);

	if (copy_op_finished(g->reader))
		stream_gather_done(s, g, true);
	return begun;
}

/* Begins the first waiting job, or gathers several. False: it cannot begin now,
 * so neither could those after it. */
static bool begin_next(tarn_stream *s)
{
	struct gather *g = stream_gather(s);
	struct job *job = s->waiting.head;

	/* Without a reader it has failed at once: its members wait again, and
	 * can be begun one by one. */
	if (g)
		return pump_gather(s, g) > 0 || !g->reader;
	job_list_remove(job);
	job_list_add(&s->running, job);
	stream_start(s, job);
	if (stream_alone(job) < 0) {
		stream_finish(s, job);
		return true;
	}
	return pump_job(s, job) > 0 || job->list != &s->running;
}

static void begin_all(tarn_stream *s)
{
	struct job *next;

	for (int i = 0; i < STREAM_GATHERS; i++)
		if (s->gathers[i].reader)
			pump_gather(s, &s->gathers[i]);
	for (struct job *job = s->running.head; job; job = next) {
		next = job->next;
		pump_job(s, job);
	}
	while (s->waiting.head && s->running.n < STREAM_RUNNING &&
		tarn_io_pending(s->env.io) < TARN_IO_DEPTH)
		if (!begin_next(s))
			break;
}

/* Calls each, since each resets its flag. */
static bool came_free(tarn_stream *s)
{
	bool files = file_slots_came_free(s->env.files);

	return copy_relay_came_free(&s->env) || files;
}

/* They wait for nothing: ending them lets others go on. */
static bool end_stuck(tarn_stream *s)
{
	bool any = s->running.n > 0;
	struct job *next;

	for (int i = 0; i < STREAM_GATHERS; i++) {
		struct gather *g = &s->gathers[i];

		if (!g->reader)
			continue;
		copy_op_stuck(g->reader);
		stream_gather_done(s, g, false);
		any = true;
	}
	for (struct job *job = s->running.head; job; job = next) {
		next = job->next;
		copy_op_stuck(job->copy_op);
		stream_finish(s, job);
	}
	return any;
}

/* Jobs that waited for a file's slot, or for windows, may come before the one
 * that then returned them: with no request under way, nothing else would wake
 * them. A running job that was not woken then is stuck. */
void stream_begin(tarn_stream *s)
{
	s->called_back = false;
	do
		begin_all(s);
	while (tarn_io_pending(s->env.io) == 0 &&
		(came_free(s) || end_stuck(s)));
}

static bool move_memory(tarn_stream *s)
{
	struct job *job = s->memory.head;
	struct copy_op *m;
	unsigned begun, room;

	if (!job)
		return false;
	m = job->copy_op;
	room = TARN_IO_DEPTH - tarn_io_pending(s->env.io);
	stream_start(s, job);
	begun = m->ended ? 0 : m->ops->pump(m, m->in_flight + room);
	/* One to or from a device may have requests, of a file. */
	if (m->in_flight)
		s->unsubmitted += begun;
	if (m->in_flight && !begun)
		(void)stream_submit(s, 1, 1);
	stream_look_at_clocks(s);
	if (copy_op_finished(m))
		stream_finish(s, job);
	return true;
}

/* ---- the end of time ------------------------------------------------- */

static void expire_list(tarn_stream *s, struct job_list *list)
{
	struct job *next;

	for (struct job *job = list->head; job; job = next) {
		struct copy_op *m = job->copy_op;

		next = job->next;
		if (job->deadline > s->now) {
			s->earliest = MIN(s->earliest, job->deadline);
			continue;
		}
		if (!m->ended)
			copy_op_failed(
				m, tarn_fail(ETIMEDOUT,
					   "copy: its time was up when %llu of "
					   "%llu bytes "
					   "were copied",
					   (unsigned long long)m->done,
					   (unsigned long long)m->info.bytes));
		if (copy_op_finished(m))
			stream_finish(s, job);
	}
}

static void expire(tarn_stream *s)
{
	if (s->now < s->earliest)
		return;
	s->earliest = STREAM_NEVER;
	expire_list(s, &s->memory);
	expire_list(s, &s->waiting);
	expire_list(s, &s->running);
	for (int i = 0; i < STREAM_GATHERS; i++)
		expire_list(s, &s->gathers[i].members);
}

/* ---- the engine ------------------------------------------------------ */

/* The engine has failed: so has every request in it. */
static void fail_running(tarn_stream *s, int r)
{
	struct job *next;

	for (struct job *job = s->running.head; job; job = job->next)
		copy_op_failed(job->copy_op, r);
	for (int i = 0; i < STREAM_GATHERS; i++)
		if (s->gathers[i].reader)
			copy_op_failed(s->gathers[i].reader, r);
	s->lost = copy_env_drain(&s->env) < 0;
	for (int i = 0; i < STREAM_GATHERS; i++)
		if (s->gathers[i].reader)
			stream_gather_done(s, &s->gathers[i], false);
	for (struct job *job = s->running.head; job; job = next) {
		next = job->next;
		stream_finish(s, job);
	}
	/* These will never be carried out. */
	for (struct job *job = s->waiting.head; s->lost && job; job = next) {
		next = job->next;
		copy_op_failed(job->copy_op, r);
		stream_finish(s, job);
	}
}

int stream_submit(tarn_stream *s, unsigned wait_for, int timeout_ms)
{
	int r;

	if (s->lost || tarn_io_pending(s->env.io) == 0)
		return 0;
	s->unsubmitted = 0;
	r = tarn_io_submit_and_wait(s->env.io, wait_for, timeout_ms);
	stream_look_at_clocks(s);
	s->called_back |= r > 0;
	if (r < 0)
		fail_running(s, r);
	return r;
}

/* In milliseconds, rounded up; -1: for ever. */
static int time_left(const tarn_stream *s, int64_t until)
{
	int64_t end = MIN(until, s->earliest), left;

	if (end == STREAM_NEVER)
		return -1;
	left = end <= s->now ? 0 : (end - s->now + 999999) / 1000000;
	return (int)MIN(left, 1000000);
}

/* As many completions as a copy, or the wanted number of copies, may need; but
 * a batch at most, since the engine should not run dry. */
static unsigned wait_count(const tarn_stream *s, uint32_t wanted)
{
	unsigned least = STREAM_BATCH;

	for (const struct job *j = s->running.head; j; j = j->next)
		if (j->copy_op->in_flight)
			least = MIN(least, j->copy_op->in_flight);
	for (int i = 0; i < STREAM_GATHERS; i++)
		if (s->gathers[i].reader)
			least = MIN(least, s->gathers[i].reader->in_flight);
	return MAX(MIN(MAX(least, wanted), STREAM_BATCH), 1);
}

static int shorter(int a_ms, int b_ms)
{
	return a_ms < 0 ? b_ms : MIN(a_ms, b_ms);
}

/* Until wanted copies are done, or there is nothing left to do, or the time is
 * up. */
static void work(tarn_stream *s, uint32_t wanted, int64_t until)
{
	bool patient = false; /* the last wait for a batch was too long */

	for (;;) {
		unsigned n;
		int left, r;

		expire(s);
		stream_begin(s);
		if (s->done.n >= wanted || stream_unfinished(s) == 0)
			break;
		left = time_left(s, until);
		if (move_memory(s)) {
			(void)stream_submit(s, 0, 0);
			if (s->now >= until)
				break;
			continue;
		}
		n = patient ? 1 : wait_count(s, wanted - s->done.n);
		r = stream_submit(
			s, n, n > 1 ? shorter(left, STREAM_BATCH_MS) : left);
		patient = r == 0;
		if (r == 0 && s->now >= until)
			break;
	}
	if (s->unsubmitted)
		(void)stream_submit(s, 0, 0);
}

/* One pass, without waiting. */
static void work_a_little(tarn_stream *s)
{
	expire(s);
	stream_begin(s);
	(void)stream_submit(s, 0, 0);
	move_memory(s);
	stream_begin(s);
	if (s->unsubmitted)
		(void)stream_submit(s, 0, 0);
}

static void fill_completion(const struct job *job, struct tarn_completion *ret)
{
	struct copy_op *m = job->copy_op;

	ret->id = job->id;
	ret->user = job->user;
	ret->result = copy_op_result(m);
	ret->info = m->info;
	memset(ret->reserved, 0, sizeof(ret->reserved));
	ret->message[0] = '\0';
	if (m->error)
		snprintf(ret->message, sizeof(ret->message), "%s",
			m->error_text);
}

int tarn_stream_reap(tarn_stream *s, size_t at_least, int timeout_ms,
	struct tarn_completion *rets, size_t n)
{
	size_t taken = 0;
	int r = stream_check(s);

	if (r < 0)
		return r;
	stream_look_at_clocks(s);
	if (at_least == 0 || timeout_ms == 0)
		work_a_little(s);
	else
		work(s, (uint32_t)MIN(at_least, (size_t)UINT32_MAX),
			stream_time(s, timeout_ms));
	while (taken < n && s->done.head) {
		fill_completion(s->done.head, &rets[taken++]);
		stream_forget(s, s->done.head);
	}
	/* Files stay open here only while there is work on some. */
	if (stream_unfinished(s) == 0 && !s->lost)
		file_slots_trim(s->env.files);
	stream_poll_update(s);
	return (int)taken;
}
