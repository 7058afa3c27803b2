/* SPDX-License-Identifier: MIT */
/*
 * A set of published tensors as it stood at one moment.
 *
 * Names are listed one by one, and while that goes on a publisher may replace
 * all of them: the list would have some of the old set and some of the new.
 * The idea: list, take hold of everything, and list again. Where both lists
 * are the same, down to versions and storages, each name meant the same from
 * its place in the first list to its place in the second, so all of them did
 * in the moment between the two. Otherwise once more. (The double collect of
 * Afek et al., "Atomic snapshots of shared memory", 1993.)
 *
 * Tensors never change once they are published, but for mutable ones: those
 * are locked for reading, so that who writes them under their lock is waited
 * for.
 */
#include "cli/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tarn/channel.h>
#include <tarn/publish.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/say.h"
#include "cli/store.h"

/* Publishers who replace a set more often than a list of it takes, for some
 * seconds on end, leave no moment in which it stands. */
#define TRIES 200
#define NAP_MS 10

#define LOCK_MS 10000 /* picked: a write of a tensor is done by then */

void held_free(struct held *held)
{
	for (size_t i = 0; i < held->n; i++) {
		tarn_tensor_unref(held->at[i].tensor);
		free(held->at[i].name);
	}
	free(held->at);
	*held = (struct held) {0};
}

/* ---- a list -------------------------------------------------------- */

struct collect {
	struct held *held;
	const char *prefix;
	size_t size; /* of the prefix, without slashes at its end */
	bool below;  /* and nothing of that name itself */
};

static bool is_wanted(const struct collect *c, const char *name)
{
	if (c->size == 0 || name[c->size] == '/')
		return true;
	return name[c->size] == '\0' && !c->below;
}

/* What it is called in a file. */
static const char *short_name(const struct collect *c, const char *name)
{
	const char *slash = strrchr(name, '/');

	if (c->size == 0)
		return name;
	if (name[c->size] == '/')
		return name + c->size + 1;
	return slash ? slash + 1 : name;
}

static int add(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	const struct collect *c = arg;
	struct held *held = c->held;
	struct held_one *one;

	if (!is_wanted(c, name))
		return 0;
	if (held->n == held->size) {
		held->size = held->size ? 2 * held->size : 64;
		held->at = must(reallocarray(
			held->at, held->size, sizeof(held->at[0])));
	}
	one = &held->at[held->n++];
	*one = (struct held_one) {.name = must(strdup(name)),
		.descriptor = *descriptor,
		.version = version};
	one->short_name = short_name(c, one->name);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct held_one *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Its items come and go: there is nothing in it to be held. */
static int drop_channel(void *arg, const char *name)
{
	struct held *held = arg;
	struct held_one key = {.name = (char *)name}, *found;

	found = held->n ? bsearch(&key, held->at, held->n, sizeof(held->at[0]),
				  by_name)
			: NULL;
	if (!found)
		return 0;
	free(found->name);
	memmove(found, found + 1,
		(size_t)(held->at + --held->n - found) * sizeof(*found));
	return 0;
}

static int list(tarn_store *store, const struct collect *as, struct held *ret)
{
	struct collect c = *as;
	_cleanup_free_ char *prefix = must(strndup(c.prefix, c.size));
	int r;

	c.held = ret;
	r = tarn_store_list(store, prefix, add, &c);
	if (ret->n)
		qsort(ret->at, ret->n, sizeof(ret->at[0]), by_name);
	return r < 0 ? r : tarn_channel_list(store, prefix, drop_channel, ret);
}

static bool is_same(const struct held *a, const struct held *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct held_one *x = &a->at[i], *y = &b->at[i];

		if (x->version != y->version || strcmp(x->name, y->name) != 0 ||
			memcmp(&x->descriptor, &y->descriptor,
				sizeof(x->descriptor)) != 0)
			return false;
	}
	return true;
}

/* ---- a moment ------------------------------------------------------ */

/* 0; -EAGAIN: it changed meanwhile. */
static int try(tarn_store *store, const struct collect *c, struct held *ret)
{
	_cleanup_held_ struct held again = {0};
	int r = list(store, c, ret);

	for (size_t i = 0; r >= 0 && i < ret->n; i++) {
		struct held_one *one = &ret->at[i];

		r = tarn_store_import(store, &one->descriptor, &one->tensor);
	}
	if (r >= 0)
		r = list(store, c, &again);
	if (r >= 0 && !is_same(ret, &again))
		r = -EAGAIN;
	/* Stale: replaced between the list and the hold on it. */
	return r == -ESTALE ? -EAGAIN : r;
}

/* A lock of one storage is asked for once: a thread that has it would wait for
 * a writer who waits for that thread. */
static int lock_mutable(struct held *held)
{
	tarn_tensor **locked = must(calloc(held->n + 1, sizeof(*locked)));
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < held->n; i++) {
		tarn_tensor *t = held->at[i].tensor;
		size_t k = 0;

		while (k < n && !tarn_tensor_same_storage(locked[k], t))
			k++;
		if (k < n)
			continue;
		r = tarn_tensor_lock(t, TARN_LOCK_READ, LOCK_MS);
		if (r >= 0)
			locked[n++] = t;
		else if (r == -ENOTSUP)
			r = 0;
		if (r == -ETIMEDOUT)
			say_failed("'%s' is being written, for %d seconds now",
				held->at[i].name, LOCK_MS / 1000);
		else if (r < 0)
			say_error();
	}
	free(locked);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int nothing(tarn_store *store, const char *prefix, bool below)
{
	if (!below && cli_is_channel(store, prefix))
		return cli_channel_failed(prefix);
	if (below)
		say_failed("nothing is published below '%s'", prefix);
	else
		say_failed("nothing is published as '%s', or below it", prefix);
	cli_hint_name(store, prefix);
	return EXIT_FAILED;
}

int held_take(tarn_store *store, const char *prefix, struct held *ret)
{
	const struct timespec nap = {.tv_nsec = NAP_MS * 1000000};
	struct collect c = {.prefix = prefix, .size = strlen(prefix)};
	int r;

	for (; c.size && prefix[c.size - 1] == '/'; c.size--)
		c.below = true;
	for (int i = 0;; i++) {
		r = try(store, &c, ret);
		if (r != -EAGAIN || i == TRIES)
			break;
		held_free(ret);
		nanosleep(&nap, NULL);
	}
	if (r == -EAGAIN) {
		say_failed("what is published below '%s' never stood still: it "
			   "changed %d times while it was listed",
			prefix, TRIES);
		say_hint("save it in parts, or when less is published");
		return EXIT_FAILED;
	}
	if (r < 0)
		return say_error();
	return ret->n ? lock_mutable(ret) : nothing(store, prefix, c.below);
}
