/* SPDX-License-Identifier: MIT */
/*
 * The name of a closed channel goes when it has no participant and no item any
 * more, in whatever order its users close, leave, receive and die, and
 * whichever server notices it.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/fail.h"
#include "tests/kit/server_channel.h"
#include "tests/kit/tap.h"

static const struct ring_note note;
static struct user out, in;
static struct ring_item item;

/* Client 1 sends, client 2 receives. */
static void begin(enum ring_mode mode)
{
	struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = 7,
		.dtype = TARN_U8};

	kit_server_begin();
	kit_server_channel(mode, 4, 0, &out);
	in = kit_server_another(&out);
	d.storage = out.index;
	d.generation = out.generation;
	d.size = out.map.size;
	if (table_begin(kit_server_domain.writer) < 0)
		bail("%s", tarn_fail_message());
	table_stamp(kit_server_domain.writer, 0, 0);
	if (table_put(kit_server_domain.writer, "c", 1, &d, NULL) < 0)
		bail("%s", tarn_fail_message());
	table_commit(kit_server_domain.writer, NULL, NULL);
	channel_named(&kit_server_domain, out.index, out.generation, "c", 1);
	kit_server_join(&out, RING_PRODUCER, 1);
	kit_server_join(&in, RING_CONSUMER, 2);
}

static void end(void)
{
	kit_server_drop_user(&in);
	kit_server_drop_user(&out);
	kit_server_end();
}

static bool has_name(void)
{
	struct tarn_descriptor d;
	uint64_t version;

	return table_lookup(&kit_server_domain.table, "c", 1, &d, &version) ==
	       0;
}

/* In the end. */
static bool is_named(void)
{
	kit_server_look_later();
	return has_name();
}

static void put(void)
{
	uint32_t slot;

	if (ring_acquire(&out.ring, &slot) != 1 ||
		ring_publish(&out.ring, slot, &note) < 0)
		bail("%s", tarn_fail_message());
}

static void test_leaving(void)
{
	begin(RING_QUEUE);
	ring_leave(&out.ring);
	ring_leave(&in.ring);
	ok(is_named(), "an open channel's name stays");
	ring_close(&out.ring);
	kit_server_look();
	kit_server_turn();
	ok(has_name(),
		"a channel closed by a bystander keeps its name for a while");
	ok(!is_named(), "a channel closed by a bystander loses its name later");
	is_int(0, kit_server_domain.channels.n,
		"the channel's memory is gone with its name");
	end();
	begin(RING_QUEUE);
	put();
	ring_close(&out.ring);
	ok(is_named(), "a closed channel's name stays while all are there");
	ring_leave(&out.ring);
	ok(is_named(), "the name stays when the producer has left");
	ring_leave(&in.ring);
	ok(is_named(), "the name stays while an item is left");
	kit_server_join(&in, RING_CONSUMER, 2);
	is_int(1, ring_receive(&in.ring, &item),
		"a late consumer receives the left item");
	ok(is_named(), "the name stays while a consumer reads the last item");
	is_int(0, ring_release(&in.ring, &item),
		"the consumer releases the last item");
	ok(is_named(), "the name stays while the consumer is there");
	ring_leave(&in.ring);
	ok(!is_named(), "the name goes when the consumer has left");
	end();
}

/* The last consumer is killed: the next one receives the item that it read. */
static void test_deaths(void)
{
	begin(RING_QUEUE);
	put();
	is_int(1, ring_receive(&in.ring, &item),
		"the name stays while a consumer has the only item");
	ring_close(&out.ring);
	ring_leave(&out.ring);
	kit_server_end_client(&kit_server_sides[1]);
	ok(is_named(),
		"the name stays after a consumer died with the last item");
	in.ring.me = RING_PARTICIPANTS;
	kit_server_join(&in, RING_CONSUMER, 3);
	is_int(1, ring_receive(&in.ring, &item),
		"the next consumer receives the item again");
	is_int(0, ring_release(&in.ring, &item),
		"the next consumer releases that item");
	kit_server_end_client(&kit_server_sides[2]);
	ok(!is_named(), "the name goes when the last consumer is killed");
	end();
}

/* A producer has died between two words: that is no item. */
static void test_half_published(void)
{
	uint32_t slot;

	begin(RING_QUEUE);
	if (ring_acquire(&out.ring, &slot) != 1)
		bail("%s", tarn_fail_message());
	ring_leave(&in.ring);
	ring_close(&in.ring);
	atomic_store(&out.ring.slots[slot].word,
		slot_word(SLOT_OFFERED, out.ring.me, ring_end(&out.ring)));
	ok(is_named(), "the name stays while a producer is there");
	kit_server_end_client(&kit_server_sides[0]);
	ok(!is_named(),
		"the name goes when a producer without items is killed");
	end();
}

/* A consumer that joins while the server looks is in no place that the server
 * saw. The server sees the item that it takes, whatever becomes of the item. */
static void test_comes_meanwhile(void)
{
	_Atomic uint64_t *word;

	begin(RING_QUEUE);
	put();
	ring_close(&out.ring);
	ring_leave(&out.ring);
	if (ring_receive(&in.ring, &item) != 1)
		bail("%s", tarn_fail_message());
	word = &in.ring.slots[item.slot].word;
	is_int(0, ring_release(&in.ring, &item),
		"the name goes when the last item is released");
	ring_leave(&in.ring);
	atomic_store(word, slot_word(SLOT_READING, 9, item.position));
	ok(is_named(), "a consumer may die in the middle of its release");
	atomic_store(word, slot_word(SLOT_RETURNED, 0, item.position));
	ok(is_named(), "the name stays if the consumer died at this step");
	atomic_store(word, slot_word(SLOT_FREE, 0, item.position));
	ok(!is_named(), "the name goes if the consumer died after its release");
	end();
}

static void test_broadcast(void)
{
	begin(RING_BROADCAST);
	put();
	ring_close(&out.ring);
	ring_leave(&out.ring);
	ok(is_named(), "the name stays while a consumer has not seen the end");
	kit_server_end_client(&kit_server_sides[1]);
	ok(!is_named(),
		"the name goes when no consumer is left to see the end");
	end();
}

/* A server dies before it has looked; the next is told nothing. */
static void test_take_over(void)
{
	begin(RING_QUEUE);
	put();
	ring_close(&out.ring);
	ring_leave(&out.ring);
	if (ring_receive(&in.ring, &item) != 1 ||
		ring_release(&in.ring, &item) < 0)
		bail("%s", tarn_fail_message());
	ring_leave(&in.ring);
	channels_free(&kit_server_domain);
	kit_server_domain.channels.left = false;
	is_int(0,
		channel_rebuild(
			&kit_server_domain, out.index, out.generation, out.fd),
		"the next server takes over the closed channel");
	kit_server_turn();
	ok(has_name() && kit_server_domain.channels.over.at,
		"the next server finds that the channel is over");
	ok(!is_named(), "the next server removes the channel's name");
	is_int(0, kit_server_domain.channels.n,
		"the next server frees the channel's memory");
	end();
}

int main(void)
{
	test_leaving();
	test_deaths();
	test_half_published();
	test_comes_meanwhile();
	test_broadcast();
	test_take_over();
	return done(29);
}
