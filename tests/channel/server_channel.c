/* SPDX-License-Identifier: MIT */
/*
 * The server and the users of a channel, in turns: slots and items of the dead
 * are given back, with the storages that they kept; the next server continues
 * with the channel; a channel that a dead user closed is closed; names of
 * ephemeral channels end.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/fail.h"
#include "tests/kit/server_channel.h"
#include "tests/kit/tap.h"

static struct user user;
static uint32_t storage;
static struct ring_item item;

/* ---- deaths ------------------------------------------------------------ */

/* An item of a storage, published or being filled by somebody. */
static void put_item(struct user *by, bool publish)
{
	struct ring_note note = {.tensors = 1 | CHANNEL_NOTE_HOLDS};
	uint32_t slot;

	storage = kit_server_storage();
	if (ring_acquire(&by->ring, &slot) != 1)
		bail("%s", tarn_fail_message());
	atomic_store(&by->map.held[slot * by->map.geometry.tensors],
		lease_word(storage, kit_server_generation(storage)));
	if (publish && ring_publish(&by->ring, slot, &note) < 0)
		bail("%s", tarn_fail_message());
	storage_release(&kit_server_domain, storage);
	collect(&kit_server_domain);
	is_int(STORAGE_UNNAMED, kit_server_state(storage), "an item keeps it");
}

/* A producer dies that has published one storage and put another into a slot.
 * Returns the published one, which is kept. */
static uint32_t producer_dies(void)
{
	struct ring_stat stat;
	uint32_t filled, sent;

	put_item(&user, true);
	sent = storage;
	put_item(&user, false);
	filled = storage;
	kit_server_turn();
	ring_stat(&user.ring, &stat);
	is_int(1, stat.filling, "a reap without deaths changes nothing");
	kit_server_end_client(&kit_server_sides[1]);
	kit_server_turn();
	ring_stat(&user.ring, &stat);
	is_int(0, stat.producers, "a dead producer is no longer counted");
	is_int(0, stat.filling,
		"the slot that the dead producer filled is free");
	is_int(STORAGE_FREE, kit_server_state(filled),
		"the storage that was being sent is free");
	is_int(1, stat.ready,
		"the dead producer's published item is still there");
	is_int(STORAGE_UNNAMED, kit_server_state(sent),
		"the storage in a published item is kept");
	return sent;
}

static void consumer_dies(struct user *second, uint32_t sent)
{
	struct ring_stat stat;

	is_int(1, ring_receive(&second->ring, &item),
		"the dead producer's item is received");
	kit_server_end_client(&kit_server_sides[2]);
	kit_server_turn();
	ring_stat(&user.ring, &stat);
	is_int(1, stat.returned,
		"the item of a dead consumer is delivered again");
	is_int(STORAGE_UNNAMED, kit_server_state(sent),
		"the item of a dead consumer still keeps its storage");
}

static void connection_is_missing(struct user *second)
{
	struct ring_stat stat;

	second->ring.me = RING_PARTICIPANTS;
	kit_server_join(second, RING_CONSUMER, 77);
	kit_server_turn();
	ring_stat(&user.ring, &stat);
	is_int(1, stat.consumers,
		"a participant stays while no connection has ended");
	kit_server_domain.channels.left = true;
	kit_server_turn();
	ring_stat(&user.ring, &stat);
	is_int(0, stat.consumers,
		"a participant without a connection is reaped");
}

static void test_deaths(void)
{
	struct user second;
	uint32_t sent;

	kit_server_begin();
	kit_server_channel(RING_QUEUE, 4, 0, &user);
	second = kit_server_another(&user);
	kit_server_join(&user, RING_PRODUCER, 2);
	kit_server_join(&second, RING_CONSUMER, 3);
	sent = producer_dies();
	consumer_dies(&second, sent);
	connection_is_missing(&second);
	storage_unname(&kit_server_domain, user.index, user.generation, 0);
	collect(&kit_server_domain);
	is_int(0, kit_server_domain.channels.n, "the channel is gone");
	collect(&kit_server_domain);
	is_int(STORAGE_FREE, kit_server_state(sent),
		"the storage in the channel's item is free");
	kit_server_drop_user(&second);
	kit_server_drop_user(&user);
	kit_server_end();
}

/* A server died after it had heard of an end, and before it looked. */
static void test_take_over(void)
{
	struct ring_stat stat;

	kit_server_begin();
	kit_server_channel(RING_QUEUE, 4, 0, &user);
	kit_server_join(&user, RING_PRODUCER, 77);
	put_item(&user, false);
	channels_free(&kit_server_domain);
	kit_server_domain.channels.left = false;
	is_int(0,
		channel_rebuild(&kit_server_domain, user.index, user.generation,
			user.fd),
		"the next server takes over the channel");
	kit_server_turn();
	ring_stat(&user.ring, &stat);
	is_int(0, stat.filling,
		"the next server gives back the dead producer's slot");
	is_int(STORAGE_FREE, kit_server_state(storage),
		"the storage that the dead producer's slot kept is free");
	kit_server_drop_user(&user);
	kit_server_end();
}

