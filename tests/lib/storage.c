// SPDX-License-Identifier: MIT
/*
 * Storages: bytes are given back once, by whichever reference goes last, in
 * whichever thread; a file is read where it is asked for and nowhere else.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/tensor/storage.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static void count_release(void *arg)
{
	++*(int *)arg;
}

static void owned(void)
{
	tarn_storage *s = NULL;
	char zero[100] = {0};

	is_int(0, tarn_storage_alloc(100, &s),
		"a storage of 100 bytes is made");
	is_int(TARN_STORAGE_OWNED, tarn_storage_kind(s),
		"a new storage is owned");
	is_int(100, (int64_t)tarn_storage_size(s),
		"a new storage has its size");
	ok(tarn_storage_writable(s), "a new storage is writable");
	is_int(0, (intptr_t)tarn_storage_data(s) % 64,
		"a new storage is aligned to 64 bytes");
	is_mem(zero, tarn_storage_data(s), 100, "a new storage is zero");
	ok(!tarn_storage_unref(s), "unref returns NULL");
	ok(!tarn_storage_unref(NULL), "unref of NULL returns NULL");
	is_int(0, tarn_storage_alloc(0, &s), "a storage of no bytes is made");
	tarn_storage_unref(s);
	is_int(-ENOMEM, tarn_storage_alloc(UINT64_MAX, &s),
		"a storage of 2^64 bytes is refused");
	has_str("18446744073709551615", tarn_error_message(),
		"the error has the number of bytes");
}

/* How much memory of the process is at an address range. */
static int resident(const char *start, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = (uintptr_t)start & ~(page - 1);
	size_t n = ((uintptr_t)start + size - begin + page - 1) / page;
	unsigned char *seen = calloc(1, n);
	int count = 0;

	if (mincore((void *)begin, n * page, seen) < 0)
		count = -1;
	for (size_t i = 0; count >= 0 && i < n; i++)
		count += seen[i] & 1;
	free(seen);
	return count;
}

/* Large ones are pages of their own: at a place fit for direct I/O, and
 * nothing is kept of them. */
static void large(void)
{
	static const struct {
		uint64_t size, offset;
		uintptr_t align;
	} cases[] = {
		{1 << 20, 0, 4096},
		{(1 << 20) + 1, 0, 4096},
		{(4 << 20) - 1, 0, 4096},
		{4 << 20, 0, 2 << 20},
		{(9 << 20) + 5, 0, 2 << 20},
		{1 << 20, 8216, 4096},
		{4 << 20, 4095, 2 << 20},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t size = cases[i].size, offset = cases[i].offset;
		tarn_storage *s = NULL;
		char *p;

		if (storage_alloc_like(size, offset, &s) < 0)
			bail("%s", tarn_error_message());
		p = tarn_storage_data(s);
		is_int((int64_t)(offset % 4096),
			(int64_t)((uintptr_t)p % cases[i].align),
			"%llu bytes lie as far behind a page as byte %llu",
			(unsigned long long)size, (unsigned long long)offset);
		is_int(0, resident(p, size),
			"no page of a new large storage is touched");
		is_int(0, p[0] | p[size / 2] | p[size - 1],
			"a new large storage is zero");
		p[0] = p[size - 1] = 1;
		tarn_storage_unref(s);
		is_int(-1, resident(p, size),
			"the pages of a freed storage are given back");
	}
}

static void borrowed(void)
{
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL;
	struct tarn_layout l;
	int released = 0;
	float data[4] = {1, 2, 3, 4};

	is_int(0,
		tarn_storage_borrow(
			data, sizeof(data), 0, count_release, &released, &s),
		"memory is borrowed as a storage");
	must(tarn_layout_contiguous(TARN_F32, 1, (int64_t[]) {4}, &l));
	is_int(0, tarn_tensor_new(s, 0, &l, &t),
		"a tensor over borrowed memory is made");
	is_int(-EROFS, tarn_tensor_set_f64(t, (int64_t[]) {0}, 5),
		"a read-only borrowed tensor cannot be set");
	has_str("read-only", tarn_error_message(),
		"the error contains 'read-only'");
	is_int(1, (int64_t)data[0], "the borrowed memory is unchanged");
	s = tarn_storage_unref(s);
	is_int(0, released, "the tensor keeps the borrowed memory");
	ok(tarn_tensor_data(t) == data,
		"the tensor is where the borrowed memory is");
	t = tarn_tensor_unref(t);
	is_int(1, released,
		"the last reference gives borrowed memory back once");
	is_int(-EINVAL,
		tarn_storage_borrow(data, sizeof(data),
			TARN_BORROW_WRITABLE << 1, NULL, NULL, &s),
		"a flag that the library does not know is refused");
	is_int(-EINVAL,
		tarn_storage_borrow(
			NULL, 1, TARN_BORROW_WRITABLE, NULL, NULL, &s),
		"borrowing memory without an address is refused");
}

