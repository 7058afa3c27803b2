/* SPDX-License-Identifier: MIT */
/*
 * tarn_copy from the outside: what it refuses and with which errors, how
 * shapes are broadcast, what it reports about itself, and that it can be
 * stopped. copy_numpy.py checks the copied bytes, for any pair of layouts and
 * dtypes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fail.h"
#include "tests/kit/tap.h"

static tarn_tensor *view(tarn_tensor *t, const char *expr)
{
	tarn_tensor *v = NULL;

	if (tarn_tensor_eval(t, expr, &v) < 0)
		bail("%s", tarn_error_message());
	return v;
}

static tarn_tensor *arange(int64_t n, const char *expr)
{
	tarn_tensor *t = NULL, *v;

	if (tarn_tensor_arange(TARN_I32, 0, (double)n, 1, &t) < 0)
		bail("%s", tarn_error_message());
	v = view(t, expr);
	tarn_tensor_unref(t);
	return v;
}

static tarn_tensor *zeros(int dtype, const char *expr)
{
	const int64_t n = 24;
	tarn_tensor *t = NULL, *v;

	if (tarn_tensor_zeros(dtype, 1, &n, &t) < 0)
		bail("%s", tarn_error_message());
	v = view(t, expr);
	tarn_tensor_unref(t);
	return v;
}

static void refuse(int err, const char *part, tarn_tensor *dst,
	tarn_tensor *src, const struct tarn_copy_options *options)
{
	struct tarn_copy_info info = {.bytes = 77};
	int r = tarn_copy(dst, src, options, &info);

	is_int(-err, r, "a copy is refused because of: %s", part);
	has_str(part, tarn_error_message(),
		"the error of a refused copy contains the expected words");
	is_int(77, (int64_t)info.bytes, "no byte is counted after an error");
}

static void test_shapes(void)
{
	static const struct {
		const char *dst, *src;
	} good[] =
		{
			{".view(4,6)", ".view(4,6)"},
			{".view(4,6)", "[0:6]"},
			{".view(4,6)", "[0]"},
			{".view(2,3,4)", "[0:3].view(3,1)"},
			{".view(4,6).transpose(0,1)", "[0:4]"},
			{".view(4,6)[:, ::-1]", ".view(4,6)"},
			{"[0:0]", "[0:0]"},
			{"[0:0]", "[0:1]"},
			{"[3]", "[7]"},
		},
	  bad[] = {
		  {".view(4,6)", "[0:4]"},
		  {"[0:6]", ".view(4,6)"},
		  {"[0:6]", "[0:6].view(1,6)"},
		  {"[0:0]", "[0:2]"},
	  };

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		tarn_tensor *dst = zeros(TARN_I32, good[i].dst), *all;
		tarn_tensor *src = arange(24, good[i].src);
		const struct tarn_layout *l = tarn_tensor_layout(dst);
		struct tarn_layout wide;
		int r = tarn_copy(dst, src, NULL, NULL);

		if (!is_int(0, r, "a copy broadcasts %s = %s", good[i].dst,
			    good[i].src))
			diag("%s", tarn_error_message());
		if (tarn_layout_expand(tarn_tensor_layout(src), l->ndim,
			    l->shape, &wide) < 0 ||
			tarn_tensor_with_layout(src, &wide, &all) < 0)
			bail("%s", tarn_error_message());
		is_int(1, tarn_tensor_equal(dst, all),
			"a broadcast copy has the elements that numpy's has");
		tarn_tensor_unref(all);
		tarn_tensor_unref(src);
		tarn_tensor_unref(dst);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		tarn_tensor *dst = zeros(TARN_I32, bad[i].dst);
		tarn_tensor *src = arange(24, bad[i].src);

		refuse(EINVAL, "cannot be broadcast to a destination", dst, src,
			NULL);
		tarn_tensor_unref(src);
		tarn_tensor_unref(dst);
	}
}

/* Overlap is a matter of bytes, not of storages. */
static void test_overlap(void)
{
	static const struct {
		const char *dst, *src;
		bool meet;
	} cases[] = {
		{"[0:12]", "[12:24]", false},
		{"[0:12]", "[11:23]", true},
		{"[::2]", "[1::2]", false},
		{"[::2]", "[::-2]", false},
		{"[::2]", "[22::-2]", true},
		{".view(4,6)", ".view(6,4).transpose(0,1)", true},
		{".view(4,6)[:, 0:3]", ".view(4,6)[:, 3:6]", false},
		{"[5]", "[5]", true},
		{"[5]", "[6]", false},
		{"[0:0]", "[0:0]", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		tarn_tensor *t = arange(24, ""), *again;
		tarn_tensor *dst = view(t, cases[i].dst), *src;
		tarn_storage *lent;

		/* The same bytes by another storage. */
		if (tarn_storage_borrow(tarn_tensor_data(t), 96,
			    TARN_BORROW_WRITABLE, NULL, NULL, &lent) < 0 ||
			tarn_tensor_new(
				lent, 0, tarn_tensor_layout(t), &again) < 0)
			bail("%s", tarn_error_message());
		for (int other = 0; other < 2; other++) {
			src = view(other ? again : t, cases[i].src);
			is_int(cases[i].meet ? -EINVAL : 0,
				tarn_copy(dst, src, NULL, NULL),
				"a copy within one storage, %s = %s%s",
				cases[i].dst, cases[i].src,
				other ? " of another storage" : "");
			if (cases[i].meet)
				has_str("share bytes", tarn_error_message(),
					"the error contains 'share bytes'");
			tarn_tensor_unref(src);
		}
		tarn_storage_unref(lent);
		tarn_tensor_unref(again);
		tarn_tensor_unref(dst);
		tarn_tensor_unref(t);
	}
}

/* Two storages of one file, whose bytes are counted from different places. */
static void test_file_overlap(void)
{
	tarn_storage *a, *b;
	tarn_tensor *dst, *src;
	struct tarn_layout l;
	const int64_t n = 100;
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/overlap", test_tmpdir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 1000) < 0 ||
		tarn_storage_to_fd(fd, 300, 400, &a) < 0 ||
		tarn_storage_from_fd(fd, 0, 1000, &b) < 0 ||
		tarn_layout_contiguous(TARN_U8, 1, &n, &l) < 0)
		bail("%s: %m, %s", path, tarn_error_message());
	if (tarn_tensor_new(a, 50, &l, &dst) < 0 ||
		tarn_tensor_new(b, 449, &l, &src) < 0)
		bail("%s", tarn_error_message());
	refuse(EINVAL, "share bytes", dst, src, NULL);
	tarn_tensor_unref(src);
	if (tarn_tensor_new(a, 50, &l, &src) < 0)
		bail("%s", tarn_error_message());
	refuse(EINVAL, "share bytes", dst, src, NULL);
	tarn_tensor_unref(src);
	if (tarn_tensor_new(b, 0, &l, &src) < 0)
		bail("%s", tarn_error_message());
	refuse(EROFS, "is read-only", src, dst, NULL);
	tarn_tensor_unref(src);
	tarn_tensor_unref(dst);
	tarn_storage_unref(a);
	tarn_storage_unref(b);
	close(fd);
	unlink(path);
}

