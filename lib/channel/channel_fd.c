/* SPDX-License-Identifier: MIT */
/*
 * A descriptor for event loops.
 *
 * The kernel wakes a poller only for its own events, and a hand-over is a store
 * in shared memory. So there is a thread that sleeps like a consumer or
 * producer, but as a watcher that takes nothing, and writes to an eventfd when
 * there is something. It does so once; then it waits until a caller that tried
 * and found nothing arms it again.
 *
 * No event is missed. The caller that arms reads the eventfd empty (A1), then
 * sets armed (A2); the thread, when there is something, clears armed (B1), then
 * writes the eventfd (B2). Whichever way these fall, at the end the eventfd is
 * readable or the thread is armed, and it looks before it sleeps.
 *
 * The child of a fork has no such thread, and no notifier: it makes its own.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/channel/channel.h"

struct notifier {
	tarn_channel *channel; /* borrowed: it outlives the notifier */
	struct side *side;
	int fd;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool armed;
	atomic_bool stop;
};

/* ---- the thread ---------------------------------------------------- */

/* False: to stop. */
static bool await_armed(struct notifier *notifier)
{
	bool armed;

	pthread_mutex_lock(&notifier->lock);
	while (!notifier->armed && !notifier->stop)
		pthread_cond_wait(&notifier->changed, &notifier->lock);
	armed = !notifier->stop;
	pthread_mutex_unlock(&notifier->lock);
	return armed;
}

/* So that a member that has left since, or was taken for dead, is reported. */
static int look(void *arg)
{
	struct notifier *notifier = arg;
	struct side *side = notifier->side;
	bool ready;

	if (notifier->stop)
		return 1;
	adaptive_lock_take(&side->lock);
	ready = !side->member ||
		ring_ready(&side->member->ring, (enum ring_kind)side->kind);
	adaptive_lock_give(&side->lock);
	return ready;
}

static void await_ready(struct notifier *notifier)
{
	const struct ring_wait wait = {
		.deadline_ns = UINT64_MAX, .watcher = true};
	struct ring ring = notifier->channel->ring;

	ring.spin_max = 0; /* a poller does not need the lowest latency */
	ring_wait_for(&ring,
		notifier->side->kind == RING_PRODUCER ? RING_SPACE : RING_ITEMS,
		&wait, look, notifier);
}

static void notifier_signal(struct notifier *notifier)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&notifier->lock);
	notifier->armed = false; /* B1 */
	pthread_mutex_unlock(&notifier->lock);
	/* B2. It fails only after 2^64 writes. */
	if (write(notifier->fd, &one, sizeof(one)) < 0)
		return;
}

static void *run(void *arg)
{
	struct notifier *notifier = arg;

	while (await_armed(notifier)) {
		await_ready(notifier);
		notifier_signal(notifier);
	}
	return NULL;
}

/* ---- arming ------------------------------------------------------ */

void notifier_arm(struct notifier *notifier)
{
	uint64_t times;

	/* A1. If it is empty already, that is as good. */
	if (read(notifier->fd, &times, sizeof(times)) < 0)
		times = 0;
	pthread_mutex_lock(&notifier->lock);
	notifier->armed = true; /* A2 */
	pthread_cond_signal(&notifier->changed);
	pthread_mutex_unlock(&notifier->lock);
}

/* ---- life -------------------------------------------------------- */

/* This thread, which the program does not know, handles none of its signals. */
static int start(struct notifier *notifier)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&notifier->thread, NULL, run, notifier);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err ? tarn_fail(err, "a thread: %s", tarn_errno_text(err)) : 0;
}

static void notifier_free(struct notifier *notifier)
{
	fd_close(notifier->fd);
	pthread_mutex_destroy(&notifier->lock);
	pthread_cond_destroy(&notifier->changed);
	free(notifier);
}

static int notifier_new(
	tarn_channel *channel, struct side *side, struct notifier **ret)
{
	struct notifier *notifier = calloc(1, sizeof(*notifier));
	int r;

	if (!notifier)
		return tarn_fail(ENOMEM, "out of memory");
	notifier->channel = channel;
	notifier->side = side;
	notifier->armed = true;
	pthread_mutex_init(&notifier->lock, NULL);
	pthread_cond_init(&notifier->changed, NULL);
	notifier->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = notifier->fd < 0
		    ? tarn_fail(errno, "an eventfd: %s", tarn_errno_text(errno))
		    : start(notifier);
	if (r < 0)
		notifier_free(notifier);
	else
		*ret = notifier;
	return r;
}

void notifier_stop(struct notifier *notifier)
{
	if (!notifier)
		return;
	pthread_mutex_lock(&notifier->lock);
	notifier->stop = true;
	pthread_cond_signal(&notifier->changed);
	pthread_mutex_unlock(&notifier->lock);
	ring_stir(&notifier->channel->ring);
	pthread_join(notifier->thread, NULL);
	notifier_free(notifier);
}

void notifier_forget(struct notifier *notifier)
{
	if (!notifier)
		return;
	/* Its locks may be held by threads that the child does not have. */
	fd_close(notifier->fd);
	free(notifier);
}

static int notifier_of(tarn_channel *channel, struct side *side)
{
	struct notifier *notifier = atomic_load(&side->notifier), *none = NULL;
	int r;

	if (notifier)
		return notifier->fd;
	r = notifier_new(channel, side, &notifier);
	if (r < 0)
		return r;
	/* Another thread may have started one at the same time. */
	if (atomic_compare_exchange_strong(&side->notifier, &none, notifier))
		return notifier->fd;
	notifier_stop(notifier);
	return none->fd;
}

int tarn_channel_fd(tarn_channel *channel, enum tarn_channel_role role)
{
	struct side *side;
	int r = 0;

	if (role != TARN_CHANNEL_PRODUCER && role != TARN_CHANNEL_CONSUMER)
		r = tarn_fail(EINVAL,
			"role %d; %d is a producer, %d a consumer", (int)role,
			TARN_CHANNEL_PRODUCER, TARN_CHANNEL_CONSUMER);
	side = channel_side(channel, role);
	if (r >= 0)
		r = side_join(channel, side);
	if (r >= 0)
		r = notifier_of(channel, side);
	return r < 0 ? channel_fail(channel, r) : r;
}
