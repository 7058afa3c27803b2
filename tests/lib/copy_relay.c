/* SPDX-License-Identifier: MIT */
/*
 * File to file: any view of one becomes any view of another, or of the same
 * one, in parts that fit into memory; the result is what memory to memory makes
 * of the same bytes.
 */
#include <errno.h>

#include "tests/kit/must.h"
#include "tests/kit/written.h"

/* Copies a view of a file of noise, and the same from memory for the model. */
static int relay(struct written *w, uint64_t base, const struct tarn_layout *to,
	size_t size, uint64_t src_base, const struct tarn_layout *from,
	const struct tarn_copy_options *o, struct tarn_copy_info *info)
{
	char *bytes = malloc(src_base + size), path[4200];
	tarn_storage *memory = NULL, *file = NULL;
	tarn_tensor *a, *b, *dst, *model;
	int fd, r;

	snprintf(path, sizeof(path), "%s/source", test_tmpdir());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (!bytes || fd < 0)
		bail("%s: %m", path);
	fill_noise(bytes, src_base + size, 3);
	if (fd_write_all(fd, bytes, src_base + size) < 0 ||
		tarn_storage_borrow(
			bytes, src_base + size, 0, NULL, NULL, &memory) < 0 ||
		tarn_storage_from_fd(fd, 0, src_base + size, &file) < 0)
		bail("%s", tarn_error_message());
	a = tensor_over(memory, src_base, from);
	b = tensor_over(file, src_base, from);
	dst = tensor_over(w->file, base, to);
	model = tensor_over(w->memory, base, to);
	if (tarn_copy(model, a, o, NULL) < 0)
		bail("%s", tarn_error_message());
	r = tarn_copy(dst, b, o, info);
	if (r < 0)
		diag("%s", tarn_error_message());
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(model);
	tarn_storage_unref(memory);
	tarn_storage_unref(file);
	free(bytes);
	close(fd);
	unlink(path);
	return r;
}

static void views(const char *engine, int to, int from, int64_t rows,
	int64_t columns, const char *dst_expr, const char *src_expr,
	const struct tarn_copy_options *more)
{
	struct tarn_copy_options o =
		more ? *more : (struct tarn_copy_options) {0};
	const int64_t shape[2] = {rows, columns};
	struct tarn_layout whole[2], dst, src;
	struct tarn_copy_info info = {0};
	struct written w;
	uint64_t size;
	int r;

	if (tarn_layout_contiguous(to, 2, shape, &whole[0]) < 0 ||
		tarn_layout_contiguous(from, 2, shape, &whole[1]) < 0 ||
		tarn_layout_eval(&whole[0], dst_expr, &dst) < 0 ||
		tarn_layout_eval(&whole[1], src_expr, &src) < 0)
		bail("%s", tarn_error_message());
	size = (uint64_t)tarn_layout_nbytes(&whole[0]);
	o.engine = engine;
	make_written(&w, size / 2, 136 + size);
	r = relay(&w, 136, &dst, (size_t)tarn_layout_nbytes(&whole[1]), 80,
		&src, &o, &info);
	is_int(0, r, "%s: a copy from file to file, %s = %s", engine, dst_expr,
		src_expr);
	is_int(-1, first_unlike(&w),
		"the file has the bytes that a copy in memory has");
	is_int(tarn_layout_nbytes(&dst), (int64_t)info.written,
		"each byte of the destination is written once");
	ok(info.read > 0 && info.requests > 0,
		"the copy counts bytes read and requests");
	drop_written(&w);
}

