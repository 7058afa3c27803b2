/* SPDX-License-Identifier: MIT */
/*
 * A channel in a pool that several users share: a user who may publish there
 * takes part and ends it; a reader sees its name and nothing else, whatever it
 * does with the descriptor that it can get; a stranger does not see even that;
 * and a participant that overwrites all that it can write harms no process.
 * Needs root, since only root can be several users.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/channel/channel.h"
#include "lib/store/own_map.h"
#include "lib/store/store.h"
#include "tests/kit/must.h"
#include "tests/kit/pool.h"
#include "tests/kit/tap.h"

#define ROUNDS 40

static tarn_store *open_pool(const struct pool_kit *kit, struct seen *seen)
{
	tarn_store *store = NULL;

	seen_error(seen,
		tarn_store_open(kit->daemon.socket,
			&(const struct tarn_store_options) {.pool = "shared"},
			&store));
	return store;
}

/* Opens it, or makes it with these options. */
static tarn_channel *opened(const struct pool_kit *kit, struct seen *seen,
	const struct tarn_channel_options *options, tarn_store **ret_store)
{
	tarn_channel *channel = NULL;

	*ret_store = open_pool(kit, seen);
	if (*ret_store)
		seen_error(seen,
			tarn_channel_open(*ret_store, "c", options, &channel));
	return channel;
}

/* Publishes one byte of that value. */
static void produce(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	const struct tarn_channel_options options = {.slots = 4};
	const int64_t n = 1;
	tarn_store *store;
	tarn_channel *channel = opened(kit, seen, &options, &store);
	tarn_slot *slot = NULL;
	tarn_tensor *t = NULL;
	int r = seen->r;

	if (r >= 0)
		r = tarn_channel_acquire(channel, 60000, &slot);
	if (r >= 0)
		r = tarn_slot_new_tensor(slot, TARN_U8, 1, &n, &t);
	if (r >= 0) {
		*(unsigned char *)tarn_tensor_data(t) =
			*(const unsigned char *)arg;
		tarn_tensor_unref(t);
		r = tarn_slot_publish(slot);
	}
	seen_error(seen, r);
	tarn_channel_unref(channel);
	tarn_store_unref(store);
}

/* Receives it, into bytes[0]. */
static void consume(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store;
	tarn_channel *channel = opened(kit, seen, NULL, &store);
	tarn_item *item = NULL;
	tarn_tensor *t = NULL;
	int r = seen->r;

	(void)arg;
	if (r >= 0)
		r = tarn_channel_receive(channel, 60000, &item);
	if (r >= 0)
		r = tarn_item_tensor(item, 0, &t);
	if (r >= 0)
		seen->bytes[0] = *(const unsigned char *)tarn_tensor_data(t);
	seen_error(seen, r);
	tarn_tensor_unref(t);
	tarn_item_unref(item);
	tarn_channel_unref(channel);
	tarn_store_unref(store);
}

static int count(void *arg, const char *name)
{
	(void)name;
	++*(uint64_t *)arg;
	return 0;
}

/* How many channels there are to be seen: n. */
static void list(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store = open_pool(kit, seen);

	(void)arg;
	if (store)
		seen_error(
			seen, tarn_channel_list(store, NULL, count, &seen->n));
	tarn_store_unref(store);
}

static void end(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store;
	tarn_channel *channel = opened(kit, seen, NULL, &store);

	(void)arg;
	if (channel)
		seen_error(seen, tarn_channel_close(channel));
	tarn_channel_unref(channel);
	tarn_store_unref(store);
}

static void rm(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store = open_pool(kit, seen);

	(void)arg;
	if (store)
		seen_error(seen, tarn_store_remove(store, "c"));
	tarn_store_unref(store);
}

/* ---- by other routes --------------------------------------------------- */

/* The channel's memory, as the daemon gives it to this user. */
static int fetch(tarn_store *store, struct table_storage *ret)
{
	struct table_name found;
	tarn_storage *known = NULL;
	uint64_t generation;
	uint32_t index;
	int r = store_read_name(store, "c", 1, &found);

	if (r < 0)
		return r;
	index = found.descriptor.storage;
	generation = found.descriptor.generation;
	r = store_hold(store, index, generation, NULL, &known);
	if (r >= 0)
		r = table_storage_get(&store->table, index, generation, ret);
	return r < 0 ? r : own_fetch_checked(store, index, generation, ret);
}

