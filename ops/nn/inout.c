// SPDX-License-Identifier: MIT
/* State in and out: each of these holds one state, so that what is written is of
 * one version. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ops/nn/tree.h"

int tarn_module_save(tarn_module *m, const char *path,
	const struct tarn_save_options *options)
{
	_cleanup_state_ tarn_state *state = tarn_module_hold(m);
	_cleanup_set_ struct tensor_set set = {.n = 0};
	_cleanup_free_ struct tarn_save_item *items = NULL;
	int r = set_from_tree(m, state, &set);

	if (r < 0)
		return r;
	items = calloc(set.n + 1, sizeof(items[0]));
	if (!items)
		return tree_no_memory();
	for (size_t i = 0; i < set.n; i++) {
		items[i].name = set.items[i].path;
		items[i].tensor = set.items[i].tensor;
	}
	return tarn_save(path, items, set.n, options, NULL);
}

/* ---- publishing --------------------------------------------------------- */

/* All names behind each other, in one piece of memory. */
static char *join_names(
	const struct tensor_set *set, const char *name, size_t *ret_each)
{
	size_t longest = 0, bytes;

	for (size_t i = 0; i < set->n; i++)
		longest = MAX(longest, strlen(set->items[i].path));
	*ret_each = strlen(name) + 1 + longest + 1;
	return __builtin_mul_overflow(*ret_each, set->n + 1, &bytes)
		       ? NULL
		       : malloc(bytes);
}

int tarn_module_publish(tarn_module *m, tarn_store *store, const char *name,
	const struct tarn_publish_options *options)
{
	_cleanup_state_ tarn_state *state = tarn_module_hold(m);
	_cleanup_set_ struct tensor_set set = {.n = 0};
	_cleanup_free_ struct tarn_publish_item *items = NULL;
	_cleanup_free_ char *names = NULL;
	size_t each;
	int r = set_from_tree(m, state, &set);

	if (r < 0)
		return r;
	items = calloc(set.n + 1, sizeof(items[0]));
	names = join_names(&set, name, &each);
	if (!items || !names)
		return tree_no_memory();
	for (size_t i = 0; i < set.n; i++) {
		snprintf(names + i * each, each, "%s/%s", name,
			set.items[i].path);
		items[i].name = names + i * each;
		items[i].tensor = set.items[i].tensor;
	}
	return tarn_store_publish(store, items, set.n, options, NULL);
}

/* ---- loading ------------------------------------------------------------ */

int tarn_module_load_state(tarn_module *m, tarn_module *from, bool strict,
	struct tarn_module_difference *ret)
{
	_cleanup_state_ tarn_state *other = tarn_module_hold(from);
	_cleanup_set_ struct tensor_set set = {.n = 0};
	int r = set_from_tree(from, other, &set);

	while (r >= 0) {
		_cleanup_state_ tarn_state *base = tarn_module_hold(m),
					   *next = NULL;

		r = state_copy(base, base->n, &next);
		if (r >= 0)
			r = set_into(&set, m, strict, "load_state", next, ret);
		if (r >= 0)
			r = state_convert(next);
		if (r >= 0 && state_swap(m->tree, base, STEAL(next)))
			return 0;
	}
	return r;
}
