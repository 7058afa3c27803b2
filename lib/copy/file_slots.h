/* SPDX-License-Identifier: MIT */
/*
 * Files that the engine of a stream has open, counted: a hundred thousand
 * copies out of one file open it there once, not once each.
 */
#pragma once

#include "base/cleanup.h"
#include "lib/io/io.h"
#include "lib/tensor/storage.h"

struct file_slots;

int file_slots_new(struct tarn_io *io, struct file_slots **ret) _must_check_;

/* No request may be under way. Takes NULL and returns NULL. */
struct file_slots *file_slots_free(struct file_slots *files);
DEFINE_CLEANUP(struct file_slots *, file_slots_free);

/* The engine's slots for one side of a copy; -1: none. */
struct file_slot {
	int buffered, direct;
};

#define FILE_SLOT_NONE ((struct file_slot) {.buffered = -1, .direct = -1})

/*
 * Slots for fd and for direct, unless that is -1, which are storage's own, if
 * *slot has none: 1; 0: too many are in use, and one will come free. Both or
 * none: a copy that has slots can go on, so copies that wait for slots do not
 * wait for each other. Taken slots must be dropped once; while they are in use,
 * or cached, the storage is kept. -EMFILE, -EBADF: the engine cannot open it.
 */
int file_slots_take(struct file_slots *files, tarn_storage *storage, int fd,
	int direct, struct file_slot *slot) _must_check_;
/* *slot becomes none; if it is none already, this does nothing. */
void file_slots_drop(struct file_slots *files, struct file_slot *slot);

/* Has a slot been returned since a copy was told to wait? Resets the flag. */
bool file_slots_came_free(struct file_slots *files);

/* Closes all unused ones, and so releases their storages. */
void file_slots_trim(struct file_slots *files);
