/* SPDX-License-Identifier: MIT */
/*
 * Memory of a device in a pool that several users share: each client of the pool
 * gets it, and can write it, since no driver exports memory for reading alone; a
 * stranger gets none of it. Needs root, since only root can be several users.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/store/own_map.h"
#include "lib/store/store.h"
#include "tests/kit/device.h"
#include "tests/kit/pool.h"
#include "tests/kit/tap.h"

enum { SIZE = 4096 };

/* What the owner has published. */
static struct {
	uint32_t index;
	uint64_t generation;
	struct tarn_descriptor descriptor;
} * published;

static int open_pool(
	const struct pool_kit *kit, const char *pool, tarn_store **ret)
{
	return tarn_store_open(kit->daemon.socket,
		&(const struct tarn_store_options) {.pool = pool}, ret);
}

static void publish(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_tensor *t = kit_device_tensor(SIZE, 3);
	struct tarn_descriptor descriptor;
	tarn_store *store = NULL;
	int r = open_pool(kit, "shared", &store);

	(void)arg;
	if (r >= 0)
		r = tarn_store_publish_one(store, "d", t, NULL, NULL);
	if (r >= 0)
		r = tarn_store_export(store, t, &descriptor);
	if (r >= 0)
		memcpy(seen->text, &descriptor, sizeof(descriptor));
	seen->r = r;
	tarn_tensor_unref(t);
	tarn_store_unref(store);
}

/* Its bytes; then the first one is written. n: its element is written by the
 * library. */
static void use(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	const int64_t at = 0;
	tarn_store *store = NULL;
	tarn_tensor *t = NULL;
	int r = open_pool(kit, "shared", &store);

	(void)arg;
	if (r >= 0)
		r = tarn_store_lookup(store, "d", &t);
	seen_error(seen, r);
	if (r < 0)
		return;
	memcpy(seen->bytes, kit_device_bytes(t), sizeof(seen->bytes));
	seen->n = tarn_tensor_set_i64(t, &at, 1) == 0;
	++*kit_device_bytes(t);
	tarn_tensor_unref(t);
	tarn_store_unref(store);
}

/* By what it was told, in a pool of its own. */
static void guess(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store = NULL;
	tarn_tensor *t = NULL;
	int r = open_pool(kit, NULL, &store), fd;

	(void)arg;
	if (r < 0) {
		seen_error(seen, r);
		return;
	}
	fd = own_fetch(store, published->index, published->generation, 0);
	seen->n = fd >= 0;
	fd_close(fd);
	r = tarn_store_import(store, &published->descriptor, &t);
	seen->n += r >= 0;
	seen_error(seen, r);
	tarn_tensor_unref(t);
	tarn_store_unref(store);
}

int main(void)
{
	static struct pool_kit kit;
	static __typeof__(*published) what;
	const struct seen *s;

	if (!kit_pool_is_root())
		skip_all("only root can be several users");
	published = &what;
	kit_device_begin();
	kit_pool_start(&kit, "[pool shared]\nowner = 61001\ngroup = 62001\n"
			     "mode = 0640\n");
	s = kit_pool_as(&kit, OWNER, publish, NULL);
	is_int(0, s->r, "the owner publishes memory of a device");
	memcpy(&what.descriptor, s->text, sizeof(what.descriptor));
	what.index = what.descriptor.storage;
	what.generation = what.descriptor.generation;
	s = kit_pool_as(&kit, MEMBER, use, NULL);
	is_int(3, s->bytes[0], "a member of the group gets the memory");
	is_int(0, (int64_t)s->n, "the library writes none of it");
	s = kit_pool_as(&kit, OWNER, use, NULL);
	is_int(4, s->bytes[0],
		"the owner sees what a member wrote past the library");
	s = kit_pool_as(&kit, STRANGER, use, NULL);
	ok(s->r < 0, "a stranger cannot open memory of a device by its name");
	s = kit_pool_as(&kit, STRANGER, guess, NULL);
	is_int(0, (int64_t)s->n,
		"a stranger gets no memory of a device by a descriptor");
	ok(s->r < 0, "the stranger's import fails");
	is_int(0, kit_pool_stop(&kit), "the daemon ends without an error");
	return done(8);
}
