/* SPDX-License-Identifier: MIT */
/*
 * The cached bytes of a file are those that a later load would read, whoever
 * writes the file and however: by a mapping, while it is loaded, in its first
 * second. A load that is not cached goes with its last holder, and so do
 * cached bytes of an earlier version. Loads at the same time share their
 * bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/clock.h"
#include "base/identity.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/report.h"
#include "tests/kit/stamps.h"
#include "tests/kit/tap.h"

#define SIZE (1u << 20)
#define LARGE (64u << 20)
#define PATIENCE_MS 60000
#define TICKS_MS 20000 /* for a writer to be let run in each of a few */

static struct daemon server;
static tarn_store *store;
static char path[300];

/* One U8 tensor "t", all of that value. */
static void make_file(const char *folder, size_t size, int value)
{
	char header[200] = "";
	unsigned char *bytes = malloc(size);
	uint64_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/not-kept-%d.safetensors", folder,
		(int)getpid());
	n = (uint64_t)snprintf(header, sizeof(header),
		"{\"t\":{\"dtype\":\"U8\",\"shape\":[%zu],"
		"\"data_offsets\":[0,%zu]}}",
		size, size);
	f = fopen(path, "w");
	if (!f || !bytes)
		bail("%s: %m", path);
	memset(bytes, value, size);
	fwrite(&n, 8, 1, f);
	fwrite(header, 1, n, f);
	if (fwrite(bytes, 1, size, f) != size || fclose(f) != 0)
		bail("%s: %m", path);
	free(bytes);
}

static off_t data_offset(void)
{
	tarn_file *file;
	uint64_t offset, size;

	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	tarn_file_data_range(file, &offset, &size);
	tarn_file_unref(file);
	return (off_t)offset;
}

/* The first byte that a load gives. */
static int load(bool fresh, struct tarn_load_info *info, tarn_tensor **all)
{
	struct tarn_load_options options = {.fresh = fresh};
	tarn_tensor *t = NULL;
	tarn_file *file = NULL;
	int r = tarn_file_open(path, &file);

	if (r >= 0)
		r = tarn_store_load(store, file, &options, info, &t);
	if (r >= 0)
		r = *(unsigned char *)tarn_tensor_data(t);
	else
		diag("%s", tarn_error_message());
	tarn_file_unref(file);
	if (all)
		*all = t;
	else
		tarn_tensor_unref(t);
	return r;
}

static struct tarn_report_daemon status(void)
{
	struct tarn_report_daemon s;

	if (report_daemon(store, &s) < 0)
		bail("%s", tarn_error_message());
	return s;
}

static uint64_t storages_in(int64_t ms, uint64_t wanted)
{
	int64_t end = clock_ms() + ms;
	uint64_t n;

	while ((n = status().storages) != wanted && clock_ms() < end)
		usleep(10000);
	return n;
}

/* ---- writers ------------------------------------------------------------- */

static unsigned char *map_writable(int *ret_fd)
{
	struct stat st;
	void *at;

	*ret_fd = open(path, O_RDWR | O_CLOEXEC);
	if (*ret_fd < 0 || fstat(*ret_fd, &st) < 0)
		bail("%s: %m", path);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		*ret_fd, 0);
	if (at == MAP_FAILED)
		bail("%s: %m", path);
	return at;
}

/* A mapping whose pages are dirty changes them without a stamp. */
static void by_mapping(const char *folder)
{
	struct tarn_load_info info = {0};
	unsigned char *at;
	off_t data;
	int fd;

	make_file(folder, SIZE, 1);
	data = data_offset();
	at = map_writable(&fd);
	close(fd);
	memset(at + data, 3, SIZE);
	is_int(3, load(false, &info, NULL),
		"%s: a file that is mapped for writing is loaded", folder);
	ok(info.not_kept, "%s: a file that is mapped for writing is not cached",
		folder);
	memset(at + data, 4, SIZE);
	is_int(4, load(false, NULL, NULL),
		"%s: writes through a mapping are seen by the next load",
		folder);
	munmap(at, (size_t)data + SIZE);
	is_int(4, load(false, NULL, NULL),
		"%s: the last version of the file is loaded", folder);
	/* One that reads first, and so is no first fault of a store. */
	at = map_writable(&fd);
	close(fd);
	for (off_t i = 0; i < data + (off_t)SIZE; i += 4096)
		*(volatile unsigned char *)(at + i);
	memset(at + data, 5, SIZE);
	munmap(at, (size_t)data + SIZE);
	is_int(5, load(false, NULL, NULL),
		"%s: writes to pages that were read first are seen", folder);
	unlink(path);
}

