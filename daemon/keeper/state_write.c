/* SPDX-License-Identifier: MIT */
/*
 * A keeper's state, written for the program that takes its place; see
 * state_read.c.
 */
#include "daemon/keeper/state_records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

static void write_domains(const struct keeper *keeper, FILE *f)
{
	for (uint32_t i = 0; i < keeper->n_domains; i++) {
		const struct keeper_domain *domain = &keeper->domains[i];
		struct state_domain record = {
			.spec = domain->spec,
			.pool_end = domain->pool_end,
			.allocated = domain->allocated,
			.fds = {domain->fds[0], domain->fds[1]},
		};

		fwrite(&record, sizeof(record), 1, f);
	}
}

static void write_segments(const struct keeper *keeper, FILE *f)
{
	for (uint32_t i = 0; i < keeper->memory.n_segments; i++) {
		const struct keeper_segment *s = &keeper->memory.segments[i];
		struct state_segment record = {
			.domain = s->mapped.domain,
			.number = s->mapped.number,
			.offset = s->mapped.offset,
			.size = s->mapped.size,
			.fd = s->fd,
			.place = s->mapped.place,
			.huge = s->huge,
		};

		fwrite(&record, sizeof(record), 1, f);
	}
}

static void write_clients(struct keeper *keeper, FILE *f)
{
	struct keeper_client *client = NULL;

	while ((client = keeper_client_next(keeper, client))) {
		struct state_client record = {
			.who = client->who,
			.user = client->user,
			.socket = client->socket,
			.lease_fd = client->lease_fd,
		};

		fwrite(&record, sizeof(record), 1, f);
	}
}

static uint32_t write_loaders(const struct keeper *keeper, FILE *f)
{
	uint32_t n = 0;

	for (const struct keeper_loader *l = keeper->loaders; l;
		l = l->next, n++) {
		struct state_loader record = {
			.who = l->who, .pipe_fd = l->pipe_fd};

		if (f)
			fwrite(&record, sizeof(record), 1, f);
	}
	return n;
}

static void write_stored_fd(void *arg, const struct stored_fd *stored)
{
	struct state_stored_fd record = {.key = stored->key, .fd = stored->fd};

	fwrite(&record, sizeof(record), 1, arg);
}

static void write_settings(const struct keeper *keeper, FILE *f)
{
	const struct options *options = &keeper->options;
	const struct keeper_settings settings = {
		.budget = options->budget,
		.segment_max = options->segment_max,
		.idle_ns = options->idle_ns,
		.mode = options->mode,
		.placement = options->placement,
		.flags = options->registers ? POOL_REGISTER : 0,
		.there = true,
		.config = keeper->config,
	};

	fwrite(&settings, sizeof(settings), 1, f);
}

static struct state_head head_of(
	const struct keeper *keeper, const struct keeper_rest *rest)
{
	const uint32_t counts[LISTS] = {
		[DOMAINS] = keeper->n_domains,
		[SEGMENTS] = keeper->memory.n_segments,
		[CLIENTS] = keeper->clients.n,
		[LOADERS] = write_loaders(keeper, NULL),
		[STORED_FDS] = keeper->fd_store.n,
	};
	struct state_head head = {
		.magic = STATE_MAGIC,
		.version = STATE_VERSION,
		.size = sizeof(head) + sizeof(struct keeper_settings),
		.instance = keeper->instance,
		.budget = keeper->memory.budget,
		.reach = keeper->memory.reach,
		.lanes = keeper->memory.lanes,
		.began_at = keeper->began_at,
		.next_client = keeper->clients.next,
		.next_segment = keeper->memory.next_segment,
		.last_loader = keeper->last_loader,
		.restarts = keeper->server.restarts,
		.ended = keeper->server.ended,
		.upgrades = keeper->upgrade.n,
		.rest = *rest,
		.settings_at = sizeof(head),
		.settings_size = sizeof(struct keeper_settings),
		.settings_version = SETTINGS_VERSION,
	};

	for (int i = 0; i < LISTS; i++)
		head.lists[i] = (struct list_head) {counts[i], state_sizes[i]};
	return head;
}

int keeper_state_write(
	struct keeper *keeper, const struct keeper_rest *rest, int *ret_fd)
{
	struct state_head head = head_of(keeper, rest);
	_cleanup_fd_ int fd = memfd_create("tarn-state", MFD_CLOEXEC);
	_cleanup_fd_ int copy = fd < 0 ? -1 : fd_dup(fd);
	FILE *f = copy < 0 ? NULL : fdopen(copy, "we");
	bool failed;

	if (!f)
		return tarn_fail(errno, "state: %s", tarn_errno_text(errno));
	fd_steal(&copy);
	fwrite(&head, sizeof(head), 1, f);
	write_settings(keeper, f);
	write_domains(keeper, f);
	write_segments(keeper, f);
	write_clients(keeper, f);
	write_loaders(keeper, f);
	fd_store_each(&keeper->fd_store, write_stored_fd, f);
	failed = ferror(f);
	if (fclose(f) != 0 || failed)
		return tarn_fail(ENOSPC, "state: no memory for it");
	*ret_fd = fd_steal(&fd);
	return 0;
}

/* ---- descriptors ------------------------------------------------------ */

static void inherit(int fd, bool survive)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, survive ? 0 : FD_CLOEXEC);
}

static void inherit_stored_fd(void *arg, const struct stored_fd *stored)
{
	inherit(stored->fd, *(bool *)arg);
}

void keeper_state_inherit(struct keeper *keeper, bool survive)
{
	struct listener_parts listener = listener_parts(keeper->listener);
	struct keeper_client *client = NULL;

	inherit(listener.listen_fd, survive);
	inherit(listener.lock_fd, survive);
	inherit(listener.folder.fd, survive);
	inherit(listener.folder.parent, survive);
	for (uint32_t i = 0; i < keeper->n_domains; i++)
		for (int k = 0; k < 2; k++)
			inherit(keeper->domains[i].fds[k], survive);
	for (uint32_t i = 0; i < keeper->memory.n_segments; i++)
		inherit(keeper->memory.segments[i].fd, survive);
	while ((client = keeper_client_next(keeper, client))) {
		inherit(client->socket, survive);
		inherit(client->lease_fd, survive);
	}
	for (const struct keeper_loader *l = keeper->loaders; l; l = l->next)
		inherit(l->pipe_fd, survive);
	fd_store_each(&keeper->fd_store, inherit_stored_fd, &survive);
}
