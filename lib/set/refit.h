/* SPDX-License-Identifier: MIT */
/*
 * The next version of a set, while it is being made.
 *
 * Names that share one range of bytes in the old version (tied weights) are a
 * group, of which one is the leader; new bytes are the group's. They get a place
 * in a bucket, which is one storage, when one of its names is put; the copy to
 * it, a piece, waits until there are enough bytes to fill a bucket. Then buckets
 * get their memory, and all pieces that wait go to the stream, as one flight. Of
 * flights two are under way at most.
 *
 * A piece that goes from memory to memory as it is needs no stream: it is written
 * when its turn comes (refit_write.c).
 *
 * A tensor of which a few pages change becomes a patch of its storage
 * (refit_patch.c): those pages alone are new.
 */
#pragma once

#include <tarn/set.h>
#include <tarn/snapshot.h>

#include "lib/set/place.h"
#include "lib/set/rows.h"
#include "lib/tensor/tensor.h"

/* Of each tensor in a bucket: the alignment of cudaMalloc. */
#define REFIT_ALIGN 256u
#define REFIT_FLIGHTS 2

struct refit_bucket {
	struct refit_bucket *next;
	struct set_place place;
	tarn_storage *storage; /* NULL: it has no memory yet */
	uint64_t used, room;   /* bytes */
	bool adopted; /* its memory itself must be published, not copies */
};

struct refit_name {
	char *name;       /* with the prefix */
	tarn_tensor *old; /* NULL: it is new */
	uint64_t commit;  /* that has published the old one */
	/* The bytes of the old storage that it reaches. */
	uint64_t begin, end;
	/* Those with one number reach bytes that touch. */
	size_t cluster;
	struct refit_name *leader; /* itself, in a group of one */
	struct tarn_layout layout; /* of the new one, from begin on */
	bool packed;               /* layout is in C order, gaps left out */

	/* The leader's: of its group. */
	struct refit_name *taken; /* the name that is put; NULL: none */
	bool kept;                /* its bytes are the old ones */
	bool tied;                /* there is more than one name */
	bool overlapped;          /* in part, by another group */
	uint64_t size;            /* bytes of the new ones */
	struct refit_bucket *bucket;
	uint64_t at;               /* byte of the bucket */
	struct refit_patch *patch; /* in place of a bucket; or NULL */

	bool in_parts;
	struct set_rows rows; /* that were put, if it is in parts */
};

struct refit_piece {
	struct refit_piece *next, **previous;
	struct refit_name *name;
	tarn_tensor *src;
	int64_t start, rows; /* rows -1: all of the tensor */
	uint64_t bytes;      /* of the new tensor */
	uint64_t held;       /* of memory that is freed after the copy */
	tarn_tensor *positions, *values; /* written after the copy; or NULL */
	unsigned flight;
};

struct tarn_refit {
	tarn_store *store;
	char *set, *prefix;  /* the prefix without and with its '/' */
	tarn_tensor *fields; /* of the new version; NULL: as they are */
	struct tarn_snapshot *old;
	bool has_place;
	struct set_place place; /* of all new tensors, if it has one */
	uint64_t bucket_bytes;
	bool share_equal, add, whole;
	void *cuda_stream;

	struct refit_name **names; /* by name */
	size_t n, room;
	struct refit_name **by_range; /* those of the old version */
	size_t n_old;
	uint64_t untaken; /* bytes of buckets for groups that may still come */
	struct refit_bucket *buckets;
	unsigned n_buckets;
	struct refit_patch *patches;
	unsigned n_patches;
	uint64_t runs; /* of the patches of the old version and of these */
	struct refit_piece *waiting, *flying;
	uint64_t waiting_bytes; /* new, and held */
	tarn_stream *stream;
	unsigned flight;                /* the next one */
	unsigned pieces[REFIT_FLIGHTS]; /* under way, of each */

	int failed;        /* 0, or what a copy has failed with */
	char message[512]; /* with the name */
	bool committed;
	double began; /* s */
	struct tarn_refit_info info;
};

/* ---- refit_names.c ------------------------------------------------------- */

/* The names of the snapshot, in groups. */
int refit_names_init(struct tarn_refit *refit) _must_check_;
void refit_names_done(struct tarn_refit *refit);
/* Without the prefix; -ENOENT. */
int refit_find(struct tarn_refit *refit, const char *name,
	struct refit_name **ret) _must_check_;
/* Of that dtype and shape, which no old tensor has. */
int refit_name_add(struct tarn_refit *refit, const char *name,
	const struct tarn_layout *like, struct refit_name **ret) _must_check_;
/* Does a name stay old that shares some bytes with one that is new? -EINVAL. */
int refit_check_shared(const struct tarn_refit *refit) _must_check_;

/* ---- refit_digests.c ----------------------------------------------------- */

static inline bool refit_is_changed(const struct refit_name *name)
{
	return name->leader->taken && !name->leader->kept;
}

/* The old version's fields; *ret stays as it is where it has none. */
int refit_old_fields(const struct tarn_refit *refit,
	struct tarn_set_fields **ret) _must_check_;
/* When all is copied: a set that was published with digests has them in its next
 * version, too, in refit->fields. */
int refit_renew_digests(struct tarn_refit *refit) _must_check_;

