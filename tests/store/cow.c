/* SPDX-License-Identifier: MIT */
/*
 * Private tensors: copy-on-write over shared memory. Whatever they are made of
 * (bytes in a pool, in several segments of it, in a memfd, in a file, lent),
 * they can be written; all private tensors of a storage see a write, no other
 * process does, and it costs one page. What keeps the original memory is in
 * cow_held.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "base/page.h"
#include "tests/kit/cow.h"
#include "tests/kit/tap.h"

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

/* One that is alone: what is written to it is in no other. */
static void test_own(tarn_tensor *t, tarn_tensor *p, uint64_t size,
	unsigned seed, bool mapped, const char *what)
{
	uint64_t last = size - 1;
	tarn_tensor *own, *other;

	kit_cow_check(tarn_tensor_private(t, &own), "one of its own");
	kit_cow_check(tarn_tensor_private(t, &other), "another");
	ok(!tarn_tensor_same_storage(own, other) &&
			!tarn_tensor_same_storage(own, p),
		"%s: a tensor of its own shares with no other", what);
	if (mapped)
		is_int(0, copied(kit_cow_data(own), size),
			"%s: making one of its own copies nothing", what);
	is_int(-1, kit_cow_differs(own, size, seed),
		"%s: one of its own has the original's bytes", what);
	kit_cow_data(own)[last] ^= 0xff;
	kit_cow_data(p)[last] ^= 0x0f;
	ok(kit_cow_data(own)[last] ==
				(unsigned char)~kit_cow_byte(last, seed) &&
			kit_cow_data(other)[last] == kit_cow_byte(last, seed) &&
			kit_cow_data(p)[last] ==
				(unsigned char)(kit_cow_byte(last, seed) ^
						0x0f),
		"%s: a write is in one of them alone", what);
	kit_cow_data(p)[last] ^= 0x0f;
	kit_cow_drop(&own);
	is_int(-1, kit_cow_differs(other, size, seed),
		"%s: one of its own stays when another goes", what);
	kit_cow_drop(&other);
}

/* t is read-only, of size bytes, and stays as it is. mapped: copy-on-write, or
 * a copy? */
static void test_kind(tarn_tensor *t, uint64_t size, unsigned seed, bool mapped,
	const char *what)
{
	tarn_tensor *p = kit_cow_of(t), *again = kit_cow_of(t), *part, *back;
	uint64_t at[] = {0, size / 2, size - 1};

	is_int(TARN_STORAGE_COW, tarn_storage_kind(tarn_tensor_storage(p)),
		"%s: a private tensor is copy-on-write", what);
	is_int(-1, kit_cow_differs(p, size, seed),
		"%s: a private tensor has the bytes of the original", what);
	if (mapped)
		is_int(0, copied(kit_cow_data(p), size),
			"%s: making a private tensor copies nothing", what);
	ok(tarn_tensor_same_storage(p, again) &&
			!tarn_tensor_same_storage(p, t),
		"%s: private tensors of one storage share theirs", what);
	test_own(t, p, size, seed, mapped, what);
	for (int i = 0; i < 3; i++)
		kit_cow_data(p)[at[i]] ^= 0xff;
	ok(kit_cow_data(again)[at[1]] ==
			(unsigned char)~kit_cow_byte(at[1], seed),
		"%s: a write to one private tensor is seen by the other", what);
	kit_cow_check(tarn_tensor_eval(t, "[1:-1:2]", &part), "view");
	back = kit_cow_of(part);
	ok(kit_cow_data(back) == kit_cow_data(p) + 1 &&
			tarn_tensor_layout(back)->stride[0] == 2,
		"%s: a view of the original becomes a private view", what);
	if (mapped)
		is_int(3 * PAGE, copied(kit_cow_data(p), size),
			"%s: writes to three pages copy three pages", what);
	kit_cow_drop(&part);
	part = kit_cow_of(p);
	ok(part == p, "%s: the private form of a private tensor is itself",
		what);
	kit_cow_drop(&part);
	kit_cow_drop(&p);
	kit_cow_drop(&again);
	is_int((int64_t)at[2] - 1,
		kit_cow_data(back)[at[2] - 1] == kit_cow_byte(at[2], seed)
			? -1
			: (int64_t)at[2] - 1,
		"%s: a view keeps the private writes", what);
	kit_cow_drop(&back);
	p = kit_cow_of(t);
	is_int(-1, kit_cow_differs(p, size, seed),
		"%s: private writes are gone with the last private tensor",
		what);
	kit_cow_drop(&p);
}

