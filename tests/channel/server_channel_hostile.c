/* SPDX-License-Identifier: MIT */
/*
 * The server and channels that mean no good: too many, too large, damaged,
 * full of rubbish, and the most work that a ring can make.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/server_channel.h"
#include "tests/kit/tap.h"

static struct user user;
static uint64_t generation;

/* ---- limits and damage ------------------------------------------------- */

static void test_limits(void)
{
	const struct channel_geometry large = {
		.ring = {.mode = RING_QUEUE, .slots = 65536},
		.tensors = 16,
	};
	const struct channel_geometry small = {
		.ring = {.mode = RING_QUEUE, .slots = 1},
		.tensors = 1,
	};
	uint64_t size, words;
	int r = 0, n = 0, fd;
	double began;

	kit_server_begin();
	for (; r == 0 && n < 100; n += r == 0) {
		r = kit_server_try_channel(&large, &user);
		if (r == 0)
			kit_server_drop_user(&user);
	}
	is_int(-ENOSPC, r, "too many large channels are refused");
	has_str("words", tarn_fail_message(),
		"the error says that there are too many words");
	ok(n >= 4, "%d of the largest channels are accepted", n);
	words = kit_server_domain.channels.words;
	ok(words <= 1u << 24, "all channels together stay below the bound");
	kit_server_end();
	kit_server_begin();
	fd = kit_server_channel_fd(&small, &size);
	for (n = 0, r = 0; r == 0 && n < 5000; n += r == 0) {
		uint32_t index = kit_server_channel_storage(size, &generation);

		r = channel_open(&kit_server_domain, index, generation, fd);
	}
	is_int(-ENOSPC, r, "too many small channels are refused");
	is_int(1024, n, "a thousand small channels are accepted");
	kit_server_look();
	began = seconds();
	kit_server_look();
	diag("a look at them took %.1f ms", (seconds() - began) * 1e3);
	fd_close(fd);
	kit_server_end();
}

static bool gives_way(void)
{
	return channel_gives_way(
		&kit_server_domain, user.index, user.generation);
}

/* A closed channel holds an item, which goes from hand to hand, and the word of
 * a producer that died before it published. */
static void test_left(void)
{
	const struct ring_note note = {0};
	struct user second = kit_server_another(&user),
		    third = kit_server_another(&user);
	struct ring_item item;
	uint32_t slot;

	kit_server_join(&user, RING_PRODUCER, 1);
	kit_server_join(&second, RING_CONSUMER, 2);
	if (ring_acquire(&user.ring, &slot) != 1 ||
		ring_publish(&user.ring, slot, &note) < 0 ||
		ring_acquire(&user.ring, &slot) != 1)
		bail("%s", tarn_fail_message());
	ring_close(&user.ring);
	atomic_store(&user.ring.slots[slot].word,
		slot_word(SLOT_OFFERED, user.ring.me, ring_end(&user.ring)));
	is_int(1, ring_left(&user.ring),
		"the server reaps no more than was published");
	ok(!gives_way(), "a closed channel with an item keeps its name");
	is_int(1, ring_receive(&second.ring, &item), "the item is received");
	ok(gives_way(),
		"a closed channel whose item is being read gives up its name");
	kit_server_end_client(&kit_server_sides[1]);
	kit_server_turn();
	is_int(1, ring_left(&user.ring),
		"the item of a dead reader is left in the ring again");
	ok(!gives_way(),
		"a channel with an item left does not give up its name");
	kit_server_join(&third, RING_CONSUMER, 3);
	is_int(1, ring_receive(&third.ring, &item),
		"the item is received a second time");
	is_int(0, ring_release(&third.ring, &item),
		"the next consumer releases the item");
	ring_leave(&user.ring);
	kit_server_drop_user(&third);
	kit_server_drop_user(&second);
}

