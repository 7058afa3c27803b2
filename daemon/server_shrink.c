/* SPDX-License-Identifier: MIT */
/*
 * Segments in which nothing lies are given back.
 *
 * A segment goes in three steps, so that its memory is nobody's any more when
 * the keeper counts it as free:
 *
 *	1. its bytes are taken out of the allocator, if all of them are free;
 *	   loaders that have it mapped are told, and each answers or ends
 *	2. the table says DROPPED, upon which clients unmap it at their next
 *	   look; the server unmaps it, and tells the keeper
 *	3. the keeper unmaps it, and says so: who was forked before may still
 *	   have it, who is forked from now on has not
 *
 * Its number in the table is never used again, its addresses are. Some of
 * what is empty stays, so that a load finds memory that is there already:
 * what used to be full a moment ago is likely to be needed again.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"
#include "daemon/server.h"

/* Memory that nothing lies in is given back after so long without a load or a
 * removal: picked, so that one checkpoint may take another's place. */
#define TRIM_NS 2000000000ull

/* Numbers in a table are used up: the last ones are for growing alone. */
#define NUMBERS_KEPT (TABLE_SEGMENTS_MAX / 8)

/* What stays warm: a segment, or an eighth of what is in use. */
static uint64_t watermark(const struct rule *rule)
{
	return MAX(rule->spec.segment_max, alloc_used(rule->alloc) / 8);
}

static uint64_t spare(const struct rule *rule)
{
	return alloc_total(rule->alloc) - alloc_used(rule->alloc);
}

/* ---- step 1: loaders --------------------------------------------------- */

static bool is_awaited(const struct loader *loader, uint32_t number)
{
	for (uint32_t i = 0; i < loader->n_forgetting; i++)
		if (loader->forgetting[i] == number)
			return true;
	return false;
}

/* Could it be held up for ever? Then the memory is of more use here. */
static bool somebody_hangs(const struct rule *rule, uint32_t number)
{
	for (const struct loader *l = rule->loaders; l; l = l->next)
		if ((l->hung || l->sock < 0) && l->n_segments > number)
			return true;
	return false;
}

/* Tells a loader that has it mapped. What it was told it must answer, or end,
 * before the segment goes. */
static void ask_to_forget(struct loader *loader, uint32_t number)
{
	struct msg_forget body = {.number = number};
	uint32_t *more;

	if (loader->n_segments <= number || loader->sock < 0 ||
		is_awaited(loader, number))
		return;
	more = reallocarray(
		loader->forgetting, loader->n_forgetting + 1u, sizeof(*more));
	if (!more)
		return; /* it goes on mapping it until it ends */
	loader->forgetting = more;
	more[loader->n_forgetting++] = number;
	loader_tell(loader, L_FORGET, &body, sizeof(body), NULL, 0);
}

void segments_forgotten(struct loader *loader, uint32_t number)
{
	for (uint32_t i = 0; i < loader->n_forgetting; i++)
		if (loader->forgetting[i] == number) {
			loader->forgetting[i] =
				loader->forgetting[--loader->n_forgetting];
			break;
		}
	segments_settle(loader->rule);
}

void segments_tell_loader(struct loader *loader)
{
	const struct rule *rule = loader->rule;

	for (uint32_t i = 0; i < rule->n_segments; i++)
		if (rule->segments[i].state == SEGMENT_LEAVING ||
			rule->segments[i].state == SEGMENT_LEFT)
			ask_to_forget(loader, rule->segments[i].mapped.number);
}

bool segment_leave(struct rule *rule, struct segment *segment)
{
	const struct mapped_segment *s = &segment->mapped;
	struct alloc *alloc =
		segment_is_frozen(segment) ? rule->frozen : rule->alloc;

	if (somebody_hangs(rule, s->number) ||
		alloc_remove(alloc, s->offset, s->size) < 0)
		return false;
	segment->state = SEGMENT_LEAVING;
	segment->left_at = loop_now();
	rule->server->n_leaving++;
	for (struct loader *l = rule->loaders; l; l = l->next)
		ask_to_forget(l, s->number);
	return true;
}

/* ---- steps 2 and 3: everybody else ------------------------------------- */

