/* SPDX-License-Identifier: MIT */
/* Waiting for other ranks, for a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mpi/type.h"

/* NULL in its place: without end, as MPI waits. */
struct mpi_deadline {
	double end;     /* by the clock that is never set */
	double seconds; /* that it was given, and the call, for errors */
	const char *verb;
	/* Called now and then while nothing else is to be done; may be NULL. */
	void (*meanwhile)(void *arg);
	void *arg;
	struct mpi_post *post; /* for those who agree until then (agree.h) */
	bool *lost;            /* set when something stays under way; may be
				* NULL */
};

struct mpi_deadline mpi_deadline_in(const char *verb, double seconds);
bool mpi_deadline_passed(const struct mpi_deadline *deadline);

/*
 * Waits for a request: 0, -EIO, or -ETIMEDOUT, after which the request is still
 * under way, and neither its memory nor its communicator may be freed. what is
 * who is waited for, as in "rank 3".
 */
int mpi_wait(MPI_Request *request, const struct mpi_deadline *deadline,
	const char *what) _must_check_;