static void test_rights(void)
{
	tarn_tensor *src = arange(24, ""), *dst, *twice;
	tarn_storage *lent;
	struct tarn_layout l;
	char path[4200];
	static int32_t bytes[24];
	int fd;

	if (tarn_storage_borrow(bytes, 96, 0, NULL, NULL, &lent) < 0 ||
		tarn_tensor_new(lent, 0, tarn_tensor_layout(src), &dst) < 0)
		bail("%s", tarn_error_message());
	refuse(EROFS, "copy: this lent memory is read-only", dst, src, NULL);
	tarn_tensor_unref(dst);
	tarn_storage_unref(lent);

	dst = zeros(TARN_I32, "");
	l = *tarn_tensor_layout(dst);
	l.stride[0] = 0;
	if (tarn_tensor_with_layout(dst, &l, &twice) < 0)
		bail("%s", tarn_error_message());
	refuse(EINVAL, "dst meets itself", twice, src, NULL);
	tarn_tensor_unref(twice);

	snprintf(path, sizeof(path), "%s/rights", test_tmpdir());
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || tarn_storage_to_fd(fd, 0, 96, &lent) < 0 ||
		tarn_tensor_new(lent, 0, tarn_tensor_layout(src), &twice) < 0)
		bail("%s: %m, %s", path, tarn_error_message());
	refuse(EBADF, "open for writing only", dst, twice, NULL);
	tarn_tensor_unref(twice);
	tarn_storage_unref(lent);
	close(fd);
	unlink(path);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
}

static void test_options(void)
{
	static const double scale[24] = {1};
	static const struct {
		struct tarn_copy_options o;
		const char *part;
	} bad[] = {
		{{.threads = -1}, "-1 threads"},
		{{.io_mode = 9}, "no I/O mode 9"},
		{{.rounding = 2}, "no rounding 2"},
		{{.engine = "turbo"}, "no engine \"turbo\""},
		{{.scale = scale, .channels = 5}, "for 5 channels"},
		{{.bias = scale, .channels = 4, .channel_dim = 1},
			"dimension 1 of dst has 6"},
		{{.scale = scale, .channels = 4, .channel_dim = 2},
			"no dimension 2"},
		{{.scale = scale, .channels = 4, .channel_dim = -3},
			"no dimension -3"},
	};
	tarn_tensor *dst = zeros(TARN_I32, ".view(4,6)");
	tarn_tensor *src = arange(24, ".view(4,6)");

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		refuse(EINVAL, bad[i].part, dst, src, &bad[i].o);
	tarn_tensor_unref(src);
	tarn_tensor_unref(dst);
}

