/* SPDX-License-Identifier: MIT */
/*
 * Views of a file are copied to memory by every engine and every I/O mode,
 * warm and cold, and the bytes are those that the same copy has in memory. A
 * file that is cut or replaced meanwhile is an error, or read as it was.
 * Failing disks are in copy_read_fails.c.
 */
#include <stdio.h>

#include "lib/io/io_mode.h"
#include "tests/kit/cold.h"
#include "tests/kit/copy_read.h"
#include "tests/kit/loop_device.h"

static const struct sample samples[] = {
	{"U8", "[3145728]", "", "U8", "", 0, 0, false},
	{"U8", "[3145728]", "", "U8", "", 100, 100, false},
	{"U8", "[3145728]", "", "U8", "", 8, 0, false},
	{"U8", "[3145728]", "", "U8", "", 8, 3, false},
	{"F32", "[100]", "", "F32", "", 4000, 64, false},
	{"F32", "[3, 4]", "[1, 2]", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", "[:, ::2]", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", "[:, 100:164]", "F32", "", 8, 0, false},
	{"F32", "[24, 32768]", "[:, 100:164]", "F32", "", 80, 0, false},
	{"F32", "[24, 32768]", "[1:, 100:16484]", "F32", "", 8, 0, false},
	{"F32", "[24, 32768]", "[:, 0:32700]", "F32", "", 8, 72, false},
	{"F32", "[1024, 768]", ".transpose(0, 1)", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", ".flip(0)", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", ".flip(0, 1)", "F32", "", 8, 0, false},
	{"F32", "[1024, 768]", "[::3, 600:5:-7]", "F32", "", 8, 0, false},
	{"U8", "[4, 786432]", ".transpose(0, 1)", "U8", "", 24, 0, false},
	{"I16", "[10, 150001]", ".transpose(0, 1)", "I16", "", 24, 0, false},
	{"F32", "[8, 4, 50, 300]",
		"[1:7, ::2, 3:40, 9:200:2]"
		".permute(2, 0, 3, 1)",
		"F32", ".flip(0)", 1000, 0, false},
	{"F32", "[1, 700]", ".expand(900, 700)", "F32", "", 8, 0, false},
	{"F32", "[700, 1]", ".expand(700, 900)", "F32", "", 8, 0, false},
	{"U8", "[2, 500, 1000, 3]", ".permute(0, 3, 1, 2)", "F32", "", 77, 0,
		true},
	{"F32", "[1024, 768]", "", "F16", ".transpose(0, 1).transpose(0, 1)", 8,
		0, false},
	{"F16", "[1024, 700]", "[:, 10:90]", "F64", "", 9, 0, false},
	{"F4", "[1024, 2000]", "[5:900, 20:1000]", "F4", "", 3, 0, false},
	{"F6_E2M3", "[512, 4000]", "[5:90, 20:1000]", "F32", "", 3, 0, false},
	{"F32", "[512, 1000]", ".transpose(0, 1)", "F4", "", 8, 0, false},
};

/* ---- every way --------------------------------------------------------- */

static void test_ways(const struct files *fs)
{
	static const char *const engines[] = {"threads", "io_uring"};
	static const char *const io_modes[] = {"auto", "buffered", "direct"};
	enum { WAYS = 2 * 3 * 2 };
	unsigned wrong[WAYS] = {0};
	struct tarn_copy_info info;

	for (unsigned k = 0; k < ARRAY_SIZE(samples); k++) {
		struct target wanted = kit_read_wanted(&samples[k]);

		for (unsigned i = 0; i < WAYS; i++) {
			struct way way = {
				.engine = engines[i % 2],
				.io_mode = (enum tarn_io_mode)(i / 2 % 3),
				.cache = i / 6 ? IS_EVICTED : IS_WARM,
			};

			if (way.io_mode == TARN_IO_DIRECT && fs->direct < 0)
				continue;
			wrong[i] += !kit_read_copy(fs->buffered, &samples[k],
				&way, &wanted, &info);
		}
		kit_read_drop(&wanted);
	}
	for (unsigned i = 0; i < WAYS; i++)
		if (i / 2 % 3 == TARN_IO_DIRECT && fs->direct < 0)
			skip(1, "no direct I/O in %s", test_tmpdir());
		else
			is_int(0, wrong[i],
				"views of a file are copied right, %s, %s, %s",
				engines[i % 2], io_modes[i / 2 % 3],
				i / 6 ? "cold" : "warm");
}

