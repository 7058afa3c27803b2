/* SPDX-License-Identifier: MIT */
/*
 * What goes wrong while a file is read: it ends early, the disk fails, direct
 * reads are refused, reads come short or are interrupted, the caller changes
 * its mind. The thread engine's pread is this program's, so that it can do all
 * of that on demand.
 */
#include <stdatomic.h>
#include <sys/syscall.h>

#include "lib/io/direct.h"
#include "tests/kit/filling.h"

enum { FILE_SIZE = 3 * SEGMENT };

static struct {
	_Atomic uint64_t eio_at; /* reads that reach this byte fail; 0: none */
	atomic_bool refuse_direct;
	atomic_bool piecemeal;  /* half of what was asked for */
	atomic_uint interrupts; /* so many EINTR and EAGAIN to give */
	atomic_uint calls;
} fault;

ssize_t pread(int fd, void *buf, size_t size, off_t at)
{
	bool direct = fcntl(fd, F_GETFL) & O_DIRECT;
	unsigned n = atomic_load(&fault.interrupts);

	atomic_fetch_add(&fault.calls, 1);
	if (fault.eio_at && (uint64_t)at + size > fault.eio_at) {
		errno = EIO;
		return -1;
	}
	if (fault.refuse_direct && direct) {
		errno = EINVAL;
		return -1;
	}
	if (n && atomic_compare_exchange_strong(&fault.interrupts, &n, n - 1)) {
		errno = n % 2 ? EINTR : EAGAIN;
		return -1;
	}
	if (fault.piecemeal && size > 8192)
		size = direct ? size / 8192 * 4096 : size / 3;
	return syscall(SYS_pread64, fd, buf, size, at);
}

/* Runs the job on a fresh engine; the fill too, where it is asked for. */
static int run(const char *name, struct pool *p, struct tarn_fill_job *j,
	bool *ret_direct)
{
	_cleanup_io_ struct tarn_io *io = engine(name, -1);
	_cleanup_fill_ struct tarn_fill *f = NULL;
	int r;

	reset_pool(p);
	r = tarn_fill_new(io, j, &f);
	if (r < 0)
		return r;
	r = tarn_fill_run(f);
	*ret_direct = tarn_fill_direct(f);
	return r;
}

/* Which request fails first is chance; which byte is named is not. */
static void test_early_end(const char *name, struct pool *p)
{
	static const uint64_t ends[] = {0, 1, 4096, SEGMENT / 2, SEGMENT + 77};

	for (unsigned i = 0; i < 10; i++) {
		uint64_t end = ends[i / 2];
		struct files fs;
		struct tarn_fill_job j;
		char words[128];
		bool direct;

		make_file(&fs, "shrinks", FILE_SIZE);
		j = job_for(&fs, p, 0, 0, FILE_SIZE);
		if (i % 2)
			j.io_mode = TARN_IO_BUFFERED;
		if (ftruncate(fs.buffered, (off_t)end) < 0)
			bail("ftruncate: %m");
		is_int(-ENODATA, run(name, p, &j, &direct),
			"%s: a fill from a file that shrank to %llu bytes "
			"fails",
			name, (unsigned long long)end);
		snprintf(words, sizeof(words),
			"the file ended at byte %llu, %d bytes were promised",
			(unsigned long long)end, FILE_SIZE);
		is_str(words, tarn_fail_message(),
			"%s: the error says that the file ends early", name);
		drop_files(&fs);
	}
}

static void test_directory(const char *name, struct pool *p)
{
	struct files fs = {.direct = -1};
	struct tarn_fill_job j;
	bool direct;

	fs.buffered = open(test_tmpdir(), O_RDONLY | O_CLOEXEC);
	j = job_for(&fs, p, 0, 4096, 100);
	is_int(-EISDIR, run(name, p, &j, &direct),
		"%s: a fill from a directory is EISDIR", name);
	has_str("reading at byte 4096 of the file", tarn_fail_message(),
		"%s: the error names the offset", name);
	fd_close(fs.buffered);
}

static void test_cancel(const char *name, struct pool *p)
{
	_cleanup_io_ struct tarn_io *io = engine(name, -1);
	struct files fs;
	struct tarn_fill_job j;
	struct tarn_fill *f = NULL;

	make_file(&fs, "cancelled", FILE_SIZE);
	j = job_for(&fs, p, 0, 0, FILE_SIZE);
	reset_pool(p);
	if (tarn_fill_new(io, &j, &f) < 0)
		bail("%s", tarn_fail_message());
	is_int(2, tarn_fill_pump(f, 2), "%s: a pump of two queues two requests",
		name);
	is_int(-EINPROGRESS, tarn_fill_result(f),
		"%s: a fill under way has no result yet", name);
	tarn_fill_cancel(f);
	ok(!tarn_fill_finished(f), "%s: a fill waits for its two requests",
		name);
	is_int(0, tarn_fill_pump(f, 2),
		"%s: a cancelled fill queues no third request", name);
	while (!tarn_fill_finished(f))
		tarn_io_submit_and_wait(io, 2, -1);
	is_int(tarn_fill_direct(f) ? 2 * TARN_IO_STRAIGHT : 2 * TARN_IO_REQUEST,
		(int64_t)tarn_fill_landed(f),
		"%s: a cancelled fill counts the two requests that ended",
		name);
	is_int(-ECANCELED, tarn_fill_result(f),
		"%s: a cancelled fill's result is ECANCELED", name);
	tarn_fill_free(f);

	if (tarn_fill_new(io, &j, &f) < 0)
		bail("%s", tarn_fail_message());
	tarn_fill_cancel(f);
	is_int(-ECANCELED, tarn_fill_run(f),
		"%s: a fill that was cancelled before it began is ECANCELED",
		name);
	tarn_fill_free(f);
	drop_files(&fs);
}

