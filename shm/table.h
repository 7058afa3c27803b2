/* SPDX-License-Identifier: MIT */
/*
 * The control region: what a client looks up without asking anybody.
 *
 * One memfd per access rule, so that who may not see a pool sees no name of
 * it. The server alone writes it; its clients map it read-only. It is sparse
 * and of its final size from the start, so nothing is ever remapped:
 *
 *	header | pools | segments | storages | buckets | records
 *
 * Each part grows by being touched (the server populates pages before it
 * counts them in) up to a limit that the header states. Names live in records
 * of variable length, chained from buckets by linear hashing.
 *
 * Publishing is one store. A record keeps the two newest versions of its name,
 * each under a commit number; a reader takes header.committed once and uses
 * the newest version not above it. The server writes any number of versions
 * under committed + 1, then stores that number: the set appears at once or
 * not at all, and what a crash leaves uncommitted is dropped by the next
 * server.
 *
 * Nothing a reader finds here is trusted for memory safety: geometry is
 * checked and copied when the region is mapped, offsets are checked against
 * it on use, and descriptors go through the same checks as those of a
 * stranger.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/descriptor.h>

#define TABLE_MAGIC 0x656c6261746e7274ull /* "trntable" */
#define TABLE_VERSION 1

/* Address space is free, memory is not: these are ends, not sizes. */
#define TABLE_POOLS_MAX 64u		/* rules have few pools */
#define TABLE_SEGMENTS_MAX 65536u	/* 16 TiB of 256 MiB segments */
#define TABLE_STORAGES_MAX (1u << 22)	/* below the 26 bits of a lease word */
#define TABLE_BUCKETS_MAX (1u << 24)	/* one a name, up to 16 million */
#define TABLE_BUCKETS_FIRST 64u		/* a page half full; doubles from here */
#define TABLE_RECORDS_SIZE (6ull << 30) /* some 9 million short names */

#define TABLE_INDEX_BITS 26	 /* a lease word: index below, */
#define TABLE_GENERATION_BITS 38 /* generation above */

enum storage_state {
	STORAGE_FREE = 0,	/* no bytes; the generation is the next one's */
	STORAGE_FILLING = 1,	/* a load is under way; see landed */
	STORAGE_LIVE = 2,	/* named, or kept as a loaded file */
	STORAGE_UNNAMED = 3,	/* only leases hold it */
	STORAGE_FREEING = 4,	/* the server is looking for leases */
};

/* The word of a storage, one atomic: generation << 8 | state. */
static inline uint64_t storage_word(uint64_t generation,
	enum storage_state state)
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
	/* 1st cache line: what it is; written once */
	uint64_t magic;
	uint32_t version;
	uint32_t signature; /* of the struct layouts; see table_signature() */
	uint64_t instance;
	uint64_t hash_seed;
	uint32_t rule; /* which access rule this region belongs to */
	uint32_t uid;  /* of that rule */
	uint32_t moves; /* regions of this rule that this one goes on from */
	uint32_t pad0[5];

	/* 2nd: geometry; written once */
	uint64_t pools_offset;
	uint64_t segments_offset;
	uint64_t storages_offset;
	uint64_t buckets_offset;
	uint64_t records_offset;
	uint64_t total_size;
	uint64_t pad1[2];

	/* 3rd: commits; written by the server, read by every look-up */
	_Atomic uint64_t committed;
	/* Odd while chains are being changed in a way that could make a
	 * reader miss a name that is there: a bucket split, a record taken
	 * out. Adding a record does not count. */
	_Atomic uint32_t restructuring;
	_Atomic uint32_t n_buckets;
	_Atomic uint32_t changed; /* bumped with each commit: a futex */
	_Atomic uint32_t left; /* odd: nobody writes here any more; see below */
	/* No commit above it has removed a name; 0 before protocol 2. */
	_Atomic uint64_t removed;
	uint64_t pad3[4];

	/* 4th: counts; written by the server */
	_Atomic uint32_t n_pools;
	_Atomic uint32_t n_segments;
	_Atomic uint32_t n_storages; /* highest index ever used, plus one */
	_Atomic uint32_t n_dropped; /* segments; 0 before protocol 2 */
	_Atomic uint64_t n_names;
	_Atomic uint64_t records_used; /* bytes of the record part in use */
	uint64_t pad5[4];
};

