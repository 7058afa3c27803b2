/* SPDX-License-Identifier: MIT */
/*
 * A store against the real daemon: a file becomes tensors that a second
 * process reads, by name, by address and by descriptor; a removed tensor stays
 * readable while it is held, and its memory is given back when it is dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/stamps.h"
#include "tests/kit/tap.h"

#define N_FLOATS 200000

static struct daemon server;
static char path[300];
static const char *self;

/* A header of odd length, so that nothing is aligned in the file. */
static const char header[] = "{\"f\":{\"dtype\":\"F32\",\"shape\":[400,500],"
			     "\"data_offsets\":[0,800000]},"
			     "\"none\":{\"dtype\":\"I16\",\"shape\":[3,0],"
			     "\"data_offsets\":[800000,800000]},"
			     "\"one\":{\"dtype\":\"I64\",\"shape\":[],"
			     "\"data_offsets\":[800000,800008]}} ";

static void make_file(void)
{
	uint64_t size = sizeof(header) - 1;
	int64_t one = -42;
	FILE *f;

	snprintf(path, sizeof(path), "%s/m.safetensors", test_tmpdir());
	f = fopen(path, "w");
	if (!f)
		bail("%s: %s", path, strerror(errno));
	fwrite(&size, 8, 1, f);
	fwrite(header, 1, size, f);
	for (int i = 0; i < N_FLOATS; i++) {
		float x = (float)i / 2;

		fwrite(&x, 4, 1, f);
	}
	fwrite(&one, 8, 1, f);
	fclose(f);
}

static tarn_store *open_store(void)
{
	tarn_store *store;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	return store;
}

static bool has_floats(const tarn_tensor *t)
{
	const float *p = tarn_tensor_data(t);

	for (int i = 0; p && i < N_FLOATS; i++) {
		float x;

		memcpy(&x, (const char *)p + 4ul * (unsigned)i, 4);
		if (x != (float)i / 2)
			return false;
	}
	return p;
}

static uint64_t used(tarn_store *store)
{
	struct tarn_report_daemon status = {0};

	report_daemon(store, &status);
	return status.used;
}

/* ---- the second process ---------------------------------------------- */