#define THREADS 4
#define ROUNDS 20000

static void *ref_and_unref(void *arg)
{
	tarn_tensor *t = arg;

	for (int i = 0; i < ROUNDS; i++) {
		tarn_tensor_ref(t);
		tarn_storage_ref(tarn_tensor_storage(t));
		tarn_storage_unref(tarn_tensor_storage(t));
		tarn_tensor_unref(t);
	}
	tarn_tensor_unref(t);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL;
	struct tarn_layout l;
	int released = 0;
	char byte;

	must(tarn_storage_borrow(
		&byte, 1, TARN_BORROW_WRITABLE, count_release, &released, &s));
	must(tarn_layout_contiguous(TARN_U8, 0, NULL, &l));
	must(tarn_tensor_new(s, 0, &l, &t));
	tarn_storage_unref(s);
	for (int i = 0; i < THREADS; i++) {
		tarn_tensor_ref(t);
		if (pthread_create(&thread[i], NULL, ref_and_unref, t))
			bail("no thread");
	}
	tarn_tensor_unref(t);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	is_int(1, released, "%d threads release a storage once", THREADS);
}

static int make_file(char *path, size_t size)
{
	unsigned char bytes[64];
	int fd;

	snprintf(path, size, "%s/file", test_tmpdir());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (int i = 0; i < 64; i++)
		bytes[i] = (unsigned char)i;
	if (fd < 0 || write(fd, bytes, 64) != 64)
		bail("%s: %m", path);
	return fd;
}

static void in_file(void)
{
	char path[4200];
	int fd = make_file(path, sizeof(path)), writer;
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL;
	struct tarn_layout l;
	unsigned char buf[8];
	int64_t n = 0;

	is_int(0, tarn_storage_from_fd(fd, 10, 20, &s),
		"20 bytes of a file are a storage");
	ok(!tarn_storage_data(s), "a storage of a file has no address");
	ok(!tarn_storage_writable(s), "a storage of a file is read-only");
	is_int(0, tarn_storage_read(s, 5, buf, 3),
		"three bytes of a file's storage are read");
	is_mem("\x0f\x10\x11", buf, 3,
		"the bytes are read from their place in the file");
	is_int(-ERANGE, tarn_storage_read(s, 18, buf, 3),
		"a read past the storage's range is refused");
	must(tarn_layout_contiguous(TARN_I16, 1, (int64_t[]) {3}, &l));
	is_int(0, tarn_tensor_new(s, 1, &l, &t),
		"an unaligned tensor in a file is made");
	ok(!tarn_tensor_data(t),
		"an unaligned tensor in a file has no address");
	is_int(0, tarn_tensor_get_i64(t, (int64_t[]) {2}, &n),
		"an element of an unaligned tensor is read");
	is_int(0x100f, n, "the element has the file's value");
	is_int(-EROFS, tarn_tensor_set_i64(t, (int64_t[]) {0}, 1),
		"an element of a file's storage cannot be set");
	close(fd);
	is_int(0, tarn_tensor_get_i64(t, (int64_t[]) {0}, &n),
		"the storage holds its own descriptor");
	if (truncate(path, 12))
		bail("truncate: %m");
	is_int(-ENODATA, tarn_tensor_get_i64(t, (int64_t[]) {2}, &n),
		"a read from a file that shrank is an error");
	has_str("ends at byte", tarn_error_message(),
		"the error says where the file ends");
	tarn_storage_unref(s);
	tarn_tensor_unref(t);

	writer = open(path, O_WRONLY | O_CLOEXEC);
	is_int(-EBADF, tarn_storage_from_fd(writer, 0, 1, &s),
		"a storage of a descriptor for writing is refused");
	close(writer);
	is_int(-EBADF, tarn_storage_from_fd(-1, 0, 1, &s),
		"a storage of a descriptor of -1 is refused");
	writer = open(path, O_RDONLY | O_CLOEXEC);
	is_int(-EOVERFLOW, tarn_storage_from_fd(writer, 1, UINT64_MAX, &s),
		"a range whose end overflows is refused");
	close(writer);
	unlink(path);
}

