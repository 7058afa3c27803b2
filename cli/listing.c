/* SPDX-License-Identifier: MIT */
/*
 * A list of tensors. From any source, a tensor is a name, a dtype, a shape and
 * a number of bytes here, copied, so that printing is the same for all, and no
 * entry can change while the list is measured and then printed.
 */
#include "cli/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/channel.h>
#include <tarn/cuda.h>
#include <tarn/report.h>
#include <tarn/snapshot.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/text.h"
#include "cli/size.h"

#define NAME_COLUMNS_MAX 60 /* a longer name moves its own row only */
#define SHAPE_COLUMNS_MAX 30

void listing_free(struct listing *listing)
{
	for (size_t i = 0; i < listing->n; i++) {
		free(listing->at[i]->name);
		free(listing->at[i]->file);
		free(listing->at[i]);
	}
	free(listing->at);
	*listing = (struct listing) {0};
}

/* ---- filling ------------------------------------------------------- */

static struct entry *add(
	struct listing *listing, const char *name, int dtype, int ndim)
{
	struct entry *e;

	if (listing->n == listing->size) {
		listing->size = listing->size ? 2 * listing->size : 64;
		listing->at = must(reallocarray(
			listing->at, listing->size, sizeof(listing->at[0])));
	}
	e = must(calloc(1, sizeof(*e) + (size_t)ndim * sizeof(e->shape[0])));
	e->name = must(strdup(name));
	e->dtype = dtype;
	e->ndim = ndim;
	e->node = NODE_UNKNOWN;
	listing->at[listing->n++] = e;
	return e;
}

/* A shard's name in the index. */
static char *shard_name(
	const tarn_file *file, const struct tarn_file_entry *tensor)
{
	const tarn_file *shard = tarn_file_shard(file, tensor->shard);
	const char *path = tarn_file_path(file), *slash = strrchr(path, '/');

	if (shard == file)
		return NULL;
	return must(
		strdup(tarn_file_path(shard) + (slash ? slash + 1 - path : 0)));
}

void listing_add_file(struct listing *listing, const tarn_file *file)
{
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);
		struct entry *e = add(listing, t->name, t->dtype, t->ndim);

		e->bytes = t->nbytes;
		e->file_offset = t->file_offset;
		e->file = shard_name(file, t);
		if (t->ndim)
			memcpy(e->shape, t->shape,
				(size_t)t->ndim * sizeof(e->shape[0]));
	}
}

struct wanted {
	struct listing *listing;
	tarn_store *store;
	const char *prefix;
	size_t size;
	bool whole;
};

static bool is_wanted(const struct wanted *w, const char *name)
{
	return !w->whole || !w->size || w->prefix[w->size - 1] == '/' ||
	       name[w->size] == '\0' || name[w->size] == '/';
}

/* The kernel or an older daemon may not answer: then it is not known. The name
 * may lead elsewhere by now: the nodes are then those of what it leads to. */
static void add_details(struct entry *e, tarn_store *store,
	const struct tarn_snapshot_item *item)
{
	const tarn_storage *storage = tarn_tensor_storage(item->tensor);
	struct tarn_cuda_device device;

	if (tarn_storage_device(storage, &device)) {
		memcpy(e->device, device.uuid, sizeof(e->device));
		e->device_bytes = tarn_storage_size(storage);
	}
	if (tarn_tensor_pages(item->tensor, &e->pages) < 0)
		e->pages = (struct tarn_tensor_pages) {0};
	if (tarn_tensor_node(item->tensor, &e->node) < 0)
		e->node = NODE_UNKNOWN;
	if (tarn_store_nodes(store, item->name, &e->nodes) < 0)
		e->nodes = 0;
	if (e->node >= 0)
		e->nodes |= 1ull << e->node;
}

static void add_published(
	const struct wanted *w, const struct tarn_snapshot_item *item)
{
	const struct tarn_layout *layout = tarn_tensor_layout(item->tensor);
	struct entry *e;

	if (!is_wanted(w, item->name))
		return;
	e = add(w->listing, item->name, layout->dtype, layout->ndim);
	for (int i = 0; i < layout->ndim; i++)
		e->shape[i] = (uint64_t)layout->shape[i];
	e->bytes = (uint64_t)tarn_layout_nbytes(layout);
	if (w->listing->with_details)
		add_details(e, w->store, item);
}

