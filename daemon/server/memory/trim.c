/* SPDX-License-Identifier: MIT */
/*
 * Gives back empty segments.
 *
 * A segment goes in three steps, so that no process has it mapped any more when
 * the keeper counts it as free:
 *
 *	1. its bytes are taken out of the allocator, if all of them are free;
 *	   loaders that have it mapped are notified, and each answers or ends
 *	2. the table says DROPPED, upon which clients unmap it at their next
 *	   look; the server unmaps it, and tells the keeper
 *	3. the keeper unmaps it, and answers: processes that were forked
 *	   before may still have it, those forked from now on do not
 *
 * After step 3 another segment may get its number in the table, with another
 * serial (shm/table_segments.c), and its addresses. Some empty segments stay,
 * so that a load finds memory that is there already: memory that was full a
 * moment ago is likely to be needed again.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

/* Empty memory is given back after so long without a load or a removal: picked,
 * so that one checkpoint may replace another. */
#define TRIM_NS 2000000000ull

/* Empty memory that is kept: a segment, or an eighth of what is in use. */
static uint64_t watermark(const struct domain *domain)
{
	return MAX(domain->spec.segment_max, lanes_used(&domain->pool) / 8);
}

static uint64_t spare(const struct domain *domain)
{
	return lanes_total(&domain->pool) - lanes_used(&domain->pool);
}

/* ---- step 1: loaders --------------------------------------------------- */

static bool is_awaited(const struct segment_mapper *mapper, uint32_t number)
{
	for (uint32_t i = 0; i < mapper->n_forgetting; i++)
		if (mapper->forgetting[i] == number)
			return true;
	return false;
}

/* Could it be held up for ever? Then the memory is of more use here. */
static bool somebody_hangs(const struct domain *domain, uint32_t number)
{
	for (const struct segment_mapper *m = domain->pool.mappers; m;
		m = m->next)
		if (m->mute && m->n_segments > number)
			return true;
	return false;
}

/* Tells a loader that maps the segment. The loader must answer, or end, before
 * the segment is freed. */
static void ask_to_forget(struct segment_mapper *mapper, uint32_t number)
{
	uint32_t *more;

	if (mapper->n_segments <= number || mapper->mute ||
		is_awaited(mapper, number))
		return;
	more = reallocarray(
		mapper->forgetting, mapper->n_forgetting + 1u, sizeof(*more));
	if (!more)
		return; /* it goes on mapping it until it ends */
	mapper->forgetting = more;
	if (!mapper->n_forgetting)
		mapper->forget_at = loop_now();
	more[mapper->n_forgetting++] = number;
	mapper->forget(mapper, number);
}

void segments_forgotten(
	struct domain *domain, struct segment_mapper *mapper, uint32_t number)
{
	for (uint32_t i = 0; i < mapper->n_forgetting; i++)
		if (mapper->forgetting[i] == number) {
			mapper->forgetting[i] =
				mapper->forgetting[--mapper->n_forgetting];
			mapper->forget_at = loop_now();
			break;
		}
	segments_finish(domain);
}

void segments_map(struct domain *domain, struct segment_mapper *mapper)
{
	mapper->next = domain->pool.mappers;
	domain->pool.mappers = mapper;
	for (uint32_t i = 0; i < domain->pool.n_segments; i++)
		if (domain->pool.segments[i].state == SEGMENT_LEAVING ||
			domain->pool.segments[i].state == SEGMENT_LEFT)
			ask_to_forget(
				mapper, domain->pool.segments[i].mapped.number);
}

void segments_unmap(struct domain *domain, struct segment_mapper *mapper)
{
	bool awaited = mapper->n_forgetting > 0;
	struct segment_mapper **p = &domain->pool.mappers;

	while (*p && *p != mapper)
		p = &(*p)->next;
	if (*p)
		*p = mapper->next;
	free(mapper->forgetting);
	mapper->forgetting = NULL;
	mapper->n_forgetting = 0;
	if (awaited)
		segments_finish(domain);
}

bool segment_leave(struct domain *domain, struct segment *segment)
{
	const struct mapped_segment *s = &segment->mapped;
	struct alloc *alloc = segment_is_old(segment)
				      ? domain->pool.old_alloc
				      : lane_alloc_at(&domain->pool, s->offset);

	if (somebody_hangs(domain, s->number) ||
		alloc_remove(alloc, s->offset, s->size) < 0)
		return false;
	segment->state = SEGMENT_LEAVING;
	segment->left_at = loop_now();
	domain->server->n_leaving++;
	for (struct segment_mapper *m = domain->pool.mappers; m; m = m->next)
		ask_to_forget(m, s->number);
	return true;
}

