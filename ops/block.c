// SPDX-License-Identifier: MIT
#include "ops/block.h"

#include <string.h>

#include "base/checked.h"
#include "lib/move/move.h"
#include "lib/move/simd.h"
#include "ops/threads.h"

/* Elements of a block that is staged: four buffers of them nearly fit in the cache
 * of first level; and of one that is not. */
#define STAGED 2048
#define DIRECT 16384
/* Along each of two dimensions, where operands are adjacent in different ones. */
#define TILE 64
/* Rows so short cost more calls than they are worth. */
#define SHORT 16
/* Additions that pay for a thread. */
#define PART 32768
/* Bytes of a result that is written past the cache: so large that its next reader
 * would hardly find it there, and to read it before it is overwritten takes a
 * quarter of the time of an addition. Picked on one processor. */
#define LARGE ((int64_t)16 << 20)
/* Bytes of a row of such a block: shorter ones are mostly ends. */
#define LONG 1024

struct plan {
	const struct loops *loops;
	run_fn *kernel;
	const enum tarn_dtype *dtypes;
	bool staged[LOOPS_OPERANDS];
	bool picked[LOOPS_OPERANDS];   /* staged row by row, not by moves */
	bool streamed;                 /* the destination is written past the
					* cache, from a buffer in it */
	int64_t extent[TARN_NDIM_MAX]; /* of a block */
	int64_t count[TARN_NDIM_MAX];  /* blocks along each dimension */
	int64_t n_blocks;
	int64_t a_part; /* blocks of it */
};

/* ---- how blocks are cut --------------------------------------------------- */

static bool is_direct(const struct plan *p, int i)
{
	const struct loop_operand *o = &p->loops->operand[i];
	int64_t inner = p->loops->n ? o->stride[p->loops->n - 1] : 1;

	return o->dtype == p->dtypes[i] && (uintptr_t)o->at % o->size == 0 &&
	       (inner == 1 || (inner == 0 && i > 0));
}

/* A source that repeats in rows so short is better expanded. */
static bool breaks_rows(const struct plan *p, int i)
{
	const struct loops *l = p->loops;
	const int64_t *stride = l->operand[i].stride;
	int inner = l->n - 1;

	if (l->n < 2 || l->extent[inner] >= SHORT)
		return false;
	return stride[inner - 1] != stride[inner] * l->extent[inner] &&
	       !loops_is_value(l, i);
}

/* The dimension in which an operand's elements are closest. */
static int nearest_dim(const struct plan *p, int i)
{
	const int64_t *stride = p->loops->operand[i].stride;
	int64_t least = INT64_MAX;
	int found = p->loops->n - 1;

	for (int dim = p->loops->n - 1; dim >= 0; dim--) {
		int64_t s = stride[dim] < 0 ? -stride[dim] : stride[dim];

		if (s && s < least) {
			least = s;
			found = dim;
		}
	}
	return found;
}

/* Its elements are a few apart along the rows of the result. */
static bool can_pick(const struct plan *p, int i)
{
	const struct loop_operand *o = &p->loops->operand[i];

	return i && o->dtype == p->dtypes[i] && !breaks_rows(p, i) &&
	       (uintptr_t)o->at % o->size == 0 && p->loops->n &&
	       nearest_dim(p, i) == p->loops->n - 1;
}

/* Is any operand staged? */
static bool find_staged(struct plan *p)
{
	bool any = false;

	for (int i = 0; i < p->loops->n_operands; i++) {
		p->staged[i] = !is_direct(p, i) || breaks_rows(p, i);
		p->picked[i] = p->staged[i] && can_pick(p, i);
		any = any || p->staged[i];
	}
	return any;
}

static void cut(struct plan *p, int64_t room)
{
	const struct loops *l = p->loops;
	bool near[TARN_NDIM_MAX] = {false};
	int n_near = 0;

	for (int i = 0; i < l->n_operands && l->n; i++)
		if (p->staged[i])
			near[nearest_dim(p, i)] = true;
	if (l->n)
		near[l->n - 1] = true;
	for (int dim = 0; dim < l->n; dim++) {
		n_near += near[dim];
		p->extent[dim] = 1;
	}
	/* First a share for each dimension that someone is adjacent in, then
	 * what is left, from the innermost outwards. */
	for (int dim = l->n - 1; dim >= 0 && n_near > 1; dim--)
		if (near[dim]) {
			p->extent[dim] = MIN(MIN(l->extent[dim], room),
				(int64_t)TILE >> 2 * (n_near - 2));
			room /= p->extent[dim];
		}
	for (int dim = l->n - 1; dim >= 0 && room > 1; dim--) {
		int64_t times = MIN(room,
			(l->extent[dim] + p->extent[dim] - 1) / p->extent[dim]);

		p->extent[dim] = MIN(l->extent[dim], p->extent[dim] * times);
		room /= times;
		if (p->extent[dim] < l->extent[dim])
			break;
	}
}