/* A pool: one range of addresses, made of segments. */
struct table_pool {
	uint32_t id;
	uint32_t page_shift; /* 12, 21 or 30 */
	uint64_t reach;	     /* its address range is [0, reach) */
	uint64_t pad[6];
};

/* Segments never change once counted in; state tells one that was dropped. */
enum segment_state {
	SEGMENT_NONE = 0,
	SEGMENT_READY = 1,
	SEGMENT_DROPPED = 2,
};

struct table_segment {
	uint32_t pool;
	_Atomic uint32_t state;
	uint64_t offset; /* in the pool */
	uint64_t size;
	uint64_t pad[5];
};

struct table_storage {
	_Atomic uint64_t word;
	uint32_t pool;
	uint32_t owner; /* uid */
	uint64_t base;	/* byte of the pool where the storage begins */
	uint64_t size;
	uint64_t alloc_offset; /* what was taken for it, whole pages */
	uint64_t alloc_size;
	_Atomic uint64_t landed; /* bytes of a running load that have arrived */
	uint64_t expires;	 /* 0: it is names that end, name_version */
	/* The file that it was loaded from; all 0 for a created one. */
	uint64_t file_dev;
	uint64_t file_ino;
	uint64_t file_size;
	uint64_t file_mtime; /* ns */
	uint64_t file_ctime; /* ns */
	uint64_t file_offset;
	uint32_t flags;	 /* STORAGE_*; since protocol 2 */
	uint32_t filler; /* while it is FILLING: the number of its loader */
	uint64_t left_word; /* of a region that was left: what word was */
};
/* Its bytes are a memfd of its own, to be asked for by WIRE_STORAGE: pool is
 * TABLE_POOL_OWN, base is 0. */
#define STORAGE_OWN 1u
#define STORAGE_MUTABLE 2u /* and those whom the rule lets may write it */
#define STORAGE_CREATED 4u /* by a client: never evicted */
/* Its bytes may still be written by a ring whose process is dead: it is not
 * freed before the pipe of its filler ends. */
#define STORAGE_QUARANTINE 8u
/* Of a mutable one: its bytes are a channel's (channel.h). */
#define STORAGE_CHANNEL 16u
#define TABLE_POOL_OWN UINT32_MAX

/* One of the two newest versions of a name. commit is 0 while it is being
 * written; a reader copies and looks at commit again. */
struct name_version {
	_Atomic uint64_t commit;
	uint64_t version; /* 1, 2, ... of this name */
	uint32_t flags;	  /* NAME_REMOVED */
	uint32_t publisher; /* uid + 1, of who is charged for it; 0: unknown */
	uint64_t token; /* of the request that wrote it; 0 before protocol 2 */
	uint64_t expires; /* CLOCK_BOOTTIME ns; 0: never. The server removes it */
	uint64_t pad1[3];
	struct tarn_descriptor descriptor;
};
#define NAME_REMOVED 1u
#define TABLE_NOBODY UINT32_MAX /* a uid that is nobody's */

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
static_assert(sizeof(struct table_storage) == 128, "two cache lines");
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
	_Atomic uint64_t *buckets;
	uint64_t records_offset;
};

/* Sizes the memfd and writes an empty region into it through a writable
 * mapping that *ret owns. seed is random. */
int table_create(int fd, uint64_t instance, uint64_t seed, uint32_t rule,
	uint32_t uid, struct table *ret);

/* Maps a region that somebody made and checks magic, version, signature and
 * geometry: -EPROTO says which differs. */
int table_map(int fd, bool writable, struct table *ret);
/* The same for a mapping that is there already, such as an inherited one;
 * table_unmap would unmap it. */
