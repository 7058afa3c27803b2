// SPDX-License-Identifier: MIT
/*
 * MPI waits without end, and busily. Where there is a deadline its requests are
 * looked at again and again instead: at once in the beginning, when most of them
 * end, and then at longer and longer intervals, so that ranks which wait for a
 * file that another one reads leave it the processor.
 */
#include "mpi/wait.h"

#include <errno.h>
#include <time.h>

#include <tarn/error.h>

#include "base/checked.h"
#include "base/clock.h"

#define SPINS 1000      /* some hundred microseconds; picked */
#define NAP_LEAST 20000 /* ns; picked: above it a network's delay is small */
/* ns. MPI moves bytes only when it is called: a link of 1 Gbit/s carries 125 KB while
 * a rank sleeps for a millisecond. Picked. */
#define NAP_MOST 50000

struct mpi_deadline mpi_deadline_in(const char *verb, double seconds)
{
	return (struct mpi_deadline) {
		.end = clock_seconds(CLOCK_MONOTONIC) + seconds,
		.seconds = seconds,
		.verb = verb};
}

static int late(const struct mpi_deadline *deadline, const char *what)
{
	return tarn_error_set(ETIMEDOUT,
		"%s: %s did not answer within %g s; see whether it still runs "
		"and can read the file, or give a longer timeout",
		deadline->verb, what, deadline->seconds);
}

bool mpi_deadline_passed(const struct mpi_deadline *deadline)
{
	return clock_seconds(CLOCK_MONOTONIC) > deadline->end;
}

static int wait_until(MPI_Request *request, const struct mpi_deadline *deadline,
	const char *what)
{
	long nap = NAP_LEAST;
	int done, r;

	for (uint64_t turn = 0;; turn++) {
		r = mpi_check(
			MPI_Test(request, &done, MPI_STATUS_IGNORE), what);
		if (r < 0 || done)
			return r;
		if (deadline->meanwhile)
			deadline->meanwhile(deadline->arg);
		if (turn < SPINS)
			continue;
		if (mpi_deadline_passed(deadline))
			return late(deadline, what);
		nanosleep(&(struct timespec) {.tv_nsec = nap}, NULL);
		nap = MIN(nap * 2, NAP_MOST);
	}
}

int mpi_wait(MPI_Request *request, const struct mpi_deadline *deadline,
	const char *what)
{
	int r;

	if (!deadline)
		return mpi_check(MPI_Wait(request, MPI_STATUS_IGNORE), what);
	r = wait_until(request, deadline, what);
	if (r < 0 && deadline->lost)
		*deadline->lost = true;
	return r;
}
