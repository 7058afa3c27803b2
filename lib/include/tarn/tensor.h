/* SPDX-License-Identifier: MIT */
/*
 * Tensors: a counted reference to a storage, and a layout.
 *
 * A storage is bytes somewhere: memory of our own, memory that the caller
 * lends, a pool that a daemon shares, or a byte range of a file. Views share
 * the storage and cost no bytes; the storage lives until the last tensor over
 * it is unreferenced.
 *
 * A tensor itself never changes: views make new ones. Reference counts are
 * atomic, so tensors may be used and dropped from any thread; element writes
 * are as safe as the same writes to plain memory would be.
 *
 * Storages that came from a store are read-only: writing is -EROFS.
 */
#pragma once

#include <tarn/layout.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_storage tarn_storage;
typedef struct tarn_tensor tarn_tensor;

enum tarn_storage_kind {
	TARN_STORAGE_OWNED = 1,	   /* memory that tarn allocated */
	TARN_STORAGE_BORROWED = 2, /* memory that the caller lends */
	TARN_STORAGE_SHARED = 3,   /* in a daemon's pool; read-only */
	TARN_STORAGE_FILE = 4,	   /* a byte range of a file; no address */
	TARN_STORAGE_MAPPED = 5,   /* a file, mapped: tarn_file_map */
	TARN_STORAGE_PRIVATE = 6,  /* copy-on-write: tarn_tensor_private */
};

/* ---- storages ------------------------------------------------------ */

/* size bytes of zeroed memory, aligned to 64; from 1 MiB on to pages, from
 * 4 MiB on to huge ones (2 MiB) where the system has them. -ENOMEM. */
TARN_PUBLIC int tarn_storage_alloc(uint64_t size, tarn_storage **ret);

/*
 * The caller's memory. It must stay valid until release(arg) is called, which
 * happens once, in the thread that drops the last reference (never, if
 * release is NULL and the caller otherwise knows). writable: may element
 * writes go through?
 */
TARN_PUBLIC int tarn_storage_borrow(void *data, uint64_t size, bool writable,
	void (*release)(void *arg), void *arg, tarn_storage **ret);

/* size bytes of a file from offset on; fd is duplicated and must be readable.
 * Read-only and without an address: elements are read when asked for. */
TARN_PUBLIC int tarn_storage_from_fd(int fd, uint64_t offset, uint64_t size,
	tarn_storage **ret);

/* The same to be written, by tarn_copy alone (element writes are -ENOTSUP): fd
 * must be open for writing (not with O_APPEND, which would put all of it at
 * the end: -EINVAL), and for reading too if it is to be read. The file grows
 * where the range is past its end. */
TARN_PUBLIC int tarn_storage_to_fd(int fd, uint64_t offset, uint64_t size,
	tarn_storage **ret);

TARN_PUBLIC tarn_storage *tarn_storage_ref(tarn_storage *storage);
/* Takes NULL; always returns NULL: s = tarn_storage_unref(s). */
TARN_PUBLIC tarn_storage *tarn_storage_unref(tarn_storage *storage);

TARN_PUBLIC enum tarn_storage_kind tarn_storage_kind(const tarn_storage *storage);
TARN_PUBLIC uint64_t tarn_storage_size(const tarn_storage *storage);
TARN_PUBLIC bool tarn_storage_writable(const tarn_storage *storage);
/* NULL for a file storage. */
TARN_PUBLIC void *tarn_storage_data(const tarn_storage *storage);

/* ---- making tensors ------------------------------------------------ */

/*
 * A tensor over storage (a reference of its own is taken). The layout counts
 * from byte base of the storage, at any alignment: files hold tensors that
 * begin anywhere. Every element that the layout reaches must lie inside:
 * -ERANGE says which byte does not.
 */
TARN_PUBLIC int tarn_tensor_new(tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout, tarn_tensor **ret);

/* New memory, C order. arange: start, start + step, ... */
TARN_PUBLIC int tarn_tensor_zeros(int dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret);
TARN_PUBLIC int tarn_tensor_ones(int dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret);
TARN_PUBLIC int tarn_tensor_full(int dtype, int ndim, const int64_t *shape,
	double value, tarn_tensor **ret);
TARN_PUBLIC int tarn_tensor_arange(int dtype, double start, double stop,
	double step, tarn_tensor **ret);

/* From nested values as text: "[[1, 2, 3], [4, 5, 6]]"; all rows of one
 * length, else -EINVAL names the first that is not. true, false, nan, inf. */
TARN_PUBLIC int tarn_tensor_parse(int dtype, const char *text,
	tarn_tensor **ret);

TARN_PUBLIC tarn_tensor *tarn_tensor_ref(tarn_tensor *tensor);
TARN_PUBLIC tarn_tensor *tarn_tensor_unref(tarn_tensor *tensor);

/* ---- asking -------------------------------------------------------- */

TARN_PUBLIC const struct tarn_layout *tarn_tensor_layout(
	const tarn_tensor *tensor);
/* The byte of the storage from which the layout counts. */
TARN_PUBLIC uint64_t tarn_tensor_base(const tarn_tensor *tensor);
/* Borrowed: valid as long as the tensor is. */
TARN_PUBLIC tarn_storage *tarn_tensor_storage(const tarn_tensor *tensor);

/* The address of the element at index (0, 0, ...). NULL for a tensor in a
 * file, and for a sub-byte one that does not begin at a byte. Valid as long
 * as a reference is held. */
TARN_PUBLIC void *tarn_tensor_data(const tarn_tensor *tensor);

