/* SPDX-License-Identifier: MIT */
/*
 * A set: the tensors whose published names begin with PREFIX/, as the weights of
 * a model do, with a few lines of text that say what they are.
 *
 *	const struct tarn_set_field fields[] = {
 *		{.key = "model", .value = "llama-8b"},
 *		{.key = "dtype", .value = "BF16"},
 *	};
 *
 *	r = tarn_set_check(store, "policy", fields, 2);
 *	if (r < 0)
 *		printf("%s\n", tarn_error_message());
 *
 * The text, and notes that belong to single tensors, are bytes of one more
 * tensor, PREFIX/.fields, which is published in the same moment as the others.
 * So a reader that opens a set with a snapshot (snapshot.h) has tensors and text
 * of one version. Tensors may lie in memory or on devices.
 *
 * Names of tensors are given without the prefix here: "layers.0.weight" of the
 * set "policy" is published as "policy/layers.0.weight".
 */
#pragma once

#include <tarn/cuda.h>
#include <tarn/publish.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a set is ------------------------------------------------------- */

/* The name, below the prefix, of the tensor with fields and notes. */
#define TARN_SET_FIELDS ".fields"

/* Picked: what tells one set of weights from another is a dozen lines. */
#define TARN_SET_FIELDS_MAX 256
/* Bytes of a key or a value: those of a name, so that one sentence can show
 * both. */
#define TARN_SET_TEXT_MAX TARN_NAME_MAX
/* Bytes of a note. Picked: ample for scales, a layout, a small JSON. What is
 * larger is a tensor. */
#define TARN_SET_NOTE_MAX 65536
/* Bytes of all fields, notes and digests. Every reader copies and checks them. */
#define TARN_SET_BYTES_MAX (64u << 20)

/* key is UTF-8 of 1 to TARN_SET_TEXT_MAX bytes, value of 0 to as many, both
 * without control characters. */
struct tarn_set_field {
	const char *key;
	const char *value;
	uint64_t reserved[2]; /* 0 */
};

/* Bytes that belong to a tensor of the set, and mean what its publisher says. */
struct tarn_set_note {
	const char *name; /* the tensor's, without the prefix */
	const void *bytes;
	size_t size; /* to TARN_SET_NOTE_MAX */
	uint64_t reserved[2]; /* 0 */
};

struct tarn_set_options {
	const struct tarn_set_field *fields; /* in any order */
	size_t n_fields;
	const struct tarn_set_note *notes; /* in any order, one for a name */
	size_t n_notes;
	bool exclusive; /* -EEXIST if one of the names is there already */
	/* The digest of each tensor is published with it, so that readers tell
	 * which tensors of two versions differ, and whether bytes have changed,
	 * by tarn_set_digest and tarn_set_verify. Each tensor is read once for
	 * it. A refit of such a set does the same for what it changes, and for
	 * what others have published in the set since. */
	bool digests;
	int64_t ttl_ms; /* time to live of the names; 0: for good */
	uint64_t reserved[8]; /* 0 */
};

/*
 * Publishes n tensors, whose names are without the prefix, as the whole of the
 * set: names of the set that are not among them are removed in the same moment.
 * Fields and notes are those of options, which may be NULL: then the set has
 * none, but PREFIX/.fields is there. ret_versions may be NULL or has room for n.
 *
 * -EINVAL: a key is given twice, a note's name is no tensor of the call, a text
 * is no UTF-8, or n is 0; -E2BIG: one of the limits above; otherwise errors,
 * ownership and threads are those of tarn_store_publish.
 */
TARN_PUBLIC int tarn_set_publish(tarn_store *store, const char *prefix,
	const struct tarn_publish_item *items, size_t n,
	const struct tarn_set_options *options, uint64_t *ret_versions)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Fields and notes of a set, as one version has them. Read-only: any thread. */
typedef struct tarn_set_fields tarn_set_fields;

/*
 * Copies the fields and notes of a set's current version. -ENOENT: nothing is
 * published as PREFIX/.fields; -EBADMSG: what is published there has another
 * form, and the sentence says what is wrong. The caller gives *ret to
 * tarn_set_fields_free. Any thread.
 */
