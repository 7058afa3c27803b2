/* SPDX-License-Identifier: MIT */
/*
 * Memory to file: whatever the view on either side, however it travels, the
 * file's bytes become what memory's would, and no byte beside them changes.
 */
#include <errno.h>
#include <sys/mman.h>

#include "lib/io/io_mode.h"
#include "tests/kit/must.h"
#include "tests/kit/written.h"

static const char *const io_modes[] = {"auto", "buffered", "direct"};

static bool has_direct(const struct written *w)
{
	int fd = open(w->path, O_WRONLY | O_DIRECT | O_CLOEXEC);

	fd_close(fd);
	return fd >= 0 && io_fs_of(w->fd) != IO_FS_MEMORY;
}

static bool alike(int r, const struct written *w, const char *what)
{
	int64_t at = r < 0 ? -1 : first_unlike(w);

	if (r < 0)
		diag("%s: %s", what, tarn_error_message());
	if (at >= 0)
		diag("%s: byte %lld is wrong", what, (long long)at);
	return r == 0 && at == -1;
}

/* Contiguous, but neither the file's bytes nor memory's need be aligned. Half
 * of it is inside the file, half makes the file longer. */
static void contiguous(const char *engine, enum tarn_io_mode io_mode,
	uint64_t base, size_t shift)
{
	const int64_t n = 350001;
	struct tarn_copy_options o = {.engine = engine, .io_mode = io_mode};
	struct tarn_copy_info info = {0};
	struct tarn_layout l;
	struct written w;
	tarn_tensor *src;
	int r;

	must(tarn_layout_contiguous(TARN_F32, 1, &n, &l));
	src = noise_tensor(&l, (size_t)n * 4, shift, base + shift);
	make_written(&w, 700077, base + (size_t)n * 4);
	if (io_mode == TARN_IO_DIRECT && !has_direct(&w)) {
		skip(4, "no direct I/O in %s", test_tmpdir());
	} else {
		r = write_both(&w, base, &l, src, &o, &info);
		ok(alike(r, &w, engine),
			"%s, %s: a row is written at byte %llu, from %zu past "
			"a page",
			engine, io_modes[io_mode], (unsigned long long)base,
			shift);
		is_int(n * 4, (int64_t)info.written,
			"each byte of the row is written once");
		is_str(engine, info.engine,
			"the row is written by the engine that was asked for");
		if (io_mode == TARN_IO_BUFFERED)
			is_int(0, (int64_t)info.direct,
				"a buffered copy writes no byte directly");
		if (io_mode == TARN_IO_DIRECT)
			ok(info.direct >= (uint64_t)n * 4 - 8192 &&
					info.direct % 4096 == 0,
				"a direct copy writes all whole pages "
				"directly");
	}
	drop_written(&w);
	drop_noise(src, shift);
}

static void all_contiguous(const char *engine)
{
	static const uint64_t bases[] = {0, 4096, 8, 511, 3, 4095 + 4096};
	static const size_t shifts[] = {0, 64, 1};

	for (unsigned i = 0; i < 18; i++) /* all pairs of both */
		contiguous(engine, TARN_IO_DIRECT, bases[i % 6], shifts[i / 6]);
	contiguous(engine, TARN_IO_BUFFERED, 0, 0);
	contiguous(engine, TARN_IO_BUFFERED, 3, 1);
	contiguous(engine, TARN_IO_AUTO, 8, 64);
}

/* One view of a whole tensor in memory to one view of the file. */
static void views(const char *engine, int dst_dtype, int src_dtype,
	const char *shape, const char *dst_expr, const char *src_expr,
	const struct tarn_copy_options *more)
{
	struct tarn_layout whole[2], to, from;
	struct tarn_copy_options o =
		more ? *more : (struct tarn_copy_options) {0};
	struct tarn_copy_info info = {0};
	int64_t dims[2][3];
	struct written w;
	tarn_tensor *src;
	uint64_t size;
	int r;

	if (sscanf(shape, "%ldx%ldx%ld %ldx%ldx%ld", &dims[0][0], &dims[0][1],
		    &dims[0][2], &dims[1][0], &dims[1][1], &dims[1][2]) != 6)
		bail("%s", shape);
	if (tarn_layout_contiguous(dst_dtype, 3, dims[0], &whole[0]) < 0 ||
		tarn_layout_contiguous(src_dtype, 3, dims[1], &whole[1]) < 0 ||
		tarn_layout_eval(&whole[0], dst_expr, &to) < 0 ||
		tarn_layout_eval(&whole[1], src_expr, &from) < 0)
		bail("%s", tarn_error_message());
	size = (uint64_t)tarn_layout_nbytes(&whole[0]);
	o.engine = engine;
	make_written(&w, 40 + size, 40 + size);
	src = noise_tensor(&from, (size_t)tarn_layout_nbytes(&whole[1]), 0, 5);
	if (o.io_mode == TARN_IO_DIRECT && !has_direct(&w)) {
		skip(2, "no direct I/O in %s", test_tmpdir());
	} else {
		r = write_both(&w, 40, &to, src, &o, &info);
		ok(alike(r, &w, dst_expr),
			"a view is written, %s, %s: %s %s = %s", engine,
			io_modes[o.io_mode], shape, dst_expr, src_expr);
		is_int(tarn_layout_nbytes(&to), (int64_t)info.written,
			"each byte of the view is written once, and no other");
	}
	drop_written(&w);
	drop_noise(src, 0);
}

