/* SPDX-License-Identifier: MIT */
/*
 * Streams from the outside, with copies in memory: what is refused, the order
 * in which copies end, the limit of copies, cancelling, deadlines, poll(), and
 * which process and thread may use a stream. stream_file.c has the engine's
 * part.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fail.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static tarn_stream *stream_of(uint32_t copies)
{
	const struct tarn_stream_options o = {.copies = copies};
	tarn_stream *s = NULL;

	if (tarn_stream_new(&o, &s) < 0)
		bail("%s", tarn_error_message());
	return s;
}

static tarn_tensor *filled(int64_t n, double value)
{
	tarn_tensor *t = NULL;

	if (tarn_tensor_full(TARN_I32, 1, &n, value, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static bool readable(const tarn_stream *s, int timeout_ms)
{
	struct pollfd p = {.fd = tarn_stream_fd(s), .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1 && (p.revents & POLLIN);
}

static void test_options(void)
{
	static const struct {
		struct tarn_stream_options o;
		const char *part;
	} bad[] = {
		{{.engine = "turbo"}, "no engine \"turbo\""},
		{{.engine = "plain"}, "no engine \"plain\""},
		{{.copies = 1 << 21}, "1048576 are the most"},
		{{.buffer = 1ull << 40}, "1073741824 are the most"},
	};
	tarn_stream *s = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		is_int(-EINVAL, tarn_stream_new(&bad[i].o, &s),
			"a stream with wrong options is refused");
		has_str(bad[i].part, tarn_error_message(),
			"the error of wrong options contains the expected "
			"words");
	}
	ok(!s && !tarn_stream_free(NULL),
		"freeing a stream that is NULL returns NULL");
	s = stream_of(0);
	is_int(!strcmp(tarn_stream_engine(s), "io_uring"),
		!*tarn_stream_engine_why(s),
		"a stream is of io_uring, or says why it is not");
	tarn_stream_free(s);
}

/* Four copies fill a stream of four. */
struct four {
	tarn_tensor *dst[4], *src[4];
	uint64_t id[4];
};

static void queue_four(tarn_stream *s, struct four *f)
{
	for (int i = 0; i < 4; i++) {
		f->dst[i] = filled(1 << 18, 0);
		f->src[i] = filled(1 << 18, i + 1);
		is_int(0,
			tarn_stream_copy(s, f->dst[i], f->src[i], NULL, -1,
				100u + (unsigned)i, &f->id[i]),
			"a copy is queued on a stream");
	}
}

static void test_full(tarn_stream *s, const struct four *f)
{
	tarn_tensor *wrong = filled(3, 0);
	struct tarn_stream_progress p;

	is_int(-EINVAL, tarn_stream_copy(s, wrong, wrong, NULL, -1, 0, NULL),
		"a wrong copy is refused as wrong even when the stream is "
		"full");
	is_int(-EAGAIN,
		tarn_stream_copy(s, f->dst[0], f->src[1], NULL, -1, 0, NULL),
		"a fifth copy on a stream of four is refused");
	has_str("4 copies are not reaped", tarn_error_message(),
		"the error counts the copies that are not reaped");
	tarn_stream_progress(s, &p);
	is_int(4, (int64_t)(p.copies_waiting + p.copies_running),
		"four copies wait or run");
	is_int(4 << 20, (int64_t)p.bytes_total,
		"the progress has the bytes of four copies");
	tarn_tensor_unref(wrong);
}

/* All four are reaped in their order. */
static void test_reaped(tarn_stream *s, const struct four *f)
{
	struct tarn_completion c[8];
	int n;

	n = tarn_stream_reap(s, 2, -1, c, 8);
	ok(n >= 2 && n <= 4, "a reap that waits for two returns at least two");
	n += tarn_stream_reap(s, 4, -1, c + n, 8 - n);
	is_int(4, n, "a reap that wants more than all returns all");
	for (int i = 0; i < 4; i++) {
		is_int((int64_t)f->id[i], (int64_t)c[i].id,
			"copies in memory end in their order");
		is_int(100 + i, (int64_t)c[i].user,
			"a completion has the caller's tag");
		is_int(0, c[i].result, "a copy in memory ends without error");
		is_str("", c[i].message,
			"a copy that ended well has no message");
		is_int(1 << 20, (int64_t)c[i].info.bytes,
			"a completion has the number of its bytes");
		is_str("memory", c[i].info.engine,
			"a completion of a copy in memory names 'memory'");
		is_int(1, tarn_tensor_equal(f->dst[i], f->src[i]),
			"a reaped copy has the bytes of its source");
	}
}

