/* SPDX-License-Identifier: MIT */
#include "tests/kit/server_channel.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/tap.h"

static struct server server = {.serving = true};
struct domain kit_server_domain;
struct side kit_server_sides[3];

static void add_client(struct side *side, uint64_t number)
{
	*side = (struct side) {.fd = -1};
	if (lease_create(&side->fd) < 0 ||
		lease_map(side->fd, &side->page) < 0 ||
		lease_map(side->fd, &side->mapped) < 0)
		bail("%s", tarn_fail_message());
	side->client.number = number;
	side->client.domain = &kit_server_domain;
	side->client.leases = &side->mapped;
	side->client.n_leases = 1;
	client_join(&side->client, &kit_server_domain);
}

void kit_server_end_client(struct side *side)
{
	if (side->fd < 0)
		return;
	client_leave(&side->client);
	lease_unmap(side->page);
	lease_unmap(side->mapped);
	side->fd = fd_close(side->fd);
	kit_server_domain.channels.left = true;
	collect_unnamed(&kit_server_domain);
}

void kit_server_begin(void)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC);

	kit_server_domain = (struct domain) {.server = &server};
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		kit_server_domain.account.quota.limit[kind] = UINT64_MAX;
	if (loop_new(&server.loop) < 0)
		bail("%s", tarn_fail_message());
	if (fd < 0 ||
		table_create(fd, 7, 4711, 0, 0, &kit_server_domain.table) < 0 ||
		table_writer_new(&kit_server_domain.table,
			&kit_server_domain.writer) < 0 ||
		alloc_new(&kit_server_domain.pool.alloc) < 0 ||
		alloc_new(&kit_server_domain.pool.old_alloc) < 0 ||
		alloc_add(kit_server_domain.pool.alloc, 0, 64ull * KIT_PAGE) <
			0 ||
		lease_batch_init(&kit_server_domain.storages.batch) < 0)
		bail("%s", tarn_fail_message());
	fd_close(fd);
	for (uint64_t i = 0; i < 3; i++)
		add_client(&kit_server_sides[i], i + 1);
}

void kit_server_end(void)
{
	for (int i = 0; i < 3; i++)
		kit_server_end_client(&kit_server_sides[i]);
	channels_free(&kit_server_domain);
	lease_batch_done(&kit_server_domain.storages.batch);
	kit_server_domain.pool.alloc = alloc_free(kit_server_domain.pool.alloc);
	kit_server_domain.pool.old_alloc =
		alloc_free(kit_server_domain.pool.old_alloc);
	kit_server_domain.writer = table_writer_free(kit_server_domain.writer);
	free(kit_server_domain.storages.infos);
	name_accounts_free(&kit_server_domain.names);
	table_unmap(&kit_server_domain.table);
	server.loop = loop_free(server.loop);
}

/* ---- storages ---------------------------------------------------------- */

uint64_t kit_server_generation(uint32_t index)
{
	return storage_word_generation(
		atomic_load(&kit_server_domain.table.storages[index].word));
}

enum storage_state kit_server_state(uint32_t index)
{
	return storage_word_state(
		atomic_load(&kit_server_domain.table.storages[index].word));
}

uint32_t kit_server_storage(void)
{
	struct table_storage entry = {.alloc_size = KIT_PAGE, .size = KIT_PAGE};
	uint64_t generation;
	uint32_t index;

	if (alloc_take(kit_server_domain.pool.alloc, KIT_PAGE,
		    &entry.alloc_offset) < 0)
		bail("the pool is full");
	entry.base = entry.alloc_offset;
	if (storage_new(&kit_server_domain, &entry, STORAGE_LIVE, &index,
		    &generation) < 0)
		bail("%s", tarn_fail_message());
	return index;
}

/* ---- channels ---------------------------------------------------------- */

int kit_server_channel_fd(const struct channel_geometry *g, uint64_t *ret_size)
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

uint32_t kit_server_channel_storage(uint64_t size, uint64_t *ret_generation)
{
	const struct table_storage entry = {.pool = TABLE_POOL_OWN,
		.size = size,
		.flags = STORAGE_CREATED | STORAGE_CHANNEL};
	uint32_t index;

	if (storage_new(&kit_server_domain, &entry, STORAGE_LIVE, &index,
		    ret_generation) < 0)
		bail("%s", tarn_fail_message());
	storage_name(&kit_server_domain, index, 1, 0);
	return index;
}

int kit_server_try_channel(const struct channel_geometry *g, struct user *user)
{
	uint64_t size;
	int r;

	user->fd = kit_server_channel_fd(g, &size);
	user->index = kit_server_channel_storage(size, &user->generation);
	r = channel_open(
		&kit_server_domain, user->index, user->generation, user->fd);
	if (r < 0) {
		user->fd = fd_close(user->fd);
		return r;
	}
	map_user(user, size);
	return 0;
}

void kit_server_channel(
	enum ring_mode mode, uint32_t slots, uint32_t flags, struct user *user)
{
	const struct channel_geometry g = {
		.ring = {.mode = mode, .slots = slots},
		.tensors = 2,
		.flags = flags,
	};

	if (kit_server_try_channel(&g, user) < 0)
		bail("a channel: %s", tarn_fail_message());
}

struct user kit_server_another(const struct user *of)
{
	struct user u = {.fd = fd_dup(of->fd)};

	map_user(&u, of->map.size);
	return u;
}

void kit_server_drop_user(struct user *user)
{
	munmap(user->map.memory, user->map.size);
	fd_close(user->fd);
}

void kit_server_join(struct user *user, unsigned kinds, uint32_t owner)
{
	if (ring_join(&user->ring, kinds, owner) < 0)
		bail("%s", tarn_fail_message());
}

/* ---- turns ------------------------------------------------------------- */

void kit_server_turn(void)
{
	deadline_set(loop_deadlines(server.loop),
		&kit_server_domain.channels.next_look, 0);
	channels_in_turn(&kit_server_domain);
	collect(&kit_server_domain);
}

void kit_server_look(void)
{
	kit_server_domain.channels.left = true;
	kit_server_turn();
}

void kit_server_look_later(void)
{
	kit_server_look();
	for (struct server_channel *c = kit_server_domain.channels.first; c;
		c = c->next)
		if (c->over)
			c->over = 1;
	deadlines_run(loop_deadlines(server.loop), UINT64_MAX);
	kit_server_turn();
}
