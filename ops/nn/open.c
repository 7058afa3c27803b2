// SPDX-License-Identifier: MIT
/* Trees of what a store or a file has, and the newer versions of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <tarn/store.h>

#include "ops/nn/tree.h"

/* ---- opening ------------------------------------------------------------ */

static int check_options(const struct tarn_module_options *options)
{
	size_t n = options ? ARRAY_SIZE(options->reserved) : 0;

	for (size_t i = 0; i < n; i++)
		if (options->reserved[i])
			return tarn_error_set(EINVAL,
				"struct tarn_module_options: reserved word %zu "
				"is 0x%llx, not 0",
				i, (unsigned long long)options->reserved[i]);
	return 0;
}

static bool ends_with(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	return n >= m && strcmp(path + n - m, end) == 0 &&
	       (n == m || path[n - m - 1] == '.');
}

static bool is_buffer(const struct tarn_module_options *options,
	const char *path, const tarn_tensor *tensor)
{
	enum tarn_dtype dtype = tarn_tensor_layout(tensor)->dtype;

	if (options && options->is_buffer)
		return options->is_buffer(options->arg, path, tensor);
	for (size_t i = 0; options && i < options->n_buffers; i++)
		if (ends_with(path, options->buffers[i]))
			return true;
	return !is_float(dtype) && dtype != TARN_C64;
}

/* A tree with the paths of a set, whose tensors are its state. */
static int tree_from(const struct tensor_set *set,
	const struct tarn_module_options *options, tarn_module **ret)
{
	_cleanup_module_ tarn_module *m = NULL;
	_cleanup_state_ tarn_state *state = NULL;
	int r = set->n ? tarn_module_new(&m)
		       : tarn_error_set(ENOENT,
				 "%.200s: there is no tensor of that prefix",
				 set->what);

	if (r >= 0)
		r = state_new(m->tree, set->n, &state);
	for (size_t i = 0; r >= 0 && i < set->n; i++) {
		const struct set_item *item = &set->items[i];
		tarn_parameter *p;

		r = tree_add(m, item->path, tarn_tensor_layout(item->tensor),
			is_buffer(options, item->path, item->tensor), &p);
		if (r < 0)
			break;
		slot_set(&state->slots[p->slot], item->tensor);
		state->slots[p->slot].origin = item->origin;
	}
	if (r < 0)
		return r;
	state->commit = set->commit;
	atomic_init(&state->seen, set->commit);
	tarn_state_unref(m->tree->current);
	m->tree->current = STEAL(state);
	*ret = STEAL(m);
	return 0;
}

int tarn_module_open(tarn_store *store, const char *name,
	const struct tarn_module_options *options, tarn_module **ret)
{
	_cleanup_set_ struct tensor_set set = {.n = 0};
	_cleanup_free_ char *prefix = NULL;
	tarn_module *m;
	int r = check_options(options);

	if (r < 0)
		return r;
	if (asprintf(&prefix, "%s/%s", name,
		    options && options->prefix ? options->prefix : "") < 0) {
		prefix = NULL;
		return tree_no_memory();
	}
	r = set_from_store(store, prefix, &set);
	if (r >= 0)
		r = tree_from(&set, options, &m);
	if (r < 0)
		return r;
	m->tree->store = tarn_store_ref(store);
	m->tree->prefix = STEAL(prefix);
	*ret = m;
	return 0;
}

int tarn_module_open_file(tarn_file *file,
	const struct tarn_module_options *options, tarn_module **ret)
{
	_cleanup_set_ struct tensor_set set = {.n = 0};
	int r = check_options(options);

	if (r >= 0)
		r = set_from_file(file, options, &set);
	return r < 0 ? r : tree_from(&set, options, ret);
}

/* ---- newer versions ----------------------------------------------------- */

static int check_bound(const struct tree *tree)
{
	return tree->store
		       ? 0
		       : tarn_error_set(ENOTSUP,
				 "refresh: the tree is not bound to the names "
				 "of a store; open it by tarn_module_open");
}

