/* SPDX-License-Identifier: MIT */
/*
 * A keeper holds descriptors for the next server, with a few words about each.
 * This one holds them in the same way, and passes them to the next server by
 * the functions that its messages would lead to. The regions alone are copied:
 * a killed server no longer writes to its region, but one that is freed in
 * this process does.
 */
#include "tests/fuzz/wire_keeper.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/table_check.h"
#include "tests/kit/tap.h"

#define SEGMENTS_MAX 6u

static int keeper;
static bool gives; /* memory, the next time that it is asked */

static struct {
	struct msg_domain is;
	int fd;
} domains[DOMAINS];
static uint32_t n_domains;

static struct {
	struct msg_segment is;
	bool gone;
} segments[SEGMENTS_MAX + DOMAINS];
static uint32_t n_segments;
static struct mapped_segment inherited[SEGMENTS_MAX + DOMAINS];

static struct {
	struct msg_client is;
	int sock, lease; /* -1: it has ended */
} clients[PEERS];
static uint32_t n_clients;

static struct fd_store fd_store;

static int memory_of(const char *name, off_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, size) < 0)
		bail("a memfd: %m");
	return fd;
}

/* ---- memory -------------------------------------------------------------- */

/* Offered; when the server has mapped it, it is the pool's. */
static void offer_segment(uint32_t domain)
{
	struct msg_segment segment = {.domain = domain,
		.number = n_segments,
		.offset = (uint64_t)n_segments * SEGMENT,
		.size = SEGMENT};
	_cleanup_fd_ int fd = memory_of("segment", SEGMENT);

	segments[n_segments].is = segment;
	/* Until it is mapped there. */
	segments[n_segments++].gone = true;
	gives = false;
	post_message(keeper, D_SEGMENT_MAP, &segment, sizeof(segment), &fd, 1);
}

static void give_segment(const struct msg_segment *segment)
{
	struct msg_grown grown = {.domain = segment->domain};
	_cleanup_fd_ int fd = memory_of("segment", SEGMENT);

	if (!segment->size || segment->number >= n_segments)
		bail("a segment could not be mapped");
	/* What a server begins with it has been told of already. */
	if (!segments[segment->number].gone)
		return;
	segments[segment->number].gone = false;
	post_message(keeper, D_SEGMENT, segment, sizeof(*segment), &fd, 1);
	post_message(keeper, D_GROWN, &grown, sizeof(grown), NULL, 0);
}

static void drop_segment(const struct msg_segment *segment)
{
	if (segment->number < n_segments)
		segments[segment->number].gone = true;
	post_message(
		keeper, D_SEGMENT_DROPPED, segment, sizeof(*segment), NULL, 0);
}

static void refuse_memory(uint32_t domain)
{
	static const char why[] = "there is no more";
	union {
		struct msg_grown head;
		char space[sizeof(struct msg_grown) + sizeof(why)];
	} grown = {.head = {.domain = domain, .error = ENOSPC}};

	memcpy(grown.head.text, why, strlen(why));
	post_message(keeper, D_GROWN, &grown, sizeof(grown.head) + strlen(why),
		NULL, 0);
}

void keeper_make_segment(uint32_t domain)
{
	struct wire_message m = {.n_fds = 1};
	struct msg_segment from = {
		.domain = domain, .number = n_segments, .size = SEGMENT};

	segments[n_segments++].is = from;
	m.fds[0] = memory_of("segment", SEGMENT);
	must(segment_offered(&server, &from, &m), "a segment");
	m.fds[0] = memory_of("segment", SEGMENT);
	must(segment_come(&server, &from, &m), "a segment");
	wire_message_clear(&m);
}

/* ---- regions ------------------------------------------------------- */

static void domain_begin(struct msg_domain *is, int fd)
{
	struct wire_message m = {.n_fds = 2};

	m.fds[0] = copy_of(fd);
	m.fds[1] = copy_of(fd);
	must(domain_come(&server, is, &m), "a domain");
	wire_message_clear(&m);
}

void keeper_make_domain(uint32_t number, const char *name)
{
	struct msg_domain *is = &domains[n_domains].is;
	int fd = memory_of("region", 0);
	struct table table;

	*is = (struct msg_domain) {.domain = number,
		.spec = {.mode = 0660,
			.uid = geteuid(),
			.gid = getegid(),
			.segment_max = SEGMENT}};
	strcpy(is->spec.name, name);
	must(table_create(fd, 7, 8, number, geteuid(), &table), "a region");
	table_unmap(&table);
	domains[n_domains++].fd = fd;
	domain_begin(is, fd);
}

/* What has pages of one, in another. */
static int copied(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END), at = 0, end;
	int copy = memory_of("region", size);
	static char bytes[1 << 16];

	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		end = lseek(fd, at, SEEK_HOLE);
		while (at < end) {
			size_t n = MIN(sizeof(bytes), (size_t)(end - at));

			if (pread(fd, bytes, n, at) != (ssize_t)n ||
				pwrite(copy, bytes, n, at) != (ssize_t)n)
				bail("a region: %m");
			at += (off_t)n;
		}
	}
	return copy;
}

/* ---- clients ------------------------------------------------------- */