/* ---- steps 2 and 3: other processes ----------------------------------- */

static void drop(struct domain *domain, uint32_t index)
{
	struct segment *segment = &domain->pool.segments[index];
	const struct mapped_segment *s = &segment->mapped;
	struct msg_segment message = {
		.domain = domain->number,
		.number = s->number,
		.offset = s->offset,
		.size = s->size,
	};

	table_drop_segment(domain->writer, index);
	if (s->addr)
		munmap(s->addr, s->size);
	segment->fd = fd_close(segment->fd);
	segment->state = SEGMENT_LEFT;
	domain->server->allocated -= s->size;
	segment->mapped.addr = NULL;
	segment->mapped.size = 0;
	server_send_keeper(domain->server, D_DROP_SEGMENT, &message,
		sizeof(message), NULL, 0);
}

void segments_finish(struct domain *domain)
{
	for (uint32_t i = 0; i < domain->pool.n_segments; i++) {
		const struct segment *s = &domain->pool.segments[i];
		bool awaited = false;

		if (s->state != SEGMENT_LEAVING)
			continue;
		for (const struct segment_mapper *m = domain->pool.mappers; m;
			m = m->next)
			awaited |= is_awaited(m, s->mapped.number);
		if (!awaited)
			drop(domain, i);
	}
}

int segment_dropped(struct server *server, const struct msg_segment *which)
{
	struct domain *domain = domain_find(server, which->domain);

	if (!domain)
		return -EPROTO;
	for (uint32_t i = 0; i < domain->pool.n_segments; i++)
		if (domain->pool.segments[i].mapped.number == which->number &&
			domain->pool.segments[i].state == SEGMENT_LEFT) {
			domain->pool.segments[i].state = SEGMENT_GONE;
			server->n_leaving--;
		}
	server->memory.changed = true;
	return 0;
}

/* ---- when ---------------------------------------------------------------- */

uint64_t segments_trim(struct domain *domain, uint64_t keep)
{
	uint64_t old = old_segments_trim(domain), given = 0;

	/* The highest number first: low numbers and low addresses are used
	 * again first, and best fit packs things there. */
	for (uint32_t i = domain->pool.n_segments; i-- > 0;) {
		struct segment *segment = &domain->pool.segments[i];
		const struct mapped_segment *s = &segment->mapped;

		if (spare(domain) <= keep)
			break;
		if (segment->state == SEGMENT_HERE && s->addr &&
			spare(domain) - keep >= s->size &&
			alloc_is_free(lane_alloc_at(&domain->pool, s->offset),
				s->offset, s->size) &&
			segment_leave(domain, segment))
			given += s->size;
	}
	if (given && quota_may_log(domain))
		log_info("trim", log_u64("domain", domain->number),
			log_u64("bytes", given), log_u64("keep", keep));
	if (given)
		segments_finish(domain);
	return old + given;
}

/* Has anything been taken or given back since it was last looked at? */
static void notice(struct domain *domain, uint64_t now)
{
	uint64_t used = lanes_used(&domain->pool);
	uint64_t total = lanes_total(&domain->pool);

	if (used == domain->pool.shrink.used &&
		total == domain->pool.shrink.total)
		return;
	domain->pool.shrink =
		(struct shrink) {.used = used, .total = total, .moved_at = now};
}

/* When to trim next; 0: not until memory is taken or given back. */
static uint64_t trim_idle(struct domain *domain, uint64_t now)
{
	uint64_t idle = MAX(domain->server->start.options.idle_ns, TRIM_NS);
	struct shrink *shrink = &domain->pool.shrink;

	old_segments_trim(domain);
	notice(domain, now);
	if (!spare(domain) || shrink->stage > 1)
		return 0;
	/* A request that waits for memory, or is getting it, will use it. */
	if (domain->growth.growing || domain->growth.n_waits)
		shrink->moved_at = now;
	if (!shrink->stage && now - shrink->moved_at >= TRIM_NS) {
		segments_trim(domain, watermark(domain));
		shrink->stage = 1;
	}
	if (shrink->stage == 1 && now - shrink->moved_at >= idle) {
		segments_trim(domain, 0);
		shrink->stage = 2;
	}
	/* Giving a segment back is no new activity, but the end of one. */
	shrink->used = lanes_used(&domain->pool);
	shrink->total = lanes_total(&domain->pool);
	if (!spare(domain) || shrink->stage > 1)
		return 0;
	return shrink->moved_at + (shrink->stage ? idle : TRIM_NS);
}

void segments_poll(struct domain *domain, uint64_t now)
{
	deadline_set(loop_deadlines(domain->server->loop),
		&domain->pool.shrink_timer, trim_idle(domain, now));
}