static void test_sectors(const struct files *fs)
{
	static const struct way ways[] = {
		{"threads", TARN_IO_DIRECT, IS_EVICTED},
		{"io_uring", TARN_IO_DIRECT, IS_EVICTED},
		{"threads", TARN_IO_AUTO, IS_EVICTED},
	};
	char path[64];
	_cleanup_fd_ int fd =
		loop_device(fs->buffered, 4096, path, sizeof(path));

	if (fd < 0) {
		skip(3, "a disk of 4 KiB sectors: no loop device: %s",
			tarn_errno_text(fd));
		return;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++) {
		struct tarn_copy_info info;
		unsigned wrong = 0;

		for (unsigned k = 0; k < ARRAY_SIZE(kit_read_few); k++) {
			struct target wanted =
				kit_read_wanted(&kit_read_few[k]);

			wrong += !kit_read_copy(
				fd, &kit_read_few[k], &ways[i], &wanted, &info);
			kit_read_drop(&wanted);
		}
		is_int(0, wrong,
			"a disk of 4 KiB sectors is read right: %s, %s",
			ways[i].engine, ways[i].io_mode ? "direct" : "auto");
	}
}

/* ---- what is told ------------------------------------------------------ */

/* Out of a cold file, in the I/O mode that is chosen for it. */
static struct tarn_copy_info copy_cold(
	const struct files *fs, const struct sample *s)
{
	static const struct way way = {.cache = AS_IT_IS};
	struct tarn_copy_info info = {0};

	for (int i = 0; i < COLD_TRIES && info.direct < 3 << 20; i++)
		if (cold_make(fs->buffered, 0, SIZE) ||
			!kit_read_copy(fs->buffered, s, &way, NULL, &info))
			bail("a cold file is not copied");
	return info;
}

static void test_info(const struct files *fs)
{
	struct way way = {0};
	struct tarn_copy_info info;
	struct io_mode io_mode;
	const char *why;

	kit_read_copy(fs->buffered, &samples[1], &way, NULL, &info);
	is_int(3 << 20, (int64_t)info.bytes,
		"a copy counts the bytes of its destination");
	is_int(3 << 20, (int64_t)info.read,
		"a copy of whole rows reads each byte once");
	is_int(3 << 20, (int64_t)info.cached,
		"a cached file is read from the page cache");
	is_int(0, (int64_t)info.direct,
		"no byte of a cached file is read directly");
	ok(info.requests >= 6 && info.requests < 10,
		"reads are requests of half a mebibyte");

	kit_read_copy(fs->buffered, &samples[8], &way, NULL, &info);
	is_int(24 * 64 * 4, (int64_t)info.read,
		"a copy of a few columns reads no other bytes");

	way.io_mode = TARN_IO_BUFFERED;
	kit_read_copy(fs->buffered, &samples[1], &way, NULL, &info);
	is_int(0, (int64_t)info.direct,
		"a buffered copy reads no byte directly");

	io_mode_init(&io_mode, fs->buffered, fs->direct, TARN_IO_AUTO,
		io_fs_of(fs->buffered));
	if (io_mode.align.offset == 0) {
		skip(4, "nothing can be read directly here");
		return;
	}
	why = cold_make(fs->buffered, 0, SIZE);
	if (why) {
		skip(4, "what is cold is read directly: %s", why);
		return;
	}
	info = copy_cold(fs, &samples[1]);
	ok(info.direct >= 3 << 20, "a cold file is read directly");
	is_int((int64_t)info.direct, (int64_t)info.read,
		"the ragged ends of a cold file are read directly, too");
	ok(info.read < (3 << 20) + 3 * 4096,
		"a direct copy reads each block once");
	info = copy_cold(fs, &samples[3]);
	ok(info.direct >= 3 << 20,
		"bytes that must be moved are read directly, too");
}