static void test_order_and_bound(void)
{
	tarn_stream *s = stream_of(4);
	struct tarn_stream_progress p;
	struct tarn_completion c[8];
	struct four f;

	queue_four(s, &f);
	test_full(s, &f);
	test_reaped(s, &f);
	tarn_stream_progress(s, &p);
	is_int(4, (int64_t)p.copies_done,
		"the progress counts four copies that are done");
	is_int(4 << 20, (int64_t)p.bytes_done,
		"the progress counts all bytes of four copies");
	is_int(0, tarn_stream_reap(s, 1, -1, c, 8),
		"a reap of an empty stream does not wait");
	is_int(0, tarn_stream_copy(s, f.dst[0], f.src[1], NULL, -1, 0, NULL),
		"a stream has room again after a reap");
	tarn_stream_free(s);
	for (int i = 0; i < 4; i++) {
		tarn_tensor_unref(f.dst[i]);
		tarn_tensor_unref(f.src[i]);
	}
}

/* Copies keep what they need, whatever the caller drops. */
static void test_references(void)
{
	tarn_stream *s = stream_of(0);
	tarn_tensor *dst = filled(1000, 0), *src = filled(1000, 5);
	struct tarn_completion c;
	const int64_t last = 999;
	int64_t seen = 0;

	is_int(0, tarn_stream_copy(s, dst, src, NULL, -1, 1, NULL),
		"a copy is queued whose source the caller drops");
	tarn_tensor_unref(src);
	is_int(1, tarn_stream_reap(s, 1, -1, &c, 1),
		"a copy is done after the caller dropped the source");
	must(tarn_tensor_get_i64(dst, &last, &seen));
	is_int(5, seen, "the copy's source was kept until its end");
	tarn_tensor_unref(dst);
	tarn_stream_free(s);
}

static void test_cancel(void)
{
	tarn_stream *s = stream_of(0);
	tarn_tensor *dst = filled(1 << 20, 0), *src = filled(1 << 20, 1);
	tarn_tensor *small = filled(10, 0), *from = filled(10, 1);
	struct tarn_completion c[4];
	uint64_t id[4];

	must(tarn_stream_copy(s, dst, src, NULL, -1, 0, &id[0]));
	must(tarn_stream_copy(s, small, from, NULL, -1, 0, &id[1]));
	is_int(0, tarn_stream_reap(s, 0, 0, c, 4),
		"a reap without waiting does a part of the work");
	is_int(0, tarn_stream_cancel(s, id[0]),
		"a copy under way is cancelled");
	is_int(-ENOENT, tarn_stream_cancel(s, id[0]),
		"a cancelled copy cannot be cancelled again");
	is_int(-ENOENT, tarn_stream_cancel(s, 12345),
		"a copy that never was cannot be cancelled");
	has_str("is done, or never was", tarn_error_message(),
		"the error says that the copy is done or never was");
	is_int(2, tarn_stream_reap(s, 4, -1, c, 4),
		"a cancelled copy and another one both end");
	is_int((int64_t)id[0], (int64_t)c[0].id,
		"the cancelled copy ends first");
	is_int(-ECANCELED, c[0].result,
		"the cancelled copy's result is ECANCELED");
	has_str("cancelled when ", c[0].message,
		"the message says when the copy was cancelled");
	is_int(0, c[1].result,
		"the copy beside the cancelled one ends without error");

	must(tarn_stream_copy(s, dst, src, NULL, -1, 0, &id[0]));
	must(tarn_stream_copy(s, small, from, NULL, -1, 0, &id[1]));
	is_int(0, tarn_stream_cancel(s, 0),
		"all copies of a stream are cancelled");
	is_int(2, tarn_stream_reap(s, 4, -1, c, 4), "all cancelled copies end");
	is_int(-2 * ECANCELED, c[0].result + c[1].result,
		"all cancelled copies have ECANCELED");
	is_int(0, tarn_stream_cancel(s, 0),
		"cancelling all copies of an empty stream succeeds");
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
	tarn_tensor_unref(small);
	tarn_tensor_unref(from);
	tarn_stream_free(s);
}

