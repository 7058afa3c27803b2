// SPDX-License-Identifier: MIT
#include "ops/rows.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/move/move.h"
#include "ops/result.h"
#include "ops/threads.h"

#define PART 32768     /* elements that pay for a thread */
#define BESIDE 16      /* rows at once, where they lie beside each other */
#define TILE 64        /* rows at once at most, of those that are folded */
#define FEW 64         /* tiles that keep all threads busy by themselves */
#define PIECES_MAX 512 /* of one row */

/* ---- how rows are cut -------------------------------------------------------- */

static void add_dim(
	struct loops *l, int64_t extent, int64_t to_stride, int64_t from_stride)
{
	int i = l->n++;

	l->extent[i] = extent;
	l->operand[0].stride[i] = to_stride;
	l->operand[1].stride[i] = from_stride;
}

static void begin_nest(
	struct loops *l, const tarn_tensor *to, const tarn_tensor *from)
{
	loops_begin(l, 0, NULL);
	loops_add(l, to);
	loops_add(l, from);
}

/* The dimension of either nest in which an operand's elements are closest is one
 * of the rows': its place there, or -1. */
static int nearest_row(const struct rows *r, int i)
{
	int64_t least = INT64_MAX;
	int found = -1;

	for (int dim = 0; dim < r->row.n; dim++) {
		int64_t s = r->row.operand[i].stride[dim];

		s = s < 0 ? -s : s;
		least = s && s < least ? s : least;
	}
	for (int dim = 0; dim < r->other.n; dim++) {
		int64_t s = r->other.operand[i].stride[dim];

		s = s < 0 ? -s : s;
		if (s && s < least) {
			least = s;
			found = dim;
		}
	}
	return found;
}

static bool is_staged(const struct rows *r, int i)
{
	const struct loop_operand *o = &r->other.operand[i];
	const struct loops *l = &r->row;

	return o->dtype != r->computed || (uintptr_t)o->at % o->size != 0 ||
	       l->n > 1 || (l->n == 1 && l->operand[i].stride[0] != 1);
}

/* Blocks of a nest of at most room, from the innermost loop outwards, beside
 * what extent has been given already. */
static int64_t cut(
	const struct loops *l, int64_t room, int64_t *extent, int64_t *count)
{
	int64_t n = 1;

	for (int dim = l->n - 1; dim >= 0 && room > 1; dim--) {
		int64_t times = MIN(
			room, (l->extent[dim] + extent[dim] - 1) / extent[dim]);

		extent[dim] = MIN(l->extent[dim], extent[dim] * times);
		room /= times;
		if (extent[dim] < l->extent[dim])
			break;
	}
	for (int dim = 0; dim < l->n; dim++) {
		count[dim] = (l->extent[dim] + extent[dim] - 1) / extent[dim];
		n *= count[dim];
	}
	return n;
}

static int64_t steps(const struct loops *l)
{
	int64_t n = 1;

	for (int dim = 0; dim < l->n; dim++)
		n *= l->extent[dim];
	return n;
}

/* Tiles of about room elements: of whole rows, or of chunks. */
static void plan(struct rows *r, bool folded)
{
	int64_t room, beside = 1;

	for (int dim = 0; dim < TARN_NDIM_MAX; dim++)
		r->extent[dim] = r->chunk[dim] = 1;
	for (int i = 0; i < 2 - folded; i++) {
		int source = folded ? 1 : i;
		int near = r->staged[source] ? nearest_row(r, source) : -1;

		if (near < 0 || r->extent[near] > 1)
			continue;
		r->extent[near] = MIN(r->other.extent[near], BESIDE);
		beside *= r->extent[near];
	}
	room = folded ? MIN(r->n, PART / (beside > 1 ? TILE : 1)) : r->n;
	r->n_chunks =
		cut(&r->row, folded ? room : INT64_MAX, r->chunk, r->chunks);
	room = PART / MAX(room, 1);
	if (folded)
		room = MIN(room, TILE);
	r->n_tiles = cut(&r->other, MAX(room / beside, 1), r->extent, r->count);
}

