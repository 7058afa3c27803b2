/* SPDX-License-Identifier: MIT */
/*
 * Replicas, and names that move. On a machine with one node, which this test
 * pretends not to know: there every copy lies on node 0, and is nearer than a
 * tensor of which nobody knows where it lies. tests/vm/nodes2.sh has the nodes.
 */
#include <tarn/node.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/nodes.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"

#define SMALL 5000      /* bytes: of the pool */
#define LARGE (8 << 20) /* a memfd of its own */
#define MANY (96 << 20) /* several segments */

static struct daemon server;
static tarn_store *store;
static char path[300];

/* ---- tensors ------------------------------------------------------------ */

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)((i * 2654435761u >> 7) + seed);
}

static bool has(const tarn_tensor *t, unsigned seed)
{
	const unsigned char *p = tarn_tensor_data(t);
	size_t n = (size_t)tarn_tensor_layout(t)->shape[0];

	for (size_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)((i * 2654435761u >> 7) + seed))
			return false;
	return true;
}

static void publish_for(
	const char *name, int64_t size, unsigned seed, uint64_t ttl_ms)
{
	const struct tarn_publish_options options = {.ttl_ms = ttl_ms};
	struct tarn_publish_item item = {.name = name};
	tarn_tensor *t = NULL;

	kit_good(tarn_store_create(store, TARN_U8, 1, &size, 0, &t), "create");
	fill(tarn_tensor_data(t), (size_t)size, seed);
	item.tensor = t;
	kit_good(
		tarn_store_publish(store, &item, 1, &options, NULL), "publish");
	tarn_tensor_unref(t);
}

static void publish(const char *name, int64_t size, unsigned seed)
{
	publish_for(name, size, seed, 0);
}

static tarn_tensor *look_up(const char *name)
{
	tarn_tensor *t = NULL;

	kit_good(tarn_store_lookup(store, name, &t), name);
	return t;
}

/* One more name for what a name leads to: its own bytes, not a replica's. */
static void alias(const char *name, const char *as)
{
	struct tarn_publish_item item = {.name = as};
	tarn_tensor *t = look_up(name);

	item.tensor = t;
	kit_good(tarn_store_publish(store, &item, 1, NULL, NULL), "publish");
	tarn_tensor_unref(t);
}

/* ---- a replica ------------------------------------------------------------ */

static void replicated(const char *name, int64_t size, unsigned seed)
{
	uint32_t original = kit_storage_named(store, name), copy;
	uint64_t bytes = 1, nodes = 0;
	tarn_tensor *t;

	is_int(0, tarn_store_replicate(store, name, KIT_NODE, NULL, &bytes),
		"%s: a replica is made", name);
	is_int(size, (int64_t)bytes, "%s: its bytes are copied", name);
	t = look_up(name);
	copy = kit_storage_of(store, t);
	ok(copy != original, "%s: a reader gets the replica", name);
	ok(has(t, seed), "%s: the replica has the bytes", name);
	ok(!tarn_storage_writable(tarn_tensor_storage(t)),
		"%s: the replica is read-only", name);
	tarn_tensor_unref(t);
	is_int(0, tarn_store_replicate(store, name, KIT_NODE, NULL, &bytes),
		"%s: a replica that is there is none to be made", name);
	is_int(0, (int64_t)bytes, "%s: nothing is copied again", name);
	is_int(copy, kit_storage_named(store, name), "%s: the replica stays",
		name);
	is_int(0, tarn_store_nodes(store, name, &nodes),
		"%s: its nodes are asked for", name);
	is_int(1 << KIT_NODE, (int64_t)nodes, "%s: there is one", name);
	ok(kit_is_sound(store), "%s: the daemon's books agree", name);
}

/* A version has the replicas that were made of it. */
static void versions(void)
{
	tarn_tensor *old = look_up("small"), *t;

	publish("small", SMALL, 2);
	t = look_up("small");
	ok(has(t, 2), "a reader of a new version gets its bytes");
	tarn_tensor_unref(t);
	ok(has(old, 1), "a reader that has the replica of an old one keeps it");
	ok(kit_storages_become(store, 4),
		"the old version is freed, its replica is not");
	old = tarn_tensor_unref(old);
	ok(kit_storages_become(store, 3),
		"the replica is freed with its last reader");
}

static void dropped(void)
{
	uint32_t copy = kit_storage_named(store, "large");

	is_int(0, tarn_store_drop_replicas(store, "large", KIT_NODE + 1),
		"the replicas of another node are dropped");
	is_int(copy, kit_storage_named(store, "large"),
		"that of this node is not");
	is_int(0, tarn_store_drop_replicas(store, "large", -1),
		"all replicas are dropped");
	ok(kit_storage_named(store, "large") != copy,
		"a reader gets the tensor itself");
	ok(kit_storages_become(store, 2), "the replica is freed");
	is_int(0, tarn_store_drop_replicas(store, "large", -1),
		"that there are none is no error");
}

