/* SPDX-License-Identifier: MIT */
/*
 * From tensors to sources.
 *
 * A storage that is shared already only gets another name; a created one, and
 * memory of a device, is handed over as it is; others are copied, small ones
 * into the message, larger ones into a memfd that no other process has. Where a
 * message may not have so many sources, all copies are laid into one. Memory of
 * a device that other code has allocated is copied within it (publish_lent.c).
 */
#include "lib/store/publish_plan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/device_storage.h"
#include "lib/store/own_map.h"
#include "lib/store/patch.h"
#include "lib/store/publish_lent.h"
#include "lib/tensor/tensor.h"

#define ALIGNMENT 64u /* of copies in one storage: a cache line */

/* ---- sources --------------------------------------------------------- */

int plan_fd(const struct plan_source *source)
{
	if (source->fd >= 0 || !source->storage)
		return source->fd;
	return source->kind == SOURCE_EXISTING || source->kind == SOURCE_BYTES
		       ? -1
		       : created_of(source->storage)->fd;
}

static int add_source(struct plan *plan, uint32_t *ret)
{
	if (plan->n_sources == PUBLISH_SOURCES_MAX)
		return tarn_fail(E2BIG,
			"more than %u storages, which is the most that can be "
			"published at once; publish copies of these tensors, or "
			"fewer in a call",
			PUBLISH_SOURCES_MAX);
	*ret = plan->n_sources++;
	plan->sources[*ret] = (struct plan_source) {.fd = -1};
	return 0;
}

static bool fits_inline(const struct plan *plan, uint64_t size)
{
	return size <= PUBLISH_INLINE_MAX - plan->n_inline;
}

/* The source with this storage, if there is one. */
static bool find_source(
	const struct plan *plan, const tarn_storage *storage, uint32_t *ret)
{
	for (uint32_t i = 0; i < plan->n_sources; i++)
		if (plan->sources[i].storage == storage) {
			*ret = i;
			return true;
		}
	return false;
}

/* ---- what is shared -------------------------------------------------- */

/* Leased by this store, too: the daemon checks the leases of its connection. */
static int plan_existing(struct plan *plan, struct tarn_store *store,
	const struct shared_storage *shared, uint32_t *ret)
{
	struct plan_source *s;
	struct table_storage entry;
	tarn_storage *held;
	int r;

	r = store_storage(
		store, shared->index, shared->generation, &entry, &held);
	if (r < 0)
		return r;
	if (find_source(plan, held, ret)) {
		tarn_storage_unref(held);
		return 0;
	}
	r = add_source(plan, ret);
	if (r < 0) {
		tarn_storage_unref(held);
		return r;
	}
	s = &plan->sources[*ret];
	s->kind = SOURCE_EXISTING;
	s->storage = held;
	s->index = shared->index;
	s->generation = shared->generation;
	s->size = entry.size;
	return 0;
}

/* ---- what is a patch ------------------------------------------------- */

static int plan_patch(struct plan_source *s, struct tarn_store *store,
	const struct created *created)
{
	const struct shared_storage *under = store_storage_of(created->under);
	struct table_storage entry;
	int r = store_storage(
		store, under->index, under->generation, &entry, &s->under);

	if (r < 0)
		return r;
	s->kind = SOURCE_PATCH;
	s->index = under->index;
	s->generation = under->generation;
	return 0;
}

/* ---- what was created ------------------------------------------------ */

static int plan_created(struct plan *plan, struct tarn_store *store,
	tarn_storage *storage, uint32_t *ret)
{
	const struct created *created = created_of(storage);
	struct plan_source *s;
	int r;

	if (find_source(plan, storage, ret))
		return 0;
	r = add_source(plan, ret);
	if (r < 0)
		return r;
	s = &plan->sources[*ret];
	s->storage = tarn_storage_ref(storage);
	s->size = created->size;
	if (created->patched)
		return plan_patch(s, store, created);
	if (created->mutable) {
		s->kind = SOURCE_MUTABLE;
		return 0;
	}
	/* Without /proc it cannot be frozen, and is copied. */
	s->frozen = created_freeze(storage) >= 0;
	s->kind = s->frozen ? SOURCE_ADOPT : SOURCE_COPY;
	return 0;
}

/* ---- what lies on a device ------------------------------------------- */

