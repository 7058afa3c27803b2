/* SPDX-License-Identifier: MIT */
/*
 * Files that the engine of a stream has open, counted: a hundred thousand
 * copies out of one file open it there once, not each for itself.
 */
#pragma once

#include "base/cleanup.h"
#include "lib/io/io.h"
#include "lib/tensor/storage.h"

struct file_slots;

int file_slots_new(struct tarn_io *io, struct file_slots **ret) _must_check_;

/* Nothing is under way. Takes NULL and returns NULL. */
struct file_slots *file_slots_free(struct file_slots *files);
DEFINE_CLEANUP(struct file_slots *, file_slots_free);

/*
 * The engine's slot for fd, which is one of storage's own (its descriptor, or
 * the direct one), unless *slot is >= 0 already: 1; 0: all are in use, and some
 * will come free; -EMFILE. Each that was taken is dropped once; while it is in
 * use, or remembered, the storage is kept.
 */
int file_slots_take(struct file_slots *files, tarn_storage *storage, int fd,
	int *slot) _must_check_;
/* *slot becomes -1; if it is negative, nothing was taken. */
void file_slots_drop(struct file_slots *files, int *slot);

/* Lets go of what is not in use, and so of the storages. */
void file_slots_trim(struct file_slots *files);
