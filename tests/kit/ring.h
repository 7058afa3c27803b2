/* SPDX-License-Identifier: MIT */
/* A ring by itself, in memory of this process: what has to go well bails out if
 * it does not. There is one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/ring.h"

#define KIT_SLOT_BYTES 4096u

extern const struct ring_wait kit_ring_forever;

/* A new one, in place of the last. */
void kit_ring_make(enum ring_mode mode, uint32_t slots);
/* The same, which children share. */
void kit_ring_make_shared(enum ring_mode mode, uint32_t slots);
/* Its words, and how many bytes they take. */
extern void *kit_ring_memory;
extern size_t kit_ring_size;
void kit_ring_drop(void);

struct ring kit_ring_attach(void);
struct ring kit_ring_join(unsigned int kinds, uint32_t owner);
/* So many come and go that a place which is free by now has rested. */
void kit_ring_let_rest(void);
uint32_t kit_ring_acquire(struct ring *ring);
struct ring_item kit_ring_receive(struct ring *ring);

/* A note all of whose parts say the same; and whether that is so. */
struct ring_note kit_ring_note(uint32_t number);
bool kit_ring_is_whole(const struct ring_note *note);

/* Publishes an item of that number; or what is wrong, -EAGAIN: there is no
 * slot. */
int kit_ring_put(struct ring *ring, uint32_t number);
/* The number of the next item, released; -1: there is none. */
int kit_ring_get(struct ring *ring);
/* The same, where there is a slot, and where the next item has that number. */
void kit_ring_must_put(struct ring *ring, uint32_t number);
void kit_ring_must_get(struct ring *ring, uint32_t number);

struct ring_stat kit_ring_stat(const struct ring *ring);
/* How many of its slots are free. */
uint32_t kit_ring_free(const struct ring *ring);
