/* SPDX-License-Identifier: MIT */
/*
 * The keeper as records, from one version of it to another.
 *
 * Each list has the size of its records. A reader takes the fields that it
 * knows, and leaves at zero those that the writer did not have, so both may
 * append fields. Any other change is another STATE_VERSION, and a program that
 * does not know it refuses in the trial run, when nothing has been given up
 * yet.
 *
 * The writer is a program of ours in the same process, and may be wrong all
 * the same: every number is checked against what it counts, every descriptor
 * against what it must be, before anything is begun with it.
 */
#include "daemon/keeper/state_records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/segment.h"
#include "shm/table.h"

struct reading {
	const unsigned char *at, *end;
	struct state_head head;
	struct keeper *keeper;
	bool waits;
};

/* True: there was no memory, and the caller tries again what it did. */
static bool try_again(const struct reading *r, int error)
{
	if (!r->waits || error != -ENOMEM)
		return false;
	usleep(KEEPER_AGAIN_US);
	return true;
}

/* The next one of a list: what both know of it. */
static int next(struct reading *r, enum list list, void *ret)
{
	uint32_t size = r->head.lists[list].size;

	if ((size_t)(r->end - r->at) < size)
		return tarn_fail(EPROTO, "state: list %d is cut", (int)list);
	memset(ret, 0, state_sizes[list]);
	memcpy(ret, r->at, MIN(size, state_sizes[list]));
	r->at += size;
	return 0;
}

static int check_open(int fd, const char *what)
{
	if (fd > STDERR_FILENO && fcntl(fd, F_GETFD) >= 0)
		return 0;
	return tarn_fail(
		EPROTO, "state: descriptor %d, %s, is not open", fd, what);
}

static int check_domain(const struct reading *r, uint32_t domain)
{
	if (domain < r->keeper->n_domains)
		return 0;
	return tarn_fail(EPROTO, "state: there is no domain %u", domain);
}

/* The next server is to go on in it: it can be written, and its layout is the
 * one that this program knows. Clients get a descriptor to read by. */
static int check_region(
	const int32_t fds[2], uint64_t instance, uint32_t domain)
{
	struct table table;
	uint32_t is;
	int r;

	if ((fcntl(fds[1], F_GETFL) & O_ACCMODE) != O_RDONLY)
		return tarn_fail(EPROTO,
			"state: domain %u: clients could write by descriptor %d",
			domain, fds[1]);
	r = table_map(fds[0], true, &table);
	if (r < 0)
		return tarn_fail_prefix(r, "state: domain %u: ", domain);
	is = table.header->domain;
	if (table.instance != instance || is != domain)
		r = tarn_fail(EPROTO,
			"state: the control region of domain %u is of domain %u of "
			"another daemon",
			domain, is);
	table_unmap(&table);
	return r;
}

static int read_domain(struct reading *r)
{
	struct keeper *keeper = r->keeper;
	struct keeper_domain *domain = &keeper->domains[keeper->n_domains];
	struct state_domain record;
	int e = next(r, DOMAINS, &record);

	if (e == 0)
		e = check_open(record.fds[0], "a control region");
	if (e == 0)
		e = check_open(record.fds[1], "a control region for clients");
	if (e == 0 && record.spec.name[WIRE_POOL_MAX])
		e = tarn_fail(EPROTO, "state: a pool's name has no end");
	if (e == 0)
		e = check_region(
			record.fds, keeper->instance, keeper->n_domains);
	if (e < 0)
		return e;
	domain->spec = record.spec;
	domain->pool_end = record.pool_end;
	domain->allocated = record.allocated;
	domain->fds[0] = record.fds[0];
	domain->fds[1] = record.fds[1];
	keeper->n_domains++;
	return 0;
}

static int check_segment(
	const struct pool_spec *spec, const struct state_segment *record)
{
	return spec->flags & POOL_REGISTER
		       ? segment_check_register(
				 record->fd, record->size, O_RDONLY)
		       : segment_check(record->fd, record->size);
}

