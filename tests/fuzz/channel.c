/* SPDX-License-Identifier: MIT */
/*
 * Any bytes in a channel's memory, written between the calls of its
 * participants: two handles of one process, and real memory of a fake daemon.
 *
 * Whatever stands there, each call returns, and each that fails has a sentence.
 * What an item says of itself is so: its tensors lie in its slot, or in the
 * storages that the daemon knows; its tag is no longer than a tag. No lease
 * stays when all handles are closed.
 *
 * An input begins with the kind of the channel. Then acts: of the first byte,
 * bits 0 to 4 say which, bit 5 by which handle.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"
#include "shm/table_writer.h"
#include "tests/kit/fake_daemon.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/ring_poke.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "channel";

#define NAME "c"
#define SLOTS 4u
#define TENSORS 3u
#define INDEX (FAKE_LOADED + 1) /* of its storage */
#define HANDLES 2u
#define HANDS 6u /* slots, and items, that one handle has at once */

/* From 16 on: the parts of ring_poke.h. */
enum act {
	JOIN, /* 1 byte: roles */
	LEAVE,
	ACQUIRE,
	EMPTY, /* 2 bytes: dtype, sizes */
	ADD,   /* 1 byte: a storage of the daemon's */
	SET,   /* 1 byte: which, and how */
	TAG,
	PUBLISH,
	ABANDON,
	RECEIVE,
	DROP,
	LOOK, /* at what was received last */
	INFO, /* and a watcher's look */
	WAIT, /* 1 byte: for what */
	CLOSE,
	REOPEN,
	POKES
};

static struct fake fake;
static tarn_store *store;
static struct channel_map memory; /* as a peer has it */
static struct ring ring;

static struct handle {
	tarn_channel *channel;
	tarn_slot *slots[HANDS];
	tarn_item *items[HANDS];
	uint32_t n_slots, n_items;
	uint64_t cursor;
} handles[HANDLES];

/* ---- before the first ---------------------------------------------------- */

static void must(int r, const char *what)
{
	if (r < 0)
		bail("%s: %s", what, tarn_fail_message());
}

static struct channel_geometry geometry_of(unsigned kind)
{
	return (struct channel_geometry) {
		.ring = {.mode = kind & 1 ? RING_BROADCAST : RING_QUEUE,
			.slots = SLOTS,
			.slot_bytes = CHANNEL_PAGE},
		.tensors = TENSORS,
		.flags = kind & 2 ? CHANNEL_EPHEMERAL : 0};
}

static void end(void)
{
	store = tarn_store_unref(store);
	fake_stop(&fake);
	munmap(memory.memory, memory.size);
	close(fake.own_fd);
}

