/* SPDX-License-Identifier: MIT */
/*
 * Published names to tensors.
 *
 * The table's entry of a name is a descriptor that is checked like an untrusted
 * one. If its storage was freed between the read of the name and the lease, the
 * name has been replaced or removed, and is simply looked up again.
 */
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "lib/store/store.h"

/* A name that is replaced this often during a look-up is replaced faster than
 * it can be used. */
#define LOOKUP_TRIES 100

/* If a server died while it restructured the table, the next one is there
 * within this many. */
#define AWAIT_TRIES 2000
#define AWAIT_NAP_US 1000

int store_read_name(tarn_store *store, const char *name, size_t size,
	struct table_name *ret)
{
	const struct timespec nap = {.tv_nsec = AWAIT_NAP_US * 1000};
	int r;

	for (int i = 0; i < AWAIT_TRIES; i++) {
		r = table_find(&store->table, name, size, ret);
		if (r == -ENOENT)
			return tarn_fail(ENOENT,
				"no tensor is published as '%.200s'", name);
		if (r != -EAGAIN)
			return r;
		nanosleep(&nap, NULL);
	}
	return tarn_fail(EAGAIN,
		"'%.200s': the daemon at %s has stopped while it moved names; "
		"try again",
		name, store->socket);
}

int tarn_store_lookup(tarn_store *store, const char *name, tarn_tensor **ret)
{
	size_t size = strlen(name);
	struct table_name found;
	int r = -ESTALE;

	if (size == 0 || size > TARN_NAME_MAX)
		return name_check(name, size);
	for (int i = 0; i < LOOKUP_TRIES && r == -ESTALE; i++) {
		r = store_read_name(store, name, size, &found);
		if (r == -ENOENT)
			return r;
		if (r >= 0)
			r = store_import_nearest(store, &found.descriptor, ret);
	}
	return r < 0 ? tarn_fail_prefix(r, "'%.200s': ", name) : 0;
}

/* ---- listing --------------------------------------------------------- */

struct lister {
	const struct tarn_store *store;
	bool channels; /* only channels; or everything else */
	int (*fn)(void *arg, const char *name,
		const struct tarn_descriptor *descriptor, uint64_t version);
	void *arg;
};

/* A storage that is freed meanwhile counts as the kind that it was. */
bool store_is_channel(const struct tarn_store *store,
	const struct tarn_descriptor *descriptor)
{
	struct table_storage entry;

	return descriptor->pool == TABLE_POOL_OWN &&
	       table_storage_get(&store->table, descriptor->storage,
		       descriptor->generation, &entry) >= 0 &&
	       entry.flags & STORAGE_CHANNEL;
}

static int list_one(void *arg, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	struct lister *lister = arg;

	if (store_is_channel(lister->store, descriptor) != lister->channels)
		return 0;
	return lister->fn(lister->arg, name, descriptor, version);
}

int store_list(tarn_store *store, bool channels, const char *prefix,
	int (*fn)(void *arg, const char *name,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg)
{
	struct lister lister = {
		.store = store, .channels = channels, .fn = fn, .arg = arg};

	return table_list(&store->table, prefix ? prefix : "",
		prefix ? strlen(prefix) : 0, list_one, &lister);
}

int tarn_store_list(tarn_store *store, const char *prefix,
	int (*fn)(void *arg, const char *name,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg)
{
	return store_list(store, false, prefix, fn, arg);
}
