/* SPDX-License-Identifier: MIT */
/*
 * Any 256 bytes as a descriptor, against any entry of the table, and against
 * real shared memory. Whatever is let in lies inside its storage, and goes out
 * again as the same bytes.
 *
 * An input is a descriptor, then 24 bytes for the entry: pool, base, size.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "base/fail.h"
#include "lib/descriptor/descriptor.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/fake_daemon.h"
#include "tests/fuzz/fuzz.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "descriptor";

static struct fake fake;
static tarn_store *store;

static void judge_refusal(int r)
{
	if (r != -EBADMSG && r != -ESTALE)
		bail("refused with %d: %s", r, tarn_fail_message());
	if (strncmp(tarn_fail_message(), "descriptor: ", 12) != 0 &&
		r == -EBADMSG)
		bail("refused without its sentence: %s", tarn_fail_message());
}

/* In bits of the storage, which cannot overflow here. */
static void judge_reach(
	const struct tarn_layout *layout, uint64_t base, uint64_t size)
{
	__int128 bits = tarn_dtype_bits(layout->dtype), end;
	int64_t first, count;

	if (tarn_layout_check(layout) < 0)
		bail("let in, but: %s", tarn_fail_message());
	tarn_layout_bounds(layout, &first, &count);
	end = (__int128)base * 8 + ((__int128)first + count) * bits;
	if (base > size || (count && (first < 0 || end > (__int128)size * 8)))
		bail("let in, and reaches outside: %lld elements from %lld "
		     "behind byte %llu of %llu",
			(long long)count, (long long)first,
			(unsigned long long)base, (unsigned long long)size);
}

/* ---- any entry --------------------------------------------------------- */

static void judge_entry(
	const struct tarn_descriptor *d, const struct table_storage *entry)
{
	struct tarn_layout layout;
	uint64_t base;
	/* Its own instance, so that what follows is looked at. */
	int r = descriptor_check(d, d->instance, &layout);

	if (r == 0)
		r = descriptor_fits(d, &layout, entry, &base);
	if (r < 0)
		return judge_refusal(r);
	judge_reach(&layout, base, entry->size);
	if (entry->base + base != d->base)
		bail("base %llu became %llu", (unsigned long long)d->base,
			(unsigned long long)(entry->base + base));
}

/* ---- real memory ------------------------------------------------------- */

static void end(void)
{
	store = tarn_store_unref(store);
	fake_stop(&fake);
}

static void begin(void)
{
	int fd = fake_start(&fake, FAKE_GOOD);

	if (store_open_fd(fd, "fake", "", 5000, &store) < 0)
		bail("open: %s", tarn_fail_message());
	atexit(end);
}

/* The first and the last byte that it reaches. */
static void touch(const tarn_tensor *t)
{
	const volatile unsigned char *data = t->storage->data;
	int64_t first, count, bits = tarn_dtype_bits(t->layout.dtype);

	tarn_layout_bounds(&t->layout, &first, &count);
	if (!count)
		return;
	(void)data[t->base + (uint64_t)(first * bits) / 8];
	(void)data[t->base + (uint64_t)((first + count) * bits - 1) / 8];
}

static void judge_memory(const struct tarn_descriptor *d)
{
	struct tarn_descriptor back;
	tarn_tensor *t = NULL;
	int r;

	if (!store)
		begin();
	r = tarn_store_import(store, d, &t);
	if (r < 0) {
		judge_refusal(r);
	} else {
		judge_reach(&t->layout, t->base, t->storage->size);
		touch(t);
		if (tarn_store_export(store, t, &back) < 0)
			bail("it cannot go out: %s", tarn_fail_message());
		if (memcmp(d, &back, sizeof(back)) != 0)
			bail("it goes out as another");
		tarn_tensor_unref(t);
	}
	if (lease_count(fake.page))
		bail("a lease is left behind");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct tarn_descriptor d;
	struct {
		uint64_t pool, base, size;
	} place;
	struct table_storage entry = {0};

	if (size < sizeof(d) + sizeof(place))
		return 0;
	memcpy(&d, bytes, sizeof(d));
	memcpy(&place, bytes + sizeof(d), sizeof(place));
	entry.pool = (uint32_t)place.pool;
	entry.base = place.base;
	entry.size = place.size;
	judge_entry(&d, &entry);
	judge_memory(&d);
	return 0;
}
