// SPDX-License-Identifier: MIT
/*
 * Mapped files: all tensors of a file share one read-only mapping, which lives
 * until the last of them. The library itself does not read at such an address:
 * when the file is cut, a child that does dies of SIGBUS, while every call of
 * the library returns -ENODATA.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/page.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/file_bytes.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define LARGE (6 << 20)
#define THREADS 8

static const char header[] =
	"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
	"\"m\":{\"dtype\":\"I16\",\"shape\":[2,3],\"data_offsets\":[3,15]},"
	"\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[15,15]}}";

static char path[4096];

static void write_file(const char *name, const char *text, size_t data)
{
	size_t size;
	char *bytes = bytes_safetensors(text, data, &size);
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	f = fopen(path, "w");
	if (!f || fwrite(bytes, size, 1, f) != 1 || fclose(f) != 0)
		bail("%s: %m", path);
	free(bytes);
}

static tarn_file *open_file(const char *name, const char *text, size_t data)
{
	tarn_file *file = NULL;

	write_file(name, text, data);
	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	return file;
}

static tarn_tensor *map(tarn_file *file, const char *name, unsigned flags)
{
	tarn_tensor *t = NULL;

	if (tarn_file_map(file, name, flags, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

/* How often the file is mapped in this process. */
static int count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4500];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, path) != NULL;
	fclose(f);
	return n;
}

static void views(void)
{
	tarn_file *file = open_file("views", header, 15);
	tarn_tensor *m = map(file, "m", 0), *a = map(file, "a", 0), *t = NULL;
	tarn_tensor *all = map(file, NULL, TARN_MAP_RANDOM);
	const unsigned char bytes[] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
	const struct storage_file *behind;
	uint64_t offset, size;
	int64_t n = 0;

	is_int(TARN_STORAGE_MAPPED, tarn_storage_kind(tarn_tensor_storage(m)),
		"a tensor of a file is mapped");
	is_mem(bytes, tarn_tensor_data(m), sizeof(bytes),
		"a mapped tensor has an address and its bytes there");
	ok(tarn_tensor_same_storage(m, a),
		"another tensor of the file shares the mapping");
	ok(tarn_tensor_data(all) == tarn_tensor_data(a),
		"a view of the whole range shares the mapping");
	is_int(15, tarn_layout_numel(tarn_tensor_layout(all)),
		"a view of the whole range has all bytes");
	is_int(1, count_maps(), "the process has one mapping of the file");
	is_int(0, tarn_tensor_get_i64(m, (int64_t[]) {1, 2}, &n),
		"an element of a mapped tensor is read");
	is_int(0x0e0d, n, "an element of a mapped tensor has its value");
	is_int(-EROFS, tarn_tensor_set_i64(m, (int64_t[]) {0, 0}, 1),
		"an element of a mapped file cannot be set");
	has_str("a mapped file is read-only", tarn_error_message(),
		"the error says that the file is mapped");
	behind = storage_file(tarn_tensor_storage(m));
	tarn_file_data_range(file, &offset, &size);
	ok(behind && behind->readable && !behind->writable &&
			behind->offset == offset,
		"a mapped storage knows the path of its file");
	is_int(0, tarn_file_map(file, "none", TARN_MAP_POPULATE, &t),
		"a tensor without bytes is mapped");
	ok(tarn_tensor_data(t), "a mapped tensor without bytes has an address");
	tarn_tensor_unref(t);
	is_int(-ENOENT, tarn_file_map(file, "x", 0, &t),
		"a tensor that does not exist cannot be mapped");
	has_str("views: there is no tensor 'x'", tarn_error_message(),
		"the error names the tensor that does not exist");
	is_int(-EINVAL, tarn_file_map(file, "a", 8, &t),
		"an unknown flag of a mapping is refused");
	is_int(-EINVAL,
		tarn_file_map(
			file, "a", TARN_MAP_RANDOM | TARN_MAP_SEQUENTIAL, &t),
		"a mapping cannot be both random and sequential");
	tarn_tensor_unref(a);
	tarn_tensor_unref(all);
	tarn_file_unref(file);
	is_mem(bytes, tarn_tensor_data(m), sizeof(bytes),
		"a mapped tensor outlives the file's handle");
	tarn_tensor_unref(m);
	is_int(0, count_maps(), "no mapping is left after the last tensor");
	unlink(path);
}

static void no_data(void)
{
	tarn_file *file = open_file("empty", "{}", 0);
	tarn_tensor *t = map(file, NULL, TARN_MAP_POPULATE);

	is_int(0, tarn_layout_numel(tarn_tensor_layout(t)),
		"a file without data has an empty range");
	tarn_tensor_unref(t);
	tarn_file_unref(file);
	unlink(path);
}

static void npy(void)
{
	size_t size;
	char *bytes = bytes_npy(1,
		"{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2), }\n",
		8, &size);
	tarn_file *file = NULL;
	tarn_tensor *t;
	int64_t n = 0;

	if (bytes_open(bytes, size, "x.npy", &file) < 0)
		bail("%s", tarn_error_message());
	free(bytes);
	t = map(file, "x", 0);
	tarn_file_unref(file);
	is_int(0, tarn_tensor_get_i64(t, (int64_t[]) {0, 1}, &n),
		"an element of a mapped .npy file is read");
	is_int(0x0504, n, "a mapped .npy file keeps its Fortran order");
	tarn_tensor_unref(t);
}

/* ---- racing, alignment, population ----------------------------------- */

static void *map_whole(void *arg)
{
	return map(arg, NULL, 0);
}

