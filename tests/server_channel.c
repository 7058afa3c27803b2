/* SPDX-License-Identifier: MIT */
/*
 * The server and those who use a channel, in turns: a storage is handed over to
 * an item, and from it, at each moment of the server's search for leases, and
 * is never freed while anybody has it. What the dead held comes back; names of
 * ephemeral channels end; rings full of rubbish do no harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server_channel.h"
#include "shm/lease.h"
#include "shm/ring_words.h"
#include "tests/tap.h"

#define PAGE 4096u

static struct server server = {.serving = true};
static struct rule rule;

/* ---- a rule and its clients -------------------------------------------------
 */

struct side {
	int fd;
	struct lease_page *page, *mapped;
	struct client client;
};

static struct side sides[3]; /* numbered from 1 */

static void add_client(struct side *side, uint64_t number)
{
	*side = (struct side) {.fd = -1};
	if (lease_create(&side->fd) < 0 ||
		lease_map(side->fd, &side->page) < 0 ||
		lease_map(side->fd, &side->mapped) < 0)
		bail("%s", tarn_fail_message());
	side->client.number = number;
	side->client.rule = &rule;
	side->client.leases = &side->mapped;
	side->client.n_leases = 1;
	client_join(&side->client, &rule);
}

/* As client_free does. */
static void end_client(struct side *side)
{
	if (side->fd < 0)
		return;
	client_leave(&side->client);
	lease_unmap(side->page);
	lease_unmap(side->mapped);
	side->fd = fd_close(side->fd);
	rule.channels_left = true;
	reap_unnamed(&rule);
}

static void begin(void)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC);

	rule = (struct rule) {.server = &server};
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		rule.quota.limit[kind] = UINT64_MAX;
	if (fd < 0 || table_create(fd, 7, 4711, 0, 0, &rule.table) < 0 ||
		table_writer_new(&rule.table, &rule.writer) < 0 ||
		alloc_new(&rule.alloc) < 0 || alloc_new(&rule.frozen) < 0 ||
		alloc_add(rule.alloc, 0, 64ull * PAGE) < 0 ||
		lease_batch_init(&rule.batch) < 0)
		bail("%s", tarn_fail_message());
	fd_close(fd);
	for (uint64_t i = 0; i < 3; i++)
		add_client(&sides[i], i + 1);
}

static void end(void)
{
	for (int i = 0; i < 3; i++)
		end_client(&sides[i]);
	channels_free(&rule);
	lease_batch_done(&rule.batch);
	rule.alloc = alloc_free(rule.alloc);
	rule.frozen = alloc_free(rule.frozen);
	rule.writer = table_writer_free(rule.writer);
	free(rule.infos);
	table_unmap(&rule.table);
}

/* ---- storages ---------------------------------------------------------------
 */

static uint64_t generation_of(uint32_t index)
{
	return storage_word_generation(
		atomic_load(&rule.table.storages[index].word));
}

static enum storage_state state_of(uint32_t index)
{
	return storage_word_state(
		atomic_load(&rule.table.storages[index].word));
}

/* One that has no name, and is to be let go of when somebody has it. */
static uint32_t make_storage(void)
{
	struct table_storage entry = {.alloc_size = PAGE, .size = PAGE};
	uint64_t generation;
	uint32_t index;

	if (alloc_take(rule.alloc, PAGE, &entry.alloc_offset) < 0)
		bail("the pool is full");
	entry.base = entry.alloc_offset;
	if (storage_new(&rule, &entry, STORAGE_LIVE, &index, &generation) < 0)
		bail("%s", tarn_fail_message());
	return index;
}

/* ---- channels ---------------------------------------------------------------
 */

/* What a user of the channel has, beside the server. */
struct user {
	struct channel_map map;
	struct ring ring;
	uint32_t index;
	uint64_t generation;
	int fd;
};

