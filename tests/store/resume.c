/* SPDX-License-Identifier: MIT */
/*
 * Another server takes over while a call waits, as the client sees it: it
 * sends the request again, once. It waits for resources that are missing for a
 * moment; if they are missing for longer, that call fails with the reason, and
 * no other. Other calls do not wait meanwhile: they may be about to give the
 * resources back.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/fake_daemon.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define PATIENCE_MS 60000 /* on a loaded machine */

static tarn_store *opened(struct fake *fake, enum fake_mode mode)
{
	tarn_store *store;
	int fd = fake_start(fake, mode);

	if (store_open_fd(fd, "/the/socket", "", PATIENCE_MS, &store) < 0)
		bail("open: %s", tarn_error_message());
	return store;
}

/* ---- time ---------------------------------------------------------------- */

/* Time stands still meanwhile: linked instead of the original. */
static atomic_bool stopped;
static struct timespec stopped_at;
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
/* Or it leaps: the thread that asks is not run for an hour, when it has asked so
 * many times and there is something for it in the socket. */
static __thread int leaps_after;
static __thread int leaps_with;
static atomic_int leapt;

static void leap(void)
{
	struct pollfd p = {.fd = leaps_with, .events = POLLIN};

	if (leaps_after && --leaps_after == 0 && poll(&p, 1, 500) == 1)
		leapt += 3600;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r;

	if (stopped) {
		*ret = stopped_at;
		return 0;
	}
	leap();
	r = __real_clock_gettime(clock, ret);
	ret->tv_sec += leapt;
	return r;
}

static void stop_time(void)
{
	__real_clock_gettime(CLOCK_MONOTONIC, &stopped_at);
	stopped = true;
}

/* ---- what is missing ----------------------------------------------------- */

/* There is no memory to say that it resumes, so many times: linked instead of
 * the original. */
static int resumes_denied, resents_denied;
/* Nor to ask again, so many times, or not that. */
static atomic_int again_denied;
static int again_error;
int __real_wire_push(struct wire_writer *writer, const struct wire_out *out);
int __wrap_wire_push(struct wire_writer *writer, const struct wire_out *out);
int __wrap_wire_push(struct wire_writer *writer, const struct wire_out *out)
{
	if (out->type == WIRE_RESUME && resumes_denied) {
		resumes_denied--;
		return -ENOMEM;
	}
	if (out->type == WIRE_RESENT && resents_denied) {
		resents_denied--;
		return -ENOMEM;
	}
	if (out->again && again_denied) {
		again_denied--;
		return -again_error;
	}
	return __real_wire_push(writer, out);
}

static int status_of_restarted(int denied, int error)
{
	struct tarn_report_daemon status;
	struct fake fake;
	tarn_store *store = opened(&fake, FAKE_REPORT_KILLS);
	int r;

	again_denied = denied;
	again_error = error;
	if (denied != INT_MAX)
		stop_time();
	r = report_daemon(store, &status);
	stopped = false;
	again_denied = 0;
	if (r < 0) {
		ok(!strstr(tarn_error_message(), "died twice"),
			"the error does not say that the server died");
		has_str("look whether it was done", tarn_error_message(),
			"the error says what to do");
		is_int(0, fake.n_again, "a failed call is not sent again");
		is_int(0, report_daemon(store, &status),
			"the next call is served");
	}
	fake_stop(&fake);
	tarn_store_unref(store);
	return r;
}

static void test_short(void)
{
	static const int errors[] = {ENOMEM, EMFILE, ENFILE, ENOBUFS};

	for (size_t i = 0; i < 4; i++) {
		const char *text = strerror(errors[i]);

		is_int(0, status_of_restarted(3, errors[i]),
			"%s three times does not fail a resend", text);
		is_int(-errors[i], status_of_restarted(INT_MAX, errors[i]),
			"%s for ever fails the call", text);
	}
}

/* ---- what others give back ----------------------------------------------- */

static void *ask(void *store)
{
	struct tarn_report_daemon status;

	return (void *)(intptr_t)report_daemon(store, &status);
}