static int read_segment(struct reading *r)
{
	struct keeper *keeper = r->keeper;
	struct state_segment record;
	uint64_t end;
	int e = next(r, SEGMENTS, &record);

	if (e == 0)
		e = check_domain(r, record.domain);
	if (e == 0)
		e = check_open(record.fd, "a segment");
	if (e == 0 && (add_u64(record.offset, record.size, &end) ||
			      end > keeper->memory.reach || !record.size))
		e = tarn_fail(
			EPROTO, "state: segment %u cannot be", record.number);
	if (e == 0)
		e = check_segment(
			&keeper->domains[record.domain].spec, &record);
	if (e < 0)
		return e;
	keeper->memory.segments[keeper->memory.n_segments++] =
		(struct keeper_segment) {
			.mapped = {.domain = record.domain,
				.number = record.number,
				.offset = record.offset,
				.size = record.size,
				.place = record.place},
			.huge = MIN(record.huge, record.size),
			.fd = record.fd,
		};
	keeper->memory.allocated += record.size;
	return 0;
}

static int read_client(struct reading *r)
{
	struct state_client record;
	int e = next(r, CLIENTS, &record);

	if (e == 0)
		e = check_domain(r, record.user);
	if (e == 0)
		e = check_domain(r, record.who.domain);
	if (e == 0)
		e = check_open(record.socket, "a client's socket");
	if (e == 0)
		e = check_open(record.lease_fd, "a client's leases");
	if (e < 0)
		return e;
	return keeper_client_adopt(
		r->keeper, &(struct keeper_client) {.who = record.who,
				   .user = record.user,
				   .socket = record.socket,
				   .lease_fd = record.lease_fd});
}

static int read_loader(struct reading *r)
{
	struct state_loader record;
	int e = next(r, LOADERS, &record);

	if (e == 0)
		e = check_domain(r, record.who.domain);
	if (e == 0)
		e = check_open(record.pipe_fd, "a loader's pipe");
	if (e < 0)
		return e;
	return keeper_loader_adopt(r->keeper, &record.who, record.pipe_fd);
}

static int read_stored_fd(struct reading *r)
{
	struct state_stored_fd record;
	int e = next(r, STORED_FDS, &record);

	if (e == 0)
		e = check_open(record.fd, "which the server keeps");
	/* That closes the descriptor where it fails. */
	if (e == 0)
		e = fd_store_make_room(&r->keeper->fd_store, record.fd);
	if (e < 0)
		return e;
	return fd_store_put(&r->keeper->fd_store, &record.key, record.fd);
}

/* A reader that has no memory leaves the keeper as it was. */
static int read_one(struct reading *r, int (*reader)(struct reading *r))
{
	const unsigned char *at = r->at;
	int e;

	do {
		r->at = at;
		e = reader(r);
	} while (try_again(r, e));
	return e;
}

static int make_segments(struct reading *r, uint32_t n)
{
	struct keeper_segment *all;

	do
		all = calloc(n + 1ul, sizeof(*all));
	while (!all && try_again(r, -ENOMEM));
	r->keeper->memory.segments = all;
	return all ? 0 : tarn_fail(ENOMEM, "out of memory");
}

static int read_lists(struct reading *r)
{
	static int (*const readers[LISTS])(struct reading * r) = {read_domain,
		read_segment, read_client, read_loader, read_stored_fd};
	const struct list_head *lists = r->head.lists;
	int e = 0;

	if (lists[DOMAINS].n > DOMAINS_MAX || lists[SEGMENTS].n > SEGMENTS_MAX)
		return tarn_fail(EPROTO,
			"state: %u domains and %u segments, at most %u and %u "
			"are known to this version",
			lists[DOMAINS].n, lists[SEGMENTS].n, DOMAINS_MAX,
			SEGMENTS_MAX);
	e = make_segments(r, lists[SEGMENTS].n);
	for (int list = 0; list < LISTS; list++)
		for (uint32_t i = 0; i < lists[list].n && e == 0; i++)
			e = read_one(r, readers[list]);
	if (e == 0 && r->at != r->end)
		e = tarn_fail(EPROTO, "state: %td bytes follow its end",
			r->end - r->at);
	return e;
}