/* n counts the routes by which it can be written. */
static void attack(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store = open_pool(kit, seen);
	struct table_storage entry;
	int fd;

	(void)arg;
	if (!store)
		return;
	fd = fetch(store, &entry);
	seen_error(seen, fd);
	if (fd >= 0)
		seen->n = kit_pool_writes(fd) || kit_pool_writes_reopened(fd) ||
			  fchmod(fd, 0666) == 0 || kit_pool_writes_reopened(fd);
	fd_close(fd);
	tarn_store_unref(store);
}

/* n counts the sizes that the user can give it. */
static void resize(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store = open_pool(kit, seen);
	struct table_storage entry;
	int fd;

	(void)arg;
	if (!store)
		return;
	fd = fetch(store, &entry);
	seen_error(seen, fd);
	if (fd >= 0)
		seen->n = (ftruncate(fd, 4096) == 0) +
			  (ftruncate(fd, 2 * (off_t)entry.size) == 0) +
			  !kit_pool_writes(fd);
	fd_close(fd);
	tarn_store_unref(store);
}

/* Rubbish over all that is no slot: the ring, and what is said of items. A part
 * in so many words is kept, so that what comes later is reached too. */
static void scribble(tarn_channel *channel, uint64_t seed)
{
	const char *end = (char *)channel->map.bytes;
	char *from = (char *)channel->map.memory + CHANNEL_PAGE;
	uint64_t x = seed * 0x9e3779b97f4a7c15ull | 1;

	for (char *at = from; at + 8 <= end; at += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (x % (1 + seed % 5) == 0)
			memcpy(at,
				x & 1 << 20 ? (void *)&x
					    : (void *)"\0\0\0\0\0\0\0\1",
				8);
	}
}

/* A client takes part in every way while it scribbles over the channel. Its
 * calls end, whatever they return, and kill no process. n: 1 at the end;
 * bytes[0]: a call has reported that the channel makes no sense. */
static void suffer(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	const int64_t n = 100;
	tarn_store *store;
	tarn_channel *channel = opened(kit, seen, NULL, &store);
	struct tarn_channel_info info;
	struct tarn_channel_seen item_seen;
	uint64_t cursor = 0;
	tarn_slot *slots[2] = {NULL, NULL};
	tarn_item *item = NULL;
	tarn_tensor *t = NULL;
	int r;

	if (!channel)
		return;
	may_fail(tarn_channel_join(
		channel, TARN_CHANNEL_PRODUCER | TARN_CHANNEL_CONSUMER));
	if (tarn_channel_acquire(channel, 0, &slots[0]) >= 0 &&
		tarn_slot_new_tensor(slots[0], TARN_U8, 1, &n, &t) >= 0)
		t = tarn_tensor_unref(t);
	may_fail(tarn_channel_acquire(channel, 0, &slots[1]));
	if (slots[1])
		may_fail(tarn_slot_publish(slots[1]));
	scribble(channel, *(const uint64_t *)arg);
	may_fail(tarn_channel_info(channel, &info));
	may_fail(tarn_channel_watch(channel, &cursor, 5, &item_seen));
	if (slots[0])
		may_fail(tarn_slot_publish(slots[0]));
	for (int i = 0; i < 3; i++) {
		r = tarn_channel_receive(channel, 5, &item);
		seen->bytes[0] |= r == -EBADMSG;
		for (uint32_t k = 0; r >= 0 && k < tarn_item_count(item); k++)
			if (tarn_item_tensor(item, k, &t) >= 0)
				t = tarn_tensor_unref(t);
		if (r >= 0)
			item = tarn_item_unref(item);
	}
	r = tarn_channel_acquire(channel, 5, &slots[0]);
	seen->bytes[0] |= r == -EBADMSG;
	if (r >= 0)
		tarn_slot_abandon(slots[0]);
	may_fail(tarn_channel_close(channel));
	seen->n = 1;
	tarn_channel_unref(channel);
	tarn_store_unref(store);
}

