/* SPDX-License-Identifier: MIT */
/*
 * The control region: the tables that a client reads without a message or a
 * system call.
 *
 * There is one memfd per access domain, so that users who may not see a pool
 * see none of its names. The server alone writes it; its clients map it
 * read-only. It is sparse and of its final size from the start, so nothing is
 * ever remapped:
 *
 *	header | pools | segments | storages | completions | buckets | records
 *
 * Each part grows by being touched (the server populates pages before it counts
 * them in) up to a limit that the header states. Names live in records of
 * variable length, chained from buckets by linear hashing.
 *
 * A server that takes over goes on in the same region, after a crash and after
 * an upgrade alike. So the region is sealed against resizing alone: the memfd's
 * mode, its owner and clients' O_RDONLY descriptors keep other uids from
 * writing it. A program whose layout of it differs does not take it over.
 *
 * Publishing is one store. A record keeps the two newest versions of its name,
 * each under a commit number; a reader takes header.committed once and uses the
 * newest version not above it. The server writes any number of versions under
 * committed + 1, then stores that number: the set appears at once or not at
 * all, and what a crash leaves uncommitted is dropped by the next server.
 *
 * A transaction can also write a completion: which request of which client it
 * does, and with what result. The same store commits it, so a server that takes
 * over knows of each request whether it was done. Only servers use completions.
 *
 * A reader trusts nothing here for memory safety: geometry is checked and
 * copied when the region is mapped, offsets are checked against it on use, and
 * descriptors go through the same checks as those of an untrusted sender.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/descriptor.h>

#include "base/identity.h"
#include "shm/place.h"

#define TABLE_MAGIC 0x656c6261746e7274ull /* "trntable" */
#define TABLE_VERSION 5

/* Address space is free, memory is not: these are upper bounds, not sizes. */
#define TABLE_POOLS_MAX 64u              /* domains have few pools */
#define TABLE_SEGMENTS_MAX 65536u        /* 16 TiB of 256 MiB segments */
#define TABLE_STORAGES_MAX (1u << 22)    /* below the 26 bits of a lease word */
#define TABLE_COMPLETIONS_MAX (1u << 20) /* 4,096 each of 256 connections */
#define TABLE_BUCKETS_MAX (1u << 24)     /* one a name, up to 16 million */
/* a page half full; doubles from here */
#define TABLE_BUCKETS_FIRST 64u
#define TABLE_RECORDS_SIZE (6ull << 30) /* some 9 million short names */

#define TABLE_INDEX_BITS 26      /* a lease word: index below, */
#define TABLE_GENERATION_BITS 38 /* generation above */

enum storage_state {
	STORAGE_FREE = 0,    /* no bytes; the generation is that of the next
				 * storage */
	STORAGE_FILLING = 1, /* a load is under way; see landed */
	STORAGE_LIVE = 2,    /* named, or kept as a loaded file */
	STORAGE_UNNAMED = 3, /* only leases hold it */
	STORAGE_FREEING = 4, /* the server is scanning for leases */
};

/* The word of a storage, one atomic: generation << 8 | state. */
static inline uint64_t storage_word(
	uint64_t generation, enum storage_state state)
{
	return generation << 8 | (uint64_t)state;
}

static inline uint64_t storage_word_generation(uint64_t word)
{
	return word >> 8;
}

static inline enum storage_state storage_word_state(uint64_t word)
{
	return (enum storage_state)(word & 0xff);
}

struct table_header {
	/* 1st cache line: identity; written once */
	uint64_t magic;
	uint32_t version;
	uint32_t signature; /* of the struct layouts; see table_signature() */
	uint64_t instance;
	uint64_t hash_seed;
	uint32_t domain; /* which access domain this region belongs to */
	uint32_t uid;    /* of that domain */
	uint32_t pad0[6];

	/* 2nd: geometry; written once */
	uint64_t pools_offset;
	uint64_t segments_offset;
	uint64_t storages_offset;
	uint64_t completions_offset;
	uint64_t buckets_offset;
	uint64_t records_offset;
	uint64_t total_size;
	uint64_t pad1;

	/* 3rd: commits; written by the server, read by every look-up */
	_Atomic uint64_t committed;
	/* Odd while chains are being changed in a way that could make a reader
	 * miss a name that is there: a bucket split, or a record being taken
	 * out. Adding a record does not count. */
	_Atomic uint32_t restructuring;
	_Atomic uint32_t n_buckets;
	_Atomic uint32_t changed; /* incremented with each commit: a futex */
	uint32_t pad2;
	/* No commit above it has removed a name. */
	_Atomic uint64_t removed;
	uint64_t pad3[4];