/* A replica that has a name of its own is a tensor like any other. */
static void named(void)
{
	tarn_tensor *t;
	uint32_t is;

	kit_good(tarn_store_replicate(store, "large", KIT_NODE, NULL, NULL),
		"large");
	alias("large", "alias");
	kit_good(tarn_store_remove(store, "large"), "remove");
	ok(kit_storages_become(store, 2), "the tensor goes with its name");
	t = look_up("alias");
	is = kit_storage_of(store, t);
	ok(has(t, 3), "its replica stays under the name that it was given");
	tarn_tensor_unref(t);
	is_int(0, tarn_store_replicate(store, "alias", KIT_NODE, NULL, NULL),
		"it can have a replica itself");
	t = look_up("alias");
	ok(kit_storage_of(store, t) != is && has(t, 3), "a reader gets that");
	tarn_tensor_unref(t);
	ok(kit_is_sound(store), "the daemon's books agree");
	kit_good(tarn_store_remove(store, "alias"), "remove");
	ok(kit_storages_become(store, 1), "both are freed with that name");
}

/* All tensors of a file share one storage. */
static void file(void)
{
	const struct tarn_load_options options = {.name = "file"};
	uint64_t bytes = 0;
	tarn_file *f = NULL;
	tarn_tensor *t;
	uint32_t original;

	kit_good(tarn_file_open(path, &f), path);
	kit_good(tarn_store_load(store, f, &options, NULL, NULL), "load");
	tarn_file_unref(f);
	t = look_up("file/x");
	original = kit_storage_of(store, t);
	tarn_tensor_unref(t);
	is_int(0, tarn_store_replicate(store, "file/", KIT_NODE, NULL, &bytes),
		"a prefix is replicated");
	is_int(MANY, (int64_t)bytes, "the bytes of its file are copied");
	t = look_up("file/x");
	ok(kit_storage_of(store, t) != original && has(t, 7),
		"a copy across segments has the bytes");
	tarn_tensor_unref(t);
	kill(kit_server_pid(store), SIGKILL);
	t = look_up("file/x");
	ok(kit_storage_of(store, t) != original && has(t, 7),
		"a reader gets the replica also while no server is there");
	tarn_tensor_unref(t);
	ok(kit_is_sound(store), "the next server's books agree");
	ok(kit_storage_named(store, "file/x") != original,
		"it goes on with the replica");
	kit_good(tarn_store_remove(store, "file/x"), "remove");
	unlink(path);
	/* The file is kept, with its replica. */
	ok(kit_storages_become(store, 3),
		"a file that is kept keeps its replica");
}

/* ---- names that move ------------------------------------------------------ */

static void moved(void)
{
	uint64_t bytes = 0, version = 0;
	uint32_t was;
	tarn_tensor *old;

	publish("m/a", SMALL, 4);
	publish("m/b", LARGE, 5);
	alias("m/a", "m/c");
	was = kit_storage_named(store, "m/a");
	old = look_up("m/b");
	is_int(0, tarn_store_migrate(store, "m/", KIT_NODE, NULL, &bytes),
		"all below a prefix move");
	is_int(SMALL + LARGE, (int64_t)bytes,
		"tensors that share memory are copied once");
	ok(kit_storage_named(store, "m/a") != was,
		"a name leads to other memory");
	is_int(kit_storage_named(store, "m/a"), kit_storage_named(store, "m/c"),
		"two names lead to the same as before");
	kit_good(tarn_store_version(store, "m/a", &version), "version");
	is_int(2, (int64_t)version, "that is a new version");
	ok(has(old, 5), "a reader of the old version keeps it");
	old = tarn_tensor_unref(old);
	old = look_up("m/b");
	ok(has(old, 5), "what has moved has the bytes");
	old = tarn_tensor_unref(old);
	ok(kit_storages_become(store, 3), "nothing of the old versions stays");
	ok(kit_is_sound(store), "the daemon's books agree");
	kit_good(tarn_store_remove(store, "m/b"), "remove");
	kit_good(tarn_store_remove(store, "m/a"), "remove");
	kit_good(tarn_store_remove(store, "m/c"), "remove");
}

static int move_brief(uint64_t ttl_ms)
{
	tarn_tensor *t = NULL;
	int r;

	publish_for("brief", LARGE, 8, ttl_ms);
	r = tarn_store_migrate(store, "brief", KIT_NODE, NULL, NULL);
	if (r >= 0)
		r = tarn_store_lookup(store, "brief", &t);
	tarn_tensor_unref(t);
	return r;
}