/* n counts the faults of the daemon's books; r is how many servers died. */
static void check(const struct pool_kit *kit, struct seen *seen, void *arg)
{
	tarn_store *store = open_pool(kit, seen);
	struct tarn_report *report = NULL;
	struct tarn_check *found = NULL;

	(void)arg;
	seen->n = 1;
	if (store)
		seen_error(seen, tarn_store_check(store, &found));
	if (found && found->n_faults)
		snprintf(
			seen->text, sizeof(seen->text), "%s", found->faults[0]);
	if (found)
		seen->n = found->n_faults;
	if (seen->r >= 0)
		seen_error(seen, tarn_store_report(store, &report));
	if (report)
		seen->r = (int)report->daemon.restarts;
	tarn_report_free(report);
	tarn_check_free(found);
	tarn_store_unref(store);
}

/* ---- tests -------------------------------------------------------------- */

static void test_rights(const struct pool_kit *kit)
{
	unsigned char value = 33;
	const struct seen *s = kit_pool_as(kit, OWNER, produce, &value);

	is_int(0, s->r, "the owner makes a channel and publishes");
	s = kit_pool_as(kit, OWNER, list, NULL);
	is_int(1, (int64_t)s->n, "a member of the group finds one channel");
	s = kit_pool_as(kit, MEMBER, list, NULL);
	is_int(1, (int64_t)s->n, "a member of the group sees its name");
	s = kit_pool_as(kit, MEMBER, consume, NULL);
	is_int(-EPERM, s->r,
		"a member of the group may not take part in the channel");
	s = kit_pool_as(kit, MEMBER, produce, &value);
	is_int(-EPERM, s->r,
		"a member of the group may not open the channel in any way");
	s = kit_pool_as(kit, MEMBER, end, NULL);
	is_int(-EPERM, s->r, "a member of the group cannot close the channel");
	s = kit_pool_as(kit, MEMBER, rm, NULL);
	ok(s->r < 0, "a member of the group cannot remove the channel");
	s = kit_pool_as(kit, MEMBER, attack, NULL);
	is_int(0, (int64_t)s->n,
		"a member of the group cannot write the channel's memory");
	s = kit_pool_as(kit, STRANGER, list, NULL);
	ok(s->r < 0 || s->n == 0, "a stranger does not see the channel");
	s = kit_pool_as(kit, STRANGER, attack, NULL);
	ok(s->r < 0, "a stranger gets none of the channel's memory");
	s = kit_pool_as(kit, OWNER, resize, NULL);
	ok(s->r >= 0, "a participant has the channel's memory");
	is_int(0, (int64_t)s->n,
		"a participant writes the memory, and cannot resize it");
	s = kit_pool_as(kit, OWNER, consume, NULL);
	is_int(0, s->r, "a published item is received");
	is_int(33, s->bytes[0], "the received item has its bytes");
}

static void test_rubbish(const struct pool_kit *kit)
{
	unsigned char value = 34;
	const struct seen *s;
	int through = 0, told = 0, r;

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		s = kit_pool_as(kit, OWNER, suffer, &seed);
		through += s->n == 1;
		told += s->bytes[0];
		/* The rubbish may have said that the channel is over. */
		r = kit_pool_as(kit, OWNER, rm, NULL)->r;
		if (r < 0 && r != -ENOENT)
			break;
		if (kit_pool_as(kit, OWNER, produce, &value)->r < 0)
			break;
	}
	is_int(ROUNDS, through,
		"no process is killed by random bytes in the channel");
	ok(told > 0, "%d calls reported a damaged channel", told);
	s = kit_pool_as(kit, OWNER, check, NULL);
	is_int(0, s->r, "no server died of the damaged channel");
	is_int(0, (int64_t)s->n,
		"tarn check finds no fault after the hostile participant");
	s = kit_pool_as(kit, OWNER, consume, NULL);
	is_int(34, s->bytes[0], "a new channel works afterwards");
}

int main(void)
{
	static struct pool_kit kit;

	if (!kit_pool_is_root())
		skip_all("only root can be several users");
	kit_pool_start(&kit, "[pool shared]\nowner = 61001\ngroup = 62001\n"
			     "mode = 0640\n");
	test_rights(&kit);
	test_rubbish(&kit);
	is_int(0, kit_pool_stop(&kit), "the daemon ends without an error");
	return done(20);
}
