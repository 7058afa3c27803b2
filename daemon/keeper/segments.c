/* SPDX-License-Identifier: MIT */
/*
 * The keeper's memory: segments for each domain's pool.
 *
 * The keeper maps them writable first, so that every process forked later
 * inherits the mapping, and seals them afterwards, so that no other process can
 * ever make one. All pages of a segment are there before it is announced:
 * missing memory is an error at that moment, never a fault later. That takes
 * half a second per GiB and more, so a child does it and the keeper goes on.
 * Which growth a segment is made for is decided in segment_grows.c.
 */
#include "daemon/keeper/keeper.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/headroom.h"
#include "daemon/keeper/placement.h"
#include "daemon/loop/log.h"
#include "shm/segment.h"

/* ---- segments ------------------------------------------------------- */

/* Whole units, and whole pages where they are larger. */
static uint64_t round_size(const struct keeper_domain *domain, uint64_t size)
{
	uint64_t unit = keeper_grow_unit(domain);

	size = MIN(size, domain->spec.segment_max);
	return (size + unit - 1) & ~(unit - 1);
}

/* The pool doubles, so that a small daemon stays small and a large one has
 * few segments; a load that needs more gets more at once. */
static uint64_t next_size(
	const struct keeper *keeper, const struct keeper_grow *grow)
{
	uint64_t end = keeper_lane_end(keeper, grow->want.domain, grow->lane) -
		       grow->lane * keeper_lane_size(keeper);

	return round_size(&keeper->domains[grow->want.domain],
		MAX(MAX(SEGMENT_FIRST, end), grow->left));
}

/* The least that is needed, and no more. */
static uint64_t least_size(const struct keeper_domain *domain, uint64_t left)
{
	return round_size(domain, left);
}

/* The segment that is being made comes to nothing. */
static void drop_growing(struct keeper *keeper)
{
	struct keeper_segment *s = &keeper->memory.growing;

	if (s->mapped.addr)
		munmap(s->mapped.addr, s->mapped.size);
	fd_close(s->fd);
	*s = (struct keeper_segment) {.fd = -1};
	keeper->memory.populator_pid = 0;
}

/* The next segment of a domain's pool, up to where it is populated. */
static int make_segment(
	struct keeper *keeper, const struct keeper_grow *grow, uint64_t size)
{
	uint32_t number = grow->want.domain;
	const struct keeper_domain *domain = &keeper->domains[number];
	struct keeper_segment *s = &keeper->memory.growing;
	int r = keeper_may_grow(keeper, grow, MAX(size, grow->left));

	if (r < 0)
		return r;
	*s = (struct keeper_segment) {
		.mapped = {.domain = number,
			.number = keeper->memory.next_segment,
			.offset = grow->at,
			.size = size},
		.fd = -1,
	};
	r = keeper_segment_map(&domain->spec, s);
	if (r == 0)
		r = placement_bind(keeper, s);
	if (r == 0) {
		keeper->memory.populator_pid = keeper_fork_populator(keeper, s);
		r = keeper->memory.populator_pid < 0
			    ? (int)keeper->memory.populator_pid
			    : 0;
	}
	if (r < 0)
		drop_growing(keeper);
	return r;
}

static int begin_segment(struct keeper *keeper, struct keeper_grow *grow)
{
	const struct keeper_domain *domain =
		&keeper->domains[grow->want.domain];
	uint64_t least = least_size(domain, grow->left);
	uint64_t size = MIN(next_size(keeper, grow), grow->end - grow->at);
	int r;

	if (least > grow->end - grow->at)
		return tarn_fail(ENOSPC,
			"the pool's range of %.0f GiB of "
			"addresses is used up",
			(double)keeper_lane_size(keeper) / (1 << 30));
	size = MAX(least, MIN(size, placement_room(keeper, grow)));
	r = make_segment(keeper, grow, size);
	/* Doubling is for later; now it is the rest that counts. */
	if (r < 0 && least < size)
		r = make_segment(keeper, grow, least);
	return r;
}

static void work_on_grows(struct keeper *keeper)
{
	struct keeper_grow *grow;
	int r;

	while (!keeper->memory.growing.mapped.addr &&
		(grow = keeper_grow_next(keeper))) {
		r = grow->left > 0 ? begin_segment(keeper, grow) : 0;
		if (r < 0 || grow->left == 0)
			keeper_grow_done(keeper, grow, r);
	}
}

int keeper_grow(struct keeper *keeper, const struct msg_grow *want)
{
	int r = keeper_grow_add(keeper, want);

	if (r == 0)
		work_on_grows(keeper);
	return r;
}

static struct msg_segment message_of(const struct keeper_segment *s)
{
	return (struct msg_segment) {
		.domain = s->mapped.domain,
		.number = s->mapped.number,
		.offset = s->mapped.offset,
		.size = s->mapped.size,
		.huge = s->huge,
		.place = s->mapped.place,
	};
}

static int seal(const struct pool_spec *spec, int fd)
{
	return spec->flags & POOL_REGISTER ? segment_seal_register(fd)
					   : segment_seal(fd);
}