/* The pool's present commit: a snapshot of no names is that alone. */
static int commit_now(tarn_store *store, uint64_t *ret)
{
	struct tarn_snapshot *none;
	int r = tarn_store_snapshot_names(store, NULL, 0, &none);

	if (r < 0)
		return r;
	*ret = none->commit;
	tarn_snapshot_free(none);
	return 0;
}

static bool is_newer(const tarn_state *a, const tarn_state *b)
{
	for (size_t i = 0; i < a->n; i++)
		if (memcmp(&a->slots[i].origin, &b->slots[i].origin,
			    sizeof(struct origin)) != 0)
			return true;
	return false;
}

/*
 * The state of a newer version, not yet converted: 1; 0: there is none. seen is
 * a shortcut: two equal commits are equal in all names. Any thread may store
 * any commit at which it found the state current, so relaxed accesses do.
 */
static int newer(struct tree *tree, tarn_state *base, tarn_state **ret)
{
	_cleanup_set_ struct tensor_set set = {.n = 0};
	_cleanup_state_ tarn_state *next = NULL;
	char what[120];
	uint64_t now;
	int r = commit_now(tree->store, &now);

	if (r < 0 ||
		now == atomic_load_explicit(&base->seen, memory_order_relaxed))
		return r;
	r = set_from_store(tree->store, tree->prefix, &set);
	if (r >= 0)
		r = state_copy(base, base->n, &next);
	if (r < 0)
		return r;
	snprintf(
		what, sizeof(what), "refresh: %.80s has changed", tree->prefix);
	r = set_into(&set, &tree->root, STRICT, what, next, NULL);
	if (r < 0)
		return r;
	if (!is_newer(base, next)) {
		atomic_store_explicit(
			&base->seen, set.commit, memory_order_relaxed);
		return 0;
	}
	next->commit = set.commit;
	atomic_init(&next->seen, set.commit);
	*ret = STEAL(next);
	return 1;
}

int tarn_module_refresh(tarn_module *m)
{
	struct tree *tree = m->tree;
	int r = check_bound(tree);

	while (r >= 0) {
		_cleanup_state_ tarn_state *base = state_hold(tree),
					   *next = NULL;

		r = newer(tree, base, &next);
		if (r == 1)
			r = state_convert(next);
		else
			return r;
		if (r >= 0 && state_swap(tree, base, STEAL(next)))
			return 1;
	}
	return r;
}

/* ---- waiting ------------------------------------------------------------ */

#define SLICE_MS 20 /* until a change of other names is noticed; picked */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Sleeps until the first parameter's name has a newer version, or for a slice;
 * a new version of the others is left to the caller. A name that was removed and
 * published again begins with version 1: the slice finds that. */
static int doze(struct tree *tree, const tarn_state *state, int slice)
{
	_cleanup_free_ char *name = NULL;
	int r;

	if (asprintf(&name, "%s%s", tree->prefix,
		    tree->parameters[0]->named.path) < 0) {
		name = NULL;
		return tree_no_memory();
	}
	r = tarn_store_wait(tree->store, name, state->slots[0].origin.version,
		slice, NULL, NULL);
	return r == -ETIMEDOUT ? 0 : r;
}

/* Is there something for a refresh to do? What makes it fail is something, but
 * for what hinders this, too. */
static int is_due(struct tree *tree, tarn_state *state)
{
	_cleanup_state_ tarn_state *next = NULL;
	int r = newer(tree, state, &next);

	return r == -EINVAL ? 1 : r;
}

int tarn_module_wait(tarn_module *m, int timeout_ms)
{
	struct tree *tree = m->tree;
	int64_t end = now_ms() + timeout_ms;
	int r = check_bound(tree);

	while (r >= 0) {
		_cleanup_state_ tarn_state *state = state_hold(tree);
		int64_t left = timeout_ms < 0 ? SLICE_MS : end - now_ms();

		r = is_due(tree, state);
		if (r == 1)
			return 0;
		if (r >= 0 && left <= 0)
			return tarn_error_set(ETIMEDOUT,
				"wait: %.80s has no newer version after %d ms",
				tree->prefix, timeout_ms);
		if (r >= 0)
			r = doze(tree, state, (int)MIN(left, SLICE_MS));
	}
	return r;
}
