/* SPDX-License-Identifier: MIT */
/* A ring by itself, in memory of this process: what has to go well bails out if
 * it does not. There is one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/ring.h"

#define KIT_SLOT_BYTES 4096u

extern const struct ring_wait kit_forever;

/* A new one, in place of the last. */
void kit_make(enum ring_mode mode, uint32_t slots);
/* Its words, and how many bytes they take. */
extern void *kit_memory;
extern size_t kit_size;
void kit_drop(void);

struct ring kit_attach(void);
struct ring kit_join(unsigned int kinds, uint32_t owner);
/* So many come and go that a place which is free by now has rested. */
void kit_let_rest(void);
uint32_t kit_acquire(struct ring *ring);
struct ring_item kit_receive(struct ring *ring);

/* A note all of whose parts say the same; and whether that is so. */
struct ring_note kit_note(uint32_t number);
bool kit_is_whole(const struct ring_note *note);

/* Publishes an item of that number; or what is wrong, -EAGAIN: there is no
 * slot. */
int kit_put(struct ring *ring, uint32_t number);
/* The number of the next item, released; -1: there is none. */
int kit_get(struct ring *ring);
/* The same, where there is a slot, and where the next item has that number. */
void kit_must_put(struct ring *ring, uint32_t number);
void kit_must_get(struct ring *ring, uint32_t number);

struct ring_stat kit_stat(const struct ring *ring);
/* How many of its slots are free. */
uint32_t kit_free(const struct ring *ring);