static void all_views(const char *engine)
{
	static const double scale[4] = {2, 0.5, -1, 3}, bias[4] = {1, 0, 2, 3};
	struct tarn_copy_options direct = {.io_mode = TARN_IO_DIRECT};
	struct tarn_copy_options scaled = {
		.scale = scale,
		.bias = bias,
		.channels = 4,
	};

	/* A column; a column from a column; long rows with gaps. */
	views(engine, TARN_F32, TARN_F32, "1x300x1000 1x300x125",
		"[:, :, 250:375]", "[:]", NULL);
	views(engine, TARN_F32, TARN_F32, "1x300x1000 1x300x1000",
		"[:, :, 250:375]", "[:, :, 1:126]", NULL);
	views(engine, TARN_U16, TARN_U16, "1x5x400000 1x5x300000",
		"[:, :, 7:300007]", "[:]", NULL);
	views(engine, TARN_U16, TARN_U16, "1x5x400000 1x5x300000",
		"[:, :, 7:300007]", "[:]", &direct);
	/* Single elements. */
	views(engine, TARN_I64, TARN_I64, "3x40x50 3x40x25", "[:, :, ::2]",
		"[:]", NULL);
	/* Transposed and turned round, on either side. */
	views(engine, TARN_F32, TARN_F32, "1x700x900 1x900x700", "[:]",
		".transpose(1, 2)", NULL);
	views(engine, TARN_F32, TARN_F32, "1x700x900 1x900x700",
		".transpose(1, 2)", "[:]", NULL);
	views(engine, TARN_F32, TARN_F32, "1x700x900 1x900x700",
		".transpose(1, 2).flip(1)", ".flip(2)", &direct);
	views(engine, TARN_U8, TARN_U8, "3x50x5000 3x50x5000", "[::-1]",
		"[:, ::-1]", &direct);
	/* A source smaller than what it is written to. */
	views(engine, TARN_F64, TARN_F64, "4x300x300 1x1x300", "[:]", "[:]",
		NULL);
	/* Other dtypes, with and without a scale for each channel. */
	views(engine, TARN_F32, TARN_U8, "4x200x300 200x300x4", "[:]",
		".permute(2, 0, 1)", &scaled);
	views(engine, TARN_F16, TARN_F32, "4x200x301 4x200x301", "[:]", "[:]",
		NULL);
	views(engine, TARN_F32, TARN_I16, "4x700x301 4x700x301", "[:]", "[:]",
		&direct);
	/* Elements smaller than bytes. */
	views(engine, TARN_F4, TARN_F4, "4x20x300 4x20x300", "[:, :, 4:200]",
		"[:, :, 2:198]", NULL);
	views(engine, TARN_F6_E2M3, TARN_F6_E2M3, "4x20x300 4x20x300", "[:]",
		"[::-1]", NULL);
	/* No dimensions, and no elements. */
	views(engine, TARN_F32, TARN_F32, "2x3x4 2x3x4", "[1, 2, 3]",
		"[0, 1, 2]", NULL);
	views(engine, TARN_F32, TARN_F32, "2x3x4 2x3x4", "[:, 1:1]", "[:, 2:2]",
		NULL);
}

static uint64_t state;

static int64_t below(int64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)(state >> 33) % n;
}

/* Strides in any order, with steps, gaps, and either direction; returns how
 * many bytes it spans. */
static size_t random_layout(
	struct tarn_layout *l, int dtype, int ndim, const int64_t *shape)
{
	int order[4] = {0, 1, 2, 3};
	int64_t acc = 1, size = tarn_dtype_bits(dtype) / 8;