static int by_name(const void *a, const void *b)
{
	const struct entry *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* A channel is marked as one where it stands among the tensors, and added where
 * it does not; behind those, since they are sorted. */
struct channels {
	const struct wanted *wanted;
	size_t n_sorted;
};

static int add_channel(void *arg, const char *name)
{
	const struct channels *c = arg;
	struct listing *listing = c->wanted->listing;
	struct entry key = {.name = (char *)name}, *wanted = &key, **found;

	if (!is_wanted(c->wanted, name))
		return 0;
	found = c->n_sorted ? bsearch(&wanted, listing->at, c->n_sorted,
				      sizeof(listing->at[0]), by_name)
			    : NULL;
	if (found)
		(*found)->channel = true;
	else
		add(listing, name, TARN_U8, 0)->channel = true;
	return 0;
}

static void sort(struct listing *listing)
{
	if (listing->n)
		qsort(listing->at, listing->n, sizeof(listing->at[0]), by_name);
}

int listing_add_store(struct listing *listing, tarn_store *store,
	const char *prefix, bool whole)
{
	struct wanted w = {.listing = listing,
		.store = store,
		.prefix = prefix,
		.size = prefix ? strlen(prefix) : 0,
		.whole = whole};
	struct channels c = {.wanted = &w};
	struct tarn_snapshot *snapshot;
	int r = tarn_store_snapshot(store, prefix, &snapshot);

	if (r < 0) {
		print_error();
		return r;
	}
	for (size_t i = 0; i < snapshot->n; i++)
		add_published(&w, &snapshot->items[i]);
	tarn_snapshot_free(snapshot);
	sort(listing);
	c.n_sorted = listing->n;
	r = tarn_channel_list(store, prefix, add_channel, &c);
	if (r < 0)
		print_error();
	sort(listing);
	return r;
}

uint64_t listing_bytes(const struct listing *listing)
{
	uint64_t sum = 0;

	/* A file's tensors are disjoint, published ones need not be: the sum
	 * may be more than any machine has, but it is shown, not used. */
	for (size_t i = 0; i < listing->n; i++)
		if (!listing->at[i]->channel &&
			add_u64(sum, listing->at[i]->bytes, &sum))
			return UINT64_MAX;
	return sum;
}

size_t listing_channels(const struct listing *listing)
{
	size_t n = 0;

	for (size_t i = 0; i < listing->n; i++)
		n += listing->at[i]->channel;
	return n;
}

/* ---- printing ------------------------------------------------------ */

/* Writes "[2, 3]", or "-" of a channel, to f (NULL: only measures); returns the
 * columns. */
static int put_shape(FILE *f, const struct entry *e)
{
	char number[32];
	int columns = 2;

	if (e->channel) {
		if (f)
			putc('-', f);
		return 1;
	}
	if (f)
		putc('[', f);
	for (int i = 0; i < e->ndim; i++) {
		columns += snprintf(number, sizeof(number), "%s%llu",
			i ? ", " : "", (unsigned long long)e->shape[i]);
		if (f)
			fputs(number, f);
	}
	if (f)
		putc(']', f);
	return columns;
}

static const char *dtype_name(const struct entry *e)
{
	const char *name = tarn_dtype_name(e->dtype);

	return e->channel ? "channel" : name ? name : "?";
}

/* The size of a channel is that of its slots: see tarn channel. */
static const char *size_of(const struct entry *e, char buf[SIZE_TEXT_MAX])
{
	return e->channel ? "-" : size_text((double)e->bytes, buf);
}

/* "2 MiB  97 %", or "-". Pages are powers of two. */
static void print_pages(const struct entry *e)
{
	static const char units[] = "KMG";
	const struct tarn_tensor_pages *p = &e->pages;
	uint64_t size = p->page_size >> 10;
	int unit = 0;

	for (; size >= 1024 && unit < 2; unit++)
		size >>= 10;
	if (!p->page_size)
		printf("  -");
	else
		printf("  %u %ciB %3u %%", (unsigned)size, units[unit],
			p->bytes ? (unsigned)(100.0 * (double)p->covered /
					      (double)p->bytes)
				 : 100);
}

#define UUID_TEXT sizeof("GPU-01234567-89ab-cdef-0123-456789abcdef")

/* As nvidia-smi -L prints it. */
static const char *uuid_text(const uint8_t u[16], char buf[UUID_TEXT])
{
	char *at = buf + sprintf(buf, "GPU-");

	for (int i = 0; i < 16; i++)
		at += sprintf(at, "%s%02x",
			i >= 4 && i <= 10 && i % 2 == 0 ? "-" : "", u[i]);
	return buf;
}

/* "GPU-0123abcd..., 1.00 GiB": its device, and the bytes of its storage. */
static void print_device(const struct entry *e)
{
	char uuid[UUID_TEXT], size[SIZE_TEXT_MAX];

	printf("  %.12s..., %s", uuid_text(e->device, uuid),
		size_text((double)e->device_bytes, size));
}

/* "node 0, 1", the nodes of its replicas, too; "several nodes"; or "-". */
static void print_nodes(const struct entry *e)
{
	const char *lead = "  node ";

	if (e->node == TARN_NODE_SEVERAL) {
		fputs("  several nodes", stdout);
		lead = ", node ";
	} else if (!e->nodes) {
		fputs("  -", stdout);
	}
	for (int node = 0; node < TARN_REPORT_NODES; node++) {
		if (!(e->nodes & 1ull << node))
			continue;
		printf("%s%d", lead, node);
		lead = ", ";
	}
}

struct widths {
	int name, dtype, shape, bytes;
};

static struct widths measure(const struct listing *listing)
{
	struct widths w = {0};
	char bytes[SIZE_TEXT_MAX];

	for (size_t i = 0; i < listing->n; i++) {
		const struct entry *e = listing->at[i];

		w.name = MAX(w.name, text_put(NULL, e->name));
		w.dtype = MAX(w.dtype, (int)strlen(dtype_name(e)));
		w.shape = MAX(w.shape, put_shape(NULL, e));
		w.bytes = MAX(w.bytes, (int)strlen(size_of(e, bytes)));
	}
	w.name = MIN(w.name, NAME_COLUMNS_MAX);
	w.shape = MIN(w.shape, SHAPE_COLUMNS_MAX);
	return w;
}

void listing_print(const struct listing *listing, int indent)
{
	struct widths w = measure(listing);
	char bytes[SIZE_TEXT_MAX];

	for (size_t i = 0; i < listing->n; i++) {
		const struct entry *e = listing->at[i];
		int shape;

		printf("%*s", indent, "");
		text_put_padded(stdout, e->name, w.name);
		printf("  %-*s  ", w.dtype, dtype_name(e));
		shape = put_shape(stdout, e);
		printf("%*s  %*s", shape < w.shape ? w.shape - shape : 0, "",
			w.bytes, size_of(e, bytes));
		if (listing->with_details && e->device_bytes) {
			print_device(e);
		} else if (listing->with_details) {
			print_pages(e);
			print_nodes(e);
		}
		putchar('\n');
	}
}

/* "node" is that of the bytes which this process got. */
static void put_nodes(json_t *object, const struct entry *e)
{
	json_t *nodes;

	if (e->node != NODE_UNKNOWN)
		json_put(object, "node",
			e->node == TARN_NODE_SEVERAL
				? json_text("several")
				: json_u64((uint64_t)e->node));
	if (e->node == NODE_UNKNOWN && !e->nodes)
		return;
	nodes = must(json_array());
	for (uint64_t node = 0; node < TARN_REPORT_NODES; node++)
		if (e->nodes & 1ull << node &&
			json_array_append_new(nodes, json_u64(node)) < 0)
			must(NULL);
	json_put(object, "nodes", nodes);
}

static json_t *entry_json(
	const struct entry *e, bool with_offset, bool published)
{
	json_t *object = must(json_object()), *shape = must(json_array());

	for (int i = 0; i < e->ndim && !e->channel; i++)
		if (json_array_append_new(shape, json_u64(e->shape[i])) < 0)
			must(NULL);
	json_put(object, "name", json_text(e->name));
	json_put(object, "dtype",
		e->channel ? json_null() : json_text(dtype_name(e)));
	json_put(object, "shape", shape);
	if (e->channel)
		json_put(object, "channel", json_true());
	json_put(
		object, "bytes", e->channel ? json_null() : json_u64(e->bytes));
	if (with_offset)
		json_put(object, "file_offset",
			published ? json_null() : json_u64(e->file_offset));
	if (e->pages.page_size) {
		json_put(object, "page_size", json_u64(e->pages.page_size));
		json_put(object, "reach", json_u64(e->pages.bytes));
		json_put(object, "covered", json_u64(e->pages.covered));
	}
	put_nodes(object, e);
	if (e->device_bytes) {
		char uuid[UUID_TEXT];

		json_put(object, "device",
			json_text(uuid_text(e->device, uuid)));
		json_put(object, "device_bytes", json_u64(e->device_bytes));
	}
	if (e->file)
		json_put(object, "file", json_text(e->file));
	return object;
}

json_t *listing_json(
	const struct listing *listing, bool with_offset, bool published)
{
	json_t *array = must(json_array());

	for (size_t i = 0; i < listing->n; i++)
		if (json_array_append_new(
			    array, entry_json(listing->at[i], with_offset,
					   published)) < 0)
			must(NULL);
	return array;
}
