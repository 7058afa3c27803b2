/* SPDX-License-Identifier: MIT */
/*
 * An engine that goes wrong on demand, in front of a real one: the n-th
 * request comes short, fails, or finds the end of the file. Requests that no
 * fault is meant for go through as they are.
 *
 *	struct fault faults[] = {{.at = 3, .kind = FAULT_ERROR, .error = EIO}};
 *	io = fault_engine("io_uring", faults, 1);
 */
#pragma once

#include <stddef.h>

#include "lib/io/io.h"

enum fault_kind {
	FAULT_ERROR, /* nothing is moved, the result is -error */
	FAULT_SHORT, /* about half is moved. The rest of a short read is
			overwritten with rubbish, so that a caller which
			forgets it fails */
	FAULT_END,   /* nothing is moved, the result is 0 */
};

struct fault {
	unsigned at;    /* the first request it meets, counted from 1 */
	unsigned times; /* how many in a row; 0 is 1, UINT_MAX all */
	enum fault_kind kind;
	int error;
	enum { FAULT_ANY, FAULT_READS, FAULT_WRITES } of; /* what at counts */
};

/* A real engine of this name ("threads", "io_uring") behind the faults, which
 * are copied; NULL where it is refused. Ended by tarn_io_free. At most 16. */
struct tarn_io *fault_engine(
	const char *name, const struct fault *faults, size_t n);

/* How many of the requests that were queued so far met a fault. */
unsigned fault_engine_fired(const struct tarn_io *io);
