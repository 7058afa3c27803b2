/* SPDX-License-Identifier: MIT */
/*
 * The heap of deadlines against an array: thousands of seeded steps, in which
 * deadlines are set, moved, cancelled and run, also by the calls themselves.
 * Each call comes in its order, once, and not before its time.
 */
#include "daemon/loop/deadline.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tests/kit/tap.h"

#define DEADLINES 100
#define STEPS 200000
#define TIMES 1000 /* so that some are the same */

static struct deadlines all;
static struct deadline deadlines[DEADLINES];
static uint64_t model[DEADLINES]; /* 0: it is not set */
static uint64_t ran_to;           /* deadlines_run: now */
static uint64_t last;             /* of the calls of a run: its time */
static unsigned wrong, calls, random_state = 1;

static unsigned number(unsigned below)
{
	random_state = random_state * 1103515245u + 12345u;
	return (random_state >> 8) % below;
}

static uint64_t earliest(void)
{
	uint64_t at = UINT64_MAX;

	for (int i = 0; i < DEADLINES; i++)
		if (model[i] && model[i] < at)
			at = model[i];
	return at;
}

static void change(uint64_t from)
{
	unsigned i = number(DEADLINES);
	uint64_t at = from + 1 + number(TIMES);

	switch (number(4)) {
	case 0:
		deadline_set(&all, &deadlines[i], 0);
		model[i] = 0;
		break;
	case 1:
		deadline_set_by(&all, &deadlines[i], at);
		if (!model[i] || at < model[i])
			model[i] = at;
		break;
	default:
		deadline_set(&all, &deadlines[i], at);
		model[i] = at;
	}
}

static void on_time(void *arg)
{
	size_t i = (size_t)((struct deadline *)arg - deadlines);

	wrong += model[i] != earliest() || model[i] > ran_to ||
		 model[i] < last || deadlines[i].at != 0;
	last = model[i];
	model[i] = 0;
	calls++;
	if (number(3) == 0)
		change(last);
}

static void against_an_array(void)
{
	uint64_t now = 1;

	for (int i = 0; i < DEADLINES; i++)
		deadlines[i] =
			(struct deadline) {.fn = on_time, .arg = &deadlines[i]};
	for (int step = 0; step < STEPS; step++) {
		change(now);
		if (number(20) == 0) {
			now += number(TIMES / 4);
			ran_to = now;
			last = 0;
			deadlines_run(&all, now);
			wrong += earliest() <= now;
		}
		wrong += deadlines_next(&all) != earliest();
	}
	is_int(0, wrong, "%u calls in %d steps are those of an array", calls,
		STEPS);
	ok(calls > STEPS / 100, "many deadlines were run");
}

/* No call: the waiting ends, and it is not set any more. */
static void without_a_call(void)
{
	struct deadlines heap = {0};
	struct deadline d = {0};

	is_int(-1, (int64_t)deadlines_next(&heap),
		"an empty heap has no deadline");
	deadline_set(&heap, &d, 5);
	deadlines_run(&heap, 4);
	is_int(5, (int64_t)d.at, "a deadline stays set before its time");
	deadlines_run(&heap, 5);
	is_int(0, (int64_t)d.at,
		"a deadline is not set any more after its time");
	deadline_set(&heap, &d, 0);
	is_int(-1, (int64_t)deadlines_next(&heap),
		"a deadline that is not set can be cancelled");
}

int main(void)
{
	against_an_array();
	without_a_call();
	return done(6);
}
