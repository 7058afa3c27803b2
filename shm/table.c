/* SPDX-License-Identifier: MIT */
/*
 * Making a control region, and mapping an existing one.
 *
 * Geometry is computed from the limits alone, written once, and compared and
 * copied into private memory at map time. From then on no address is computed
 * from anything that another process can change, except record offsets, which
 * record_at() checks.
 */
#include "base/page.h"
#include "shm/table.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"

struct geometry {
	uint64_t pools, segments, storages, completions, buckets, records;
	uint64_t total;
};

static uint64_t pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) & ~(PAGE - 1);
}

static struct geometry geometry(void)
{
	struct geometry g;

	g.pools = pages(sizeof(struct table_header));
	g.segments =
		g.pools + pages(TABLE_POOLS_MAX * sizeof(struct table_pool));
	g.storages = g.segments +
		     pages(TABLE_SEGMENTS_MAX * sizeof(struct table_segment));
	g.completions = g.storages + pages(TABLE_STORAGES_MAX *
					     sizeof(struct table_storage));
	g.buckets = g.completions + pages(TABLE_COMPLETIONS_MAX *
					    sizeof(struct table_completion));
	g.records = g.buckets + pages(TABLE_BUCKETS_MAX * sizeof(uint64_t));
	g.total = g.records + TABLE_RECORDS_SIZE;
	return g;
}

uint32_t table_signature(void)
{
	static const uint32_t facts[] = {
		sizeof(struct table_header),
		offsetof(struct table_header, pools_offset),
		offsetof(struct table_header, committed),
		offsetof(struct table_header, restructuring),
		offsetof(struct table_header, n_buckets),
		offsetof(struct table_header, changed),
		offsetof(struct table_header, n_pools),
		offsetof(struct table_header, n_segments),
		offsetof(struct table_header, n_storages),
		offsetof(struct table_header, n_names),
		offsetof(struct table_header, records_used),
		offsetof(struct table_header, segment_changes),
		sizeof(struct table_pool),
		offsetof(struct table_pool, flags),
		sizeof(struct table_segment),
		offsetof(struct table_segment, offset),
		sizeof(struct table_storage),
		offsetof(struct table_storage, base),
		offsetof(struct table_storage, landed),
		offsetof(struct table_storage, file_offset),
		offsetof(struct table_storage, device),
		offsetof(struct table_storage, flags),
		offsetof(struct table_storage, of_generation),
		sizeof(struct table_completion),
		offsetof(struct table_completion, request),
		offsetof(struct completed, size),
		offsetof(struct table_header, n_completions),
		sizeof(struct name_version),
		offsetof(struct name_version, descriptor),
		sizeof(struct name_record),
		offsetof(struct name_record, versions),
		sizeof(struct tarn_descriptor),
		offsetof(struct tarn_descriptor, generation),
		offsetof(struct tarn_descriptor, shape),
		TABLE_INDEX_BITS,
		TABLE_BUCKETS_FIRST,
	};
	uint32_t hash = 2166136261u; /* FNV-1a over whole numbers */

	for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
		hash = (hash ^ facts[i]) * 16777619u;
	return hash;
}

/* Computes all pointers that follow from the geometry. */
static void table_point(
	struct table *table, void *map, const struct geometry *g)
{
	unsigned char *base = map;

	*table = (struct table) {
		.map = base,
		.size = g->total,
		.header = map,
		.pools = (void *)(base + g->pools),
		.segments = (void *)(base + g->segments),
		.storages = (void *)(base + g->storages),
		.completions = (void *)(base + g->completions),
		.buckets = (void *)(base + g->buckets),
		.records_offset = g->records,
	};
}

static int populate(void *start, uint64_t size)
{
	if (madvise(start, size, MADV_POPULATE_WRITE) == 0)
		return 0;
	return tarn_fail(ENOMEM, "control region: no memory for %llu bytes: %s",
		(unsigned long long)size, tarn_errno_text(errno));
}

