// SPDX-License-Identifier: MIT
/*
 * One descriptor for poll(), an epoll set of three: the engine's own, which is
 * readable when requests are done; a counter, for what the engine does not know
 * of (copies to be reaped or begun, memory to be moved); and a timer for
 * deadlines. They cost system calls, so they are kept up to date only after the
 * caller asked for the descriptor.
 */
#include "lib/copy/stream.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

static int watch(tarn_stream *s, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	return 0;
}

int stream_poll_open(tarn_stream *s)
{
	int engine_fd = tarn_io_fd(s->env.io), r = 0;

	if (engine_fd < 0)
		return engine_fd;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		r = -errno;
	if (r >= 0) {
		s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r = watch(s, s->event_fd);
	}
	if (r >= 0) {
		s->timer_fd = timerfd_create(
			CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		r = watch(s, s->timer_fd);
	}
	if (r >= 0)
		r = watch(s, engine_fd);
	if (r < 0)
		return tarn_fail(-r, "stream: it gets no descriptor: %s",
			tarn_errno_text(-r));
	return 0;
}

void stream_poll_close(tarn_stream *s)
{
	s->epoll_fd = fd_close(s->epoll_fd);
	s->event_fd = fd_close(s->event_fd);
	s->timer_fd = fd_close(s->timer_fd);
}

static void signal_if(tarn_stream *s, bool wanted)
{
	uint64_t count = 1;

	if (wanted == s->signalled)
		return;
	s->signalled = wanted;
	/* One counter, used by one thread: it is never full, never empty. */
	if (wanted ? write(s->event_fd, &count, 8) != 8
		   : read(s->event_fd, &count, 8) != 8)
		abort();
}

/* 0 would disarm it; a time that has passed makes it readable at once. */
static void arm(tarn_stream *s, int64_t at)
{
	struct itimerspec when = {.it_value = {
					  .tv_sec = at / 1000000000,
					  .tv_nsec = at % 1000000000,
				  }};

	if (at == s->armed)
		return;
	s->armed = at;
	if (at == STREAM_NEVER)
		when = (struct itimerspec) {0};
	timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void stream_poll_update(tarn_stream *s)
{
	if (!s->polled)
		return;
	signal_if(s, s->done.n || s->memory.n || s->unsubmitted ||
			     s->called_back ||
			     (s->waiting.n && tarn_io_pending(s->env.io) == 0));
	arm(s, s->earliest);
}

int tarn_stream_fd(const tarn_stream *stream)
{
	tarn_stream *s = (tarn_stream *)stream; /* the caller's stream is not
						 * const */

	s->polled = true;
	tarn_io_watch(s->env.io);
	stream_poll_update(s);
	return s->epoll_fd;
}
