/* SPDX-License-Identifier: MIT */
/*
 * How often an archive is inflated: once for all processes that open it through a
 * store at the same moment, and not again while one of them has it; once in each
 * where the daemon has no room for it. This program counts zlib's beginnings.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <tarn/tarn.h>

#include "lib/store/inflated.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/pool.h"
#include "tests/kit/stamps.h"
#include "tests/kit/tap.h"

#define SIZE (24u << 20)
#define HEAD 128u /* of a .npy */
#define OPENERS 4

struct shared {
	atomic_uint inflated, waiting;
};
static struct shared *shared;
static char path[128] = "a.npz";

/* Of the library this one is found first. */
int inflateInit2_(z_streamp z, int bits, const char *version, int size)
{
	int (*next)(z_streamp, int, const char *, int);

	*(void **)&next = dlsym(RTLD_NEXT, "inflateInit2_");
	atomic_fetch_add(&shared->inflated, 1);
	return next(z, bits, version, size);
}

/* ---- the archive ------------------------------------------------------- */

static unsigned char *put(unsigned char *p, uint64_t value, int size)
{
	for (int i = 0; i < size; i++, value >>= 8)
		*p++ = (unsigned char)value;
	return p;
}

static size_t deflated(
	const unsigned char *from, unsigned char *to, size_t room)
{
	z_stream z = {.next_in = (unsigned char *)from,
		.avail_in = HEAD + SIZE,
		.next_out = to,
		.avail_out = (unsigned)room};

	if (deflateInit2(&z, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) !=
			Z_OK ||
		deflate(&z, Z_FINISH) != Z_STREAM_END)
		bail("zlib");
	deflateEnd(&z);
	return z.total_out;
}

/* What both headers of a record have; *ret is behind it. */
static unsigned char *put_sizes(unsigned char *p, unsigned long crc, size_t n)
{
	p = put(p, 0, 2);
	p = put(p, 8, 2);
	p = put(p, 0, 4);
	p = put(p, crc, 4);
	p = put(p, n, 4);
	p = put(p, HEAD + SIZE, 4);
	return put(p, 5, 2);
}

static void write_archive(unsigned char value)
{
	unsigned char *npy = malloc(HEAD + SIZE), *zip = malloc(SIZE), *p = zip;
	size_t n, directory;
	unsigned long crc;
	FILE *f;

	if (!npy || !zip)
		bail("no memory");
	memset(npy, ' ', HEAD);
	memcpy(npy, "\x93NUMPY\1\0\x76\0", 10);
	memset(npy + HEAD, value, SIZE);
	npy[10 + snprintf((char *)npy + 10, HEAD - 10,
			 "{'descr': '|u1', 'fortran_order': False, "
			 "'shape': (%u,), }",
			 SIZE)] = ' ';
	npy[HEAD - 1] = '\n';
	crc = crc32(0, npy, HEAD + SIZE);
	p = put(p, 0x04034b50, 4);
	p = put(p, 20, 2);
	p = put_sizes(p, crc, n = deflated(npy, zip + 35, SIZE - 200));
	p = put(p, 0, 2);
	memcpy(p, "x.npy", 5);
	p += 5 + n;
	directory = (size_t)(p - zip);
	p = put(p, 0x02014b50, 4);
	p = put(p, 20, 2);
	p = put(p, 20, 2);
	p = put_sizes(p, crc, n);
	p = put(p, 0, 16);
	memcpy(p, "x.npy", 5);
	p += 5;
	n = (size_t)(p - zip) - directory;
	p = put(p, 0x06054b50, 4);
	p = put(p, 0, 4);
	p = put(p, 0x00010001, 4);
	p = put(p, n, 4);
	p = put(p, directory, 4);
	p = put(p, 0, 2);
	f = fopen(path, "w");
	if (!f || fwrite(zip, (size_t)(p - zip), 1, f) != 1 || fclose(f))
		bail("%s", path);
	free(npy);
	free(zip);
}

/* ---- those who open it -------------------------------------------------- */

/* The first and the last byte, as one number. */
static int bytes_of(tarn_tensor *t)
{
	const unsigned char *at = tarn_tensor_data(t);

	return at[0] << 8 | at[SIZE - 1];
}

static int load(tarn_store *store, tarn_file **ret_file)
{
	tarn_tensor *all = NULL, *x = NULL;
	int seen;

	if (tarn_store_open_file(store, path, ret_file) < 0 ||
		tarn_store_load(store, *ret_file, NULL, NULL, &all) < 0 ||
		tarn_loaded_tensor(all, *ret_file, "x", &x) < 0)
		bail("%s", tarn_error_message());
	seen = bytes_of(x);
	tarn_tensor_unref(x);
	tarn_tensor_unref(all);
	return seen;
}

static int get(tarn_store *store, bool fresh)
{
	const struct tarn_load_options options = {.fresh = fresh};
	tarn_tensor *x = NULL;
	int seen;

	if (tarn_store_get(store, "a.npz:x", &options, &x) < 0)
		bail("%s", tarn_error_message());
	seen = bytes_of(x);
	tarn_tensor_unref(x);
	return seen;
}

static unsigned inflated(void)
{
	return atomic_exchange(&shared->inflated, 0);
}

