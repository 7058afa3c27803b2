/* SPDX-License-Identifier: MIT */
/*
 * Descriptors from strangers: a good one gives the right bytes, and no other
 * one gives anything. Hundreds of seeded mutations are imported; each must be
 * an error with a sentence, or a tensor that lies inside its storage.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/fake_daemon.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct fake fake;
static tarn_store *store;

/* U8[64, 64] over FAKE_SMALL. */
static struct tarn_descriptor good(void)
{
	return (struct tarn_descriptor) {
		.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = FAKE_INSTANCE,
		.pool = 5,
		.storage = FAKE_SMALL,
		.generation = FAKE_GENERATION,
		.base = 4096,
		.size = 4096,
		.dtype = TARN_U8,
		.ndim = 2,
		.shape = {64, 64},
		.stride = {64, 1},
	};
}

static void refused(const struct tarn_descriptor *d, int err, const char *part,
	const char *what)
{
	tarn_tensor *t = NULL;

	is_int(-err, tarn_store_import(store, d, &t),
		"a descriptor is refused: %s", what);
	has_str(part, tarn_error_message(), "the error names the reason");
	ok(t == NULL, "a refused descriptor returns no tensor");
}

static void test_good(void)
{
	struct tarn_descriptor d = good(), back;
	struct tarn_layout part;
	tarn_tensor *t, *u, *v;

	is_int(0, tarn_store_import(store, &d, &t),
		"a valid descriptor is imported");
	ok(((unsigned char *)tarn_tensor_data(t))[5] ==
			(unsigned char)((4096 + 5) * 7),
		"an imported tensor has the bytes of its descriptor");
	is_int(TARN_STORAGE_SHARED, tarn_storage_kind(tarn_tensor_storage(t)),
		"an imported tensor is shared");
	ok(!tarn_storage_writable(tarn_tensor_storage(t)),
		"the imported tensor is read-only");
	is_int(1, lease_count(fake.page), "an imported tensor has a lease");
	is_int(0, tarn_store_import(store, &d, &u),
		"a descriptor is imported a second time");
	ok(tarn_tensor_same_storage(t, u),
		"a second import has the same storage");
	is_int(1, lease_count(fake.page),
		"a second import uses the same lease");
	must(tarn_layout_slice(
		tarn_tensor_layout(t), 0, 1, TARN_NONE, 1, &part));
	must(tarn_layout_slice(&part, 1, 3, TARN_NONE, 1, &part));
	is_int(0, tarn_tensor_with_layout(t, &part, &v),
		"a view of an imported tensor is made");
	is_int(0, tarn_store_export(store, v, &back),
		"a view of an imported tensor is exported");
	is_int(67, back.offset, "an exported view has its offset");
	tarn_tensor_unref(t);
	tarn_tensor_unref(u);
	is_int(1, lease_count(fake.page), "the view holds the lease");
	tarn_tensor_unref(v);
	is_int(0, lease_count(fake.page),
		"dropping the last view releases the lease");
	is_int(0, tarn_store_import(store, &back, &v),
		"an exported view is imported");
	is_int(0, tarn_store_export(store, v, &d),
		"an imported view is exported again");
	is_mem(&back, &d, sizeof(d),
		"an export after an import gives the same descriptor");
	tarn_tensor_unref(v);
}

static void test_unaligned(void)
{
	struct tarn_descriptor d = good(), back;
	tarn_tensor *t;

	d.base += 3;
	d.dtype = TARN_F32;
	d.ndim = 1;
	d.shape[0] = 1023;
	d.shape[1] = d.stride[1] = 0;
	d.stride[0] = 1;
	is_int(0, tarn_store_import(store, &d, &t),
		"a tensor may begin at any byte of its storage");
	is_int(3, (int64_t)tarn_tensor_base(t),
		"the imported tensor has its odd base");
	is_int(0, tarn_store_export(store, t, &back),
		"a tensor with an odd base is exported");
	is_mem(&d, &back, sizeof(d),
		"an export with an odd base gives the same descriptor");
	tarn_tensor_unref(t);
	d.shape[0] = 1024;
	refused(&d, EBADMSG, "reach outside", "a layout of four bytes more");
}

static void test_wide(void)
{
	struct tarn_descriptor d = good();
	tarn_tensor *t;
	unsigned char *p;
	bool same = true;

	d.storage = FAKE_WIDE;
	d.base = FAKE_WIDE_BASE;
	d.size = FAKE_WIDE_SIZE;
	d.ndim = 1;
	d.shape[0] = FAKE_WIDE_SIZE;
	d.shape[1] = d.stride[1] = 0;
	d.stride[0] = 1;
	is_int(0, tarn_store_import(store, &d, &t),
		"a tensor across two segments");
	p = tarn_tensor_data(t);
	for (uint64_t i = 0; i < FAKE_WIDE_SIZE; i++) {
		uint64_t at = FAKE_WIDE_BASE + i;

		same &= p[i] ==
			fake.memory[at / FAKE_SEGMENT][at % FAKE_SEGMENT];
	}
	ok(same, "a tensor across two segments has its bytes in one range");
	is_int(0, tarn_store_populate(store, t, 2),
		"a tensor of several segments can be populated");
	tarn_tensor_unref(t);
}

