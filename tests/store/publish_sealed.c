/* SPDX-License-Identifier: MIT */
/*
 * No process can write a published tensor: not its creator, through the old
 * address, the old descriptor, /proc or a new mapping, and no reader; and the
 * bytes are the same at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

#define SIZE (4 << 20)

static tarn_store *store;

/* A descriptor of ours, open for writing, to the memfd of that address. */
static int descriptor_of(void)
{
	char path[64], target[64];

	for (int fd = 3; fd < 200; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = '\0';
		if (strstr(target, "memfd:tarn-tensor"))
			return open(path, O_RDWR | O_CLOEXEC);
	}
	bail("the memfd of a created tensor was not found");
}

static tarn_tensor *created(void)
{
	const int64_t n = SIZE;
	tarn_tensor *t = NULL;

	if (tarn_store_create(store, TARN_U8, 1, &n, 0, &t) < 0)
		bail("%s", tarn_error_message());
	memset(tarn_tensor_data(t), 7, SIZE);
	return t;
}

static bool is_whole(const char *name)
{
	tarn_tensor *t = NULL;
	const unsigned char *p;
	size_t i = 0;

	if (tarn_store_lookup(store, name, &t) < 0)
		return false;
	p = tarn_tensor_data(t);
	while (i < SIZE && p[i] == 7)
		i++;
	tarn_tensor_unref(t);
	return i == SIZE;
}

/* Does a store to that address end the process? */
static bool writing_kills(volatile unsigned char *p)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		p[100] = 8;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) &&
	       (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
}

/* A tool for debuggers, which overrides what protects a page. */
static bool proc_mem_writes(const void *p)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	bool wrote = fd >= 0 && pwrite(fd, "x", 1, (off_t)(uintptr_t)p) == 1;

	close(fd);
	return wrote;
}

static void test_address(tarn_tensor *t)
{
	unsigned char *p = tarn_tensor_data(t);

	ok(writing_kills(p), "a store to the creator's old address is fatal");
	ok(mprotect(p, SIZE, PROT_READ | PROT_WRITE) < 0 && errno == EACCES,
		"the mapping cannot be made writable");
	ok(!proc_mem_writes(p),
		"/proc/self/mem cannot write past the mapping's protection");
	is_int(-EROFS, tarn_tensor_set_f64(t, (int64_t[]) {0}, 1),
		"a write through the tensor fails with EROFS");
}

static void test_descriptor(int fd, const char *what)
{
	const int flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	ok(pwrite(fd, "x", 1, 0) < 0, "%s: a write to the descriptor fails",
		what);
	ok(ftruncate(fd, 0) < 0, "%s: the memory cannot be made smaller", what);
	ok(ftruncate(fd, 2 * SIZE) < 0, "%s: the memory cannot be made larger",
		what);
	ok(fallocate(fd, flags, 0, SIZE) < 0,
		"%s: the memory cannot be punched", what);
	ok(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, SIZE) < 0,
		"%s: the memory cannot be zeroed", what);
	ok(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
			MAP_FAILED,
		"%s: the memory cannot be mapped for writing", what);
	ok(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0,
		"%s: the memory's seals are final", what);
}

static void test_reopened(int fd, const char *what)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fchmod(fd, 0600);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again < 0) {
		skip(7, "%s: cannot be reopened for writing at all", what);
		return;
	}
	test_descriptor(again, what);
	close(again);
}

/* What the daemon gives to readers. */
static void test_given(const char *socket, const tarn_tensor *t)
{
	struct tarn_descriptor d;
	struct msg_storage ask = {0};
	struct raw raw;

	must(tarn_store_export(store, t, &d));
	ask.index = d.storage;
	ask.generation = d.generation;
	raw_open(&raw, socket);
	raw_send(&raw, WIRE_STORAGE, &ask, sizeof(ask), NULL, 0);
	is_int(WIRE_STORAGE_FD, raw_answer(&raw),
		"a reader asks for the storage's descriptor");
	if (!is_int(1, raw.n_fds, "a reader of the storage gets a descriptor"))
		return raw_close(&raw);
	is_int(O_RDONLY, fcntl(raw.fds[0], F_GETFL) & O_ACCMODE,
		"the reader's descriptor is read-only");
	test_descriptor(raw.fds[0], "as it is given");
	test_reopened(raw.fds[0], "what is given, reopened");
	raw_close(&raw);
}

/* A writer that goes on while its memory is published does not change the
 * tensor, which is a copy. */
static void test_writer(void)
{
	struct tarn_publish_item item = {
		.name = "written", .tensor = created()};
	int fd = descriptor_of();
	unsigned char *map =
		mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	is_int(0, tarn_store_publish(store, &item, 1, NULL, NULL),
		"a tensor is published while another mapping is left");
	memset(map, 9, SIZE);
	ok(is_whole("written"),
		"writes through the left mapping are not seen by others");
	is_int(0, tarn_tensor_set_f64(item.tensor, (int64_t[]) {0}, 1),
		"the creator has its own writable memory again");
	munmap(map, SIZE);
	close(fd);
	tarn_tensor_unref(item.tensor);
}

int main(void)
{
	struct tarn_publish_item item = {.name = "sealed"};
	struct daemon daemon;
	int fd;

	daemon_start(&daemon, "sealed.sock", NULL);
	if (tarn_store_open(daemon.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	item.tensor = created();
	fd = descriptor_of();
	ok(pwrite(fd, "\7", 1, 0) == 1,
		"a created tensor's descriptor can write before the "
		"publication");
	if (!is_int(0, tarn_store_publish(store, &item, 1, NULL, NULL),
		    "a tensor is published while a descriptor is left"))
		diag("%s", tarn_error_message());
	test_descriptor(fd, "the creator's old descriptor");
	test_reopened(fd, "the same, reopened");
	test_given(daemon.socket, item.tensor);
	test_address(item.tensor);
	ok(is_whole("sealed"),
		"the published bytes are unchanged after all attempts");
	close(fd);
	test_writer();
	tarn_tensor_unref(item.tensor);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	return done(42);
}
