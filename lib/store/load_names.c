// SPDX-License-Identifier: MIT
/*
 * Names for the tensors of a file whose bytes are in the pool, and leased: for
 * loads that must be verified before they get names, or have several parts.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/publish.h>

#include "base/fail.h"
#include "lib/store/load_shards.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"
#include "shm/messages.h"

struct names {
	tarn_store *store;
	const char *prefix;
	struct tarn_publish_item *items;
	size_t n;
};

static void drop_names(struct names *names)
{
	for (size_t i = 0; i < names->n; i++) {
		free((char *)names->items[i].name);
		tarn_tensor_unref(names->items[i].tensor);
	}
	names->n = 0;
}

static int publish(struct names *names)
{
	int r = names->n ? tarn_store_publish(names->store, names->items,
				   names->n, NULL, NULL)
			 : 0;

	drop_names(names);
	return r;
}

static int add_name(struct names *names, const tarn_file *shard,
	const struct tarn_file_entry *t, tarn_storage *storage)
{
	struct tarn_publish_item *item = &names->items[names->n];
	struct tarn_layout layout;
	uint64_t offset, size;
	char *name;
	int r = tarn_file_entry_layout(t, &layout);

	if (r < 0)
		return tarn_fail_prefix(r, "publish '%.200s': ", t->name);
	tarn_file_data_range(shard, &offset, &size);
	r = tarn_tensor_new(
		storage, t->file_offset - offset, &layout, &item->tensor);
	if (r < 0)
		return r;
	if (asprintf(&name, "%s/%s", names->prefix, t->name) < 0) {
		tarn_tensor_unref(item->tensor);
		return tarn_fail(ENOMEM, "load: no memory for names");
	}
	item->name = name;
	names->n++;
	return 0;
}

/* All at once, or at least those of as many shards as one message can name:
 * tensors are in the order of their shards. */
int store_publish_file(tarn_store *store, const tarn_file *file,
	const char *prefix, tarn_storage *const *storages)
{
	size_t n = tarn_file_count(file);
	struct names names = {.store = store, .prefix = prefix};
	uint32_t first = 0;
	int r = 0;

	if (n == 0)
		return 0;
	names.items = calloc(n, sizeof(*names.items));
	if (!names.items)
		return tarn_fail(ENOMEM, "load: no memory for %zu names", n);
	for (size_t i = 0; i < n && r >= 0; i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);

		if (t->shard - first >= PUBLISH_SOURCES_MAX ||
			names.n == LOAD_NAMES_MAX) {
			r = publish(&names);
			first = t->shard;
		}
		if (r >= 0)
			r = add_name(&names, tarn_file_shard(file, t->shard), t,
				storages[t->shard]);
	}
	if (r >= 0)
		r = publish(&names);
	drop_names(&names);
	free(names.items);
	return r;
}
