// SPDX-License-Identifier: MIT
/* Trees: how they are made by hand, walked, and dropped. Recursion is as deep as
 * a tree may be. */
#include <errno.h>
#include <string.h>

#include "ops/nn/tree.h"

int tree_no_memory(void)
{
	return tarn_error_set(ENOMEM, "a module tree: out of memory");
}

/* ---- lifetime ----------------------------------------------------------- */

int tarn_module_new(tarn_module **ret)
{
	struct tree *tree = calloc(1, sizeof(*tree));
	int r;

	if (!tree || !(tree->root.named.path = calloc(1, 1))) {
		free(tree);
		return tree_no_memory();
	}
	tree->root.tree = tree;
	tree->root.named.name = tree->root.named.path;
	atomic_init(&tree->refs, 1);
	r = state_new(tree, 0, &tree->current);
	if (r < 0) {
		tarn_module_unref(&tree->root);
		return r;
	}
	*ret = &tree->root;
	return 0;
}

tarn_module *tarn_module_ref(tarn_module *m)
{
	if (m)
		atomic_fetch_add_explicit(
			&m->tree->refs, 1, memory_order_relaxed);
	return m;
}

static void module_clear(tarn_module *m)
{
	for (size_t i = 0; i < m->n_children; i++) {
		module_clear(m->children[i]);
		free(m->children[i]);
	}
	free(m->children);
	free(m->tensors);
	free(m->named.path);
}

tarn_module *tarn_module_unref(tarn_module *m)
{
	struct tree *tree = m ? m->tree : NULL;

	/* Pairs with itself: each user's accesses are before its own release,
	 * and the acquire of the last one is before the end. */
	if (!m || atomic_fetch_sub_explicit(
			  &tree->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	module_clear(&tree->root);
	for (size_t i = 0; i < tree->n; i++) {
		free(tree->parameters[i]->named.path);
		free(tree->parameters[i]);
	}
	free(tree->parameters);
	tarn_state_unref(tree->current);
	tarn_store_unref(tree->store);
	free(tree->prefix);
	free(tree);
	return NULL;
}

/* ---- adding ------------------------------------------------------------- */

/* The new state is made first, so that after an error nothing is left but empty
 * modules. It always gets its place: a call that adds runs beside no other. */
static int add(tarn_module *m, const char *path, tarn_tensor *tensor,
	bool buffer, tarn_parameter **ret)
{
	struct tree *tree = m->tree;
	_cleanup_state_ tarn_state *base = state_hold(tree), *next = NULL;
	tarn_parameter *p;
	int r = state_copy(base, base->n + 1, &next);

	if (r >= 0)
		r = tree_add(m, path, tarn_tensor_layout(tensor), buffer, &p);
	if (r < 0)
		return r;
	slot_set(&next->slots[p->slot], tensor);
	(void)state_swap(tree, base, STEAL(next));
	if (ret)
		*ret = p;
	return 0;
}

int tarn_module_add_parameter(tarn_module *m, const char *path,
	tarn_tensor *tensor, tarn_parameter **ret)
{
	return add(m, path, tensor, false, ret);
}

int tarn_module_add_buffer(tarn_module *m, const char *path,
	tarn_tensor *tensor, tarn_parameter **ret)
{
	return add(m, path, tensor, true, ret);
}

/* ---- structure ---------------------------------------------------------- */

const char *tarn_module_path(const tarn_module *m)
{
	return m->named.path;
}

const char *tarn_module_name(const tarn_module *m)
{
	return m->named.name;
}

tarn_module *tarn_module_parent(const tarn_module *m)
{
	return m->parent;
}

size_t tarn_module_children(const tarn_module *m, tarn_module *const **ret)
{
	*ret = m->children;
	return m->n_children;
}

size_t tarn_module_parameters(const tarn_module *m, tarn_parameter *const **ret)
{
	*ret = m->tensors;
	return m->n_tensors;
}

int tarn_module_walk(
	tarn_module *m, int (*fn)(void *arg, tarn_module *m), void *arg)
{
	int r = fn(arg, m);

	for (size_t i = 0; r == 0 && i < m->n_children; i++)
		r = tarn_module_walk(m->children[i], fn, arg);
	return r;
}

int tarn_module_apply(
	tarn_module *m, int (*fn)(void *arg, tarn_module *m), void *arg)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n_children; i++)
		r = tarn_module_apply(m->children[i], fn, arg);
	return r ? r : fn(arg, m);
}

int tarn_module_each(
	tarn_module *m, int (*fn)(void *arg, tarn_parameter *p), void *arg)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n_tensors; i++)
		r = fn(arg, m->tensors[i]);
	for (size_t i = 0; r == 0 && i < m->n_children; i++)
		r = tarn_module_each(m->children[i], fn, arg);
	return r;
}

const char *path_below(const tarn_module *m, const tarn_parameter *p)
{
	return *m->named.path ? p->named.path + strlen(m->named.path) + 1
			      : p->named.path;
}

struct list {
	tarn_parameter **all;
	size_t n;
};

static int append(void *arg, tarn_parameter *p)
{
	struct list *list = arg;

	list->all[list->n++] = p;
	return 0;
}

int tree_list(tarn_module *m, tarn_parameter ***ret, size_t *ret_n)
{
	struct list list = {
		.all = calloc(m->tree->n + 1, sizeof(tarn_parameter *))};
	int r = list.all ? tarn_module_each(m, append, &list) : -ENOMEM;

	if (r < 0)
		return tree_no_memory();
	*ret = list.all;
	*ret_n = list.n;
	return 0;
}

/* ---- parameters --------------------------------------------------------- */

const char *tarn_parameter_path(const tarn_parameter *p)
{
	return p->named.path;
}

const char *tarn_parameter_name(const tarn_parameter *p)
{
	return p->named.name;
}

bool tarn_parameter_is_buffer(const tarn_parameter *p)
{
	return p->buffer;
}

/* Relaxed: a mark that orders nothing else. */
bool tarn_parameter_trainable(const tarn_parameter *p)
{
	return atomic_load_explicit(&p->trainable, memory_order_relaxed);
}

int tarn_parameter_set_trainable(tarn_parameter *p, bool trainable)
{
	if (p->buffer && trainable)
		return tarn_error_set(EINVAL,
			"'%.80s' is a buffer, which cannot be trainable",
			p->named.path);
	atomic_store_explicit(&p->trainable, trainable, memory_order_relaxed);
	return 0;
}

static int set_trainable(void *arg, tarn_parameter *p)
{
	if (!p->buffer)
		atomic_store_explicit(
			&p->trainable, *(bool *)arg, memory_order_relaxed);
	return 0;
}

void tarn_module_set_trainable(tarn_module *m, bool trainable)
{
	(void)!tarn_module_each(m, set_trainable, &trainable);
}
