/* SPDX-License-Identifier: MIT */
/*
 * Private tensors: copy-on-write over what others have. Whatever they are made
 * of (bytes in a pool, in several segments of it, in a memory file, in a file,
 * lent), writing is possible, seen by all tensors of that storage that are
 * private, and by nobody else, and costs one page. They hold what they were
 * made of, also in a child, and when everybody else has let it go.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "tests/daemon_helper.h"
#include "tests/tap.h"

#define MIB (1ull << 20)
#define SEGMENT (8 * MIB)
#define BIG (20 * MIB) /* of segments: more than two */
#define PAGE 4096ull
#define PATIENCE_US 20000000
#define THREADS 4
#define ROUNDS 300
#define FORKS 20

static struct daemon server;
static tarn_store *store;
static const char *const args[] = {
	"--segment-size", "8M", "--budget", "64M", NULL};

/* No period that a lost page would fit. */
static unsigned char byte_at(uint64_t i, unsigned seed)
{
	return (unsigned char)(((i + seed) * UINT64_C(0x9E3779B97F4A7C15)) >>
			       56);
}

static void check(int r, const char *what)
{
	if (r < 0)
		bail("%s: %s", what, tarn_error_message());
}

/* A safetensors file with one tensor "x" of such bytes. */
static const char *make_file(const char *name, uint64_t size, unsigned seed)
{
	static char path[300];
	unsigned char *bytes = malloc(size);
	char head[100];
	uint64_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	snprintf(head, sizeof(head),
		"{\"x\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		(unsigned long long)size, (unsigned long long)size);
	n = strlen(head);
	for (uint64_t i = 0; bytes && i < size; i++)
		bytes[i] = byte_at(i, seed);
	f = fopen(path, "we");
	if (!bytes || !f || fwrite(&n, 8, 1, f) != 1 ||
		fwrite(head, n, 1, f) != 1 || fwrite(bytes, size, 1, f) != 1 ||
		fclose(f) != 0)
		bail("%s: %m", path);
	free(bytes);
	return path;
}

static tarn_file *open_file(const char *path)
{
	tarn_file *file;

	check(tarn_file_open(path, &file), path);
	return file;
}

static tarn_tensor *loaded(const char *name, uint64_t size, unsigned seed)
{
	const char *path = make_file(name, size, seed);
	tarn_file *file = open_file(path);
	tarn_tensor *t;

	check(tarn_store_get_from_file(store, file, "x", &t), path);
	tarn_file_unref(file);
	unlink(path);
	return t;
}

static tarn_tensor *privately(tarn_tensor *t)
{
	tarn_tensor *p;

	check(tarn_tensor_private(t, &p), "private");
	return p;
}

static unsigned char *data(const tarn_tensor *t)
{
	return tarn_tensor_data(t);
}

/* The first byte that is not as in the file; -1. */
static int64_t differs(const tarn_tensor *t, uint64_t size, unsigned seed)
{
	const unsigned char *p = data(t);

	for (uint64_t i = 0; i < size; i++)
		if (p[i] != byte_at(i, seed))
			return (int64_t)i;
	return -1;
}

/* How many bytes of those addresses are this process's own copies. */
static int64_t copied(const void *start, uint64_t size)
{
	uint64_t begin = (uintptr_t)start, end = begin + size, sum = 0, kib;
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long long from, to;
	bool inside = false;
	char line[500];

	if (!f)
		bail("smaps: %m");
	while (fgets(line, sizeof(line), f)) {
		unsigned long long n;

		if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
			inside = from < end && to > begin;
		else if (inside &&
			 sscanf(line, "Anonymous: %llu kB", &n) == 1) {
			kib = n;
			sum += kib << 10;
		}
	}
	fclose(f);
	return (int64_t)sum;
}

static void drop(tarn_tensor **t)
{
	*t = tarn_tensor_unref(*t);
}

/* ---- one after the other ----------------------------------------------- */

/* t is read-only, of size bytes, and stays as it is. mapped: copy-on-write, or
 * a copy? */
static void test_kind(tarn_tensor *t, uint64_t size, unsigned seed, bool mapped,
	const char *what)
{
	tarn_tensor *p = privately(t), *again = privately(t), *part, *back;
	uint64_t at[] = {0, size / 2, size - 1};

	is_int(TARN_STORAGE_PRIVATE, tarn_storage_kind(tarn_tensor_storage(p)),
		"%s: the kind", what);
	is_int(-1, differs(p, size, seed), "%s: the bytes", what);
	if (mapped)
		is_int(0, copied(data(p), size), "%s: none is copied", what);
	ok(tarn_tensor_same_storage(p, again) &&
			!tarn_tensor_same_storage(p, t),
		"%s: one private storage for all", what);
	for (int i = 0; i < 3; i++)
		data(p)[at[i]] ^= 0xff;
	ok(data(again)[at[1]] == (unsigned char)~byte_at(at[1], seed),
		"%s: what one writes the other sees", what);
	check(tarn_tensor_view(t, "[1:-1:2]", &part), "view");
	back = privately(part);
	ok(data(back) == data(p) + 1 &&
			tarn_tensor_layout(back)->stride[0] == 2,
		"%s: a view becomes a view", what);
	if (mapped)
		is_int(3 * PAGE, copied(data(p), size),
			"%s: three pages are copied", what);
	drop(&part);
	part = privately(p);
	ok(part == p, "%s: of a private one it is itself", what);
	drop(&part);
	drop(&p);
	drop(&again);
	is_int((int64_t)at[2] - 1,
		data(back)[at[2] - 1] == byte_at(at[2], seed)
			? -1
			: (int64_t)at[2] - 1,
		"%s: a view keeps what was written", what);
	drop(&back);
	p = privately(t);
	is_int(-1, differs(p, size, seed),
		"%s: when all are gone, so is what was written", what);
	drop(&p);
}

static void test_pool(void)
{
	tarn_tensor *t = loaded("pool", BIG, 1), *p;
	uint64_t borders = 0;

	ok(tarn_storage_kind(tarn_tensor_storage(t)) == TARN_STORAGE_SHARED &&
			!tarn_storage_writable(tarn_tensor_storage(t)),
		"a loaded file");
	test_kind(t, BIG, 1, true, "pool");
	is_int(-1, differs(t, BIG, 1), "pool: the original is unchanged");
	/* Wherever its segments meet: both sides of every page. */
	p = privately(t);
	for (uint64_t i = PAGE; i < BIG; i += PAGE) {
		data(p)[i - 1] = 1;
		data(p)[i] = 2;
		borders += data(t)[i - 1] == byte_at(i - 1, 1) &&
			   data(t)[i] == byte_at(i, 1);
	}
	is_int((BIG - 1) / PAGE, (int64_t)borders,
		"pool: nor is it when all pages are written");
	drop(&p);
	drop(&t);
}

static tarn_tensor *published(
	const char *name, uint64_t size, unsigned flags, unsigned seed)
{
	struct tarn_publish_item item = {.name = name};
	int64_t n = (int64_t)size;
	tarn_tensor *t;

	check(tarn_store_create(store, TARN_U8, 1, &n, flags, &item.tensor),
		name);
	for (uint64_t i = 0; i < size; i++)
		data(item.tensor)[i] = byte_at(i, seed);
	check(tarn_store_publish(store, &item, 1, NULL, NULL), name);
	tarn_tensor_unref(item.tensor);
	check(tarn_store_lookup(store, name, &t), name);
	return t;
}

static void test_published(void)
{
	tarn_tensor *own = published("own", 3 * MIB + 5, 0, 2);
	tarn_tensor *small = published("small", 5000, 0, 3);
	tarn_tensor *mutable =
		published("mutable", 70000, TARN_CREATE_MUTABLE, 4),
		    *p;

	test_kind(own, 3 * MIB + 5, 2, true, "a memory file");
	is_int(-1, differs(own, 3 * MIB + 5, 2), "it is unchanged");
	test_kind(small, 5000, 3, false, "small");
	is_int(-1, differs(small, 5000, 3), "it is unchanged");
	p = privately(mutable);
	ok(p == mutable, "a mutable tensor is itself");
	drop(&p);
	drop(&own);
	drop(&small);
	drop(&mutable);
	check(tarn_store_remove(store, "own"), "remove");
	check(tarn_store_remove(store, "small"), "remove");
	check(tarn_store_remove(store, "mutable"), "remove");
}

static void test_file(void)
{
	tarn_file *file = open_file(make_file("f", MIB + 7, 5)), *small;
	tarn_tensor *mapped, *plain, *p;
	unsigned char *bytes = malloc(MIB + 7);
	uint64_t at, size;

	check(tarn_file_map(file, "x", 0, &mapped), "map");
	check(tarn_file_tensor(file, "x", &plain), "tensor");
	test_kind(mapped, MIB + 7, 5, true, "a mapped file");
	test_kind(plain, MIB + 7, 5, true, "a file");
	tarn_file_data_range(file, &at, &size);
	if (!bytes ||
		fd_pread(tarn_file_fd(file), bytes, size, at) != (ssize_t)size)
		bail("reading back: %m");
	for (at = 0; at < size && bytes[at] == byte_at(at, 5);)
		at++;
	is_int((int64_t)size, (int64_t)at, "the file is unchanged");
	free(bytes);
	drop(&mapped);

	/* Pages that no longer are would be signals. */
	if (truncate(tarn_file_path(file), (off_t)MIB / 2) < 0)
		bail("truncate: %m");
	is_int(-ENODATA, tarn_tensor_private(plain, &p),
		"a file that has shrunk is refused");
	has_str("private: file: it ends at byte", tarn_error_message(),
		"in words");
	unlink(tarn_file_path(file));
	drop(&plain);
	tarn_file_unref(file);

	small = open_file(make_file("s", 100, 6));
	check(tarn_file_map(small, "x", 0, &mapped), "map");
	test_kind(mapped, 100, 6, false, "a small file");
	drop(&mapped);
	unlink(tarn_file_path(small));
	tarn_file_unref(small);
}

static void test_memory(void)
{
	static unsigned char lent[200000];
	const int64_t shape[] = {3, 0};
	tarn_storage *storage;
	struct tarn_layout layout;
	tarn_tensor *t, *p;
	int64_t n = sizeof(lent);

	for (uint64_t i = 0; i < sizeof(lent); i++)
		lent[i] = byte_at(i, 7);
	check(tarn_layout_contiguous(TARN_U8, 1, &n, &layout), "layout");
	check(tarn_storage_borrow(
		      lent, sizeof(lent), false, NULL, NULL, &storage),
		"borrow");
	check(tarn_tensor_new(storage, 0, &layout, &t), "new");
	tarn_storage_unref(storage);
	test_kind(t, sizeof(lent), 7, false, "lent");
	is_int(-1, differs(t, sizeof(lent), 7), "it is unchanged");
	drop(&t);
	check(tarn_tensor_zeros(TARN_F32, 2, shape, &t), "zeros");
	p = privately(t);
	ok(p == t, "what is writable is itself");
	drop(&p);
	drop(&t);
	check(tarn_storage_borrow(NULL, 0, false, NULL, NULL, &storage),
		"nothing");
	check(tarn_layout_contiguous(TARN_F32, 2, shape, &layout), "layout");
	check(tarn_tensor_new(storage, 0, &layout, &t), "new");
	tarn_storage_unref(storage);
	p = privately(t);
	ok(p != t && tarn_storage_writable(tarn_tensor_storage(p)),
		"a read-only tensor without elements");
	drop(&p);
	drop(&t);
}

/* ---- leases ------------------------------------------------------------ */

/* Fills all the room there is several times over. */
static void press(void)
{
	char name[20];

	for (unsigned i = 0; i < 8; i++) {
		tarn_tensor *t;

		snprintf(name, sizeof(name), "press%u", i);
		t = loaded(name, 12 * MIB, 100 + i);
		is_int(byte_at(MIB, 100 + i), data(t)[MIB], "%s", name);
		drop(&t);
	}
}

static void test_lease(void)
{
	tarn_tensor *t = loaded("leased", BIG, 8), *p = privately(t);
	tarn_tensor *own = published("o", 3 * MIB, 0, 9), *q = privately(own);

	data(p)[5 * MIB] = 77;
	drop(&t);
	drop(&own);
	check(tarn_store_remove(store, "o"), "remove");
	press();
	is_int(5 * (int64_t)MIB, differs(p, BIG, 8),
		"memory that is wanted by others is not taken from it");
	is_int(-1, differs(q, 3 * MIB, 9), "nor is what has no name any more");
	drop(&p);
	drop(&q);
}

/* What a child sees, after fork(), and leaves. */
static int child_of_fork(tarn_tensor *t, tarn_tensor *p)
{
	tarn_tensor *own;

	if (data(p)[MIB] != 11 || data(t)[MIB] != byte_at(MIB, 10))
		return 1;
	data(p)[MIB] = 12;
	data(p)[3 * MIB] = 13;
	own = privately(t);
	if (!tarn_tensor_same_storage(own, p))
		return 2;
	drop(&own);
	drop(&p);
	own = privately(t);
	if (differs(own, BIG, 10) >= 0)
		return 3;
	data(own)[0] = 14;
	drop(&t);
	/* Nothing is tidied up. */
	raise(SIGKILL);
	return 4;
}

static int import(const struct tarn_descriptor *descriptor)
{
	tarn_tensor *t;
	int r = tarn_store_import(store, descriptor, &t);

	if (r >= 0)
		tarn_tensor_unref(t);
	return r;
}

static void test_fork(void)
{
	tarn_tensor *t = published("forked", BIG, 0, 10), *p = privately(t);
	struct tarn_descriptor descriptor;
	int status, r = 0;
	pid_t pid;

	check(tarn_store_export(store, t, &descriptor), "export");
	data(p)[MIB] = 11;
	pid = fork();
	if (pid == 0)
		_exit(child_of_fork(t, p));
	if (waitpid(pid, &status, 0) < 0)
		bail("waitpid: %m");
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		"a child goes on with it, and is killed (%#x)",
		(unsigned)status);
	ok(data(p)[MIB] == 11 && data(p)[3 * MIB] == byte_at(3 * MIB, 10) &&
			data(p)[0] == byte_at(0, 10),
		"what it wrote is its own");
	is_int(-1, differs(t, BIG, 10), "the original is unchanged");
	drop(&t);
	check(tarn_store_remove(store, "forked"), "remove");
	is_int(0, import(&descriptor), "the parent holds it");
	is_int(MIB, differs(p, BIG, 10), "and has it");
	drop(&p);
	for (int us = 0; r >= 0 && us < PATIENCE_US; us += 20000) {
		usleep(20000);
		r = import(&descriptor);
	}
	is_int(-ESTALE, r, "then nobody does, nor the killed child");
}