/* Runs this program again: store reader SOCKET WHAT. Its exit status. */
static int run_reader(const char *what, int in)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (in >= 0)
			dup2(in, 0);
		execl(self, self, "reader", server.socket, what, NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int reader(const char *socket, const char *what)
{
	struct tarn_descriptor d;
	tarn_store *store;
	tarn_tensor *t;
	int r;

	if (tarn_store_open(socket, NULL, &store) < 0)
		return 2;
	if (strcmp(what, "-") == 0)
		r = read(0, &d, sizeof(d)) == sizeof(d)
			    ? tarn_store_import(store, &d, &t)
			    : -EIO;
	else
		r = tarn_store_get(store, what, NULL, &t);
	if (r < 0) {
		diag("reader: %s: %s", what, tarn_error_message());
		tarn_store_unref(store);
		return r == -ENOENT ? 3 : r == -ESTALE ? 4 : 5;
	}
	r = has_floats(t) ? 0 : 6;
	tarn_store_unref(store);
	r = has_floats(t) ? r : 7;
	tarn_tensor_unref(t);
	return r;
}

/* ---- the tests ------------------------------------------------------- */

static int count_names(void *arg, const char *name,
	const struct tarn_descriptor *d, uint64_t version)
{
	++*(int *)arg;
	return strncmp(name, "model/", 6) != 0 || version != 1;
}

static void test_names(tarn_store *store)
{
	struct tarn_load_options options = {.name = "model"};
	struct tarn_load_info info;
	tarn_file *file;
	tarn_tensor *t;
	int64_t value = 0;
	int n = 0;

	is_int(0, tarn_file_open(path, &file),
		"the file to be loaded is opened");
	is_int(0, tarn_store_load(store, file, &options, &info, NULL),
		"the file is loaded with a name");
	is_int(800008, (int64_t)info.bytes, "the load reports all bytes");
	ok(strcmp(info.engine, "io_uring") == 0 ||
			strcmp(info.engine, "threads") == 0,
		"the load was read by %s", info.engine);
	ok(!info.cached, "the first load is not from the cache");
	is_int(0, tarn_store_list(store, "model/", count_names, &n),
		"the names of the load are listed");
	is_int(3, n, "the load has published three names");
	is_int(0, tarn_store_lookup(store, "model/f", &t),
		"a published name is looked up");
	ok(has_floats(t), "the opened tensor has its bytes");
	tarn_tensor_unref(t);
	is_int(0, tarn_store_lookup(store, "model/none", &t),
		"a tensor without elements is looked up");
	is_int(0, tarn_layout_numel(tarn_tensor_layout(t)),
		"the looked-up tensor has no elements");
	tarn_tensor_unref(t);
	is_int(0, tarn_store_lookup(store, "model/one", &t),
		"a scalar is looked up");
	is_int(0, tarn_tensor_get_i64(t, NULL, &value),
		"the scalar's value is read");
	is_int(-42, value, "the scalar has its own value");
	tarn_tensor_unref(t);
	is_int(-ENOENT, tarn_store_lookup(store, "model/g", &t),
		"a name that is not published is not found");
	is_int(0, run_reader("model/f", -1),
		"a second process reads the tensor");
	is_int(3, run_reader("model/g", -1),
		"a second process does not find a missing name");
	tarn_file_unref(file);
}

static void test_export(tarn_store *store)
{
	struct tarn_descriptor d;
	tarn_tensor *t;
	int ends[2];

	is_int(0, tarn_store_lookup(store, "model/f", &t),
		"a tensor is looked up to be exported");
	is_int(0, tarn_store_export(store, t, &d),
		"the tensor is exported as 256 bytes");
	if (pipe(ends) < 0 || write(ends[1], &d, sizeof(d)) != sizeof(d))
		bail("pipe: %s", strerror(errno));
	is_int(0, run_reader("-", ends[0]),
		"a second process imports the descriptor from a pipe");
	/* Removed under our hands: the descriptor still means it. */
	is_int(0, tarn_store_remove(store, "model/f"),
		"the tensor's name is removed");
	is_int(0, tarn_store_remove(store, "model/none"),
		"the second name is removed");
	is_int(0, tarn_store_remove(store, "model/one"),
		"the last name is removed");
	is_int(-ENOENT, tarn_store_remove(store, "model/one"),
		"a removed name cannot be removed again");
	if (write(ends[1], &d, sizeof(d)) != sizeof(d))
		bail("pipe: %s", strerror(errno));
	is_int(0, run_reader("-", ends[0]),
		"a holder exports the tensor without a name");
	ok(has_floats(t), "the tensor that was handed on keeps its bytes");
	ok(used(store) >= 800008, "the memory of the held tensor is in use");
	tarn_tensor_unref(t);
	close(ends[0]);
	close(ends[1]);
}

static void test_addresses(tarn_store *store)
{
	struct tarn_report_daemon before, after;
	char address[400];
	tarn_tensor *t, *u;
	int n_failed = 0;

	snprintf(address, sizeof(address), "%s:f", path);
	is_int(0, tarn_store_get(store, address, NULL, &t),
		"a tensor is found by FILE:TENSOR");
	ok(has_floats(t), "the tensor by FILE:TENSOR has its elements");
	is_int(0, run_reader(address, -1),
		"a second process reads FILE:TENSOR, too");
	tarn_tensor_unref(t);
	/* Stamps of two seconds' age are believed. */
	usleep(2200000);
	is_int(0, tarn_store_get(store, address, NULL, &t),
		"a tensor of an older file is found by FILE:TENSOR");
	report_daemon(store, &before);
	for (int i = 0; i < 1000; i++) {
		n_failed += tarn_store_get(store, address, NULL, &u) < 0;
		tarn_tensor_unref(u);
	}
	report_daemon(store, &after);
	is_int(0, n_failed,
		"an older file's tensor is found a thousand times more");
	if (stamps_last(path))
		is_int((int64_t)before.loads + (int64_t)before.loads_cached,
			(int64_t)after.loads + (int64_t)after.loads_cached,
			"repeated look-ups of FILE:TENSOR ask the daemon "
			"nothing");
	else
		skip(1, "no file of this file system is kept for later loads");
	tarn_tensor_unref(t);
	is_int(0, run_reader(address, -1),
		"a second process gets the cached file");
	report_daemon(store, &after);
	ok(after.loads_cached > before.loads_cached || !stamps_last(path),
		"the second process's load is from the cache, if files are "
		"kept here");
}

static void test_changed(tarn_store *store)
{
	char address[400];
	tarn_tensor *t;
	tarn_file *file;
	int64_t index[2] = {0, 3};
	double value = 0;
	float x = 777;
	int fd = open(path, O_RDWR);

	if (fd < 0 ||
		pwrite(fd, &x, 4, 8 + (off_t)sizeof(header) - 1 + 12) != 4)
		bail("%s: %s", path, strerror(errno));
	snprintf(address, sizeof(address), "%s:f", path);
	is_int(0, tarn_store_get(store, address, NULL, &t),
		"a file that changed is found by FILE:TENSOR");
	must(tarn_tensor_get_f64(t, index, &value));
	ok(value == 777, "the file that changed is read anew: %g", value);
	tarn_tensor_unref(t);
	is_int(0, tarn_file_open(path, &file),
		"a file is opened before it is cut off");
	if (ftruncate(fd, 5000) < 0)
		bail("ftruncate: %s", strerror(errno));
	ok(tarn_store_load(store, file, NULL, NULL, NULL) < 0,
		"a file that was cut off is not loaded");
	diag("%s", tarn_error_message());
	tarn_file_unref(file);
	close(fd);
}

static void test_empty(tarn_store *store)
{
	struct tarn_load_options options = {.name = "empty"};
	static const char text[] = "\x02\0\0\0\0\0\0\0{}";
	static const char zero[] = "{\"z\":{\"dtype\":\"F64\",\"shape\":[0],"
				   "\"data_offsets\":[0,0]}}";
	uint64_t size = sizeof(zero) - 1;
	tarn_tensor *all;
	tarn_file *file;
	FILE *f = fopen(path, "w");

	fwrite(text, 1, sizeof(text) - 1, f);
	fclose(f);
	is_int(0, tarn_file_open(path, &file),
		"a file without tensors is opened");
	is_int(0, tarn_store_load(store, file, &options, NULL, &all),
		"a file without tensors is loaded");
	is_int(0, (int64_t)tarn_layout_nbytes(tarn_tensor_layout(all)),
		"the load of a file without tensors has no bytes");
	tarn_tensor_unref(all);
	tarn_file_unref(file);
	f = fopen(path, "w");
	fwrite(&size, 8, 1, f);
	fwrite(zero, 1, size, f);
	fclose(f);
	is_int(0, tarn_file_open(path, &file),
		"a file of a tensor without elements is opened");
	is_int(0, tarn_store_load(store, file, &options, NULL, NULL),
		"a file of a tensor without elements is loaded");
	tarn_file_unref(file);
	is_int(0, tarn_store_lookup(store, "empty/z", &all),
		"an empty tensor is found by its name");
	is_int(0, tarn_layout_numel(tarn_tensor_layout(all)),
		"the found tensor has no elements");
	tarn_tensor_unref(all);
	is_int(0, tarn_store_remove(store, "empty/z"),
		"the name of an empty tensor is removed");
}

/* A file of one tensor "b" of so many bytes, all of them a hole. */
static tarn_file *open_hole(unsigned long long bytes)
{
	char text[200];
	tarn_file *file;
	uint64_t size;
	FILE *f = fopen(path, "w");

	snprintf(text, sizeof(text),
		"{\"b\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		bytes, bytes);
	size = strlen(text);
	fwrite(&size, 8, 1, f);
	fwrite(text, 1, size, f);
	fclose(f);
	if (truncate(path, (off_t)(8 + size + bytes)) < 0)
		bail("truncate: %s", strerror(errno));
	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	return file;
}

/* What is larger than the budget is refused, and leaves nothing. */
static void test_full(tarn_store *store)
{
	struct tarn_load_options options = {.name = "big"};
	uint64_t before = used(store);
	tarn_file *file = open_hole(256ull << 20);
	tarn_tensor *t;

	is_int(-ENOSPC, tarn_store_load(store, file, &options, NULL, NULL),
		"a load of 256 MiB with a budget of 128 is refused");
	has_str("udget", tarn_error_message(), "the error names the budget");
	is_int(-ENOENT, tarn_store_lookup(store, "big/b", &t),
		"a refused load publishes no name");
	ok(used(store) <= before, "a refused load takes no memory");
	tarn_file_unref(file);
}

/* A holder keeps the bytes of what was removed; then their space is free. */
static void test_space(tarn_store *store)
{
	struct tarn_load_options options = {.name = "big"};
	tarn_file *file = open_hole(80ull << 20);
	tarn_tensor *held, *t;

	is_int(0, tarn_store_load(store, file, &options, NULL, NULL),
		"a load of 80 MiB is accepted");
	is_int(0, tarn_store_lookup(store, "big/b", &held),
		"the tensor of 80 MiB is held");
	is_int(0, tarn_store_remove(store, "big/b"),
		"the name of 80 MiB is removed");
	tarn_file_unref(file);
	file = open_hole((80ull << 20) - 1);
	options.name = "other";
	is_int(-ENOSPC, tarn_store_load(store, file, &options, NULL, NULL),
		"another load of 80 MiB does not fit beside the held one");
	is_int(0, ((unsigned char *)tarn_tensor_data(held))[(80 << 20) - 1],
		"the held tensor can be read to its end");
	tarn_tensor_unref(held);
	is_int(0, tarn_store_load(store, file, &options, NULL, NULL),
		"a large load succeeds after the tensors were dropped");
	is_int(0, tarn_store_lookup(store, "other/b", &t),
		"the loaded tensor is found by its name");
	tarn_tensor_unref(t);
	is_int(0, tarn_store_remove(store, "other/b"),
		"the name of the large load is removed");
	tarn_file_unref(file);
}

/* The daemon goes, the tensors stay. */
static void test_death(tarn_store *store)
{
	struct tarn_report_daemon status;
	tarn_tensor *t, *all, *views[2];
	tarn_file *file;

	make_file();
	must(tarn_file_open(path, &file));
	is_int(0, tarn_store_load(store, file, NULL, NULL, &all),
		"a file is loaded without a name");
	is_int(0, tarn_loaded_tensor(all, file, "f", &views[0]),
		"a view of the load is taken");
	is_int(0, tarn_loaded_tensor(all, file, "f", &views[1]),
		"a second view of the load is taken");
	ok(tarn_tensor_same_storage(views[0], all) &&
			tarn_tensor_same_storage(views[1], all) &&
			has_floats(views[1]),
		"both views share the load's memory");
	tarn_tensor_unref(all);
	tarn_tensor_unref(views[0]);
	tarn_tensor_unref(views[1]);
	is_int(0, tarn_store_get_from_file(store, file, "f", NULL, &t),
		"a tensor is taken from a file");
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	ok(has_floats(t), "a tensor's bytes outlive the daemon");
	ok(report_daemon(store, &status) < 0,
		"a call after the daemon's end fails");
	has_str(server.socket, tarn_error_message(),
		"the error after the daemon's end names the socket");
	ok(access(server.socket, F_OK) < 0,
		"the socket is gone with the daemon");
	tarn_store_unref(store);
	ok(has_floats(t),
		"a tensor's bytes are still there after a failed call");
	tarn_tensor_unref(t);
	tarn_file_unref(file);
}

int main(int argc, char **argv)
{
	const char *const options[] = {
		"--budget", "128M", "--segment-size", "32M", NULL};
	char exe[300];
	tarn_store *store;
	ssize_t n;

	if (argc == 4)
		return reader(argv[2], argv[3]);
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n < 0)
		bail("readlink: %s", strerror(errno));
	exe[n] = '\0';
	self = exe;
	daemon_start(&server, "d.sock", options);
	make_file();
	store = open_store();
	test_names(store);
	test_export(store);
	test_addresses(store);
	test_changed(store);
	test_empty(store);
	test_full(store);
	test_space(store);
	test_death(store);
	unlink(path);
	return done(70);
}