int table_attach(void *map, uint64_t size, struct table *ret);
void table_unmap(struct table *table);

/* Maps the pages in use, so that the first look-ups do not fault. A hint: it
 * cannot fail, and does nothing for what is very large. */
void table_prefault(const struct table *table);

/* ---- reading (any process, any thread; no system call) -------------- */

/* The committed version of a name. -ENOENT; -EAGAIN when the server died in
 * the middle of restructuring (the caller asks it by message, or waits). */
int table_lookup(const struct table *table, const char *name, size_t name_size,
	struct tarn_descriptor *ret, uint64_t *ret_version);

/* The same, and which commit wrote it; *ret is written to whatever comes of it,
 * since one copy fewer is a tenth of an open. No two versions of a region's names
 * have both name and commit in common, even if a name comes back after its
 * removal and counts its versions from 1 again. */
struct table_name {
	struct tarn_descriptor descriptor;
	uint64_t version;
	uint64_t commit;
};
int table_find(const struct table *table, const char *name, size_t name_size,
	struct table_name *ret);

/*
 * Leaving a region. A daemon that is upgraded cannot write its regions any
 * more, so it makes others, which go on from there (table_copy), and says so
 * in the old ones: left becomes odd, and no storage there can be acquired.
 * Leases that were acquired before are as good in the next region, where their
 * storages have the same indices and generations. What stands in a region that
 * was left is history: table_find, table_lookup and table_list answer -ESTALE,
 * and the reader maps the next region over it (table_follow).
 *
 * The place tells one region, and whether it was left, from another: what
 * failed while it changed, or in one that was left, is to be tried again.
 */
uint64_t table_place(const struct table *table);
bool table_is_left(const struct table *table);
/* Maps the region behind fd, read-only, over this one, which goes on at the
 * same addresses, for other threads too. 1; 0: it is not a later one; -EPROTO:
 * it is no region of the same rule and daemon; -ENOMEM. One thread at a time. */
int table_follow(struct table *table, int fd);

/* Calls fn for each committed name beginning with prefix; stops at non-zero.
 * Names are handed over NUL-terminated, from private memory. One that stands
 * throughout is listed exactly once; one that comes or goes meanwhile may be
 * or not. -EAGAIN as in table_lookup. */
int table_list(const struct table *table, const char *prefix,
	size_t prefix_size,
	int (*fn)(void *arg, const char *name, size_t name_size,
		const struct tarn_descriptor *descriptor, uint64_t version),
	void *arg);

/* A consistent copy of what the table says of a storage. -ESTALE when the
 * generation is another or the storage is free. */
int table_storage_get(const struct table *table, uint32_t index,
	uint64_t generation, struct table_storage *ret);

/* ---- writing (the server, one thread) ------------------------------- */

/* What the writer knows beside the region itself: free lists, counts. It can
 * be rebuilt from the region (table_writer_new does so): after a crash,
 * versions above header.committed are dropped and an odd restructuring count
 * is repaired. */
struct table_writer;
/* uid: who has published the name; TABLE_NOBODY: it is not known. */
typedef void (*table_name_fn)(void *arg,
	const struct tarn_descriptor *descriptor, uint32_t uid);
int table_writer_new(struct table *table, struct table_writer **ret);
/* The same, and visit is called for what each name leads to, in no order, on
 * the one way along all names that this takes; negative ends it. The counts in
 * the header were checked before. */
int table_writer_take_over(struct table *table,
	int (*visit)(void *arg, const struct tarn_descriptor *descriptor,
		uint32_t uid),
	void *arg, struct table_writer **ret);
struct table_writer *table_writer_free(struct table_writer *writer);

int table_add_pool(struct table_writer *writer, const struct table_pool *pool);
/* Returns the segment's number through ret_index. */
int table_add_segment(struct table_writer *writer, uint32_t pool,
	uint64_t offset, uint64_t size, uint32_t *ret_index);

/* It is unmapped by those who look; its number is not used again. */
void table_drop_segment(struct table_writer *writer, uint32_t index);