static void wait_gone(const char *name)
{
	double end = seconds() + 120;
	tarn_tensor *t = NULL;

	while (tarn_store_lookup(store, name, &t) == 0) {
		t = tarn_tensor_unref(t);
		if (seconds() > end)
			bail("'%s' stays", name);
		usleep(10000);
	}
}

/* A name that ends before it is seen to have moved gets more time. */
static void brief(void)
{
	uint64_t ttl_ms = 500;
	double began, took;
	int r;

	do {
		ttl_ms *= 2;
		began = seconds();
		r = move_brief(ttl_ms);
		took = seconds() - began;
	} while (r < 0 && took * 1e3 >= (double)ttl_ms && ttl_ms < 60000);
	is_int(0, r, "a name with a time to live moves");
	wait_gone("brief");
	ok(true, "a name that ends ends as if it had not moved");
	ok(kit_storages_become(store, 1), "its memory is freed");
}

/* ---- what cannot be ------------------------------------------------------- */

static void refused(void)
{
	const int64_t size = SMALL;
	struct tarn_publish_item item = {.name = "mutable"};
	struct tarn_replicate_options options = {.reserved = {1}};
	tarn_tensor *t = NULL;
	uint64_t bytes = 0;

	is_int(-ENOENT,
		tarn_store_replicate(store, "none", KIT_NODE, NULL, NULL),
		"a name that is not there");
	is_int(-ENOENT,
		tarn_store_migrate(store, "none/", KIT_NODE, NULL, NULL),
		"a prefix below which there is nothing");
	publish("r", SMALL, 6);
	is_int(-EINVAL, tarn_store_replicate(store, "r", -1, NULL, NULL),
		"no node");
	is_int(-EINVAL, tarn_store_replicate(store, "r", NODES_MAX, NULL, NULL),
		"a node beyond all");
	is_int(-ENODEV,
		tarn_store_replicate(store, "r", NODES_MAX - 1, NULL, NULL),
		"a node that is not there");
	ok(strstr(tarn_error_message(), "nodes with memory: "),
		"the sentence says which are");
	is_int(-EINVAL,
		tarn_store_replicate(store, "r", KIT_NODE, &options, NULL),
		"reserved words that are not 0");
	kit_good(tarn_store_create(
			 store, TARN_U8, 1, &size, TARN_CREATE_MUTABLE, &t),
		"create");
	item.tensor = t;
	kit_good(tarn_store_publish(store, &item, 1, NULL, NULL), "publish");
	is_int(-EINVAL,
		tarn_store_replicate(store, "mutable", KIT_NODE, NULL, NULL),
		"a mutable tensor has no replicas");
	is_int(-EINVAL,
		tarn_store_migrate(store, "mutable", KIT_NODE, NULL, NULL),
		"a mutable tensor does not move");
	alias("mutable", "folder/mutable");
	publish("folder/r", SMALL, 6);
	is_int(0,
		tarn_store_replicate(store, "folder/", KIT_NODE, NULL, &bytes),
		"below a prefix mutable tensors are left out");
	is_int(SMALL, (int64_t)bytes, "the others are copied");
	kit_good(tarn_store_remove(store, "folder/mutable"), "remove");
	kit_good(tarn_store_remove(store, "folder/r"), "remove");
	tarn_tensor_unref(t);
	kit_good(tarn_store_remove(store, "mutable"), "remove");
	kit_good(tarn_store_remove(store, "r"), "remove");
	ok(kit_storages_become(store, 0), "nothing stays of what was refused");
}

static void write_file(void)
{
	static const char head[] = "{\"x\":{\"dtype\":\"U8\",\"shape\":[%d],"
				   "\"data_offsets\":[0,%d]}}";
	char text[200];
	uint64_t size;
	FILE *f;
	unsigned char *bytes = malloc(MANY);

	snprintf(path, sizeof(path), "%s/x.safetensors", test_tmpdir());
	size = (uint64_t)snprintf(text, sizeof(text), head, MANY, MANY);
	f = fopen(path, "w");
	if (!bytes || !f)
		bail("%s: %m", path);
	fill(bytes, MANY, 7);
	if (fwrite(&size, 8, 1, f) != 1 || fwrite(text, size, 1, f) != 1 ||
		fwrite(bytes, MANY, 1, f) != 1 || fclose(f))
		bail("%s: %m", path);
	free(bytes);
}

int main(void)
{
	write_file();
	store = daemon_start_open(&server, "sock",
		(const char *const[]) {"--segment-size", "16M", NULL});
	refused();
	publish("small", SMALL, 1);
	publish("large", LARGE, 3);
	replicated("small", SMALL, 1);
	replicated("large", LARGE, 3);
	versions();
	dropped();
	named();
	moved();
	brief();
	file();
	tarn_store_unref(store);
	daemon_stop(&server);
	return done(69);
}
