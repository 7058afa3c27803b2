/* SPDX-License-Identifier: MIT */
/*
 * Storages that have a memfd of their own.
 *
 * The idea: the descriptor is the storage. It is kept, here and by the keeper,
 * from before the entry can be found by a name until the entry is free; who is
 * under the rule may have a copy of it, and its memory goes back to the system
 * when the last one is closed.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server.h"
#include "shm/segment.h"

static struct msg_keep key_of(
	const struct rule *rule, uint32_t index, uint64_t generation)
{
	return (struct msg_keep) {
		.rule = rule->number,
		.kind = KEEP_STORAGE,
		.a = index,
		.b = generation,
	};
}

/* Each takes a descriptor here and one in the keeper, which must be able to
 * hold it: a quarter of all. */
bool own_has_room(const struct server *server)
{
	struct rlimit limit;
	uint64_t n = 0;

	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		n += rule->counts.own.n;
	return n < KEPT_MAX / 4 && (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
					   n < limit.rlim_cur / 4);
}

uint64_t own_memory(const struct server *server)
{
	uint64_t sum = 0;

	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		sum += rule->counts.own.memory;
	return sum;
}

int own_find_room(struct rule *rule, uint64_t size, bool may_wait)
{
	const struct server *server = rule->server;
	uint64_t taken;
	int r = room_for_own(rule, size, may_wait);

	if (r >= 0)
		return r;
	taken = server->allocated + own_memory(server);
	return tarn_fail(ENOSPC,
		"publish: %.1f MiB more do not fit into the daemon's budget of "
		"%.1f MiB, of which %.1f MiB are taken; remove tensors (tarn "
		"rm) or start tarnd with a larger --budget",
		(double)size / 1048576, (double)server->start.budget / 1048576,
		(double)taken / 1048576);
}

int own_add(struct rule *rule, const struct table_storage *entry, int fd,
	uint32_t *ret_index, uint64_t *ret_generation)
{
	struct msg_keep key;
	int r;

	r = storage_new(
		rule, entry, STORAGE_FILLING, ret_index, ret_generation);
	if (r < 0) {
		fd_close(fd);
		return r;
	}
	key = key_of(rule, *ret_index, *ret_generation);
	r = server_keep(rule->server, &key, fd);
	if (r < 0)
		storage_release(rule, *ret_index);
	return r;
}

void own_drop(struct rule *rule, uint32_t index, uint64_t generation)
{
	struct msg_keep key = key_of(rule, index, generation);

	server_forget(rule->server, &key);
}

int own_rebuild_channel(struct rule *rule, uint32_t index)
{
	/* Only this thread writes the word. */
	uint64_t generation = storage_word_generation(atomic_load_explicit(
		&rule->table.storages[index].word, memory_order_relaxed));
	struct msg_keep key = key_of(rule, index, generation);

	return channel_rebuild(
		rule, index, generation, server_kept(rule->server, &key));
}

int own_open_channel(struct rule *rule, uint32_t index, uint64_t generation)
{
	struct msg_keep key = key_of(rule, index, generation);

	return channel_open(
		rule, index, generation, server_kept(rule->server, &key));
}

/* ---- WIRE_STORAGE ---------------------------------------------------- */

static int find(const struct rule *rule, const struct msg_storage *want)
{
	struct msg_keep key = key_of(rule, want->index, want->generation);
	int fd = server_kept(rule->server, &key);

	if (fd < 0)
		return tarn_fail(ESTALE,
			"storage %u of generation %llu has no memory of its "
			"own, or is gone",
			want->index, (unsigned long long)want->generation);
	return fd;
}

/*
 * A descriptor of a mutable storage for one client: with an open file
 * description of its own, so that its locks are its own; and one that cannot
 * write for who may not. A daemon that is neither root nor the one who made
 * the memfd cannot open it for writing: then a copy of what was handed in must
 * do, with which nothing can be locked.
 */
static int reopen(struct client *client, const struct msg_storage *want, int fd,
	int *ret_fd)
{
	int mode = client_check_write(client) < 0 ? O_RDONLY : O_RDWR;
	int r = segment_reopen_as(fd, mode, ret_fd);

	if (r != -EACCES || mode == O_RDONLY || want->flags & STORAGE_ALONE)
		return r;
	*ret_fd = fd_dup(fd);
	return *ret_fd < 0 ? tarn_fail(-*ret_fd, "storage %u: %s", want->index,
				     tarn_errno_text(-*ret_fd))
			   : 0;
}

int own_send(struct client *client, const struct wire_message *m)
{
	const struct msg_storage *want = (const struct msg_storage *)m->body;
	struct rule *rule = client->rule;
	_cleanup_fd_ int copy = -1;
	int fd = find(rule, want), r = 0;

	if (fd < 0)
		return fd;
	/* Sealed ones are read-only already. */
	if (rule->table.storages[want->index].flags & STORAGE_MUTABLE) {
		r = reopen(client, want, fd, &copy);
		fd = copy;
	}
	if (r == 0)
		client_reply(
			client, WIRE_STORAGE_FD, m->serial, NULL, 0, &fd, 1);
	return r;
}
