/* SPDX-License-Identifier: MIT */
/*
 * Opening a channel, and releasing it.
 *
 * A channel is found by its name like a tensor, and held by a lease like one. A
 * process that creates a channel publishes it and then opens the published one,
 * as every other process does. So there is one way in, and a race of creators
 * has no loser.
 */
#include "lib/channel/channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "lib/reserved.h"

/* A channel that is created, closed and removed this often during an open
 * counts as not there. */
#define OPEN_TRIES 100

int channel_fail(const tarn_channel *channel, int r)
{
	return tarn_fail_prefix(r, "channel '%.200s': ", channel->name);
}

/* ---- references -------------------------------------------------------- */

tarn_channel *channel_hold(tarn_channel *channel)
{
	/* Relaxed: the caller holds a reference. */
	atomic_fetch_add_explicit(&channel->refs, 1, memory_order_relaxed);
	return channel;
}

/* Also frees a half-built one. */
static void channel_free(tarn_channel *channel)
{
	if (channel->fork_hook.previous)
		store_remove_fork_hook(channel->store, &channel->fork_hook);
	side_done(&channel->producer);
	side_done(&channel->consumer);
	channel_unmap(channel);
	if (channel->generation)
		store_drop_lease(channel->store, channel->index,
			channel->generation, NULL);
	store_release(channel->store);
	pthread_mutex_destroy(&channel->mapping);
	free(channel->name);
	free(channel);
}

void channel_release(tarn_channel *channel)
{
	/* Release pairs with the acquire half in the thread that is last. */
	if (atomic_fetch_sub_explicit(
		    &channel->refs, 1, memory_order_acq_rel) == 1)
		channel_free(channel);
}

tarn_channel *tarn_channel_ref(tarn_channel *channel)
{
	/* Relaxed: the caller holds a reference. */
	if (channel)
		atomic_fetch_add_explicit(
			&channel->handles, 1, memory_order_relaxed);
	return channel;
}

tarn_channel *tarn_channel_unref(tarn_channel *channel)
{
	if (!channel)
		return NULL;
	/* Pairs with itself: the last one sees the others' writes. */
	if (atomic_fetch_sub_explicit(
		    &channel->handles, 1, memory_order_acq_rel) != 1)
		return NULL;
	notifier_stop(atomic_exchange(&channel->producer.notifier, NULL));
	notifier_stop(atomic_exchange(&channel->consumer.notifier, NULL));
	side_leave(channel, &channel->producer, false);
	side_leave(channel, &channel->consumer, false);
	channel_release(channel);
	return NULL;
}

const char *tarn_channel_name(const tarn_channel *channel)
{
	return channel->name;
}

/* ---- forks -------------------------------------------------------------- */

static void before_fork(void *arg)
{
	tarn_channel *channel = arg;

	pthread_mutex_lock(&channel->mapping);
	adaptive_lock_take(&channel->producer.lock);
	adaptive_lock_take(&channel->consumer.lock);
}

/* The members belong to the parent: this process has not joined. */
static void forget(tarn_channel *channel, struct side *side)
{
	if (side->member)
		member_unref(channel, side->member);
	side->member = NULL;
	side->slots = NULL;
	notifier_forget(atomic_exchange(&side->notifier, NULL));
}

static void after_fork(void *arg, bool child)
{
	tarn_channel *channel = arg;

	if (child) {
		channel->life++;
		channel_map_forget(channel);
		forget(channel, &channel->producer);
		forget(channel, &channel->consumer);
	}
	adaptive_lock_give(&channel->consumer.lock);
	adaptive_lock_give(&channel->producer.lock);
	pthread_mutex_unlock(&channel->mapping);
}

/* ---- opening ------------------------------------------------------- */

static int new_channel(tarn_store *store, const char *name, tarn_channel **ret)
{
	tarn_channel *channel = calloc(1, sizeof(*channel));
	char *copy = strdup(name);

	if (!channel || !copy) {
		free(channel);
		free(copy);
		return tarn_fail(ENOMEM, "out of memory");
	}
	atomic_init(&channel->handles, 1);
	atomic_init(&channel->refs, 1);
	atomic_init(&channel->fd, -1);
	channel->name = copy;
	channel->store = store_ref(store);
	side_init(&channel->producer, RING_PRODUCER);
	side_init(&channel->consumer, RING_CONSUMER);
	pthread_mutex_init(&channel->mapping, NULL);
	channel->fork_hook = (struct fork_hook) {.arg = channel,
		.before_fork = before_fork,
		.after_fork = after_fork};
	*ret = channel;
	return 0;
}