/* The last to see a broadcast is dead. */
static void test_broadcast_death(void)
{
	struct user second;
	struct ring_stat stat;

	kit_server_begin();
	kit_server_channel(RING_BROADCAST, 4, 0, &user);
	second = kit_server_another(&user);
	kit_server_join(&second, RING_CONSUMER, 3);
	kit_server_join(&user, RING_PRODUCER, 2);
	put_item(&user, true);
	kit_server_end_client(&kit_server_sides[2]);
	kit_server_turn();
	ring_stat(&user.ring, &stat);
	is_int(4, stat.free, "an item without consumers and name is dropped");
	is_int(STORAGE_FREE, kit_server_state(storage),
		"the storage that the unreachable channel kept is free");
	kit_server_drop_user(&second);
	kit_server_drop_user(&user);
	kit_server_end();
}

/* The closing process died between the entry and the wake-up, and was no
 * participant that would be reaped; others sleep. */
static void test_dead_closer(enum ring_mode mode)
{
	struct ring_head *head;
	uint64_t at;

	kit_server_begin();
	kit_server_channel(mode, 4, 0, &user);
	kit_server_join(&user, RING_PRODUCER, 2);
	head = user.ring.head;
	at = ring_end(&user.ring);
	atomic_fetch_or(&head->items, 1);
	atomic_fetch_or(&head->space, 1);
	kit_server_end_client(&kit_server_sides[2]);
	kit_server_turn();
	is_int(1, atomic_load(&head->items) & 1,
		"an open channel wakes no waiting participant");
	atomic_store(ring_entry(&user.ring, at),
		entry_word(at, 0, 0) | ENTRY_CLOSED);
	kit_server_end_client(&kit_server_sides[0]);
	kit_server_turn();
	is_int(1, (int)atomic_load(&head->closed),
		"a closed channel's head has the closed mark");
	is_int(0, atomic_load(&head->items) & 1,
		"a waiting consumer is woken at the close");
	is_int(0, atomic_load(&head->space) & 1, "a waiting producer is woken");
	kit_server_drop_user(&user);
	kit_server_end();
}

/* ---- names ------------------------------------------------------------- */

static void put_name(const char *name, const struct user *of)
{
	struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = 7,
		.storage = of->index,
		.generation = of->generation,
		.size = of->map.size,
		.dtype = TARN_U8};

	if (table_begin(kit_server_domain.writer) < 0)
		bail("%s: %s", name, tarn_fail_message());
	table_stamp(kit_server_domain.writer, 0, 0);
	if (table_put(kit_server_domain.writer, name, strlen(name), &d, NULL) <
		0)
		bail("%s: %s", name, tarn_fail_message());
	table_commit(kit_server_domain.writer, NULL, NULL);
}

static bool is_named(const char *name)
{
	struct tarn_descriptor d;
	uint64_t version;

	return table_lookup(&kit_server_domain.table, name, strlen(name), &d,
		       &version) == 0;
}

static void test_ephemeral(bool known)
{
	struct user other;

	kit_server_begin();
	kit_server_channel(RING_QUEUE, 4, 0, &other);
	put_name("stays", &other);
	kit_server_channel(RING_QUEUE, 4, CHANNEL_EPHEMERAL, &user);
	put_name("goes", &user);
	if (known)
		channel_named(&kit_server_domain, user.index, user.generation,
			"goes", 4);
	kit_server_look();
	ok(is_named("goes"),
		"an ephemeral name stays before the first participant");
	kit_server_join(&user, RING_PRODUCER, 1);
	kit_server_join(&other, RING_PRODUCER, 1);
	kit_server_look();
	ok(is_named("goes"),
		"an ephemeral name stays while a participant is there");
	put_name("alias", &user);
	storage_name(&kit_server_domain, user.index, 1, 0);
	ring_leave(&user.ring);
	ring_leave(&other.ring);
	kit_server_look();
	ok(!is_named("goes"),
		"an ephemeral name goes with the last participant");
	ok(!is_named("alias"), "all names of the ephemeral channel go");
	ok(is_named("stays"), "names of other channels stay");
	is_int(1, kit_server_domain.channels.n,
		"the ephemeral channel itself is gone");
	kit_server_drop_user(&user);
	kit_server_drop_user(&other);
	kit_server_end();
}

int main(void)
{
	test_deaths();
	test_take_over();
	test_broadcast_death();
	test_dead_closer(RING_QUEUE);
	test_dead_closer(RING_BROADCAST);
	test_ephemeral(true);
	test_ephemeral(false);
	return done(42);
}