/* ---- channels ----------------------------------------------------------- */

static void send_item(tarn_channel *channel, unsigned seed)
{
	int64_t n = (int64_t)MIB;
	tarn_tensor *t;
	tarn_slot *slot;

	check(tarn_channel_acquire(channel, PATIENCE_US / 1000, &slot), "slot");
	check(tarn_slot_empty(slot, TARN_U8, 1, &n, &t), "empty");
	for (uint64_t i = 0; i < MIB; i++)
		data(t)[i] = byte_at(i, seed);
	tarn_tensor_unref(t);
	check(tarn_slot_publish(slot), "publish");
}

static tarn_tensor *received(tarn_channel *channel)
{
	tarn_item *item;
	tarn_tensor *t;

	check(tarn_channel_receive(channel, PATIENCE_US / 1000, &item), "item");
	check(tarn_item_tensor(item, 0, &t), "tensor");
	tarn_item_unref(item);
	return t;
}

/* One slot of 4 MiB, for both items after each other; two who read it. */
static void test_broadcast(void)
{
	struct tarn_channel_options options = {
		.mode = TARN_CHANNEL_BROADCAST,
		.slots = 1,
		.slot_bytes = 4 * MIB};
	tarn_channel *in, *out[2];
	tarn_tensor *t, *p, *other;

	check(tarn_channel_open(store, "ch", &options, &in), "channel");
	for (int i = 0; i < 2; i++) {
		check(tarn_channel_open(store, "ch", NULL, &out[i]), "channel");
		check(tarn_channel_join(out[i], TARN_CHANNEL_CONSUMER), "join");
	}
	for (unsigned seed = 20; seed < 22; seed++) {
		send_item(in, seed);
		t = received(out[0]);
		other = received(out[1]);
		test_kind(t, MIB, seed, true, "an item of a broadcast");
		p = privately(t);
		drop(&t);
		data(p)[9] ^= 0xff;
		is_int(-1, differs(other, MIB, seed),
			"what is written to it the others do not see");
		drop(&other);
		is_int(9, differs(p, MIB, seed), "it holds the slot");
		drop(&p);
	}
	tarn_channel_unref(in);
	tarn_channel_unref(out[0]);
	tarn_channel_unref(out[1]);
	check(tarn_store_remove(store, "ch"), "remove");
}