static int channel_fd(const struct channel_geometry *g, uint64_t *ret_size)
{
	int fd = memfd_create("channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *at;

	if (fd < 0 || channel_size(g, ret_size) < 0 ||
		ftruncate(fd, (off_t)*ret_size) < 0)
		bail("a memfd: %m, %s", tarn_fail_message());
	at = mmap(NULL, *ret_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || channel_init(at, *ret_size, g) < 0)
		bail("a channel: %m, %s", tarn_fail_message());
	munmap(at, *ret_size);
	return fd;
}

static void map_user(struct user *user, uint64_t size)
{
	void *at = mmap(
		NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, user->fd, 0);

	if (at == MAP_FAILED || channel_attach(&user->map, at, size) < 0 ||
		ring_attach(&user->ring, user->map.ring, user->map.ring_size) <
			0)
		bail("a channel: %s", tarn_fail_message());
}

static uint32_t channel_storage(uint64_t size, uint64_t *ret_generation)
{
	const struct table_storage entry = {.pool = TABLE_POOL_OWN,
		.size = size,
		.flags = STORAGE_CREATED | STORAGE_CHANNEL};
	uint32_t index;

	if (storage_new(&rule, &entry, STORAGE_LIVE, &index, ret_generation) <
		0)
		bail("%s", tarn_fail_message());
	storage_name(&rule, index, 1);
	return index;
}

static int try_channel(const struct channel_geometry *g, struct user *user)
{
	uint64_t size;
	int r;

	user->fd = channel_fd(g, &size);
	user->index = channel_storage(size, &user->generation);
	r = channel_open(&rule, user->index, user->generation, user->fd);
	if (r < 0) {
		user->fd = fd_close(user->fd);
		return r;
	}
	map_user(user, size);
	return 0;
}

static void make_channel(
	enum ring_mode mode, uint32_t slots, uint32_t flags, struct user *user)
{
	const struct channel_geometry g = {
		.ring = {.mode = mode, .slots = slots},
		.tensors = 2,
		.flags = flags,
	};

	if (try_channel(&g, user) < 0)
		bail("a channel: %s", tarn_fail_message());
}

static void drop_user(struct user *user)
{
	munmap(user->map.memory, user->map.size);
	fd_close(user->fd);
}

static void join(struct user *user, unsigned kinds, uint32_t owner)
{
	if (ring_join(&user->ring, kinds, owner) < 0)
		bail("%s", tarn_fail_message());
}

static void turn(void)
{
	uint64_t again = UINT64_MAX;

	rule.next_channels = 0;
	channels_in_turn(&rule, &again);
	reap(&rule);
}

/* ---- steps in the midst of a search
 * ------------------------------------------ */

enum moment {
	NEVER,
	BEFORE,  /* the pages of leases */
	BETWEEN, /* pages and channels */
	AFTER,
	MOMENTS
};

static const char *const moments[] = {"after the search", "before the search",
	"between pages and channels", "at the end of the search"};

static enum moment step_at;
static void (*step)(void);
static unsigned n_pages;

void __real_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
void __wrap_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page);
void __real_channel_search(
	const struct channel_map *map, struct lease_batch *batch);
void __wrap_channel_search(
	const struct channel_map *map, struct lease_batch *batch);

static void take_step(enum moment now)
{
	if (step && step_at == now)
		step();
}

void __wrap_lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page)
{
	if (n_pages++ == 0)
		take_step(BEFORE);
	__real_lease_batch_search(batch, page);
}

void __wrap_channel_search(
	const struct channel_map *map, struct lease_batch *batch)
{
	take_step(BETWEEN);
	__real_channel_search(map, batch);
	take_step(AFTER);
}

static void search_with(enum moment when, void (*fn)(void))
{
	step = fn;
	step_at = when;
	n_pages = 0;
	reap(&rule);
	if (when == NEVER)
		fn();
	step = NULL;
}

/* ---- hand-over
 * ---------------------------------------------------------------- */

static struct user user;
static struct side *giver = &sides[0], *taker = &sides[1];
static uint32_t storage, slot;
static uint64_t generation;
static struct ring_item item;
static bool given, taken;

static _Atomic uint64_t *held(void)
{
	return &user.map.held[slot * user.map.geometry.tensors];
}

/* P3: the same as A3 says. */
static bool is_being_freed(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	return state_of(storage) == STORAGE_FREEING;
}

/* P1 to P3; only then is the giver's own lease given back. */
static void give(void)
{
	struct ring_note note = {.tensors = 1 | CHANNEL_NOTE_HOLDS};

	atomic_store(held(), lease_word(storage, generation));
	given = !is_being_freed();
	if (!given)
		return;
	if (ring_publish(&user.ring, slot, &note) < 0)
		bail("%s", tarn_fail_message());
	if (lease_release(giver->page, &rule.table, 0))
		storage_released_by_client(&rule, storage, generation);
}

