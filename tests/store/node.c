/* SPDX-License-Identifier: MIT */
/*
 * Where the memory of tensors lies, on whatever machine this runs: on the node
 * that a store insists on, on that of the client's CPU, where a pool has it; or
 * the call says why not. The guests nodes2 and nodes4 run it where there is
 * more than one node to be wrong about.
 */
#include <tarn/node.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/memory_policy.h"
#include "base/nodes.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/tap.h"

#define NO_NODE 63 /* no machine for tests has so many */
#define LARGE (4ll << 20)
#define UNKNOWN (-9)

static struct daemon server;
static struct nodes nodes;
static uint64_t usable; /* with memory, and allowed */
static bool several;
static char path[300], config[300];
static int n_names;

static void good(int r, const char *what)
{
	if (r < 0)
		bail("%s: %s", what, tarn_error_message());
}

static tarn_store *open_pool(const char *pool)
{
	const struct tarn_store_options options = {.pool = pool};
	tarn_store *store = NULL;

	good(tarn_store_open(server.socket, &options, &store), "open");
	return store;
}

static int node_of(const tarn_tensor *t)
{
	const unsigned char *first = tarn_tensor_data(t);
	int64_t last = (int64_t)tarn_tensor_layout(t)->shape[0] - 1;
	int node;

	if (tarn_tensor_node(t, &node) < 0) {
		diag("%s", tarn_error_message());
		return UNKNOWN;
	}
	/* And what the kernel says of its first and its last page. */
	if (node >= 0 && (memory_node(first) != node ||
				 memory_node(first + last) != node)) {
		diag("node %d, the kernel has it on %d and %d", node,
			memory_node(first), memory_node(first + last));
		return UNKNOWN;
	}
	return node;
}

/* Loads the file, once more if it is there. */
static int load(tarn_store *store, bool fresh, tarn_tensor **ret)
{
	const struct tarn_load_options options = {.fresh = fresh};
	tarn_file *file = NULL;
	int r;

	good(tarn_file_open(path, &file), "the file");
	r = tarn_store_load(store, file, &options, NULL, ret);
	tarn_file_unref(file);
	return r;
}

static int loaded_node(tarn_store *store, bool fresh)
{
	tarn_tensor *t = NULL;
	int node = UNKNOWN;

	if (load(store, fresh, &t) < 0)
		diag("load: %s", tarn_error_message());
	else
		node = node_of(t);
	tarn_tensor_unref(t);
	return node;
}

static int create(tarn_store *store, int64_t size, tarn_tensor **ret)
{
	return tarn_store_create(store, TARN_U8, 1, &size, 0, ret);
}

/* Of what is created, published, and looked up. */
static int published_node(tarn_store *store, int64_t size)
{
	tarn_tensor *t = NULL, *seen = NULL;
	char name[32];
	struct tarn_publish_item item = {.name = name};
	int node = UNKNOWN;

	snprintf(name, sizeof(name), "t%d", n_names++);
	if (create(store, size, &t) >= 0) {
		item.tensor = t;
		if (tarn_store_publish(store, &item, 1, NULL, NULL) >= 0 &&
			tarn_store_lookup(store, name, &seen) >= 0)
			node = node_of(seen);
	}
	if (!seen)
		diag("publish: %s", tarn_error_message());
	tarn_tensor_unref(t);
	tarn_tensor_unref(seen);
	return node;
}

/* ---- one after the other ----------------------------------------------- */

static void insisted(tarn_store *store)
{
	bool loads = true, copies = true, adopts = true;

	for (int n = 0; n < (int)NODES_MAX; n++) {
		if (!(usable & 1ull << n))
			continue;
		good(tarn_store_set_node(store, n), "set_node");
		loads = loads && loaded_node(store, false) == n;
		copies = copies && published_node(store, 4096) == n;
		adopts = adopts && published_node(store, LARGE) == n;
	}
	ok(loads, "a file is loaded to the node that a store insists on, also "
		  "when it was loaded elsewhere");
	ok(copies, "what is published by a copy lies there");
	ok(adopts, "what is published as it was created lies there");
	good(tarn_store_set_node(store, -1), "set_node");
	is_int(-1, tarn_store_node(store), "a store need not insist");
}

static void refused(tarn_store *store)
{
	tarn_tensor *t = NULL;

	is_int(-EINVAL, tarn_store_set_node(store, NODES_MAX),
		"a number that no node can have is refused");
	is_int(-EINVAL, tarn_store_set_node(store, -2),
		"a negative one is refused");
	good(tarn_store_set_node(store, NO_NODE), "set_node");
	is_int(NO_NODE, tarn_store_node(store),
		"a store says what it was told");
	is_int(-ENODEV, load(store, true, &t),
		"a file is not loaded to a node that is not there");
	has_str("node 63 has no memory; nodes with memory: ",
		tarn_error_message(), "the sentence says which are");
	is_int(-ENODEV, create(store, LARGE, &t),
		"nothing is created on a node that is not there");
	has_str("node 63 has no memory", tarn_error_message(),
		"the sentence names the node");
	good(tarn_store_set_node(store, -1), "set_node");
}

