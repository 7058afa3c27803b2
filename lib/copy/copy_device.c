// SPDX-License-Identifier: MIT
/*
 * To, from and within a device where it reaches the bytes of both sides itself:
 * they are its own, or in memory of the host that it has registered, or a run of
 * bytes of another device, over the link that the two have. The nest is
 * cut into slices, of which two are queued, so that progress can be told and the
 * rest be cancelled. Bytes that are not reached go through slots
 * (copy_through.c).
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/copy/copy_device.h"
#include "lib/copy/slices.h"
#include "lib/cuda/cuda.h"
#include "lib/cuda/work.h"

/* Picked: a few milliseconds of the link, which a slice more or less does not
 * lengthen. */
#define SLICE ((int64_t)64 << 20)

enum { AHEAD = 2 };

struct copy_device {
	struct copy_op head;
	struct cuda_device *device; /* in use by the storage of a tensor */
	struct cuda_queue *queue;   /* NULL: not begun */
	struct cuda_slot *factors;  /* NULL: none are needed */
	uint64_t dst, src;          /* the device's addresses */
	struct cuda_host host;      /* of one of them; start NULL: of neither */
	struct cuda_device *peer; /* whose bytes src is; NULL: not another's */
	struct cuda_queue *peer_queue; /* what it had to do before */
	struct slices slices;
	uint64_t bytes[AHEAD]; /* of the slice with that mark, under way */
	unsigned n, oldest;    /* slices under way */
};

/* The caller's stream is dst's device's. */
static int follow_peer(struct copy_device *c)
{
	int r = cuda_queue_new(c->peer, &c->peer_queue);

	if (r >= 0)
		r = cuda_queue_after(c->peer_queue, NULL);
	if (r >= 0)
		r = cuda_queue_mark(c->peer_queue, 0);
	return r < 0 ? r : cuda_queue_follow(c->queue, c->peer_queue, 0);
}

static int begin(struct copy_device *c)
{
	int r = cuda_queue_new(c->device, &c->queue);

	if (r >= 0)
		r = cuda_queue_after(c->queue, c->head.options.cuda_stream);
	if (r >= 0 && c->peer)
		r = follow_peer(c);
	if (r >= 0 && cuda_factors_size(&c->head.move))
		r = cuda_slot_take(c->device, true, &c->factors);
	return r;
}

/* Those of a slice; each that is under way has its own. */
static int write_factors(
	struct copy_device *c, const struct move *part, uint64_t *ret)
{
	uint64_t lead = (c->oldest + c->n) % AHEAD * CUDA_FACTORS;
	int r;

	*ret = 0;
	if (!cuda_factors_size(part))
		return 0;
	cuda_factors(part, (char *)cuda_slot_memory(c->factors) + lead);
	r = cuda_slot_for(c->factors, c->device, ret);
	*ret += lead;
	return r;
}

static int queue_move(struct copy_device *c, const struct move *part)
{
	uint64_t factors;
	int r = write_factors(c, part, &factors);

	return r < 0 ? r
		     : cuda_queue_move(c->queue, part, c->dst, c->src, factors,
			       c->host.start ? &c->host : NULL);
}

/* It is a run. */
static int queue_peer(
	struct copy_device *c, const struct nest *part, uint64_t bytes)
{
	int64_t bits = tarn_dtype_bits(part->dst_dtype);

	return cuda_queue_peer(c->queue,
		c->dst + (uint64_t)(part->dst0 * bits / 8), c->peer,
		c->src + (uint64_t)(part->src0 * bits / 8), bytes);
}

static int queue_slice(struct copy_device *c)
{
	struct move part = c->head.move;
	unsigned mark = (c->oldest + c->n) % AHEAD;
	int r;

	c->bytes[mark] =
		slices_next(&c->slices, &c->head.move.nest, &part.nest);
	r = c->peer ? queue_peer(c, &part.nest, c->bytes[mark])
		    : queue_move(c, &part);
	if (r >= 0)
		r = cuda_queue_mark(c->queue, (int)mark);
	if (r < 0)
		return r;
	c->n++;
	c->head.info.requests++;
	return 0;
}

