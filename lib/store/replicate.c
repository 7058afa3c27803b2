/* SPDX-License-Identifier: MIT */
/*
 * Replicas, and names that move to another node.
 *
 * Several names may lead to one storage, which is copied once. It is held, so
 * that the daemon can find it; names that lead elsewhere by then stay where
 * their publishers have put them.
 */
#include <stdlib.h>
#include <string.h>

#include <tarn/node.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/nodes.h"
#include "lib/reserved.h"
#include "lib/store/load_request.h"
#include "lib/store/message_body.h"
#include "lib/store/store.h"
#include "shm/place.h"

struct name {
	char *text;
	struct tarn_descriptor d;
};

/* What is asked for, and how far it is. */
struct replicating {
	tarn_store *store;
	int node;
	bool moves;
	const struct tarn_replicate_options *options;
	struct name *names; /* by storage */
	size_t n, room;
	size_t n_empty;         /* names of tensors without bytes */
	bool below;             /* all that a prefix has */
	uint64_t before, total; /* bytes of storages, for progress */
	uint64_t copied;
};

/* ---- the names --------------------------------------------------------- */

static int add(void *arg, const char *text, const struct tarn_descriptor *d,
	uint64_t version)
{
	struct replicating *r = arg;
	size_t room = r->room ? 2 * r->room : 64;
	struct name *grown;

	(void)version;
	if (!d->size) {
		r->n_empty++;
		return 0;
	}
	if (r->n == r->room) {
		grown = reallocarray(r->names, room, sizeof(*grown));
		if (!grown)
			return tarn_fail(
				ENOMEM, "no memory for %zu names", room);
		r->names = grown;
		r->room = room;
	}
	r->names[r->n].text = strdup(text);
	if (!r->names[r->n].text)
		return tarn_fail(ENOMEM, "no memory for a name");
	r->names[r->n++].d = *d;
	return 0;
}

static int by_storage(const void *a, const void *b)
{
	const struct tarn_descriptor *x = &((const struct name *)a)->d;
	const struct tarn_descriptor *y = &((const struct name *)b)->d;

	if (x->storage != y->storage)
		return x->storage < y->storage ? -1 : 1;
	return (x->generation > y->generation) -
	       (x->generation < y->generation);
}

/* All below a prefix that ends with '/', or that one. */
static int find(struct replicating *r, const char *name)
{
	size_t size = strlen(name);
	struct table_name found;
	int e;

	r->below = !size || name[size - 1] == '/';
	if (r->below) {
		e = tarn_store_list(r->store, name, add, r);
		if (e >= 0 && !r->n && !r->n_empty)
			e = tarn_fail(ENOENT,
				"no tensor is published below '%.200s'", name);
	} else if (size > TARN_NAME_MAX) {
		return name_check(name, size);
	} else {
		e = store_read_name(r->store, name, size, &found);
		if (e >= 0)
			e = add(r, name, &found.descriptor, 0);
	}
	if (e < 0)
		return e;
	if (r->n)
		qsort(r->names, r->n, sizeof(*r->names), by_storage);
	for (size_t i = 0; i < r->n; i++)
		if (i == 0 || by_storage(&r->names[i - 1], &r->names[i]))
			r->total += r->names[i].d.size;
	return 0;
}

/* ---- one storage ------------------------------------------------------- */

static int put_names(struct replicating *r, const struct name *names, size_t n,
	uint64_t base, struct message_body *b)
{
	struct tarn_layout layout;
	int e = 0;

	for (size_t i = 0; i < n && e >= 0; i++) {
		e = descriptor_check(&names[i].d, r->store->instance, &layout);
		if (e >= 0)
			e = message_body_put_name(b, names[i].text,
				strlen(names[i].text), 0,
				names[i].d.base - base, &layout);
	}
	return e;
}