/* scale and bias go by the channel of dst, or are one for all. */
static void test_scale(void)
{
	static const double scale[6] = {1, 2, 3, 4, 5, 6};
	static const double bias[6] = {.5, 0, 0, 0, 0, -1};
	static const struct tarn_copy_options each =
						      {
							      .scale = scale,
							      .bias = bias,
							      .channels = 6,
							      .channel_dim = -1,
						      },
					      one = {.scale = scale + 1,
						      .channels = 1,
						      .channel_dim = 99};
	tarn_tensor *dst = zeros(TARN_F32, ".view(4,6)");
	tarn_tensor *src = arange(24, ".view(4,6)");
	const float *seen = tarn_tensor_data(dst);
	int wrong = 0;

	is_int(0, tarn_copy(dst, src, &each, NULL),
		"a copy with a scale for each channel succeeds");
	for (int i = 0; i < 24; i++)
		wrong += seen[i] != (float)(i * scale[i % 6] + bias[i % 6]);
	is_int(0, wrong, "each channel is scaled by its own factor");
	is_int(0, tarn_copy(dst, src, &one, NULL),
		"a copy with one scale for all channels succeeds");
	for (int i = 0; i < 24; i++)
		wrong += seen[i] != (float)(2 * i);
	is_int(0, wrong, "one scale applies to all channels");
	tarn_tensor_unref(src);
	tarn_tensor_unref(dst);
}

struct watch {
	int calls, stop_at;
	uint64_t last, total;
	bool backwards;
};

static int watch(void *arg, uint64_t bytes, uint64_t total)
{
	struct watch *w = arg;

	w->backwards |= bytes < w->last;
	w->last = bytes;
	w->total = total;
	return ++w->calls == w->stop_at;
}

static void test_info_and_progress(void)
{
	const int64_t n[2] = {3000, 1001};
	tarn_tensor *dst, *src, *turned;
	struct watch w = {0};
	struct tarn_copy_options o = {.progress = watch, .arg = &w};
	struct tarn_copy_info info;

	if (tarn_tensor_zeros(TARN_I32, 2, n, &dst) < 0 ||
		tarn_tensor_full(TARN_I32, 2, n, 7, &src) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_copy(dst, src, &o, &info),
		"a copy with a progress callback succeeds");
	is_int(1, tarn_tensor_equal(dst, src),
		"all bytes are copied with a progress callback");
	is_int(12012000, (int64_t)info.bytes,
		"the copy counts the bytes of the destination");
	is_int(12012000, (int64_t)w.last,
		"the progress ends with the destination's size");
	is_int(12012000, (int64_t)w.total,
		"the last call of the progress has the total");
	ok(w.calls > 3 && !w.backwards,
		"the progress is reported on the way, and never decreases");
	is_str("memory", info.engine,
		"a copy in memory names its engine 'memory'");
	is_int(0, (int64_t)(info.read + info.written + info.requests),
		"a copy in memory counts no reads, writes or requests");
	ok(info.seconds > 0 && info.cpu_seconds > 0,
		"a copy counts its time and its CPU time");

	w = (struct watch) {.stop_at = 2};
	is_int(-ECANCELED, tarn_copy(dst, src, &o, NULL),
		"a copy whose progress callback refuses is cancelled");
	has_str("cancelled when", tarn_error_message(),
		"the error says when the copy was cancelled");
	is_int(2, w.calls, "the copy stops at the second call of its progress");

	/* What cannot be done in one go is cut into slices all the same. */
	turned = view(dst, ".transpose(0,1)");
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
	if (tarn_tensor_arange(TARN_I32, 0, 3003000, 1, &src) < 0)
		bail("%s", tarn_error_message());
	dst = view(src, ".view(1001,3000)");
	w = (struct watch) {0};
	o.threads = 3;
	is_int(0, tarn_copy(turned, dst, &o, &info),
		"a transposed copy by three threads succeeds");
	is_int(1, tarn_tensor_equal(turned, dst),
		"all bytes are copied by three threads");
	tarn_tensor_unref(turned);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
}

int main(void)
{
	test_shapes();
	test_overlap();
	test_file_overlap();
	test_rights();
	test_options();
	test_scale();
	test_info_and_progress();
	return done(118);
}
