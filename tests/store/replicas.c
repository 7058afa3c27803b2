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
#include "shm/table.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/put_file.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define SMALL 5000      /* bytes: of the pool */
#define LARGE (8 << 20) /* a memfd of its own */
#define MANY (96 << 20) /* several segments */
#define NODE 0

static struct daemon server;
static tarn_store *store;
static char path[300];

/* ---- what is not known here ---------------------------------------------- */

int __wrap_tarn_tensor_node(const tarn_tensor *tensor, int *ret);
int __wrap_store_place_node(const struct table *table, uint32_t pool,
	uint64_t base, uint64_t size, int *ret);
int __wrap_node_here(void);

int __wrap_tarn_tensor_node(const tarn_tensor *tensor, int *ret)
{
	(void)tensor;
	*ret = -1;
	return -ENODATA;
}

int __wrap_store_place_node(const struct table *table, uint32_t pool,
	uint64_t base, uint64_t size, int *ret)
{
	(void)table;
	(void)pool;
	(void)base;
	(void)size;
	*ret = -1;
	return -ENODATA;
}

int __wrap_node_here(void)
{
	return NODE;
}

/* ---- tensors ------------------------------------------------------------ */

static void good(int r, const char *what)
{
	if (r < 0)
		bail("%s: %s", what, tarn_error_message());
}

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

	good(tarn_store_create(store, TARN_U8, 1, &size, 0, &t), "create");
	fill(tarn_tensor_data(t), (size_t)size, seed);
	item.tensor = t;
	good(tarn_store_publish(store, &item, 1, &options, NULL), "publish");
	tarn_tensor_unref(t);
}

static void publish(const char *name, int64_t size, unsigned seed)
{
	publish_for(name, size, seed, 0);
}

static tarn_tensor *look_up(const char *name)
{
	tarn_tensor *t = NULL;

	good(tarn_store_lookup(store, name, &t), name);
	return t;
}

/* One more name for what a name leads to: its own bytes, not a replica's. */
static void alias(const char *name, const char *as)
{
	struct tarn_publish_item item = {.name = as};
	tarn_tensor *t = look_up(name);

	item.tensor = t;
	good(tarn_store_publish(store, &item, 1, NULL, NULL), "publish");
	tarn_tensor_unref(t);
}

static uint32_t storage_of(const tarn_tensor *t)
{
	struct tarn_descriptor d;

	good(tarn_store_export(store, t, &d), "export");
	return d.storage;
}

static uint32_t storage_named(const char *name)
{
	tarn_tensor *t = look_up(name);
	uint32_t storage = storage_of(t);

	tarn_tensor_unref(t);
	return storage;
}

static uint64_t storages(void)
{
	struct tarn_report_daemon report;

	good(report_daemon(store, &report), "report");
	return report.storages;
}

/* What nobody holds goes after a second at the latest. */
static bool storages_become(uint64_t n)
{
	for (int i = 0; i < 1000 && storages() != n; i++)
		usleep(10000);
	return storages() == n;
}

static bool sound(void)
{
	struct tarn_check *check = NULL;
	bool none;

	good(tarn_store_check(store, &check), "check");
	none = !check->n_faults;
	for (size_t i = 0; i < check->n_faults; i++)
		diag("%s", check->faults[i]);
	tarn_check_free(check);
	return none;
}

static void kill_server(void)
{
	struct tarn_report_daemon report;

	good(report_daemon(store, &report), "report");
	kill(report.server_pid, SIGKILL);
}

/* ---- a replica ------------------------------------------------------------ */

static void replicated(const char *name, int64_t size, unsigned seed)
{
	uint32_t original = storage_named(name), copy;
	uint64_t bytes = 1, nodes = 0;
	tarn_tensor *t;

	is_int(0, tarn_store_replicate(store, name, NODE, NULL, &bytes),
		"%s: a replica is made", name);
	is_int(size, (int64_t)bytes, "%s: its bytes are copied", name);
	t = look_up(name);
	copy = storage_of(t);
	ok(copy != original, "%s: a reader gets the replica", name);
	ok(has(t, seed), "%s: the replica has the bytes", name);
	ok(!tarn_storage_writable(tarn_tensor_storage(t)),
		"%s: the replica is read-only", name);
	tarn_tensor_unref(t);
	is_int(0, tarn_store_replicate(store, name, NODE, NULL, &bytes),
		"%s: a replica that is there is none to be made", name);
	is_int(0, (int64_t)bytes, "%s: nothing is copied again", name);
	is_int(copy, storage_named(name), "%s: the replica stays", name);
	is_int(0, tarn_store_nodes(store, name, &nodes),
		"%s: its nodes are asked for", name);
	is_int(1 << NODE, (int64_t)nodes, "%s: there is one", name);
	ok(sound(), "%s: the daemon's books agree", name);
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
	ok(storages_become(4), "the old version is freed, its replica is not");
	old = tarn_tensor_unref(old);
	ok(storages_become(3), "the replica is freed with its last reader");
}

static void dropped(void)
{
	uint32_t copy = storage_named("large");

	is_int(0, tarn_store_drop_replicas(store, "large", NODE + 1),
		"the replicas of another node are dropped");
	is_int(copy, storage_named("large"), "that of this node is not");
	is_int(0, tarn_store_drop_replicas(store, "large", -1),
		"all replicas are dropped");
	ok(storage_named("large") != copy, "a reader gets the tensor itself");
	ok(storages_become(2), "the replica is freed");
	is_int(0, tarn_store_drop_replicas(store, "large", -1),
		"that there are none is no error");
}

