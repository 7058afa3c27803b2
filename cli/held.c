/* SPDX-License-Identifier: MIT */
/*
 * A set of published tensors as it stood at one moment: a snapshot, and what
 * each of its tensors is called in a file.
 *
 * Tensors never change once they are published, but for mutable ones. Those are
 * locked for reading, so that a process that writes them under their lock is
 * waited for.
 */
#include "cli/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/publish.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/store.h"

#define LOCK_MS 10000 /* picked: a write of a tensor is done by then */

void held_free(struct held *held)
{
	tarn_snapshot_free(held->snapshot);
	free(held->at);
	*held = (struct held) {0};
}

/* ---- names --------------------------------------------------------- */

struct wanted {
	const char *prefix;
	size_t size; /* of the prefix, without slashes at its end */
	bool below;  /* and nothing of that name itself */
};

/* Of a name with that prefix. */
static bool is_wanted(const struct wanted *w, const char *name)
{
	if (w->size == 0 || name[w->size] == '/')
		return true;
	return name[w->size] == '\0' && !w->below;
}

/* Its name in a file. */
static const char *short_name(const struct wanted *w, const char *name)
{
	const char *slash = strrchr(name, '/');

	if (w->size == 0)
		return name;
	if (name[w->size] == '/')
		return name + w->size + 1;
	return slash ? slash + 1 : name;
}

static int by_name(const void *a, const void *b)
{
	const struct held_one *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void choose(struct held *held, const struct wanted *w)
{
	const struct tarn_snapshot *s = held->snapshot;

	held->at = must(calloc(s->n + 1, sizeof(held->at[0])));
	for (size_t i = 0; i < s->n; i++) {
		const struct tarn_snapshot_item *item = &s->items[i];

		if (is_wanted(w, item->name))
			held->at[held->n++] =
				(struct held_one) {.name = item->name,
					.short_name = short_name(w, item->name),
					.tensor = item->tensor};
	}
	qsort(held->at, held->n, sizeof(held->at[0]), by_name);
}

/* ---- locks --------------------------------------------------------- */

/* A storage is locked once only: a thread that has the lock would wait for a
 * writer that waits for that thread. */
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
			print_failure(
				"'%s' is being written, for %d seconds now",
				held->at[i].name, LOCK_MS / 1000);
		else if (r < 0)
			print_error();
	}
	free(locked);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int nothing(tarn_store *store, const char *prefix, bool below)
{
	if (!below && cli_is_channel(store, prefix))
		return cli_channel_failed(prefix);
	if (below)
		print_failure("nothing is published below '%s'", prefix);
	else
		print_failure(
			"nothing is published as '%s', or below it", prefix);
	cli_hint_name(store, prefix);
	return EXIT_FAILED;
}

int held_take(tarn_store *store, const char *prefix, struct held *ret)
{
	struct wanted w = {.prefix = prefix, .size = strlen(prefix)};
	_cleanup_free_ char *begin = NULL;

	for (; w.size && prefix[w.size - 1] == '/'; w.size--)
		w.below = true;
	begin = must(strndup(prefix, w.size));
	if (tarn_store_snapshot(store, begin, &ret->snapshot) < 0)
		return print_error();
	choose(ret, &w);
	return ret->n ? lock_mutable(ret) : nothing(store, prefix, w.below);
}