static void test_give(enum moment when)
{
	storage = make_storage();
	generation = generation_of(storage);
	if (lease_acquire(giver->page, &rule.table, storage, generation, 0) <
			0 ||
		ring_acquire(&user.ring, &slot) != 1)
		bail("%s", tarn_fail_message());
	storage_release(&rule, storage);
	search_with(when, give);
	is_int(when == NEVER, given, "given %s%s", moments[when],
		when == NEVER ? "" : ": not yet");
	is_int(STORAGE_UNNAMED, state_of(storage), "it is held");
	if (!given)
		give();
	ok(given, "given");
	reap(&rule);
	is_int(STORAGE_UNNAMED, state_of(storage), "by the item alone");
}

/* A1 to A3 by the taker; only then is the slot given back. */
static void take(void)
{
	taken = lease_acquire(
			taker->page, &rule.table, storage, generation, 0) == 0;
	if (taken && ring_release(&user.ring, &item) < 0)
		bail("%s", tarn_fail_message());
}

static void test_take(enum moment when)
{
	if (ring_receive(&user.ring, &item) != 1)
		bail("%s", tarn_fail_message());
	storage_release(&rule, storage);
	search_with(when, take);
	is_int(when == NEVER, taken, "taken %s%s", moments[when],
		when == NEVER ? "" : ": not yet");
	is_int(STORAGE_UNNAMED, state_of(storage), "it is held");
	if (!taken)
		take();
	ok(taken, "taken");
	storage_release(&rule, storage);
	reap(&rule);
	is_int(STORAGE_UNNAMED, state_of(storage), "by a lease alone");
	ok(lease_release(taker->page, &rule.table, 0), "let go of: a bell");
	storage_released_by_client(&rule, storage, generation);
	reap(&rule);
	is_int(STORAGE_FREE, state_of(storage), "and it is free");
}

static void test_hand_over(enum ring_mode mode)
{
	begin();
	make_channel(mode, 4, 0, &user);
	join(&user, RING_PRODUCER | RING_CONSUMER, 1);
	for (enum moment give_at = NEVER; give_at < MOMENTS; give_at++)
		for (enum moment take_at = NEVER; take_at < MOMENTS;
			take_at++) {
			test_give(give_at);
			test_take(take_at);
		}
	drop_user(&user);
	end();
}

/* ---- deaths
 * -------------------------------------------------------------------- */

/* An item of a storage, published or being filled by somebody. */
static void put_item(struct user *by, bool publish)
{
	struct ring_note note = {.tensors = 1 | CHANNEL_NOTE_HOLDS};

	storage = make_storage();
	if (ring_acquire(&by->ring, &slot) != 1)
		bail("%s", tarn_fail_message());
	atomic_store(&by->map.held[slot * by->map.geometry.tensors],
		lease_word(storage, generation_of(storage)));
	if (publish && ring_publish(&by->ring, slot, &note) < 0)
		bail("%s", tarn_fail_message());
	storage_release(&rule, storage);
	reap(&rule);
	is_int(STORAGE_UNNAMED, state_of(storage), "an item keeps it");
}

/* Another who maps the same. */
static struct user another(const struct user *of)
{
	struct user u = {.fd = fd_dup(of->fd)};

	map_user(&u, of->map.size);
	return u;
}

static void test_deaths(void)
{
	struct user second;
	struct ring_stat stat;
	uint32_t filled, sent;

	begin();
	make_channel(RING_QUEUE, 4, 0, &user);
	second = another(&user);
	join(&user, RING_PRODUCER, 2);
	join(&second, RING_CONSUMER, 3);
	put_item(&user, true);
	sent = storage;
	put_item(&user, false);
	filled = storage;
	turn();
	ring_stat(&user.ring, &stat);
	is_int(1, stat.filling, "nobody is dead, and nothing is taken away");
	end_client(&sides[1]);
	turn();
	ring_stat(&user.ring, &stat);
	is_int(0, stat.producers, "a producer has died");
	is_int(0, stat.filling, "what it was filling is free");
	is_int(STORAGE_FREE, state_of(filled), "and what was to be sent");
	is_int(1, stat.ready, "what it had published is there");
	is_int(STORAGE_UNNAMED, state_of(sent), "and kept");
	is_int(1, ring_receive(&second.ring, &item), "it is received");
	end_client(&sides[2]);
	turn();
	ring_stat(&user.ring, &stat);
	is_int(1, stat.returned, "who read it has died: once more");
	is_int(STORAGE_UNNAMED, state_of(sent), "it is kept still");
	second.ring.me = RING_PARTICIPANTS;
	join(&second, RING_CONSUMER, 77);
	turn();
	ring_stat(&user.ring, &stat);
	is_int(1, stat.consumers, "nobody has ended: no look");
	rule.channels_left = true;
	turn();
	ring_stat(&user.ring, &stat);
	is_int(0, stat.consumers, "one of no connection is nobody");
	storage_unname(&rule, user.index, user.generation);
	reap(&rule);
	is_int(0, rule.n_channels, "the channel is gone");
	reap(&rule);
	is_int(STORAGE_FREE, state_of(sent), "and what was in it");
	drop_user(&second);
	drop_user(&user);
	end();
}