/* A free entry, filled in (word, landed excepted) and set to state. */
int table_storage_add(struct table_writer *writer,
	const struct table_storage *storage, enum storage_state state,
	uint32_t *ret_index, uint64_t *ret_generation);
/* Release-stores the word with the same generation. */
void table_storage_set(struct table_writer *writer, uint32_t index,
	enum storage_state state);
/* Marks it free under the next generation; an index whose generations run out
 * is retired. */
void table_storage_drop(struct table_writer *writer, uint32_t index);
/* Freeing, under the next generation, which nobody has ever been told: no
 * lease on it stands, and none can be taken, until it is dropped. */
void table_storage_shut(struct table_writer *writer, uint32_t index);

/*
 * A transaction: names put and removed become visible together. Between begin
 * and commit only the writer sees them. put copies the descriptor; the two
 * return -ENOSPC/-ENOMEM with a sentence, after which abort is the only way.
 * displaced is called (from commit) for each descriptor that no longer stands
 * under a name, once per name, so that storages can be counted.
 */
int table_begin(struct table_writer *writer);
/* What is put from here on in this transaction carries: the token of the
 * request, the time at which the name ends (CLOCK_BOOTTIME ns; 0: never), and
 * who publishes it. Before it is called: 0, 0 and TABLE_NOBODY. */
void table_stamp(struct table_writer *writer, uint64_t token, uint64_t expires,
	uint32_t uid);
int table_put(struct table_writer *writer, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t *ret_version);
int table_remove(struct table_writer *writer, const char *name,
	size_t name_size); /* -ENOENT */
void table_commit(struct table_writer *writer, table_name_fn displaced,
	void *arg);
void table_abort(struct table_writer *writer);
/* Calls fn for what each name leads to, in no order. Not while a transaction
 * is open. */
void table_each(const struct table_writer *writer, table_name_fn fn,
	void *arg);
/* When the first name ends; 0: none does. That name may have been replaced
 * meanwhile: then nothing comes of it. */
uint64_t table_next_expiry(const struct table_writer *writer);
/* Removes, in a transaction that is open and has no other changes, all names
 * that have ended at that time: how many, or -ENOMEM and nothing is removed. */
int64_t table_expire(struct table_writer *writer, uint64_t now);
/* What the request with that token has published under a name, as long as it
 * is one of the two versions that are kept. -ENOENT, without a sentence. */
int table_find_token(const struct table *table, const char *name,
	size_t name_size, uint64_t token, struct tarn_descriptor *ret,
	uint64_t *ret_version);
/* What a name leads to, and who has published it, as in table_name_fn. -ENOENT,
 * without a sentence. */
int table_publisher(const struct table *table, const char *name,
	size_t name_size, struct tarn_descriptor *ret, uint32_t *ret_uid);
/* May commit number since, or one after it, have written the name? True also
 * if it is not there and any name was removed since. */
bool table_written_since(const struct table *table, const char *name,
	size_t name_size, uint64_t since);
/* Wakes who waits on header.changed, for what is no commit: bytes landed, a
 * storage's state. */
void table_wake(struct table_writer *writer);

/* ---- moving (the keeper, while there is no writer) ------------------- */

/* All that it holds, in pages: what a copy takes. */
uint64_t table_footprint(const struct table *table);
/* Leaves a region that is mapped writable. */
void table_leave(struct table *table);
/* Takes that back: nothing came of it. */
void table_return(struct table *table);
/* Makes the region that goes on from one that was left, in an empty memfd and
 * through a writable mapping that *ret owns. -ENOMEM. */
int table_copy(const struct table *from, int fd, struct table *ret);

/* ---- names ---------------------------------------------------------- */

/* 1 to 1024 bytes of UTF-8, no NUL, no control characters: 0, or -EINVAL /
 * -ENAMETOOLONG with a sentence. */
int name_check(const char *name, size_t size);
uint64_t name_hash(const char *name, size_t size, uint64_t seed);
