/* SPDX-License-Identifier: MIT */
/*
 * Channels in Python: three types over those of the library.
 *
 * A Slot and an Item end before Python's object does, and threads may share
 * one. So a method takes the library's slot out of the object, and puts it back
 * when it is done: meanwhile another thread finds none and raises, instead of
 * using a slot that is gone. Many threads may read an item at once, and it ends
 * when the last of them has ended it.
 */
#pragma once

#include "python/module.h"
#include "python/pack.h"

struct channel {
	PyObject_HEAD
	tarn_channel *channel;
	PyObject *store; /* what it was opened by */
	PyObject *weak_references;
	uint32_t tensors; /* of one item at most */
	bool queue;
	bool plain; /* nothing is pickled */
};

extern PyTypeObject *channel_type, *slot_type, *item_type;
extern PyType_Spec slot_spec, item_spec;

static inline struct channel *channel_of(PyObject *object)
{
	return (struct channel *)object;
}

/* The other part of Channel. */
extern PyMethodDef channel_member_methods[];
extern PyGetSetDef channel_properties[];
/* The role of that text; -1 with an exception that begins with name. */
int channel_role(const char *name, const char *text, unsigned *ret);

/* ---- channel.c ----------------------------------------------------- */

/* For types with objects that only a Channel makes. */
PyObject *channel_refuse_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords);

/* Waits with the deadline of deadline_argument, without the GIL where it has
 * to; a number of the library's. An exception is set where a signal's handler
 * raised. */
int channel_wait_slot(
	const struct channel *channel, double deadline, tarn_slot **ret);
int channel_wait_item(
	const struct channel *channel, double deadline, tarn_item **ret);

/* Raises the error of a wait with that deadline; returns NULL. */
PyObject *channel_raise(const struct channel *channel, double deadline, int r);

/* ---- slot.c -------------------------------------------------------- */

/* Takes the slot over, also when it fails. */
PyObject *slot_wrap_consume(PyObject *channel, tarn_slot *slot);

/* ---- item.c -------------------------------------------------------- */

/* Takes the item over, also when it fails. */
PyObject *item_wrap_consume(PyObject *channel, tarn_item *item);
/* The object that put packed into it, or NULL. */
PyObject *item_unpack(const struct channel *channel, tarn_item *item);

/* ---- slot_put.c ---------------------------------------------------- */

/* Packs an object into a slot that has the records, as the last of its
 * tensors. 1: into memory of its own, since the slot has no room; 0; -1.
 * *n_unused: tensors that it has beside them, of puts that failed half way;
 * this one's are added if it does. */
int put_packed(const struct channel *channel, tarn_slot *slot,
	const struct pack_record *records, size_t n_records, size_t *n_unused,
	PyObject *object);
/* ch.put(object): the same with a slot that is waited for, and published. 0
 * or -1. */
int put_whole(const struct channel *channel, double deadline, PyObject *object);