/* On a CPU of each node that has some. */
static void near(tarn_store *store, const char *what)
{
	bool loads = true, copies = true;
	cpu_set_t all, some;

	if (sched_getaffinity(0, sizeof(all), &all) < 0) {
		skip(2, "this machine has more CPUs than a set");
		return;
	}
	for (int n = 0; n < (int)NODES_MAX; n++) {
		int wanted = nodes_nearest(&nodes, n, nodes.memory);

		if (!(nodes.cpus & 1ull << n) || !node_cpus("", n, &some) ||
			sched_setaffinity(0, sizeof(some), &some) < 0)
			continue;
		loads = loads && loaded_node(store, true) == wanted;
		copies = copies && published_node(store, 4096) == wanted;
		(void)sched_setaffinity(0, sizeof(all), &all);
	}
	ok(loads, "%s: a file lies on the node of its client's CPU", what);
	ok(copies, "%s: a copy lies on the node of its client's CPU", what);
}

static void bound(void)
{
	int node = nodes_nearest(&nodes, NO_NODE, usable);
	tarn_store *store = open_pool("bound");
	tarn_tensor *t = NULL;

	is_int(node, loaded_node(store, false),
		"a file of a pool that is bound lies on its node");
	is_int(node, published_node(store, 4096),
		"a copy in a pool that is bound lies on its node");
	is_int(node, published_node(store, LARGE),
		"what is created for a pool that is bound lies on its node");
	good(tarn_store_set_node(store, NO_NODE), "set_node");
	is_int(-EINVAL, load(store, true, &t),
		"a store cannot insist on another node than its pool's");
	has_str("the pool has its memory on node", tarn_error_message(),
		"the sentence names the pool's node");
	tarn_store_unref(store);
}

static void spread(void)
{
	tarn_store *store = open_pool("spread");
	int wanted = several ? TARN_NODE_SEVERAL
			     : nodes_nearest(&nodes, 0, nodes.memory);
	tarn_tensor *t = NULL;

	is_int(wanted, loaded_node(store, false),
		"a file of a pool that is spread lies on all nodes");
	is_int(wanted, published_node(store, LARGE),
		"what is created for a pool that is spread lies on all nodes");
	good(tarn_store_set_node(store, 0), "set_node");
	is_int(-EINVAL, load(store, true, &t),
		"a store cannot insist on a node in a pool that is spread");
	tarn_store_unref(store);
}

static void absent(void)
{
	tarn_store *store = open_pool("absent");
	tarn_tensor *t = NULL;

	is_int(-ENODEV, load(store, false, &t),
		"a pool bound to a node that is not there gets no memory");
	has_str("node 63", tarn_error_message(), "the sentence names the node");
	tarn_store_unref(store);
}

static void elsewhere(void)
{
	int64_t size = LARGE;
	tarn_tensor *t = NULL;
	tarn_file *file = NULL;
	int node;

	good(tarn_tensor_zeros(TARN_U8, 1, &size, &t), "zeros");
	ok(node_of(t) >= -1, "memory of this process is looked up: node %d",
		node_of(t));
	tarn_tensor_unref(t);
	good(tarn_file_open(path, &file), "the file");
	good(tarn_file_tensor(file, "t", &t), "its tensor");
	is_int(-ENOTSUP, tarn_tensor_node(t, &node),
		"a tensor in a file lies on no node");
	tarn_tensor_unref(t);
	tarn_file_unref(file);
}

static void reported(tarn_store *store)
{
	struct tarn_report *report = NULL;
	bool adds_up = true;

	good(tarn_store_report(store, &report), "report");
	for (uint32_t i = 0; i < report->n_pools; i++) {
		const struct tarn_report_nodes *p = &report->nodes[i];
		uint64_t sum = p->on_several + p->on_unknown;

		for (int n = 0; n < TARN_REPORT_NODES; n++)
			sum += p->on_node[n];
		adds_up = adds_up && sum == report->pools[i].allocated &&
			  !p->on_unknown;
	}
	ok(adds_up, "a report says of all segments where they lie");
	tarn_report_free(report);
}

/* ---- */

static void write_files(void)
{
	int64_t size = LARGE;
	tarn_tensor *t = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "%s/t.safetensors", test_tmpdir());
	good(tarn_tensor_full(TARN_U8, 1, &size, 7, &t), "full");
	good(tarn_save(path,
		     &(struct tarn_save_item) {.name = "t", .tensor = t}, 1,
		     NULL, NULL),
		"save");
	tarn_tensor_unref(t);
	snprintf(config, sizeof(config), "%s/tarnd.conf", test_tmpdir());
	f = fopen(config, "we");
	if (!f)
		bail("%s: %m", config);
	fprintf(f,
		"[pool bound]\nnode = %d\n[pool spread]\nnode = interleave\n"
		"[pool near]\nnode = local\n[pool absent]\nnode = %d\n",
		nodes_nearest(&nodes, NO_NODE, usable), NO_NODE);
	fclose(f);
}

int main(void)
{
	const char *const args[] = {
		"--config", config, "--segment-size", "16M", NULL};
	tarn_store *store, *pool;

	nodes_read("", &nodes);
	usable = nodes_allowed("", &nodes);
	several = nodes.memory & (nodes.memory - 1);
	if (!memory_policy_works())
		skip_all("mbind or move_pages is forbidden here");
	write_files();
	store = daemon_start_open(&server, "tarnd.sock", args);
	insisted(store);
	refused(store);
	near(store, "auto");
	pool = open_pool("near");
	near(pool, "local");
	tarn_store_unref(pool);
	bound();
	spread();
	absent();
	elsewhere();
	reported(store);
	tarn_store_unref(store);
	daemon_stop(&server);
	unlink(path);
	unlink(config);
	return done(28);
}