/* in_order: the row's elements stay in C order. */
static void rows_begin(struct rows *r, tarn_tensor *to, const tarn_tensor *from,
	const bool gone[TARN_NDIM_MAX], enum tarn_dtype computed, bool folded,
	bool in_order)
{
	const struct tarn_layout *l = tarn_tensor_layout(from);
	int64_t stride = 1;

	r->computed = computed;
	r->size = tarn_dtype_bits(computed) / 8;
	begin_nest(&r->other, to, from);
	begin_nest(&r->row, to, from);
	for (int dim = l->ndim - 1; dim >= 0; dim--)
		if (folded && !gone[dim])
			stride *= l->shape[dim];
	for (int dim = 0; dim < l->ndim; dim++) {
		int64_t there =
			folded ? 0 : tarn_tensor_layout(to)->stride[dim];

		if (folded && !gone[dim])
			there = stride /= MAX(l->shape[dim], 1);
		if (!l->shape[dim] && !gone[dim])
			r->other.empty = true;
		if (l->shape[dim] != 1)
			add_dim(gone[dim] ? &r->row : &r->other, l->shape[dim],
				there, l->stride[dim]);
	}
	r->n = steps(&r->row);
	if (r->other.empty || !r->n)
		return;
	loops_tidy(&r->other);
	if (in_order)
		loops_fuse(&r->row);
	else
		loops_tidy(&r->row);
	r->staged[0] = !folded && is_staged(r, 0);
	r->staged[1] = is_staged(r, 1);
	plan(r, folded);
}

/* ---- one thread's tiles -------------------------------------------------------- */

/* A move between a tile where it lies and packed rows. */
struct stage {
	struct move move;
	int n; /* loops for which it was planned; -1: none */
	int64_t extent[TARN_NDIM_MAX];
};

struct tile {
	const struct rows *rows;
	struct loops other, row;
	int64_t n_rows, n; /* of the tile; elements of each */
	struct stage stage[2];
	char *buffer;
};

static void join_nests(
	const struct loops *outer, const struct loops *inner, struct loops *ret)
{
	*ret = *outer;
	for (int i = 0; i < inner->n; i++, ret->n++) {
		ret->extent[ret->n] = inner->extent[i];
		for (int j = 0; j < 2; j++)
			ret->operand[j].stride[ret->n] =
				inner->operand[j].stride[i];
	}
}

static void plan_stage(struct tile *t, int i)
{
	struct stage *s = &t->stage[i];
	struct tarn_layout packed, there;
	struct loops all;
	size_t size;

	join_nests(&t->other, &t->row, &all);
	size = (size_t)all.n * sizeof(int64_t);
	if (s->n == all.n && !memcmp(s->extent, all.extent, size))
		return;
	s->n = all.n;
	memcpy(s->extent, all.extent, size);
	loops_pack(&all, t->rows->computed, &packed);
	there = packed;
	there.dtype = all.operand[i].dtype;
	memcpy(there.stride, all.operand[i].stride, size);
	/* It fails for C64 alone, which has no arithmetic. */
	if (move_plan(&s->move, i ? &packed : &there, i ? &there : &packed,
		    NULL) < 0)
		__builtin_unreachable();
}

/* The tile's rows, from chunk on; where it lies is other's. */
static void find_tile(struct tile *t, int64_t number, int64_t chunk)
{
	const struct rows *r = t->rows;

	loops_block(&r->other, r->extent, r->count, number, &t->other);
	loops_block(&r->row, r->chunk, r->chunks, chunk, &t->row);
	for (int i = 0; i < 2; i++)
		t->other.operand[i].at +=
			t->row.operand[i].at - r->row.operand[i].at;
	t->n_rows = steps(&t->other);
	t->n = steps(&t->row);
}

/* Room for a tile, or NULL, where none is needed; false: there is no memory. */
static bool tile_open(struct tile *t, const struct rows *r)
{
	int64_t n = 1;

	t->rows = r;
	t->stage[0].n = t->stage[1].n = -1;
	t->buffer = NULL;
	if (!r->staged[0] && !r->staged[1])
		return true;
	for (int dim = 0; dim < r->other.n; dim++)
		n *= r->extent[dim];
	for (int dim = 0; dim < r->row.n; dim++)
		n *= r->chunk[dim];
	t->buffer = aligned_alloc(64, (size_t)((n * r->size + 63) & ~63ll));
	return t->buffer;
}

