// SPDX-License-Identifier: MIT
/*
 * Copies through slots of registered memory, part by part: the first step brings
 * a part from src into a slot, the second takes it from there to dst. A step is
 * a copy within the host (copy_memory.c, copy_read.c, copy_write.c), or work of
 * the device that has that side. Several parts are under way at once, each in a
 * slot of its own, so that reads of a file, copies over the link and conversions
 * overlap.
 *
 * Parts follow the bytes of the side that is not on a device, so that a file is
 * read or written front to back. In a slot they lie as they do there: the device
 * reorders and converts, and the CPU does so only if the device cannot. Between
 * devices, or within one, the CPU then does that from one half of the slot to
 * the other.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "lib/copy/copy_device.h"
#include "lib/copy/parts.h"
#include "lib/cuda/work.h"

/* Of a copy. More would not be faster: four of 4 MiB fill any link. */
enum { PASSAGES = CUDA_MARKS - 1 };

/* A part begins at the same byte of a page as in the file, for direct I/O; at
 * the end of the slot are the scales and biases of its channels. */
#define WINDOW (CUDA_SLOT - CUDA_FACTORS - 2 * PAGE)
#define HALF (WINDOW / 2 / PAGE * PAGE)

enum step { IDLE, FIRST, BETWEEN, SECOND };

/* A slot, and the part that is in it. */
struct passage {
	struct cuda_slot *slot; /* NULL: not taken */
	enum step step;
	struct part part;
	struct tarn_layout window; /* of the part in the slot */
	tarn_storage *room;        /* the slot's bytes from the window's on */
	uint64_t lead;             /* bytes of the slot in front of those */
	struct copy_op *inner;     /* a step of the host */
	uint64_t order;            /* of a step of a device: a serial number */
};

struct side {
	tarn_tensor *tensor;
	struct device_bytes bytes; /* device NULL: the host */
	struct cuda_queue *queue;
};

struct copy_through {
	struct copy_op head;
	struct parts parts;
	struct side dst, src;
	/* In slots elements lie as in src; or else as in dst. */
	bool like_src;
	bool between; /* first as in src, then as in dst */
	bool begun;
	uint64_t orders;
	struct passage passages[PASSAGES];
};

/* The device that has registered the slots. */
static struct cuda_device *slots_device(const struct copy_through *c)
{
	return c->dst.bytes.device ? c->dst.bytes.device : c->src.bytes.device;
}

/* ---- the window ---------------------------------------------------------- */

/* Where the first byte of the part lies in its file, within a page. */
static uint64_t lead_of(
	const struct side *side, const struct tarn_layout *layout)
{
	const struct storage_file *file = storage_file(side->tensor->storage);
	int64_t first, count, bits = tarn_dtype_bits(layout->dtype);

	if (!file)
		return 0;
	tarn_layout_bounds(layout, &first, &count);
	return (file->offset + side->tensor->base +
		       (uint64_t)(first * bits / 8)) %
	       PAGE;
}

static int open_window(struct copy_through *c, struct passage *p)
{
	char *memory = cuda_slot_memory(p->slot);

	p->lead = c->src.bytes.device ? lead_of(&c->dst, &p->part.dst)
				      : lead_of(&c->src, &p->part.src);
	part_lay_out(c->like_src ? &p->part.src : &p->part.dst, &p->window);
	return tarn_storage_borrow(memory + p->lead,
		CUDA_SLOT - CUDA_FACTORS - p->lead, TARN_BORROW_WRITABLE, NULL,
		NULL, &p->room);
}

/* ---- steps --------------------------------------------------------------- */

static int device_step(struct copy_through *c, struct passage *p,
	struct side *side, const struct tarn_layout *dst,
	const struct tarn_layout *src, const struct tarn_copy_options *options)
{
	uint64_t far = side->bytes.at + side->tensor->base, slot, factors;
	int mark = (int)(p - c->passages);
	struct move move;
	int r = cuda_slot_for(p->slot, side->bytes.device, &slot);

	if (r >= 0)
		r = move_plan(&move, dst, src, options);
	if (r < 0)
		return r;
	factors = slot + CUDA_SLOT - CUDA_FACTORS;
	if (cuda_factors_size(&move) > CUDA_FACTORS)
		return tarn_fail(ENOTSUP,
			"copy: the device cannot scale so many channels");
	if (cuda_factors_size(&move))
		cuda_factors(&move, (char *)cuda_slot_memory(p->slot) +
					    CUDA_SLOT - CUDA_FACTORS);
	slot += p->lead;
	r = side == &c->dst ? cuda_queue_move(side->queue, &move, far, slot,
				      factors, NULL)
			    : cuda_queue_move(side->queue, &move, slot, far,
				      factors, NULL);
	if (r >= 0)
		r = cuda_queue_mark(side->queue, mark);
	p->order = c->orders++;
	return r;
}

