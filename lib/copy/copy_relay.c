// SPDX-License-Identifier: MIT
/*
 * File to file, any view of either: part by part through two windows in memory.
 * While one part is written the next is read; each of these is a separate copy,
 * by the usual executors (copy_read.c, copy_write.c).
 *
 * Parts follow dst, so that the file is written front to back. In its window a
 * part has src's order and dtype: the read goes straight to its destination,
 * and the write reorders and converts.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/copy/copy_op.h"
#include "lib/copy/parts.h"
#include "lib/io/pages.h"

/* The largest window. Long compared with the latency of a disk; two of them are
 * all the memory that a copy takes, apart from bounce buffers. */
enum { WINDOW = 4 << 20 };

/* Room to begin a window at the same byte of a page as in the file. */
enum { PAGE = BOUNCE_ALIGN };

struct half {
	char *memory;
	struct copy_op *copy_op; /* NULL: this half is idle */
	bool writing;
	struct part part;   /* what is in the window */
	tarn_storage *room; /* in memory, of the part's bytes */
};

struct copy_relay {
	struct copy_op head;
	struct parts parts;
	size_t window; /* the size of one, as mapped */
	uint64_t room; /* the reservation from env for both, or 0 */
	struct half half[2];
};

/* Both windows at once, or none: a copy that has one must not wait for
 * another. */
static bool take_room(struct copy_relay *c)
{
	struct copy_env *env = c->head.env;
	uint64_t need = 2 * (uint64_t)c->window;

	if (c->room)
		return true;
	if (env->windows && env->windows + need > env->windows_max) {
		env->windows_wanted = true;
		return false;
	}
	env->windows += need;
	c->room = need;
	return true;
}

static int open_window(struct copy_relay *c, struct half *h)
{
	const struct storage_file *file = storage_file(c->head.src->storage);
	int64_t first, count, bits = tarn_dtype_bits(h->part.src.dtype);
	uint64_t at;

	if (!h->memory)
		h->memory = io_pages_map(c->window);
	if (!h->memory)
		return tarn_fail(ENOMEM,
			"copy: no memory for a window of %zu bytes", c->window);
	tarn_layout_bounds(&h->part.src, &first, &count);
	at = file->offset + c->head.src->base + (uint64_t)(first * bits / 8);
	return tarn_storage_borrow(h->memory + at % PAGE, c->window - at % PAGE,
		TARN_BORROW_WRITABLE, NULL, NULL, &h->room);
}

static int begin_read(struct copy_relay *c, struct half *h)
{
	const struct copy_op *m = &c->head;
	struct tarn_copy_options o = {.io_mode = m->options.io_mode};
	struct tarn_layout src = h->part.src, window;
	int r = open_window(c, h);

	if (r < 0)
		return r;
	part_lay_out(&h->part.src, &window);
	part_shrink(&window, &h->part.src);
	part_shrink(&src, &h->part.src);
	h->writing = false;
	return copy_op_new_inner(&c->head,
		&(struct copy_side) {h->room, 0, &window},
		&(struct copy_side) {m->src->storage, m->src->base, &src}, &o,
		&h->copy_op);
}

static int begin_write(struct copy_relay *c, struct half *h)
{
	const struct copy_op *m = &c->head;
	struct tarn_copy_options o = m->options;
	struct tarn_layout window;

	part_options(&h->part, o.channel_dim, &o);
	part_lay_out(&h->part.src, &window);
	h->writing = true;
	return copy_op_new_inner(&c->head,
		&(struct copy_side) {
			m->dst->storage, m->dst->base, &h->part.dst},
		&(struct copy_side) {h->room, 0, &window}, &o, &h->copy_op);
}

/* Begins the next step of this half when the last one is done. 1: there was
 * one; 0; -errno. */
static int advance(struct copy_relay *c, struct half *h)
{
	int r;

	if (h->copy_op && !copy_op_finished(h->copy_op))
		return 0;
	if (h->copy_op) {
		if (h->writing)
			c->head.done += h->copy_op->done;
		r = copy_op_end_inner(&h->copy_op);
		if (r < 0)
			return r;
		if (!h->writing) {
			r = begin_write(c, h);
			return r < 0 ? r : 1;
		}
		h->room = tarn_storage_unref(h->room);
	}
	if (!parts_next(&c->parts, &h->part))
		return 0;
	r = begin_read(c, h);
	return r < 0 ? r : 1;
}

/* Neither half begins anything more; requests under way complete. */
static void stop(struct copy_relay *c, int r)
{
	copy_op_failed(&c->head, r);
	for (int i = 0; i < 2; i++)
		if (c->half[i].copy_op)
			copy_op_cancel(c->half[i].copy_op);
}

static unsigned pump(struct copy_op *copy_op, unsigned limit)
{
	struct copy_relay *c = (struct copy_relay *)copy_op;
	unsigned begun = 0;
	bool moved;

	if (!take_room(c))
		return 0;
	do {
		moved = false;
		for (int i = 0; i < 2; i++) {
			struct half *h = &c->half[i];
			int r = advance(c, h);
			unsigned others;

			if (r < 0) {
				stop(c, r);
				return begun;
			}
			moved |= r > 0;
			if (!h->copy_op || h->copy_op->ended)
				continue;
			others = copy_op->in_flight - h->copy_op->in_flight;
			if (others < limit)
				begun += h->copy_op->ops->pump(
					h->copy_op, limit - others);
			moved |= copy_op_finished(h->copy_op);
		}
	} while (moved && !begun);
	copy_op->ended =
		c->parts.ended && !c->half[0].copy_op && !c->half[1].copy_op;
	return begun;
}

static void release(struct copy_op *copy_op)
{
	struct copy_relay *c = (struct copy_relay *)copy_op;

	for (int i = 0; i < 2; i++) {
		struct half *h = &c->half[i];

		if (h->copy_op)
			copy_op_cancel(h->copy_op);
		h->copy_op = copy_op_free(h->copy_op);
		h->room = tarn_storage_unref(h->room);
		io_pages_unmap(h->memory, c->window);
		h->memory = NULL;
	}
	copy_op->env->windows -= c->room;
	copy_op->env->windows_came_free |=
		c->room && copy_op->env->windows_wanted;
	c->room = 0;
}

bool copy_relay_came_free(struct copy_env *env)
{
	bool free = env->windows_came_free;

	if (free)
		env->windows_wanted = env->windows_came_free = false;
	return free;
}

static void relay_free(struct copy_op *copy_op)
{
	copy_op_drop(copy_op);
	free(copy_op);
}

static const struct copy_op_ops relay_ops = {
	.pump = pump,
	.release = release,
	.free = relay_free,
};

int copy_relay_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret)
{
	struct copy_relay *c = calloc(1, sizeof(*c));

	if (!c)
		return tarn_fail(ENOMEM, "copy: out of memory");
	copy_op_begin(&c->head, env, head, &relay_ops);
	parts_begin(&c->parts, &c->head.dst->layout, &c->head.from,
		&c->head.dst->layout, c->head.options.channel_dim, WINDOW);
	c->window =
		(size_t)(c->parts.elements *
			 (unsigned)tarn_dtype_bits(c->head.from.dtype) / 8) +
		2 * PAGE;
	*ret = &c->head;
	return 0;
}