static void test_damage(void)
{
	uint64_t size;
	uint32_t index;
	int fd;

	kit_server_begin();
	kit_server_channel(RING_QUEUE, 4, CHANNEL_EPHEMERAL, &user);
	ok(!channel_gives_way(&kit_server_domain, user.index, user.generation),
		"an open channel does not give up its name");
	test_left();
	ok(channel_gives_way(&kit_server_domain, user.index, user.generation),
		"a closed and empty channel gives up its name");
	ok(!channel_gives_way(
		   &kit_server_domain, user.index, user.generation + 1),
		"a channel of another generation does not give up its name");
	channels_free(&kit_server_domain);
	((struct channel_head *)user.map.memory)->tensors = 0;
	is_int(0,
		channel_rebuild(&kit_server_domain, user.index, user.generation,
			user.fd),
		"a server takes over one that is damaged");
	is_int(1, kit_server_domain.channels.n,
		"the damaged channel is among the server's");
	kit_server_look();
	ok(channel_gives_way(&kit_server_domain, user.index, user.generation),
		"the channel gives up its name");
	size = user.map.size;
	index = kit_server_channel_storage(size, &generation);
	is_int(-EPROTO,
		channel_open(&kit_server_domain, index, generation, user.fd),
		"a new channel with a damaged ring is refused");
	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ok(channel_open(&kit_server_domain, index, generation, fd) < 0,
		"a descriptor that cannot be mapped for writing is refused");
	fd_close(fd);
	kit_server_drop_user(&user);
	kit_server_end();
}

/* ---- rubbish ----------------------------------------------------------- */

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* All that a look and a search do, which must come to an end inside the
 * channel's memory: behind what the server has mapped there is nothing. */
static void use_all(void)
{
	kit_server_look();
	storage_release(&kit_server_domain, kit_server_storage());
	collect(&kit_server_domain);
	collect_unnamed(&kit_server_domain);
	channel_gives_way(&kit_server_domain, user.index, user.generation);
}

static void test_rubbish(enum ring_mode mode)
{
	kit_server_begin();
	kit_server_channel(mode, 64, 0, &user);
	for (int round = 0; round < 200; round++) {
		uint64_t *words = user.map.memory;
		size_t n = user.map.words_size / 8;

		/* Everything, the head too; or states that look right. */
		for (size_t i = 0; i < n; i++)
			words[i] = round % 2 ? random_word()
					     : random_word() & 0xffffull << 32;
		for (uint32_t i = 0; round % 4 > 1 && i < 64; i++)
			atomic_store(&user.ring.slots[i].word,
				slot_word(random_word() % 5,
					(uint32_t)random_word(),
					random_word() >> 16));
		use_all();
	}
	ok(true, "a ring of mode %d with random words does no harm", (int)mode);
	kit_server_drop_user(&user);
	kit_server_end();
}

/* The most work that a ring can make: all places belong to one who is dead, and
 * each slot is in one of them. */
static void test_largest(enum ring_mode mode)
{
	double began, took;

	kit_server_begin();
	kit_server_channel(mode, 65536, 0, &user);
	kit_server_join(&user, RING_PRODUCER, 77);
	for (uint32_t i = 0; i < RING_PARTICIPANTS; i++)
		atomic_store(&user.ring.members[i].word,
			member_word(MEMBER_LIVE, 3, 1, 77));
	atomic_store(&user.ring.head->places, RING_PARTICIPANTS);
	for (uint32_t i = 0; i < 65536; i++)
		atomic_store(&user.ring.slots[i].word,
			slot_word(mode == RING_QUEUE ? SLOT_READING
						     : SLOT_OFFERED,
				i % RING_PARTICIPANTS, i));
	began = seconds();
	kit_server_look();
	took = (seconds() - began) * 1e3;
	diag("mode %d: 65536 slots of 1024 dead took %.1f ms", (int)mode, took);
	is_int(0, member_state(atomic_load(&user.ring.members[1023].word)),
		"all channels are gone at the end");
	kit_server_drop_user(&user);
	kit_server_end();
}

int main(void)
{
	test_limits();
	test_damage();
	test_rubbish(RING_QUEUE);
	test_rubbish(RING_BROADCAST);
	test_largest(RING_QUEUE);
	test_largest(RING_BROADCAST);
	return done(26);
}