	*l = (struct tarn_layout) {.dtype = (uint8_t)dtype};
	l->ndim = (uint8_t)ndim;
	for (int i = ndim - 1; i > 0 && below(3) == 0; i--) {
		int j = (int)below(i + 1), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	for (int i = ndim - 1; i >= 0; i--) {
		int d = order[i];
		int64_t step = below(8) ? 1 : 1 + below(3);

		l->shape[d] = shape[d];
		l->stride[d] = acc * step;
		acc *= shape[d] * step + (below(3) ? 0 : below(5));
		if (below(4) == 0) {
			l->offset += l->stride[d] * (shape[d] - 1);
			l->stride[d] = -l->stride[d];
		}
	}
	return (size_t)(acc * size);
}

static void random_pairs(const char *engine)
{
	static const int dtypes[] = {TARN_U8, TARN_I16, TARN_F32, TARN_F64};
	int bad = 0, cases = (int)test_cases(200);

	for (int i = 0; i < cases; i++) {
		int ndim = 1 + (int)below(4);
		int to = dtypes[below(4)];
		int from = below(2) ? to : dtypes[below(4)];
		struct tarn_copy_options o = {.engine = engine};
		struct tarn_layout dst, l;
		struct written w;
		int64_t shape[4];
		uint64_t base = (uint64_t)below(9000);
		size_t shift = (size_t)below(3) * 40, room, size;
		tarn_tensor *src;

		for (int d = 0; d < ndim; d++)
			shape[d] = 1 + below(d ? 6 : 16);
		if (below(3) == 0)
			shape[ndim - 1] *= 1 + below(999);
		room = base + random_layout(&dst, to, ndim, shape);
		size = random_layout(&l, from, ndim, shape);
		make_written(&w, (size_t)below((int64_t)room), room);
		src = noise_tensor(&l, size, shift, (uint64_t)i);
		o.io_mode = has_direct(&w) ? (enum tarn_io_mode)below(3)
					   : TARN_IO_AUTO;
		if (!alike(write_both(&w, base, &dst, src, &o, NULL), &w,
			    io_modes[o.io_mode])) {
			diag("%s: case %d, %s from %s", engine, i,
				tarn_dtype_name(to), tarn_dtype_name(from));
			bad++;
		}
		drop_written(&w);
		drop_noise(src, shift);
	}
	is_int(0, bad, "%s: %d random pairs of views are written right", engine,
		cases);
}

static void refused(void)
{
	const int64_t n = 100;
	struct tarn_copy_options direct = {.io_mode = TARN_IO_DIRECT};
	tarn_storage *s = NULL;
	struct tarn_layout l;
	struct written w;
	tarn_tensor *src, *dst;
	int fds[2];

	must(tarn_layout_contiguous(TARN_U8, 1, &n, &l));
	src = noise_tensor(&l, 100, 0, 1);
	make_written(&w, 100, 100);
	if (tarn_storage_from_fd(w.fd, 0, 100, &s) < 0)
		bail("%s", tarn_error_message());
	dst = tensor_over(s, 0, &l);
	is_int(-EROFS, tarn_copy(dst, src, NULL, NULL),
		"a copy to a file that is open for reading is refused");
	is_int(-1, first_unlike(&w), "the refused copy writes no byte");
	tarn_tensor_unref(dst);
	tarn_storage_unref(s);

	if (pipe2(fds, O_CLOEXEC) < 0 ||
		tarn_storage_to_fd(fds[1], 0, 100, &s) < 0)
		bail("a pipe: %s", tarn_error_message());
	dst = tensor_over(s, 0, &l);
	is_int(-ESPIPE, tarn_copy(dst, src, NULL, NULL),
		"a copy to a pipe is refused");
	has_str("writing at byte 0 of pipe:", tarn_error_message(),
		"the error names the pipe and the byte");
	is_int(-EINVAL, tarn_copy(dst, src, &direct, NULL),
		"a direct copy to a file without direct I/O is refused");
	has_str("direct I/O was asked for", tarn_error_message(),
		"the error says that direct I/O was asked for");
	tarn_tensor_unref(dst);
	tarn_storage_unref(s);
	close(fds[0]);
	close(fds[1]);

	/* It can be opened with O_DIRECT, since Linux 6.6, to no effect. */
	fds[0] = memfd_create("memory", MFD_CLOEXEC);
	if (fds[0] < 0 || tarn_storage_to_fd(fds[0], 0, 100, &s) < 0)
		bail("a memfd: %s", tarn_error_message());
	dst = tensor_over(s, 0, &l);
	is_int(-EINVAL, tarn_copy(dst, src, &direct, NULL),
		"a file in memory cannot be written directly");
	tarn_tensor_unref(dst);
	tarn_storage_unref(s);
	close(fds[0]);
	drop_written(&w);
	drop_noise(src, 0);
}

int main(void)
{
	for (unsigned i = 0; i < 2; i++) {
		if (!engine_works(engines[i])) {
			skip(118, "%s: %s", engines[i], tarn_error_message());
			continue;
		}
		all_contiguous(engines[i]);
		all_views(engines[i]);
		random_pairs(engines[i]);
	}
	refused();
	rmdir(test_tmpdir());
	return done(243);
}