	/* 4th: counts; written by the server */
	_Atomic uint32_t n_pools;
	_Atomic uint32_t n_segments;
	_Atomic uint32_t n_storages;    /* highest index ever used, plus one */
	_Atomic uint32_t n_completions; /* highest slot ever used, plus one */
	_Atomic uint64_t n_names;
	_Atomic uint64_t records_used; /* bytes of the record part in use */
	/* Incremented with each segment that is shown or dropped. */
	_Atomic uint64_t segment_changes;
	uint64_t pad5[3];
};

/* A pool: one range of addresses, made of segments. */
struct table_pool {
	uint32_t id;
	uint32_t page_shift; /* 12, 21 or 30 */
	uint64_t reach;      /* its address range is [0, reach) */
	struct placement placement;
	uint16_t flags; /* TABLE_POOL_* */
	uint16_t pad0[2];
	uint64_t pad[5];
};
/* Its segments are sealed in their size alone, so that clients of the daemon's
 * uid can map them writable to register them (WIRE_SEGMENTS). */
#define TABLE_POOL_REGISTER 1u

/* A segment does not change while it is READY. After it was dropped, another
 * segment may get its number, with the next serial: table_segments.c. */
enum segment_state {
	SEGMENT_NONE = 0,
	SEGMENT_READY = 1,
	SEGMENT_DROPPED = 2,
};

/* The word of a segment, one atomic: serial << 8 | state. Serials begin at 1,
 * and 56 bits of them do not run out. */
static inline uint64_t segment_word(uint64_t serial, enum segment_state state)
{
	return serial << 8 | (uint64_t)state;
}

static inline uint64_t segment_word_serial(uint64_t word)
{
	return word >> 8;
}

static inline enum segment_state segment_word_state(uint64_t word)
{
	return (enum segment_state)(word & 0xff);
}

struct table_segment {
	_Atomic uint64_t word;
	uint32_t pool;
	uint32_t place;  /* place.h; of older daemons not known */
	uint64_t offset; /* in the pool */
	uint64_t size;
	uint64_t pad[4];
};

struct table_storage {
	_Atomic uint64_t word;
	uint32_t pool;
	uint32_t owner; /* uid */
	uint64_t base;  /* byte of the pool where the storage begins */
	uint64_t size;
	uint64_t alloc_offset; /* the whole pages that are allocated for it */
	uint64_t alloc_size;
	_Atomic uint64_t landed; /* bytes of a running load that have arrived */
	uint64_t expires;        /* 0: the names that end are in name_version */
	/* The file that it was loaded from, and where its bytes begin there;
	 * all 0 for a created one, and for bytes that are not one unchanged
	 * range of a file. */
	struct file_identity file;
	uint64_t file_offset;
	/* The header that its client had parsed, and that its loader has found
	 * in the file. Size 0: the client named none. */
	uint64_t header_size;
	union {
		struct digest header;
		uint8_t device[16]; /* STORAGE_DEVICE: the UUID of its device */
	};
	uint32_t flags;     /* STORAGE_* */
	uint32_t loader_id; /* while it is FILLING: the number of its loader */
	/* Index + 1 of the first replica of this storage, or, in a replica, of
	 * the next one of the same storage; 0: there is none. A hint: a reader
	 * holds what it leads to, and then looks at of and of_generation. */
	_Atomic uint32_t replica;
	uint32_t replica_node; /* of a replica: where it lies */
	/* STORAGE_REPLICA: the storage whose bytes these are. STORAGE_PATCH: the
	 * one that it is over. */
	uint64_t of_generation;
	uint32_t of;
	uint32_t own_pages; /* STORAGE_PATCH: of 4,096 bytes, of its memfd */
};
/* Its bytes are behind a descriptor of its own, which WIRE_STORAGE returns, and
 * which is a memfd but for STORAGE_DEVICE: pool is TABLE_POOL_OWN, base is 0. */
#define STORAGE_OWN 1u
/* That, and every process that the domain admits may write it. */
#define STORAGE_MUTABLE 2u
#define STORAGE_CREATED 4u /* created by a client: never evicted */
/* Its bytes may still be written by a ring whose process is dead: it is not
 * freed before the pipe of its loader ends. */
#define STORAGE_QUARANTINE 8u
/* Of a mutable one: its bytes are a channel's (channel.h). */
#define STORAGE_CHANNEL 16u
/* Loaded, and found by every client that proves the same version of its
 * file. */
#define STORAGE_KEPT 32u
/* The bytes of another storage once more, on another node: table_replicas.c. */
#define STORAGE_REPLICA 64u
/* Its bytes are memory of a device, which a client has made: with STORAGE_OWN, a
 * descriptor that is no memfd. It is handed out, and neither mapped, read nor
 * copied by the daemon. */
