/* SPDX-License-Identifier: MIT */
/*
 * A mutable tensor in a pool that several users share: a user who may publish
 * there writes it; a reader sees each write and can make none, whatever it
 * does with the descriptor that it is given. Needs root, since only root can
 * be several users.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/store/own_map.h"
#include "lib/store/store.h"
#include "tests/kit/pool.h"
#include "tests/kit/tap.h"

#define N 1000

static tarn_tensor *opened_tensor(
	const struct pool_kit *kit, struct seen *seen, tarn_store **ret_store)
{
	tarn_tensor *t = NULL;
	int r = tarn_store_open(kit->daemon.socket,
		&(const struct tarn_store_options) {.pool = "shared"},
		ret_store);

	if (r >= 0)
		r = tarn_store_lookup(*ret_store, "m", &t);
	seen_error(seen, r);
	return t;
}

static void publish(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	struct tarn_publish_item item = {.name = "m"};
	const int64_t n = N;
	tarn_store *store = NULL;
	int r = tarn_store_open(kit->daemon.socket,
		&(const struct tarn_store_options) {.pool = "shared"}, &store);

	(void)arg;
	if (r >= 0)
		r = tarn_store_create(store, TARN_U8, 1, &n,
			TARN_CREATE_MUTABLE, &item.tensor);
	if (r >= 0)
		r = tarn_store_publish(store, &item, 1, NULL, NULL);
	seen_error(seen, r);
	tarn_tensor_unref(item.tensor);
	tarn_store_unref(store);
}

/* By the library: what is written is told in n, bytes are what was there. */
static void use(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	const int64_t at = 3;
	tarn_store *store = NULL;
	tarn_tensor *t = opened_tensor(kit, seen, &store);

	if (!t)
		return;
	memcpy(seen->bytes, tarn_tensor_data(t), sizeof(seen->bytes));
	seen->n = tarn_tensor_set_i64(t, &at, *(int *)arg) == 0;
	tarn_tensor_unref(t);
	tarn_store_unref(store);
}

static void lock(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store = NULL;
	tarn_tensor *t = opened_tensor(kit, seen, &store);

	if (t)
		seen_error(
			seen, tarn_tensor_lock(t, *(enum tarn_lock *)arg, 0));
	tarn_tensor_unref(t);
	tarn_store_unref(store);
}

/* By all routes that there are; n counts those that lead somewhere. */
static void attack(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	const struct shared_storage *s;
	tarn_store *store = NULL;
	tarn_tensor *t = opened_tensor(kit, seen, &store);
	int fd;

	(void)arg;
	if (!t)
		return;
	s = store_storage_of(tarn_tensor_storage(t));
	for (uint32_t flags = 0; flags < 2; flags++) {
		fd = own_fetch(store, s->index, s->generation, flags);
		seen_error(seen, fd);
		seen->n += fd < 0 || kit_pool_writes(fd) ||
			   kit_pool_writes_reopened(fd) ||
			   fchmod(fd, 0666) == 0 ||
			   kit_pool_writes_reopened(fd);
		fd_close(fd);
	}
	seen->n += mprotect((void *)((uintptr_t)tarn_tensor_data(t) &
				     ~(uintptr_t)4095),
			   4096, PROT_READ | PROT_WRITE) == 0;
	tarn_tensor_unref(t);
	tarn_store_unref(store);
}

int main(void)
{
	static struct pool_kit kit;
	enum tarn_lock read_lock = TARN_LOCK_READ, write_lock = TARN_LOCK_WRITE;
	const struct seen *s;
	int value = 33;

	if (!kit_pool_is_root())
		skip_all("only root can be several users");
	kit_pool_start(&kit, "[pool shared]\nowner = 61001\ngroup = 62001\n"
			     "mode = 0640\n");
	s = kit_pool_as(&kit, OWNER, publish, NULL);
	is_int(0, s->r, "the owner publishes a mutable tensor");
	s = kit_pool_as(&kit, OWNER, use, &value);
	is_int(1, (int64_t)s->n, "the owner may write the mutable tensor");
	s = kit_pool_as(&kit, MEMBER, use, &value);
	is_int(33, s->bytes[3], "a member of the group sees the owner's write");
	is_int(0, (int64_t)s->n,
		"a member of the group may not write the mutable tensor");
	s = kit_pool_as(&kit, MEMBER, attack, NULL);
	is_int(0, (int64_t)s->n,
		"a member of the group can write it by no route");
	ok(s->r >= 0, "the attempts were made with a descriptor of the tensor");
	s = kit_pool_as(&kit, MEMBER, lock, &read_lock);
	is_int(0, s->r, "a member of the group may lock it for reading");
	s = kit_pool_as(&kit, MEMBER, lock, &write_lock);
	is_int(-EROFS, s->r,
		"a member of the group may not lock it for writing");
	s = kit_pool_as(&kit, STRANGER, use, &value);
	ok(s->r < 0, "a stranger cannot open the mutable tensor");
	is_int(0, kit_pool_stop(&kit), "the daemon ends without an error");
	return done(10);
}
