/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a tensor, in C order, to stdout.
 *
 * A contiguous part is written from where it is; any other is cut along its
 * outer dimensions until a piece fits into a buffer of fixed size, so that a
 * view of any size needs no memory of its own.
 */
#include "cli/raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/message.h"
#include "cli/store.h"

#define CHUNK ((int64_t)1 << 20) /* fits a cache, and is many pages */

static int write_all(const char *p, int64_t size)
{
	while (size > 0) {
		ssize_t n = write(STDOUT_FILENO, p, (size_t)MIN(size, CHUNK));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int error = errno;

			if (error != EPIPE)
				print_failure(
					"the output cannot be written: %s",
					strerror(error));
			return -error;
		}
		p += n;
		size -= n;
	}
	return 0;
}

static int fail(int r)
{
	print_error();
	return r;
}

static int write_part(
	tarn_tensor *tensor, const struct tarn_layout *layout, char *buf);

static int write_buffered(tarn_tensor *part, int64_t size, char *buf)
{
	int r = tarn_tensor_ravel(part, TARN_ORDER_C, buf, CHUNK);

	return r < 0 ? fail(r) : write_all(buf, size);
}

/* Pieces of the outermost dimension: as many indices at once as fit, or, if
 * not even one does, each by itself, a dimension less. */
static int write_pieces(
	tarn_tensor *tensor, const struct tarn_layout *layout, char *buf)
{
	int64_t n = layout->shape[0];
	int64_t each = tarn_layout_nbytes(layout) / n;
	int64_t step = MAX(1, MIN(n - 1, CHUNK / MAX(each, 1)));
	int pack = tarn_dtype_pack(layout->dtype);
	struct tarn_layout piece;
	int r = 0;

	if (layout->ndim == 1 && step > pack)
		step -= step % pack; /* whole bytes */
	for (int64_t at = 0; at < n && r >= 0; at += step) {
		if (n == 1 || (each > CHUNK && layout->ndim > 1))
			r = tarn_layout_select(layout, 0, at, &piece);
		else
			r = tarn_layout_narrow(
				layout, 0, at, MIN(step, n - at), &piece);
		r = r < 0 ? fail(r) : write_part(tensor, &piece, buf);
	}
	return r;
}

static int write_part(
	tarn_tensor *tensor, const struct tarn_layout *layout, char *buf)
{
	_cleanup_tensor_ tarn_tensor *part = NULL;
	int64_t size = tarn_layout_nbytes(layout);
	const void *data;
	int r;

	if (size == 0)
		return 0;
	r = tarn_tensor_with_layout(tensor, layout, &part);
	if (r < 0)
		return fail(r);
	data = tarn_tensor_data(part);
	if (data && tarn_layout_is_contiguous(layout))
		return write_all(data, size);
	if (size <= CHUNK)
		return write_buffered(part, size, buf);
	return write_pieces(tensor, layout, buf);
}

int raw_write(tarn_tensor *tensor)
{
	_cleanup_free_ char *buf = must(malloc(CHUNK));

	return write_part(tensor, tarn_tensor_layout(tensor), buf);
}
