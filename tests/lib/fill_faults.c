/* SPDX-License-Identifier: MIT */
/*
 * A fill whose requests come short, are interrupted, fail or find the end of
 * the file, whichever request it is, with both engines: every byte is there,
 * or the fill fails with that error.
 */
#include <limits.h>

#include "tests/kit/fault_engine.h"
#include "tests/kit/filling.h"

enum { SIZE = 3 * SEGMENT - 300, BEGIN = 100 };

/* -1 where there is no such engine. Each fault in turn is met by request
 * 1, 2, ... until there is none of that number. */
static int wrong_ones(const char *name, struct pool *p, struct tarn_fill_job *j,
	struct fault fault, int wanted, unsigned *ret_fired)
{
	int wrong = 0;

	*ret_fired = 0;
	for (fault.at = 1; fault.at < 100; fault.at++) {
		_cleanup_io_ struct tarn_io *io = fault_engine(name, &fault, 1);
		_cleanup_fill_ struct tarn_fill *f = NULL;
		unsigned fired;
		int r;

		if (!io)
			return -1;
		reset_pool(p);
		if (tarn_fill_new(io, j, &f) < 0)
			bail("%s", tarn_fail_message());
		r = tarn_fill_run(f);
		fired = fault_engine_fired(io);
		*ret_fired += fired;
		wrong += fired && r != wanted;
		wrong += r == 0 && first_wrong(p, j) >= 0;
		if (!fired)
			return wrong + (r != 0);
	}
	return wrong;
}

static void test(const char *name, const char *what, struct pool *p,
	struct tarn_fill_job *j, struct fault fault, int wanted)
{
	for (int buffered = 0; buffered < 2; buffered++) {
		const char *io_mode = buffered ? "buffered" : "direct";
		unsigned fired;
		int wrong;

		j->io_mode = buffered ? TARN_IO_BUFFERED : TARN_IO_DIRECT;
		wrong = wrong_ones(name, p, j, fault, wanted, &fired);
		if (wrong < 0) {
			skip(2, "%s: %s", name, tarn_fail_message());
			continue;
		}
		is_int(0, wrong,
			"%s, %s: a fill survives or reports the fault: %s",
			name, io_mode, what);
		ok(fired > 5, "%s, %s: more than a few requests met the fault",
			name, io_mode);
	}
}

int main(void)
{
	static const char *const names[] = {"threads", "io_uring"};
	struct tarn_fill_job j;
	struct files fs;
	struct pool p;

	make_pool(&p, NULL, false);
	make_file(&fs, "faulty", SIZE);
	j = job_for(&fs, &p, 4096, BEGIN, SIZE - BEGIN);
	for (unsigned i = 0; i < 2; i++) {
		const char *n = names[i];

		test(n, "one read is short", &p, &j,
			(struct fault) {.kind = FAULT_SHORT}, 0);
		test(n, "three reads are short", &p, &j,
			(struct fault) {.kind = FAULT_SHORT, .times = 3}, 0);
		test(n, "a read fails with EINTR", &p, &j,
			(struct fault) {.error = EINTR, .times = 7}, 0);
		test(n, "a read fails with EAGAIN", &p, &j,
			(struct fault) {.error = EAGAIN, .times = 7}, 0);
		test(n, "a read fails with EIO", &p, &j,
			(struct fault) {.error = EIO}, -EIO);
		test(n, "all reads from one on fail with EIO", &p, &j,
			(struct fault) {.error = EIO, .times = UINT_MAX}, -EIO);
		test(n, "a read finds the end of the file", &p, &j,
			(struct fault) {.kind = FAULT_END}, -ENODATA);
	}
	drop_files(&fs);
	drop_pool(&p);
	return done(56);
}