static void test_refusals(void)
{
	_cleanup_fd_ int fd = memfd_create("tensors", MFD_CLOEXEC);
	struct sample s = samples[0];
	struct tarn_copy_options o = {.io_mode = TARN_IO_DIRECT};
	struct target p;
	tarn_tensor *src;

	if (fd < 0 || fd_write_all(fd, text(), SIZE) < 0)
		bail("memfd: %m");
	s.offset = 1;
	src = kit_read_in_file(fd, &s);
	p = kit_read_target(&s, src);
	is_int(-EINVAL, tarn_copy(p.tensor, src, &o, NULL),
		"a file in memory is not read directly");
	has_str("its file system is memory", tarn_error_message(),
		"the error contains 'its file system is memory'");
	o.io_mode = TARN_IO_AUTO;
	is_int(0, tarn_copy(p.tensor, src, &o, NULL),
		"a copy falls back to buffered reads where direct ones are "
		"refused");
	ok(!memcmp(p.raw + MARGIN, text() + 1, 3 << 20),
		"a copy by buffered reads has the right bytes");
	kit_read_drop(&p);
	tarn_tensor_unref(src);
}

/* The file ends before the tensor: the first byte that is missing is named,
 * whichever request was first to miss one. */
static void test_truncated(const char *engine)
{
	static const uint64_t ends[] = {0, 1, 4096, SEGMENT / 2, SEGMENT + 77};
	unsigned wrong = 0, unnamed = 0;

	for (unsigned i = 0; i < 5 * 6; i++) {
		uint64_t end = ends[i % 5];
		struct sample s = samples[i / 5 % 2 ? 11 : 1];
		struct tarn_copy_options o = {
			.engine = engine,
			.io_mode = (enum tarn_io_mode)(i / 10),
		};
		struct files fs;
		struct target p;
		char words[100];
		tarn_tensor *src;

		make_file(&fs, "shrinks", SIZE);
		src = kit_read_in_file(fs.buffered, &s);
		p = kit_read_target(&s, src);
		if (ftruncate(fs.buffered, (off_t)end) < 0)
			bail("ftruncate: %m");
		if (o.io_mode == TARN_IO_DIRECT && fs.direct < 0)
			o.io_mode = TARN_IO_AUTO;
		snprintf(words, sizeof(words), "ends at byte %llu,",
			(unsigned long long)(MAX(end, s.offset)));
		wrong += tarn_copy(p.tensor, src, &o, NULL) != -ENODATA;
		if (!strstr(tarn_error_message(), words) ||
			!strstr(tarn_error_message(), fs.path)) {
			diag("%s: %s", words, tarn_error_message());
			unnamed++;
		}
		kit_read_drop(&p);
		tarn_tensor_unref(src);
		drop_files(&fs);
	}
	is_int(0, wrong, "%s: a copy from a file that has shrunk fails",
		engine);
	is_int(0, unnamed, "%s: the error names the file and the byte", engine);
}

static void test_replaced(void)
{
	struct sample s = samples[0];
	struct files fs, other;
	struct target p;
	tarn_tensor *src;

	make_file(&fs, "replaced", SIZE);
	src = kit_read_in_file(fs.buffered, &s);
	p = kit_read_target(&s, src);
	make_file(&other, "replacing", 100);
	if (rename(other.path, fs.path) < 0)
		bail("rename: %m");
	is_int(0, tarn_copy(p.tensor, src, NULL, NULL),
		"a file that was replaced is read as it was opened");
	ok(!memcmp(p.raw + MARGIN, text(), 3 << 20),
		"the copy has the bytes of the file that was opened");
	kit_read_drop(&p);
	tarn_tensor_unref(src);
	drop_files(&fs);
	drop_files(&other);
}

int main(void)
{
	struct files fs;

	make_file(&fs, "tensors", SIZE);
	test_ways(&fs);
	test_info(&fs);
	test_refusals();
	test_truncated("threads");
	test_truncated("io_uring");
	test_replaced();
	test_sectors(&fs);
	drop_files(&fs);
	return done(36);
}