static void drop(struct rule *rule, uint32_t index)
{
	struct segment *segment = &rule->segments[index];
	const struct mapped_segment *s = &segment->mapped;
	struct msg_segment message = {
		.rule = rule->number,
		.number = s->number,
		.offset = s->offset,
		.size = s->size,
	};

	table_drop_segment(rule->writer, index);
	if (s->addr)
		munmap(s->addr, s->size);
	segment->fd = fd_close(segment->fd);
	segment->state = SEGMENT_LEFT;
	rule->server->allocated -= s->size;
	segment->mapped.addr = NULL;
	segment->mapped.size = 0;
	server_tell_keeper(rule->server, D_DROP_SEGMENT, &message,
		sizeof(message), NULL, 0);
}

void segments_settle(struct rule *rule)
{
	for (uint32_t i = 0; i < rule->n_segments; i++) {
		const struct segment *s = &rule->segments[i];
		bool awaited = false;

		if (s->state != SEGMENT_LEAVING)
			continue;
		for (const struct loader *l = rule->loaders; l; l = l->next)
			awaited |= is_awaited(l, s->mapped.number);
		if (!awaited)
			drop(rule, i);
	}
}

int segment_dropped(struct server *server, const struct msg_segment *which)
{
	struct rule *rule = rule_find(server, which->rule);

	if (!rule)
		return -EPROTO;
	for (uint32_t i = 0; i < rule->n_segments; i++)
		if (rule->segments[i].mapped.number == which->number &&
			rule->segments[i].state == SEGMENT_LEFT) {
			rule->segments[i].state = SEGMENT_GONE;
			server->n_leaving--;
		}
	room_look(server, loop_now());
	return 0;
}

/* ---- when ---------------------------------------------------------------- */

uint64_t segments_trim(struct rule *rule, uint64_t keep)
{
	uint64_t frozen = frozen_trim(rule), given = 0;

	if (rule->n_segments > TABLE_SEGMENTS_MAX - NUMBERS_KEPT)
		return frozen;
	/* The newest first: what came early is where best fit packs things. */
	for (uint32_t i = rule->n_segments; i-- > 0;) {
		struct segment *segment = &rule->segments[i];
		const struct mapped_segment *s = &segment->mapped;

		if (spare(rule) <= keep)
			break;
		if (segment->state == SEGMENT_HERE && s->addr &&
			spare(rule) - keep >= s->size &&
			alloc_is_free(rule->alloc, s->offset, s->size) &&
			segment_leave(rule, segment))
			given += s->size;
	}
	if (given) {
		log_info("trim", log_u64("rule", rule->number),
			log_u64("bytes", given), log_u64("keep", keep));
		segments_settle(rule);
	}
	return frozen + given;
}

/* Has anything been taken or given back since it was last looked at? */
static void notice(struct rule *rule, uint64_t now)
{
	uint64_t used = alloc_used(rule->alloc);
	uint64_t total = alloc_total(rule->alloc);

	if (used == rule->shrink.used && total == rule->shrink.total)
		return;
	rule->shrink =
		(struct shrink) {.used = used, .total = total, .moved_at = now};
}

uint64_t segments_look(struct rule *rule, uint64_t now)
{
	uint64_t idle = MAX(rule->server->start.options.idle_ns, TRIM_NS);
	struct shrink *shrink = &rule->shrink;

	frozen_trim(rule);
	notice(rule, now);
	if (!spare(rule) || shrink->stage > 1)
		return 0;
	/* Whoever waits for memory, or is getting it, is about to use it. */
	if (rule->growing)
		shrink->moved_at = now;
	if (!shrink->stage && now - shrink->moved_at >= TRIM_NS) {
		segments_trim(rule, watermark(rule));
		shrink->stage = 1;
	}
	if (shrink->stage == 1 && now - shrink->moved_at >= idle) {
		segments_trim(rule, 0);
		shrink->stage = 2;
	}
	/* What went is no movement, but the end of one. */
	shrink->used = alloc_used(rule->alloc);
	shrink->total = alloc_total(rule->alloc);
	if (!spare(rule) || shrink->stage > 1)
		return 0;
	return shrink->moved_at + (shrink->stage ? idle : TRIM_NS);
}