static int check_daemon(const struct tarn_store *store)
{
	if (store->version < SOURCE_DEVICE_SINCE)
		return tarn_fail(ENOTSUP,
			"the daemon at %s is too old to keep memory of a "
			"device; upgrade it, or copy the tensor to the host",
			store->socket);
	return 0;
}

int plan_device(struct plan *plan, const struct tarn_store *store,
	tarn_storage *storage, uint32_t *ret)
{
	struct device_export export;
	struct plan_source *s;
	int r = check_daemon(store);

	if (r < 0 || find_source(plan, storage, ret))
		return r;
	r = add_source(plan, ret);
	if (r >= 0)
		r = device_storage_export(storage, &export);
	if (r < 0)
		return r;
	s = &plan->sources[*ret];
	s->kind = SOURCE_DEVICE;
	s->storage = tarn_storage_ref(storage);
	s->size = export.size;
	s->fd = export.fd;
	memcpy(s->uuid, export.uuid, sizeof(s->uuid));
	return 0;
}

/* ---- what is copied -------------------------------------------------- */

/* Makes room for a copy: the caller fills *ret_bytes, then calls
 * copy_filled. */
static int copy_begin(
	struct plan *plan, uint64_t size, uint32_t *ret, void **ret_bytes)
{
	struct plan_source *s;
	int r = add_source(plan, ret);

	if (r < 0)
		return r;
	s = &plan->sources[*ret];
	s->size = size;
	if (!fits_inline(plan, size)) {
		s->kind = size >= TARN_ADOPT_MIN ? SOURCE_ADOPT : SOURCE_COPY;
		return own_create_blank(
			size, &plan->place, &s->fd, ret_bytes, &s->blank);
	}
	s->kind = SOURCE_BYTES;
	s->bytes = calloc(1, size + 1);
	if (!s->bytes)
		return tarn_fail(ENOMEM, "out of memory");
	plan->n_inline += size;
	*ret_bytes = s->bytes;
	return 0;
}

static uint64_t copied_size(const tarn_tensor *tensor)
{
	return (uint64_t)tarn_layout_nbytes(&tensor->layout);
}

/* The tensor, packed, at that byte of the copy. */
static int copy_in(const struct plan *plan, const struct plan_source *s,
	unsigned char *bytes, uint64_t at, const tarn_tensor *tensor)
{
	uint64_t size = copied_size(tensor);
	int r = 0;

	if (s->blank && tensor_is_plain(tensor))
		return own_write(s->fd, at, tarn_tensor_data(tensor), size);
	if (s->blank && size)
		r = own_take(&plan->place, bytes + at, size);
	return r < 0 ? r
		     : tarn_tensor_ravel(
			       tensor, TARN_ORDER_C, bytes + at, size);
}

/* Only memory that is mapped writable nowhere can be sealed. Between tensors less
 * than a page is left out, and behind the last one, too. */
static int copy_filled(const struct plan_source *s, void *bytes)
{
	int r = 0;

	if (s->fd < 0)
		return 0;
	munmap(bytes, own_mapped_size(s->size));
	if (s->blank)
		r = own_complete(s->fd, s->size - MIN(s->size, 1),
			own_mapped_size(s->size));
	if (s->kind == SOURCE_ADOPT)
		own_seal(s->fd, false);
	return r;
}

/* The tensor's place in the copy: packed, from base on. */
static int place_copy(struct plan_place *place, const tarn_tensor *tensor,
	uint32_t source, uint64_t base)
{
	const struct tarn_layout *l = &tensor->layout;

	place->source = source;
	place->base = base;
	return tarn_layout_contiguous(
		l->dtype, l->ndim, l->shape, &place->layout);
}

static int plan_copy(
	struct plan *plan, const tarn_tensor *tensor, struct plan_place *place)
{
	uint64_t size = copied_size(tensor);
	uint32_t source;
	void *bytes;
	int r = copy_begin(plan, size, &source, &bytes);

	if (r < 0)
		return r;
	r = copy_in(plan, &plan->sources[source], bytes, 0, tensor);
	if (copy_filled(&plan->sources[source], bytes) < 0)
		r = -ENOMEM;
	return r < 0 ? r : place_copy(place, tensor, source, 0);
}

static bool is_copied(const struct tarn_store *store, const tarn_tensor *tensor)
{
	const struct shared_storage *shared = store_storage_of(tensor->storage);
	const struct created *created = created_of(tensor->storage);

	if (device_storage_of(tensor->storage))
		return false;
	if (shared)
		return shared->store->instance != store->instance;
	return !created || created->spent;
}