TARN_PUBLIC int tarn_set_fields_open(tarn_store *store, const char *prefix,
	tarn_set_fields **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* The same of a tensor, as a snapshot has it: PREFIX/.fields of a version. */
TARN_PUBLIC int tarn_set_fields_of(const tarn_tensor *tensor,
	tarn_set_fields **ret) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Takes NULL and returns NULL. */
TARN_PUBLIC tarn_set_fields *tarn_set_fields_free(tarn_set_fields *fields);

/* How many fields there are. */
TARN_PUBLIC size_t tarn_set_fields_count(const tarn_set_fields *fields)
	TARN_NONNULL(1) TARN_PURE;
/* The field at i, in the order of the keys' bytes. -ERANGE: there are not so
 * many. Its texts are borrowed: valid as long as fields is. */
TARN_PUBLIC int tarn_set_fields_at(const tarn_set_fields *fields, size_t i,
	struct tarn_set_field *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;
/* The value of a key, or NULL. Borrowed: valid as long as fields is. */
TARN_PUBLIC const char *tarn_set_fields_get(const tarn_set_fields *fields,
	const char *key) TARN_NONNULL(1, 2) TARN_PURE;

/* The note of a tensor, whose name is without the prefix. Its bytes are
 * borrowed: valid as long as fields is. -ENOENT: it has none. */
TARN_PUBLIC int tarn_set_note(const tarn_set_fields *fields, const char *name,
	struct tarn_set_note *ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/*
 * Has the set exactly these n fields? 0; or -EMEDIUMTYPE, and the sentence lists
 * every difference: "the set 'policy' is not the one that is wanted: 'dtype' is
 * BF16, not F8_E4M3; 'quant' is missing; 'extra' = 'x' is not wanted". Where it
 * would be longer than a sentence may be (a thousand bytes) it ends with the
 * number of the differences that are left out. -ENOENT and -EBADMSG as
 * tarn_set_fields_open; -EINVAL: a key is given twice. Any thread.
 */
TARN_PUBLIC int tarn_set_check(tarn_store *store, const char *prefix,
	const struct tarn_set_field *fields, size_t n)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- the digest of a tensor ---------------------------------------------- */

/*
 * 128 bits that tell one tensor's bytes from another's, the same wherever the
 * bytes are and however they are laid out. The definition, with all sums and
 * products modulo 2^64:
 *
 *	bytes: those of the elements in C order, packed, N in number; followed by
 *	up to 7 zeros they make the words w[0], w[1], ..., little-endian
 *	x[i] = w[i] + (i + 1) * 0x9e3779b97f4a7c15
 *	x[i] = x[i] ^ x[i] >> 32
 *	x[i] = x[i] * 0xff51afd7ed558ccd
 *	x[i] = x[i] ^ x[i] >> 29
 *	y[i] = w[i] + (i + 1) * 0xc2b2ae3d27d4eb4f
 *	word[0] = N * 0x9e3779b97f4a7c15 + sum of all x[i]
 *	word[1] = N * 0xc2b2ae3d27d4eb4f
 *		+ sum of all (y[i] % 2^32) * (y[i] / 2^32)
 *
 * Dtype and shape are no part of it. A change within one word always changes
 * word[0]. It is made to be summed up in parallel, and finds changes that happen
 * by accident or by training; it is no cryptographic hash: two tensors of one
 * digest are easily constructed.
 */
struct tarn_digest {
	uint64_t word[2];
};

/*
 * The digest of a tensor in memory, in a file, whose bytes are read piece by
 * piece, or on a device, which computes it (a tensor there that is not
 * contiguous is packed first, in memory of its size). Of options, which may be
 * NULL, only io_mode, engine and cuda_stream matter. Errors are those of
 * tarn_copy. Any thread; no other thread may write the tensor meanwhile.
 */
TARN_PUBLIC int tarn_tensor_digest(const tarn_tensor *tensor,
	const struct tarn_copy_options *options, struct tarn_digest *ret)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* The digest with which a tensor of the set was published; name is without the
 * prefix. -ENOENT: without one. It is not that of a tensor which was published
 * under the name later than the fields: in a snapshot the commit of such an item
 * is above that of PREFIX/.fields. */
TARN_PUBLIC int tarn_set_digest(const tarn_set_fields *fields, const char *name,
	struct tarn_digest *ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/*
 * Have the tensors of a set the bytes with which they were published? 0; or
 * -EBADMSG, and the sentence names one that has not, with both digests, or one
 * that was removed, or says that the fields cannot be read; -ENODATA: one was
 * published without a digest; -ENOENT: there is no such set, or it has no fields.
 * Reads all bytes, of one version. options and threads: those of
 * tarn_tensor_digest.
 */
TARN_PUBLIC int tarn_set_verify(tarn_store *store, const char *prefix,
	const struct tarn_copy_options *options)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- refit: the next version of a set ------------------------------------ */

/*
 * A refit makes the next version of a set, name by name, beside the old one, and
 * publishes all that has changed in one moment:
 *
 *	tarn_refit *refit = NULL;
 *
 *	r = tarn_refit_begin(store, "policy", NULL, &refit);
 *	if (r >= 0)
 *		r = tarn_refit_put(refit, "layers.0.weight", t);
 *	if (r >= 0)
 *		r = tarn_refit_commit(refit);
 *	refit = tarn_refit_free(refit);
 *
 * Names that are not put go on leading to the old memory, which both versions
 * share. Readers of the old version are not disturbed; its memory goes when the
 * last of them drops it. Until the commit nothing is the daemon's: a refit that
 * is freed, or whose process dies, leaves nothing behind.
 *
 * New memory is where the old tensor's is, on the same device or in memory of
 * the host, and is allocated a bucket at a time: one storage, in which many
 * tensors lie. A new tensor has the old one's dtype, to which it is converted on
 * the way (tarn_copy), and its strides, or C order if those left gaps. Names
 * that led to one range of bytes, as tied weights do, do so in the new version:
 * one of them is put. Where names share only some bytes, all or none must be put.
 *
 * New tensors are published for good, and are not mutable.
 *
 * A refit belongs to the thread that has begun it, as a stream does. Of one set
 * there should be one at a time: what others publish in the set or remove from
 * it meanwhile lets the commit fail (-ESTALE). It looks for that directly before
 * it publishes, and what happens between the two, which take some microseconds,
 * it does not see: a publication cannot be tied to a commit's number yet.
 */
typedef struct tarn_refit tarn_refit;

struct tarn_refit_options {
	/* Where all new tensors shall be; NULL: where the old ones are, and
	 * those that are added where the set's first one is. */
	const struct tarn_cuda_device *device;
	/* Bytes of a bucket, of which two are on their way at most, beside the
	 * one that is filled; 0: 256 MiB. A tensor with more has a storage of its
	 * own. Buckets are a 24th of the set if that is more, and larger after
	 * the 32nd, since a publication has 64 storages at most: with names that
	 * are added some 60 GiB of small tensors fit. */
	uint64_t bucket_bytes;
	/* A tensor that is put and has the digest of the old one is not copied:
	 * its name stays with the old memory. Not for parts. */
	bool share_equal;
	bool add; /* names that the set has not may be put */
	/* Tensors of sparse updates are copied whole, not only the pages that
	 * change: for readers that want them in few mappings. */
	bool whole;
	/* These replace fields of the same keys or are new ones; a value of NULL
	 * takes a key away. Others, and notes, stay. */
	const struct tarn_set_field *fields;
	size_t n_fields;
	void *cuda_stream; /* as in tarn_copy_options, of all copies */
	uint64_t reserved[8]; /* 0 */
};

struct tarn_refit_info {
	uint64_t bytes_moved;   /* so far, of new tensors */
	uint64_t bytes_shared;  /* put, and found equal */
	uint64_t names_shared;  /* their names */
	uint64_t names_changed; /* published by the commit */
	double seconds;         /* from begin to commit, or until now */
	uint64_t reserved[8];   /* 0 */
};

/* Begins the next version of a set, from a snapshot of the present one. options
 * may be NULL. -ENOENT: nothing is published below the prefix, and add is false;
 * -EBADMSG: fields are given, and the old ones cannot be read; otherwise as
 * tarn_store_snapshot and tarn_stream_new. The caller gives *ret to
 * tarn_refit_free. */
TARN_PUBLIC int tarn_refit_begin(tarn_store *store, const char *prefix,
	const struct tarn_refit_options *options, tarn_refit **ret)
	TARN_NONNULL(1, 2, 4) TARN_MUST_CHECK;

/*
 * Puts a whole tensor, from memory, a file, or any device. Its shape is that of
 * the old one. The refit keeps a reference to it until it is copied, in this or a
 * later call; the caller may write to its bytes again when tarn_refit_flush or
 * tarn_refit_commit has returned.
 *
 * -ENOENT: the set has no such name; -EINVAL: another shape, and the sentence
 * has both; -EEXIST: the name was put already, or one that shares its bytes;
 * -ENOMEM: there is no memory to work in. A call that fails has put nothing: the
 * same can be put again. If there is no memory for a bucket what was put waits
 * for it, and the call succeeds; tarn_refit_flush and tarn_refit_commit then try
 * again, with -ENOMEM or -ENOSPC if there is still none. Errors of copies
 * that were begun by earlier calls are reported by any later one; after one of
 * these nothing but tarn_refit_free succeeds.
 */
TARN_PUBLIC int tarn_refit_put(tarn_refit *refit, const char *name,
	const tarn_tensor *tensor) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Puts some rows of a tensor, which has one dimension at least: part becomes the
 * new [start : start + part's first extent]. Rows may come in any order, each
 * once: -EEXIST names the first that was put already. -ERANGE: there are not so
 * many. Otherwise as tarn_refit_put. */
TARN_PUBLIC int tarn_refit_put_part(tarn_refit *refit, const char *name,
	int64_t start, const tarn_tensor *part)
	TARN_NONNULL(1, 2, 4) TARN_MUST_CHECK;

/*
 * Puts a tensor that differs from the old one in a few elements: values[i] is
 * written at positions[i], a number in C order of the tensor's shape. In memory of
 * the host only the pages of 4 KiB that change are new, if they are at most a
 * quarter of the tensor and lie in few runs: the new version is a patch of the old one's
 * storage, which stays as long as the patch does. After 16 versions, or as soon as
 * patches have half of the storage's pages, or so many runs that readers would have
 * too many mappings, a tensor is copied whole once.
 * Otherwise the old one is copied, within its device. Both have one dimension and may be anywhere;
 * positions are I64 or I32, and values are converted. Both are copied by this
 * call: the caller may write to them at once. A position should be given once:
 * of several values for one it is not defined which is written.
 *
 * -ERANGE: a position is not one of the tensor's, and the sentence has it;
 * nothing was written then, and the name can be put again. -ENOTSUP: elements
 * share bytes (F4, F6), or the device has no kernels. Otherwise as
 * tarn_refit_put.
 */
TARN_PUBLIC int tarn_refit_sparse(tarn_refit *refit, const char *name,
	const tarn_tensor *positions, const tarn_tensor *values)
	TARN_NONNULL(1, 2, 3, 4) TARN_MUST_CHECK;

/* Waits until all that was put is copied. Memory for the bucket that is being
 * filled is allocated whole if names may still come. */
TARN_PUBLIC int tarn_refit_flush(tarn_refit *refit)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/*
 * Waits until all is copied, and publishes the changed names, and the fields if
 * some were given, in one publication. -EINVAL: rows of a tensor are missing, or
 * a tensor was not put that shares bytes with one that was: the sentence names
 * it, and it can be put yet; -ESTALE: since the begin others have published a
 * name of the set, or removed or added one, which the sentence names: nothing is
 * published, and another refit is needed. After an error of tarn_store_publish, as -ENOSPC of
 * the daemon's budget, the call may be repeated. After success the refit holds no
 * memory, and only tarn_refit_progress and tarn_refit_free are left.
 */
TARN_PUBLIC int tarn_refit_commit(tarn_refit *refit)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* What was done so far. */
TARN_PUBLIC void tarn_refit_progress(const tarn_refit *refit,
	struct tarn_refit_info *ret) TARN_NONNULL(1, 2);

/* Frees a refit; what was not committed is dropped, after copies that are under
 * way. Takes NULL and returns NULL. */
TARN_PUBLIC tarn_refit *tarn_refit_free(tarn_refit *refit);

#ifdef __cplusplus
}
#endif