#define STORAGE_DEVICE 128u
/* The bytes of another storage, but for some pages, which its memfd has
 * (patch.h). Of the same size; the other one is not freed before it. */
#define STORAGE_PATCH 256u
/* Patches over patches: a reader maps all of them. */
#define TABLE_PATCHES_MAX 16u
#define TABLE_POOL_OWN UINT32_MAX

/* What is taken for it of the host's memory, in whole pages. */
static inline uint64_t storage_memory(const struct table_storage *entry)
{
	if (entry->flags & STORAGE_DEVICE)
		return 0;
	if (entry->flags & STORAGE_PATCH)
		return (uint64_t)entry->own_pages << 12;
	return entry->flags & STORAGE_OWN ? (entry->size + 4095) & ~4095ull
					  : entry->alloc_size;
}

/* What is taken for it of its device's memory. */
static inline uint64_t storage_device_memory(const struct table_storage *entry)
{
	return entry->flags & STORAGE_DEVICE ? entry->size : 0;
}

/* Its bytes in memory of the host: of a patch those that are not another's. */
static inline uint64_t storage_host_bytes(const struct table_storage *entry)
{
	if (entry->flags & STORAGE_PATCH)
		return storage_memory(entry);
	return entry->flags & STORAGE_DEVICE ? 0 : entry->size;
}

/* A request that was done, and the storage that its answer names, if any. */
struct completed {
	uint64_t client; /* the number of its connection, which is never 0 */
	uint32_t serial;
	uint32_t pool;
	uint32_t index;
	uint32_t pad;
	uint64_t generation;
	uint64_t base;
	uint64_t size;
};

/* commit is the transaction that did the request. 0: the slot is free. Above
 * header.committed: that transaction was not committed, and so this is void. */
struct table_completion {
	_Atomic uint64_t commit;
	struct completed request;
	uint64_t pad;
};

/* One of the two newest versions of a name. commit is 0 while it is being
 * written; a reader copies it and then reads commit again. */
struct name_version {
	_Atomic uint64_t commit;
	uint64_t version;   /* 1, 2, ... of this name */
	uint32_t flags;     /* NAME_REMOVED */
	uint32_t publisher; /* uid + 1 of the user to charge; 0: unknown */
	/* CLOCK_BOOTTIME ns; 0: never. The server removes it */
	uint64_t expires;
	uint64_t pad1[4];
	struct tarn_descriptor descriptor;
};
#define NAME_REMOVED 1u
#define TABLE_NOBODY UINT32_MAX /* a uid that no user has */

struct name_record {
	_Atomic uint64_t next; /* region offset of the next in the chain; 0 */
	uint64_t hash;
	uint32_t size; /* of the record, a multiple of 64 */
	uint32_t name_size;
	uint64_t timer; /* the writer's own: see table_expiry.c */
	uint64_t pad[4];
	struct name_version versions[2];
	char name[]; /* name_size bytes, no NUL */
};

static_assert(sizeof(struct table_header) == 256, "four cache lines");
static_assert(offsetof(struct table_header, committed) == 128, "3rd line");
static_assert(offsetof(struct table_header, n_pools) == 192, "4th line");
static_assert(sizeof(struct table_pool) == 64, "a cache line");
static_assert(sizeof(struct table_segment) == 64, "a cache line");
static_assert(sizeof(struct table_storage) == 192, "three cache lines");
static_assert(sizeof(struct table_completion) == 64, "a cache line");
static_assert(sizeof(struct name_version) == 320, "five cache lines");
static_assert(sizeof(struct name_record) == 704, "eleven, then the name");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
	"shared memory needs lock-free atomics");

/* A number that differs when any struct above is laid out differently. */
uint32_t table_signature(void);

/* ---- a mapped region; geometry copied to private memory ------------- */

struct table {
	unsigned char *map; /* read-only for clients */
	uint64_t size;
	uint64_t instance;
	uint64_t hash_seed;
	struct table_header *header;
	struct table_pool *pools;
	struct table_segment *segments;
	struct table_storage *storages;
	struct table_completion *completions;
	_Atomic uint64_t *buckets;
	uint64_t records_offset;
};

/* Resizes the memfd and writes an empty region into it through a writable
 * mapping that *ret owns. seed is random. */
int table_create(int fd, uint64_t instance, uint64_t seed, uint32_t domain,
	uint32_t uid, struct table *ret);

/* Maps an existing region and checks magic, version, signature and geometry:
 * -EPROTO with a sentence that names the difference. */
int table_map(int fd, bool writable, struct table *ret);
void table_unmap(struct table *table);

/* ---- replicas (any process, any thread; no system call) ------------- */

/* A storage has at most one on each node. */
#define TABLE_REPLICAS_MAX 64u /* NODES_MAX */