static void test_pool(void)
{
	tarn_tensor *t = kit_cow_loaded("pool", BIG, 1), *p;
	uint64_t borders = 0;

	ok(tarn_storage_kind(tarn_tensor_storage(t)) == TARN_STORAGE_SHARED &&
			!tarn_storage_writable(tarn_tensor_storage(t)),
		"a loaded file is shared and read-only");
	test_kind(t, BIG, 1, true, "pool");
	is_int(-1, kit_cow_differs(t, BIG, 1),
		"pool: the original is unchanged");
	/* Wherever its segments meet: both sides of every page. */
	p = kit_cow_of(t);
	for (uint64_t i = PAGE; i < BIG; i += PAGE) {
		kit_cow_data(p)[i - 1] = 1;
		kit_cow_data(p)[i] = 2;
		borders += kit_cow_data(t)[i - 1] == kit_cow_byte(i - 1, 1) &&
			   kit_cow_data(t)[i] == kit_cow_byte(i, 1);
	}
	is_int((BIG - 1) / PAGE, (int64_t)borders,
		"pool: the original is unchanged after all pages are written");
	kit_cow_drop(&p);
	kit_cow_drop(&t);
}

static void test_published(void)
{
	tarn_tensor *own = kit_cow_published("own", 3 * MIB + 5, 0, 2);
	tarn_tensor *small = kit_cow_published("small", 5000, 0, 3);
	tarn_tensor *mutable =
		kit_cow_published("mutable", 70000, TARN_CREATE_MUTABLE, 4),
		    *p;

	test_kind(own, 3 * MIB + 5, 2, true, "a memory file");
	is_int(-1, kit_cow_differs(own, 3 * MIB + 5, 2),
		"a tensor in a memory file is unchanged by private writes");
	test_kind(small, 5000, 3, false, "small");
	is_int(-1, kit_cow_differs(small, 5000, 3),
		"a small tensor is unchanged by private writes");
	p = kit_cow_of(mutable);
	ok(p == mutable, "the private form of a mutable tensor is itself");
	kit_cow_drop(&p);
	kit_cow_drop(&own);
	kit_cow_drop(&small);
	kit_cow_drop(&mutable);
	kit_cow_check(tarn_store_remove(kit_cow_store, "own"), "remove");
	kit_cow_check(tarn_store_remove(kit_cow_store, "small"), "remove");
	kit_cow_check(tarn_store_remove(kit_cow_store, "mutable"), "remove");
}

static void test_file(void)
{
	tarn_file *file = kit_cow_open_file(kit_cow_file("f", MIB + 7, 5)),
		  *small;
	tarn_tensor *mapped, *plain, *p;
	unsigned char *bytes = malloc(MIB + 7);
	uint64_t at, size;

	kit_cow_check(tarn_file_map(file, "x", 0, &mapped), "map");
	kit_cow_check(tarn_file_tensor(file, "x", &plain), "tensor");
	test_kind(mapped, MIB + 7, 5, true, "a mapped file");
	test_kind(plain, MIB + 7, 5, true, "a file");
	tarn_file_data_range(file, &at, &size);
	if (!bytes ||
		fd_pread(tarn_file_fd(file), bytes, size, at) != (ssize_t)size)
		bail("reading back: %m");
	for (at = 0; at < size && bytes[at] == kit_cow_byte(at, 5);)
		at++;
	is_int((int64_t)size, (int64_t)at,
		"the file is unchanged by private writes");
	free(bytes);
	kit_cow_drop(&mapped);

	/* Pages that no longer are would be signals. */
	if (truncate(tarn_file_path(file), (off_t)MIB / 2) < 0)
		bail("truncate: %m");
	is_int(-ENODATA, tarn_tensor_cow(plain, &p),
		"a private form of a file that has shrunk is refused");
	has_str("private: file: it ends at byte", tarn_error_message(),
		"the error says where the file ends");
	unlink(tarn_file_path(file));
	kit_cow_drop(&plain);
	tarn_file_unref(file);

	small = kit_cow_open_file(kit_cow_file("s", 100, 6));
	kit_cow_check(tarn_file_map(small, "x", 0, &mapped), "map");
	test_kind(mapped, 100, 6, false, "a small file");
	kit_cow_drop(&mapped);
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
		lent[i] = kit_cow_byte(i, 7);
	kit_cow_check(
		tarn_layout_contiguous(TARN_U8, 1, &n, &layout), "layout");
	kit_cow_check(tarn_storage_borrow(
			      lent, sizeof(lent), 0, NULL, NULL, &storage),
		"borrow");
	kit_cow_check(tarn_tensor_new(storage, 0, &layout, &t), "new");
	tarn_storage_unref(storage);
	test_kind(t, sizeof(lent), 7, false, "lent");
	is_int(-1, kit_cow_differs(t, sizeof(lent), 7),
		"lent memory is unchanged by private writes");
	kit_cow_drop(&t);
	kit_cow_check(tarn_tensor_zeros(TARN_F32, 2, shape, &t), "zeros");
	p = kit_cow_of(t);
	ok(p == t, "the private form of a writable tensor is itself");
	kit_cow_drop(&p);
	kit_cow_drop(&t);
	kit_cow_check(tarn_storage_borrow(NULL, 0, 0, NULL, NULL, &storage),
		"nothing");
	kit_cow_check(
		tarn_layout_contiguous(TARN_F32, 2, shape, &layout), "layout");
	kit_cow_check(tarn_tensor_new(storage, 0, &layout, &t), "new");
	tarn_storage_unref(storage);
	p = kit_cow_of(t);
	ok(p != t && tarn_storage_writable(tarn_tensor_storage(p)),
		"a read-only tensor without elements has a private form");
	kit_cow_drop(&p);
	kit_cow_drop(&t);
}