static void *ask_direct(void *arg)
{
	return (void *)(intptr_t)storage_file_direct(arg);
}

/* The second descriptor: opened once, whoever asks; the same file and
 * rights. */
static void file_twin(void)
{
	char path[4200];
	int fd = make_file(path, sizeof(path)), direct, odd;
	pthread_t thread[THREADS];
	tarn_storage *s = NULL;
	char byte, name[4200];

	is_int(0, tarn_storage_from_fd(fd, 10, 20, &s),
		"a storage of a descriptor for both ways is made");
	ok(storage_file(s)->readable && !storage_file(s)->writable,
		"a file to be read is not writable");
	is_int(10, (int64_t)storage_file(s)->offset,
		"the storage begins at byte 10 of the file");
	is_str(path, storage_file_name(storage_file(s), name, sizeof(name)),
		"the storage has the name of its file, for errors");
	is_str("/", storage_file_name(storage_file(s), name, 2),
		"the name of the file is cut to a small buffer");
	odd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	unlink(path);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, ask_direct, s))
			bail("no thread");
	direct = storage_file_direct(s);
	for (int i = 0; i < THREADS; i++) {
		void *seen;

		pthread_join(thread[i], &seen);
		is_int(direct, (intptr_t)seen,
			"all threads get the same direct descriptor");
	}
	is_int(odd < 0, direct < 0,
		"a direct descriptor exists where the disk has direct I/O");
	if (direct >= 0)
		is_int(O_RDONLY | O_DIRECT,
			fcntl(direct, F_GETFL) & (O_ACCMODE | O_DIRECT),
			"the direct descriptor has O_DIRECT and is for "
			"reading only");
	s = tarn_storage_unref(s);
	ok(direct < 0 || fcntl(direct, F_GETFL) < 0,
		"the direct descriptor is closed with the storage");

	if (odd >= 0) {
		is_int(0, tarn_storage_to_fd(odd, 0, 9, &s),
			"a storage of a direct descriptor is made");
		ok(!(fcntl(storage_file(s)->fd, F_GETFL) & O_DIRECT),
			"a storage of a direct descriptor has a buffered one");
		is_int(-EBADF, tarn_storage_read(s, 0, &byte, 1),
			"a storage for writing only cannot be read");
		has_str("writing only", tarn_error_message(),
			"the error contains 'writing only'");
		tarn_storage_unref(s);
	}
	fd_close(odd);
	close(fd);
}

static void file_to_write(void)
{
	char path[4200];
	int fd = make_file(path, sizeof(path)), other;
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL;
	struct tarn_layout l;
	int64_t n = 0;

	is_int(0, tarn_storage_to_fd(fd, 60, 20, &s),
		"a storage past the file's end is made for writing");
	ok(tarn_storage_writable(s), "a storage for writing is writable");
	ok(!tarn_storage_data(s), "a storage for writing has no address");
	must(tarn_layout_contiguous(TARN_U8, 1, (int64_t[]) {20}, &l));
	is_int(0, tarn_tensor_new(s, 0, &l, &t),
		"a tensor in a file for writing is made");
	is_int(-ENOTSUP, tarn_tensor_set_i64(t, (int64_t[]) {0}, 1),
		"elements of a file for writing cannot be set");
	has_str("tarn_copy", tarn_error_message(),
		"the error suggests tarn_copy");
	is_int(0, tarn_tensor_get_i64(t, (int64_t[]) {3}, &n),
		"an element of a file to be written can be read");
	is_int(63, n, "the element has the value in the file for writing");
	tarn_tensor_unref(t);
	tarn_storage_unref(s);

	other = open(path, O_RDONLY | O_CLOEXEC);
	is_int(-EBADF, tarn_storage_to_fd(other, 0, 1, &s),
		"a descriptor for reading is refused");
	close(other);
	other = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	is_int(-EINVAL, tarn_storage_to_fd(other, 0, 1, &s),
		"a descriptor with O_APPEND is refused");
	close(other);
	is_int(-EBADF, tarn_storage_to_fd(-1, 0, 1, &s),
		"a descriptor of -1 is refused");
	is_int(-EOVERFLOW, tarn_storage_to_fd(fd, INT64_MAX, 1, &s),
		"a range beyond any file is refused");
	close(fd);
	unlink(path);
	rmdir(test_tmpdir());
}

int main(void)
{
	owned();
	large();
	borrowed();
	threads();
	in_file();
	file_twin();
	file_to_write();
	return done(95);
}