static void test_others(void)
{
	struct tarn_report_daemon status;
	pthread_t thread;
	struct fake fake;
	tarn_store *store = opened(&fake, FAKE_REPORT_KILLS);
	void *r;

	again_denied = INT_MAX;
	again_error = EMFILE;
	stop_time();
	if (pthread_create(&thread, NULL, ask, store) != 0)
		bail("no thread");
	while (again_denied == INT_MAX)
		usleep(1000);
	is_int(0, report_daemon(store, &status),
		"other calls are served while one waits for descriptors");
	is_int(0, fake.n_again, "the waiting call has not been sent again yet");
	is_int(0, fake.n_resent,
		"the server is not told that the call was answered");
	again_denied = 0;
	pthread_join(thread, &r);
	stopped = false;
	is_int(0, (intptr_t)r,
		"the call is sent when descriptors are given back");
	is_int(1, fake.n_again, "the waiting call is sent again once");
	fake_stop(&fake);
	tarn_store_unref(store);
}

/* Whenever it happens, an answer that has come is taken. */
static void test_not_run(void)
{
	struct tarn_report_daemon status;
	struct fake fake;
	tarn_store *store = opened(&fake, FAKE_GOOD);
	int lost = 0;

	leaps_with = store->connection.fd;
	/* All over again if no answer came while it waited for one. */
	for (int i = 0; i < 8 || (i < 800 && !leapt); i++) {
		leaps_after = i % 8 + 1;
		lost += report_daemon(store, &status) < 0;
	}
	leaps_after = 0;
	ok(leapt > 0, "a caller is not run for an hour, %d times",
		leapt / 3600);
	is_int(0, lost, "its answer, which has come meanwhile, is taken");
	fake_stop(&fake);
	tarn_store_unref(store);
}

static void test_restart(void)
{
	struct tarn_report_daemon status;
	struct fake fake;
	tarn_store *store = opened(&fake, FAKE_REPORT_KILLS);

	is_int(0, report_daemon(store, &status),
		"a call that one server died of is answered by the next");
	is_int(1, fake.n_resumed, "the connection was resumed once");
	is_int(1, fake.n_again, "the call was sent again and marked as such");
	/* It comes behind what was asked again, and is not answered. */
	for (int ms = 0; ms < 60000 && !fake.n_resent; ms++)
		usleep(1000);
	is_int(1, fake.n_resent, "the resume was ended by a message");
	is_int(0, report_daemon(store, &status),
		"the next call succeeds as before");
	is_int(1, fake.n_again, "a new call is not marked as sent again");
	is_int(1, fake.n_resent,
		"a new call does not send the end of a resume");
	fake_stop(&fake);
	tarn_store_unref(store);
	store = opened(&fake, FAKE_REPORT_KILLS);
	resumes_denied = 3;
	stop_time();
	is_int(0, report_daemon(store, &status),
		"a resume without memory for its message is tried again");
	stopped = false;
	is_int(0, resumes_denied,
		"memory for the resume message was missing three times");
	fake_stop(&fake);
	tarn_store_unref(store);
	store = opened(&fake, FAKE_REPORT_KILLS);
	resents_denied = 1;
	is_int(0, report_daemon(store, &status),
		"the answer arrives without memory for the resume's end");
	is_int(0, report_daemon(store, &status), "a second call succeeds, too");
	is_int(1, fake.n_resent,
		"the end of the resume is sent once before it");
	fake_stop(&fake);
	tarn_store_unref(store);
	store = opened(&fake, FAKE_REPORT_KILLS);
	resumes_denied = INT_MAX;
	is_int(-ENOMEM, report_daemon(store, &status),
		"a resume without memory for ever ends the connection");
	resumes_denied = 0;
	is_int(-ENOMEM, report_daemon(store, &status),
		"the next call says that the connection has ended");
	fake_stop(&fake);
	tarn_store_unref(store);
	store = opened(&fake, FAKE_REPORT_KILLS_TWICE);
	is_int(-ECONNRESET, report_daemon(store, &status),
		"a call that two servers died of is not sent again");
	has_str("died twice", tarn_error_message(),
		"the error says that the server died twice");
	is_int(0, report_daemon(store, &status),
		"the connection works after the second death");
	is_int(2, fake.n_resumed, "the connection was resumed twice");
	fake_stop(&fake);
	tarn_store_unref(store);
}

int main(void)
{
	int fds = count_fds(getpid());

	test_restart();
	test_short();
	test_others();
	test_not_run();
	is_int(fds, count_fds(getpid()), "no descriptor is left open");
	return done(50);
}