/* ---- refit_run.c --------------------------------------------------------- */

/* 0, or the error with which a copy has ended. */
int refit_check(struct tarn_refit *refit) _must_check_;
/* Bytes of a bucket that the group of that leader takes. */
uint64_t refit_room(const struct refit_name *leader);
/* Gives the group of that leader a place. */
int refit_place(
	struct tarn_refit *refit, struct refit_name *leader) _must_check_;
/* The place that was given last is free again. */
void refit_unplace(struct tarn_refit *refit, struct refit_name *leader);
/* On a device the bucket gets its memory now, before memory that pieces hold
 * until it has some takes what there is. */
int refit_reserve(
	struct tarn_refit *refit, struct refit_name *leader) _must_check_;
/* After -ENOMEM: copies what waits, so that what it holds is free. 1: try again;
 * 0: nothing waited. */
int refit_make_room(struct tarn_refit *refit) _must_check_;
/* Memory that a tensor of its own takes; NULL: 0. */
uint64_t refit_held(const tarn_tensor *tensor);
/* Adds a piece, which takes references to src, and begins copies if there are
 * enough bytes; without memory for them they wait. own: src is held by nobody
 * else. positions and values: two NULL, or references, which are taken over,
 * also after an error. */
int refit_add_piece(struct tarn_refit *refit, struct refit_name *name,
	const tarn_tensor *src, bool own, int64_t start, int64_t rows,
	tarn_tensor *positions, tarn_tensor *values) _must_check_;
/* Begins all copies; last: no others follow. */
int refit_launch(struct tarn_refit *refit, bool last) _must_check_;
/* Waits until all copies that were begun are done. */
int refit_drain(struct tarn_refit *refit) _must_check_;
/* When all is copied: buckets have pages behind what is in them, too. */
int refit_complete(const struct tarn_refit *refit) _must_check_;
/* Where a piece goes. */
int refit_piece_dst(
	const struct refit_piece *p, tarn_tensor **ret) _must_check_;
void refit_pieces_done(struct tarn_refit *refit);
/* The new tensor of a name whose bucket has memory, or whose patch is made. */
int refit_fresh(const struct refit_name *name, tarn_tensor **ret) _must_check_;

/* 0: both are the same storage of the refit's store; else which is the lower. Threads
 * that open a storage at one moment may each have an object of it. */
int refit_storage_order(const tarn_storage *a, const tarn_storage *b);
/* Copies of them would no longer be tied, or would lose their strides. */
bool refit_needs_adoption(const struct refit_name *leader);
/* Neither has a patch together with others. */
void refit_note_overlap(struct refit_name *a, struct refit_name *b);

/* ---- refit_put.c --------------------------------------------------------- */

/* Finds a name, of which nothing must have been put: -EEXIST. */
int refit_find_free(struct tarn_refit *refit, const char *name,
	struct refit_name **ret) _must_check_;
/* Its group is new from here on, and has a place. holds: its piece will hold
 * memory; the bucket has its own then. */
int refit_take(struct tarn_refit *refit, struct refit_name *name,
	bool holds) _must_check_;

/* ---- refit_write.c ------------------------------------------------------- */

/* Copies a piece from memory to memory as it is, with its sparse update: 1; 0: the
 * stream has to. */
int refit_piece_write(const struct refit_piece *p) _must_check_;
/* dst, where it goes, has pages, to be stored in. */
int refit_piece_room(
	const struct refit_piece *p, const tarn_tensor *dst) _must_check_;

/* ---- refit_patch.c ------------------------------------------------------- */

/* Changes elements of a tensor in a patch of its storage: 1; 0: its bytes cannot
 * have one, or a copy of all of them costs less; -ERANGE; -ENOMEM. As
 * elements_of. */
int refit_patch_put(struct tarn_refit *refit, struct refit_name *name,
	const tarn_tensor *positions, const tarn_tensor *values) _must_check_;
/* Makes all of them. */
int refit_patches_make(struct tarn_refit *refit) _must_check_;
/* The daemon has no descriptors for them: they are to be published as copies. False:
 * there are none, or copies would lose what names have in common, or strides. */
bool refit_patches_copy(struct tarn_refit *refit);
void refit_patches_done(struct tarn_refit *refit);
/* The storage, when it is made. */
tarn_storage *refit_patch_storage(const struct refit_patch *patch);

/* ---- refit_tip.c --------------------------------------------------------- */

/* The newest of the old version's storages that is a patch over that one, or itself. */
tarn_storage *refit_tip(const struct tarn_refit *refit, tarn_storage *storage);
/* Runs of the old version's patches: a reader of all its names maps each. */
uint64_t refit_old_runs(const struct tarn_refit *refit);
/* Names that lie in different storages below the tip can have one place: one went
 * back to an older version. Each is a tensor of its own, and both in one patch
 * would get each other's bytes: they are noted as overlapping. */
int refit_note_same_place(
	const struct tarn_refit *refit, const tarn_storage *tip) _must_check_;

/* ---- refit_sparse.c ------------------------------------------------------ */

/* Writes values at positions of dst, which were checked, and waits. */
int refit_scatter(const tarn_tensor *dst, const tarn_tensor *positions,
	const tarn_tensor *values, void *cuda_stream) _must_check_;
