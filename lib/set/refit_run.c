/* SPDX-License-Identifier: MIT */
/*
 * Buckets and flights. A bucket gets its memory when its first pieces are begun:
 * as much as it has room for, if names may still come, for which it then has
 * place; at the end only what it needs. So the number of storages does not grow
 * with the number of calls that begin copies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/set/refit.h"
#include "lib/store/created.h"

/* Memory of a device is made of such (lib/cuda/memory.h). */
#define DEVICE_GRANULE ((uint64_t)2 << 20)
/* Of completions that are taken at once. */
enum { REAPED = 16 };

int refit_check(struct tarn_refit *refit)
{
	if (refit->failed)
		return tarn_fail(-refit->failed,
			"nothing can be put after a failure: %s",
			refit->message);
	if (refit->committed)
		return tarn_fail_constant(
			EINVAL, "it is committed already; begin another");
	return 0;
}

/* From here on nothing succeeds. */
static int fail(struct tarn_refit *refit, const struct refit_name *name, int r,
	const char *why)
{
	if (refit->failed)
		return tarn_fail(-refit->failed, "%s", refit->message);
	refit->failed = r;
	snprintf(refit->message, sizeof(refit->message), "'%.200s': %s",
		name->name, why);
	return tarn_fail(-r, "%s", refit->message);
}

/* ---- places -------------------------------------------------------------- */

static bool fits(const struct refit_bucket *b, uint64_t size)
{
	return b->used <= b->room && size <= b->room - b->used;
}

/* The size of the old version bounds the number of buckets, but not with names
 * that are added: from half of the storages that a publication has on they are
 * larger, twice as large after each further eight. */
static uint64_t bucket_bytes(const struct tarn_refit *refit)
{
	unsigned n = refit->n_buckets + refit->n_patches;

	return refit->bucket_bytes << (n < 32 ? 0 : MIN((n - 24) / 8, 5));
}

static int bucket_new(struct tarn_refit *refit, const struct set_place *place,
	uint64_t size, struct refit_bucket **ret)
{
	struct refit_bucket *b = calloc(1, sizeof(*b));

	if (!b)
		return tarn_fail_constant(ENOMEM, "out of memory for a bucket");
	b->place = *place;
	b->room = MAX(size, bucket_bytes(refit));
	refit->n_buckets++;
	b->next = refit->buckets;
	refit->buckets = b;
	*ret = b;
	return 0;
}

/* New tensors go where they are told to, or to the place of the old one, or of
 * the set's first one. */
static struct set_place place_for(
	const struct tarn_refit *refit, const struct refit_name *name)
{
	static const struct set_place host;

	if (refit->has_place)
		return refit->place;
	if (name->old)
		return set_place_of(name->old);
	return refit->n_old ? set_place_of(refit->by_range[0]->old) : host;
}

uint64_t refit_room(const struct refit_name *leader)
{
	uint64_t size;

	return round_up_u64(leader->size, REFIT_ALIGN, &size) ? UINT64_MAX
							      : size;
}

bool refit_needs_adoption(const struct refit_name *leader)
{
	return leader->tied || !tarn_layout_is_contiguous(&leader->layout);
}

/* Memory that is there already may be too small to be adopted. */
static bool can_adopt(const struct refit_bucket *b)
{
	return b->place.on_device || b->adopted || !b->storage ||
	       tarn_storage_size(b->storage) >= TARN_ADOPT_MIN;
}

int refit_place(struct tarn_refit *refit, struct refit_name *leader)
{
	struct set_place place = place_for(refit, leader);
	struct refit_bucket *b = refit->buckets;
	uint64_t size = refit_room(leader);
	bool adopted = refit_needs_adoption(leader);
	int r = 0;

	if (size == UINT64_MAX)
		return tarn_fail_constant(EOVERFLOW, "more bytes than fit");
	while (b && (!set_place_same(&b->place, &place) || !fits(b, size) ||
			    (adopted && !can_adopt(b))))
		b = b->next;
	if (!b)
		r = bucket_new(refit, &place, size, &b);
	if (r < 0)
		return r;
	leader->bucket = b;
	leader->at = b->used;
	b->used += size;
	b->adopted = b->adopted || adopted;
	if (leader->old)
		refit->untaken -= size;
	return 0;
}

void refit_unplace(struct tarn_refit *refit, struct refit_name *leader)
{
	leader->bucket->used = leader->at;
	leader->bucket = NULL;
	if (leader->old)
		refit->untaken += refit_room(leader);
}