TARN_PUBLIC bool tarn_tensor_same_storage(const tarn_tensor *a,
	const tarn_tensor *b);

/* 1 when dtype, shape and all values agree (numbers, not bytes: -0 equals 0,
 * NaN equals nothing), 0 when not, or an error. */
TARN_PUBLIC int tarn_tensor_equal(const tarn_tensor *a, const tarn_tensor *b);

/* ---- views --------------------------------------------------------- */

/* By expression (layout.h). -EINVAL where a copy would be needed, with the
 * advice to call .contiguous first. */
TARN_PUBLIC int tarn_tensor_view(tarn_tensor *tensor, const char *expr,
	tarn_tensor **ret);

/* By a layout that the caller made; checked like tarn_tensor_new. */
TARN_PUBLIC int tarn_tensor_with_layout(tarn_tensor *tensor,
	const struct tarn_layout *layout, tarn_tensor **ret);

/* As tarn_tensor_view, but copies into new memory where the expression needs
 * it. Returns 1 if it did. */
TARN_PUBLIC int tarn_tensor_apply(tarn_tensor *tensor, const char *expr,
	tarn_tensor **ret);

/* The whole storage as one dimension of the tensor's dtype; writes through it
 * are seen by all who share the storage. A rest of bytes that does not make an
 * element is left out: at the end, and at the beginning where the tensor's
 * base is not a multiple of the element's size. */
TARN_PUBLIC int tarn_tensor_flat_storage(tarn_tensor *tensor,
	tarn_tensor **ret);

/* ---- elements and copies ------------------------------------------- */

/*
 * One element as a double or an integer. index holds ndim numbers; negative
 * ones count from the end. Values that do not fit are -ERANGE (in floating
 * types with infinities they become infinite); integer types cut fractions
 * off, floating types round to nearest even; complex numbers take and give
 * their real part here, use the *_c64 forms for both (an imaginary part for a
 * real dtype is -EINVAL). 4- and 6-bit types are read and written in place.
 */
TARN_PUBLIC int tarn_tensor_get_f64(const tarn_tensor *tensor,
	const int64_t *index, double *ret);
TARN_PUBLIC int tarn_tensor_get_i64(const tarn_tensor *tensor,
	const int64_t *index, int64_t *ret);
TARN_PUBLIC int tarn_tensor_get_c64(const tarn_tensor *tensor,
	const int64_t *index, float ret[2]);
TARN_PUBLIC int tarn_tensor_set_f64(tarn_tensor *tensor, const int64_t *index,
	double value);
TARN_PUBLIC int tarn_tensor_set_i64(tarn_tensor *tensor, const int64_t *index,
	int64_t value);
TARN_PUBLIC int tarn_tensor_set_c64(tarn_tensor *tensor, const int64_t *index,
	const float value[2]);

/* All elements in C order (or Fortran order) into buf of at least nbytes. */
TARN_PUBLIC int tarn_tensor_ravel(const tarn_tensor *tensor,
	enum tarn_order order, void *buf, uint64_t size);

/* The reverse: fills the tensor from packed elements. -EROFS. */
TARN_PUBLIC int tarn_tensor_unravel(tarn_tensor *tensor, enum tarn_order order,
	const void *buf, uint64_t size);

/* The same values in new memory of its own, C order. */
TARN_PUBLIC int tarn_tensor_clone(const tarn_tensor *tensor, tarn_tensor **ret);

/*
 * The same elements, to be written by this process alone: a tensor of the same
 * layout over a writable copy-on-write mapping of the same bytes. No byte is
 * copied but those of pages that are written, and nobody else sees these. A
 * tensor that is writable is returned itself (one more reference): so are
 * mutable ones.
 *
 * All tensors of one storage share one private mapping for as long as one of
 * the tensors made so lives: they were views of the same bytes and still are,
 * and what is written through one is seen through the others. When the last
 * has gone so has what was written; one made after that has the original bytes.
 *
 * It holds the original, its lease too, until it is dropped. After a fork
 * parent and child each have their own, as with all private memory.
 *
 * Mapped are storages of a store, items of a channel, and files (also those
 * that were opened without mapping them). Whole storages are copied, at once, where there is
 * nothing to map: read-only memory that was lent, memory on hugetlb pages,
 * whose copies could run out, what is smaller than 64 KiB, and what a daemon
 * that has gone has left. Of a file that shrinks, pages that were never written
 * are gone, and touching them is SIGBUS; of bytes that others still write, be
 * it to a file or to a mutable tensor that is read-only here, those in pages
 * that were never written change.
 *
 * -ENOMEM; and of bytes that have to be read, why they cannot.
 */
TARN_PUBLIC int tarn_tensor_private(tarn_tensor *tensor, tarn_tensor **ret);

/* Itself (one more reference) if contiguous, else a clone. */
TARN_PUBLIC int tarn_tensor_contiguous(tarn_tensor *tensor, tarn_tensor **ret);

/* ---- printing ------------------------------------------------------ */

/*
 * As numpy prints arrays: aligned columns, "..." in the middle of more than
 * threshold elements (0 is numpy's 1000), the shortest digits that tell the
 * values of that dtype apart (of 8 bits and less: of F32), in arrays at most 8
 * behind the point. Of a tensor in a file only what is shown is read. *ret is
 * malloc'ed; free() it. -E2BIG: that is more than anybody reads.
 */
TARN_PUBLIC int tarn_tensor_format(const tarn_tensor *tensor, int64_t threshold,
	char **ret);

#ifdef __cplusplus
}
#endif