/* Of the step that converts; the other one copies bytes as they are. */
static struct tarn_copy_options options_of(
	const struct copy_through *c, const struct passage *p, bool converts)
{
	struct tarn_copy_options o = {
		.io_mode = c->head.options.io_mode, .channel_dim = -1};

	if (converts) {
		o = c->head.options;
		part_options(&p->part, o.channel_dim, &o);
	}
	o.threads = c->head.options.threads;
	return o;
}

static int begin_first(struct copy_through *c, struct passage *p)
{
	struct tarn_copy_options o = options_of(c, p, !c->like_src);
	struct tarn_layout from = p->part.src, window;
	int r = open_window(c, p);

	if (r < 0)
		return r;
	window = p->window;
	/* What is broadcast is brought once. */
	if (c->like_src) {
		part_shrink(&window, &p->part.src);
		part_shrink(&from, &p->part.src);
	}
	p->step = FIRST;
	if (c->src.bytes.device)
		return device_step(c, p, &c->src, &window, &from, &o);
	return copy_op_new_inner(&c->head,
		&(struct copy_side) {p->room, 0, &window},
		&(struct copy_side) {
			c->src.tensor->storage, c->src.tensor->base, &from},
		&o, &p->inner);
}

/* To the other half of the slot, where elements lie as in dst. */
static int begin_between(struct copy_through *c, struct passage *p)
{
	struct tarn_copy_options o = options_of(c, p, true);
	_cleanup_storage_ tarn_storage *from = p->room;
	char *memory = cuda_slot_memory(p->slot);
	struct tarn_layout window = p->window;
	int r;

	p->room = NULL;
	p->lead = HALF;
	part_lay_out(&p->part.dst, &p->window);
	r = tarn_storage_borrow(memory + HALF, HALF, TARN_BORROW_WRITABLE, NULL,
		NULL, &p->room);
	if (r < 0)
		return r;
	p->step = BETWEEN;
	return copy_op_new_inner(&c->head,
		&(struct copy_side) {p->room, 0, &p->window},
		&(struct copy_side) {from, 0, &window}, &o, &p->inner);
}

static int begin_second(struct copy_through *c, struct passage *p)
{
	struct tarn_copy_options o =
		options_of(c, p, c->like_src && !c->between);

	p->step = SECOND;
	if (c->dst.bytes.device)
		return device_step(c, p, &c->dst, &p->part.dst, &p->window, &o);
	return copy_op_new_inner(&c->head,
		&(struct copy_side) {c->dst.tensor->storage,
			c->dst.tensor->base, &p->part.dst},
		&(struct copy_side) {p->room, 0, &p->window}, &o, &p->inner);
}

static struct side *side_of(struct copy_through *c, const struct passage *p)
{
	return p->step == FIRST ? &c->src : &c->dst;
}

/* 1: the step is done; 0: not yet. */
static int step_done(struct copy_through *c, struct passage *p)
{
	int r;

	if (!p->inner)
		return cuda_queue_done(
			side_of(c, p)->queue, (int)(p - c->passages));
	if (!copy_op_finished(p->inner))
		return 0;
	r = copy_op_end_inner(&p->inner);
	return r < 0 ? r : 1;
}

/* ---- parts --------------------------------------------------------------- */

/* 1: it has a slot; 0: there is none for it now. */
static int take_slot(struct copy_through *c, struct passage *p)
{
	bool must = true;
	int r;

	for (int i = 0; i < PASSAGES; i++)
		must = must && !c->passages[i].slot;
	if (p->slot)
		return 1;
	r = cuda_slot_take(slots_device(c), must, &p->slot);
	return r < 0 ? r : !r;
}

static int begin_part(struct copy_through *c, struct passage *p)
{
	int r;

	if (c->parts.ended)
		return 0;
	r = take_slot(c, p);
	if (r <= 0 || !parts_next(&c->parts, &p->part))
		return r < 0 ? r : 0;
	r = begin_first(c, p);
	return r < 0 ? r : 1;
}

/* Begins the next step when the last one is done. 1: there was one; 0; -errno. */
static int advance(struct copy_through *c, struct passage *p)
{
	int r;

	if (p->step == IDLE)
		return begin_part(c, p);
	r = step_done(c, p);
	if (r <= 0)
		return r;
	if (p->step != SECOND) {
		r = p->step == FIRST && c->between ? begin_between(c, p)
						   : begin_second(c, p);
		return r < 0 ? r : 1;
	}
	c->head.done += (uint64_t)tarn_layout_nbytes(&p->part.dst);
	p->room = tarn_storage_unref(p->room);
	p->step = IDLE;
	return 1;
}

/* ---- pumping ------------------------------------------------------------- */

static int open_side(struct side *side, void *stream)
{
	int r;

	if (!side->bytes.device)
		return 0;
	r = cuda_queue_new(side->bytes.device, &side->queue);
	return r < 0 ? r : cuda_queue_after(side->queue, stream);
}

/* The caller's stream is that of dst's device, where dst is on one. */
static int begin(struct copy_through *c)
{
	const struct cuda_device *to = c->dst.bytes.device;
	void *stream = c->head.options.cuda_stream;
	int r = open_side(&c->dst, stream);

	c->begun = true;
	if (to && to != c->src.bytes.device)
		stream = NULL;
	return r < 0 ? r : open_side(&c->src, stream);
}