static void test_empty(void)
{
	struct tarn_descriptor d = good();
	tarn_tensor *t;

	d.storage = FAKE_EMPTY;
	d.base = d.size = 0;
	d.shape[0] = 0;
	is_int(0, tarn_store_import(store, &d, &t),
		"a tensor without elements is imported");
	is_int(0, tarn_layout_numel(tarn_tensor_layout(t)),
		"a tensor without elements has none");
	is_int(0, tarn_store_populate(store, t, 0),
		"an empty tensor can be populated");
	tarn_tensor_unref(t);
	d.shape[0] = 1;
	refused(&d, EBADMSG, "reach outside", "one row of no bytes");
}

#define CHANGED(field, value, err, part)                                       \
	do {                                                                   \
		struct tarn_descriptor d = good();                             \
                                                                               \
		d.field = value;                                               \
		refused(&d, err, part, #field " = " #value);                   \
	} while (0)

static void test_each_field(void)
{
	CHANGED(magic, 0, EBADMSG, "magic");
	CHANGED(version, 2, EBADMSG, "version 2");
	CHANGED(flags, 1, EBADMSG, "flags 0x1");
	CHANGED(instance, 1, ESTALE, "of daemon 0000000000000001");
	CHANGED(zero[5], 9, EBADMSG, "not 0");
	CHANGED(pool, 6, EBADMSG, "pool 5");
	CHANGED(storage, 4, ESTALE, "storage 4");
	CHANGED(storage, TABLE_STORAGES_MAX, ESTALE, "no such");
	CHANGED(storage, UINT32_MAX, ESTALE, "no such");
	CHANGED(generation, 0, ESTALE, "no such");
	CHANGED(generation, FAKE_GENERATION - 1, ESTALE, "gone");
	CHANGED(generation, FAKE_GENERATION + 1, ESTALE, "gone");
	CHANGED(generation, UINT64_MAX, ESTALE, "no such");
	CHANGED(base, 4095, EBADMSG, "outside");
	CHANGED(base, 4097, EBADMSG, "reach outside");
	CHANGED(base, 8193, EBADMSG, "outside");
	CHANGED(base, UINT64_MAX, EBADMSG, "outside");
	CHANGED(size, 4095, EBADMSG, "4096 bytes");
	CHANGED(size, UINT64_MAX, EBADMSG, "4096 bytes");
	CHANGED(offset, -1, EBADMSG, "descriptor");
	CHANGED(offset, 1, EBADMSG, "reach outside");
	CHANGED(offset, INT64_MAX, EBADMSG, "descriptor");
	CHANGED(dtype, 0, EBADMSG, "descriptor");
	CHANGED(dtype, 23, EBADMSG, "descriptor");
	CHANGED(dtype, TARN_U16, EBADMSG, "reach outside");
	CHANGED(ndim, 13, EBADMSG, "rank 13");
	CHANGED(ndim, 1, EBADMSG, "dimension 1 is 64");
	CHANGED(shape[0], 65, EBADMSG, "reach outside");
	CHANGED(shape[0], -1, EBADMSG, "descriptor");
	CHANGED(shape[0], INT64_MAX, EBADMSG, "descriptor");
	CHANGED(shape[7], 1, EBADMSG, "dimension 7");
	CHANGED(stride[0], INT64_MIN, EBADMSG, "descriptor");
	CHANGED(stride[0], -64, EBADMSG, "descriptor");
	CHANGED(stride[1], 65, EBADMSG, "reach outside");
}

/* ---- seeded mutations ------------------------------------------------ */

static uint64_t seed = 20260611;

static uint64_t next_random(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void mutate(struct tarn_descriptor *d)
{
	static const uint64_t nasty[] = {0, 1, 2, 63, 64, 65, 4095, 4096, 4097,
		1ull << 31, 1ull << 32, 1ull << 62, INT64_MAX, 1ull << 63,
		UINT64_MAX, UINT64_MAX - 4095, (uint64_t)INT64_MAX / 8};
	unsigned char *p = (unsigned char *)d;
	uint64_t value = nasty[next_random() % (sizeof(nasty) / 8)];

	switch (next_random() % 3) {
	case 0:
		p[next_random() % sizeof(*d)] ^=
			(unsigned char)(1u << next_random() % 8);
		break;
	case 1:
		memcpy(p + next_random() % 32 * 8, &value, 8);
		break;
	default:
		value += next_random() % 8;
		memcpy(p + (6 + next_random() % 8) * 8, &value, 8);
	}
}

/* Whatever came in must lie in its storage: read both ends of it. */
static bool is_inside(const tarn_tensor *t)
{
	const tarn_storage *s = t->storage;
	int64_t first, count, bits = tarn_dtype_bits(t->layout.dtype);
	uint64_t end;

	tarn_layout_bounds(&t->layout, &first, &count);
	if (count == 0)
		return t->base <= s->size;
	end = t->base + (uint64_t)((first + count) * bits + 7) / 8;
	if (first < 0 || end > s->size)
		return false;
	(void)((volatile unsigned char *)s->data)[end - 1];
	return true;
}

static void test_mutations(void)
{
	int n_in = 0, n_out = 0, n_bad = 0, n_silent = 0;

	for (int i = 0; i < 4000; i++) {
		struct tarn_descriptor d = good();
		tarn_tensor *t = NULL;
		int r, n = 1 + (int)(next_random() % 3);

		while (n--)
			mutate(&d);
		r = tarn_store_import(store, &d, &t);
		if (r >= 0) {
			n_in++;
			n_bad += !is_inside(t);
			tarn_tensor_unref(t);
			continue;
		}
		n_out++;
		n_bad += r != -EBADMSG && r != -ESTALE;
		n_silent += tarn_error_message()[0] == '\0';
	}
	diag("of 4000 mutated descriptors %d came in, %d did not", n_in, n_out);
	is_int(0, n_bad,
		"each mutation is an error or lies inside its storage");
	is_int(0, n_silent, "each refused mutation has a sentence");
	ok(n_in > 20 && n_out > 2000,
		"some mutations are refused and some are accepted");
	is_int(0, lease_count(fake.page), "no lease is left by the mutations");
}

static void test_export(void)
{
	struct tarn_descriptor d;
	tarn_tensor *t;
	int64_t shape[] = {2, 3};

	must(tarn_tensor_zeros(TARN_F32, 2, shape, &t));
	is_int(-EINVAL, tarn_store_export(store, t, &d),
		"private memory cannot be exported");
	has_str("not in shared memory", tarn_error_message(),
		"the error says that the memory is not shared");
	tarn_tensor_unref(t);
}

/* What was removed while it was held: the last release rings the daemon. */
static void test_ring(void)
{
	struct tarn_descriptor d = good();
	tarn_tensor *t;

	must(tarn_store_import(store, &d, &t));
	fake.table.storages[FAKE_SMALL].word =
		storage_word(FAKE_GENERATION, STORAGE_UNNAMED);
	tarn_tensor_unref(t);
	/* A call behind the notification, so that it has been heard. */
	is_int(0, tarn_store_remove(store, "x"), "a name is removed");
	is_int(1, fake.n_released,
		"dropping the last lease of an unnamed storage notifies");
	fake.table.storages[FAKE_SMALL].word =
		storage_word(FAKE_GENERATION, STORAGE_FREEING);
	refused(&d, EBUSY, "about to free", "one that stays in freeing");
	fake.table.storages[FAKE_SMALL].word =
		storage_word(FAKE_GENERATION, STORAGE_FILLING);
	refused(&d, ESTALE, "under way", "one that is being filled");
	fake.table.storages[FAKE_SMALL].word =
		storage_word(FAKE_GENERATION, STORAGE_LIVE);
}

/* Tensors outlive the store, and the daemon. */
static void test_outlive(void)
{
	struct tarn_descriptor d = good();
	tarn_tensor *t;

	is_int(0, tarn_store_import(store, &d, &t),
		"a tensor is imported to outlive its store");
	store = tarn_store_unref(store);
	is_int((unsigned char)(4096 * 7), *(unsigned char *)tarn_tensor_data(t),
		"a tensor is readable after its store was closed");
	is_int(1, lease_count(fake.page),
		"the tensor keeps its lease without its store");
	fake_stop(&fake);
	is_int((unsigned char)(4096 * 7), *(unsigned char *)tarn_tensor_data(t),
		"the tensor can be read without its daemon");
	tarn_tensor_unref(t);
}

int main(void)
{
	int fd = fake_start(&fake, FAKE_GOOD);

	if (store_open_fd(fd, "fake", "", 60000, &store) < 0)
		bail("open: %s", tarn_error_message());
	test_good();
	test_unaligned();
	test_wide();
	test_empty();
	test_each_field();
	test_mutations();
	test_export();
	test_ring();
	test_outlive();
	return done(152);
}