static int seal_segment(struct keeper *keeper)
{
	struct keeper_segment *s = &keeper->memory.growing, *more;
	struct keeper_grow *grow = keeper->memory.grows;
	struct keeper_domain *domain = &keeper->domains[s->mapped.domain];
	struct msg_segment message = message_of(s);
	_cleanup_fd_ int ro = -1;
	int r;

	r = seal(&domain->spec, s->fd);
	if (r == 0)
		r = segment_reopen(s->fd, &ro);
	if (r < 0)
		return r;
	more = realloc(keeper->memory.segments,
		(keeper->memory.n_segments + 1) * sizeof(*more));
	if (!more)
		return tarn_fail(ENOMEM, "out of memory");
	keeper->memory.segments = more;
	/* Sent first: a segment of which the server is not told goes back as a
	 * whole, and is in no list then. */
	r = keeper_send(keeper, D_SEGMENT, &message, sizeof(message), &ro, 1);
	if (r < 0)
		return r;
	fd_close(s->fd);
	s->fd = fd_steal(&ro);
	more[keeper->memory.n_segments++] = *s;
	keeper->memory.allocated += s->mapped.size;
	keeper->memory.next_segment++;
	domain->pool_end =
		MAX(domain->pool_end, s->mapped.offset + s->mapped.size);
	domain->allocated += s->mapped.size;
	grow->at += s->mapped.size;
	grow->left -= MIN(grow->left, s->mapped.size);
	*s = (struct keeper_segment) {.fd = -1};
	s = &more[keeper->memory.n_segments - 1];
	if (keeper_may_log(keeper, s->mapped.domain))
		log_info("segment_add", log_u64("segment", s->mapped.number),
			log_u64("domain", s->mapped.domain),
			log_u64("offset", s->mapped.offset),
			log_u64("bytes", s->mapped.size),
			log_u64("huge", s->huge));
	return 0;
}

/* The growth whose segment was made is done, or it is the turn of another. */
static void go_on(struct keeper *keeper, int r)
{
	struct keeper_grow *grow = keeper->memory.grows;

	if (r < 0)
		drop_growing(keeper);
	else if (keeper->memory.growing.mapped.addr)
		return; /* the server has yet to map it */
	if (r < 0 || grow->left == 0)
		keeper_grow_done(keeper, grow, r);
	else
		keeper_grow_turn(keeper);
	work_on_grows(keeper);
}

/* The server copies what clients publish, so it maps each segment while that
 * is still possible; keeper_mapped goes on. */
static int offer_segment(struct keeper *keeper)
{
	const struct keeper_segment *s = &keeper->memory.growing;
	struct msg_segment message = message_of(s);

	return keeper_send(
		keeper, D_SEGMENT_MAP, &message, sizeof(message), &s->fd, 1);
}

int keeper_mapped(struct keeper *keeper, const struct msg_segment *answer)
{
	const struct keeper_segment *s = &keeper->memory.growing;
	int r;

	if (!s->mapped.addr || keeper->memory.populator_pid ||
		answer->number != s->mapped.number)
		return tarn_fail(EPROTO, "no segment %u waits for its seal",
			answer->number);
	if (answer->size == s->mapped.size)
		r = seal_segment(keeper);
	else
		r = tarn_fail(ENOMEM,
			"the server cannot map %llu bytes more; is there a "
			"limit on its addresses (ulimit -v)?",
			(unsigned long long)s->mapped.size);
	go_on(keeper, r);
	return 0;
}

/* The populator ended: 0, or the errno of what it ran into. */
void keeper_populated(struct keeper *keeper, int status)
{
	struct keeper_segment *s = &keeper->memory.growing;
	int r;

	keeper->memory.populator_pid = 0;
	s->huge = keeper_populated_huge(keeper, s->mapped.size);
	if (status == 0) {
		r = placement_judge(keeper, s);
		keeper->memory.grows->of_node = r < 0;
		if (r == 0)
			r = offer_segment(keeper);
	} else {
		keeper->memory.grows->of_node =
			status == ENOSPC && placement_node(keeper, s) >= 0 &&
			headroom_check(s->mapped.size) == 0;
		r = tarn_fail(ENOSPC, "%.1f MiB of memory could not be had: %s",
			(double)s->mapped.size / 1048576,
			status == ENOSPC ? "others took it meanwhile"
					 : tarn_errno_text(status));
	}
	go_on(keeper, r);
}

void keeper_memory_forget(struct keeper *keeper)
{
	/* The memory that it populated is freed when it has ended. */
	if (keeper->memory.populator_pid > 0)
		kill(keeper->memory.populator_pid, SIGKILL);
	if (keeper->memory.growing.mapped.addr)
		drop_growing(keeper);
	keeper_grows_forget(keeper);
}

/*
 * A segment that is being populated is finished and offered to the next
 * server; one that only waits for the dead one to map it is sealed, and the
 * next inherits the mapping.
 */
void keeper_memory_finish(struct keeper *keeper)
{
	bool making = keeper->memory.growing.mapped.addr;
	struct keeper_grow *orphan = &keeper->memory.orphan;

	/* The next one may ask for the same domain again. */
	if (making)
		*orphan = *keeper->memory.grows;
	keeper_grows_forget(keeper);
	if (making) {
		orphan->left =
			MIN(orphan->left, keeper->memory.growing.mapped.size);
		orphan->next = NULL;
		keeper->memory.grows = orphan;
	}
	if (making && !keeper->memory.populator_pid)
		go_on(keeper, seal_segment(keeper));
}

void keeper_segments_replay(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->memory.n_segments; i++) {
		const struct keeper_segment *s = &keeper->memory.segments[i];
		struct msg_segment message = message_of(s);

		keeper_replay(keeper, D_SEGMENT, &message, sizeof(message),
			&s->fd, 1);
	}
}

void keeper_memory_free(struct keeper *keeper)
{
	uint32_t i;

	if (keeper->memory.growing.mapped.addr)
		drop_growing(keeper);
	for (i = 0; i < keeper->memory.n_segments; i++) {
		struct mapped_segment *s = &keeper->memory.segments[i].mapped;

		if (s->addr)
			munmap(s->addr, s->size);
		fd_close(keeper->memory.segments[i].fd);
	}
	free(keeper->memory.segments);
	keeper->memory.segments = NULL;
	keeper->memory.n_segments = 0;
	keeper_domains_free(keeper);
}