/* Places of rows, one after the other. */
struct walk {
	int64_t index[TARN_NDIM_MAX];
	char *at[2];
};

static void walk_begin(struct walk *w, const struct loops *l)
{
	memset(w->index, 0, sizeof(w->index));
	w->at[0] = l->operand[0].at;
	w->at[1] = l->operand[1].at;
}

static void walk_on(struct walk *w, const struct loops *l)
{
	for (int dim = l->n - 1; dim >= 0; dim--) {
		bool wraps = ++w->index[dim] == l->extent[dim];
		int64_t by = wraps ? 1 - l->extent[dim] : 1;

		for (int i = 0; i < 2; i++)
			w->at[i] += by * l->operand[i].stride[dim] *
				    l->operand[i].size;
		if (!wraps)
			return;
		w->index[dim] = 0;
	}
}

/* ---- rows to rows --------------------------------------------------------------- */

struct map_job {
	struct rows rows;
	row_fn *kernel;
	const struct row_args *args;
	atomic_bool no_memory;
};

static void map_tile(void *arg, size_t number)
{
	struct map_job *job = arg;
	const struct rows *r = &job->rows;
	struct tile t;
	struct walk w;

	if (!tile_open(&t, r)) {
		job->no_memory = true;
		return;
	}
	find_tile(&t, (int64_t)number, 0);
	if (r->staged[1]) {
		plan_stage(&t, 1);
		move_run(&t.stage[1].move, t.buffer, t.other.operand[1].at);
	}
	walk_begin(&w, &t.other);
	for (int64_t i = 0; i < t.n_rows; i++) {
		char *row = t.buffer ? t.buffer + i * r->n * r->size : NULL;

		job->kernel((size_t)r->n, r->staged[0] ? row : w.at[0],
			r->staged[1] ? row : w.at[1], job->args);
		walk_on(&w, &t.other);
	}
	if (r->staged[0]) {
		plan_stage(&t, 0);
		move_run(&t.stage[0].move, t.other.operand[0].at, t.buffer);
	}
	free(t.buffer);
}

static int no_memory(const char *op)
{
	return tarn_error_set(ENOMEM, "%s: no memory to stage rows", op);
}

int rows_map(const char *op, tarn_tensor *to, const tarn_tensor *from,
	const bool gone[TARN_NDIM_MAX], enum tarn_dtype computed,
	row_fn *kernel, const struct row_args *args)
{
	struct map_job job = {.kernel = kernel, .args = args};

	rows_begin(&job.rows, to, from, gone, computed, false, true);
	if (job.rows.other.empty || !job.rows.n)
		return 0;
	threads_run((size_t)job.rows.n_tiles, map_tile, &job);
	return job.no_memory ? no_memory(op) : 0;
}

/* ---- rows to elements ------------------------------------------------------------ */

struct fold_job {
	struct rows rows;
	const struct folding *fold;
	int64_t a_part;            /* tiles; 1, if rows are in pieces */
	int64_t a_piece, n_pieces; /* chunks; of each row */
	struct fold_state *states; /* [n_pieces][n_tiles][TILE], if several */
	atomic_bool no_memory;
};

static void fold_chunk(const struct fold_job *job, struct tile *t,
	int64_t chunk, struct fold_state *states)
{
	const struct rows *r = &job->rows;
	struct fold_state more;
	struct walk w;
	int64_t first = 0, step = 1;

	for (int dim = r->row.n - 1; dim >= 0; dim--) {
		first += chunk % r->chunks[dim] * r->chunk[dim] * step;
		chunk /= r->chunks[dim];
		step *= r->row.extent[dim];
	}
	if (r->staged[1]) {
		plan_stage(t, 1);
		move_run(&t->stage[1].move, t->buffer, t->other.operand[1].at);
	}
	walk_begin(&w, &t->other);
	for (int64_t i = 0; i < t->n_rows; i++) {
		memset(&more, 0, sizeof(more));
		job->fold->chunk(job->fold, (size_t)t->n,
			r->staged[1] ? t->buffer + i * t->n * r->size : w.at[1],
			first, &more);
		more.n = t->n;
		if (states[i].n)
			job->fold->join(job->fold, &states[i], &more);
		else
			states[i] = more;
		walk_on(&w, &t->other);
	}
}