static void make_memory(void)
{
	const struct channel_geometry g = geometry_of(0);
	int fd = memfd_create("channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	must(channel_size(&g, &memory.size), "its size");
	if (fd < 0 || ftruncate(fd, (off_t)memory.size) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		bail("a channel: %m");
	memory.memory = mmap(
		NULL, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory.memory == MAP_FAILED)
		bail("a channel: %m");
	fake.own_fd = fd;
}

static int no_name(void *arg, const struct tarn_descriptor *d, uint32_t uid)
{
	(void)arg;
	(void)d;
	return 0;
}

/* What a daemon's table says of it. */
static void name_it(void)
{
	const struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = FAKE_INSTANCE,
		.pool = TABLE_POOL_OWN,
		.storage = INDEX,
		.generation = FAKE_GENERATION,
		.size = memory.size,
		.dtype = TARN_U8,
		.ndim = 1,
		.shape = {(int64_t)memory.size},
		.stride = {1}};
	struct table_storage *entry = &fake.table.storages[INDEX];
	struct table_writer *writer;
	uint64_t version;

	entry->pool = TABLE_POOL_OWN;
	entry->size = memory.size;
	entry->flags = STORAGE_OWN | STORAGE_MUTABLE | STORAGE_CREATED |
		       STORAGE_CHANNEL;
	entry->word = storage_word(FAKE_GENERATION, STORAGE_LIVE);
	fake.table.header->n_storages = INDEX + 1;
	must(table_writer_take_over(&fake.table, no_name, NULL, &writer),
		"a writer");
	must(table_begin(writer), "a name");
	must(table_put(writer, NAME, strlen(NAME), &d, &version), "a name");
	table_commit(writer, NULL, NULL);
	table_writer_free(writer);
}

static void begin(void)
{
	int fd = fake_start(&fake, FAKE_GOOD);

	make_memory();
	name_it();
	must(store_open_fd(fd, "fake", "", 5000, &store), "open");
	atexit(end);
}

/* ---- judging ------------------------------------------------------------- */

/* That of a try in vain is the same for all, and has no name in it. */
static void judge_error(int r, bool is_try)
{
	const char *text = tarn_error_message();

	if (r < 0 && (!*text || (strncmp(text, "channel '", 9) != 0 &&
					!(is_try && r == -ETIMEDOUT))))
		bail("error %d without its sentence: '%s'", r, text);
	if (r > 0)
		bail("it returns %d", r);
}

/* What it reaches of a part of memory, in bits from there; the ends of it are
 * read, or written. */
static void judge_tensor(
	tarn_tensor *t, const unsigned char *from, uint64_t size, bool write)
{
	int64_t first, count, bits = tarn_dtype_bits(t->layout.dtype);
	unsigned char *data = t->storage->data, *at[2];

	must(tarn_layout_check(&t->layout), "let in");
	tarn_layout_bounds(&t->layout, &first, &count);
	if (!count)
		return;
	at[0] = data + t->base + (uint64_t)(first * bits) / 8;
	at[1] = data + t->base + (uint64_t)((first + count) * bits - 1) / 8;
	for (int i = 0; i < 2; i++) {
		if (from && (at[i] < from || at[i] >= from + size))
			bail("byte %td of a slot of %llu", at[i] - from,
				(unsigned long long)size);
		if (write)
			*at[i] = 1;
		else
			(void)*(volatile unsigned char *)at[i];
	}
}

/* Where the storage of a slot, or item, is in this process. */
static void judge_slot(const tarn_storage *storage)
{
	if (storage->size != CHANNEL_PAGE ||
		(uintptr_t)storage->data % CHANNEL_PAGE)
		bail("a slot of %llu bytes at %p",
			(unsigned long long)storage->size, storage->data);
}

/* ---- a producer ---------------------------------------------------------- */

static void acquire(struct handle *h, int timeout_ms)
{
	tarn_slot *slot;
	int r;

	if (h->n_slots == HANDS)
		return;
	r = tarn_channel_acquire(h->channel, timeout_ms, &slot);
	judge_error(r, timeout_ms == 0);
	if (r < 0)
		return;
	judge_slot((tarn_storage *)slot);
	h->slots[h->n_slots++] = slot;
}

static tarn_slot *filling(const struct handle *h)
{
	return h->n_slots ? h->slots[h->n_slots - 1] : NULL;
}

static void empty(struct handle *h, uint8_t dtype, uint8_t sizes)
{
	const int64_t shape[] = {sizes & 15, sizes >> 4, 2};
	tarn_slot *slot = filling(h);
	tarn_tensor *t;
	int r;

	if (!slot)
		return;
	r = tarn_slot_new_tensor(slot, dtype, sizes & 3, shape, &t);
	judge_error(r, false);
	if (r < 0)
		return;
	judge_tensor(t, t->storage->data, t->storage->size, true);
	tarn_tensor_unref(t);
}

static void add(struct handle *h, uint8_t which)
{
	const struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = FAKE_INSTANCE,
		.pool = 5,
		.storage = which & 1,
		.generation = FAKE_GENERATION,
		.base = which & 1 ? FAKE_WIDE_BASE : 4096,
		.size = which & 1 ? FAKE_WIDE_SIZE : 4096,
		.dtype = TARN_U8,
		.ndim = 1,
		.shape = {which},
		.stride = {1}};
	tarn_slot *slot = filling(h);
	tarn_tensor *t;

	if (!slot)
		return;
	must(tarn_store_import(store, &d, &t), "a tensor of the daemon's");
	judge_error(tarn_slot_add(slot, t), false);
	tarn_tensor_unref(t);
}

static void set(struct handle *h, uint8_t how)
{
	const int64_t shape[] = {how >> 4, 3};
	struct tarn_layout layout;
	tarn_slot *slot = filling(h);

	if (!slot)
		return;
	must(tarn_layout_contiguous(TARN_U16, 2, shape, &layout), "a layout");
	judge_error(tarn_slot_set_layout(slot, how & 3, &layout), false);
}

static void tag(struct handle *h, uint8_t size)
{
	static const char bytes[256] = "a tag";

	if (filling(h))
		judge_error(
			tarn_slot_set_tag(filling(h), bytes, size % 80), false);
}

static void publish(struct handle *h)
{
	if (filling(h))
		judge_error(tarn_slot_publish(h->slots[--h->n_slots]), false);
}

static void abandon(struct handle *h)
{
	if (filling(h))
		tarn_slot_abandon(h->slots[--h->n_slots]);
}

/* ---- a consumer ---------------------------------------------------------- */

static void receive(struct handle *h, int timeout_ms)
{
	size_t size;
	tarn_item *item;
	int r;

	if (h->n_items == HANDS)
		return;
	r = tarn_channel_receive(h->channel, timeout_ms, &item);
	judge_error(r, timeout_ms == 0);
	if (r < 0)
		return;
	judge_slot((tarn_storage *)item);
	tarn_item_tag(item, &size);
	if (size > TARN_CHANNEL_TAG_MAX || tarn_item_count(item) > TENSORS)
		bail("an item of %zu tensors with a tag of %zu",
			tarn_item_count(item), size);
	h->items[h->n_items++] = item;
}