/* ---- channels ---------------------------------------------------------- */

static void send_item(tarn_channel *channel, unsigned seed)
{
	int64_t n = (int64_t)MIB;
	tarn_tensor *t;
	tarn_slot *slot;

	kit_cow_check(tarn_channel_acquire(channel, PATIENCE_US / 1000, &slot),
		"slot");
	kit_cow_check(tarn_slot_new_tensor(slot, TARN_U8, 1, &n, &t), "empty");
	for (uint64_t i = 0; i < MIB; i++)
		kit_cow_data(t)[i] = kit_cow_byte(i, seed);
	tarn_tensor_unref(t);
	kit_cow_check(tarn_slot_publish(slot), "publish");
}

static tarn_tensor *received(tarn_channel *channel)
{
	tarn_item *item;
	tarn_tensor *t;

	kit_cow_check(tarn_channel_receive(channel, PATIENCE_US / 1000, &item),
		"item");
	kit_cow_check(tarn_item_tensor(item, 0, &t), "tensor");
	tarn_item_unref(item);
	return t;
}

/* One slot of 4 MiB, for both items after each other; two who read it. */
static void test_broadcast(void)
{
	struct tarn_channel_options options = {.mode = TARN_CHANNEL_BROADCAST,
		.slots = 1,
		.slot_bytes = 4 * MIB};
	tarn_channel *in, *out[2];
	tarn_tensor *t, *p, *other;

	kit_cow_check(tarn_channel_open(kit_cow_store, "ch", &options, &in),
		"channel");
	for (int i = 0; i < 2; i++) {
		kit_cow_check(
			tarn_channel_open(kit_cow_store, "ch", NULL, &out[i]),
			"channel");
		kit_cow_check(tarn_channel_join(out[i], TARN_CHANNEL_CONSUMER),
			"join");
	}
	for (unsigned seed = 20; seed < 22; seed++) {
		send_item(in, seed);
		t = received(out[0]);
		other = received(out[1]);
		test_kind(t, MIB, seed, true,
			"an item of a broadcast has a private form");
		p = kit_cow_of(t);
		kit_cow_drop(&t);
		kit_cow_data(p)[9] ^= 0xff;
		is_int(-1, kit_cow_differs(other, MIB, seed),
			"private writes to an item are not seen by other "
			"consumers");
		kit_cow_drop(&other);
		is_int(9, kit_cow_differs(p, MIB, seed),
			"a private form of an item holds its slot");
		kit_cow_drop(&p);
	}
	tarn_channel_unref(in);
	tarn_channel_unref(out[0]);
	tarn_channel_unref(out[1]);
	kit_cow_check(tarn_store_remove(kit_cow_store, "ch"), "remove");
}

/* ---- without a daemon -------------------------------------------------- */

static void test_alone(void)
{
	tarn_tensor *t = kit_cow_loaded("alone", 2 * MIB, 12),
		    *p = kit_cow_of(t), *q;
	tarn_tensor *other = kit_cow_loaded("other", 2 * MIB, 13);

	kit_cow_data(p)[100] = 1;
	is_int(0, daemon_stop(&kit_cow_daemon),
		"the daemon ends without an error");
	is_int(100, kit_cow_differs(p, 2 * MIB, 12),
		"a private tensor outlives the daemon");
	q = kit_cow_of(other);
	kit_cow_data(q)[0] ^= 1;
	is_int(-1, kit_cow_differs(other, 2 * MIB, 13),
		"a private form without the daemon is a copy");
	is_int(0, kit_cow_differs(q, 2 * MIB, 13), "the copy can be written");
	kit_cow_drop(&q);
	kit_cow_drop(&other);
	kit_cow_drop(&p);
	kit_cow_drop(&t);
}

int main(void)
{
	kit_cow_begin();
	test_pool();
	test_published();
	test_file();
	test_memory();
	test_broadcast();
	test_alone();
	tarn_store_unref(kit_cow_store);
	return done(146);
}