static int make_request(struct replicating *r, const struct name *names,
	size_t n, uint64_t base, struct load_request *ret)
{
	const struct tarn_descriptor *d = &names[0].d;
	struct msg_load head = {
		.n_ranges = 1,
		.n_names = r->moves ? (uint32_t)n : 0,
		.label_size = (uint32_t)strlen(names[0].text),
		.flags = LOAD_COPY | (r->moves ? LOAD_MOVE : 0) |
			 place_wish(r->node, 1),
	};
	struct msg_copied of = {
		.index = d->storage, .generation = d->generation};
	struct msg_range range = {.size = d->size};
	struct message_body b = {0};
	int e = 0;

	if (n > LOAD_NAMES_MAX)
		return tarn_fail(E2BIG,
			"%zu names lead to the bytes of '%.200s'; %u are the "
			"most that can move at once",
			n, names[0].text, LOAD_NAMES_MAX);
	message_body_put(&b, &head, sizeof(head));
	message_body_put(&b, &of, sizeof(of));
	message_body_put(&b, &range, sizeof(range));
	if (r->moves)
		e = put_names(r, names, n, base, &b);
	message_body_put(&b, names[0].text, head.label_size);
	if (e >= 0 && b.failed)
		e = tarn_fail(
			ENOMEM, "no memory for a request of %zu names", n);
	if (e < 0) {
		free(b.p);
		return e;
	}
	*ret = (struct load_request) {
		.body = b.p,
		.size = b.size,
		.total = d->size,
		.fds = {-1, -1},
	};
	return 0;
}

static int report(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total)
{
	const struct replicating *r = arg;

	(void)total;
	return r->options->progress(r->options->arg,
		r->before + (phase == TARN_LOAD_PHASE_READ ? done : 0),
		r->total);
}

static int copy(struct replicating *r, const struct name *names, size_t n,
	uint64_t base)
{
	struct tarn_load_options options = {
		.progress = r->options && r->options->progress ? report : NULL,
		.arg = r,
	};
	struct load_request request;
	struct msg_loaded loaded;
	tarn_storage *copy;
	int e = make_request(r, names, n, base, &request);

	if (e < 0)
		return e;
	e = store_load_request(r->store, &request, &options, &loaded, &copy);
	load_request_free(&request);
	if (e == 0) {
		tarn_storage_unref(copy);
		if (!(loaded.flags & LOADED_CACHED))
			r->copied += loaded.size;
	}
	return MIN(e, 0);
}

/* Does all of it lie there already? */
static bool lies_there(tarn_storage *storage, int node)
{
	int64_t size = (int64_t)tarn_storage_size(storage);
	struct tarn_layout layout;
	tarn_tensor *all;
	int is = -1;

	if (tarn_layout_contiguous(TARN_U8, 1, &size, &layout) < 0 ||
		tarn_tensor_new(storage, 0, &layout, &all) < 0)
		return false;
	if (tarn_tensor_node(all, &is) < 0)
		is = -1;
	tarn_tensor_unref(all);
	return is == node;
}

#define CANNOT (STORAGE_MUTABLE | STORAGE_DEVICE | STORAGE_PATCH)

/* n names that lead to one storage. -ESTALE: nothing leads to it any more. */
static int replicate(struct replicating *r, const struct name *names, size_t n)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct table_storage entry;
	int e;

	e = store_storage(r->store, names[0].d.storage, names[0].d.generation,
		&entry, &storage);
	if (e >= 0 && entry.flags & CANNOT && r->below)
		return 0;
	if (e >= 0 && entry.flags & STORAGE_MUTABLE)
		return tarn_fail(EINVAL,
			"'%.200s' is mutable: it cannot have copies on several "
			"nodes, or move while others write it",
			names[0].text);
	if (e >= 0 && entry.flags & STORAGE_DEVICE)
		return tarn_fail(ENOTSUP,
			"'%.200s' lies in memory of a device, which has no "
			"node; copy it to the host and publish that",
			names[0].text);
	if (e >= 0 && entry.flags & STORAGE_PATCH)
		return tarn_fail(ENOTSUP,
			"'%.200s' is a patch over an older version of it, of "
			"which the daemon makes no copy; refit it whole, or "
			"publish a copy",
			names[0].text);
	if (e >= 0 && !lies_there(storage, r->node))
		e = copy(r, names, n, entry.base);
	r->before += names[0].d.size;
	return e < 0 ? tarn_fail_prefix(e, "'%.200s': ", names[0].text) : 0;
}