int refit_fresh(const struct refit_name *name, tarn_tensor **ret)
{
	const struct refit_name *leader = name->leader;

	if (leader->patch)
		return tarn_tensor_new(refit_patch_storage(leader->patch),
			name->old->base, &name->old->layout, ret);
	return tarn_tensor_new(
		leader->bucket->storage, leader->at, &name->layout, ret);
}

/* ---- memory -------------------------------------------------------------- */

/* What is published as copies would neither be shared nor keep its strides. */
static uint64_t wanted(const struct refit_bucket *b, uint64_t size)
{
	if (!b->place.on_device && b->adopted)
		size = MAX(size, (uint64_t)TARN_ADOPT_MIN);
	return MAX(size, (uint64_t)1);
}

static int give_memory(
	struct tarn_refit *refit, struct refit_bucket *b, bool last)
{
	uint64_t later = last ? 0 : refit->untaken, size = b->room;
	int r = -ENOMEM;

	if (!refit->add || last)
		size = MIN(size, b->used + MIN(later, size - b->used));
	if (size > b->used)
		r = set_place_blank(
			refit->store, &b->place, wanted(b, size), &b->storage);
	/* There may be memory for those that have come. */
	if (r == -ENOMEM || r == -ENOSPC) {
		size = b->used;
		r = set_place_blank(
			refit->store, &b->place, wanted(b, size), &b->storage);
	}
	if (r >= 0)
		b->room = size;
	return r;
}

int refit_reserve(struct tarn_refit *refit, struct refit_name *leader)
{
	struct refit_bucket *b = leader->bucket;

	return b->storage || !b->place.on_device ? 0
						 : give_memory(refit, b, false);
}

int refit_make_room(struct tarn_refit *refit)
{
	int r;

	if (refit->failed || (!refit->waiting && !refit->flying))
		return 0;
	r = refit_launch(refit, false);
	if (r >= 0)
		r = refit_drain(refit);
	return r < 0 ? r : 1;
}

uint64_t refit_held(const tarn_tensor *tensor)
{
	uint64_t size = tensor ? tarn_storage_size(tensor->storage) : 0, whole;

	if (!tensor || !tensor->storage->on_device)
		return size;
	return round_up_u64(size, DEVICE_GRANULE, &whole) ? size : whole;
}

/* ---- pieces -------------------------------------------------------------- */

static void piece_add(struct refit_piece **list, struct refit_piece *p)
{
	p->next = *list;
	p->previous = list;
	if (p->next)
		p->next->previous = &p->next;
	*list = p;
}

static void piece_remove(struct refit_piece *p)
{
	*p->previous = p->next;
	if (p->next)
		p->next->previous = p->previous;
}

static void piece_free(struct refit_piece *p)
{
	tarn_tensor_unref(p->src);
	tarn_tensor_unref(p->positions);
	tarn_tensor_unref(p->values);
	free(p);
}

void refit_pieces_done(struct tarn_refit *refit)
{
	struct refit_piece *p;

	while ((p = refit->waiting) || (p = refit->flying)) {
		piece_remove(p);
		piece_free(p);
	}
	refit->waiting_bytes = 0;
	memset(refit->pieces, 0, sizeof(refit->pieces));
}

int refit_add_piece(struct tarn_refit *refit, struct refit_name *name,
	const tarn_tensor *src, bool own, int64_t start, int64_t rows,
	tarn_tensor *positions, tarn_tensor *values)
{
	struct refit_piece *p = calloc(1, sizeof(*p));
	uint64_t size = name->leader->size;
	int r = 0;

	if (!p) {
		tarn_tensor_unref(positions);
		tarn_tensor_unref(values);
		return fail(refit, name, -ENOMEM, "out of memory for a copy");
	}
	p->name = name;
	p->src = tarn_tensor_ref((tarn_tensor *)src);
	p->start = start;
	p->rows = rows;
	p->positions = positions;
	p->values = values;
	p->bytes = rows < 0 ? size
			    : size / (uint64_t)name->layout.shape[0] *
				      (uint64_t)rows;
	p->held = (own ? refit_held(src) : 0) + refit_held(positions) +
		  refit_held(values);
	piece_add(&refit->waiting, p);
	refit->waiting_bytes += p->bytes + p->held;
	if (refit->waiting_bytes >= refit->bucket_bytes)
		r = refit_launch(refit, false);
	/* It is put; flush and commit try again. */
	return refit->failed ? r : 0;
}

