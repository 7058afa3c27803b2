/* SPDX-License-Identifier: MIT */
/*
 * Copies out of a file whose disk fails: a fault at any request is survived,
 * or reported with file and offset. No request is left under way, even when
 * the copy is cancelled.
 */
#include <limits.h>

#include "lib/copy/copy_env.h"
#include "tests/kit/cold.h"
#include "tests/kit/copy_read.h"
#include "tests/kit/fault_engine.h"

/* As copy_env_open, on an engine of ours and with the fewest buffers. */
static void open_env(struct copy_env *env, struct tarn_io *io)
{
	*env = (struct copy_env) {.io = io};
	if (bounce_new(io, 2 << 20, 512, &env->bounce) < 0 ||
		file_slots_new(io, &env->files) < 0)
		bail("%s", tarn_fail_message());
}

/* Runs the copy, cancelled when at most so many requests were begun. */
static int run(struct copy_env *env, const struct sample *s, int fd,
	enum tarn_io_mode io_mode, struct target *p, unsigned cancel_after)
{
	struct tarn_copy_options o = kit_read_options(s);
	tarn_tensor *src = kit_read_in_file(fd, s);
	struct copy_op *m;
	unsigned begun = 0;
	bool cancelled = false;
	int r;

	*p = kit_read_target(s, src);
	o.io_mode = io_mode;
	if (copy_op_new(env, p->tensor, src, &o, &m) < 0)
		bail("%s", tarn_fail_message());
	tarn_tensor_unref(src);
	while (!copy_op_finished(m)) {
		if (!m->ended)
			begun += m->ops->pump(
				m, cancel_after < UINT_MAX ? 1 : 16);
		if (begun > cancel_after && !m->ended) {
			copy_op_cancel(m);
			cancelled = true;
		}
		if (m->in_flight && tarn_io_submit_and_wait(env->io, 1, -1) < 0)
			bail("%s", tarn_fail_message());
	}
	r = copy_op_result(m);
	if (cancelled != (r == -ECANCELED))
		bail("cancelled, but the result is %d", r);
	copy_op_free(m);
	if (tarn_io_pending(env->io))
		bail("something is left under way");
	return r;
}

struct tally {
	unsigned wrong, fired, stuck;
};

/* Each fault in turn is met by request 1, 2, ... until none has the number. */
static void fault_one(const char *engine, const struct files *fs,
	const struct sample *s, enum tarn_io_mode io_mode, struct fault fault,
	int wanted, struct tally *tally)
{
	struct target right = kit_read_wanted(s), p;
	bool fired = true;

	for (fault.at = 1; fired && fault.at < 200; fault.at++) {
		struct tarn_io *io = fault_engine(engine, &fault, 1);
		struct copy_env env;
		int r;

		open_env(&env, io);
		r = run(&env, s, fs->buffered, io_mode, &p, UINT_MAX);
		fired = fault_engine_fired(io) > 0;
		tally->fired += fired;
		if (r != (fired ? wanted : 0) ||
			(r == 0 && memcmp(p.raw, right.raw, p.size))) {
			diag("%s, %s at request %u: %d %s", s->view,
				io_mode == TARN_IO_DIRECT ? "direct"
							  : "buffered",
				fault.at, r, r < 0 ? tarn_fail_message() : "");
			tally->wrong++;
		}
		kit_read_drop(&p);
		copy_env_close(&env);
	}
	kit_read_drop(&right);
}

static void test_fault(const char *engine, const struct files *fs,
	const char *what, struct fault fault, int wanted)
{
	struct tally tally = {0};

	for (unsigned i = 0; i < ARRAY_SIZE(kit_read_few); i++)
		for (int direct = 0; direct < 1 + (fs->direct >= 0); direct++)
			fault_one(engine, fs, &kit_read_few[i],
				direct ? TARN_IO_DIRECT : TARN_IO_BUFFERED,
				fault, wanted, &tally);
	is_int(0, tally.wrong, "%s: a copy survives or reports a fault, %s",
		engine, what);
	ok(tally.fired > 40, "%s: faults hit more than 40 requests", engine);
}

static void test_faults(const char *engine, const struct files *fs)
{
	test_fault(engine, fs, "one read is short",
		(struct fault) {.kind = FAULT_SHORT}, 0);
	test_fault(engine, fs, "all reads are short",
		(struct fault) {.kind = FAULT_SHORT, .times = 1000}, 0);
	test_fault(engine, fs, "a read fails with EINTR",
		(struct fault) {.error = EINTR, .times = 5}, 0);
	test_fault(engine, fs, "a read fails with EAGAIN",
		(struct fault) {.error = EAGAIN, .times = 5}, 0);
	test_fault(engine, fs, "a read fails with EIO",
		(struct fault) {.error = EIO}, -EIO);
	test_fault(engine, fs, "a read finds the end of the file",
		(struct fault) {.kind = FAULT_END}, -ENODATA);
}

