// SPDX-License-Identifier: MIT
/*
 * The thread that reads ahead. Parts are begun as far as there is memory for
 * them, the reads of the oldest first, and given in order. While one is planned,
 * requests of those before it are under way, and are looked after.
 */
#include "lib/data/ahead.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* How long at most until a request to stop is seen. */
#define PATIENCE_MS 50

/* How often to ask whether parts may be given. */
#define READY_NS 1000000

struct ahead {
	const struct ahead_job *job;
	struct reader *reader;
	struct ahead_part *first, **end; /* parts, the oldest first */
	struct ahead_part *unused;
	uint64_t position;
	bool over; /* no more are begun */
	bool ended;
};

static bool stopped(const struct ahead *a)
{
	/* Relaxed: it says nothing of other memory. */
	return atomic_load_explicit(a->job->stop, memory_order_relaxed);
}

/* Begins all that the engine takes, the oldest first. */
static void pump(struct ahead *a)
{
	for (struct ahead_part *p = a->first; p; p = p->next)
		if (!reader_begin(a->reader, p))
			return;
}

static void between(void *arg)
{
	struct ahead *a = arg;

	do {
		pump(a);
		reader_wait(a->reader, 0);
	} while (reader_settle(a->reader));
}

/* ---- beginning -------------------------------------------------------------- */

static void plan(struct ahead *a, struct ahead_part *part)
{
	const struct ahead_job *job = a->job;
	const struct batch_plan plan = {.data = job->data,
		.form = job->form,
		.position = part->position + job->first,
		.n = job->n,
		.memory = &part->memory,
		.boundaries = &part->boundaries,
		.read = reader_into(a->reader, part),
		.between = between,
		.arg = a};

	part->n = part->begun = 0;
	part->failed = false;
	part->failed |= batch_plan(&plan) < 0;
	reader_planned(a->reader, part);
}

/* True: one more was begun. */
static bool begin_part(struct ahead *a, int timeout_ms)
{
	const struct ahead_job *job = a->job;
	struct ahead_part *part = a->unused;
	int r;

	a->over |=
		a->position > job->end || job->batch > job->end - a->position;
	if (a->over || !part)
		return false;
	r = job->place->take(job->place->arg, timeout_ms, &part->memory);
	a->over |= r < 0;
	if (r <= 0)
		return false;
	a->unused = part->next;
	part->next = NULL;
	part->position = a->position;
	a->position += job->batch;
	plan(a, part);
	*a->end = part;
	a->end = &part->next;
	return true;
}

/* ---- giving ------------------------------------------------------------------- */

static void shift(struct ahead *a)
{
	struct ahead_part *part = a->first;

	a->first = part->next;
	if (!a->first)
		a->end = &a->first;
	part->next = a->unused;
	a->unused = part;
}

/* True: there is a part that is complete, and may not be given yet. */
static bool give(struct ahead *a)
{
	const struct ahead_place *place = a->job->place;

	while (a->first && reader_finished(a->reader, a->first)) {
		if (!place->ready(place->arg))
			return true;
		/* Relaxed: others look at the number. */
		atomic_fetch_add_explicit(
			&a->job->counts->parts, 1, memory_order_relaxed);
		if (place->give(place->arg, a->first) < 0)
			a->over = a->ended = true;
		shift(a);
		if (a->ended)
			return false;
	}
	return false;
}

/* ---- running ------------------------------------------------------------------ */

static void rest(void)
{
	const struct timespec time = {.tv_nsec = READY_NS};

	nanosleep(&time, NULL);
}

static void turn(struct ahead *a)
{
	bool held;

	while (!stopped(a) && begin_part(a, 0))
		pump(a);
	pump(a);
	held = give(a);
	if (reader_busy(a->reader)) {
		reader_wait(a->reader, held ? 1 : PATIENCE_MS);
		/* The drive works while the CPU copies. */
		between(a);
	} else if (held)
		rest();
	else if (!a->first)
		begin_part(a, PATIENCE_MS);
}

static int begin(struct ahead *a, struct ahead_part **ret_parts)
{
	struct ahead_part *parts = calloc(a->job->most, sizeof(*parts));

	if (!parts)
		return -ENOMEM;
	for (unsigned i = 0; i < a->job->most; i++) {
		parts[i].next = a->unused;
		a->unused = &parts[i];
	}
	*ret_parts = parts;
	return 0;
}

static void end(struct ahead *a, struct ahead_part *parts)
{
	const struct ahead_place *place = a->job->place;

	for (; a->first; shift(a))
		place->drop(place->arg, &a->first->memory);
	for (unsigned i = 0; i < a->job->most; i++) {
		boundaries_end(&parts[i].boundaries);
		free(parts[i].extents);
	}
	free(parts);
}

void ahead_run(const struct ahead_job *job)
{
	struct ahead a = {.job = job, .position = job->position};
	struct ahead_part *parts;

	a.end = &a.first;
	if (begin(&a, &parts) < 0)
		return;
	if (reader_new(job->data, job->counts, &a.reader) >= 0)
		while (!stopped(&a) && !a.ended && (!a.over || a.first))
			turn(&a);
	/* Waits for requests, which are of the parts. */
	reader_free(a.reader);
	end(&a, parts);
}
