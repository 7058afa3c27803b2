/* SPDX-License-Identifier: MIT */
/* See fake_daemon.h. The table is written by hand: no name is needed here. */
#include "tests/kit/fake_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/segment.h"
#include "tests/kit/tap.h"

#define PATIENCE_S 60.0

static void must(int r, const char *what)
{
	if (r < 0)
		bail("fake daemon: %s: %s", what, tarn_fail_message());
}

/* ---- its memory ------------------------------------------------------ */

static void add_segment(struct fake *fake, uint32_t i)
{
	void *map;
	int fd, r;

	must(segment_create("tarn-fake", FAKE_SEGMENT, 12, &fd), "segment");
	must(segment_map_rw(fd, FAKE_SEGMENT, &map), "map");
	if (fake->mode == FAKE_SEALED_SIZE || fake->mode == FAKE_REGISTER)
		must(segment_seal_register(fd), "seal");
	else if (fake->mode != FAKE_UNSEALED)
		must(segment_seal(fd), "seal");
	r = segment_reopen(fd, &fake->segment_fds[i]);
	must(r, "reopen");
	fd_close(fd);
	fake->memory[i] = map;
	for (uint32_t k = 0; k < FAKE_SEGMENT; k++)
		fake->memory[i][k] = (unsigned char)(k * 7 + i);
	fake->table.segments[i].pool = 5;
	fake->table.segments[i].offset = (uint64_t)i * FAKE_SEGMENT;
	fake->table.segments[i].size = FAKE_SEGMENT;
	fake->table.segments[i].word = segment_word(i + 1, SEGMENT_READY);
}

static void add_storage(
	struct fake *fake, uint32_t i, uint64_t base, uint64_t size)
{
	struct table_storage *s = &fake->table.storages[i];

	s->pool = 5;
	s->base = base;
	s->size = size;
	s->word = storage_word(FAKE_GENERATION, STORAGE_LIVE);
}

