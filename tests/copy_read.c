/* SPDX-License-Identifier: MIT */
/*
 * Views of a file are copied to memory by every engine and every road, warm
 * and cold, and the bytes are those that the same copy takes out of memory.
 * Faults at any request are survived or told, with file and offset; nothing
 * is left under way.
 */
#include <limits.h>
#include <stdio.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "lib/copy/env.h"
#include "lib/io/road.h"
#include "lib/tensor/tensor.h"
#include "tests/fault_engine.h"
#include "tests/filling.h"
#include "tests/loop_device.h"

enum { SIZE = 3 * SEGMENT + 4096, MARGIN = 4096 };

/* A copy: of a view of a tensor that begins somewhere in the file, to memory
 * of some dtype that lies so many bytes behind a page's beginning. */
struct sample {
	const char *dtype, *shape, *view, *to_dtype, *to_view;
	uint64_t offset;
	unsigned shift;
	bool scaled;
};

static const struct sample samples[] = {
	{"U8", "[3145728]", "", "U8", "", 0, 0, false},
	{"U8", "[3145728]", "", "U8", "", 100, 100, false},
	{"U8", "[3145728]", "", "U8", "", 8, 0, false},
	{"U8", "[3145728]", "", "U8", "", 8, 3, false},
	{"F32", "[100]", "", "F32", "", 4000, 64, false},
	{"F32", "[3, 4]", "[1, 2]", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", "[:, ::2]", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", "[:, 100:164]", "F32", "", 8, 0, false},
	{"F32", "[24, 32768]", "[:, 100:164]", "F32", "", 80, 0, false},
	{"F32", "[24, 32768]", "[1:, 100:16484]", "F32", "", 8, 0, false},
	{"F32", "[24, 32768]", "[:, 0:32700]", "F32", "", 8, 72, false},
	{"F32", "[1024, 768]", ".transpose(0, 1)", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", ".flip(0)", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", ".flip(0, 1)", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", "[::3, 600:5:-7]", "F32", "", 8, 0, false},
	{"U8", "[4, 786432]", ".transpose(0, 1)", "U8", "", 24, 0, false},
	{"I16", "[10, 150001]", ".transpose(0, 1)", "I16", "", 24, 0, false},
	{"F32", "[8, 4, 50, 300]",
		"[1:7, ::2, 3:40, 9:200:2]"
		".permute(2, 0, 3, 1)",
		"F32", ".flip(0)", 1000, 0, false},
	{"F32", "[1, 700]", ".expand(900, 700)", "F32", "", 8, 0, false},
	{"F32", "[700, 1]", ".expand(700, 900)", "F32", "", 8, 0, false},
	{"U8", "[2, 500, 1000, 3]", ".permute(0, 3, 1, 2)", "F32", "", 77, 0,
		true},
	{"F32", "[1024, 768]", "", "F16", ".transpose(0, 1).transpose(0, 1)", 8,
		0, false},
	{"F16", "[1024, 700]", "[:, 10:90]", "F64", "", 9, 0, false},
	{"F4", "[1024, 2000]", "[5:900, 20:1000]", "F4", "", 3, 0, false},
	{"F6_E2M3", "[512, 4000]", "[5:90, 20:1000]", "F32", "", 3, 0, false},
	{"F32", "[512, 1000]", ".transpose(0, 1)", "F4", "", 8, 0, false},
};

/* ---- tensors --------------------------------------------------------- */

static struct tarn_layout layout_of(const char *dtype, const char *shape)
{
	struct tarn_layout l;
	char text[200];

	snprintf(text, sizeof(text), "%s%s", dtype, shape);
	if (tarn_layout_parse(text, &l) < 0)
		bail("%s: %s", text, tarn_error_message());
	return l;
}

/* Takes the storage over. */
static tarn_tensor *tensor_of(tarn_storage *storage, struct tarn_layout *l,
	uint64_t base, const char *view)
{
	tarn_tensor *whole, *ret;

	if (tarn_tensor_new(storage, base, l, &whole) < 0 ||
		tarn_tensor_view(whole, view, &ret) < 0)
		bail("%s: %s", view, tarn_error_message());
	tarn_storage_unref(storage);
	tarn_tensor_unref(whole);
	return ret;
}

static tarn_tensor *in_file(int fd, const struct sample *s)
{
	struct tarn_layout l = layout_of(s->dtype, s->shape);
	uint64_t skipped = s->offset > 0;
	tarn_storage *storage;

	if (tarn_storage_from_fd(fd, skipped, SIZE - skipped, &storage) < 0)
		bail("%s", tarn_error_message());
	return tensor_of(storage, &l, s->offset - skipped, s->view);
}

static tarn_tensor *in_memory(const struct sample *s)
{
	struct tarn_layout l = layout_of(s->dtype, s->shape);
	tarn_storage *storage;

	if (tarn_storage_borrow(
		    (void *)text(), SIZE, false, NULL, NULL, &storage) < 0)
		bail("%s", tarn_error_message());
	return tensor_of(storage, &l, s->offset, s->view);
}

/* Memory between canaries, which are a page each. */
struct target {
	char *raw;
	size_t size;
	tarn_tensor *tensor;
};

static struct target target_for(const struct sample *s, const tarn_tensor *src)
{
	struct tarn_layout from = *tarn_tensor_layout(src), to;
	enum tarn_dtype dtype;
	tarn_storage *storage;
	struct target p;

	if (tarn_dtype_from_name(s->to_dtype, &dtype) < 0 ||
		tarn_layout_contiguous(dtype, from.ndim, from.shape, &to) < 0)
		bail("%s", tarn_error_message());
	p.size = 2 * MARGIN + s->shift + (size_t)tarn_layout_nbytes(&to);
	p.raw = aligned_alloc(4096, (p.size + 4095) / 4096 * 4096);
	if (!p.raw)
		bail("no memory");
	memset(p.raw, CANARY, p.size);
	if (tarn_storage_borrow(p.raw + MARGIN + s->shift,
		    (uint64_t)tarn_layout_nbytes(&to), true, NULL, NULL,
		    &storage) < 0)
		bail("%s", tarn_error_message());
	p.tensor = tensor_of(storage, &to, 0, s->to_view);
	return p;
}

static void drop_target(struct target *p)
{
	tarn_tensor_unref(p->tensor);
	free(p->raw);
}

static const double scales[] = {0.25, 0.5, 2}, biases[] = {-1, 0, 1};

static struct tarn_copy_options options_for(const struct sample *s)
{
	struct tarn_copy_options o = {0};

	if (s->scaled) {
		o.scale = scales;
		o.bias = biases;
		o.channels = 3;
		o.channel_dim = 1;
	}
	return o;
}

/* ---- every way ------------------------------------------------------- */

static void evict(int fd)
{
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void warm(int fd)
{
	static char buf[SIZE];

	if (pread(fd, buf, sizeof(buf), 0) != sizeof(buf))
		bail("pread: %m");
}

struct way {
	const char *engine;
	enum tarn_road road;
	bool cold;
};

static bool copy_one(int fd, const struct sample *s, const struct way *way,
	const struct target *wanted, struct tarn_copy_info *ret_info)
{
	tarn_tensor *src = in_file(fd, s);
	struct target seen = target_for(s, src);
	struct tarn_copy_options o = options_for(s);
	bool good;
	int r;

	(way->cold ? evict : warm)(fd);
	o.engine = way->engine;
	o.road = way->road;
	r = tarn_copy(seen.tensor, src, &o, ret_info);
	good = r == 0 && (!wanted || !memcmp(wanted->raw, seen.raw, seen.size));
	if (!good)
		diag("%s%s%s at %llu: result %d %s", s->dtype, s->shape,
			s->view, (unsigned long long)s->offset, r,
			r < 0 ? tarn_error_message() : "");
	drop_target(&seen);
	tarn_tensor_unref(src);
	return good;
}

/* What the copy out of memory makes of it. */
static struct target wanted_for(const struct sample *s)
{
	tarn_tensor *same = in_memory(s);
	struct target wanted = target_for(s, same);
	struct tarn_copy_options o = options_for(s);

	if (tarn_copy(wanted.tensor, same, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(same);
	return wanted;
}

static void test_ways(const struct files *fs)
{
	static const char *const engines[] = {"threads", "io_uring"};
	static const char *const roads[] = {"auto", "buffered", "direct"};
	enum { WAYS = 2 * 3 * 2 };
	unsigned wrong[WAYS] = {0};
	struct tarn_copy_info info;

	for (unsigned k = 0; k < ARRAY_SIZE(samples); k++) {
		struct target wanted = wanted_for(&samples[k]);

		for (unsigned i = 0; i < WAYS; i++) {
			struct way way = {
				.engine = engines[i % 2],
				.road = (enum tarn_road)(i / 2 % 3),
				.cold = i / 6,
			};

			if (way.road == TARN_ROAD_DIRECT && fs->direct < 0)
				continue;
			wrong[i] += !copy_one(fs->buffered, &samples[k], &way,
				&wanted, &info);
		}
		drop_target(&wanted);
	}
	for (unsigned i = 0; i < WAYS; i++)
		if (i / 2 % 3 == TARN_ROAD_DIRECT && fs->direct < 0)
			skip(1, "no direct I/O in %s", test_tmpdir());
		else
			is_int(0, wrong[i], "%s, %s, %s", engines[i % 2],
				roads[i / 2 % 3], i / 6 ? "cold" : "warm");
}

/* ---- what is told ---------------------------------------------------- */

static void test_info(const struct files *fs)
{
	struct way way = {0};
	struct tarn_copy_info info;
	struct road road;
	uint64_t upto;

	copy_one(fs->buffered, &samples[1], &way, NULL, &info);
	is_int(3 << 20, (int64_t)info.bytes, "bytes of dst");
	is_int(3 << 20, (int64_t)info.read, "as many were read");
	is_int(3 << 20, (int64_t)info.cached, "out of the page cache");
	is_int(0, (int64_t)info.direct, "none directly");
	ok(info.requests >= 6 && info.requests < 10,
		"in requests of half a mebibyte");

	copy_one(fs->buffered, &samples[8], &way, NULL, &info);
	is_int(24 * 64 * 4, (int64_t)info.read,
		"a few columns: nothing else is read");

	way.road = TARN_ROAD_BUFFERED;
	copy_one(fs->buffered, &samples[1], &way, NULL, &info);
	is_int(0, (int64_t)info.direct, "buffered is not direct");

	evict(fs->buffered);
	road_init(&road, fs->buffered, fs->direct, TARN_ROAD_AUTO,
		road_file_system(fs->buffered));
	if (road_at(&road, 0, SIZE, &upto) != ROAD_DIRECT) {
		skip(4, "nothing can be read directly here");
		return;
	}
	way.road = TARN_ROAD_AUTO;
	way.cold = true;
	copy_one(fs->buffered, &samples[1], &way, NULL, &info);
	ok(info.direct >= 3 << 20, "what is cold is read directly");
	is_int((int64_t)info.direct, (int64_t)info.read, "its ragged ends too");
	ok(info.read < (3 << 20) + 3 * 4096,
		"and once, but for what shares their blocks");
	copy_one(fs->buffered, &samples[3], &way, NULL, &info);
	ok(info.direct >= 3 << 20, "also to where it must be moved to");
}

static void test_refusals(void)
{
	_cleanup_fd_ int fd = memfd_create("tensors", MFD_CLOEXEC);
	struct sample s = samples[0];
	struct tarn_copy_options o = {.road = TARN_ROAD_DIRECT};
	struct target p;
	tarn_tensor *src;

	if (fd < 0 || fd_write_all(fd, text(), SIZE) < 0)
		bail("memfd: %m");
	s.offset = 1;
	src = in_file(fd, &s);
	p = target_for(&s, src);
	is_int(-EINVAL, tarn_copy(p.tensor, src, &o, NULL),
		"memory is not read directly");
	has_str("its file system is memory", tarn_error_message(),
		"it says so");
	o.road = TARN_ROAD_AUTO;
	is_int(0, tarn_copy(p.tensor, src, &o, NULL), "but it is read");
	ok(!memcmp(p.raw + MARGIN, text() + 1, 3 << 20), "right");
	drop_target(&p);
	tarn_tensor_unref(src);
}

/* The file ends before the tensor: the first byte that is missing is named,
 * whichever request was first to miss one. */
static void test_truncated(const char *engine)
{
	static const uint64_t ends[] = {0, 1, 4096, SEGMENT / 2, SEGMENT + 77};
	unsigned wrong = 0, unnamed = 0;

	for (unsigned i = 0; i < 5 * 6; i++) {
		uint64_t end = ends[i % 5];
		struct sample s = samples[i / 5 % 2 ? 11 : 1];
		struct tarn_copy_options o = {
			.engine = engine,
			.road = (enum tarn_road)(i / 10),
		};
		struct files fs;
		struct target p;
		char words[100];
		tarn_tensor *src;

		make_file(&fs, "shrinks", SIZE);
		src = in_file(fs.buffered, &s);
		p = target_for(&s, src);
		if (ftruncate(fs.buffered, (off_t)end) < 0)
			bail("ftruncate: %m");
		if (o.road == TARN_ROAD_DIRECT && fs.direct < 0)
			o.road = TARN_ROAD_AUTO;
		snprintf(words, sizeof(words), "ends at byte %llu,",
			(unsigned long long)(MAX(end, s.offset)));
		wrong += tarn_copy(p.tensor, src, &o, NULL) != -ENODATA;
		if (!strstr(tarn_error_message(), words) ||
			!strstr(tarn_error_message(), fs.path)) {
			diag("%s: %s", words, tarn_error_message());
			unnamed++;
		}
		drop_target(&p);
		tarn_tensor_unref(src);
		drop_files(&fs);
	}
	is_int(0, wrong, "%s: files that have shrunk are told", engine);
	is_int(0, unnamed, "%s: with the file and the byte", engine);
}

static void test_replaced(void)
{
	struct sample s = samples[0];
	struct files fs, other;
	struct target p;
	tarn_tensor *src;

	make_file(&fs, "replaced", SIZE);
	src = in_file(fs.buffered, &s);
	p = target_for(&s, src);
	make_file(&other, "replacing", 100);
	if (rename(other.path, fs.path) < 0)
		bail("rename: %m");
	is_int(0, tarn_copy(p.tensor, src, NULL, NULL),
		"a file that was replaced is read as it was opened");
	ok(!memcmp(p.raw + MARGIN, text(), 3 << 20), "right");
	drop_target(&p);
	tarn_tensor_unref(src);
	drop_files(&fs);
	drop_files(&other);
}

/* ---- faults ---------------------------------------------------------- */

/* As mover_env_open, on an engine of ours and with the fewest buffers. */
static void open_env(struct mover_env *env, struct tarn_io *io)
{
	*env = (struct mover_env) {.io = io};
	if (bounce_new(io, 2 << 20, 512, &env->bounce) < 0 ||
		file_slots_new(io, &env->files) < 0)
		bail("%s", tarn_fail_message());
}

/* Runs the copy, cancelled when at most so many requests were begun. */
static int run(struct mover_env *env, const struct sample *s, int fd,
	enum tarn_road road, struct target *p, unsigned cancel_after)
{
	struct tarn_copy_options o = options_for(s);
	tarn_tensor *src = in_file(fd, s);
	struct mover *m;
	unsigned begun = 0;
	bool cancelled = false;
	int r;

	*p = target_for(s, src);
	o.road = road;
	if (mover_new(env, p->tensor, src, &o, &m) < 0)
		bail("%s", tarn_fail_message());
	tarn_tensor_unref(src);
	while (!mover_finished(m)) {
		if (!m->ended)
			begun += m->ops->pump(
				m, cancel_after < UINT_MAX ? 1 : 16);
		if (begun > cancel_after && !m->ended) {
			mover_cancel(m);
			cancelled = true;
		}
		if (m->in_flight && tarn_io_submit_and_wait(env->io, 1, -1) < 0)
			bail("%s", tarn_fail_message());
	}
	r = mover_result(m);
	if (cancelled != (r == -ECANCELED))
		bail("cancelled, but the result is %d", r);
	mover_free(m);
	if (tarn_io_pending(env->io))
		bail("something is left under way");
	return r;
}

static const struct sample fault_samples[] = {
	{"U8", "[1400000]", "", "U8", "", 100, 100, false},
	{"U8", "[1400000]", "", "U8", "", 8, 3, false},
	{"F32", "[24, 32768]", "[:, 100:164]", "F32", "", 80, 0, false},
	{"F32", "[500, 768]", ".transpose(0, 1)", "F32", "", 8, 0, false},
};

struct tally {
	unsigned wrong, fired, stuck;
};

/* Each fault in turn is met by request 1, 2, ... until none has the number. */
static void fault_one(const char *engine, const struct files *fs,
	const struct sample *s, enum tarn_road road, struct fault fault,
	int wanted, struct tally *tally)
{
	struct target right = wanted_for(s), p;
	bool fired = true;

	for (fault.at = 1; fired && fault.at < 200; fault.at++) {
		struct tarn_io *io = fault_engine(engine, &fault, 1);
		struct mover_env env;
		int r;

		open_env(&env, io);
		r = run(&env, s, fs->buffered, road, &p, UINT_MAX);
		fired = fault_engine_fired(io) > 0;
		tally->fired += fired;
		if (r != (fired ? wanted : 0) ||
			(r == 0 && memcmp(p.raw, right.raw, p.size))) {
			diag("%s, %s at request %u: %d %s", s->view,
				road == TARN_ROAD_DIRECT ? "direct"
							 : "buffered",
				fault.at, r, r < 0 ? tarn_fail_message() : "");
			tally->wrong++;
		}
		drop_target(&p);
		mover_env_close(&env);
	}
	drop_target(&right);
}

static void test_fault(const char *engine, const struct files *fs,
	const char *what, struct fault fault, int wanted)
{
	struct tally tally = {0};

	for (unsigned i = 0; i < ARRAY_SIZE(fault_samples); i++)
		for (int direct = 0; direct < 1 + (fs->direct >= 0); direct++)
			fault_one(engine, fs, &fault_samples[i],
				direct ? TARN_ROAD_DIRECT : TARN_ROAD_BUFFERED,
				fault, wanted, &tally);
	is_int(0, tally.wrong, "%s: %s", engine, what);
	ok(tally.fired > 40, "%s: at many requests", engine);
}

static void test_faults(const char *engine, const struct files *fs)
{
	test_fault(engine, fs, "one is short",
		(struct fault) {.kind = FAULT_SHORT}, 0);
	test_fault(engine, fs, "all are short",
		(struct fault) {.kind = FAULT_SHORT, .times = 1000}, 0);
	test_fault(engine, fs, "EINTR",
		(struct fault) {.error = EINTR, .times = 5}, 0);
	test_fault(engine, fs, "EAGAIN",
		(struct fault) {.error = EAGAIN, .times = 5}, 0);
	test_fault(engine, fs, "EIO", (struct fault) {.error = EIO}, -EIO);
	test_fault(engine, fs, "the end", (struct fault) {.kind = FAULT_END},
		-ENODATA);
}

/* A disk that refuses direct reads when they come is read otherwise, unless
 * that is asked for. */
static void test_refused(const char *engine, const struct files *fs)
{
	static const struct fault fault = {
		.at = 1, .kind = FAULT_ERROR, .error = EINVAL};
	const struct sample *s = &fault_samples[1]; /* begins directly */
	struct mover_env env;
	struct target p;

	evict(fs->buffered);
	open_env(&env, fault_engine(engine, &fault, 1));
	is_int(0, run(&env, s, fs->buffered, TARN_ROAD_AUTO, &p, UINT_MAX),
		"%s: direct reads are refused", engine);
	ok(!memcmp(p.raw + MARGIN + s->shift, text() + s->offset, 1400000),
		"%s: every byte is there", engine);
	drop_target(&p);
	mover_env_close(&env);
	if (fs->direct < 0) {
		skip(1, "no direct I/O in %s", test_tmpdir());
		return;
	}
	open_env(&env, fault_engine(engine, &fault, 1));
	is_int(-EINVAL,
		run(&env, s, fs->buffered, TARN_ROAD_DIRECT, &p, UINT_MAX),
		"%s: which is an error when they are asked for", engine);
	drop_target(&p);
	mover_env_close(&env);
}

static void test_sentence(const char *engine, const struct files *fs)
{
	static const struct fault fault = {.at = 2, .error = EIO};
	struct mover_env env;
	struct target p;

	open_env(&env, fault_engine(engine, &fault, 1));
	is_int(-EIO,
		run(&env, &fault_samples[0], fs->buffered, TARN_ROAD_BUFFERED,
			&p, UINT_MAX),
		"%s: the disk fails", engine);
	has_str("copy: reading 524288 bytes at byte 524288 of ",
		tarn_fail_message(), "it says where");
	has_str(fs->path, tarn_fail_message(), "and of which file");
	drop_target(&p);
	mover_env_close(&env);
}

static void test_cancel(const char *engine, const struct files *fs)
{
	unsigned wrong = 0, cancelled = 0;

	for (unsigned i = 0; i < 4 * ARRAY_SIZE(fault_samples); i++) {
		const struct sample *s = &fault_samples[i / 4];
		struct mover_env env;
		struct target p;
		int r;

		open_env(&env, fault_engine(engine, NULL, 0));
		r = run(&env, s, fs->buffered, TARN_ROAD_AUTO, &p, i % 4);
		wrong += r != 0 && r != -ECANCELED;
		cancelled += r == -ECANCELED;
		drop_target(&p);
		mover_env_close(&env);
	}
	is_int(0, wrong, "%s: cancelled, or done before", engine);
	ok(cancelled > 3, "%s: many were cancelled", engine);
}

static void test_sectors(const struct files *fs)
{
	static const struct way ways[] = {
		{"threads", TARN_ROAD_DIRECT, true},
		{"io_uring", TARN_ROAD_DIRECT, true},
		{"threads", TARN_ROAD_AUTO, true},
	};
	char path[64];
	_cleanup_fd_ int fd =
		loop_device(fs->buffered, 4096, path, sizeof(path));

	if (fd < 0) {
		skip(3, "a disk of 4 KiB sectors: no loop device: %s",
			tarn_errno_text(fd));
		return;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++) {
		struct tarn_copy_info info;
		unsigned wrong = 0;

		for (unsigned k = 0; k < ARRAY_SIZE(fault_samples); k++) {
			struct target wanted = wanted_for(&fault_samples[k]);

			wrong += !copy_one(fd, &fault_samples[k], &ways[i],
				&wanted, &info);
			drop_target(&wanted);
		}
		is_int(0, wrong, "a disk of 4 KiB sectors: %s, %s",
			ways[i].engine, ways[i].road ? "direct" : "auto");
	}
}

int main(void)
{
	static const char *const engines[] = {"threads", "uring"};
	struct files fs;

	make_file(&fs, "tensors", SIZE);
	test_ways(&fs);
	test_info(&fs);
	test_refusals();
	test_truncated("threads");
	test_truncated("io_uring");
	test_replaced();
	for (unsigned i = 0; i < 2; i++) {
		struct tarn_io *io = engine(engines[i], -1);

		if (!io) {
			skip(1, "%s: %s", engines[i], tarn_fail_message());
			continue;
		}
		tarn_io_free(io);
		test_faults(engines[i], &fs);
		test_sentence(engines[i], &fs);
		test_refused(engines[i], &fs);
		test_cancel(engines[i], &fs);
	}
	unsetenv("TARN_IO");
	test_sectors(&fs);
	drop_files(&fs);
	return done();
}
