/* SPDX-License-Identifier: MIT */
/*
 * Memory for a load, and a loader to fill it.
 *
 * A loader knows the segments that existed when it was forked; if the memory
 * that was taken is newer, another loader takes the job over, and identifies
 * the file once more.
 */
#include "base/page.h"
#include "daemon/server/load/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/log.h"

/* ---- memory ------------------------------------------------------------ */

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
	if (load->n_ranges == 1) {
		entry.file = load->identity.file;
		entry.file_offset = first;
		entry.header_size = load->seen.header_size;
		entry.header = load->seen.header;
		if (load_not_kept(load) == NOT_KEPT_KEPT)
			entry.flags = STORAGE_KEPT;
	}
	return storage_new(load->domain, &entry, STORAGE_FILLING, &load->index,
		&load->generation);
}

static uint64_t wanted(const struct load *load)
{
	/* parse_ranges has bounded the size; two pages more fit. */
	uint64_t n = load->ranges[0].file_offset % PAGE + load->size;

	return (n + PAGE - 1) & ~(PAGE - 1);
}

int load_take_memory(struct load *load)
{
	struct domain *domain = load->domain;
	uint64_t size = wanted(load), offset;
	int r;

	load->state = LOAD_WAITING;
	r = storage_fit_quota(load->user, QUOTA_STORAGES, 1);
	if (r == 0)
		r = storage_fit_quota(load->user, QUOTA_BYTES, size);
	if (r < 0)
		return r;
	r = memory_want(&load->wait, size, false);
	if (r == 0)
		load_send_memory(load);
	if (r != 1)
		return r;
	offset = load->wait.offset;
	r = load_add_storage(load, offset, size);
	if (r < 0) {
		alloc_give(domain->pool.alloc, offset, size);
		return r;
	}
	load->alloc_offset = offset;
	load->alloc_size = size;
	storage_info(domain, load->index)->filling = load;
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

/* ---- the loader -------------------------------------------------------- */

/* The number below which a loader must know all segments. */
uint32_t load_segments_needed(const struct load *load)
{
	const struct domain *domain = load->domain;
	uint64_t from = load->alloc_offset, to = from + load->alloc_size;
	uint32_t need = 0;

	for (uint32_t i = 0; i < domain->pool.n_segments; i++) {
		const struct mapped_segment *s =
			&domain->pool.segments[i].mapped;

		if (s->offset < to && from < s->offset + s->size)
			need = MAX(need, s->number + 1);
	}
	return need;
}

int load_identify(struct load *load, uint32_t n_segments)
{
	struct msg_file file = {.seen = load->seen};
	int r;

	memory_cancel(&load->wait);
	load->state = LOAD_NEW;
	load->loader = NULL;
	r = loader_for(load, n_segments, &load->loader);
	if (r != 1)
		return r;
	load->loader->n_jobs++;
	load->job = load->domain->server->next_job++;
	load->state = LOAD_IDENTIFYING;
	load->asked_at = loop_now();
	file.job = load->job;
	r = loader_command(load->loader, L_FILE, &file, sizeof(file), load->fds,
		load->fds[1] >= 0 ? 2 : 1);
	if (r < 0)
		load_leave_loader(load);
	return r;
}

/* It holds the file; tell it where the bytes go. If it was forked before
 * their segments were made, another one is. */
int load_fill(struct load *load)
{
	struct {
		struct msg_fill head;
		struct msg_fill_range ranges[LOAD_RANGES_MAX];
	} body = {.head = {.job = load->job,
			  .alloc_offset = load->alloc_offset,
			  .alloc_size = load->alloc_size,
			  .n_ranges = load->n_ranges}};
	uint64_t base = load->domain->table.storages[load->index].base;
	uint32_t need = load_segments_needed(load);
	int r;

	if (load->loader->mapper.n_segments < need) {
		struct msg_job job = {.job = load->job};

		loader_command(
			load->loader, L_DROP, &job, sizeof(job), NULL, 0);
		load_leave_loader(load);
		return load_identify(load, need);
	}
	for (uint32_t i = 0; i < load->n_ranges; i++)
		body.ranges[i] = (struct msg_fill_range) {
			.file_offset = load->ranges[i].file_offset,
			.size = load->ranges[i].size,
			.pool_offset = base + load->ranges[i].storage_offset,
		};
	/* Before anything is written: after a death of this server the next one
	 * finds by it which loader may still be writing. */
	load->domain->table.storages[load->index].loader_id =
		load->loader->number;
	r = loader_command(load->loader, L_FILL, &body,
		sizeof(body.head) + load->n_ranges * sizeof(body.ranges[0]),
		NULL, 0);
	if (r == 0) {
		load->state = LOAD_FILLING;
		load->last_message_at = loop_now();
	}
	return r;
}

/* ---- messages to the clients ------------------------------------------ */

static void tell_bytes(struct load *load, const struct load *reads)
{
	struct msg_loading loading = {
		.phase = LOADING_BYTES,
		.index = reads->index,
		.generation = reads->generation,
		.total = load->size,
	};

	if (load->client && !load->announced)
		client_reply(load->client, WIRE_OUT(WIRE_LOADING, load->serial,
						   &loading, sizeof(loading)));
	load->announced = true;
}

void load_send_loading(struct load *load)
{
	tell_bytes(load, load);
	for (struct load *l = load->domain->loading.loads; l; l = l->next)
		if (l->state == LOAD_SHARING && l->with == load)
			tell_bytes(l, load);
}

void load_memory(
	const struct load *load, uint64_t *ret_ready, uint64_t *ret_wanted)
{
	const struct load *reads = load->with ? load->with : load;
	const struct domain *domain = load->domain;
	bool waits = reads->wait.queued;

	*ret_wanted = waits ? domain->growth.asked.bytes : 0;
	*ret_ready = MIN(domain->growth.grown, *ret_wanted);
}

void load_send_memory(struct load *load)
{
	struct msg_loading loading = {
		.phase = LOADING_MEMORY, .total = load->size};

	load_memory(load, &loading.ready, &loading.wanted);
	/* Once for each segment: a client that does not read its socket must
	 * not make us queue more. */
	if (!load->client || !loading.wanted ||
		loading.ready + 1 == load->announced_memory)
		return;
	load->announced_memory = loading.ready + 1;
	client_reply(load->client, WIRE_OUT(WIRE_LOADING, load->serial,
					   &loading, sizeof(loading)));
}

void load_memory_comes(struct domain *domain, uint64_t bytes)
{
	/* Both are bounded by the pool's addresses. */
	domain->growth.grown += bytes;
	for (struct load *load = domain->loading.loads; load; load = load->next)
		load_send_memory(load);
}