static void all_views(const char *engine)
{
	static double scale[2700], bias[2700];
	struct tarn_copy_options scaled = {
		.scale = scale,
		.bias = bias,
		.channels = 2700,
		.channel_dim = 0,
	};

	for (int i = 0; i < 2700; i++) {
		scale[i] = 1 + i % 7;
		bias[i] = i % 11;
	}
	views(engine, TARN_F32, TARN_F32, 2700, 1001, "[:]", "[:]", NULL);
	views(engine, TARN_F32, TARN_F32, 1, 2700001, "[:]", "[:, ::-1]", NULL);
	views(engine, TARN_F32, TARN_F32, 1800, 1501, ".transpose(0, 1)",
		".reshape(1501, 1800)", NULL);
	views(engine, TARN_F32, TARN_F32, 1800, 1501, "[::-1]", "[0:1]", NULL);
	views(engine, TARN_F32, TARN_U8, 2700, 1001, "[:]", "[:]", &scaled);
	views(engine, TARN_U8, TARN_F64, 2700, 1001, "[::-1, ::-1]", "[:]",
		&scaled);
	views(engine, TARN_U16, TARN_U16, 300, 5000, "[:, 100:500]",
		"[:, 2:402]", NULL);
	views(engine, TARN_F4, TARN_F4, 100, 3000, "[:]", "[::-1]", NULL);
	views(engine, TARN_I64, TARN_I64, 3, 5, "[1, 2]", "[2, 1]", NULL);
	views(engine, TARN_I64, TARN_I64, 3, 5, "[1:2]", "[0]", NULL);
}

/* One file on both sides; the halves must not meet. */
static void one_file(const char *engine)
{
	const int64_t n = 3000000, half = 1000000;
	struct tarn_copy_options o = {.engine = engine};
	struct tarn_layout l;
	struct written w;
	tarn_tensor *to, *from;

	must(tarn_layout_contiguous(TARN_U8, 1, &half, &l));
	make_written(&w, (size_t)n, (size_t)n);
	to = tensor_over(w.file, 1500000, &l);
	from = tensor_over(w.file, 7, &l);
	is_int(0, tarn_copy(to, from, &o, NULL),
		"%s: a copy inside one file succeeds", engine);
	memcpy(w.model + 1500000, w.model + 7, (size_t)half);
	is_int(-1, first_unlike(&w),
		"a copy inside a file moves bytes from one place to another");
	from = tarn_tensor_unref(from);
	from = tensor_over(w.file, 1500000 - 5, &l);
	is_int(-EINVAL, tarn_copy(to, from, &o, NULL),
		"a copy of a file's range onto itself is refused");
	is_int(-1, first_unlike(&w), "the refused copy changes nothing");
	tarn_tensor_unref(from);
	tarn_tensor_unref(to);
	drop_written(&w);
}

/* Either side's failure is the copy's, and names its file. */
static void failures(const char *engine)
{
	const int64_t n = 9 << 20;
	struct tarn_copy_options o = {.engine = engine};
	struct tarn_layout l;
	struct written w, v;
	tarn_storage *full = NULL;
	tarn_tensor *to, *from;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	must(tarn_layout_contiguous(TARN_U8, 1, &n, &l));
	make_written(&w, (size_t)n, (size_t)n);
	from = tensor_over(w.file, 0, &l);
	if (fd < 0 || tarn_storage_to_fd(fd, 0, (uint64_t)n, &full) < 0) {
		skip(3, "/dev/full: %m");
	} else {
		to = tensor_over(full, 0, &l);
		is_int(-ENOSPC, tarn_copy(to, from, &o, NULL),
			"%s: a copy to a full disk fails", engine);
		has_str("copy: writing at byte ", tarn_error_message(),
			"the error names the byte at which writing failed");
		has_str("/dev/full", tarn_error_message(),
			"the error names the file that is full");
		tarn_tensor_unref(to);
		tarn_storage_unref(full);
	}
	fd_close(fd);
	if (ftruncate(w.fd, 7 << 20) < 0)
		bail("ftruncate: %m");
	fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || tarn_storage_to_fd(fd, 0, (uint64_t)n, &v.file) < 0)
		bail("/dev/null: %s", tarn_error_message());
	to = tensor_over(v.file, 0, &l);
	is_int(-ENODATA, tarn_copy(to, from, &o, NULL),
		"%s: a copy from a file that shrank fails", engine);
	tarn_tensor_unref(to);
	tarn_storage_unref(v.file);
	close(fd);
	tarn_tensor_unref(from);
	drop_written(&w);
}

int main(void)
{
	for (unsigned i = 0; i < 2; i++) {
		if (!engine_works(engines[i])) {
			skip(48, "%s: %s", engines[i], tarn_error_message());
			continue;
		}
		all_views(engines[i]);
		one_file(engines[i]);
		failures(engines[i]);
	}
	rmdir(test_tmpdir());
	return done(96);
}