/* To the elements of the results; the tile is at its first chunk. */
static void finish_rows(const struct fold_job *job, const struct tile *t,
	const struct fold_state *states)
{
	struct walk w;

	walk_begin(&w, &t->other);
	for (int64_t i = 0; i < t->n_rows; i++) {
		job->fold->finish(job->fold, &states[i], w.at[0]);
		walk_on(&w, &t->other);
	}
}

/* A piece of one tile, or some tiles in whole. */
static void fold_part(void *arg, size_t part)
{
	struct fold_job *job = arg;
	const struct rows *r = &job->rows;
	int64_t groups = (r->n_tiles + job->a_part - 1) / job->a_part;
	int64_t number = (int64_t)part % groups * job->a_part;
	int64_t last = MIN(number + job->a_part, r->n_tiles);
	int64_t begin = (int64_t)part / groups * job->a_piece;
	int64_t end = MIN(begin + job->a_piece, r->n_chunks);
	struct fold_state here[TILE], *states = here;
	struct tile t;

	if (!tile_open(&t, r)) {
		job->no_memory = true;
		return;
	}
	if (job->states)
		states = job->states + (int64_t)part * TILE;
	for (; number < last; number++) {
		memset(states, 0, sizeof(here));
		for (int64_t chunk = begin; chunk < end; chunk++) {
			find_tile(&t, number, chunk);
			fold_chunk(job, &t, chunk, states);
		}
		if (job->states)
			continue;
		find_tile(&t, number, 0);
		finish_rows(job, &t, states);
	}
	free(t.buffer);
}

static void join_pieces(const struct fold_job *job)
{
	const struct rows *r = &job->rows;
	struct tile t = {.rows = r};

	for (int64_t number = 0; number < r->n_tiles; number++) {
		struct fold_state *s = job->states + number * TILE, *more = s;

		find_tile(&t, number, 0);
		for (int64_t piece = 1; piece < job->n_pieces; piece++) {
			more += r->n_tiles * TILE;
			for (int64_t i = 0; i < t.n_rows; i++)
				job->fold->join(job->fold, &s[i], &more[i]);
		}
		finish_rows(job, &t, s);
	}
}

static void plan_pieces(struct fold_job *job)
{
	const struct rows *r = &job->rows;
	int64_t pieces = 1;

	if (r->n_tiles < FEW)
		pieces = MIN(r->n_chunks, PIECES_MAX);
	job->a_piece = (r->n_chunks + pieces - 1) / pieces;
	job->n_pieces = (r->n_chunks + job->a_piece - 1) / job->a_piece;
	job->a_part = 1;
	if (job->n_pieces == 1)
		job->a_part =
			MAX(r->n_tiles * PART / (r->n * steps(&r->other)), 1);
}

/* Rows of no elements. */
static void finish_empty(const struct fold_job *job)
{
	const struct fold_state none = {0};
	struct walk w;

	walk_begin(&w, &job->rows.other);
	for (int64_t i = steps(&job->rows.other); i > 0; i--) {
		job->fold->finish(job->fold, &none, w.at[0]);
		walk_on(&w, &job->rows.other);
	}
}

int rows_fold(const char *op, tarn_tensor *to, const tarn_tensor *from,
	const bool gone[TARN_NDIM_MAX], const struct folding *fold)
{
	struct fold_job job = {.fold = fold};
	int64_t groups;

	rows_begin(&job.rows, to, from, gone, fold->computed, true,
		fold->in_order);
	if (job.rows.other.empty)
		return 0;
	if (!job.rows.n) {
		finish_empty(&job);
		return 0;
	}
	plan_pieces(&job);
	if (job.n_pieces > 1) {
		job.states = calloc((size_t)(job.n_pieces * job.rows.n_tiles),
			TILE * sizeof(*job.states));
		if (!job.states)
			return no_memory(op);
	}
	groups = (job.rows.n_tiles + job.a_part - 1) / job.a_part;
	threads_run((size_t)(groups * job.n_pieces), fold_part, &job);
	if (job.states && !job.no_memory)
		join_pieces(&job);
	free(job.states);
	return job.no_memory ? no_memory(op) : 0;
}
