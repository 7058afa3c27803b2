/* SPDX-License-Identifier: MIT */
/*
 * Gather: rows of a table, picked by a list of their numbers, become the rows
 * of dst. This is how embeddings are looked up, and samples of a dataset that
 * fits into memory.
 *
 * A row is what is left of the table when its first dimension is selected: an
 * element of a vector, a line of a matrix, an image of a batch.
 *
 *	tarn_tensor *numbers = NULL;
 *
 *	r = tarn_tensor_parse(TARN_I64, "[7, 0, -1, 7]", &numbers);
 *	if (r >= 0)
 *		r = tarn_gather(dst, t, numbers, NULL);
 *
 * The rows of a large table are in no cache, and each of them is on a page that
 * the CPU has to look up, so the rows that come next are prefetched while one
 * is copied. Whole rows whose elements are adjacent are fastest.
 */
#pragma once

#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tarn_gather_options {
	/* How many threads may work; 0 and 1 mean the caller's alone. They
	 * live no longer than the call, and one is started only for some
	 * hundred KiB of rows, or for some tens of rows of a file. */
	int threads;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Copies row index[i] of table to row i of dst, for each i, as
 * torch.index_select(table, 0, index) and numpy.take(table, index, 0) do.
 *
 * Shapes: index is [n], of any integer dtype; table is [rows, ...], with at
 * least one dimension; dst is [n, ...], with the dtype and the row of table.
 * Strides may be any. Negative numbers count from the end, as in numpy and
 * unlike in PyTorch, which refuses them; of -rows .. rows - 1 all are valid.
 *
 * All numbers are checked first: -ERANGE names the first that is not valid and
 * its position, and dst is unchanged. No row outside of table is ever read,
 * even if another thread or process changes the index meanwhile; then a number
 * that is not valid any more is -ERANGE too, and dst holds some of the rows.
 *
 * A table in a file (also a mapped one, which may shrink) need not be loaded:
 * each row is read by itself, so this suits few rows; for many, load the table
 * to memory (tarn_store_get, tarn_copy). An error of reading leaves some of the
 * rows in dst: -EIO, -ENODATA, -ESTALE as in tarn_copy.
 *
 * -EINVAL: shapes or dtypes do not match (tarn_copy converts), dst overlaps
 * itself or shares bytes with table or index, or an option is invalid. -EROFS:
 * dst may not be written. -ENOTSUP: a row is not a whole number of bytes, or
 * dst is in a file. -ENOMEM. options may be NULL. The caller keeps all
 * references. Any thread; no other thread may write table or use dst meanwhile.
 */
TARN_PUBLIC int tarn_gather(tarn_tensor *dst, const tarn_tensor *table,
	const tarn_tensor *index, const struct tarn_gather_options *options)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
