// SPDX-License-Identifier: MIT
/*
 * The pool alone, with its source in this program: a job has as many threads as
 * were asked for when it began, and no more, though others are awake: those that
 * were woken for the job before it, and came too late, or have just been started.
 */
#include "ops/threads.h"

#include <stdatomic.h>
#include <unistd.h>

#include <tarn/ops.h>

#include "tests/kit/tap.h"

#define MANY 8
#define FEW 2
#define PARTS 16

static atomic_int inside, most;
static atomic_size_t done_parts;

static void quick(void *arg, size_t part)
{
	(void)arg;
	(void)part;
}

/* Long enough for others to enter, if they could. */
static void counted(void *arg, size_t part)
{
	int seen = atomic_load(&most), n = atomic_fetch_add(&inside, 1) + 1;

	(void)arg;
	(void)part;
	while (n > seen && !atomic_compare_exchange_weak(&most, &seen, n))
		;
	usleep(20);
	atomic_fetch_sub(&inside, 1);
	atomic_fetch_add(&done_parts, 1);
}

static void set(int n)
{
	if (tarn_ops_set_threads(n) < 0)
		bail("%s", tarn_error_message());
}

int main(void)
{
	unsigned n = test_cases(400), good = 0;

	for (unsigned i = 0; i < n; i++) {
		set(MANY);
		threads_run(MANY, quick, NULL);
		set(FEW);
		atomic_store(&most, 0);
		threads_run(PARTS, counted, NULL);
		good += atomic_load(&most) <= FEW;
	}
	is_int(n, good, "a job has no more threads than it was begun with");
	is_int((int64_t)n * PARTS, (int64_t)atomic_load(&done_parts),
		"each part is done once");
	is_int(FEW, threads_count(), "as many threads as were set");
	return done(3);
}