/* ---- all of them ------------------------------------------------------- */

static void forget(struct replicating *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->names[i].text);
	free(r->names);
}

static int replicate_all(struct replicating *r, const char *name)
{
	int e = find(r, name), gone = 0;
	size_t i = 0, next;

	for (; e >= 0 && i < r->n; i = next) {
		for (next = i + 1; next < r->n; next++)
			if (by_storage(&r->names[i], &r->names[next]))
				break;
		e = replicate(r, &r->names[i], next - i);
		/* Others have removed or replaced them meanwhile. */
		if (e == -ESTALE && r->n > 1) {
			gone++;
			e = 0;
		}
	}
	if (e >= 0 && r->n && gone == (int)r->n)
		return -ESTALE;
	return e;
}

static int check(const char *verb, int node,
	const struct tarn_replicate_options *options)
{
	int r = RESERVED_CHECK("tarn_replicate_options", options);

	if (r >= 0 && (node < 0 || node >= (int)NODES_MAX))
		return tarn_fail(EINVAL,
			"%s: there is no node %d; 0 to %u are possible", verb,
			node, NODES_MAX - 1);
	return r;
}

static int run(tarn_store *store, const char *name, int node, bool moves,
	const struct tarn_replicate_options *options, uint64_t *ret_bytes)
{
	struct replicating r = {.store = store,
		.node = node,
		.moves = moves,
		.options = options};
	int e = check(moves ? "migrate" : "replicate", node, options);

	if (e >= 0)
		e = replicate_all(&r, name);
	forget(&r);
	if (ret_bytes)
		*ret_bytes = r.copied;
	return e;
}

int tarn_store_replicate(tarn_store *store, const char *name, int node,
	const struct tarn_replicate_options *options, uint64_t *ret_bytes)
{
	return run(store, name, node, false, options, ret_bytes);
}

int tarn_store_migrate(tarn_store *store, const char *name, int node,
	const struct tarn_replicate_options *options, uint64_t *ret_bytes)
{
	return run(store, name, node, true, options, ret_bytes);
}

int tarn_store_drop_replicas(tarn_store *store, const char *name, int node)
{
	struct replicating r = {.store = store};
	int e = node == -1 ? 0 : check("replicas", node, NULL);

	if (e >= 0)
		e = find(&r, name);
	for (size_t i = 0; e >= 0 && i < r.n; i++) {
		const struct msg_drop_replicas body = {
			.index = r.names[i].d.storage,
			.generation = r.names[i].d.generation,
			.node = node,
		};

		if (i == 0 || by_storage(&r.names[i - 1], &r.names[i]))
			e = store_call_for_nothing(
				store, WIRE_DROP_REPLICAS, &body, sizeof(body));
	}
	forget(&r);
	return e;
}

int tarn_store_nodes(tarn_store *store, const char *name, uint64_t *ret_nodes)
{
	struct table_replica replicas[TABLE_REPLICAS_MAX];
	struct table_storage entry;
	struct table_name found;
	tarn_tensor *t;
	size_t size = strlen(name);
	uint64_t generation;
	uint32_t of, n;
	int e = size && size <= TARN_NAME_MAX
			? store_read_name(store, name, size, &found)
			: name_check(name, size);
	int node = -1;

	if (e >= 0)
		e = store_import(store, &found.descriptor, &t);
	if (e < 0)
		return tarn_fail_prefix(e, "'%.200s': ", name);
	of = found.descriptor.storage;
	generation = found.descriptor.generation;
	/* A name may lead to a replica: then to its like, too. */
	if (table_storage_get(&store->table, of, generation, &entry) >= 0 &&
		entry.flags & STORAGE_REPLICA) {
		of = entry.of;
		generation = entry.of_generation;
	}
	*ret_nodes = tarn_tensor_node(t, &node) >= 0 && node >= 0 &&
				     node < (int)NODES_MAX
			     ? 1ull << node
			     : 0;
	n = table_replicas(&store->table, of, generation, replicas);
	for (uint32_t i = 0; i < n; i++)
		*ret_nodes |= 1ull << replicas[i].node % NODES_MAX;
	tarn_tensor_unref(t);
	return 0;
}