static void header_write(struct table *table, const struct geometry *g,
	uint32_t domain, uint32_t uid)
{
	struct table_header *h = table->header;

	h->version = TABLE_VERSION;
	h->signature = table_signature();
	h->instance = table->instance;
	h->hash_seed = table->hash_seed;
	h->domain = domain;
	h->uid = uid;
	h->pools_offset = g->pools;
	h->segments_offset = g->segments;
	h->storages_offset = g->storages;
	h->completions_offset = g->completions;
	h->buckets_offset = g->buckets;
	h->records_offset = g->records;
	h->total_size = g->total;
	atomic_store_explicit(
		&h->n_buckets, TABLE_BUCKETS_FIRST, memory_order_relaxed);
	/* Magic last: a region without it was never finished. No process reads
	 * it before the descriptor was handed over, which orders the rest. */
	atomic_signal_fence(memory_order_release);
	h->magic = TABLE_MAGIC;
}

int table_create(int fd, uint64_t instance, uint64_t seed, uint32_t domain,
	uint32_t uid, struct table *ret)
{
	struct geometry g = geometry();
	struct table table;
	void *map;
	int r;

	if (ftruncate(fd, (off_t)g.total) < 0)
		return tarn_fail(errno,
			"control region: ftruncate to %llu: %s (ulimit -f?)",
			(unsigned long long)g.total, tarn_errno_text(errno));
	map = mmap(NULL, g.total, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map == MAP_FAILED)
		return tarn_fail(errno,
			"control region: %llu bytes of addresses: %s (ulimit "
			"-v?)",
			(unsigned long long)g.total, tarn_errno_text(errno));
	table_point(&table, map, &g);
	table.instance = instance;
	table.hash_seed = seed;
	r = populate(map, g.segments);
	if (r >= 0)
		r = populate(table.buckets,
			pages(TABLE_BUCKETS_FIRST * sizeof(uint64_t)));
	if (r < 0) {
		munmap(map, g.total);
		return r;
	}
	/* It is sparse, and a core dump would fill its holes. */
	madvise(map, g.total, MADV_DONTDUMP);
	header_write(&table, &g, domain, uid);
	*ret = table;
	return 0;
}

static int differs(const char *what, uint64_t seen, uint64_t wanted)
{
	return tarn_fail(EPROTO,
		"control region: %s is 0x%llx instead of 0x%llx: it belongs "
		"to another version of tarn",
		what, (unsigned long long)seen, (unsigned long long)wanted);
}

/* One row for each field, with the value that this build would have written. */
static int header_check(const struct table_header *h, const struct geometry *g)
{
	const struct {
		const char *what;
		uint64_t seen, wanted;
	} rows[] = {
		{"magic", h->magic, TABLE_MAGIC},
		{"version", h->version, TABLE_VERSION},
		{"signature", h->signature, table_signature()},
		{"pools_offset", h->pools_offset, g->pools},
		{"segments_offset", h->segments_offset, g->segments},
		{"storages_offset", h->storages_offset, g->storages},
		{"completions_offset", h->completions_offset, g->completions},
		{"buckets_offset", h->buckets_offset, g->buckets},
		{"records_offset", h->records_offset, g->records},
		{"total_size", h->total_size, g->total},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].seen != rows[i].wanted)
			return differs(
				rows[i].what, rows[i].seen, rows[i].wanted);
	return 0;
}

int table_map(int fd, bool writable, struct table *ret)
{
	struct geometry g = geometry();
	struct stat st;
	void *map;
	int r;

	if (fstat(fd, &st) < 0)
		return tarn_fail(errno, "control region: fstat: %s",
			tarn_errno_text(errno));
	if ((uint64_t)st.st_size != g.total)
		return differs("size", (uint64_t)st.st_size, g.total);
	map = mmap(NULL, g.total, writable ? PROT_READ | PROT_WRITE : PROT_READ,
		MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map == MAP_FAILED)
		return tarn_fail(errno,
			"control region: mapping %llu bytes %s: %s",
			(unsigned long long)g.total,
			writable ? "read-write" : "read-only",
			tarn_errno_text(errno));
	r = header_check(map, &g);
	if (r < 0) {
		munmap(map, g.total);
		return r;
	}
	table_point(ret, map, &g);
	ret->instance = ret->header->instance;
	ret->hash_seed = ret->header->hash_seed;
	madvise(map, g.total, MADV_DONTDUMP);
	return 0;
}

void table_unmap(struct table *table)
{
	if (table->map)
		munmap(table->map, table->size);
	*table = (struct table) {.map = NULL};
}