/* Not one that is read in any case. */
static bool is_streamed(const struct plan *p, int64_t elements)
{
	const struct loops *l = p->loops;
	const struct loop_operand *to = &l->operand[0];

	for (int i = 1; i < l->n_operands; i++)
		if (l->operand[i].at == to->at)
			return false;
	return !p->staged[0] && elements * to->size >= LARGE &&
	       p->extent[l->n - 1] * to->size >= LONG;
}

static void plan_blocks(struct plan *p, int64_t elements, unsigned cost)
{
	int64_t size = 1;

	p->n_blocks = 1;
	for (int dim = 0; dim < p->loops->n; dim++) {
		p->count[dim] = (p->loops->extent[dim] + p->extent[dim] - 1) /
				p->extent[dim];
		p->n_blocks *= p->count[dim];
		size *= p->extent[dim];
	}
	p->streamed = is_streamed(p, elements);
	p->a_part =
		MAX(PART / MAX(size * (int64_t)cost, (int64_t)1), (int64_t)1);
}

/* ---- one thread's blocks --------------------------------------------------- */

/* A staged operand, in the block that is at hand. */
struct stage {
	struct move move;
	int64_t extent[TARN_NDIM_MAX]; /* for which move was planned; 0: none */
	char *buffer;
};

struct worker {
	const struct plan *plan;
	struct loops block;
	struct stage stage[LOOPS_OPERANDS];
	_Alignas(64) char buffer[LOOPS_OPERANDS][STAGED * 8];
};

static void plan_stage(struct worker *w, int i)
{
	const struct loop_operand *o = &w->block.operand[i];
	struct stage *s = &w->stage[i];
	struct tarn_layout packed, there;
	size_t size = (size_t)w->block.n * sizeof(int64_t);

	if (s->buffer && !memcmp(s->extent, w->block.extent, size))
		return;
	memcpy(s->extent, w->block.extent, size);
	s->buffer = w->buffer[i];
	loops_pack(&w->block, w->plan->dtypes[i], &packed);
	there = packed;
	there.dtype = o->dtype;
	memcpy(there.stride, o->stride, size);
	/* It fails for C64 alone, which has no arithmetic. */
	if (move_plan(&s->move, i ? &packed : &there, i ? &there : &packed,
		    NULL) < 0)
		__builtin_unreachable();
}

static void pick_rows(struct worker *w, int i)
{
	const struct loops *b = &w->block;
	const struct loop_operand *o = &b->operand[i];
	pick_fn *pick = kernels()->pick[__builtin_ctz(o->size)];
	int inner = b->n - 1;
	size_t n = (size_t)b->extent[inner];
	int64_t index[TARN_NDIM_MAX] = {0};
	const char *at = o->at;
	char *to = w->buffer[i];
	int dim;

	w->stage[i].buffer = to;
	do {
		pick(n, to, at, (ptrdiff_t)o->stride[inner]);
		to += n * o->size;
		for (dim = inner - 1; dim >= 0; dim--) {
			at += o->stride[dim] * o->size;
			if (++index[dim] < b->extent[dim])
				break;
			at -= o->stride[dim] * b->extent[dim] * o->size;
			index[dim] = 0;
		}
	} while (dim >= 0);
}

/* The operand becomes its packed buffer. */
static void use_buffer(
	struct loops *block, int i, struct stage *s, enum tarn_dtype dtype)
{
	struct loop_operand *o = &block->operand[i];
	struct tarn_layout packed;

	loops_pack(block, dtype, &packed);
	memcpy(o->stride, packed.stride, (size_t)block->n * sizeof(int64_t));
	o->at = s->buffer;
	o->dtype = (uint8_t)dtype;
	o->size = (uint8_t)(tarn_dtype_bits(dtype) / 8);
}

