// SPDX-License-Identifier: MIT
/* How much a tree has. Of tied tensors the first path in order counts. */
#include <errno.h>

#include "ops/nn/tree.h"

struct counted {
	const tarn_parameter *p;
	const tarn_tensor *tensor;
	size_t at; /* in the order of paths */
};

static int in_tied_order(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;
	int order = tied_order(x->tensor, y->tensor);

	return order ? order : (x->at > y->at) - (x->at < y->at);
}

static void count_one(
	const struct counted *c, struct tarn_module_counts *counts)
{
	const struct tarn_layout *l = tarn_tensor_layout(c->tensor);
	uint64_t elements = (uint64_t)tarn_layout_numel(l);

	counts->bytes += (uint64_t)tarn_layout_nbytes(l);
	if (c->p->buffer) {
		counts->buffers++;
		return;
	}
	counts->parameters++;
	counts->elements += elements;
	if (tarn_parameter_trainable(c->p))
		counts->trainable += elements;
}

static int count_module(void *arg, tarn_module *m)
{
	(void)m;
	++*(size_t *)arg;
	return 0;
}

int tarn_module_count(
	tarn_module *m, unsigned flags, struct tarn_module_counts *ret)
{
	_cleanup_state_ tarn_state *state = tarn_module_hold(m);
	_cleanup_free_ tarn_parameter **all = NULL;
	_cleanup_free_ struct counted *counted = NULL;
	struct tarn_module_counts counts = {.modules = 0};
	size_t n;
	int r;

	if (flags & ~TARN_COUNT_TIED)
		return tarn_error_set(
			EINVAL, "count: flags 0x%x are not known", flags);
	r = tree_list(m, &all, &n);
	if (r < 0)
		return r;
	counted = calloc(n + 1, sizeof(counted[0]));
	if (!counted)
		return tree_no_memory();
	for (size_t i = 0; i < n; i++)
		counted[i] = (struct counted) {.p = all[i],
			.tensor = tarn_state_tensor(state, all[i]),
			.at = i};
	qsort(counted, n, sizeof(counted[0]), in_tied_order);
	for (size_t i = 0; i < n; i++)
		if (flags || !i ||
			tied_order(counted[i - 1].tensor, counted[i].tensor))
			count_one(&counted[i], &counts);
	r = tarn_module_walk(m, count_module, &counts.modules);
	*ret = counts;
	return r;
}