/* Where the piece goes. */
int refit_piece_dst(const struct refit_piece *p, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *whole = NULL;
	int r = refit_fresh(p->name, &whole);

	if (r >= 0 && p->rows < 0)
		*ret = STEAL(whole);
	else if (r >= 0)
		r = tarn_tensor_narrow(whole, 0, p->start, p->rows, ret);
	return r;
}

/* ---- flights ------------------------------------------------------------- */

/* The copy of a piece is done. */
static int landed(struct tarn_refit *refit, struct refit_piece *p,
	const struct tarn_completion *c)
{
	_cleanup_tensor_ tarn_tensor *dst = NULL;
	int r = c->result;

	if (r < 0)
		return fail(refit, p->name, r, c->message);
	if (p->positions) {
		r = refit_piece_dst(p, &dst);
		if (r >= 0)
			r = refit_scatter(dst, p->positions, p->values,
				refit->cuda_stream);
	}
	if (r < 0)
		return fail(refit, p->name, r, tarn_fail_message());
	refit->info.bytes_moved += p->bytes;
	return 0;
}

/* Takes what is done; waits for one if told to. */
static int reap(struct tarn_refit *refit, bool wait)
{
	struct tarn_completion done[REAPED];
	int n = tarn_stream_reap(refit->stream, wait ? 1 : 0, -1, done, REAPED);
	int r = n;

	for (int i = 0; i < n; i++) {
		struct refit_piece *p = (void *)(uintptr_t)done[i].user;
		int e = landed(refit, p, &done[i]);

		r = e < 0 && r >= 0 ? e : r;
		refit->pieces[p->flight]--;
		piece_remove(p);
		piece_free(p);
	}
	return r;
}

static int await_flight(struct tarn_refit *refit, unsigned flight)
{
	int r = 0;

	while (r >= 0 && refit->pieces[flight])
		r = reap(refit, true);
	return r;
}

/* As the stream would report it. */
static int written(struct tarn_refit *refit, struct refit_piece *p)
{
	refit->info.bytes_moved += p->bytes;
	refit->waiting_bytes -= p->bytes + p->held;
	piece_remove(p);
	piece_free(p);
	return 0;
}

static int stream(struct tarn_refit *refit, struct refit_piece *p)
{
	const struct tarn_copy_options options = {
		.cuda_stream = refit->cuda_stream};
	_cleanup_tensor_ tarn_tensor *dst = NULL;
	int r = refit_piece_dst(p, &dst);

	if (r >= 0)
		r = refit_piece_room(p, dst);
	while (r >= 0) {
		r = tarn_stream_copy(refit->stream, dst, p->src, &options, -1,
			(uintptr_t)p, NULL);
		if (r != -EAGAIN)
			break;
		r = reap(refit, true);
	}
	if (r < 0)
		return r;
	piece_remove(p);
	piece_add(&refit->flying, p);
	p->flight = refit->flight;
	refit->pieces[p->flight]++;
	refit->waiting_bytes -= p->bytes + p->held;
	return 0;
}

static int begin(struct tarn_refit *refit, struct refit_piece *p)
{
	int r = refit_piece_write(p);

	if (r == 1)
		return written(refit, p);
	if (r == 0)
		r = stream(refit, p);
	return r >= 0 || refit->failed
		       ? r
		       : fail(refit, p->name, r, tarn_fail_message());
}

int refit_launch(struct tarn_refit *refit, bool last)
{
	int r = await_flight(refit, refit->flight);

	for (struct refit_bucket *b = refit->buckets; r >= 0 && b; b = b->next)
		if (!b->storage)
			r = give_memory(refit, b, last);
	while (r >= 0 && refit->waiting)
		r = begin(refit, refit->waiting);
	refit->flight = (refit->flight + 1) % REFIT_FLIGHTS;
	/* Its first requests are begun, so that they go on meanwhile. */
	return r < 0 ? r : reap(refit, false);
}

int refit_complete(const struct tarn_refit *refit)
{
	int r = 0;

	for (struct refit_bucket *b = refit->buckets; r >= 0 && b; b = b->next)
		if (b->storage && created_of(b->storage))
			r = created_complete(b->storage, b->used);
	return r;
}

int refit_drain(struct tarn_refit *refit)
{
	int r = 0;

	for (unsigned i = 0; r >= 0 && i < REFIT_FLIGHTS; i++)
		r = await_flight(refit, i);
	return r < 0 ? r : 0;
}