/* A server died after it had heard of an end, and before it looked. */
static void test_take_over(void)
{
	struct ring_stat stat;

	begin();
	make_channel(RING_QUEUE, 4, 0, &user);
	join(&user, RING_PRODUCER, 77);
	put_item(&user, false);
	channels_free(&rule);
	rule.channels_left = false;
	is_int(0, channel_rebuild(&rule, user.index, user.generation, user.fd),
		"the next server has the channel");
	turn();
	ring_stat(&user.ring, &stat);
	is_int(0, stat.filling, "and gives back what the dead held");
	is_int(STORAGE_FREE, state_of(storage), "and what that kept");
	drop_user(&user);
	end();
}

/* The last to see a broadcast is dead. */
static void test_broadcast_death(void)
{
	struct user second;
	struct ring_stat stat;

	begin();
	make_channel(RING_BROADCAST, 4, 0, &user);
	second = another(&user);
	join(&second, RING_CONSUMER, 3);
	join(&user, RING_PRODUCER, 2);
	put_item(&user, true);
	end_client(&sides[2]);
	turn();
	ring_stat(&user.ring, &stat);
	is_int(4, stat.free, "nobody is left to see it");
	is_int(STORAGE_FREE, state_of(storage), "and what it kept is free");
	drop_user(&second);
	drop_user(&user);
	end();
}

/* Who closed it has died between the entry and saying so, and took part in
 * nothing that would be reaped; others sleep. */
static void test_dead_closer(enum ring_mode mode)
{
	struct ring_head *head;
	uint64_t at;

	begin();
	make_channel(mode, 4, 0, &user);
	join(&user, RING_PRODUCER, 2);
	head = user.ring.head;
	at = ring_end(&user.ring);
	atomic_fetch_or(&head->items, 1);
	atomic_fetch_or(&head->space, 1);
	end_client(&sides[2]);
	turn();
	is_int(1, atomic_load(&head->items) & 1, "open: nobody is woken");
	atomic_store(ring_entry(&user.ring, at),
		entry_word(at, 0, 0) | ENTRY_CLOSED);
	end_client(&sides[0]);
	turn();
	is_int(1, (int)atomic_load(&head->closed), "closed: it is said");
	is_int(0, atomic_load(&head->items) & 1, "to who waits for an item");
	is_int(0, atomic_load(&head->space) & 1, "and to who wants a slot");
	drop_user(&user);
	end();
}

/* ---- names
 * ------------------------------------------------------------------------ */

static void put_name(const char *name, const struct user *of)
{
	struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = 7,
		.storage = of->index,
		.generation = of->generation,
		.size = of->map.size,
		.dtype = TARN_U8};

	if (table_begin(rule.writer) < 0 ||
		table_put(rule.writer, name, strlen(name), &d, NULL) < 0)
		bail("%s: %s", name, tarn_fail_message());
	table_commit(rule.writer, NULL, NULL);
}

static bool is_named(const char *name)
{
	struct tarn_descriptor d;
	uint64_t version;

	return table_lookup(&rule.table, name, strlen(name), &d, &version) == 0;
}

static void look(void)
{
	rule.channels_left = true;
	turn();
}

