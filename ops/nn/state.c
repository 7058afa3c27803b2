// SPDX-License-Identifier: MIT
/*
 * States: who holds one, and how the present one is replaced.
 *
 * A state is written by the thread that makes it, until state_swap, and by no
 * thread after that (but for seen, see below). The tree holds one reference to
 * its present state.
 *
 * Why a holder never gets a dead state. state_hold reads the pointer and adds
 * its reference under the lock; state_swap changes the pointer under the same
 * lock, and drops the tree's reference to the old state after that. So while
 * the pointer can be read the count is 1 at least, and a thread that has read
 * it has added its own reference before the tree's can go. The lock also orders
 * the maker's writes before the reads of every holder. The last to drop a state
 * frees it: its subtraction is an acquire, and those of the others are releases,
 * so that their reads of the tensors are before the end of them.
 *
 * Why no change is lost. Every change makes a new state from the present one,
 * without the lock, and swaps it only where that is still present; otherwise it
 * begins anew. The maker holds the state that it began with, so no other can
 * have its address meanwhile. Of two refreshes at once, the second to finish
 * begins anew from what the first has put there, and takes a new snapshot,
 * which cannot be older. So commits only grow.
 *
 * A forward pass holds one state, which is one snapshot's tensors: its answer
 * comes from one version. A refresh during the pass changes only which state
 * the next pass holds.
 *
 * The lock is one for all trees, held for some nanoseconds. It is taken around
 * fork(), so that no child inherits it from another thread.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "ops/nn/tree.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void drop_lock(void)
{
	pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
	pthread_atfork(take_lock, drop_lock, drop_lock);
}

/* ---- making ------------------------------------------------------------- */

int state_new(const struct tree *tree, size_t n, tarn_state **ret)
{
	tarn_state *state;
	size_t bytes;

	pthread_once(&once, prepare);
	if (__builtin_mul_overflow(n, sizeof(state->slots[0]), &bytes) ||
		__builtin_add_overflow(bytes, sizeof(*state), &bytes) ||
		!(state = calloc(1, bytes)))
		return tree_no_memory();
	state->tree = tree;
	state->n = n;
	atomic_init(&state->refs, 1);
	*ret = state;
	return 0;
}

int state_copy(const tarn_state *from, size_t n, tarn_state **ret)
{
	tarn_state *state;
	int r = state_new(from->tree, n, &state);

	if (r < 0)
		return r;
	state->commit = from->commit;
	atomic_init(&state->seen,
		atomic_load_explicit(&from->seen, memory_order_relaxed));
	for (size_t i = 0; i < from->n; i++) {
		state->slots[i] = from->slots[i];
		tarn_tensor_ref(state->slots[i].tensor);
	}
	*ret = state;
	return 0;
}

void slot_set(struct slot *slot, tarn_tensor *tensor)
{
	tarn_tensor_ref(tensor);
	tarn_tensor_unref(slot->tensor);
	slot->tensor = tensor;
}

/* ---- holding and replacing ---------------------------------------------- */

tarn_state *tarn_state_ref(tarn_state *state)
{
	if (state)
		atomic_fetch_add_explicit(
			&state->refs, 1, memory_order_relaxed);
	return state;
}

tarn_state *tarn_state_unref(tarn_state *state)
{
	/* Pairs with itself: what each holder did is before its release, and
	 * the acquire of the last one is before the end. */
	if (!state || atomic_fetch_sub_explicit(
			      &state->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (size_t i = 0; i < state->n; i++)
		tarn_tensor_unref(state->slots[i].tensor);
	free(state);
	return NULL;
}

tarn_state *state_hold(struct tree *tree)
{
	tarn_state *state;

	take_lock();
	state = tarn_state_ref(tree->current);
	drop_lock();
	return state;
}

bool state_swap(struct tree *tree, const tarn_state *from, tarn_state *to)
{
	tarn_state *old = to;

	take_lock();
	if (tree->current == from) {
		old = tree->current;
		tree->current = to;
	}
	drop_lock();
	/* Frees tensors, perhaps, which may take long. */
	tarn_state_unref(old);
	return old != to;
}

tarn_state *tarn_module_hold(tarn_module *m)
{
	return state_hold(m->tree);
}

tarn_tensor *tarn_state_tensor(const tarn_state *state, const tarn_parameter *p)
{
	if (p->module->tree != state->tree || p->slot >= state->n)
		return NULL;
	return state->slots[p->slot].tensor;
}

uint64_t tarn_state_commit(const tarn_state *state)
{
	return state->commit;
}

tarn_tensor *tarn_parameter_tensor(tarn_parameter *p)
{
	_cleanup_state_ tarn_state *state = state_hold(p->module->tree);

	return tarn_tensor_ref(state->slots[p->slot].tensor);
}