/* Puts all copies into one source. */
static int plan_packed(struct plan *plan, const struct tarn_store *store,
	const struct tarn_publish_item *items, size_t n)
{
	uint64_t size = 0, at = 0;
	uint32_t source;
	void *bytes;
	int r;

	for (size_t i = 0; i < n; i++)
		if (is_copied(store, items[i].tensor) &&
			(add_u64(size, copied_size(items[i].tensor), &size) ||
				round_up_u64(size, ALIGNMENT, &size)))
			return tarn_fail(EOVERFLOW, "more bytes than fit");
	r = copy_begin(plan, size, &source, &bytes);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r >= 0; i++) {
		const tarn_tensor *t = items[i].tensor;

		if (!is_copied(store, t))
			continue;
		r = copy_in(plan, &plan->sources[source], bytes, at, t);
		if (r >= 0)
			r = place_copy(&plan->places[i], t, source, at);
		at = (at + copied_size(t) + ALIGNMENT - 1) &
		     ~(ALIGNMENT - 1ull);
	}
	if (copy_filled(&plan->sources[source], bytes) < 0)
		r = -ENOMEM;
	return r;
}

/* ---- all of them ----------------------------------------------------- */

static int plan_item(struct plan *plan, struct tarn_store *store,
	const tarn_tensor *tensor, struct plan_place *place)
{
	const struct shared_storage *shared = store_storage_of(tensor->storage);
	int r;

	if (is_copied(store, tensor))
		return plan_copy(plan, tensor, place);
	if (shared && shared->store->instance == store->instance)
		r = plan_existing(plan, store, shared, &place->source);
	else if (device_storage_of(tensor->storage))
		r = plan_device(plan, store, tensor->storage, &place->source);
	else
		r = plan_created(plan, store, tensor->storage, &place->source);
	place->base = tensor->base;
	place->layout = tensor->layout;
	return r;
}

/* Would each copy have its own source? At most n sources are not copies. */
static bool is_crowded(const struct tarn_store *store,
	const struct tarn_publish_item *items, size_t n)
{
	size_t copies = 0;

	for (size_t i = 0; i < n; i++)
		copies += is_copied(store, items[i].tensor);
	return n > PUBLISH_SOURCES_MAX && copies > 1;
}

int plan_make(struct tarn_store *store, const struct tarn_publish_item *items,
	size_t n, struct plan *ret)
{
	bool crowded = is_crowded(store, items, n);
	int r = 0;

	ret->n_sources = 0;
	ret->place = own_place_of(store);
	ret->n_inline = 0;
	ret->places = calloc(n + 1, sizeof(*ret->places));
	if (!ret->places)
		return tarn_fail(ENOMEM, "out of memory for %zu names", n);
	if (crowded)
		r = plan_packed(ret, store, items, n);
	if (r >= 0)
		r = plan_lent(ret, store, items, n);
	for (size_t i = 0; i < n && r >= 0; i++) {
		if (is_lent(items[i].tensor) ||
			(crowded && is_copied(store, items[i].tensor)))
			continue;
		r = plan_item(ret, store, items[i].tensor, &ret->places[i]);
		if (r < 0)
			tarn_fail_prefix(r, "'%.200s': ", items[i].name);
	}
	return r;
}

static void source_done(struct plan_source *s, struct tarn_store *store,
	const struct msg_stored *stored)
{
	bool taken = stored && stored->pool == TABLE_POOL_OWN;

	if (s->frozen && !taken)
		created_thaw(s->storage);
	if (taken && s->storage && created_of(s->storage))
		created_is_shared(s->storage, store, stored);
	if (taken && s->kind == SOURCE_DEVICE && !store_storage_of(s->storage))
		device_storage_is_shared(s->storage, store, stored);
	tarn_storage_unref(s->storage);
	tarn_storage_unref(s->under);
	free(s->bytes);
	fd_close(s->fd);
}

void plan_done(struct plan *plan, struct tarn_store *store,
	const struct msg_stored *stored)
{
	for (uint32_t i = 0; i < plan->n_sources; i++)
		source_done(
			&plan->sources[i], store, stored ? &stored[i] : NULL);
	free(plan->places);
}