/* A replica that has a name of its own is a tensor like any other. */
static void named(void)
{
	tarn_tensor *t;
	uint32_t is;

	good(tarn_store_replicate(store, "large", NODE, NULL, NULL), "large");
	alias("large", "alias");
	good(tarn_store_remove(store, "large"), "remove");
	ok(storages_become(2), "the tensor goes with its name");
	t = look_up("alias");
	is = storage_of(t);
	ok(has(t, 3), "its replica stays under the name that it was given");
	tarn_tensor_unref(t);
	is_int(0, tarn_store_replicate(store, "alias", NODE, NULL, NULL),
		"it can have a replica itself");
	t = look_up("alias");
	ok(storage_of(t) != is && has(t, 3), "a reader gets that");
	tarn_tensor_unref(t);
	ok(sound(), "the daemon's books agree");
	good(tarn_store_remove(store, "alias"), "remove");
	ok(storages_become(1), "both are freed with that name");
}

/* All tensors of a file share one storage. */
static void file(void)
{
	const struct tarn_load_options options = {.name = "file"};
	uint64_t bytes = 0;
	tarn_file *f = NULL;
	tarn_tensor *t;
	uint32_t original;

	good(tarn_file_open(path, &f), path);
	good(tarn_store_load(store, f, &options, NULL, NULL), "load");
	tarn_file_unref(f);
	t = look_up("file/x");
	original = storage_of(t);
	tarn_tensor_unref(t);
	is_int(0, tarn_store_replicate(store, "file/", NODE, NULL, &bytes),
		"a prefix is replicated");
	is_int(MANY, (int64_t)bytes, "the bytes of its file are copied");
	t = look_up("file/x");
	ok(storage_of(t) != original && has(t, 7),
		"a copy across segments has the bytes");
	tarn_tensor_unref(t);
	kill_server();
	t = look_up("file/x");
	ok(storage_of(t) != original && has(t, 7),
		"a reader gets the replica also while no server is there");
	tarn_tensor_unref(t);
	ok(sound(), "the next server's books agree");
	ok(storage_named("file/x") != original, "it goes on with the replica");
	good(tarn_store_remove(store, "file/x"), "remove");
	unlink(path);
	/* The file is kept, with its replica. */
	ok(storages_become(3), "a file that is kept keeps its replica");
}

/* ---- names that move ------------------------------------------------------ */

static void moved(void)
{
	uint64_t bytes = 0, version = 0;
	uint32_t was;
	tarn_tensor *old;

	publish("m/a", SMALL, 4);
	publish_for("m/b", LARGE, 5, 3000);
	alias("m/a", "m/c");
	was = storage_named("m/a");
	old = look_up("m/b");
	is_int(0, tarn_store_migrate(store, "m/", NODE, NULL, &bytes),
		"all below a prefix move");
	is_int(SMALL + LARGE, (int64_t)bytes,
		"tensors that share memory are copied once");
	ok(storage_named("m/a") != was, "a name leads to other memory");
	is_int(storage_named("m/a"), storage_named("m/c"),
		"two names lead to the same as before");
	good(tarn_store_version(store, "m/a", &version), "version");
	is_int(2, (int64_t)version, "that is a new version");
	ok(has(old, 5), "a reader of the old version keeps it");
	old = tarn_tensor_unref(old);
	old = look_up("m/b");
	ok(has(old, 5), "what has moved has the bytes");
	old = tarn_tensor_unref(old);
	ok(storages_become(3), "nothing of the old versions stays");
	ok(sound(), "the daemon's books agree");
	for (int i = 0; i < 1000; i++) {
		if (tarn_store_lookup(store, "m/b", &old) < 0)
			break;
		old = tarn_tensor_unref(old);
		usleep(10000);
	}
	ok(!old, "a name that ends ends as if it had not moved");
	ok(storages_become(2), "its memory is freed");
	good(tarn_store_remove(store, "m/a"), "remove");
	good(tarn_store_remove(store, "m/c"), "remove");
}

/* ---- what cannot be ------------------------------------------------------- */

static void refused(void)
{
	const int64_t size = SMALL;
	struct tarn_publish_item item = {.name = "mutable"};
	struct tarn_replicate_options options = {.reserved = {1}};
	tarn_tensor *t = NULL;
	uint64_t bytes = 0;

	is_int(-ENOENT, tarn_store_replicate(store, "none", NODE, NULL, NULL),
		"a name that is not there");
	is_int(-ENOENT, tarn_store_migrate(store, "none/", NODE, NULL, NULL),
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
	is_int(-EINVAL, tarn_store_replicate(store, "r", NODE, &options, NULL),
		"reserved words that are not 0");
	good(tarn_store_create(
		     store, TARN_U8, 1, &size, TARN_CREATE_MUTABLE, &t),
		"create");
	item.tensor = t;
	good(tarn_store_publish(store, &item, 1, NULL, NULL), "publish");
	is_int(-EINVAL,
		tarn_store_replicate(store, "mutable", NODE, NULL, NULL),
		"a mutable tensor has no replicas");
	is_int(-EINVAL, tarn_store_migrate(store, "mutable", NODE, NULL, NULL),
		"a mutable tensor does not move");
	alias("mutable", "folder/mutable");
	publish("folder/r", SMALL, 6);
	is_int(0, tarn_store_replicate(store, "folder/", NODE, NULL, &bytes),
		"below a prefix mutable tensors are left out");
	is_int(SMALL, (int64_t)bytes, "the others are copied");
	good(tarn_store_remove(store, "folder/mutable"), "remove");
	good(tarn_store_remove(store, "folder/r"), "remove");
	tarn_tensor_unref(t);
	good(tarn_store_remove(store, "mutable"), "remove");
	good(tarn_store_remove(store, "r"), "remove");
	ok(storages_become(0), "nothing stays of what was refused");
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
	file();
	tarn_store_unref(store);
	daemon_stop(&server);
	return done(68);
}
