/* SPDX-License-Identifier: MIT */
/*
 * The keeper as records, from one version of it to another.
 *
 * The idea: each list says how large its records are. A reader takes of each
 * what it knows and leaves zero what the writer did not, so both may append
 * fields. Whatever else changes is another STATE_VERSION, and who does not know
 * it refuses in the trial run, when nothing has been given up yet.
 *
 * The writer is a program of ours in the same process, and may be wrong all
 * the same: every number is checked against what it counts, every descriptor
 * against what it must be, before anything is begun with it.
 */
#include "daemon/keeper_state.h"

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

#define STATE_MAGIC 0x65746174736e7274ull /* "trnstate" */
#define STATE_VERSION 1u

enum list { RULES, SEGMENTS, CLIENTS, LOADERS, KEPT, LISTS };

struct list_head {
	uint32_t n;
	uint32_t size; /* of one record */
};

struct state_head {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this */
	struct list_head lists[LISTS];
	uint64_t instance;
	uint64_t budget;
	uint64_t reach;
	uint64_t began_at;
	uint64_t next_client;
	uint32_t next_segment;
	uint32_t last_loader;
	uint32_t restarts;
	uint32_t ended;
	uint32_t upgrades;
	uint32_t pad;
	struct keeper_rest rest;
};

struct state_rule {
	struct pool_spec spec;
	uint64_t pool_end;
	uint64_t allocated;
	int32_t fd;
	uint32_t pad;
};

struct state_segment {
	uint32_t rule;
	uint32_t number;
	uint64_t offset;
	uint64_t size;
	int32_t fd;
	uint32_t pad;
};

struct state_client {
	struct msg_client who;
	uint32_t home;
	int32_t socket;
	int32_t lease_fd;
	uint32_t pad;
};

struct state_loader {
	struct msg_loader who;
	int32_t pipe_fd;
	uint32_t pad;
};

struct state_kept {
	struct msg_keep key;
	int32_t fd;
	uint32_t pad;
};

static const uint32_t sizes[LISTS] = {
	[RULES] = sizeof(struct state_rule),
	[SEGMENTS] = sizeof(struct state_segment),
	[CLIENTS] = sizeof(struct state_client),
	[LOADERS] = sizeof(struct state_loader),
	[KEPT] = sizeof(struct state_kept),
};

/* ---- writing ---------------------------------------------------------- */

static void write_rules(const struct keeper *keeper, FILE *f)
{
	for (uint32_t i = 0; i < keeper->n_rules; i++) {
		const struct keeper_rule *rule = &keeper->rules[i];
		struct state_rule record = {
			.spec = rule->spec,
			.pool_end = rule->pool_end,
			.allocated = rule->allocated,
			/* Not sealed yet: then it is only looked at. */
			.fd = rule->ro_fd >= 0 ? rule->ro_fd : rule->rw_fd,
		};

		fwrite(&record, sizeof(record), 1, f);
	}
}