static void test_ephemeral(bool known)
{
	struct user other;

	begin();
	make_channel(RING_QUEUE, 4, 0, &other);
	put_name("stays", &other);
	make_channel(RING_QUEUE, 4, CHANNEL_EPHEMERAL, &user);
	put_name("goes", &user);
	if (known)
		channel_named(&rule, user.index, user.generation, "goes", 4);
	look();
	ok(is_named("goes"), "nobody has come yet");
	join(&user, RING_PRODUCER, 1);
	join(&other, RING_PRODUCER, 1);
	look();
	ok(is_named("goes"), "somebody is there");
	put_name("alias", &user);
	storage_name(&rule, user.index, 1);
	ring_leave(&user.ring);
	ring_leave(&other.ring);
	look();
	ok(!is_named("goes"), "the last has left: it goes");
	ok(!is_named("alias"), "by whatever name");
	ok(is_named("stays"), "others stay");
	is_int(1, rule.n_channels, "it is gone");
	is_int(0, rule.n_ephemeral, "and not counted");
	drop_user(&user);
	drop_user(&other);
	end();
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- limits and damage
 * ------------------------------------------------------------- */

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

	begin();
	for (; r == 0 && n < 100; n += r == 0) {
		r = try_channel(&large, &user);
		if (r == 0)
			drop_user(&user);
	}
	is_int(-ENOSPC, r, "many large ones");
	has_str("words", tarn_fail_message(), "too many words in all");
	ok(n >= 4, "%d of the largest can be", n);
	words = rule.channel_words;
	ok(words <= 1u << 24, "the bound holds");
	end();
	begin();
	fd = channel_fd(&small, &size);
	for (n = 0, r = 0; r == 0 && n < 5000; n += r == 0) {
		uint32_t index = channel_storage(size, &generation);

		r = channel_open(&rule, index, generation, fd);
	}
	is_int(-ENOSPC, r, "many small ones");
	is_int(1024, n, "a thousand can be");
	look();
	began = now_ms();
	look();
	diag("a look at them took %.1f ms", now_ms() - began);
	fd_close(fd);
	end();
}

static void test_damage(void)
{
	uint64_t size;
	uint32_t index;
	int fd;

	begin();
	make_channel(RING_QUEUE, 4, CHANNEL_EPHEMERAL, &user);
	ok(!channel_gives_way(&rule, user.index, user.generation),
		"one that is open keeps its name");
	ring_close(&user.ring);
	ok(channel_gives_way(&rule, user.index, user.generation),
		"one that is closed does not");
	ok(!channel_gives_way(&rule, user.index, user.generation + 1),
		"another does");
	channels_free(&rule);
	((struct channel_head *)user.map.memory)->tensors = 0;
	is_int(0, channel_rebuild(&rule, user.index, user.generation, user.fd),
		"a server takes over one that is damaged");
	is_int(1, rule.n_channels, "it is there");
	look();
	ok(channel_gives_way(&rule, user.index, user.generation),
		"and gives way");
	size = user.map.size;
	index = channel_storage(size, &generation);
	is_int(-EPROTO, channel_open(&rule, index, generation, user.fd),
		"a new one is refused");
	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	is_int(-EINVAL, channel_open(&rule, index, generation, fd),
		"what is no memory at all, too");
	fd_close(fd);
	drop_user(&user);
	end();
}

/* ---- rubbish
 * ------------------------------------------------------------------------- */

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
	look();
	storage_release(&rule, make_storage());
	reap(&rule);
	reap_unnamed(&rule);
	channel_gives_way(&rule, user.index, user.generation);
}

static void test_rubbish(enum ring_mode mode)
{
	begin();
	make_channel(mode, 64, 0, &user);
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
	ok(true, "a ring of mode %d full of rubbish does no harm", (int)mode);
	drop_user(&user);
	end();
}

/* The most work that a ring can make: all places belong to one who is dead, and
 * each slot is in one of them. */
static void test_largest(enum ring_mode mode)
{
	double began, took;

	begin();
	make_channel(mode, 65536, 0, &user);
	join(&user, RING_PRODUCER, 77);
	for (uint32_t i = 0; i < RING_PARTICIPANTS; i++)
		atomic_store(&user.ring.members[i].word,
			member_word(MEMBER_LIVE, 3, 1, 77));
	atomic_store(&user.ring.head->places, RING_PARTICIPANTS);
	for (uint32_t i = 0; i < 65536; i++)
		atomic_store(&user.ring.slots[i].word,
			slot_word(mode == RING_QUEUE ? SLOT_READING
						     : SLOT_OFFERED,
				i % RING_PARTICIPANTS, i));
	began = now_ms();
	look();
	took = now_ms() - began;
	diag("mode %d: 65536 slots of 1024 dead took %.1f ms", (int)mode, took);
	is_int(0, member_state(atomic_load(&user.ring.members[1023].word)),
		"all of them are gone");
	drop_user(&user);
	end();
}

int main(void)
{
	test_hand_over(RING_QUEUE);
	test_hand_over(RING_BROADCAST);
	test_deaths();
	test_take_over();
	test_broadcast_death();
	test_dead_closer(RING_QUEUE);
	test_dead_closer(RING_BROADCAST);
	test_ephemeral(true);
	test_ephemeral(false);
	test_limits();
	test_damage();
	test_rubbish(RING_QUEUE);
	test_rubbish(RING_BROADCAST);
	test_largest(RING_QUEUE);
	test_largest(RING_BROADCAST);
	return done();
}
