/* SPDX-License-Identifier: MIT */
/*
 * Storages that have a descriptor of their own: a memfd, or one that a device's
 * driver has exported.
 *
 * The descriptor is the storage. The server and the keeper keep it from before
 * the entry can be found by a name until the entry is free; clients of the
 * domain may have a copy of it, and its memory goes back to the system, or to
 * the device, when the last one is closed and no process has it mapped. Of a
 * device's no process of the daemon does anything but to hold it, send it and
 * have it closed, by a process that may hang (send/store_fd.c).
 */
#include <fcntl.h>
#include <sys/resource.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server/server.h"
#include "shm/segment.h"

static struct msg_fd_key key_of(const struct domain *domain, uint32_t kind,
	uint32_t index, uint64_t generation)
{
	return (struct msg_fd_key) {
		.domain = domain->number,
		.kind = kind,
		.a = index,
		.b = generation,
	};
}

static uint32_t kind_of(const struct table_storage *entry)
{
	return entry->flags & STORAGE_DEVICE ? FD_OF_DEVICE : FD_OF_STORAGE;
}

/* Each takes a descriptor here and one in the keeper, which must be able to
 * hold it: a quarter of all. */
bool own_has_room(const struct server *server)
{
	struct rlimit limit;
	uint64_t n = 0;

	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		n += domain->storages.counts.own.n;
	return n < FD_STORE_MAX / 4 &&
	       (getrlimit(RLIMIT_NOFILE, &limit) < 0 || n < limit.rlim_cur / 4);
}

uint64_t own_memory(const struct server *server)
{
	uint64_t sum = 0;

	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		sum += domain->storages.counts.own.memory;
	return sum;
}

int own_no_room(const struct server *server, uint64_t size)
{
	uint64_t taken = server->allocated + own_memory(server);

	return tarn_fail(ENOSPC,
		"publish: %.1f MiB more do not fit into the daemon's budget of "
		"%.1f MiB, of which %.1f MiB are taken; remove tensors (tarn "
		"rm) or start tarnd with a larger --budget",
		(double)size / 1048576, (double)server->start.budget / 1048576,
		(double)taken / 1048576);
}

int own_add(struct domain *domain, const struct table_storage *entry, int fd,
	uint32_t *ret_index, uint64_t *ret_generation)
{
	struct msg_fd_key key = key_of(domain, kind_of(entry), 0, 0);
	int r;

	r = storage_new(
		domain, entry, STORAGE_FILLING, ret_index, ret_generation);
	if (r < 0) {
		server_close_fd(domain->server, &key, fd);
		return r;
	}
	if (entry->flags & STORAGE_PATCH)
		patch_join(domain, *ret_index);
	key.a = *ret_index;
	key.b = *ret_generation;
	r = server_store_fd(domain->server, &key, fd);
	if (r < 0)
		storage_release(domain, *ret_index);
	return r;
}

void own_drop(struct domain *domain, uint32_t index, uint64_t generation)
{
	struct msg_fd_key key = key_of(domain,
		kind_of(&domain->table.storages[index]), index, generation);

	server_drop_fd(domain->server, &key);
}

int own_fd(const struct domain *domain, uint32_t index, uint64_t generation)
{
	struct msg_fd_key key =
		key_of(domain, FD_OF_STORAGE, index, generation);
	int fd = server_stored_fd(domain->server, &key);

	if (fd >= 0)
		return fd;
	/* A client may ask for any index: the table is no help yet. */
	key.kind = FD_OF_DEVICE;
	return server_stored_fd(domain->server, &key);
}

/* ---- WIRE_STORAGE ---------------------------------------------------- */

static int find(const struct domain *domain, const struct msg_storage *want)
{
	int fd = own_fd(domain, want->index, want->generation);

	if (fd < 0)
		return tarn_fail(ESTALE,
			"storage %u of generation %llu has no memory of its "
			"own, or is gone",
			want->index, (unsigned long long)want->generation);
	return fd;
}

/*
 * A descriptor of a mutable storage for one client: with an open file
 * description of its own, so that its locks are its own; and a read-only one
 * for a client that may not write. A daemon that is neither root nor of the uid
 * that made the memfd cannot open it for writing: then it sends a copy of the
 * descriptor that it was sent, with which nothing can be locked.
 */
static int reopen(struct client *client, const struct msg_storage *want, int fd,
	int *ret_fd)
{
	int mode = client->may_write ? O_RDWR : O_RDONLY;
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
	struct domain *domain = client->domain;
	_cleanup_fd_ int copy = -1;
	int fd = find(domain, want), r = 0;

	if (fd < 0)
		return fd;
	/* Sealed ones are read-only already, and a device's cannot be. */
	if (domain->table.storages[want->index].flags & STORAGE_MUTABLE) {
		r = reopen(client, want, fd, &copy);
		fd = copy;
	}
	if (r == 0)
		client_reply(client, WIRE_OUT_FDS(WIRE_STORAGE_FD, m->serial,
					     NULL, 0, &fd, 1));
	return r;
}