static void look(struct handle *h)
{
	tarn_item *item = h->n_items ? h->items[h->n_items - 1] : NULL;
	const tarn_storage *slot = (const tarn_storage *)item;

	for (uint32_t i = 0; item && i <= tarn_item_count(item); i++) {
		tarn_tensor *t;
		int r = tarn_item_tensor(item, i, &t);

		judge_error(r, false);
		if (r < 0)
			continue;
		if (t->storage == slot)
			judge_tensor(t, slot->data, slot->size, slot->writable);
		else
			judge_tensor(
				t, t->storage->data, t->storage->size, false);
		tarn_tensor_unref(t);
	}
}

static void drop(struct handle *h)
{
	if (h->n_items)
		tarn_item_unref(h->items[--h->n_items]);
}

/* ---- all ----------------------------------------------------------------- */

static void info(struct handle *h, int timeout_ms)
{
	struct tarn_channel_seen seen;
	struct tarn_channel_info is;
	int r = tarn_channel_watch(h->channel, &h->cursor, timeout_ms, &seen);

	if (r < 0)
		judge_error(r, timeout_ms == 0);
	if (r > 0 && seen.tag_size > TARN_CHANNEL_TAG_MAX)
		bail("a tag of %u", seen.tag_size);
	judge_error(tarn_channel_info(h->channel, &is), false);
	if (is.free + is.filling + is.ready + is.reading > SLOTS)
		bail("%u slots free, %u filling, %u ready, %u read, of %u",
			is.free, is.filling, is.ready, is.reading, SLOTS);
}

static void wait(struct handle *h, uint8_t what)
{
	if (what % 3 == 0)
		acquire(h, 1);
	else if (what % 3 == 1)
		receive(h, 1);
	else
		info(h, 1);
}

static void shut(struct handle *h)
{
	while (h->n_items)
		drop(h);
	while (h->n_slots)
		abandon(h);
	h->channel = tarn_channel_unref(h->channel);
}

static void open_it(struct handle *h)
{
	int r = tarn_channel_open(store, NAME, NULL, &h->channel);

	judge_error(r, false);
	if (r < 0)
		h->channel = NULL;
}

static void reopen(struct handle *h)
{
	if (h->channel)
		shut(h);
	*h = (struct handle) {0};
	open_it(h);
}

static void take_part(struct handle *h, enum act act, struct input *in)
{
	switch (act) {
	case JOIN:
		return judge_error(
			tarn_channel_join(h->channel, input_byte(in) & 3), 0);
	case LEAVE:
		return judge_error(
			tarn_channel_leave(h->channel, input_byte(in) & 3), 0);
	case ACQUIRE:
		return acquire(h, 0);
	case EMPTY:
		act = input_byte(in); /* in this order */
		return empty(h, (uint8_t)act, input_byte(in));
	case ADD:
		return add(h, input_byte(in));
	case SET:
		return set(h, input_byte(in));
	case TAG:
		return tag(h, input_byte(in));
	case PUBLISH:
		return publish(h);
	case ABANDON:
		return abandon(h);
	case RECEIVE:
		return receive(h, 0);
	case DROP:
		return drop(h);
	case LOOK:
		return look(h);
	case INFO:
		return info(h, 0);
	case WAIT:
		return wait(h, input_byte(in));
	default:
		judge_error(tarn_channel_close(h->channel), false);
	}
}

static void make_anew(unsigned kind)
{
	const struct channel_geometry g = geometry_of(kind);

	/* Once it has been attached we know up to where it is written. */
	memset(memory.memory, 0,
		memory.bytes ? (size_t)(memory.bytes -
					(unsigned char *)memory.memory)
			     : (size_t)memory.size);
	must(channel_init(memory.memory, memory.size, &g), "a channel");
	must(channel_attach(&memory, memory.memory, memory.size), "a channel");
	must(ring_attach(&ring, memory.ring, memory.ring_size), "a ring");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = {bytes, bytes + size};

	if (!store)
		begin();
	make_anew(input_byte(&in));
	for (uint32_t i = 0; i < HANDLES; i++)
		reopen(&handles[i]);
	while (in.at < in.end) {
		uint8_t byte = input_byte(&in);
		struct handle *h = &handles[byte >> 5 & 1];
		enum act act = byte & 31;

		if (act >= POKES)
			ring_poke(&memory, &ring,
				(uint64_t)(memory.bytes -
					   (unsigned char *)memory.memory),
				(act - POKES) % RING_PARTS, &in);
		else if (act == REOPEN)
			reopen(h);
		else if (h->channel)
			take_part(h, act, &in);
	}
	for (uint32_t i = 0; i < HANDLES; i++)
		if (handles[i].channel)
			shut(&handles[i]);
	if (lease_count(fake.page))
		bail("a lease is left behind");
	return 0;
}
