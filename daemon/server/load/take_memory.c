/* SPDX-License-Identifier: MIT */
/*
 * Memory for a load, and the table's entry for it. A load may have to wait for
 * it, in storage/memory_queue.c; once it has its memory it is filled.
 */
#include <stddef.h>

#include "base/page.h"
#include "daemon/server/load/internal.h"

int load_add_storage(struct load *load, uint64_t offset, uint64_t size)
{
	uint64_t first = load->n_ranges ? load->ranges[0].file_offset : 0;
	struct table_storage entry = {
		.pool = load->domain->number,
		.owner = load->user->spec.uid,
		.base = offset + first % PAGE,
		.size = load->size,
		.alloc_offset = offset,
		.alloc_size = size,
	};

	/* Several ranges of the file are not shared with later loads, no matter
	 * what their offsets and sizes are. */
	if (load->copy.is) {
		load_copy_describe(load, &entry);
	} else if (load->n_ranges == 1) {
		entry.file = load->identity.file;
		entry.file_offset = first;
		entry.header_size = load->seen.header_size;
		entry.header = load->seen.header;
		if (load_not_kept(load) == NOT_KEPT_KEPT)
			entry.flags = STORAGE_KEPT;
	}
	return storage_new(load->domain, &entry, STORAGE_FILLING,
		&load->bytes.index, &load->bytes.generation);
}

static uint64_t wanted(const struct load *load)
{
	/* parse_ranges has bounded the size; two pages more fit. */
	uint64_t n = load->ranges[0].file_offset % PAGE + load->size;

	return (n + PAGE - 1) & ~(PAGE - 1);
}

/* The awaited memory is charged to its user. */
static int check_quota(struct load *load, uint64_t size)
{
	const uint64_t want[QUOTA_KINDS] = {
		[QUOTA_STORAGES] = 1, [QUOTA_BYTES] = size};
	int r;

	if (load->awaited.counts)
		return storage_fit_quota(load->user, want, &load->wait);
	r = storage_fit_awaited(load->user, want, &load->wait);
	if (r != 0)
		return r;
	load->awaited.counts = true;
	load->awaited.bytes = size;
	load->user->account.awaited[QUOTA_STORAGES]++;
	load->user->account.awaited[QUOTA_BYTES] += size;
	return 0;
}

void load_awaited(struct load *load)
{
	if (!load->awaited.counts)
		return;
	load->awaited.counts = false;
	load->user->account.awaited[QUOTA_STORAGES]--;
	load->user->account.awaited[QUOTA_BYTES] -= load->awaited.bytes;
}

int load_take_memory(struct load *load)
{
	struct domain *domain = load->domain;
	uint64_t size = wanted(load), offset;
	int r;

	load->state = LOAD_WAITING;
	r = lane_choose(domain, load->place, &load->wait);
	if (r == 0)
		r = check_quota(load, size);
	if (r < 0)
		return r;
	r = r == MEMORY_LATER ? 0 : memory_want(&load->wait, size, false);
	if (r == 0)
		load_send_memory(load);
	if (r != 1)
		return r;
	offset = load->wait.offset;
	r = load_add_storage(load, offset, size);
	load_awaited(load);
	if (r < 0) {
		alloc_give(lane_alloc_at(&domain->pool, offset), offset, size);
		return r;
	}
	load->bytes.offset = offset;
	load->bytes.size = size;
	storage_info(domain, load->bytes.index)->filling = load;
	r = load_fill(load);
	return r < 0 ? r : 1;
}

void load_waited(struct memory_wait *wait, int error)
{
	struct load *load =
		(struct load *)((char *)wait - offsetof(struct load, wait));
	int r = error ? error : load_take_memory(load);

	if (r == 1)
		load_send_loading(load);
	if (r < 0)
		load_give_up(load, r);
}