/* What only a pread of our own can do. */
static void test_faults(struct pool *p)
{
	struct files fs;
	struct tarn_fill_job j;
	bool direct, can;

	make_file(&fs, "faulty", FILE_SIZE);
	can = fs.direct >= 0 && tarn_direct_alignment(fs.direct) > 0;
	j = job_for(&fs, p, 4096, 100, FILE_SIZE - 100);

	fault.eio_at = SEGMENT + 5;
	is_int(-EIO, run("threads", p, &j, &direct),
		"a fill from a failing disk is EIO");
	has_str("reading at byte 1048576 of the file", tarn_fail_message(),
		"the error names the request's offset");
	fault.eio_at = 0;

	fault.piecemeal = true;
	is_int(0, run("threads", p, &j, &direct),
		"a fill survives short direct reads");
	is_int(-1, first_wrong(p, &j),
		"every byte is there after short direct reads");
	is_int(can, direct,
		"the fill continues with direct I/O after short reads");
	j.io_mode = TARN_IO_BUFFERED;
	is_int(0, run("threads", p, &j, &direct),
		"a fill survives short buffered reads");
	is_int(-1, first_wrong(p, &j),
		"every byte is there after short buffered reads");
	j.io_mode = TARN_IO_DIRECT;
	fault.piecemeal = false;

	fault.interrupts = 50;
	is_int(0, run("threads", p, &j, &direct),
		"a fill survives EINTR and EAGAIN");
	is_int(-1, first_wrong(p, &j),
		"every byte is there after EINTR and EAGAIN");
	is_int(0, fault.interrupts,
		"as many reads were interrupted as the test set");
	fault.interrupts = UINT32_MAX;
	fault.calls = 0;
	ok(run("threads", p, &j, &direct) < 0,
		"reads that are always interrupted are an error");
	ok(fault.calls < 10000,
		"a fill gives up after a bounded number of tries");
	fault.interrupts = 0;

	fault.refuse_direct = true;
	is_int(0, run("threads", p, &j, &direct),
		"a fill succeeds when direct reads are refused");
	is_int(-1, first_wrong(p, &j),
		"every byte is there after direct reads were refused");
	ok(!direct, "the result says that the reads were not direct");
	fault.refuse_direct = false;
	drop_files(&fs);
}

static void test_bad_jobs(struct pool *p)
{
	_cleanup_io_ struct tarn_io *io = engine("threads", -1);
	struct tarn_fill *f = NULL;
	struct files fs;
	struct tarn_fill_job good, j;

	make_file(&fs, "good", 100);
	good = job_for(&fs, p, 0, 0, 100);
	j = good;
	j.direct_fd = j.buffered_fd = -1;
	is_int(-EINVAL, tarn_fill_new(io, &j, &f),
		"a fill without a file is refused");
	j = good;
	j.file_offset = INT64_MAX;
	is_int(-EINVAL, tarn_fill_new(io, &j, &f),
		"a fill past any file's end is refused");
	j = good;
	j.size = UINT64_MAX;
	is_int(-EINVAL, tarn_fill_new(io, &j, &f),
		"a fill of more bytes than any file has is refused");
	j = good;
	j.base = 4000;
	is_int(-EINVAL, tarn_fill_new(io, &j, &f),
		"a fill outside of its allocation is refused");
	has_str("100 bytes at pool offset 4000 are not inside",
		tarn_fail_message(),
		"the error names the range outside of the allocation");
	j = good;
	j.alloc_size = UINT64_MAX;
	j.base = j.size = j.alloc_offset = 1;
	is_int(-EINVAL, tarn_fill_new(io, &j, &f),
		"a fill to an allocation that wraps is refused");
	j = good;
	j.segments++;
	j.n_segments--;
	is_int(-EINVAL, tarn_fill_new(io, &j, &f),
		"a fill that segments do not cover is refused");
	j = good;
	j.n_segments = 0;
	j.size = 0;
	is_int(0, tarn_fill_new(io, &j, &f),
		"a fill of no bytes needs no segment");
	is_int(0, tarn_fill_run(f), "filling nothing ends without error");
	tarn_fill_free(f);
	drop_files(&fs);
}

int main(void)
{
	static const char *const names[] = {"threads", "io_uring"};
	struct pool p;

	make_pool(&p, NULL, false);
	for (unsigned i = 0; i < 2; i++) {
		struct tarn_io *io = engine(names[i], -1);

		if (!io) {
			skip(29, "%s: %s", names[i], tarn_fail_message());
			continue;
		}
		tarn_io_free(io);
		test_early_end(names[i], &p);
		test_directory(names[i], &p);
		test_cancel(names[i], &p);
	}
	test_faults(&p);
	test_bad_jobs(&p);
	drop_pool(&p);
	return done(82);
}
