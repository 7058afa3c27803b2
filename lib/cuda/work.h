/* SPDX-License-Identifier: MIT */
/*
 * Work on a device, for other rooms: queues of it, slots of memory through which
 * bytes pass, and moves between addresses of the device. Addresses are numbers:
 * nothing here is touched by the CPU. None waits for work that others have queued,
 * unless it says so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "lib/cuda/kernels.h"

struct cuda_device;
struct cuda_queue;
struct cuda_slot;
struct move;

/* Uses a device until as many cuda_unuse: its primary context stays as long. */
int cuda_use(const uint8_t uuid[16], struct cuda_device **ret) _must_check_;
void cuda_unuse(struct cuda_device *device);
/* -ENOTSUP in a child of a process that had loaded the driver. */
int cuda_usable(void);
const uint8_t *cuda_uuid(const struct cuda_device *device);
/* Among the devices that this process sees. */
int cuda_index(const struct cuda_device *device);

/* ---- queues -------------------------------------------------------------- */

/*
 * A queue is a stream of the driver's, and marks in it that can be waited for.
 * Each copy has one of its own, so that none waits for the work that another's
 * caller had queued before; a few are kept for the next copies. It is one
 * thread's at a time.
 */
#define CUDA_MARKS 8

/* Takes a queue without work; the caller uses the device, and goes on to. */
int cuda_queue_new(
	struct cuda_device *device, struct cuda_queue **ret) _must_check_;
/* Waits for its work, which the caller has already done unless something
 * failed. Takes NULL, returns NULL. */
struct cuda_queue *cuda_queue_free(struct cuda_queue *queue);

/* What is queued from now on begins after the work that is now in that stream
 * of the driver's; NULL: the legacy default one. */
int cuda_queue_after(struct cuda_queue *queue, void *stream) _must_check_;

/* Work that is queued so far has that number; an earlier one is forgotten. */
int cuda_queue_mark(struct cuda_queue *queue, int mark) _must_check_;
/* 1: the work before the mark is done; 0: it is not yet. After an error the
 * device does no more work. */
int cuda_queue_done(struct cuda_queue *queue, int mark) _must_check_;
/* The same, but waits for a millisecond, asleep. */
int cuda_queue_wait_briefly(struct cuda_queue *queue, int mark) _must_check_;
/* Waits for it, asleep. */
int cuda_queue_wait(struct cuda_queue *queue, int mark) _must_check_;

/* Queues size zero bytes. */
int cuda_queue_clear(
	struct cuda_queue *queue, uint64_t at, uint64_t size) _must_check_;
/* Queues size bytes from one address to another; either may be the host's, of
 * memory that is registered or not. */
int cuda_queue_bytes(struct cuda_queue *queue, uint64_t dst, uint64_t src,
	uint64_t size) _must_check_;
/* Queues size bytes from another device's memory, over whatever link the two
 * have. */
int cuda_queue_peer(struct cuda_queue *queue, uint64_t dst,
	const struct cuda_device *from, uint64_t src,
	uint64_t size) _must_check_;
/* What is queued from now on begins after the work before the other's mark; the
 * other may be of another device. */
int cuda_queue_follow(struct cuda_queue *queue, const struct cuda_queue *other,
	int mark) _must_check_;

/* Memory of the host that a move reaches because it is registered. */
struct cuda_host {
	const void *start;
	uint64_t size;
	bool writable;
	uint64_t at; /* where the device has it */
};

/*
 * Queues a move between addresses that the device reaches, of the bytes from
 * which the layouts count. factors: where the device finds what cuda_factors
 * wrote, until the move has been done. host: NULL where neither side is
 * registered memory, or a slot is. What ends a registration waits for the move.
 * -EBUSY: it has ended before; -ENOTSUP: cuda_moves does not hold, and nothing
 * is queued.
 */
int cuda_queue_move(struct cuda_queue *queue, const struct move *move,
	uint64_t dst, uint64_t src, uint64_t factors,
	const struct cuda_host *host) _must_check_;
/* Queues a kernel over a list. -ENOTSUP: there are no kernels in this build, or
 * for this device. */
int cuda_queue_list(struct cuda_queue *queue, enum cuda_kernel kernel,
	const struct cuda_list *list) _must_check_;
/* Does the device, which is in use, do that move, and any part of it? */
bool cuda_moves(struct cuda_device *device, const struct move *move);

/* Scales and biases of many channels must be in memory that the device reaches,
 * aligned to 8: so many bytes, at most CUDA_FACTORS where cuda_moves holds.
 * 0: none. */
#define CUDA_FACTORS ((uint64_t)64 << 10)
uint64_t cuda_factors_size(const struct move *move);
void cuda_factors(const struct move *move, void *ret);

/* ---- slots --------------------------------------------------------------- */

/*
 * Slots are memory of the host that is registered, through which bytes pass that
 * lie in memory that is not, or in a file. All copies of a process share them,
 * and their number is bounded; a slot is one copy's at a time, and is kept for
 * the next as long as the device is used.
 */
/* Picked: long beside the latency of a disk and of a copy, short beside the
 * whole of a large one, which has several under way. */
#define CUDA_SLOT ((size_t)4 << 20)
/* Of all copies of a process by one device: 256 MiB. */
#define CUDA_SLOTS_MAX 64

/* Takes one, for a device that the caller uses; 1: there are as many as there
 * may be; not where one must be had: for a copy that has none yet. -ENOMEM; an
 * error of the driver. */
int cuda_slot_take(struct cuda_device *device, bool must,
	struct cuda_slot **ret) _must_check_;
/* No work that reaches it may be under way. Takes NULL. */
void cuda_slot_give(struct cuda_device *device, struct cuda_slot *slot);
/* CUDA_SLOT bytes from a page's begin on; and where a device has them, which
 * need not be that for which it was taken. */
void *cuda_slot_memory(const struct cuda_slot *slot);
int cuda_slot_for(const struct cuda_slot *slot, struct cuda_device *device,
	uint64_t *ret) _must_check_;