struct table_replica {
	uint32_t index;
	uint32_t node;
	uint64_t generation;
};

/*
 * Up to TABLE_REPLICAS_MAX of those that a storage has at this moment. They may
 * be gone at the next: a reader takes a lease and then asks table_is_replica,
 * which is true for as long as the lease is held.
 */
uint32_t table_replicas(const struct table *table, uint32_t index,
	uint64_t generation, struct table_replica *ret);
bool table_is_replica(
	const struct table_storage *held, uint32_t of, uint64_t generation);

/* Maps the pages in use, so that the first look-ups do not fault. A hint: it
 * cannot fail, and does nothing for very large regions. */
void table_prefault(const struct table *table);

/* ---- reading (any process, any thread; no system call) -------------- */

/* The committed version of a name. -ENOENT; -EAGAIN when the server died in the
 * middle of restructuring (the caller asks the server by message, or waits). */
int table_lookup(const struct table *table, const char *name, size_t name_size,
	struct tarn_descriptor *ret, uint64_t *ret_version);

/* The same, and which commit wrote it. *ret may be written on failure too,
 * since one copy fewer saves a tenth of an open. No two versions of a region's
 * names have both name and commit in common, even if a name comes back after
 * its removal and counts its versions from 1 again. */
struct table_name {
	struct tarn_descriptor descriptor;
	uint64_t version;
	uint64_t commit;
	uint64_t record; /* region offset of its record */
};
int table_find(const struct table *table, const char *name, size_t name_size,
	struct table_name *ret);

/* Calls fn for each committed name beginning with prefix; stops at non-zero.
 * Names are handed over NUL-terminated, from private memory. A name that stands
 * throughout is listed exactly once; one that appears or vanishes meanwhile may
 * be listed or not. -EAGAIN as in table_lookup. */
int table_list(const struct table *table, const char *prefix,
	size_t prefix_size,
	int (*fn)(void *arg, const char *name, size_t name_size,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg);

/*
 * Sets of names as one commit left them (table_set.c). A reader takes a commit
 * number once, reads any number of records as that commit left them, and asks
 * at the end whether a name was removed since. No call fails or waits; a record
 * whose version of that commit has been overwritten is lost, and the reader
 * begins again with a newer number.
 */
uint64_t table_committed(const struct table *table);
/* May a removal of a name have followed commit at, or the state that it left?
 * False proves that a walk which began with that number missed no name. */
bool table_removed_since(const struct table *table, uint64_t at);

/* A walk along all records, in the order of their offsets. 1: walk->record is
 * the next, which may be of no name; 0: there is none; -EPROTO. */
struct table_walk {
	uint64_t record;
	uint64_t next, end; /* offsets */
};
void table_walk_begin(const struct table *table, struct table_walk *walk);
int table_walk_next(const struct table *table, struct table_walk *walk);

/* A name and its version at that commit. */
struct table_row {
	struct table_name found;
	uint32_t name_size;
	char name[1024 + 1]; /* NUL-terminated */
};
enum table_at {
	TABLE_AT_NOTHING, /* no name with that prefix stood there */
	TABLE_AT_NAME,    /* it is in *ret */
	TABLE_AT_LOST,    /* the version at that commit cannot be determined any
			   * more */
};
enum table_at table_record_at(const struct table *table, uint64_t record,
	uint64_t at, const char *prefix, size_t prefix_size,
	struct table_row *ret);
/* Did the version that commit number commit wrote to that record stand after
 * commit number at? False also where that cannot be determined any more. */
bool table_record_holds(const struct table *table, uint64_t record,
	uint64_t commit, uint64_t at);

/* A consistent copy of a storage's entry. -ESTALE when the generation is
 * another or the storage is free. */
int table_storage_get(const struct table *table, uint32_t index,
	uint64_t generation, struct table_storage *ret);

/* A consistent copy of the entry with a segment's number. */
struct segment_shown {
	uint64_t serial;
	uint32_t pool;
	uint32_t place;
	uint64_t offset; /* in the pool */
	uint64_t size;
};
/* False: no segment has that number, or it is being dropped. number is below
 * header.n_segments. */
bool table_segment_get(
	const struct table *table, uint32_t number, struct segment_shown *ret);
/* The serial of the segment that has that number; 0: none has. */
uint64_t table_segment_serial(const struct table *table, uint32_t number);

/* ---- names ---------------------------------------------------------- */

/* 1 to 1024 bytes of UTF-8, no NUL, no control characters: 0, or -EINVAL /
 * -ENAMETOOLONG with a sentence. */
int name_check(const char *name, size_t size);
uint64_t name_hash(const char *name, size_t size, uint64_t seed);