static int opener(const char *socket)
{
	tarn_store *store = NULL;
	tarn_file *file = NULL;
	bool good;

	if (tarn_store_open(socket, NULL, &store) < 0)
		return 1;
	atomic_fetch_add(&shared->waiting, 1);
	while (atomic_load(&shared->waiting) < OPENERS)
		usleep(100);
	good = load(store, &file) == 0x0707;
	/* None goes before all have come. */
	atomic_fetch_add(&shared->waiting, 1);
	while (atomic_load(&shared->waiting) < 2 * OPENERS)
		usleep(100);
	tarn_file_unref(file);
	tarn_store_unref(store);
	return !good;
}

static void test_at_once(const char *socket)
{
	int good = 0, status;
	pid_t pids[OPENERS];

	for (int i = 0; i < OPENERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(opener(socket));
	}
	for (int i = 0; i < OPENERS; i++)
		good += waitpid(pids[i], &status, 0) == pids[i] && !status;
	is_int(OPENERS, good, "each of %d processes has the array", OPENERS);
	is_int(1, (int)inflated(), "one of them has inflated it");
}

static void test_again(tarn_store *store)
{
	tarn_file *file = NULL;

	is_int(0x0707, load(store, &file), "a process that comes later has it");
	is_int(0x0707, get(store, false), "an address leads to it");
	is_int(0, (int)inflated(), "neither has inflated it");
	is_int(0x0707, get(store, true), "a fresh look-up has it");
	is_int(1, (int)inflated(), "a fresh look-up inflates it");
	write_archive(9);
	is_int(0x0909, get(store, false), "the next version is another");
	is_int(1, (int)inflated(), "the next version is inflated");
	tarn_file_unref(file);
}

/* The file can be used all the same, but not loaded. */
static void test_no_room(void)
{
	const char *const little[] = {"--budget", "8M", NULL};
	tarn_tensor *x = NULL;
	tarn_file *file = NULL;
	struct daemon daemon;
	tarn_store *store = daemon_start_open(&daemon, "little", little);

	is_int(0, tarn_store_open_file(store, path, &file),
		"a file is opened that the daemon has no room for");
	if (tarn_file_map(file, "x", 0, &x) < 0)
		bail("%s", tarn_error_message());
	is_int(0x0909, bytes_of(x), "the file has its array");
	is_int(1, (int)inflated(), "the file was inflated once");
	is_int(-ENOSPC, tarn_store_load(store, file, NULL, NULL, NULL),
		"the daemon has no room to load it");
	tarn_tensor_unref(x);
	tarn_file_unref(file);
	tarn_store_unref(store);
	daemon_stop(&daemon);
}

/* ---- users --------------------------------------------------------------- */

static int count_name(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	(void)name;
	(void)descriptor;
	(void)version;
	++*(uint64_t *)arg;
	return 0;
}

/* r: what the array has; n: the names that it leaves. */
static void opens(const struct pool_kit *kit, struct seen *seen, void *pool)
{
	const struct tarn_store_options in = {.pool = pool};
	tarn_store *store = NULL;
	tarn_tensor *x = NULL;
	tarn_file *file = NULL;
	int r = tarn_store_open(kit->daemon.socket, &in, &store);

	if (r >= 0)
		r = tarn_store_open_file(store, path, &file);
	if (r >= 0)
		r = tarn_file_map(file, "x", 0, &x);
	if (r >= 0)
		r = tarn_store_list(store, "inflated/", count_name, &seen->n);
	seen_error(seen, r < 0 ? r : bytes_of(x));
	tarn_tensor_unref(x);
	tarn_file_unref(file);
	tarn_store_unref(store);
}

static void test_user(const struct pool_kit *kit, uint32_t uid, char *pool,
	int times, const char *what)
{
	const struct seen *seen = kit_pool_as(kit, uid, opens, pool);

	is_int(0x0707, seen->r, "%s has the array", what);
	is_int(times, (int)inflated(), "%s inflates it %d times", what, times);
	is_int(*pool ? 0 : 2, (int)seen->n,
		"%s sees its own names below inflated/ alone", what);
}

static void test_users(void)
{
	static struct pool_kit kit;

	if (!kit_pool_is_root()) {
		skip(12, "only root can be several users");
		return;
	}
	kit_pool_start(&kit, "[pool common]\nmode = 0666\n");
	snprintf(path, sizeof(path), "%s/a.npz", kit.folder);
	write_archive(7);
	test_user(&kit, OWNER, "", 1, "the first user");
	test_user(&kit, OWNER, "", 0, "the first user's next process");
	test_user(&kit, STRANGER, "", 1, "another user");
	test_user(&kit, OWNER, "common", 1, "a user of a common pool");
	unlink(path);
	kit_pool_stop(&kit);
}

int main(void)
{
	struct daemon daemon;
	tarn_store *store;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		bail("mmap");
	/* Under valgrind one takes long. */
	inflated_patience_ms = 600000;
	write_archive(7);
	if (!stamps_last(path))
		skip_all("the stamps of this file system do not last");
	store = daemon_start_open(&daemon, "d", NULL);
	test_at_once(daemon.socket);
	test_again(store);
	tarn_store_unref(store);
	daemon_stop(&daemon);
	test_no_room();
	unlink(path);
	test_users();
	return done(25);
}