static void by_descriptor(void)
{
	struct tarn_load_info info = {0};
	int fd;

	make_file(test_tmpdir(), SIZE, 1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	load(false, &info, NULL);
	has_str("open for writing", info.not_kept ? info.not_kept : "",
		"the reason is that the file is open for writing");
	load(false, &info, NULL);
	ok(!info.cached, "the next load reads the file again");
	close(fd);
	load(false, &info, NULL);
	ok(!info.cached && !info.not_kept == stamps_last(path),
		"the file is cached when it has no writer");
	load(false, &info, NULL);
	ok(info.cached == stamps_last(path),
		"a file without writers is found in the cache");
	unlink(path);
}

/* By a writer that opens and closes the file many times a tick: stamps and
 * leases, which are asked one after the other, may both miss it. */
static void in_every_tick(void)
{
	int64_t end = clock_ms() + TICKS_MS;
	struct file_identity id;
	int fd, r = 0;
	pid_t writer;

	make_file(test_tmpdir(), SIZE, 1);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	writer = fork();
	if (writer < 0)
		bail("fork: %m");
	while (writer == 0) {
		int out = open(path, O_WRONLY | O_CLOEXEC);

		if (pwrite(out, "", 1, SIZE - 1) != 1 || close(out) != 0)
			_exit(1);
	}
	/* It needs a processor without a pause that lasts longer than a
	 * tick. */
	while (r == 0 && clock_ms() < end)
		r = identity_settled(fd, &id);
	if (r != 0)
		is_int(1, r, "the file's time stamps change in every tick");
	else
		skip(1, "the writer was never let run in every tick");
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	is_int(0, identity_settled(fd, &id),
		"the file's time stamps settle after its last change");
	close(fd);
	unlink(path);
}

/* ---- what is not kept, and what was ------------------------------------- */

/* By a daemon that has nothing else. */
static void freed(void)
{
	tarn_tensor *all = NULL;
	int fd;

	make_file(test_tmpdir(), SIZE, 1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	load(false, NULL, &all);
	ok(all, "a load that is not cached is held by its client");
	is_int(1, (int64_t)status().storages,
		"a load that is not cached is one storage");
	tarn_tensor_unref(all);
	is_int(0, (int64_t)storages_in(PATIENCE_MS, 0),
		"a load that is not cached is freed with its last holder");
	close(fd);
	unlink(path);
}

/* Connects, says that it is there, and loads when all are. */
static _Noreturn void load_with_others(const int ready[2], const int go[2])
{
	char c;

	close(go[1]);
	tarn_store_unref(store);
	if (tarn_store_open(server.socket, NULL, &store) < 0 ||
		write(ready[1], "", 1) != 1 || read(go[0], &c, 1) < 0)
		_exit(1);
	_exit(load(false, NULL, NULL) == 7 ? 0 : 1);
}

/* In its first second, by many at once. One that comes when the others have
 * been answered finds what was kept for them. */
static void at_once(void)
{
	enum { N = 4 };
	struct tarn_report_daemon before, after;
	pid_t pids[N];
	int ready[2], go[2], right = 0, st;
	char c;

	make_file(test_tmpdir(), LARGE, 7);
	if (!stamps_last(path)) {
		skip(2, "the stamps of this file system do not last");
		unlink(path);
		return;
	}
	before = status();
	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	for (int i = 0; i < N; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			load_with_others(ready, go);
	}
	close(ready[1]);
	for (int i = 0; i < N; i++)
		if (read(ready[0], &c, 1) != 1)
			diag("a process could not connect");
	close(ready[0]);
	close(go[0]);
	close(go[1]);
	for (int i = 0; i < N; i++)
		right += waitpid(pids[i], &st, 0) == pids[i] && st == 0;
	after = status();
	is_int(N, right, "processes load a file that was just written at once");
	is_int(LARGE, (int64_t)(after.bytes_loaded - before.bytes_loaded),
		"loads at the same time read the file once");
	unlink(path);
}

/* By a daemon that has nothing else: one that let go of other storages
 * meanwhile would count these, too. */
static void rewritten(void)
{
	struct tarn_load_info info = {0};

	make_file(test_tmpdir(), SIZE, 1);
	if (!stamps_last(path)) {
		skip(8, "the stamps of this file system do not last");
		unlink(path);
		return;
	}
	is_int(1, load(false, NULL, NULL), "the file is loaded and cached");
	make_file(test_tmpdir(), SIZE, 2);
	is_int(2, load(false, &info, NULL), "the rewritten file is loaded");
	ok(!info.cached, "the rewritten file is read");
	is_int(1, (int64_t)storages_in(PATIENCE_MS, 1),
		"the version before is no longer cached");
	is_int(2, load(true, &info, NULL), "a fresh load succeeds");
	ok(!info.cached, "a fresh load reads a file that is cached");
	is_int(1, (int64_t)storages_in(PATIENCE_MS, 1),
		"a fresh load replaces the kept bytes");
	load(false, &info, NULL);
	ok(info.cached, "the next load finds the bytes of the fresh load");
	unlink(path);
}

static bool is_tmpfs(const char *folder)
{
	struct statfs st;

	return statfs(folder, &st) == 0 && st.f_type == 0x01021994 &&
	       access(folder, W_OK) == 0;
}

static void start(void)
{
	daemon_start(&server, "s", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
}

static void stop(void)
{
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
}

int main(void)
{
	start();
	freed();
	by_mapping(test_tmpdir());
	if (is_tmpfs("/dev/shm"))
		by_mapping("/dev/shm");
	else
		skip(5, "/dev/shm is no tmpfs that this user may write");
	by_descriptor();
	in_every_tick();
	at_once();
	stop();
	start();
	rewritten();
	stop();
	return done(31);
}
