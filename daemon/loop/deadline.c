/* SPDX-License-Identifier: MIT */
/*
 * A pairing heap (Fredman, Sedgewick, Sleator, Tarjan, 1986): a tree in which
 * no child is earlier than its parent. Two trees become one by comparing their
 * roots; a root that goes leaves its children, which are joined in pairs from
 * the left, and the pairs from the right.
 */
#include "daemon/loop/deadline.h"

#include <stddef.h>

/* Both are roots, or NULL. */
static struct deadline *join(struct deadline *a, struct deadline *b)
{
	struct deadline *root, *child;

	if (!a || !b)
		return a ? a : b;
	root = b->at < a->at ? b : a;
	child = root == a ? b : a;
	child->before = root;
	child->next = root->child;
	if (child->next)
		child->next->before = child;
	root->child = child;
	return root;
}

static struct deadline *join_children(struct deadline *first)
{
	struct deadline *pairs = NULL, *root = NULL;

	while (first) {
		struct deadline *a = first, *b = a->next;

		first = b ? b->next : NULL;
		a->next = a->before = NULL;
		if (b)
			b->next = b->before = NULL;
		a = join(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct deadline *a = pairs;

		pairs = a->next;
		a->next = NULL;
		root = join(root, a);
	}
	return root;
}

static void take_out(struct deadlines *all, struct deadline *d)
{
	struct deadline *below = join_children(d->child);

	if (d == all->first) {
		all->first = below;
	} else {
		if (d->before->child == d)
			d->before->child = d->next;
		else
			d->before->next = d->next;
		if (d->next)
			d->next->before = d->before;
		all->first = join(all->first, below);
	}
	d->child = d->next = d->before = NULL;
	d->at = 0;
}

void deadline_set(struct deadlines *all, struct deadline *d, uint64_t at)
{
	if (d->at == at)
		return;
	if (d->at)
		take_out(all, d);
	d->at = at;
	if (at)
		all->first = join(all->first, d);
}

void deadline_call(struct deadlines *all, struct deadline *d, uint64_t at,
	void (*fn)(void *arg), void *arg)
{
	d->fn = fn;
	d->arg = arg;
	deadline_set(all, d, at);
}

void deadline_set_by(struct deadlines *all, struct deadline *d, uint64_t at)
{
	if (!d->at || at < d->at)
		deadline_set(all, d, at);
}

uint64_t deadlines_next(const struct deadlines *all)
{
	return all->first ? all->first->at : UINT64_MAX;
}

void deadlines_run(struct deadlines *all, uint64_t now)
{
	struct deadline *d;

	while ((d = all->first) && d->at <= now) {
		take_out(all, d);
		if (d->fn)
			d->fn(d->arg);
	}
}