static void fill_table(struct fake *fake)
{
	uint64_t instance = FAKE_INSTANCE;

	if (fake->mode == FAKE_OTHER_TABLE)
		instance++;
	fake->table_fd = memfd_create(
		"tarn-fake-table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fake->table_fd < 0)
		bail("memfd_create: %s", strerror(errno));
	must(table_create(fake->table_fd, instance, 1, 0, (uint32_t)geteuid(),
		     &fake->table),
		"table");
	if (fake->mode != FAKE_OPEN_TABLE)
		must(segment_seal_size(fake->table_fd), "seal");
	fake->table.pools[0].id = 5;
	fake->table.pools[0].page_shift = 12;
	fake->table.pools[0].reach = FAKE_REACH;
	if (fake->mode == FAKE_REGISTER)
		fake->table.pools[0].flags = TABLE_POOL_REGISTER;
	if (fake->mode == FAKE_BAD_POOL)
		fake->table.pools[0].reach = UINT64_MAX - 4095;
	for (uint32_t i = 0; i < FAKE_SEGMENTS; i++)
		add_segment(fake, i);
	if (fake->mode == FAKE_BAD_SEGMENT)
		fake->table.segments[1].offset = FAKE_REACH - 4096;
	add_storage(fake, FAKE_SMALL, 4096, 4096);
	add_storage(fake, FAKE_WIDE, FAKE_WIDE_BASE, FAKE_WIDE_SIZE);
	add_storage(fake, FAKE_EMPTY, 0, 0);
	fake->table.header->n_storages = 4;
	fake->table.header->n_pools = 1;
	fake->table.header->n_segments = FAKE_SEGMENTS;
}

/* ---- its answers ----------------------------------------------------- */

static void refuse(struct fake *fake, uint32_t serial, int error)
{
	unsigned char body[64] = {0};
	struct msg_error head = {.error = error};
	static const char text[] = "the fake says no";

	memcpy(body, &head, sizeof(head));
	memcpy(body + sizeof(head), text, sizeof(text) - 1);
	wire_send(fake->sock, WIRE_OUT(WIRE_ERROR, serial, body,
				      sizeof(head) + sizeof(text) - 1));
}

static int welcome(struct fake *fake, uint32_t serial)
{
	struct msg_welcome m = {
		.version = fake->mode == FAKE_WRONG_VERSION ? 99
							    : PROTOCOL_VERSION,
		.instance = FAKE_INSTANCE,
	};
	int fds[2] = {fake->table_fd, fake->lease_fd};
	char garbage[200];

	switch (fake->mode) {
	case FAKE_REFUSES:
		refuse(fake, serial, EACCES);
		return 0;
	case FAKE_GARBAGE:
		memset(garbage, 'x', sizeof(garbage));
		send(fake->sock, garbage, sizeof(garbage), MSG_NOSIGNAL);
		return 0;
	case FAKE_OTHER_TYPE:
		wire_send(fake->sock,
			WIRE_OUT(WIRE_HELLO, serial, &m, sizeof(m)));
		return 0;
	case FAKE_SHORT:
		wire_send(fake->sock,
			WIRE_OUT_FDS(WIRE_WELCOME, serial, &m, 4, fds, 2));
		return 0;
	case FAKE_HANGS:
		return 0;
	case FAKE_DIES:
		return -1;
	case FAKE_WRONG_FDS:
		fds[0] = fds[1] = fake->segment_fds[0];
		break;
	default:
		break;
	}
	wire_send(fake->sock, WIRE_OUT_FDS(WIRE_WELCOME, serial, &m, sizeof(m),
				      fds, fake->mode == FAKE_NO_FDS ? 0 : 2));
	return 0;
}

/* Its bytes come back behind all others. */
static void use_again(struct fake *fake)
{
	struct table_segment *s = &fake->table.segments[1];

	s->word = segment_word(2, SEGMENT_DROPPED);
	s->offset = FAKE_SEGMENTS * (uint64_t)FAKE_SEGMENT;
	s->word = segment_word(3, SEGMENT_READY);
	fake->table.header->segment_changes++;
	fake->used_again = true;
}

static void give_segments(struct fake *fake, const struct wire_message *ask)
{
	struct {
		struct msg_segments head;
		uint64_t serials[FAKE_SEGMENTS];
	} m;
	bool late = fake->mode == FAKE_USES_AGAIN_LATE && !fake->used_again;
	size_t size = sizeof(m);
	int n, fds[FAKE_SEGMENTS];

	if (fake->mode == FAKE_USES_AGAIN && !fake->used_again)
		use_again(fake);
	memcpy(&m.head, ask->body, sizeof(m.head));
	m.head.first = MIN(m.head.first, FAKE_SEGMENTS);
	m.head.count = MIN(m.head.count, FAKE_SEGMENTS - m.head.first);
	for (uint32_t i = 0; i < m.head.count; i++)
		m.serials[i] =
			table_segment_serial(&fake->table, m.head.first + i);
	if (fake->mode == FAKE_WRONG_SERIAL)
		m.serials[0]++;
	if (fake->mode == FAKE_NO_SERIALS)
		size = sizeof(m.head);
	n = (int)m.head.count;
	if (fake->mode == FAKE_FEW_SEGMENTS && n)
		n--;
	memcpy(fds, fake->segment_fds, sizeof(fds));
	if (late) {
		/* It was another's memory, which went. */
		fds[1] = fds[0];
		use_again(fake);
	}
	wire_send(fake->sock, WIRE_OUT_FDS(WIRE_SEGMENT_FDS, ask->serial, &m,
				      size, fds + m.head.first, n));
}

/* The client tells its caller how far a load is, however late it is run. */
static void await_seen(struct fake *fake)
{
	double end = seconds() + PATIENCE_S;
	int before = fake->n_seen;

	while (fake->n_seen == before && seconds() < end)
		usleep(1000);
}

/* Reads the file into the third segment, congruent to its offset. */
static void really_load(struct fake *fake, struct wire_message *ask)
{
	struct msg_load head;
	struct msg_range range = {0};
	struct msg_loaded m = {.index = FAKE_LOADED,
		.pool = 5,
		.generation = FAKE_GENERATION,
		.cpu_ns = 1000000};
	struct msg_loading before = {
		.index = FAKE_LOADED, .generation = FAKE_GENERATION};
	struct table_storage *s = &fake->table.storages[FAKE_LOADED];

	memcpy(&head, ask->body, sizeof(head));
	if (head.n_ranges)
		memcpy(&range, ask->body + sizeof(head), sizeof(range));
	add_storage(fake, FAKE_LOADED,
		FAKE_LOADED_PAGE + range.file_offset % 4096, range.size);
	s->word = storage_word(FAKE_GENERATION, STORAGE_FILLING);
	before.total = range.size;
	wire_send(fake->sock,
		WIRE_OUT(WIRE_LOADING, ask->serial, &before, sizeof(before)));
	for (int i = 0; fake->mode == FAKE_LOAD_SLOWLY && i < 6; i++) {
		s->landed = range.size * (uint64_t)i / 6;
		await_seen(fake);
	}
	if (fd_pread(ask->fds[0], fake->memory[2] + s->base - 2 * FAKE_SEGMENT,
		    range.size, range.file_offset) != (ssize_t)range.size)
		return refuse(fake, ask->serial, EIO);
	s->word = storage_word(FAKE_GENERATION, STORAGE_LIVE);
	m.base = s->base;
	m.size = range.size;
	if (fake->mode == FAKE_LOAD_LIES)
		m.size += 4096;
	if (fake->mode == FAKE_LOAD_STALE)
		m.generation--;
	wire_send(
		fake->sock, WIRE_OUT(WIRE_LOADED, ask->serial, &m, sizeof(m)));
}

static int load(struct fake *fake, struct wire_message *ask)
{
	struct msg_loading m = {
		.index = FAKE_SMALL, .generation = FAKE_GENERATION};

	fake->n_loads++;
	switch (fake->mode) {
	case FAKE_LOAD_DIES:
		wire_send(fake->sock,
			WIRE_OUT(WIRE_LOADING, ask->serial, &m, sizeof(m)));
		return -1;
	case FAKE_LOAD_HANGS:
		fake->hanging_load = ask->serial;
		wire_send(fake->sock,
			WIRE_OUT(WIRE_LOADING, ask->serial, &m, sizeof(m)));
		return 0;
	case FAKE_LOAD_WORDY:
		wire_send(fake->sock,
			WIRE_OUT(WIRE_LOADING, ask->serial, fake->memory[0],
				WIRE_REPLY_MAX + 1));
		refuse(fake, ask->serial, ENOSPC);
		return 0;
	case FAKE_LOAD_FAILS:
		refuse(fake, ask->serial, ENOSPC);
		return 0;
	default:
		really_load(fake, ask);
		return 0;
	}
}

/* As another server after one that has read something and answered nothing. */
static void restart(struct fake *fake)
{
	struct msg_restarted m = {.restarts = ++fake->restarts};

	wire_send(fake->sock, WIRE_OUT(WIRE_RESTARTED, 0, &m, sizeof(m)));
}

static void resumed(struct fake *fake, const struct wire_message *m)
{
	struct msg_welcome w = {
		.version = PROTOCOL_VERSION, .instance = FAKE_INSTANCE};
	struct msg_restarted of = {0};

	memcpy(&of, m->body, MIN(m->size, sizeof(of)));
	fake->n_resumed += of.restarts == fake->restarts;
	wire_send(fake->sock, WIRE_OUT(WIRE_WELCOME, m->serial, &w, sizeof(w)));
}

static bool dies_of(struct fake *fake, const struct wire_message *m)
{
	fake->n_again += m->again;
	return (fake->mode == FAKE_REPORT_KILLS && fake->restarts < 1) ||
	       (fake->mode == FAKE_REPORT_KILLS_TWICE && fake->restarts < 2);
}

static void report(struct fake *fake, uint32_t serial)
{
	struct {
		struct msg_report_is head;
		struct tarn_report_daemon daemon;
		struct tarn_report_load load;
	} m = {
		.head = {.daemon_size = sizeof(m.daemon),
			.pool_size = sizeof(struct tarn_report_pool),
			.client_size = sizeof(struct tarn_report_client),
			.load_size = sizeof(m.load),
			.n_loads = 1},
		.daemon = {.instance = FAKE_INSTANCE,
			.engine = "fake",
			.clients = 1},
		.load = fake->reported,
	};
	int n = fake->mode == FAKE_REPORT_TWICE ? 3 : 1;

	memset(m.daemon.version, 'v', sizeof(m.daemon.version)); /* not ended */
	while (n-- > 0 && fake->mode != FAKE_REPORT_HANGS)
		wire_send(fake->sock,
			WIRE_OUT(WIRE_REPORT_IS, serial, &m,
				fake->mode == FAKE_REPORT_SHORT ? 16
								: sizeof(m)));
}

static void give_storage(struct fake *fake, uint32_t serial)
{
	if (fake->own_fd)
		wire_send(fake->sock, WIRE_OUT_FDS(WIRE_STORAGE_FD, serial,
					      NULL, 0, &fake->own_fd, 1));
	else
		refuse(fake, serial, ESTALE);
}

static void send_owner(struct fake *fake, uint32_t serial)
{
	const struct msg_channel m = {.owner = FAKE_OWNER};

	wire_send(fake->sock, WIRE_OUT(WIRE_CHANNEL_IS, serial, &m, sizeof(m)));
}

/* Negative: it leaves. */
static int answer(struct fake *fake, struct wire_message *m)
{
	switch (m->type) {
	case WIRE_HELLO:
		return welcome(fake, m->serial);
	case WIRE_SEGMENTS:
		give_segments(fake, m);
		return 0;
	case WIRE_LOAD:
		return load(fake, m);
	case WIRE_CANCEL:
		refuse(fake, fake->hanging_load, ECANCELED);
		return 0;
	case WIRE_REMOVE:
		if (m->size == 4 && memcmp(m->body, "gone", 4) == 0)
			refuse(fake, m->serial, ENOENT);
		else
			wire_send(fake->sock,
				WIRE_OUT(WIRE_DONE, m->serial, NULL, 0));
		return 0;
	case WIRE_RELEASED:
		fake->n_released++;
		return 0;
	case WIRE_PING:
		wire_send(fake->sock, WIRE_OUT(WIRE_PONG, m->serial, NULL, 0));
		return 0;
	case WIRE_REPORT:
		if (dies_of(fake, m))
			restart(fake);
		else
			report(fake, m->serial);
		return 0;
	case WIRE_RESUME:
		resumed(fake, m);
		return 0;
	case WIRE_RESENT:
		fake->n_resent++;
		return 0;
	case WIRE_STORAGE:
		give_storage(fake, m->serial);
		return 0;
	case WIRE_CHANNEL:
		send_owner(fake, m->serial);
		return 0;
	default:
		wire_send(fake->sock, WIRE_OUT(WIRE_DONE, m->serial, NULL, 0));
		return 0;
	}
}

static void *serve(void *arg)
{
	struct fake *fake = arg;
	struct wire_message m = {0};
	int r = 0;

	while (r >= 0) {
		r = wire_receive(fake->sock, NULL, &m);
		if (r == 1) {
			r = answer(fake, &m);
			wire_message_clear(&m);
		}
	}
	/* Both ways, so that a client which still sends is told. */
	shutdown(fake->sock, SHUT_RDWR);
	return NULL;
}

int fake_start(struct fake *fake, enum fake_mode mode)
{
	int ends[2];

	*fake = (struct fake) {.mode = mode};
	fill_table(fake);
	must(lease_create(&fake->lease_fd), "lease");
	must(lease_map(fake->lease_fd, &fake->page), "lease");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		bail("socketpair: %s", strerror(errno));
	fake->sock = ends[0];
	if (pthread_create(&fake->thread, NULL, serve, fake) != 0)
		bail("no thread for the fake daemon");
	return ends[1];
}

void fake_stop(struct fake *fake)
{
	shutdown(fake->sock, SHUT_RDWR);
	pthread_join(fake->thread, NULL);
	fd_close(fake->sock);
	fd_close(fake->table_fd);
	fd_close(fake->lease_fd);
	for (uint32_t i = 0; i < FAKE_SEGMENTS; i++) {
		munmap(fake->memory[i], FAKE_SEGMENT);
		fd_close(fake->segment_fds[i]);
	}
	lease_unmap(fake->page);
	table_unmap(&fake->table);
}