static int wait_for_slice(struct copy_device *c)
{
	int r = cuda_queue_wait_briefly(c->queue, (int)c->oldest);

	if (r <= 0)
		return r;
	c->head.done += c->bytes[c->oldest];
	c->oldest = (c->oldest + 1) % AHEAD;
	c->n--;
	if (!c->n && c->slices.ended) {
		c->head.done = c->head.info.bytes;
		c->head.ended = true;
	}
	return 0;
}

/* Waits for a millisecond at most, so that others can go on. */
static unsigned pump(struct copy_op *copy_op, unsigned limit)
{
	struct copy_device *c = (struct copy_device *)copy_op;
	int r = c->queue ? 0 : begin(c);

	(void)limit;
	if (r >= 0 && c->n < AHEAD && !c->slices.ended)
		r = queue_slice(c);
	else if (r >= 0)
		r = wait_for_slice(c);
	if (r < 0)
		copy_op_failed(copy_op, r);
	return 1;
}

static void release(struct copy_op *copy_op)
{
	struct copy_device *c = (struct copy_device *)copy_op;

	c->queue = cuda_queue_free(c->queue);
	c->peer_queue = cuda_queue_free(c->peer_queue);
	cuda_slot_give(c->device, c->factors);
	c->factors = NULL;
}

static void device_free(struct copy_op *copy_op)
{
	copy_op_drop(copy_op);
	free(copy_op);
}

static const struct copy_op_ops device_ops = {
	.pump = pump,
	.release = release,
	.free = device_free,
};

/* ---- where bytes are ----------------------------------------------------- */

/* Where the device has the byte from which the tensor's layout counts. 1: it
 * does not reach all that the layout does. */
static int address(
	struct copy_device *c, const tarn_tensor *tensor, uint64_t *ret)
{
	const tarn_storage *storage = tensor->storage;
	struct cuda_host host = {.writable = storage->writable};
	struct device_bytes bytes;
	void *start;
	int r;

	if (storage->on_device) {
		r = storage->on_device(storage, &bytes);
		*ret = bytes.at + tensor->base;
		return r < 0 ? r : bytes.device != c->device;
	}
	if (!storage_by_address(storage))
		return 1;
	tensor_reach(tensor, &start, &host.size);
	host.start = start;
	if (cuda_known(start, host.size, host.writable, cuda_uuid(c->device),
		    &host.at) != 0)
		return 1;
	*ret = host.at +
	       (uint64_t)((char *)tarn_tensor_origin(tensor) - (char *)start);
	c->host = host;
	return 0;
}

/* dst's, or src's. */
static int find_device(const struct copy_op *head, struct cuda_device **ret)
{
	const tarn_storage *storage = head->dst->storage;
	struct device_bytes bytes;
	int r;

	if (!storage->on_device)
		storage = head->src->storage;
	r = storage->on_device(storage, &bytes);
	if (r >= 0)
		*ret = bytes.device;
	return r;
}

/* Bytes that lie in one piece on both sides. */
static bool is_run(const struct move *move)
{
	const struct nest *nest = &move->nest;

	return move->convert.plain && tarn_dtype_pack(nest->dst_dtype) == 1 &&
	       (nest->n == 0 || (nest->n == 1 && nest->dst[0] == 1 &&
					nest->src[0] == 1));
}

/* 1: the device does not reach both sides, or cannot do the move. */
static int plan(struct copy_device *c, const struct copy_op *head)
{
	const tarn_storage *src = head->src->storage;
	struct device_bytes bytes;
	int r = find_device(head, &c->device);

	if (r >= 0)
		r = address(c, head->dst, &c->dst);
	if (r == 0)
		r = address(c, head->src, &c->src);
	if (r == 0)
		return !cuda_moves(c->device, &head->move);
	if (r < 0 || !src->on_device || !head->dst->storage->on_device ||
		!is_run(&head->move))
		return r;
	r = src->on_device(src, &bytes);
	c->peer = bytes.device;
	return r;
}

int copy_device_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret)
{
	struct copy_device *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return tarn_fail(ENOMEM, "copy: out of memory");
	r = plan(c, head);
	if (r != 0) {
		free(c);
		return r < 0 ? r : copy_through_new(env, head, ret);
	}
	copy_op_begin(&c->head, env, head, &device_ops);
	c->head.info.engine = "cuda";
	slices_begin(&c->slices, &head->move.nest, SLICE);
	*ret = &c->head;
	return 0;
}
