// SPDX-License-Identifier: MIT
#include "tests/mpi/ranks.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tarn/error.h>

#include "tests/kit/tap.h"

int rank, ranks;

void ranks_begin(int *argc, char ***argv)
{
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

int ranks_end(int n)
{
	MPI_Finalize();
	return rank == 0 ? done(n) : 0;
}

void all_ok(bool passed, const char *what, ...)
{
	int mine = passed ? ranks : rank, least;
	char text[500];
	va_list ap;

	va_start(ap, what);
	vsnprintf(text, sizeof(text), what, ap);
	va_end(ap);
	MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (rank == 0)
		ok(least == ranks, "%s", text);
	if (rank == 0 && least < ranks)
		diag("rank %d is the first that does not agree", least);
}

static bool same_behind(const char *a, const char *b)
{
	a = strchr(a, ':');
	b = strchr(b, ':');
	return a && b && !strcmp(a, b);
}

void all_fail(int err, const char *part, int r, const char *what, ...)
{
	char first[2000] = "", text[500];
	bool good;
	va_list ap;

	va_start(ap, what);
	vsnprintf(text, sizeof(text), what, ap);
	va_end(ap);
	if (rank == 0)
		snprintf(first, sizeof(first), "%s", tarn_error_message());
	MPI_Bcast(first, sizeof(first), MPI_CHAR, 0, MPI_COMM_WORLD);
	/* What stands before the first colon is each rank's own call. */
	good = r == -err && same_behind(first, tarn_error_message()) &&
	       strstr(first, part);
	all_ok(good, "%s", text);
	if (!good)
		diag("rank %d: wanted %d and ...%s..., seen %d and %s; rank 0: "
		     "%s",
			rank, -err, part, r, tarn_error_message(), first);
}

int ranks_must(int r, const char *call)
{
	if (r >= 0)
		return r;
	diag("rank %d: %s: %s", rank, call, tarn_error_message());
	MPI_Abort(MPI_COMM_WORLD, 99);
	return r;
}
