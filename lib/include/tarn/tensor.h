/* SPDX-License-Identifier: MIT */
/*
 * Tensors: a counted reference to a storage, and a layout.
 *
 * A storage is bytes somewhere: memory that the library allocated, memory that
 * the caller lends, a pool that a daemon shares, or a byte range of a file.
 * Views share the storage and cost no bytes; the storage lives until the last
 * tensor over it is unreferenced.
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
	TARN_STORAGE_COW = 6,  /* copy-on-write: tarn_tensor_cow */
	TARN_STORAGE_DEVICE = 7, /* on a device: tarn/cuda.h; no address of
				  * the host */
};

/* ---- storages ------------------------------------------------------ */

/* Allocates size bytes of zeroed memory, aligned to 64; from 1 MiB on to pages,
 * from 4 MiB on to huge ones (2 MiB) where the system has them. -ENOMEM. */
TARN_PUBLIC int tarn_storage_alloc(uint64_t size, tarn_storage **ret)
	TARN_NONNULL(2) TARN_MUST_CHECK;

/* Elements may be written. */
#define TARN_BORROW_WRITABLE 1u

/*
 * Uses the caller's memory as a storage. flags is 0, which makes it read-only,
 * or TARN_BORROW_WRITABLE. The memory must stay valid until release(arg)
 * is called, which happens once, in the thread that drops the last reference
 * (never, if release is NULL: then the caller must keep the memory as long as
 * the storage lives). -EINVAL: unknown flags; bytes, but no address.
 */
TARN_PUBLIC int tarn_storage_borrow(void *data, uint64_t size, unsigned flags,
	void (*release)(void *arg), void *arg, tarn_storage **ret)
	TARN_NONNULL(6) TARN_MUST_CHECK;

/* Uses size bytes of a file from offset on as a storage; fd is duplicated and
 * must be readable. It is read-only and has no address: elements are read when
 * needed. */
TARN_PUBLIC int tarn_storage_from_fd(int fd, uint64_t offset, uint64_t size,
	tarn_storage **ret) TARN_NONNULL(4) TARN_MUST_CHECK;

/* Uses a range of a file as a storage to be written, by tarn_copy alone
 * (element writes are -ENOTSUP): fd must be open for writing (not with
 * O_APPEND, which would write everything to the end: -EINVAL), and for reading
 * too if the storage is read. The file grows where the range is past its
 * end. */
TARN_PUBLIC int tarn_storage_to_fd(int fd, uint64_t offset, uint64_t size,
	tarn_storage **ret) TARN_NONNULL(4) TARN_MUST_CHECK;

/* One more reference, for the caller. Takes NULL, returns its argument. */
TARN_PUBLIC tarn_storage *tarn_storage_ref(tarn_storage *storage);
/* Drops a reference. Takes NULL; always returns NULL: s =
 * tarn_storage_unref(s). */
TARN_PUBLIC tarn_storage *tarn_storage_unref(tarn_storage *storage);

/* Where the bytes are. A created storage becomes TARN_STORAGE_SHARED when it is
 * published. Any thread. */
TARN_PUBLIC enum tarn_storage_kind tarn_storage_kind(
	const tarn_storage *storage)
	TARN_NONNULL(1);

/* The size in bytes. */
TARN_PUBLIC uint64_t tarn_storage_size(const tarn_storage *storage)
	TARN_NONNULL(1);

/* May elements be written? */
TARN_PUBLIC bool tarn_storage_writable(const tarn_storage *storage)
	TARN_NONNULL(1);
/* The address of the first byte; NULL for a file storage, and for one on a
 * device. */
TARN_PUBLIC void *tarn_storage_data(const tarn_storage *storage)
	TARN_NONNULL(1);

/* ---- making tensors ------------------------------------------------ */

/*
 * Makes a tensor over storage, to which it takes a reference. The layout counts
 * from byte base of the storage, at any alignment: files hold tensors that
 * begin anywhere. Every element that the layout reaches must lie inside:
 * -ERANGE names the byte that does not.
 */
TARN_PUBLIC int tarn_tensor_new(tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout, tarn_tensor **ret)
	TARN_NONNULL(1, 3, 4) TARN_MUST_CHECK;

/* Makes a tensor in memory of its own, in C order. arange: start, start + step,
 * ... below stop. empty: its elements have any values, for what is written before
 * it is read; large ones take memory that a tensor of this process had before,
 * which costs no fresh pages. */
