// SPDX-License-Identifier: MIT
/*
 * For tests/lib/copy_numpy.py: carries out copies, one a line, and prints the
 * CRC of all the bytes around where each went, so that a byte beside it counts
 * too; or "error" and the sentence.
 *
 *	copy_tool SOURCE SCRATCH
 *
 * A line has fields with tabs between them: the verb (copy, stream), where dst
 * is and where src is (memory, file), the rounding, the I/O mode; bytes of the
 * area that dst is in, dst's first byte there and its layout; src's first byte
 * in SOURCE and its layout; the channels' dimension, the number of channels,
 * and scales and biases with commas, "-" for none.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "tests/kit/tap.h"

enum { FIELDS = 14, PATTERN = 0xA5 };

static tarn_storage *source[2]; /* in memory, in a file */
static int scratch;
static tarn_stream *stream;

static uint32_t crc32(const unsigned char *p, size_t n)
{
	static uint32_t table[256];
	uint32_t crc = 0xFFFFFFFF;

	for (uint32_t i = 0; !table[255] && i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] =
				table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320 : 0);
	}
	for (size_t i = 0; i < n; i++)
		crc = crc >> 8 ^ table[(crc ^ p[i]) & 0xFF];
	return ~crc;
}

static double *numbers(char *text, int64_t n)
{
	double *list;
	char *end = text;

	if (!strcmp(text, "-"))
		return NULL;
	list = calloc((size_t)n + 1, sizeof(*list));
	for (int64_t i = 0; list && i < n; i++) {
		list[i] = strtod(end, &end);
		end += *end == ',';
	}
	return list;
}

static tarn_tensor *tensor(tarn_storage *s, const char *base, const char *spec)
{
	struct tarn_layout layout;
	tarn_tensor *t = NULL;

	if (tarn_layout_parse(spec, &layout) < 0 ||
		tarn_tensor_new(s, strtoull(base, NULL, 10), &layout, &t) < 0)
		bail("%s: %s", spec, tarn_error_message());
	return t;
}

static int by_stream(
	tarn_tensor *dst, tarn_tensor *src, const struct tarn_copy_options *o)
{
	static struct tarn_completion c;
	int r = tarn_stream_copy(stream, dst, src, o, -1, 0, NULL);

	if (r < 0)
		return r;
	if (tarn_stream_reap(stream, 1, -1, &c, 1) != 1)
		bail("nothing was reaped: %s", tarn_error_message());
	if (c.result < 0)
		printf("(%s) ", c.message);
	return c.result;
}

/* The area, as the pattern. */
static tarn_storage *area(bool file, unsigned char *bytes, size_t size)
{
	tarn_storage *s = NULL;
	int r;

	memset(bytes, PATTERN, size);
	if (!file)
		r = tarn_storage_borrow(
			bytes, size, TARN_BORROW_WRITABLE, NULL, NULL, &s);
	else if (ftruncate(scratch, 0) < 0 ||
		 pwrite(scratch, bytes, size, 0) != (ssize_t)size)
		bail("the scratch file: %m");
	else
		r = tarn_storage_to_fd(scratch, 0, size, &s);
	if (r < 0)
		bail("%s", tarn_error_message());
	return s;
}

static void answer(char **f)
{
	bool dst_file = !strcmp(f[1], "file"), src_file = !strcmp(f[2], "file");
	size_t size = strtoull(f[5], NULL, 10);
	unsigned char *bytes = malloc(size + 1);
	tarn_storage *place = area(dst_file, bytes, size);
	tarn_tensor *dst = tensor(place, f[6], f[7]);
	tarn_tensor *src = tensor(source[src_file], f[8], f[9]);
	struct tarn_copy_options o = {
		.rounding = (enum tarn_rounding)atoi(f[3]),
		.io_mode = (enum tarn_io_mode)atoi(f[4]),
		.channel_dim = atoi(f[10]),
		.channels = atoll(f[11]),
	};
	double *scale = numbers(f[12], o.channels);
	double *bias = numbers(f[13], o.channels);
	int r;

	o.scale = scale;
	o.bias = bias;
	r = strcmp(f[0], "stream") ? tarn_copy(dst, src, &o, NULL)
				   : by_stream(dst, src, &o);
	if (dst_file && fd_pread(scratch, bytes, size + 1, 0) != (ssize_t)size)
		printf("the scratch file has another size ");
	if (r < 0)
		printf("error %s\n", tarn_error_message());
	else
		printf("%08x\n", crc32(bytes, size));
	free(scale);
	free(bias);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
	tarn_storage_unref(place);
	free(bytes);
}

static void open_all(char **argv)
{
	int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data;

	scratch = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || scratch < 0 || fstat(fd, &st) < 0)
		bail("%s, %s: %m", argv[1], argv[2]);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED ||
		tarn_storage_borrow(data, (uint64_t)st.st_size, 0, NULL, NULL,
			&source[0]) < 0 ||
		tarn_storage_from_fd(fd, 0, (uint64_t)st.st_size, &source[1]) <
			0 ||
		tarn_stream_new(NULL, &stream) < 0)
		bail("%s: %m, %s", argv[1], tarn_error_message());
	close(fd);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;

	if (argc != 3)
		bail("usage: copy_tool SOURCE SCRATCH");
	open_all(argv);
	while (getline(&line, &room, stdin) >= 0) {
		char *fields[FIELDS], *rest = line;

		line[strcspn(line, "\n")] = '\0';
		for (int i = 0; i < FIELDS; i++) {
			fields[i] = strsep(&rest, "\t");
			if (!fields[i])
				bail("field %d is missing", i);
		}
		answer(fields);
	}
	free(line);
	tarn_stream_free(stream);
	tarn_storage_unref(source[0]);
	tarn_storage_unref(source[1]);
	close(scratch);
	return 0;
}