/* Nothing, where the writer had none, or of another version. */
static int read_settings(const struct reading *r, struct keeper_settings *ret)
{
	const struct state_head *head = &r->head;
	const struct config *config = &ret->config;

	*ret = (struct keeper_settings) {0};
	if (head->settings_size != sizeof(*ret) ||
		head->settings_version != SETTINGS_VERSION ||
		head->settings_at > head->size ||
		head->size - head->settings_at < sizeof(*ret))
		return 0;
	memcpy(ret, r->at + head->settings_at, sizeof(*ret));
	if (config->n_pools > POOLS_MAX || config->n_users > QUOTA_USERS_MAX)
		return tarn_fail(EPROTO,
			"state: a configuration of %u pools and %u users",
			config->n_pools, config->n_users);
	for (uint32_t i = 0; i < config->n_pools; i++)
		if (config->pools[i].name[WIRE_POOL_MAX])
			return tarn_fail(
				EPROTO, "state: a pool's name has no end");
	return 0;
}

static int read_head(struct reading *r, struct keeper_settings *ret_settings)
{
	struct state_head *head = &r->head;
	struct keeper *keeper = r->keeper;
	size_t left = (size_t)(r->end - r->at);
	char *folder = head->rest.listener.folder.path;
	int e;

	memcpy(head, r->at, MIN(left, sizeof(*head)));
	if (left < offsetof(struct state_head, lists) ||
		head->magic != STATE_MAGIC || head->version != STATE_VERSION ||
		head->size > left ||
		head->size < offsetof(struct state_head, rest))
		return tarn_fail(EPROTO,
			"state: version %u in %u bytes of %zu; this one knows "
			"version %u",
			head->version, head->size, left, STATE_VERSION);
	/* Fields that only the writer knows are skipped. */
	if (head->size < sizeof(*head))
		memset((char *)head + head->size, 0,
			sizeof(*head) - head->size);
	e = read_settings(r, ret_settings);
	if (e < 0)
		return e;
	r->at += head->size;
	head->rest.socket[sizeof(head->rest.socket) - 1] = '\0';
	folder[sizeof(head->rest.listener.folder.path) - 1] = '\0';
	if (head->lanes > LANES_MAX || head->lanes & (head->lanes - 1))
		return tarn_fail(EPROTO,
			"state: pools of %u lanes; a power of two up to %u is "
			"known to this version",
			head->lanes, LANES_MAX);
	if (*folder != '/')
		return tarn_fail(EPROTO,
			"state: the socket's folder is '%.100s', which is no "
			"absolute path",
			folder);
	keeper->instance = head->instance;
	keeper->memory.budget = head->budget;
	keeper->memory.reach = head->reach;
	keeper->memory.lanes = MAX(head->lanes, 1u);
	keeper->began_at = head->began_at;
	keeper->clients.next = head->next_client;
	keeper->memory.next_segment = head->next_segment;
	keeper->last_loader = head->last_loader;
	keeper->server.restarts = head->restarts;
	keeper->server.ended = head->ended;
	keeper->upgrade.n = head->upgrades;
	return 0;
}

int keeper_state_read(int fd, bool waits, struct keeper *keeper,
	struct keeper_rest *ret, struct keeper_settings *ret_settings)
{
	struct reading r = {.keeper = keeper, .waits = waits};
	struct stat st;
	void *map;
	int e;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return tarn_fail(
			EPROTO, "descriptor %d is no keeper's state", fd);
	do
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd,
			0);
	while (map == MAP_FAILED && try_again(&r, -errno));
	if (map == MAP_FAILED)
		return tarn_fail(errno, "state: %s", tarn_errno_text(errno));
	r.at = map;
	r.end = r.at + st.st_size;
	e = read_head(&r, ret_settings);
	if (e == 0)
		e = read_lists(&r);
	if (e == 0)
		e = check_open(r.head.rest.listener.listen_fd, "the listener");
	if (e == 0)
		e = check_open(r.head.rest.listener.lock_fd, "its lock");
	if (e == 0)
		e = check_open(r.head.rest.listener.folder.fd, "its folder");
	if (e == 0)
		e = check_open(r.head.rest.listener.folder.parent,
			"the folder above it");
	munmap(map, (size_t)st.st_size);
	*ret = r.head.rest;
	return e;
}