TARN_PUBLIC int tarn_tensor_empty(enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **ret)
	TARN_NONNULL(4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_zeros(enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **ret)
	TARN_NONNULL(4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_ones(enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **ret)
	TARN_NONNULL(4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_full(enum tarn_dtype dtype, int ndim,
	const int64_t *shape, double value, tarn_tensor **ret)
	TARN_NONNULL(5) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_arange(enum tarn_dtype dtype, double start,
	double stop, double step, tarn_tensor **ret)
	TARN_NONNULL(5) TARN_MUST_CHECK;

/* Makes a tensor from nested values as text: "[[1, 2, 3], [4, 5, 6]]"; all rows
 * of one length, else -EINVAL names the first that is not. true, false, nan,
 * inf. */
TARN_PUBLIC int tarn_tensor_parse(enum tarn_dtype dtype, const char *text,
	tarn_tensor **ret) TARN_NONNULL(2, 3) TARN_MUST_CHECK;

/* Takes one more reference, for the caller, or drops one. tarn_tensor_ref takes
 * NULL and returns its argument; tarn_tensor_unref takes NULL and returns
 * NULL. */
TARN_PUBLIC tarn_tensor *tarn_tensor_ref(tarn_tensor *tensor);
/* Takes NULL, returns NULL. */
TARN_PUBLIC tarn_tensor *tarn_tensor_unref(tarn_tensor *tensor);

/* ---- asking -------------------------------------------------------- */

/* Dtype, shape, strides and offset. Borrowed: valid as long as the tensor
 * is. */
TARN_PUBLIC const struct tarn_layout *tarn_tensor_layout(
	const tarn_tensor *tensor)
	TARN_NONNULL(1) TARN_PURE TARN_NOT_NULL;
/* The byte of the storage from which the layout counts. */
TARN_PUBLIC uint64_t tarn_tensor_base(const tarn_tensor *tensor)
	TARN_NONNULL(1) TARN_PURE;
/* The tensor's storage. Borrowed: valid as long as the tensor is. */
TARN_PUBLIC tarn_storage *tarn_tensor_storage(const tarn_tensor *tensor)
	TARN_NONNULL(1) TARN_PURE TARN_NOT_NULL;

/* The address of the element at index (0, 0, ...). NULL for a tensor in a
 * file, and for a sub-byte one that does not begin at a byte. Valid as long
 * as a reference is held. */
TARN_PUBLIC void *tarn_tensor_data(const tarn_tensor *tensor)
	TARN_NONNULL(1);

/* Do two tensors share one storage? */
TARN_PUBLIC bool tarn_tensor_same_storage(const tarn_tensor *a,
	const tarn_tensor *b)
	TARN_NONNULL(1, 2) TARN_PURE;

/* Compares two tensors: 1 when dtype, shape and all values agree (numbers, not
 * bytes: -0 equals 0, NaN equals nothing), 0 when not, or an error. */
TARN_PUBLIC int tarn_tensor_equal(const tarn_tensor *a, const tarn_tensor *b)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- views --------------------------------------------------------- */

/* The view that an expression describes (layout.h). -EINVAL where the
 * expression needs a copy: the sentence names the column. */
TARN_PUBLIC int tarn_tensor_eval(tarn_tensor *tensor, const char *expr,
	tarn_tensor **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Makes a tensor over the same storage with the caller's layout; checked like
 * tarn_tensor_new. */
TARN_PUBLIC int tarn_tensor_with_layout(tarn_tensor *tensor,
	const struct tarn_layout *layout, tarn_tensor **ret)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* As tarn_tensor_eval, but copies into new memory where the expression needs
 * a copy. Returns 1 if it copied. */
TARN_PUBLIC int tarn_tensor_eval_copy(tarn_tensor *tensor, const char *expr,
	tarn_tensor **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/*
 * Views by one operation: each is what tarn_layout_NAME does to the layout
 * (layout.h says what, and which errors there are), over the same storage.
 * tarn_tensor_reshape and tarn_tensor_flatten copy into new memory where no
 * view has that shape, and then return 1.
 */
TARN_PUBLIC int tarn_tensor_permute(tarn_tensor *tensor, int ndim,
	const int *dims, tarn_tensor **ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_transpose(tarn_tensor *tensor, int a, int b,
	tarn_tensor **ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_merge(tarn_tensor *tensor, int first, int last,
	tarn_tensor **ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_split(tarn_tensor *tensor, int dim, int n,
	const int64_t *sizes, tarn_tensor **ret)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_view(
	tarn_tensor *tensor, int ndim, const int64_t *shape, tarn_tensor **ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_reshape(
	tarn_tensor *tensor, int ndim, const int64_t *shape, tarn_tensor **ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_flatten(tarn_tensor *tensor, int first, int last,
	tarn_tensor **ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_slice(tarn_tensor *tensor, int dim, int64_t start,
	int64_t stop, int64_t step, tarn_tensor **ret)
	TARN_NONNULL(1, 6) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_skip(tarn_tensor *tensor, int dim, int64_t step,
	tarn_tensor **ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_select(tarn_tensor *tensor, int dim, int64_t index,
	tarn_tensor **ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_narrow(tarn_tensor *tensor, int dim, int64_t start,
	int64_t length, tarn_tensor **ret) TARN_NONNULL(1, 5) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_flip(tarn_tensor *tensor, int dim,
	tarn_tensor **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_unsqueeze(tarn_tensor *tensor, int dim,
	tarn_tensor **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_squeeze(tarn_tensor *tensor, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_squeeze_dim(tarn_tensor *tensor, int dim,
	tarn_tensor **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_expand(
	tarn_tensor *tensor, int ndim, const int64_t *shape, tarn_tensor **ret)
	TARN_NONNULL(1, 4) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_diagonal(tarn_tensor *tensor, int64_t k, int a,
	int b, tarn_tensor **ret) TARN_NONNULL(1, 5) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_unfold(tarn_tensor *tensor, int dim, int64_t size,
	int64_t step, tarn_tensor **ret) TARN_NONNULL(1, 5) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_bitcast(tarn_tensor *tensor, enum tarn_dtype dtype,
	tarn_tensor **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* The whole storage as one dimension of the tensor's dtype; writes through it
 * are seen by all tensors over the storage. Bytes that do not make a whole
 * element are left out: at the end, and at the beginning where the tensor's
 * base is not a multiple of the element's size. */
TARN_PUBLIC int tarn_tensor_flat_storage(tarn_tensor *tensor, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- elements and copies ------------------------------------------- */

/*
 * Reads or writes one element as a double, an integer or a complex number.
 * index holds ndim numbers; negative ones count from the end. Values that do
 * not fit are -ERANGE (in floating types with infinities they become infinite);
 * integer types truncate, floating types round to nearest even. For C64 the
 * real functions access the real part; the *_c64 forms access both (an
 * imaginary part for a real dtype is -EINVAL). 4- and 6-bit types are read and
 * written in place.
 */
TARN_PUBLIC int tarn_tensor_get_f64(const tarn_tensor *tensor,
	const int64_t *index, double *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_get_i64(const tarn_tensor *tensor,
	const int64_t *index, int64_t *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_get_c64(const tarn_tensor *tensor,
	const int64_t *index, float ret[2]) TARN_NONNULL(1, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_set_f64(tarn_tensor *tensor, const int64_t *index,
	double value) TARN_NONNULL(1) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_set_i64(tarn_tensor *tensor, const int64_t *index,
	int64_t value) TARN_NONNULL(1) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_tensor_set_c64(tarn_tensor *tensor, const int64_t *index,
	const float value[2]) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Copies all elements in C order (or Fortran order), packed, into buf, which
 * has size bytes. */
TARN_PUBLIC int tarn_tensor_ravel(const tarn_tensor *tensor,
	enum tarn_order order, void *buf, uint64_t size)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* Fills the tensor from packed elements, size bytes at buf: the reverse of
 * tarn_tensor_ravel. -EROFS. */
TARN_PUBLIC int tarn_tensor_unravel(tarn_tensor *tensor, enum tarn_order order,
	const void *buf, uint64_t size) TARN_NONNULL(1) TARN_MUST_CHECK;

/* Makes a copy in new memory, in C order. */
TARN_PUBLIC int tarn_tensor_clone(const tarn_tensor *tensor, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * Makes a copy-on-write tensor of the same layout over a private writable
 * mapping of the same bytes. Only pages that this process writes are copied,
 * and no other process sees its writes. If the tensor is writable already
 * (mutable ones are), the result is the tensor itself, with one more reference.
 *
 * All tensors of one storage share one private mapping for as long as one of
 * the resulting tensors lives: they were views of the same bytes and still are,
 * and a write through one is seen through the others. The writes are lost with
 * the last of them; one made after that has the original bytes.
 *
 * The result holds the original, with its lease, until it is dropped. After a
 * fork parent and child each have their own, as with all private memory.
 *
 * Storages of a store, items of a channel and files are mapped (also files
 * opened without mapping). A whole storage is copied at once where it cannot be
 * mapped: lent read-only memory, hugetlb memory (whose copies could run out),
 * storages below 64 KiB, and tensors that outlived their daemon. If a file
 * shrinks, pages that were never written are gone, and touching them is SIGBUS.
 * If others still write the bytes, in a file or in a mutable tensor that is
 * read-only here, those in pages that were never written change.
 *
 * -ENOMEM; and the errors of reading, for bytes that must be read.
 */
TARN_PUBLIC int tarn_tensor_cow(tarn_tensor *tensor, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * The same over a private mapping of its own: what is written is seen through
 * the result and its views, and through nothing else, so that two users of one
 * storage in a process cannot disturb each other. One of a writable tensor is
 * private too; its pages that were never written show what others write.
 * Memory that this process alone has is copied.
 */
TARN_PUBLIC int tarn_tensor_private(tarn_tensor *tensor, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * The address of a tensor's element (0, 0, ...), for code that may write there
 * although the tensor is read-only: PyTorch, which has no read-only tensors. At
 * tarn_tensor_data's address such a write is SIGSEGV.
 *
 * For a writable tensor it is tarn_tensor_data. For a read-only one it is in a
 * copy-on-write twin of the same bytes, which the storage keeps as long as it
 * lives. Nothing is copied until the first write. Writes are seen at that
 * address, by this process alone, as long as the storage lives; tarn itself and
 * tarn_tensor_data continue to use the original, and tarn_tensor_cow is
 * independent of the twin. Pages that were never written show what others write
 * to a mutable tensor or to a file. After the daemon has gone the twin is a
 * copy.
 *
 * Returns 1, and the address of the bytes themselves, where a twin is not
 * possible: on hugetlb pages (whose copies could run out), in a file that has
 * shrunk, for a mutable tensor after the daemon has gone, and for read-only
 * memory that was lent.
 *
 * -ENOTSUP: the tensor has no address. -ENOMEM. The first call for a storage
 * may ask the daemon for a descriptor; later ones are an atomic load.
 */
TARN_PUBLIC int tarn_tensor_guard(tarn_tensor *tensor, void **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* The tensor itself (one more reference) if it is contiguous, else a clone. */
TARN_PUBLIC int tarn_tensor_contiguous(tarn_tensor *tensor, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- pages --------------------------------------------------------- */

/* What a tensor's memory consists of, as this process has it mapped. */
struct tarn_tensor_pages {
	uint64_t page_size; /* of its largest pages */
	uint64_t bytes;	    /* that the tensor reaches, gaps included */
	uint64_t covered;   /* of them, in pages of that size */
	uint64_t reserved[5]; /* 0 */
};

/*
 * Asks the kernel in what pages a tensor lies: those of a reserve, transparent
 * huge ones or small ones, see tarnd.conf(5). Nothing is kept: it is looked up
 * in this process's page tables, which takes some microseconds for each 2 MiB
 * the first time, as reading there would. Before Linux 6.7 the figure of a
 * tensor that is partly in huge pages may be too large. Any thread.
 *
 * -ENOTSUP: the tensor is in a file.
 */
TARN_PUBLIC int tarn_tensor_pages(const tarn_tensor *tensor,
	struct tarn_tensor_pages *ret) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- printing ------------------------------------------------------ */

/*
 * Formats a tensor as numpy prints arrays: aligned columns, "..." in the middle
 * of more than threshold elements (0 is numpy's 1000), the shortest digits that
 * tell the values of that dtype apart (of 8 bits and less: of F32), in arrays
 * at most 8 after the point. Of a tensor in a file only the elements that are
 * shown are read. *ret is malloc'ed; free() it. -E2BIG: more than 2^26 elements
 * would be shown.
 */
TARN_PUBLIC int tarn_tensor_format(const tarn_tensor *tensor, int64_t threshold,
	char **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