static void threads(void)
{
	tarn_file *file = open_file("threads", header, 15);
	tarn_tensor *first = NULL;
	pthread_t ids[THREADS];
	bool same = true;

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&ids[i], NULL, map_whole, file) != 0)
			bail("no thread");
	for (int i = 0; i < THREADS; i++) {
		void *t;

		pthread_join(ids[i], &t);
		if (first)
			same &= tarn_tensor_same_storage(first, t);
		if (first)
			tarn_tensor_unref(t);
		else
			first = t;
	}
	ok(same, "%d threads that map at once share one mapping", THREADS);
	is_int(1, count_maps(),
		"no mapping is left after the threads have ended");
	tarn_tensor_unref(first);
	tarn_file_unref(file);
	unlink(path);
}

/* How much of the file is in this process's page tables. */
static long resident(void)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[4500];
	bool ours = false;
	long kib = 0, n;

	while (f && fgets(line, sizeof(line), f)) {
		if (strchr(line, '-') && strchr(line, '/'))
			ours = strstr(line, path) != NULL;
		if (ours && sscanf(line, "Rss: %ld", &n) == 1)
			kib += n;
	}
	fclose(f);
	return kib << 10;
}

static bool kernel_populates(void)
{
	char *page =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool works = page != MAP_FAILED &&
		     madvise(page, 4096, MADV_POPULATE_READ) == 0;

	munmap(page, 4096);
	return works;
}

static void large(void)
{
	static const char text[] =
		"{\"x\":{\"dtype\":\"U8\",\"shape\":[6291456],"
		"\"data_offsets\":[0,6291456]}}";
	tarn_file *file = open_file("large", text, LARGE);
	tarn_tensor *t =
		map(file, "x", TARN_MAP_POPULATE | TARN_MAP_SEQUENTIAL);
	const volatile char *data = tarn_tensor_data(t);
	long here = resident();
	uint64_t offset, size;
	bool right = true;

	for (size_t i = 0; i < LARGE; i += 4096)
		right &= data[i] == (char)i;
	ok(right, "each page of a populated mapping has its bytes");
	if (kernel_populates())
		ok(here >= LARGE,
			"all pages of a populated mapping are resident at "
			"once");
	else
		skip(1, "this kernel has no MADV_POPULATE_READ");
	tarn_file_data_range(file, &offset, &size);
	is_int(0, (int64_t)(((uintptr_t)data - offset) % HUGE_PAGE),
		"the mapping's address is aligned for huge pages");
	tarn_tensor_unref(t);
	tarn_file_unref(file);
	is_int(0, count_maps(),
		"no mapping is left after the populated tensor");
	unlink(path);
}

/* ---- cut files ------------------------------------------------------- */

/* The signal that a load from there ends in; 0: none. */
static int signal_of_load(const volatile unsigned char *data)
{
	struct rlimit none = {0};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGBUS, SIG_DFL); /* sanitizers have theirs */
		_exit(*data == 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork: %m");
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void cut(void)
{
	static const char text[] =
		"{\"x\":{\"dtype\":\"U16\",\"shape\":[64,2048],"
		"\"data_offsets\":[0,262144]}}";
	tarn_file *file = open_file("cut", text, 262144);
	tarn_tensor *t = map(file, "x", 0), *turned = NULL, *copy = NULL;
	tarn_tensor *early = NULL, *populated = NULL;
	unsigned char *buf = malloc(262144);
	char *shown = NULL;
	double value;

	must(tarn_tensor_eval_copy(t, ".permute(1,0)", &turned));
	must(tarn_tensor_eval_copy(t, "[0, 0:4]", &early));
	is_int(0, signal_of_load((unsigned char *)tarn_tensor_data(t) + 262143),
		"the last byte of the whole file can be loaded");
	if (truncate(path, 4096) < 0)
		bail("truncate: %m");
	is_int(SIGBUS,
		signal_of_load((unsigned char *)tarn_tensor_data(t) + 262143),
		"a load behind the file's new end raises SIGBUS");
	is_int(-ENODATA, tarn_tensor_get_f64(t, (int64_t[]) {63, 0}, &value),
		"getting an element behind the file's end is ENODATA");
	has_str("shrunk", tarn_error_message(),
		"the error says that the file shrunk");
	is_int(-ESTALE, tarn_tensor_format(t, 0, &shown),
		"printing elements that the file still has succeeds");
	is_int(-ENODATA, tarn_tensor_format(t, 1 << 20, &shown),
		"printing elements behind the file's end is ENODATA");
	is_int(-ENODATA, tarn_tensor_equal(t, t),
		"comparing elements behind the file's end is ENODATA");
	is_int(-ENODATA, tarn_tensor_ravel(t, TARN_ORDER_C, buf, 262144),
		"packing elements behind the file's end is ENODATA");
	is_int(-ENODATA, tarn_tensor_ravel(turned, TARN_ORDER_F, buf, 262144),
		"a turned view of a shrunk file gives the same error");
	is_int(-ENODATA, tarn_tensor_clone(t, &copy),
		"cloning a shrunk file's tensor is ENODATA");
	is_int(-ENODATA, tarn_tensor_contiguous(turned, &copy),
		"a contiguous copy of a shrunk file's tensor is ENODATA");
	is_int(-ENODATA,
		tarn_file_map(file, "x", TARN_MAP_POPULATE, &populated),
		"populating a shrunk file's mapping is ENODATA");
	is_int(-ESTALE, tarn_tensor_clone(early, &copy),
		"cloning a tensor of a file that changed is ESTALE");
	tarn_tensor_unref(early);
	tarn_tensor_unref(turned);
	tarn_tensor_unref(t);
	tarn_file_unref(file);
	free(buf);
	unlink(path);
}

int main(void)
{
	views();
	no_data();
	npy();
	threads();
	large();
	cut();
	return done(41);
}
