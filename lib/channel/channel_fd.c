/* SPDX-License-Identifier: MIT */
/*
 * A descriptor for event loops.
 *
 * The kernel wakes who polls only for what the kernel does, and a hand-over is
 * a store in shared memory. So there is a thread that sleeps where a consumer
 * or producer would, as one who takes nothing, and says on an eventfd that
 * there is something. It does so once; then it waits to be armed again, by
 * whoever has tried and found nothing.
 *
 * Nothing is missed. Who arms reads the eventfd empty (A1), then says so (A2);
 * the thread, when there is something, takes that back (B1), then writes the
 * eventfd (B2). Whichever way these fall, at the end the eventfd is readable or
 * the thread is armed, and it looks before it sleeps.
 *
 * The child of a fork has no such thread, and no bell: it asks for one of its
 * own.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/channel/channel.h"

struct bell {
	tarn_channel *channel; /* borrowed: it stops us before it goes */
	struct side *side;
	int fd;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool armed;
	atomic_bool stop;
};

/* ---- the thread -------------------------------------------------------------
 */

/* False: to stop. */
static bool await_armed(struct bell *bell)
{
	bool armed;

	pthread_mutex_lock(&bell->lock);
	while (!bell->armed && !bell->stop)
		pthread_cond_wait(&bell->changed, &bell->lock);
	armed = !bell->stop;
	pthread_mutex_unlock(&bell->lock);
	return armed;
}

/* Who has left since, or was taken for dead, is to find out. */
static int look(void *arg)
{
	struct bell *bell = arg;
	struct side *side = bell->side;
	bool ready;

	if (bell->stop)
		return 1;
	brief_lock(&side->lock);
	ready = !side->member ||
		ring_ready(&side->member->ring, (enum ring_kind)side->kind);
	brief_unlock(&side->lock);
	return ready;
}

static void await_ready(struct bell *bell)
{
	const struct ring_wait wait = {
		.deadline_ns = UINT64_MAX, .watcher = true};
	struct ring ring = bell->channel->ring;

	ring.spin_max = 0; /* whoever polls has time */
	ring_wait_for(&ring,
		bell->side->kind == RING_PRODUCER ? RING_SPACE : RING_ITEMS,
		&wait, look, bell);
}

static void ring_the_bell(struct bell *bell)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&bell->lock);
	bell->armed = false; /* B1 */
	pthread_mutex_unlock(&bell->lock);
	/* B2. It fails only where it is rung 2^64 times. */
	if (write(bell->fd, &one, sizeof(one)) < 0)
		return;
}

static void *run(void *arg)
{
	struct bell *bell = arg;

	while (await_armed(bell)) {
		await_ready(bell);
		ring_the_bell(bell);
	}
	return NULL;
}

/* ---- arming
 * ------------------------------------------------------------------ */

void bell_arm(struct bell *bell)
{
	uint64_t times;

	/* A1. Empty already is as good. */
	if (read(bell->fd, &times, sizeof(times)) < 0)
		times = 0;
	pthread_mutex_lock(&bell->lock);
	bell->armed = true; /* A2 */
	pthread_cond_signal(&bell->changed);
	pthread_mutex_unlock(&bell->lock);
}

/* ---- life
 * -------------------------------------------------------------------- */

/* No signal of the program's is handled in a thread that it does not know. */
static int start(struct bell *bell)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&bell->thread, NULL, run, bell);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err ? tarn_fail(err, "a thread: %s", tarn_errno_text(err)) : 0;
}

static void free_bell(struct bell *bell)
{
	fd_close(bell->fd);
	pthread_mutex_destroy(&bell->lock);
	pthread_cond_destroy(&bell->changed);
	free(bell);
}

static int new_bell(tarn_channel *channel, struct side *side, struct bell **ret)
{
	struct bell *bell = calloc(1, sizeof(*bell));
	int r;

	if (!bell)
		return tarn_fail(ENOMEM, "out of memory");
	bell->channel = channel;
	bell->side = side;
	bell->armed = true;
	pthread_mutex_init(&bell->lock, NULL);
	pthread_cond_init(&bell->changed, NULL);
	bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = bell->fd < 0
		    ? tarn_fail(errno, "an eventfd: %s", tarn_errno_text(errno))
		    : start(bell);
	if (r < 0)
		free_bell(bell);
	else
		*ret = bell;
	return r;
}

void bell_stop(struct bell *bell)
{
	if (!bell)
		return;
	pthread_mutex_lock(&bell->lock);
	bell->stop = true;
	pthread_cond_signal(&bell->changed);
	pthread_mutex_unlock(&bell->lock);
	ring_wake_everybody(&bell->channel->ring);
	pthread_join(bell->thread, NULL);
	free_bell(bell);
}

void bell_forget(struct bell *bell)
{
	if (!bell)
		return;
	/* Its locks may be held by who is not here. */
	fd_close(bell->fd);
	free(bell);
}

static int bell_of(tarn_channel *channel, struct side *side)
{
	struct bell *bell = atomic_load(&side->bell), *none = NULL;
	int r;

	if (bell)
		return bell->fd;
	r = new_bell(channel, side, &bell);
	if (r < 0)
		return r;
	/* Another thread may have asked at the same time. */
	if (atomic_compare_exchange_strong(&side->bell, &none, bell))
		return bell->fd;
	bell_stop(bell);
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
		r = bell_of(channel, side);
	return r < 0 ? channel_fail(channel, r) : r;
}