/* A long row begins with what is left of a line of the cache, so that no vector of
 * the rest is written to two. buffer: it is made there, as much as there is room
 * for at a time, and written past the cache; or NULL. */
static void run_row(const struct loops *l, run_fn *kernel, size_t n,
	char *const at[LOOPS_OPERANDS], unsigned steady, char *buffer)
{
	size_t size = l->operand[0].size, m = 0;
	const void *src[3] = {at[1], at[2], at[3]};
	char *to = at[0];

	if (n * size >= LONG)
		m = -(uintptr_t)to % 64 / size;
	for (m = m ?: n; n; n -= m, m = n) {
		if (buffer) {
			m = MIN(m, (size_t)STAGED);
			kernel(m, buffer, src, steady);
			simd_get()->stream(to, buffer, m * size);
		} else {
			kernel(m, to, src, steady);
		}
		to += m * size;
		for (int i = 1; i < l->n_operands; i++)
			if (!(steady & 1u << (i - 1)))
				src[i - 1] = (const char *)src[i - 1] +
					     m * l->operand[i].size;
	}
}

static void run_rows(const struct loops *l, run_fn *kernel, char *buffer)
{
	int64_t index[TARN_NDIM_MAX] = {0};
	int inner = l->n - 1, dim;
	size_t n = l->n ? (size_t)l->extent[inner] : 1;
	char *at[LOOPS_OPERANDS] = {0};
	unsigned steady = 0;

	for (int i = 0; i < l->n_operands; i++) {
		at[i] = l->operand[i].at;
		if (i && l->n && !l->operand[i].stride[inner])
			steady |= 1u << (i - 1);
	}
	for (;;) {
		run_row(l, kernel, n, at, steady, buffer);
		for (dim = inner - 1; dim >= 0; dim--) {
			bool wraps = ++index[dim] == l->extent[dim];
			int64_t steps = wraps ? 1 - l->extent[dim] : 1;

			for (int i = 0; i < l->n_operands; i++)
				at[i] += steps * l->operand[i].stride[dim] *
					 l->operand[i].size;
			if (!wraps)
				break;
			index[dim] = 0;
		}
		if (dim < 0)
			return;
	}
}

static void run_block(struct worker *w, int64_t number)
{
	const struct plan *p = w->plan;
	char *out = NULL;

	loops_block(p->loops, p->extent, p->count, number, &w->block);
	for (int i = 0; i < w->block.n_operands; i++) {
		struct loop_operand *o = &w->block.operand[i];

		if (!p->staged[i])
			continue;
		if (p->picked[i]) {
			pick_rows(w, i);
			continue;
		}
		plan_stage(w, i);
		if (i)
			move_run(&w->stage[i].move, w->stage[i].buffer, o->at);
		else
			out = o->at;
	}
	for (int i = 0; i < w->block.n_operands; i++)
		if (p->staged[i])
			use_buffer(&w->block, i, &w->stage[i], p->dtypes[i]);
	loops_fuse(&w->block);
	run_rows(&w->block, p->kernel, p->streamed ? w->buffer[0] : NULL);
	if (out)
		move_run(&w->stage[0].move, out, w->stage[0].buffer);
}

static void run_part(void *arg, size_t part)
{
	const struct plan *p = arg;
	int64_t first = (int64_t)part * p->a_part;
	int64_t end = MIN(first + p->a_part, p->n_blocks);
	struct worker w;

	w.plan = p;
	for (int i = 0; i < p->loops->n_operands; i++)
		w.stage[i].buffer = NULL;
	while (first < end)
		run_block(&w, first++);
	if (p->streamed)
		simd_get()->fence();
}

void block_run(const struct loops *loops, run_fn *kernel,
	const enum tarn_dtype dtypes[LOOPS_OPERANDS], unsigned cost)
{
	struct plan p;
	int64_t elements = 1;
	bool staged;

	if (loops->empty)
		return;
	for (int dim = 0; dim < loops->n; dim++)
		elements *= loops->extent[dim];
	p.loops = loops;
	p.kernel = kernel;
	p.dtypes = dtypes;
	staged = find_staged(&p);
	if (!staged && elements <= DIRECT) {
		run_rows(loops, kernel, NULL);
		return;
	}
	cut(&p, staged ? STAGED : DIRECT);
	plan_blocks(&p, elements, cost);
	threads_run(
		(size_t)((p.n_blocks + p.a_part - 1) / p.a_part), run_part, &p);
}
