// SPDX-License-Identifier: MIT
/*
 * tarn_file_load: a cached file is mapped, a cold one is read into the page
 * cache first, and both are loaded to memory if the caller asks for that. In
 * each case every byte is there, at the same place of the storage.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "lib/io/io_mode.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/cold.h"
#include "tests/kit/file_bytes.h"
#include "tests/kit/tap.h"

enum { A = 3, M = 5 << 20, DATA = A + M };

static const char header[] =
	"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
	"\"m\":{\"dtype\":\"U8\",\"shape\":[1024,5120],"
	"\"data_offsets\":[3,5242883]},"
	"\"none\":{\"dtype\":\"F32\",\"shape\":[0],"
	"\"data_offsets\":[5242883,5242883]}}";

static char path[4096];
static unsigned char *wanted; /* the data range */

static tarn_file *make_file(void)
{
	tarn_file *file = NULL;
	uint64_t begin, size;
	size_t total;
	char *bytes = bytes_safetensors(header, DATA, &total);
	FILE *f;

	snprintf(path, sizeof(path), "%s/load", test_tmpdir());
	f = fopen(path, "w");
	if (!f || fwrite(bytes, total, 1, f) != 1 || fflush(f) != 0 ||
		fsync(fileno(f)) < 0 || fclose(f) != 0)
		bail("%s: %m", path);
	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	tarn_file_data_range(file, &begin, &size);
	wanted = malloc(size);
	memcpy(wanted, bytes + begin, size);
	free(bytes);
	return file;
}

static tarn_file *open_anew(tarn_file *file)
{
	tarn_file_unref(file);
	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	return file;
}

/* The tensor "m" is thrown out of the page cache: NULL, or why not. */
static const char *evict(const tarn_file *file)
{
	uint64_t begin, size;

	tarn_file_data_range(file, &begin, &size);
	return cold_make(tarn_file_fd(file), begin + A, begin + size);
}

static void warm(const tarn_file *file)
{
	char *buf = malloc(1 << 20);
	off_t at = 0;
	ssize_t n;

	while ((n = pread(tarn_file_fd(file), buf, 1 << 20, at)) > 0)
		at += n;
	free(buf);
}

