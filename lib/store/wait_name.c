/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a publication under a name.
 *
 * Each look is a look-up like any other, and opens what it finds at once; if
 * that is gone already, it was replaced or removed, and the commit that did so
 * wakes the waiter.
 */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "lib/store/store.h"
#include "lib/store/wait.h"

struct wanted {
	tarn_store *store;
	const char *name;
	size_t size;
	uint64_t version; /* only a version above this one */
	uint64_t commit;  /* and only one written by another commit */
	bool open;        /* the caller also wants the tensor */
	/* The result of the last look. */
	bool there;
	struct table_name found;
	tarn_tensor *tensor;
};

static int look(void *arg)
{
	struct wanted *w = arg;
	int r = table_find(&w->store->table, w->name, w->size, &w->found);

	w->there = r >= 0;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (w->found.version <= w->version || w->found.commit == w->commit)
		return 0;
	if (w->open)
		r = store_import_nearest(
			w->store, &w->found.descriptor, &w->tensor);
	if (r == -ESTALE) {
		w->there = false;
		return 0;
	}
	/* The server stopped while it was freeing it. The next server decides,
	 * and there is time. */
	if (r == -EBUSY)
		return -EAGAIN;
	return r < 0 ? r : 1;
}

static int timed_out(const struct wanted *w, int timeout_ms)
{
	if (!w->there)
		return tarn_fail(ETIMEDOUT,
			"'%.200s': nobody has published it within %d ms",
			w->name, timeout_ms);
	if (w->found.version < w->version)
		return tarn_fail(ETIMEDOUT,
			"'%.200s': it is at version %llu, and nobody has "
			"published one above %llu within %d ms",
			w->name, (unsigned long long)w->found.version,
			(unsigned long long)w->version, timeout_ms);
	return tarn_fail(ETIMEDOUT,
		"'%.200s': it is at version %llu, and nobody has published a "
		"newer one within %d ms",
		w->name, (unsigned long long)w->found.version, timeout_ms);
}

static int wait_for(struct wanted *w, int timeout_ms)
{
	int r;

	w->size = strlen(w->name);
	r = name_check(w->name, w->size);
	if (r >= 0)
		r = store_wait(w->store, timeout_ms, look, w);
	if (r == -ETIMEDOUT)
		return timed_out(w, timeout_ms);
	return r < 0 ? tarn_fail_prefix(r, "'%.200s': ", w->name) : 0;
}

int tarn_store_wait(tarn_store *store, const char *name, uint64_t newer_than,
	int timeout_ms, tarn_tensor **ret, uint64_t *ret_version)
{
	struct wanted w = {.store = store,
		.name = name,
		.version = newer_than,
		.open = ret};
	int r = wait_for(&w, timeout_ms);

	if (r < 0)
		return r;
	if (ret)
		*ret = w.tensor;
	if (ret_version)
		*ret_version = w.found.version;
	return 0;
}

int tarn_store_next(tarn_store *store, const char *name, uint64_t *cursor,
	int timeout_ms, tarn_tensor **ret)
{
	struct wanted w = {
		.store = store, .name = name, .commit = *cursor, .open = true};
	int r = wait_for(&w, timeout_ms);

	if (r < 0)
		return r;
	*cursor = w.found.commit;
	*ret = w.tensor;
	return 0;
}

int tarn_store_version(
	tarn_store *store, const char *name, uint64_t *ret_version)
{
	size_t size = strlen(name);
	struct table_name found;
	int r = name_check(name, size);

	if (r >= 0)
		r = store_read_name(store, name, size, &found);
	if (r < 0)
		return r;
	*ret_version = found.version;
	return 0;
}
