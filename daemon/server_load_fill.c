/* SPDX-License-Identifier: MIT */
/*
 * Memory for a load, and a loader to fill it.
 *
 * A loader knows the segments that existed when it was forked; if the memory
 * that was taken is newer, another loader takes the job over, and identifies
 * the file once more.
 */
#include "daemon/server_load_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/log.h"

#define PAGE 4096ull

/* ---- memory ------------------------------------------------------------ */

int load_add_storage(struct load *load, uint64_t offset, uint64_t size)
{
	const struct msg_identity *id = &load->identity;
	uint64_t first = load->n_ranges ? load->ranges[0].file_offset : 0;
	struct table_storage entry = {
		.pool = load->rule->number,
		.owner = load->home->spec.uid,
		.base = offset + first % PAGE,
		.size = load->size,
		.alloc_offset = offset,
		.alloc_size = size,
	};

	/* A file that may still change under the same stamps is nobody's
	 * cache: its entry matches no identity. */
	if (load->n_ranges && !id->young) {
		entry.file_dev = id->dev;
		entry.file_ino = id->ino;
		entry.file_size = id->size;
		entry.file_mtime = id->mtime;
		entry.file_ctime = id->ctime;
		entry.file_offset = first;
	}
	return storage_new(load->rule, &entry, STORAGE_FILLING, &load->index,
		&load->generation);
}

static uint64_t wanted(const struct load *load)
{
	/* parse_ranges has bounded the size; two pages more fit. */
	uint64_t n = load->ranges[0].file_offset % PAGE + load->size;

	return (n + PAGE - 1) & ~(PAGE - 1);
}

/* 1: taken and filling; 0: wait for the keeper; or an error. */
int load_take_memory(struct load *load, bool may_grow)
{
	struct rule *rule = load->rule;
	uint64_t size = wanted(load), offset;
	int r;

	load->state = LOAD_WAITING;
	r = quota_make_room(load->home, QUOTA_BYTES, size);
	if (r < 0)
		return r;
	r = memory_take(rule, size, may_grow, &load->asked_to_grow, &offset);
	if (r != 1)
		return r;
	r = load_add_storage(load, offset, size);
	if (r < 0) {
		alloc_give(rule->alloc, offset, size);
		return r;
	}
	load->alloc_offset = offset;
	load->alloc_size = size;
	storage_info(rule, load->index)->filling = load;
	r = load_fill(load);
	return r < 0 ? r : 1;
}

void load_have_memory(struct rule *rule)
{
	for (struct load *load = rule->loads; load; load = load->next)
		load->asked_to_grow = false;
	load_go_on(rule);
}

/* The keeper has none: who asked makes do with what can be evicted, or fails
 * with the keeper's sentence; the others ask for themselves. */
void load_no_memory(struct rule *rule, int error)
{
	_cleanup_free_ char *why = strdup(tarn_fail_message());
	struct load *load;
	int r;

	for (load = rule->loads; load; load = load->next)
		if (load->asked_to_grow)
			break;
	if (load) {
		load->asked_to_grow = false;
		r = load->state == LOAD_WAITING ? load_take_memory(load, false)
						: 0;
		if (r == 1)
			load_tell_loading(load);
		load->parked = r < 0 && !load->alloc_size &&
			       room_comes_back(rule, &load->park_until);
		if (r < 0 && !load->parked) {
			tarn_fail_verbatim(error, why ? why : "out of memory");
			load_give_up(load, error);
		}
	}
	load_go_on(rule);
}

bool load_unpark(struct rule *rule, uint64_t now, uint64_t *next)
{
	bool due = false;

	for (struct load *load = rule->loads; load; load = load->next)
		due |= room_unpark(&load->parked, load->park_until, now, next);
	return due;
}

/* ---- the loader -------------------------------------------------------- */

/* The number below which a loader must know all segments. */
uint32_t load_segments_needed(const struct load *load)
{
	const struct rule *rule = load->rule;
	uint64_t from = load->alloc_offset, to = from + load->alloc_size;
	uint32_t need = 0;

	for (uint32_t i = 0; i < rule->n_segments; i++) {
		const struct mapped_segment *s = &rule->segments[i].mapped;

		if (s->offset < to && from < s->offset + s->size)
			need = MAX(need, s->number + 1);
	}
	return need;
}

int load_identify(struct load *load, uint32_t n_segments)
{
	struct msg_job job;
	int r;

	load->state = LOAD_NEW;
	load->loader = NULL;
	r = loader_for(load->rule, load->home, n_segments, &load->loader);
	if (r != 1)
		return r;
	load->loader->n_jobs++;
	load->job = load->rule->server->next_job++;
	load->state = LOAD_IDENTIFYING;
	load->asked_at = loop_now();
	job.job = load->job;
	r = loader_tell(load->loader, L_FILE, &job, sizeof(job), load->fds,
		load->fds[1] >= 0 ? 2 : 1);
	if (r < 0)
		load_leave_loader(load);
	return r;
}

/* The loader hangs in another's file and has not looked at this one. */
void load_move(struct load *load)
{
	int r;

	load_leave_loader(load);
	load->asked_at = load->heard_at = 0;
	load->moved = true;
	if (load->state == LOAD_DROPPING)
		return load_dropped(load);
	r = load_identify(
		load, load->alloc_size ? load_segments_needed(load) : 0);
	if (r < 0)
		load_give_up(load, r);
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
	uint64_t base = load->rule->table.storages[load->index].base;
	uint32_t need = load_segments_needed(load);
	int r;

	if (load->loader->n_segments < need) {
		struct msg_job job = {.job = load->job};

		loader_tell(load->loader, L_DROP, &job, sizeof(job), NULL, 0);
		load_leave_loader(load);
		return load_identify(load, need);
	}
	for (uint32_t i = 0; i < load->n_ranges; i++)
		body.ranges[i] = (struct msg_fill_range) {
			.file_offset = load->ranges[i].file_offset,
			.size = load->ranges[i].size,
			.pool_offset = base + load->ranges[i].storage_offset,
		};
	/* Before anything is written: who may still be writing is found by it
	 * after a death of this server. */
	load->rule->table.storages[load->index].filler = load->loader->number;
	r = loader_tell(load->loader, L_FILL, &body,
		sizeof(body.head) + load->n_ranges * sizeof(body.ranges[0]),
		NULL, 0);
	if (r == 0) {
		load->state = LOAD_FILLING;
		load->heard_at = loop_now();
	}
	return r;
}

void load_tell_loading(struct load *load)
{
	struct msg_loading loading = {
		.index = load->index,
		.generation = load->generation,
		.total = load->size,
	};

	if (load->client && !load->told)
		client_reply(load->client, WIRE_LOADING, load->serial, &loading,
			sizeof(loading), NULL, 0);
	load->told = true;
}
