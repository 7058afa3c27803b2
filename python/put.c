// SPDX-License-Identifier: MIT
/*
 * Putting an object into a slot: packed as the last of the item's tensors. The
 * object is walked before a slot is waited for, so that nothing is held while
 * Python's code may run.
 *
 * What the slot has no room for goes into a storage of its own. It is
 * published under a name that nobody looks for, the item takes it over, and
 * the name is removed; who dies in between leaves a name that ends by itself.
 */
#include "python/channel.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* Seconds in which the item must have taken a storage over; picked, long
 * enough for any daemon that is alive. */
#define SPILL_LIFE 60

static int failed(int r)
{
	raise_system(r);
	return -1;
}

/* ---- what is larger than a slot ------------------------------------ */

/* Filled; not to be seen by anybody yet. */
static int spill_fill(const struct channel *channel, const struct packer *p,
	tarn_tensor **ret)
{
	/* A queue's item is its receiver's, who may write it. */
	unsigned flags = channel->queue ? TARN_CREATE_MUTABLE : 0;
	tarn_store *store = store_of(channel->store);
	int64_t size = (int64_t)pack_size(p);
	tarn_tensor *tensor;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_create(store, TARN_U8, 1, &size, flags, &tensor);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return failed(r);
	if (pack_write(p, tarn_tensor_data(tensor)) < 0) {
		tarn_tensor_unref(tensor);
		return -1;
	}
	*ret = tensor;
	return 0;
}

/* Published, added to the item, and unnamed. A number of the library's. */
static int spill_add(tarn_store *store, tarn_slot *slot, tarn_tensor *tensor)
{
	const struct tarn_publish_options options = {
		.exclusive = true,
		.life = SPILL_LIFE,
	};
	struct tarn_publish_item item = {.tensor = tensor};
	tarn_tensor *shared;
	uint64_t random;
	char name[64];
	int r;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EAGAIN;
	snprintf(name, sizeof(name), "tarn-spilled/%d-%016llx", (int)getpid(),
		(unsigned long long)random);
	item.name = name;
	r = tarn_store_publish(store, &item, 1, &options, NULL);
	if (r < 0)
		return r;
	r = tarn_store_lookup(store, name, &shared);
	if (r >= 0) {
		r = tarn_slot_add(slot, shared);
		tarn_tensor_unref(shared);
	}
	tarn_store_remove(store, name);
	return r;
}

static int spill(
	const struct channel *channel, tarn_slot *slot, const struct packer *p)
{
	tarn_store *store = store_of(channel->store);
	tarn_tensor *tensor;
	int r;

	if (spill_fill(channel, p, &tensor) < 0)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	r = spill_add(store, slot, tensor);
	tarn_tensor_unref(tensor);
	Py_END_ALLOW_THREADS
	return r < 0 ? failed(r) : 1;
}

/* ---- one slot ------------------------------------------------------ */

/* Tensors that are sent as they are. 0 or a number of the library's. */
static int add_sent(tarn_slot *slot, const struct packer *p)
{
	int r = 0;

	for (size_t i = 0; i < p->n_sent && r >= 0; i++)
		r = tarn_slot_add(slot, tensor_of(p->sent[i]));
	return r;
}

/* 1: spilled, 0, or -1. */
static int fill_slot(
	const struct channel *channel, tarn_slot *slot, const struct packer *p)
{
	int64_t size = (int64_t)pack_size(p);
	tarn_tensor *tensor;
	int r = tarn_slot_empty(slot, TARN_U8, 1, &size, &tensor);

	if (r == -ENOSPC)
		return spill(channel, slot, p);
	if (r < 0)
		return failed(r);
	r = pack_write(p, tarn_tensor_data(tensor));
	tarn_tensor_unref(tensor);
	return r;
}

static void begin(const struct channel *channel,
	const struct pack_record *records, size_t n_records, struct packer *ret)
{
	*ret = (struct packer) {
		.records = records,
		.n_records = n_records,
		.plain = channel->plain,
	};
	if (n_records + 1 < channel->tensors)
		ret->sent_max = channel->tensors - n_records - 1;
}

/* Puts what p has into the slot; where a tensor cannot be sent as it is, all
 * is packed anew, with copies. (What was added by then stays, unused, and
 * counts: the numbers of views are of tensors before it.) */
static int put_into(const struct channel *channel, tarn_slot *slot,
	struct packer *p, PyObject *object)
{
	int r = add_sent(slot, p);

	if (r == -ENOTSUP || r == -E2BIG) {
		struct packer again = {
			.records = p->records,
			.n_records = p->n_records,
			.plain = p->plain,
		};

		pack_drop(p);
		*p = again;
		if (pack_value(p, object) < 0)
			return -1;
	} else if (r < 0) {
		return failed(r);
	}
	return fill_slot(channel, slot, p);
}

int put_packed(const struct channel *channel, tarn_slot *slot,
	const struct pack_record *records, size_t n_records, PyObject *object)
{
	struct packer p;
	int r;

	begin(channel, records, n_records, &p);
	r = pack_value(&p, object);
	if (r >= 0)
		r = put_into(channel, slot, &p, object);
	pack_drop(&p);
	return r;
}

int put_whole(const struct channel *channel, double deadline, PyObject *object)
{
	struct packer p;
	tarn_slot *slot;
	int r;

	begin(channel, NULL, 0, &p);
	r = pack_value(&p, object);
	if (r < 0)
		goto out;
	r = channel_wait_slot(channel, deadline, &slot);
	if (r < 0) {
		channel_raise(channel, r);
		goto out;
	}
	r = put_into(channel, slot, &p, object);
	if (r < 0) {
		tarn_slot_abandon(slot);
		goto out;
	}
	r = tarn_slot_publish(slot);
	if (r < 0)
		raise_system(r);
out:
	pack_drop(&p);
	return r < 0 ? -1 : 0;
}