static void test_deadline(void)
{
	tarn_stream *s = stream_of(0);
	tarn_tensor *dst = filled(1 << 20, 0), *src = filled(1 << 20, 1);
	struct tarn_completion c[4];

	must(tarn_stream_copy(s, dst, src, NULL, 0, 1, NULL));
	must(tarn_stream_copy(s, dst, src, NULL, 60000, 2, NULL));
	must(tarn_stream_copy(s, dst, src, NULL, -1, 3, NULL));
	is_int(3, tarn_stream_reap(s, 3, -1, c, 4),
		"three copies with deadlines end");
	is_int(1, (int64_t)c[0].user,
		"the copy whose deadline has passed ends first");
	is_int(-ETIMEDOUT, c[0].result,
		"the copy whose deadline has passed has ETIMEDOUT");
	has_str("its time was up", c[0].message,
		"the message says that the time was up");
	is_int(0, c[1].result,
		"the copy with a later deadline ends without error");
	is_int(0, c[2].result,
		"the copy without a deadline ends without error");
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
	tarn_stream_free(s);
}

static void test_poll(void)
{
	tarn_stream *s = stream_of(0);
	tarn_tensor *dst = filled(1 << 20, 0), *src = filled(1 << 20, 1);
	struct tarn_completion c;
	int rounds = 0;

	ok(!readable(s, 0), "an empty stream is not readable");
	must(tarn_stream_copy(s, dst, src, NULL, -1, 0, NULL));
	ok(readable(s, 0), "a stream with a waiting copy is readable");
	while (readable(s, 60000) && tarn_stream_reap(s, 0, 0, NULL, 0) == 0) {
		struct tarn_stream_progress p;

		rounds++;
		tarn_stream_progress(s, &p);
		if (p.copies_done)
			break;
	}
	ok(rounds > 1, "the copy is done in several turns");
	ok(readable(s, 0), "a stream with a copy to be reaped is readable");
	is_int(1, tarn_stream_reap(s, 0, 0, &c, 1), "the copy is reaped");
	ok(!readable(s, 0),
		"the stream is not readable after all copies were reaped");
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
	tarn_stream_free(s);
}

static void *use_elsewhere(void *arg)
{
	tarn_tensor *a = filled(3, 0), *b = filled(3, 1);
	struct tarn_completion c;
	intptr_t wrong = 0;

	wrong += tarn_stream_copy(arg, a, b, NULL, -1, 0, NULL) != -EINVAL;
	wrong += !strstr(tarn_error_message(), "the thread that made it");
	wrong += tarn_stream_reap(arg, 0, 0, &c, 1) != -EINVAL;
	wrong += tarn_stream_cancel(arg, 0) != -EINVAL;
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	return (void *)wrong;
}

static int use_in_child(tarn_stream *s)
{
	tarn_tensor *a = filled(3, 0), *b = filled(3, 1);
	int wrong = 0;

	wrong += tarn_stream_copy(s, a, b, NULL, -1, 0, NULL) != -EPERM;
	wrong += !strstr(tarn_error_message(), "was forked");
	wrong += tarn_stream_reap(s, 1, -1, NULL, 0) != -EPERM;
	wrong += tarn_stream_free(s) != NULL;
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	return wrong;
}

static void test_owner(void)
{
	tarn_stream *s = stream_of(0);
	tarn_tensor *dst = filled(1000, 0), *src = filled(1000, 1);
	struct tarn_completion c;
	pthread_t thread;
	void *wrong = NULL;
	int status = -1;
	pid_t pid;

	must(tarn_stream_copy(s, dst, src, NULL, -1, 0, NULL));
	if (pthread_create(&thread, NULL, use_elsewhere, s) != 0)
		bail("no thread");
	pthread_join(thread, &wrong);
	is_int(0, (intptr_t)wrong, "another thread cannot use the stream");
	pid = fork();
	if (pid == 0)
		_exit(use_in_child(s));
	waitpid(pid, &status, 0);
	is_int(0, status, "a forked child cannot use the stream");
	is_int(1, tarn_stream_reap(s, 1, -1, &c, 1),
		"the stream's own thread reaps its copy");
	is_int(1, tarn_tensor_equal(dst, src),
		"the copy has its bytes after others were refused");
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
	tarn_stream_free(s);
}

int main(void)
{
	test_options();
	test_order_and_bound();
	test_references();
	test_cancel();
	test_deadline();
	test_poll();
	test_owner();
	return done(86);
}