static tarn_tensor *load(tarn_file *file, const char *name,
	const struct tarn_copy_options *o, struct tarn_copy_info *info)
{
	tarn_tensor *t = NULL;

	if (tarn_file_load(file, name, o, info, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static void cached(tarn_file *file)
{
	struct tarn_copy_info info;
	tarn_tensor *t, *all;

	warm(file);
	t = load(file, "m", NULL, &info);
	is_int(TARN_STORAGE_MAPPED, tarn_storage_kind(t->storage),
		"a cached file is mapped");
	is_str("mapped", info.engine,
		"a load that maps names its engine 'mapped'");
	is_int(M, (int64_t)info.bytes,
		"a load that maps counts the tensor's bytes");
	/* Before 6.5 the kernel does not tell of a tmpfs what is cached. */
	if (io_mostly_cached(tarn_file_fd(file), 0, 4096))
		is_int(0, (int64_t)info.read,
			"a load that maps reads no bytes");
	else
		skip(1, "nothing says what is cached here");
	is_mem(wanted + A, tarn_tensor_data(t), M,
		"a mapped load has the file's bytes");
	all = load(file, NULL, NULL, NULL);
	is_mem(wanted, tarn_tensor_data(all), DATA,
		"all tensors of a cached file are mapped");
	tarn_tensor_unref(all);
	tarn_tensor_unref(t);
}

static void forced(tarn_file *file)
{
	const struct tarn_copy_options buffered = {.io_mode = TARN_IO_BUFFERED};
	const struct tarn_copy_options twice = {
		.scale = (double[]) {2}, .channels = 1};
	unsigned char *data;
	tarn_tensor *t = load(file, "m", &buffered, NULL);

	is_int(TARN_STORAGE_OWNED, tarn_storage_kind(t->storage),
		"a load with an I/O mode makes memory");
	ok(tarn_storage_writable(t->storage), "a load to memory is writable");
	is_mem(wanted + A, tarn_tensor_data(t), M,
		"a load to memory has the file's bytes");
	is_int(2, tarn_tensor_layout(t)->ndim,
		"a load to memory has the tensor's shape");
	tarn_tensor_unref(t);
	t = load(file, "a", &twice, NULL);
	data = tarn_tensor_data(t);
	is_int(2 * wanted[2], data[2], "a load with a scale makes memory");
	tarn_tensor_unref(t);
	t = load(file, NULL, &buffered, NULL);
	is_mem(wanted, tarn_tensor_data(t), DATA,
		"all tensors of a file are loaded to memory");
	is_int(0, (int64_t)t->base,
		"a load of all tensors begins at the start of its storage");
	is_int(DATA, (int64_t)tarn_storage_size(t->storage),
		"a load of all tensors has a storage of the data's size");
	tarn_tensor_unref(t);
}

struct reported {
	uint64_t last, total;
	int calls, cancel_at;
};

static int note(void *arg, uint64_t done_bytes, uint64_t total)
{
	struct reported *reported = arg;

	if (done_bytes <= reported->last)
		diag("%llu after %llu", (unsigned long long)done_bytes,
			(unsigned long long)reported->last);
	reported->last = done_bytes;
	reported->total = total;
	return ++reported->calls == reported->cancel_at;
}

/* Loads "m" when it is cold; the reason when it cannot be. What was mapped
 * nevertheless goes with its file. */
static const char *load_cold(tarn_file **file, struct reported *reported,
	struct tarn_copy_info *info, int *ret_r, tarn_tensor **ret)
{
	const struct reported begin = *reported;
	const struct tarn_copy_options o = {.progress = note, .arg = reported};
	const char *why = evict(*file);

	for (int i = 0; !why && i < COLD_TRIES; i++) {
		*reported = begin;
		*info = (struct tarn_copy_info) {0};
		*ret_r = tarn_file_load(*file, "m", &o, info, ret);
		if (*ret_r < 0 || info->read)
			break;
		tarn_tensor_unref(*ret);
		*ret = NULL;
		*file = open_anew(*file);
		why = evict(*file);
	}
	return why;
}

static void cold(tarn_file **file)
{
	struct reported reported = {.cancel_at = -1};
	struct tarn_copy_info info;
	uint64_t begin, size;
	tarn_tensor *t = NULL;
	const char *why;
	int r = 0;

	why = load_cold(file, &reported, &info, &r, &t);
	if (why) {
		skip(5, "a cold file is read: %s", why);
		return;
	}
	if (!is_int(0, r, "a cold file is loaded"))
		bail("%s", tarn_error_message());
	tarn_file_data_range(*file, &begin, &size);
	ok(io_mostly_cached(tarn_file_fd(*file), begin + A, begin + size),
		"a cold file is read before it is mapped");
	is_int(M, (int64_t)info.read, "the load counts the bytes that it read");
	is_int(TARN_STORAGE_MAPPED, tarn_storage_kind(t->storage),
		"a cold file is mapped after it was read");
	is_mem(wanted + A, tarn_tensor_data(t), M,
		"a cold file's load has the file's bytes");
	tarn_tensor_unref(t);
}

/* A progress function can stop a load. */
static void stopped(tarn_file **file)
{
	struct reported reported = {.cancel_at = 1};
	struct tarn_copy_info info;
	tarn_tensor *t = NULL;
	const char *why;
	int r = 0;

	why = load_cold(file, &reported, &info, &r, &t);
	if (why) {
		skip(2, "a load of a cold file is cancelled: %s", why);
		return;
	}
	is_int(-ECANCELED, r,
		"a load of a cold file is cancelled by its first progress");
	has_str("cancelled when 2097152 of 5242880 bytes", tarn_error_message(),
		"the error says when the load was cancelled");
}

/* And sees more than the end. */
static void test_reported(tarn_file **file)
{
	struct reported reported = {.cancel_at = 3};
	struct tarn_copy_info info;
	tarn_tensor *t = NULL;
	const char *why;
	int r = 0;

	why = load_cold(file, &reported, &info, &r, &t);
	if (why) {
		skip(6, "a load of a cold file tells its progress: %s", why);
		return;
	}
	if (!is_int(0, r, "a load of a cold file with progress succeeds"))
		bail("%s", tarn_error_message());
	is_int(3, reported.calls,
		"the progress of a load is reported in pieces");
	is_int(M, (int64_t)reported.last,
		"a refusal of the last progress cancels nothing");
	is_int(M, (int64_t)reported.total,
		"the progress has the total of the tensor's bytes");
	is_int(M, (int64_t)info.read,
		"a load with progress counts the bytes that it read");
	is_mem(wanted + A, tarn_tensor_data(t), M,
		"a load with progress has the file's bytes");
	tarn_tensor_unref(t);
}

/* Mapped, they would never be looked at. */
static void bad_options(tarn_file *file)
{
	static const struct {
		struct tarn_copy_options o;
		const char *says;
	} cases[] = {
		{{.engine = "steam"}, "there is no engine \"steam\""},
		{{.threads = -1}, "-1 threads"},
		{{.io_mode = (enum tarn_io_mode)7}, "there is no I/O mode 7"},
		{{.rounding = (enum tarn_rounding)9}, "there is no rounding 9"},
	};

	warm(file);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		tarn_tensor *t = NULL;

		is_int(-EINVAL,
			tarn_file_load(file, "m", &cases[i].o, NULL, &t),
			"a load of a cached file with wrong options is "
			"refused");
		has_str(cases[i].says, tarn_error_message(),
			"the error of wrong options contains the expected "
			"words");
		ok(!t, "a refused load returns no tensor");
		tarn_tensor_unref(t);
	}
}

static void refused(tarn_file *file)
{
	tarn_tensor *t = NULL;

	is_int(-ENOENT, tarn_file_load(file, "x", NULL, NULL, &t),
		"a load of a tensor that does not exist is refused");
	has_str("there is no tensor 'x'", tarn_error_message(),
		"the error contains the expected words");
	t = load(file, "none", NULL, NULL);
	is_int(0, tarn_layout_numel(tarn_tensor_layout(t)),
		"a tensor without bytes is loaded without elements");
	ok(tarn_tensor_data(t), "a loaded tensor without bytes has an address");
	tarn_tensor_unref(t);
	if (truncate(path, 4096) < 0)
		bail("%s: %m", path);
	is_int(-ENODATA, tarn_file_load(file, "m", NULL, NULL, &t),
		"a load from a file that has shrunk fails");
	has_str("ends at byte 4096", tarn_error_message(),
		"the error contains 'ends at byte 4096'");
}

int main(void)
{
	tarn_file *file = make_file();

	stopped(&file); /* first: what is mapped stays in the page cache */
	file = open_anew(file);
	test_reported(&file);
	file = open_anew(file);
	cold(&file);
	cached(file);
	forced(file);
	bad_options(file);
	refused(file);
	tarn_file_unref(file);
	unlink(path);
	free(wanted);
	return done(45);
}