/* Leases the storage under the name. No object is made for a channel's storage,
 * so the lease book knows none. */
static int hold(tarn_channel *channel)
{
	tarn_store *store = channel->store;
	struct table_name found;
	tarn_storage *known = NULL;
	int r;

	r = store_read_name(
		store, channel->name, strlen(channel->name), &found);
	if (r < 0)
		return r;
	r = store_hold(store, found.descriptor.storage,
		found.descriptor.generation, NULL, &known);
	if (r < 0)
		return r;
	if (r > 0) {
		tarn_storage_unref(known);
		return tarn_fail(EINVAL, "it is a tensor's name");
	}
	channel->index = found.descriptor.storage;
	channel->generation = found.descriptor.generation;
	return 0;
}

static int check_mode(
	const tarn_channel *channel, const struct tarn_channel_options *options)
{
	static const char *const names[] = {
		[RING_QUEUE] = "queue", [RING_BROADCAST] = "broadcast"};
	int mode = (int)channel->map.geometry.ring.mode;

	if (options && options->mode && (int)options->mode != mode)
		return tarn_fail(EEXIST, "it is there, and is a %s, not a %s",
			names[mode], names[options->mode]);
	return 0;
}

/* For a closed channel: a new one under its name would hide the items left in
 * it from later consumers. The daemon checks this again before it replaces the
 * name. */
static int check_left(const tarn_channel *channel)
{
	uint32_t n = ring_left(&channel->ring);

	if (n == 0)
		return 0;
	return tarn_fail(EEXIST,
		"it is closed, %u item%s not received; receive %s, or 'tarn "
		"channel rm %.200s'",
		n, n == 1 ? "" : "s", n == 1 ? "it" : "them", channel->name);
}

/* 1: it is closed. */
static int open_once(tarn_store *store, const char *name, tarn_channel **ret)
{
	tarn_channel *channel = NULL;
	bool closed = false;
	int r = new_channel(store, name, &channel);

	if (r < 0)
		return r;
	r = hold(channel);
	if (r >= 0)
		r = channel_map_storage(channel, &closed);
	if (r < 0) {
		channel_free(channel);
		return r;
	}
	store_add_fork_hook(store, &channel->fork_hook);
	*ret = channel;
	return closed;
}

static int open_or_create(tarn_store *store, const char *name,
	const struct tarn_channel_options *options, tarn_channel **ret)
{
	tarn_channel *channel = NULL;
	int r;

	for (int i = 0; i < OPEN_TRIES; i++) {
		r = open_once(store, name, &channel);
		if (r == 0 || (r > 0 && !options)) {
			r = check_mode(channel, options);
			if (r < 0)
				tarn_channel_unref(channel);
			else
				*ret = channel;
			return r;
		}
		if (r > 0) {
			r = check_left(channel);
			channel = tarn_channel_unref(channel);
			if (r < 0)
				return r;
		} else if (r == -ENOENT && !options)
			return tarn_fail(ENOENT, "there is none of that name");
		else if (r != -ENOENT && r != -ESTALE)
			return r;
		if (r != -ESTALE)
			r = channel_create(store, name, options);
		if (r < 0 && r != -EEXIST && r != -ESTALE)
			return r;
	}
	return tarn_fail(EAGAIN,
		"it was created and removed %d times during the open; try "
		"again",
		OPEN_TRIES);
}

int tarn_channel_open(tarn_store *store, const char *name,
	const struct tarn_channel_options *options, tarn_channel **ret)
{
	int r = name_check(name, strlen(name));

	if (r >= 0)
		r = RESERVED_CHECK("tarn_channel_options", options);
	if (r >= 0 && options && options->mode > TARN_CHANNEL_BROADCAST)
		r = tarn_fail(EINVAL, "mode %d; %d is a queue, %d a broadcast",
			(int)options->mode, TARN_CHANNEL_QUEUE,
			TARN_CHANNEL_BROADCAST);
	if (r >= 0)
		r = connection_ready(&store->connection);
	if (r >= 0) {
		channel_await_leaves(store);
		r = open_or_create(store, name, options, ret);
	}
	return r < 0 ? tarn_fail_prefix(r, "channel '%.200s': ", name) : 0;
}

int tarn_channel_close(tarn_channel *channel)
{
	/* A copy in private memory: no member uses it. */
	struct ring ring = channel->ring;
	int r = ring_close(&ring);

	if (r < 0)
		return channel_fail(channel, r);
	channel_sync(channel);
	return 0;
}
