/* SPDX-License-Identifier: MIT */
/*
 * Assigns loads to loaders: one looks at the file, then fills the memory.
 *
 * A loader knows the segments that existed when it was forked; if the memory
 * that was taken is newer, another loader takes the job over, and identifies
 * the file once more.
 */
#include "base/checked.h"
#include "daemon/server/load/internal.h"

static uint32_t segments_of(
	const struct domain *domain, uint64_t from, uint64_t size)
{
	uint64_t to = from + size;
	uint32_t need = 0;

	for (uint32_t i = 0; i < domain->pool.n_segments; i++) {
		const struct mapped_segment *s =
			&domain->pool.segments[i].mapped;

		if (s->offset < to && from < s->offset + s->size)
			need = MAX(need, s->number + 1);
	}
	return need;
}

static const struct table_storage *copied(const struct load *load)
{
	const struct table_storage *entry =
		&load->domain->table.storages[load->copy.index];

	return load->copy.is && !(entry->flags & STORAGE_OWN) ? entry : NULL;
}

/* The number below which a loader must know all segments. */
uint32_t load_segments_needed(const struct load *load)
{
	const struct table_storage *from = copied(load);
	uint32_t need =
		segments_of(load->domain, load->bytes.offset, load->bytes.size);

	return from ? MAX(need, segments_of(load->domain, from->alloc_offset,
					from->alloc_size))
		    : need;
}

int load_identify(struct load *load, uint32_t n_segments)
{
	const struct table_storage *from = copied(load);
	struct msg_file file = {.seen = load->seen};
	int r, n = (load->fds[0] >= 0) + (load->fds[1] >= 0);

	if (load->copy.is)
		file.copy_size = load->size;
	if (from) {
		file.copy_offset = from->base;
		n_segments = MAX(n_segments, load_segments_needed(load));
	}
	memory_cancel(&load->wait);
	load->state = LOAD_NEW;
	load->loader = NULL;
	r = loader_for(load, n_segments, &load->loader);
	if (r != 1)
		return r;
	load->loader->n_jobs++;
	load->job = load->domain->server->next_job++;
	load->state = LOAD_IDENTIFYING;
	load->reading.asked_at = loop_now();
	file.job = load->job;
	r = loader_command(
		load->loader, L_FILE, &file, sizeof(file), load->fds, n);
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
			  .alloc_offset = load->bytes.offset,
			  .alloc_size = load->bytes.size,
			  .n_ranges = load->n_ranges}};
	uint64_t base = load->domain->table.storages[load->bytes.index].base;
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
	load->domain->table.storages[load->bytes.index].loader_id =
		load->loader->number;
	r = loader_command(load->loader, L_FILL, &body,
		sizeof(body.head) + load->n_ranges * sizeof(body.ranges[0]),
		NULL, 0);
	if (r == 0) {
		load->state = LOAD_FILLING;
		load->reading.last_message_at = loop_now();
	}
	return r;
}
