// SPDX-License-Identifier: MIT
/*
 * Putting an object into a slot: packed as the last of the item's tensors. The
 * object is walked before a slot is waited for, so that nothing is held while
 * Python's code may run. Meanwhile a tensor of PyTorch's may have been given
 * other memory, and its old one freed: if the GIL was released its address is
 * checked before it is copied, and if it has moved the object is walked again.
 * While it is copied its memory is held, if that takes a while.
 *
 * An object for which the slot has no room goes into a storage of its own. It
 * is published under a name that no process looks for, the item takes it over,
 * and the name is removed; a process that dies in between leaves a name with a
 * time to live.
 */
#include "python/channel.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* Seconds in which the item must have taken a storage over; picked, long
 * enough for any daemon that is alive. */
#define SPILL_TTL_MS 60000
/* Not all of a tensor's bytes are where they were when it was packed. */
#define MOVED 2
/* A program that moves them more often, while memory is being made for them,
 * does so on purpose; picked. */
#define MOVES_MAX 8

static int failed(int r)
{
	raise_system(r);
	return -1;
}

/* ---- what is larger than a slot ------------------------------------ */

/* Filled, but not visible to any process yet. 0, MOVED or -1. */
static int spill_fill(
	const struct channel *channel, struct packer *p, tarn_tensor **ret)
{
	/* A queue's item belongs to its receiver, which may write it. */
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
	p->others_ran = true;
	r = pack_moved(p);
	if (r == 0)
		r = pack_write(p, tarn_tensor_data(tensor));
	if (r == 0)
		*ret = tensor;
	else
		tarn_tensor_unref(tensor);
	return r > 0 ? MOVED : r;
}

/* Published, added to the item, and unnamed. A number of the library's. */
static int spill_add(tarn_store *store, tarn_slot *slot, tarn_tensor *tensor)
{
	const struct tarn_publish_options options = {
		.exclusive = true,
		.ttl_ms = SPILL_TTL_MS,
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
	/* If that fails, the name ends when its time to live is over. */
	(void)!tarn_store_remove(store, name);
	return r;
}

/* 1: it has, MOVED or -1. */
static int spill(
	const struct channel *channel, tarn_slot *slot, struct packer *p)
{
	tarn_store *store = store_of(channel->store);
	tarn_tensor *tensor;
	int r = spill_fill(channel, p, &tensor);

	if (r != 0)
		return r;
	Py_BEGIN_ALLOW_THREADS
	r = spill_add(store, slot, tensor);
	tarn_tensor_unref(tensor);
	Py_END_ALLOW_THREADS
	return r < 0 ? failed(r) : 1;
}

/* ---- one slot ------------------------------------------------------ */

/* Tensors that are sent as they are, counted in *added. 0 or a number of the
 * library's. */
static int add_sent(tarn_slot *slot, const struct packer *p, size_t *added)
{
	int r = 0;

	for (size_t i = 0; i < p->n_sent && r >= 0; i++) {
		r = tarn_slot_add(slot, tensor_of(p->sent[i]));
		if (r >= 0)
			++*added;
	}
	return r;
}

/* 1: spilled, 0, MOVED, or -1. */
static int fill_slot(const struct channel *channel, tarn_slot *slot,
	struct packer *p, size_t *added)
{
	int64_t size = (int64_t)pack_size(p);
	tarn_tensor *tensor;
	int r = pack_moved(p);

	if (r != 0)
		return r > 0 ? MOVED : r;
	r = tarn_slot_new_tensor(slot, TARN_U8, 1, &size, &tensor);
	if (r == -ENOSPC)
		return spill(channel, slot, p);
	if (r < 0)
		return failed(r);
	++*added;
	r = pack_write(p, tarn_tensor_data(tensor));
	tarn_tensor_unref(tensor);
	return r;
}

static void begin(const struct channel *channel,
	const struct pack_record *records, size_t n_records, size_t n_unused,
	struct packer *ret)
{
	*ret = (struct packer) {
		.records = records,
		.n_records = n_records,
		.n_unused = n_unused,
		.plain = channel->plain,
	};
	if (n_records + n_unused + 1 < channel->tensors)
		ret->sent_max = channel->tensors - n_records - n_unused - 1;
}

/* With copies of what was to be sent as it is. (What was added of it by then
 * stays, unused, and counts: the numbers of views are of tensors before it.) */
static int pack_again(struct packer *p, PyObject *object)
{
	struct packer again = {
		.records = p->records,
		.n_records = p->n_records,
		.plain = p->plain,
	};

	pack_drop(p);
	*p = again;
	return pack_value(p, object);
}

/* Puts what p has into the slot; where a tensor cannot be sent as it is, or is
 * not where it was, all is packed anew. */
static int put_into(const struct channel *channel, tarn_slot *slot,
	struct packer *p, PyObject *object, size_t *added)
{
	int r = add_sent(slot, p, added);

	if (r < 0 && r != -ENOTSUP && r != -E2BIG)
		return failed(r);
	r = r < 0 ? MOVED : fill_slot(channel, slot, p, added);
	for (int i = 0; i < MOVES_MAX && r == MOVED; i++) {
		r = pack_again(p, object);
		if (r == 0)
			r = fill_slot(channel, slot, p, added);
	}
	if (r != MOVED)
		return r;
	PyErr_SetString(PyExc_RuntimeError,
		"put: a tensor was given other memory again and again");
	return -1;
}

int put_packed(const struct channel *channel, tarn_slot *slot,
	const struct pack_record *records, size_t n_records, size_t *n_unused,
	PyObject *object)
{
	size_t added = 0;
	struct packer p;
	int r;

	begin(channel, records, n_records, *n_unused, &p);
	r = pack_value(&p, object);
	if (r >= 0)
		r = put_into(channel, slot, &p, object, &added);
	pack_drop(&p);
	if (r < 0)
		*n_unused += added;
	return r;
}

/* Most find a slot free, and have kept the GIL. */
static int wait_slot(const struct channel *channel, double deadline,
	struct packer *p, tarn_slot **ret)
{
	int r = tarn_channel_acquire(channel->channel, 0, ret);

	if (r != -ETIMEDOUT && r != -EINTR)
		return r;
	p->others_ran = true;
	return channel_wait_slot(channel, deadline, ret);
}

int put_whole(const struct channel *channel, double deadline, PyObject *object)
{
	size_t added = 0;
	struct packer p;
	tarn_slot *slot;
	int r;

	begin(channel, NULL, 0, 0, &p);
	r = pack_value(&p, object);
	if (r < 0)
		goto out;
	r = wait_slot(channel, deadline, &p, &slot);
	if (r < 0) {
		channel_raise(channel, deadline, r);
		goto out;
	}
	r = put_into(channel, slot, &p, object, &added);
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