static void write_segments(const struct keeper *keeper, FILE *f)
{
	for (uint32_t i = 0; i < keeper->n_segments; i++) {
		const struct keeper_segment *s = &keeper->segments[i];
		struct state_segment record = {
			.rule = s->mapped.rule,
			.number = s->mapped.number,
			.offset = s->mapped.offset,
			.size = s->mapped.size,
			.fd = s->fd,
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
			.home = client->home,
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

static void write_kept(void *arg, const struct kept *kept)
{
	struct state_kept record = {.key = kept->key, .fd = kept->fd};

	fwrite(&record, sizeof(record), 1, arg);
}

static struct state_head head_of(
	const struct keeper *keeper, const struct keeper_rest *rest)
{
	const uint32_t counts[LISTS] = {
		[RULES] = keeper->n_rules,
		[SEGMENTS] = keeper->n_segments,
		[CLIENTS] = keeper->n_clients,
		[LOADERS] = write_loaders(keeper, NULL),
		[KEPT] = keeper->kept.n,
	};
	struct state_head head = {
		.magic = STATE_MAGIC,
		.version = STATE_VERSION,
		.size = sizeof(head),
		.instance = keeper->instance,
		.budget = keeper->budget,
		.reach = keeper->reach,
		.began_at = keeper->began_at,
		.next_client = keeper->next_client,
		.next_segment = keeper->next_segment,
		.last_loader = keeper->last_loader,
		.restarts = keeper->restarts,
		.ended = keeper->ended,
		.upgrades = keeper->upgrades,
		.rest = *rest,
	};

	for (int i = 0; i < LISTS; i++)
		head.lists[i] = (struct list_head) {counts[i], sizes[i]};
	return head;
}

int keeper_state_write(
	struct keeper *keeper, const struct keeper_rest *rest, int *ret_fd)
{
	struct state_head head = head_of(keeper, rest);
	_cleanup_fd_ int fd = memfd_create("tarn-state", MFD_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "we");
	bool failed;

	if (!f)
		return tarn_fail(errno, "state: %s", tarn_errno_text(errno));
	fwrite(&head, sizeof(head), 1, f);
	write_rules(keeper, f);
	write_segments(keeper, f);
	write_clients(keeper, f);
	write_loaders(keeper, f);
	kept_each(&keeper->kept, write_kept, f);
	failed = ferror(f);
	if (fclose(f) != 0 || failed)
		return tarn_fail(ENOSPC, "state: no memory for it");
	*ret_fd = fd_steal(&fd);
	return 0;
}

/* ---- reading ---------------------------------------------------------- */

struct reading {
	const unsigned char *at, *end;
	struct state_head head;
	struct keeper *keeper;
};

/* The next one of a list: what both know of it. */
static int next(struct reading *r, enum list list, void *ret)
{
	uint32_t size = r->head.lists[list].size;

	if ((size_t)(r->end - r->at) < size)
		return tarn_fail(EPROTO, "state: list %d is cut", (int)list);
	memset(ret, 0, sizes[list]);
	memcpy(ret, r->at, MIN(size, sizes[list]));
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

static int check_rule(const struct reading *r, uint32_t rule)
{
	if (rule < r->keeper->n_rules)
		return 0;
	return tarn_fail(EPROTO, "state: there is no rule %u", rule);
}

static int read_rule(struct reading *r)
{
	struct keeper *keeper = r->keeper;
	struct keeper_rule *rule = &keeper->rules[keeper->n_rules];
	struct state_rule record;
	int e = next(r, RULES, &record);

	if (e == 0)
		e = check_open(record.fd, "a control region");
	if (e == 0 && record.spec.name[WIRE_POOL_MAX])
		e = tarn_fail(EPROTO, "state: a pool's name has no end");
	if (e == 0)
		e = table_map(record.fd, false, &rule->table);
	if (e < 0)
		return e;
	rule->spec = record.spec;
	rule->pool_end = record.pool_end;
	rule->allocated = record.allocated;
	rule->rw_fd = -1;
	rule->ro_fd = record.fd;
	rule->left = true;
	keeper->n_rules++;
	if (rule->table.instance != keeper->instance ||
		rule->table.header->rule != keeper->n_rules - 1)
		return tarn_fail(EPROTO,
			"state: the control region of rule %u is of rule %u of "
			"another daemon",
			keeper->n_rules - 1, rule->table.header->rule);
	return 0;
}

static int read_segment(struct reading *r)
{
	struct keeper *keeper = r->keeper;
	struct state_segment record;
	uint64_t end;
	int e = next(r, SEGMENTS, &record);

	if (e == 0)
		e = check_rule(r, record.rule);
	if (e == 0)
		e = check_open(record.fd, "a segment");
	if (e == 0 && (add_u64(record.offset, record.size, &end) ||
			      end > keeper->reach || !record.size))
		e = tarn_fail(
			EPROTO, "state: segment %u cannot be", record.number);
	if (e == 0)
		e = segment_check(record.fd, record.size);
	if (e < 0)
		return e;
	keeper->segments[keeper->n_segments++] = (struct keeper_segment) {
		.mapped = {.rule = record.rule,
			.number = record.number,
			.offset = record.offset,
			.size = record.size},
		.fd = record.fd,
	};
	keeper->allocated += record.size;
	return 0;
}

static int read_client(struct reading *r)
{
	struct state_client record;
	int e = next(r, CLIENTS, &record);

	if (e == 0)
		e = check_rule(r, record.home);
	if (e == 0)
		e = check_rule(r, record.who.rule);
	if (e == 0)
		e = check_open(record.socket, "a client's socket");
	if (e == 0)
		e = check_open(record.lease_fd, "a client's leases");
	if (e < 0)
		return e;
	return keeper_client_adopt(
		r->keeper, &(struct keeper_client) {.who = record.who,
				   .home = record.home,
				   .socket = record.socket,
				   .lease_fd = record.lease_fd});
}

static int read_loader(struct reading *r)
{
	struct state_loader record;
	int e = next(r, LOADERS, &record);

	if (e == 0)
		e = check_rule(r, record.who.rule);
	if (e == 0)
		e = check_open(record.pipe_fd, "a loader's pipe");
	if (e < 0)
		return e;
	return keeper_loader_adopt(r->keeper, &record.who, record.pipe_fd);
}

static int read_kept(struct reading *r)
{
	struct state_kept record;
	int e = next(r, KEPT, &record);

	if (e == 0)
		e = check_open(record.fd, "which the server keeps");
	if (e < 0)
		return e;
	return kept_put(&r->keeper->kept, &record.key, record.fd);
}

static int read_lists(struct reading *r)
{
	static int (*const readers[LISTS])(struct reading * r) = {
		read_rule, read_segment, read_client, read_loader, read_kept};
	const struct list_head *lists = r->head.lists;
	int e = 0;

	if (lists[RULES].n > RULES_MAX || lists[SEGMENTS].n > SEGMENTS_MAX)
		return tarn_fail(EPROTO,
			"state: %u rules and %u segments, at most %u and %u "
			"are known to this version",
			lists[RULES].n, lists[SEGMENTS].n, RULES_MAX,
			SEGMENTS_MAX);
	r->keeper->segments =
		calloc(lists[SEGMENTS].n + 1ul, sizeof(*r->keeper->segments));
	if (!r->keeper->segments)
		return tarn_fail(ENOMEM, "out of memory");
	for (int list = 0; list < LISTS; list++)
		for (uint32_t i = 0; i < lists[list].n && e == 0; i++)
			e = readers[list](r);
	if (e == 0 && r->at != r->end)
		e = tarn_fail(EPROTO, "state: %td bytes follow its end",
			r->end - r->at);
	return e;
}

static int read_head(struct reading *r)
{
	struct state_head *head = &r->head;
	struct keeper *keeper = r->keeper;
	size_t left = (size_t)(r->end - r->at);

	memcpy(head, r->at, MIN(left, sizeof(*head)));
	if (left < offsetof(struct state_head, lists) ||
		head->magic != STATE_MAGIC || head->version != STATE_VERSION ||
		head->size > left ||
		head->size < offsetof(struct state_head, rest))
		return tarn_fail(EPROTO,
			"state: version %u in %u bytes of %zu; this one knows "
			"version %u",
			head->version, head->size, left, STATE_VERSION);
	/* What the writer's is longer by is none of our business. */
	if (head->size < sizeof(*head))
		memset((char *)head + head->size, 0,
			sizeof(*head) - head->size);
	r->at += head->size;
	head->rest.socket[sizeof(head->rest.socket) - 1] = '\0';
	keeper->instance = head->instance;
	keeper->budget = head->budget;
	keeper->reach = head->reach;
	keeper->began_at = head->began_at;
	keeper->next_client = head->next_client;
	keeper->next_segment = head->next_segment;
	keeper->last_loader = head->last_loader;
	keeper->restarts = head->restarts;
	keeper->ended = head->ended;
	keeper->upgrades = head->upgrades;
	return 0;
}

int keeper_state_read(int fd, struct keeper *keeper, struct keeper_rest *ret)
{
	struct reading r = {.keeper = keeper};
	struct stat st;
	void *map;
	int e;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return tarn_fail(
			EPROTO, "descriptor %d is no keeper's state", fd);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return tarn_fail(errno, "state: %s", tarn_errno_text(errno));
	r.at = map;
	r.end = r.at + st.st_size;
	e = read_head(&r);
	if (e == 0)
		e = read_lists(&r);
	if (e == 0)
		e = check_open(r.head.rest.door.listen_fd, "the door");
	if (e == 0)
		e = check_open(r.head.rest.door.lock_fd, "its lock");
	munmap(map, (size_t)st.st_size);
	*ret = r.head.rest;
	return e;
}

/* ---- descriptors ------------------------------------------------------ */

static void inherit(int fd, bool survive)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, survive ? 0 : FD_CLOEXEC);
}

static void inherit_kept(void *arg, const struct kept *kept)
{
	inherit(kept->fd, *(bool *)arg);
}

void keeper_state_inherit(struct keeper *keeper, bool survive)
{
	struct door_parts door = door_parts(keeper->door);
	struct keeper_client *client = NULL;

	inherit(door.listen_fd, survive);
	inherit(door.lock_fd, survive);
	for (uint32_t i = 0; i < keeper->n_rules; i++)
		inherit(MAX(keeper->rules[i].ro_fd, keeper->rules[i].rw_fd),
			survive);
	for (uint32_t i = 0; i < keeper->n_segments; i++)
		inherit(keeper->segments[i].fd, survive);
	while ((client = keeper_client_next(keeper, client))) {
		inherit(client->socket, survive);
		inherit(client->lease_fd, survive);
	}
	for (const struct keeper_loader *l = keeper->loaders; l; l = l->next)
		inherit(l->pipe_fd, survive);
	kept_each(&keeper->kept, inherit_kept, &survive);
}