/* ---- threads ----------------------------------------------------------- */

static tarn_tensor *busy;
static atomic_int wrong, over;

static void *hammer(void *arg)
{
	for (int i = 0; i < ROUNDS && !over; i++) {
		tarn_tensor *p = NULL, *q = NULL;

		if (tarn_tensor_private(busy, &p) < 0 ||
			tarn_tensor_private(busy, &q) < 0 ||
			!tarn_tensor_same_storage(p, q) ||
			data(p)[70000] != byte_at(70000, 11))
			wrong++;
		tarn_tensor_unref(p);
		tarn_tensor_unref(q);
	}
	return arg;
}

#ifdef __SANITIZE_THREAD__
#define BLAMES_CHILDREN true
#else
#define BLAMES_CHILDREN false
#endif

/* How many children did not find what they should. */
static int fork_meanwhile(void)
{
	int status, bad = 0;

	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			tarn_tensor *p;

			alarm(30);
			_exit(tarn_tensor_private(busy, &p) < 0 ||
				differs(p, 3 * MIB, 11) >= 0);
		}
		if (waitpid(pid, &status, 0) < 0)
			bail("waitpid: %m");
		bad += status != 0;
	}
	return bad;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];
	int bad;

	busy = published("busy", 3 * MIB, 0, 11);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, hammer, NULL))
			bail("no thread");
	bad = fork_meanwhile();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_int(0, wrong, "threads agree on one at a time");
	if (BLAMES_CHILDREN)
		skip(1, "ThreadSanitizer misses a parent's threads in a child");
	else
		is_int(0, bad, "a fork meanwhile finds nothing locked");
	drop(&busy);
	check(tarn_store_remove(store, "busy"), "remove");
}

/* ---- without a daemon -------------------------------------------------- */

static void test_alone(void)
{
	tarn_tensor *t = loaded("alone", 2 * MIB, 12), *p = privately(t), *q;
	tarn_tensor *other = loaded("other", 2 * MIB, 13);

	data(p)[100] = 1;
	is_int(0, daemon_stop(&server), "the daemon ends");
	is_int(100, differs(p, 2 * MIB, 12), "what was made stays");
	q = privately(other);
	data(q)[0] ^= 1;
	is_int(-1, differs(other, 2 * MIB, 13), "what is made now is a copy");
	is_int(0, differs(q, 2 * MIB, 13), "to be written");
	drop(&q);
	drop(&other);
	drop(&p);
	drop(&t);
}

int main(void)
{
	daemon_start(&server, "sock", args);
	check(tarn_store_open(server.socket, &store), "open");
	test_pool();
	test_published();
	test_file();
	test_memory();
	test_fork();
	test_broadcast();
	test_threads();
	test_lease();
	test_alone();
	tarn_store_unref(store);
	return done();
}
