/* SPDX-License-Identifier: MIT */
/*
 * A queue and a thread, started when the first descriptor comes.
 *
 * The thread is detached and the queue is counted by both sides, so that a
 * thread that hangs in close() for ever can be left behind.
 */
#include "daemon/closer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"
#include "daemon/loop.h"

#define STUCK_NS 1000000000ull /* picked: no sound file takes so long */
#define STAT_SIZE 512          /* of a thread's line in /proc */

struct waiting {
	struct waiting *next;
	int fd;
};

struct closer {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct waiting *first, **last;
	unsigned n_waiting; /* the one being closed included */
	uint64_t moved_at;  /* when the one being closed was begun with */
	pid_t tid;          /* of the thread; 0: it has not begun */
	int refs;           /* server, thread */
	int started;
	int ending;
};

int closer_new(struct closer **ret)
{
	struct closer *closer = calloc(1, sizeof(*closer));

	if (!closer)
		return tarn_fail(ENOMEM, "out of memory");
	pthread_mutex_init(&closer->lock, NULL);
	pthread_cond_init(&closer->more, NULL);
	closer->last = &closer->first;
	closer->refs = 1;
	*ret = closer;
	return 0;
}

/* Called with the lock held; lets go of it. */
static void unref_unlock(struct closer *closer)
{
	int left = --closer->refs;

	pthread_mutex_unlock(&closer->lock);
	if (left > 0)
		return;
	pthread_mutex_destroy(&closer->lock);
	pthread_cond_destroy(&closer->more);
	free(closer);
}

static void *closer_main(void *arg)
{
	struct closer *closer = arg;

	pthread_mutex_lock(&closer->lock);
	closer->tid = gettid();
	for (;;) {
		struct waiting *w = closer->first;

		if (!w && closer->ending)
			break;
		if (!w) {
			pthread_cond_wait(&closer->more, &closer->lock);
			continue;
		}
		closer->first = w->next;
		closer->moved_at = loop_now();
		if (!closer->first)
			closer->last = &closer->first;
		pthread_mutex_unlock(&closer->lock);
		fd_close(w->fd);
		free(w);
		pthread_mutex_lock(&closer->lock);
		closer->n_waiting--;
	}
	unref_unlock(closer);
	return NULL;
}

static int start(struct closer *closer)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 64 << 10);
	r = pthread_create(&thread, &attr, closer_main, closer);
	pthread_attr_destroy(&attr);
	if (r == 0) {
		closer->started = 1;
		closer->refs++;
	}
	return -r;
}

void closer_close(struct closer *closer, int fd)
{
	struct waiting *w;

	if (fd < 0)
		return;
	w = malloc(sizeof(*w));
	pthread_mutex_lock(&closer->lock);
	if (w && (closer->started || start(closer) == 0)) {
		*w = (struct waiting) {.fd = fd};
		*closer->last = w;
		closer->last = &w->next;
		if (!closer->n_waiting++)
			closer->moved_at = loop_now();
		pthread_cond_signal(&closer->more);
	} else {
		/* Kept open rather than a chance to hang. */
		log_error("close_failed", log_i64("fd", fd),
			log_text("error", "out of memory"));
		free(w);
	}
	pthread_mutex_unlock(&closer->lock);
}

/* A thread that would run if there were a processor for it hangs in no file:
 * on a busy machine it may have its turn much later than who sends it more. */
static bool is_runnable(pid_t tid)
{
	char path[64], text[STAT_SIZE];
	const char *end;

	if (!tid)
		return true;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	if (fd_read_text(path, text, sizeof(text)) <= 0)
		return false;
	end = strrchr(text, ')');
	return end && strncmp(end, ") R", 3) == 0;
}

bool closer_is_stuck(struct closer *closer, unsigned max, bool *ret_many)
{
	uint64_t moved_at;
	pid_t tid;

	pthread_mutex_lock(&closer->lock);
	*ret_many = closer->n_waiting > max;
	moved_at = closer->moved_at;
	tid = closer->tid;
	pthread_mutex_unlock(&closer->lock);
	return *ret_many && loop_now() - moved_at > STUCK_NS &&
	       !is_runnable(tid);
}

struct closer *closer_free(struct closer *closer)
{
	if (!closer)
		return NULL;
	pthread_mutex_lock(&closer->lock);
	closer->ending = 1;
	pthread_cond_signal(&closer->more);
	unref_unlock(closer);
	return NULL;
}