/* No step begins anything more; those under way end in release. */
static void stop(struct copy_through *c, int r)
{
	copy_op_failed(&c->head, r);
	for (int i = 0; i < PASSAGES; i++)
		if (c->passages[i].inner)
			copy_op_cancel(c->passages[i].inner);
}

/* Waits a little for the device's step that was queued first. */
static int wait_for_device(struct copy_through *c)
{
	struct passage *oldest = NULL;

	for (int i = 0; i < PASSAGES; i++) {
		struct passage *p = &c->passages[i];

		if (p->step == IDLE || p->inner)
			continue;
		if (!oldest || p->order < oldest->order)
			oldest = p;
	}
	return oldest ? cuda_queue_wait_briefly(side_of(c, oldest)->queue,
				(int)(oldest - c->passages))
		      : 0;
}

static bool all_idle(const struct copy_through *c)
{
	for (int i = 0; i < PASSAGES; i++)
		if (c->passages[i].step != IDLE)
			return false;
	return true;
}

/* One round. Returns what it began, and counts what has moved on. */
static unsigned pump_passages(
	struct copy_through *c, unsigned limit, unsigned *moved)
{
	unsigned begun = 0;

	for (int i = 0; i < PASSAGES && !c->head.ended; i++) {
		struct passage *p = &c->passages[i];
		int r = advance(c, p);
		unsigned others;

		if (r < 0) {
			stop(c, r);
			break;
		}
		*moved += r > 0;
		if (!p->inner || p->inner->ended)
			continue;
		others = c->head.in_flight - p->inner->in_flight;
		if (others < limit)
			begun += p->inner->ops->pump(p->inner, limit - others);
		*moved += copy_op_finished(p->inner);
	}
	return begun;
}

/* Waits for the device only where no request could complete meanwhile, and then
 * for a millisecond at most. */
static unsigned pump(struct copy_op *copy_op, unsigned limit)
{
	struct copy_through *c = (struct copy_through *)copy_op;
	unsigned begun = 0, moved = 1;
	int r = c->begun ? 0 : begin(c);

	while (r >= 0 && !copy_op->ended && !begun && moved) {
		moved = 0;
		begun = pump_passages(c, limit, &moved);
	}
	if (c->parts.ended && all_idle(c))
		copy_op->ended = true;
	if (r >= 0 && !copy_op->ended && !begun && !copy_op->in_flight) {
		r = wait_for_device(c);
		begun = 1;
	}
	if (r < 0)
		stop(c, r);
	return begun;
}

static void release(struct copy_op *copy_op)
{
	struct copy_through *c = (struct copy_through *)copy_op;

	/* First, so that no device works on what follows. */
	c->dst.queue = cuda_queue_free(c->dst.queue);
	c->src.queue = cuda_queue_free(c->src.queue);
	for (int i = 0; i < PASSAGES; i++) {
		struct passage *p = &c->passages[i];

		if (p->inner)
			copy_op_cancel(p->inner);
		p->inner = copy_op_free(p->inner);
		p->room = tarn_storage_unref(p->room);
		cuda_slot_give(slots_device(c), p->slot);
		p->slot = NULL;
		p->step = IDLE;
	}
}

static void through_free(struct copy_op *copy_op)
{
	copy_op_drop(copy_op);
	free(copy_op);
}

static const struct copy_op_ops through_ops = {
	.pump = pump,
	.release = release,
	.free = through_free,
};

static int find_side(struct side *side, tarn_tensor *tensor)
{
	side->tensor = tensor;
	return tensor->storage->on_device
		       ? tensor->storage->on_device(
				 tensor->storage, &side->bytes)
		       : 0;
}

/* Whether a device or the host converts, and what the parts follow. */
static void plan(struct copy_through *c, const struct copy_op *head)
{
	bool to_device = c->dst.bytes.device, from_device = c->src.bytes.device;
	bool moves = cuda_moves(slots_device(c), &head->move);
	const struct tarn_layout *by = &head->from;

	c->between = to_device && from_device && !moves;
	c->like_src = c->between || (to_device ? moves : !moves);
	/* What is broadcast is small in src, and would be columns of dst. */
	for (int i = 0; i < head->from.ndim; i++)
		if (!head->from.stride[i] && head->from.shape[i] > 1)
			by = &head->dst->layout;
	if (from_device)
		by = &head->dst->layout;
	parts_begin(&c->parts, &head->dst->layout, &head->from, by,
		head->options.channel_dim, c->between ? HALF : WINDOW);
}

int copy_through_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret)
{
	struct copy_through *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return tarn_fail(ENOMEM, "copy: out of memory");
	copy_op_begin(&c->head, env, head, &through_ops);
	c->head.info.engine = "cuda";
	r = find_side(&c->dst, c->head.dst);
	if (r >= 0)
		r = find_side(&c->src, c->head.src);
	if (r < 0) {
		through_free(&c->head);
		return r;
	}
	plan(c, head);
	*ret = &c->head;
	return 0;
}