static const struct fault refusal = {
	.at = 1, .kind = FAULT_ERROR, .error = EINVAL};

/* The first request meets it, which is a direct one if the file is cold. */
static int run_refused(
	const char *engine, const struct files *fs, struct target *p)
{
	int r = -EINVAL;

	for (int i = 0; i < COLD_TRIES && r == -EINVAL; i++) {
		struct copy_env env;

		if (i > 0)
			kit_read_drop(p);
		cold_make(fs->buffered, 0, SIZE);
		open_env(&env, fault_engine(engine, &refusal, 1));
		r = run(&env, &kit_read_few[1], fs->buffered, TARN_IO_AUTO, p,
			UINT_MAX);
		copy_env_close(&env);
	}
	return r;
}

/* A disk that refuses direct reads when they come is read otherwise, unless
 * that is asked for. */
static void test_refused(const char *engine, const struct files *fs)
{
	const struct sample *s = &kit_read_few[1]; /* begins directly */
	const char *why = cold_make(fs->buffered, 0, SIZE);
	struct copy_env env;
	struct target p;

	if (why) {
		skip(2, "%s: direct reads are refused: %s", engine, why);
	} else {
		is_int(0, run_refused(engine, fs, &p),
			"%s: a copy succeeds when direct reads are refused",
			engine);
		ok(!memcmp(p.raw + MARGIN + s->shift, text() + s->offset,
			   1400000),
			"%s: every byte is there after direct reads were "
			"refused",
			engine);
		kit_read_drop(&p);
	}
	if (fs->direct < 0) {
		skip(1, "no direct I/O in %s", test_tmpdir());
		return;
	}
	open_env(&env, fault_engine(engine, &refusal, 1));
	is_int(-EINVAL,
		run(&env, s, fs->buffered, TARN_IO_DIRECT, &p, UINT_MAX),
		"%s: refused direct reads fail a copy that demands them",
		engine);
	kit_read_drop(&p);
	copy_env_close(&env);
}

static void test_sentence(const char *engine, const struct files *fs)
{
	static const struct fault fault = {.at = 2, .error = EIO};
	struct copy_env env;
	struct target p;

	open_env(&env, fault_engine(engine, &fault, 1));
	is_int(-EIO,
		run(&env, &kit_read_few[0], fs->buffered, TARN_IO_BUFFERED, &p,
			UINT_MAX),
		"%s: a copy from a failing disk is EIO", engine);
	has_str("copy: reading 524288 bytes at byte 524288 of ",
		tarn_fail_message(), "the error contains the expected words");
	has_str(fs->path, tarn_fail_message(), "the error names the file");
	kit_read_drop(&p);
	copy_env_close(&env);
}

static void test_cancel(const char *engine, const struct files *fs)
{
	unsigned wrong = 0, cancelled = 0;

	for (unsigned i = 0; i < 4 * ARRAY_SIZE(kit_read_few); i++) {
		const struct sample *s = &kit_read_few[i / 4];
		struct copy_env env;
		struct target p;
		int r;

		open_env(&env, fault_engine(engine, NULL, 0));
		r = run(&env, s, fs->buffered, TARN_IO_AUTO, &p, i % 4);
		wrong += r != 0 && r != -ECANCELED;
		cancelled += r == -ECANCELED;
		kit_read_drop(&p);
		copy_env_close(&env);
	}
	is_int(0, wrong,
		"%s: a copy ends cancelled or done, whenever it is cancelled",
		engine);
	ok(cancelled > 3,
		"%s: more than three copies were cancelled on the way", engine);
}

int main(void)
{
	static const char *const engines[] = {"threads", "io_uring"};
	struct files fs;

	make_file(&fs, "tensors", SIZE);
	for (unsigned i = 0; i < 2; i++) {
		struct tarn_io *io = engine(engines[i], -1);

		if (!io) {
			skip(20, "%s: %s", engines[i], tarn_fail_message());
			continue;
		}
		tarn_io_free(io);
		test_faults(engines[i], &fs);
		test_sentence(engines[i], &fs);
		test_refused(engines[i], &fs);
		test_cancel(engines[i], &fs);
	}
	drop_files(&fs);
	return done(40);
}
