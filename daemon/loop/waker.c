/* SPDX-License-Identifier: MIT */
/*
 * A queue of words, each in it once, and a tree by which a word is found there.
 *
 * A word's mapping may go away while the word is queued, or while the thread
 * wakes there, and the thread does not learn of it. It need not: it never reads
 * or writes the word, and gives only its address to the kernel. At an address
 * where nothing is mapped any more the kernel finds nothing to wake. Where
 * something else is mapped meanwhile, the threads that wait there are woken for
 * nothing, which any wait on a futex allows for. Nor is a wake-up lost that
 * somebody needs: a domain goes when no client is left in it, and a channel
 * when no client has a lease on it.
 */
#include "daemon/loop/waker.h"

#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>

#include "shm/wake.h"

struct queued {
	struct queued *next;
	_Atomic uint32_t *word;
};

static struct {
	pthread_mutex_t lock; /* everything below */
	pthread_cond_t more;
	pthread_t thread;
	bool started, ending;
	struct queued *first, **last;
	void *tree;
} waker = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.more = PTHREAD_COND_INITIALIZER,
};

/* ---- the queue ------------------------------------------------------- */

static int by_word(const void *a, const void *b)
{
	const struct queued *x = a, *y = b;

	return (x->word > y->word) - (x->word < y->word);
}

/* Puts it at the end, or frees it if its word is queued. False: no memory. */
static bool add(struct queued *q)
{
	struct queued **found = tsearch(q, &waker.tree, by_word);

	if (!found)
		return false;
	if (*found != q) {
		free(q);
		return true;
	}
	q->next = NULL;
	*waker.last = q;
	waker.last = &q->next;
	return true;
}

static struct queued *take(void)
{
	struct queued *q = waker.first;

	if (!q)
		return NULL;
	waker.first = q->next;
	if (!waker.first)
		waker.last = &waker.first;
	tdelete(q, &waker.tree, by_word);
	return q;
}

/* ---- the thread ------------------------------------------------------ */

/* It was taken before its waits are woken: who changes the word meanwhile queues
 * it anew. Then it is at the end of the queue, or done with; without memory it
 * is gone on with. */
static void wake_batch(struct queued *q)
{
	bool full;

	do {
		pthread_mutex_unlock(&waker.lock);
		full = wake_some(q->word) == WAKE_AT_ONCE;
		pthread_mutex_lock(&waker.lock);
	} while (full && !add(q));
	if (!full)
		free(q);
}

static void *waker_main(void *arg)
{
	struct queued *q;

	pthread_mutex_lock(&waker.lock);
	while (!waker.ending) {
		q = take();
		if (q)
			wake_batch(q);
		else
			pthread_cond_wait(&waker.more, &waker.lock);
	}
	pthread_mutex_unlock(&waker.lock);
	return arg;
}

/* A signal is for the thread that serves: it would be lost here. */
static bool start(void)
{
	pthread_attr_t attr;
	sigset_t all, old;

	if (waker.started)
		return true;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	waker.started =
		pthread_create(&waker.thread, &attr, waker_main, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return waker.started;
}

/* ---- for threads that leave words to it ------------------------------ */

static bool leave(_Atomic uint32_t *word)
{
	struct queued *q = start() ? malloc(sizeof(*q)) : NULL;
	bool left;

	if (!q)
		return false;
	q->word = word;
	pthread_mutex_lock(&waker.lock);
	left = add(q);
	if (left)
		pthread_cond_signal(&waker.more);
	pthread_mutex_unlock(&waker.lock);
	if (!left)
		free(q);
	return left;
}

void waker_begin(void)
{
	waker.ending = false;
	waker.last = &waker.first;
	wake_leave_to(leave);
}

void waker_end(void)
{
	struct queued *q;

	wake_leave_to(NULL);
	if (!waker.started)
		return;
	pthread_mutex_lock(&waker.lock);
	waker.ending = true;
	pthread_cond_signal(&waker.more);
	pthread_mutex_unlock(&waker.lock);
	pthread_join(waker.thread, NULL);
	waker.started = false;
	while ((q = take()))
		free(q);
}
