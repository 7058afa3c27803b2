/* SPDX-License-Identifier: MIT */
/*
 * The pages of a segment: what is asked for, and what came of it.
 *
 * Pages of the reserve are asked for when the memfd is made and promised, all
 * or none, when it is mapped. All others are the kernel's choice at the first
 * fault: it is given advice then, and asked afterwards. The process that has
 * populated a segment asks, since its page tables are full, and leaves the
 * answer in a page that it shares with the keeper; so it does with the node of
 * each (placement.c).
 */
#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/huge_mapped.h"
#include "base/huge_reserve.h"
#include "base/nodes.h"
#include "base/page.h"
#include "base/shmem_huge.h"
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/placement.h"
#include "daemon/keeper/populate.h"
#include "daemon/loop/log.h"
#include "shm/segment.h"

/* ---- the reserve --------------------------------------------------------- */

/* Without what others are to take. */
static uint64_t free_pages(
	const struct huge_reserve *have, unsigned shift, uint64_t others)
{
	return have->free - MIN(have->free, others >> shift);
}

/* How many pages are needed, and how many there were. */
static int lacks_pages(
	const struct pool_spec *spec, uint64_t size, uint64_t others)
{
	unsigned shift = pool_page_shift(spec);
	unsigned long long needs = (size + (1ull << shift) - 1) >> shift;
	unsigned mib = 1u << (shift - 20);
	struct huge_reserve have;

	if (huge_reserve_read("", shift, &have) < 0)
		return tarn_fail(ENOSPC,
			"the pool %s needs %llu huge pages of %u MiB, and this "
			"machine shows no reserve of that size; use pages = "
			"auto",
			spec->name, needs, mib);
	have.free = free_pages(&have, shift, others);
	if (have.free >= needs)
		return tarn_fail(ENOSPC,
			"the pool %s needs %llu huge pages of %u MiB, and was "
			"refused them though %llu of %llu in the reserve are "
			"free; is there a limit of the cgroup (hugetlb.*.max) "
			"or of the cpuset?",
			spec->name, needs, mib, (unsigned long long)have.free,
			(unsigned long long)have.all);
	return tarn_fail(ENOSPC,
		"the pool %s needs %llu huge pages of %u MiB, and %llu of %llu "
		"in the reserve are free; write a larger number to %s, or use "
		"pages = auto",
		spec->name, needs, mib, (unsigned long long)have.free,
		(unsigned long long)have.all, have.setting);
}

int keeper_reserve_check(
	const struct pool_spec *spec, uint64_t bytes, uint64_t others)
{
	unsigned shift = pool_page_shift(spec);
	struct huge_reserve have;

	/* Where there are no figures, the kernel decides. */
	if (huge_reserve_read("", shift, &have) < 0 ||
		bytes <= free_pages(&have, shift, others) << shift)
		return 0;
	return lacks_pages(spec, bytes, others);
}

/* ---- making and mapping -------------------------------------------------- */

static void advise(const struct pool_spec *spec, void *addr, uint64_t size)
{
	if (pool_is_reserved(spec))
		return;
	/* Only advice: a kernel without huge pages for shared memory refuses
	 * it, and the pages are of 4 KiB. */
	madvise(addr, size,
		spec->pages == PAGES_4K ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
}

int keeper_segment_map(const struct pool_spec *spec, struct keeper_segment *s)
{
	char name[64];
	int r;

	snprintf(name, sizeof(name), "tarn-%u-%u", s->mapped.domain,
		s->mapped.number);
	r = segment_create(
		name, s->mapped.size, (int)pool_page_shift(spec), &s->fd);
	if (r == 0)
		r = segment_map_rw(s->fd, s->mapped.size, &s->mapped.addr);
	if (r < 0)
		return pool_is_reserved(spec)
			       ? lacks_pages(spec, s->mapped.size, 0)
			       : r;
	advise(spec, s->mapped.addr, s->mapped.size);
	return 0;
}

/* ---- what came of it ----------------------------------------------------- */

void keeper_pages_prepare(struct keeper *keeper)
{
	void *p = MAP_FAILED;

	if (!keeper->memory.populated)
		p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED)
		keeper->memory.populated = p;
	static_assert(
		sizeof(*keeper->memory.populated) <= PAGE, "it is one page");
	/* Without it the figures are missing, and no memory but what is wanted
	 * on one node. */
	if (keeper->memory.populated)
		*keeper->memory.populated = (struct populated) {0};
}

/* In huge pages, as the populator maps it: 0 where the kernel does not say. */
static uint64_t huge_of(void *addr, uint64_t size)
{
	uint64_t huge = 0;

	return huge_mapped(addr, size, &huge) < 0 ? 0 : huge;
}

/* As huge_of; where a pool insists on huge pages, more are made of what it
 * has. */
static uint64_t have_huge(
	const struct pool_spec *spec, void *addr, uint64_t size)
{
	uint64_t huge = huge_of(addr, size);

	/* Where memory is in pieces, a fault takes small pages rather than move
	 * others out of the way. That is worth while on request only. */
	if (spec->pages != PAGES_THP || huge == size)
		return huge;
	madvise(addr, size, MADV_COLLAPSE);
	/* What could not be put together is in the file still, and may be in no
	 * page table any more, where its node is looked for. */
	madvise(addr, size, MADV_POPULATE_WRITE);
	return huge_of(addr, size);
}

int keeper_populate(
	struct keeper *keeper, const struct keeper_segment *segment, int fd)
{
	const struct mapped_segment *s = &segment->mapped;
	const struct pool_spec *spec = &keeper->domains[s->domain].spec;
	struct populated *populated = keeper->memory.populated;
	bool huge = spec->pages != PAGES_4K;
	int node = placement_node(keeper, segment), error;

	node_stay(node);
	error = populate(fd, s->addr, s->size,
		(pool_is_reserved(spec) ? POPULATE_RESERVED : 0) |
			(keeper->memory.lanes > 1 ? POPULATE_FAULTED : 0) |
			(huge ? POPULATE_HUGE : 0),
		node);
	if (error || !populated)
		return error;
	if (huge)
		populated->huge = have_huge(spec, s->addr, s->size);
	placement_count(keeper, segment);
	return 0;
}

uint64_t keeper_populated_huge(const struct keeper *keeper, uint64_t size)
{
	uint64_t huge = 0;

	if (keeper->memory.populated)
		huge = keeper->memory.populated->huge;
	return MIN(huge, size);
}

void keeper_pages_warn(const struct pool_spec *spec)
{
	if (spec->pages != PAGES_THP || shmem_huge_pages("") != 0 ||
		shmem_collapses())
		return;
	log_warning("pool_pages", log_text("pool", spec->name),
		log_text("wanted", "thp"), log_text("obtained", "4k"),
		log_text("error",
			"the kernel gives shared memory no huge pages: "
			"/sys/kernel/mm/transparent_hugepage/shmem_enabled is "
			"never or deny"));
}