void keeper_make_client(uint32_t number, int sock, int lease)
{
	struct msg_client is = {.number = number,
		.uid = geteuid(),
		.gid = getegid(),
		.pid = getpid()};

	clients[n_clients].is = is;
	clients[n_clients].sock = copy_of(sock);
	clients[n_clients++].lease = copy_of(lease);
	must(client_new(domain_find(&server, 0), &is, sock, lease), "a client");
}

static void about_client(uint16_t type, const struct msg_client *is)
{
	uint32_t i = (uint32_t)is->number - 1;

	if (i >= n_clients)
		bail("the keeper is told of client %u", i + 1);
	if (type == D_CLIENT_DOMAIN)
		clients[i].is.domain = is->domain;
	if (type == D_CLIENT_SPEAKS)
		clients[i].is.version = is->version;
	if (type != D_CLIENT_GONE)
		return;
	clients[i].sock = fd_close(clients[i].sock);
	clients[i].lease = fd_close(clients[i].lease);
}

/* ---- what it is told ----------------------------------------------- */

static void grow(const struct msg_grow *asked)
{
	if (gives)
		offer_segment(asked->domain);
	else
		refuse_memory(asked->domain);
}

static void answer(struct wire_message *m)
{
	const void *body = m->body;

	switch (m->type) {
	case D_GROW:
		return grow(body);
	case D_SEGMENT_MAPPED:
		return give_segment(body);
	case D_DROP_SEGMENT:
		return drop_segment(body);
	case D_LOADER:
		return loader_fork(keeper, body, n_segments);
	case D_LOADER_GONE:
		return loader_forget(((const struct msg_loader *)body)->number);
	case D_STORE_FD:
		return must(fd_store_put(&fd_store, body, wire_take_fd(m, 0)),
			"kept");
	case D_DROP_FD:
		return fd_store_drop(&fd_store, body);
	case D_CLIENT_GONE:
	case D_CLIENT_DOMAIN:
	case D_CLIENT_SPEAKS:
		return about_client(m->type, body);
	}
}

bool keeper_receive(void)
{
	struct wire_message m = {0};

	if (wire_receive(keeper, NULL, &m) != 1)
		return false;
	answer(&m);
	wire_message_clear(&m);
	return true;
}

void keeper_suffer(enum event event)
{
	if (event == KEEPER_GIVES)
		gives = n_segments < SEGMENTS_MAX;
	else
		loaders_suffer(event);
}

/* ---- one server after another ------------------------------------ */

void keeper_bury(void)
{
	while (keeper_receive())
		;
	for (uint32_t i = 0; i < n_domains; i++) {
		int fd = copied(domains[i].fd);

		close(domains[i].fd);
		domains[i].fd = fd;
	}
	/* So that what it says while it is freed is said to nobody. */
	keeper = fd_close(keeper);
}

static void inherit(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_segments; i++) {
		_cleanup_fd_ int fd = memory_of("segment", SEGMENT);
		const struct msg_segment *s = &segments[i].is;
		void *at;

		if (segments[i].gone)
			continue;
		at = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			0);
		if (at == MAP_FAILED)
			bail("a segment: %m");
		inherited[n++] = (struct mapped_segment) {
			s->domain, s->number, s->offset, s->size, at, 0};
	}
	server.start.segments = inherited;
	server.start.n_segments = n;
}

static void bring_segments(void)
{
	for (uint32_t i = 0; i < n_segments; i++) {
		struct wire_message m = {.n_fds = 1};

		if (segments[i].gone)
			continue;
		m.fds[0] = memory_of("segment", SEGMENT);
		must(segment_come(&server, &segments[i].is, &m), "a segment");
		wire_message_clear(&m);
	}
}

static void replay_fd(void *arg, const struct stored_fd *one)
{
	struct wire_message m = {.n_fds = 1, .body = (void *)&one->key};

	(void)arg;
	m.fds[0] = copy_of(one->fd);
	must(server_restore_fd(&server, &m), "what was kept");
}

static void bring_clients(void)
{
	for (uint32_t i = 0; i < n_clients; i++) {
		struct msg_client *is = &clients[i].is;

		if (clients[i].sock < 0)
			continue;
		is->flags |= CLIENT_SEEN;
		must(client_new(domain_find(&server, is->domain), is,
			     copy_of(clients[i].sock),
			     copy_of(clients[i].lease)),
			"a client");
	}
}

void keeper_bring_all(int sock)
{
	keeper = sock;
	inherit();
	for (uint32_t i = 0; i < n_domains; i++)
		domain_begin(&domains[i].is, domains[i].fd);
	bring_segments();
	loaders_bring();
	fd_store_each(&fd_store, replay_fd, NULL);
	bring_clients();
	post_message(keeper, D_TAKEN_OVER, NULL, 0, NULL, 0);
}

void keeper_begin(int sock)
{
	keeper = sock;
	loaders_begin();
	gives = false;
	n_segments = 0;
}

void keeper_end(void)
{
	fd_close(keeper);
	loaders_end();
	for (uint32_t i = 0; i < n_clients; i++) {
		fd_close(clients[i].sock);
		fd_close(clients[i].lease);
	}
	for (uint32_t i = 0; i < n_domains; i++)
		fd_close(domains[i].fd);
	fd_store_free(&fd_store);
	memset(segments, 0, sizeof(segments));
	n_clients = n_domains = 0;
}
