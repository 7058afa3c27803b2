/* SPDX-License-Identifier: MIT */
/*
 * Any messages of clients to a whole server: datagrams go through a socket to
 * the server's receiving code, and all that they request is done. Afterwards
 * the server's accounts are right; when the clients have gone nothing of
 * theirs is left, and no descriptor is open.
 *
 * An input is a list of acts. The first byte of each says what (bits 0 to 2),
 * by which client (bit 3) and with which descriptors (bits 4 to 7), or which
 * kind of it. A message's header and body follow; its length is put right, and
 * a long body laid into a memfd, but for SEND_RAW.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/wire_channel.h"
#include "tests/fuzz/wire_server.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "wire";

enum act {
	SEND,      /* a message, and wait for what comes of it */
	SEND_TOO,  /* the same: it is what matters */
	SEND_MORE, /* a message, and go on at once */
	SEND_RAW,  /* one that may lie about itself */
	LEASE,     /* a storage: 1 byte of index */
	RELEASE,   /* the last lease */
	POKE,      /* 0 to 7: any 8 bytes as a lease; else into a channel */
	HANG_UP,   /* 0 to 8; else an event */
};

/* Of POKE: 8 to 14 are the parts of a channel. */
#define POKE_CHANNEL 8u
#define CALL_CHANNEL 15u
static_assert(POKE_CHANNEL + RING_PARTS == CALL_CHANNEL, "bits 4 to 7");

/* ---- descriptors --------------------------------------------------------- */

static int memory(off_t size, int seals)
{
	int fd = memfd_create("a client's", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, size) < 0 || fchmod(fd, 0600) < 0 ||
		(seals && fcntl(fd, F_ADD_SEALS, seals) < 0))
		bail("a memfd: %m");
	return fd;
}

static int path_of_memory(void)
{
	_cleanup_fd_ int fd = memory(8192, 0);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_PATH | O_CLOEXEC);
}

static int open_pipe(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		bail("a pipe: %m");
	close(fds[1]);
	return fds[0];
}

/* The first are none at all. */
static int open_fds(unsigned kind, int *fds)
{
	int n = 0;

	switch (kind) {
	case 4:
	case 5:
	case 6:
	case 7: /* what others have mapped, and go on writing */
		fds[n] = peer_channel_new(kind % CHANNEL_KINDS);
		n += fds[n] >= 0;
		break;
	case 8:
	case 9: /* a file, and the same for direct reading */
		for (unsigned i = 8; i <= kind; i++)
			fds[n++] = memory(1 << 20, 0);
		break;
	case 10: /* large and whole enough to be kept as it is */
		fds[n++] = memory(2 << 20, 0);
		if (posix_fallocate(fds[0], 0, 2 << 20))
			bail("a memfd: there is no memory");
		break;
	case 11:
		fds[n++] = memory(4096, F_SEAL_SHRINK | F_SEAL_GROW);
		break;
	case 12:
		fds[n++] = memory(8192, F_SEAL_WRITE | F_SEAL_SEAL);
		break;
	case 13:
		fds[n++] = path_of_memory();
		break;
	case 14:
		fds[n++] = open_pipe();
		break;
	case 15:
		for (int i = 0; i < 3; i++)
			fds[n++] = memory(8192, 0);
		break;
	}
	return n;
}

/* As a client lays down a long one. */
static int body_of(const void *bytes, size_t size)
{
	int fd = memory((off_t)size, 0);

	if (pwrite(fd, bytes, size, 0) != (ssize_t)size ||
		fcntl(fd, F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		bail("a body: %m");
	return fd;
}

/* ---- acts ---------------------------------------------------------------- */

static void send_frame(
	struct input *in, struct peer *peer, enum act act, unsigned kind)
{
	static struct {
		struct wire_header head;
		uint8_t body[WIRE_FRAME_MAX];
	} frame;
	int fds[5], n_fds;
	size_t size;

	if (!input_take(in, &frame.head, sizeof(frame.head)))
		return;
	size = MIN(frame.head.size, (size_t)(in->end - in->at));
	size = MIN(size, sizeof(frame.body));
	input_take(in, frame.body, size);
	if (act != SEND_RAW) {
		frame.head.magic = WIRE_MAGIC;
		frame.head.flags &= WIRE_LONG | WIRE_AGAIN;
		frame.head.size = (uint32_t)size;
	}
	n_fds = open_fds(kind, fds);
	if (act != SEND_RAW && frame.head.flags & WIRE_LONG) {
		fds[n_fds++] = body_of(frame.body, size);
		size = 0;
	}
	peer_send(peer, &frame, sizeof(frame.head) + size, fds, n_fds);
	while (n_fds > 0)
		close(fds[--n_fds]);
	if (act == SEND || act == SEND_TOO)
		server_settle();
}

/* As a client does: of what the table shows. */
static void lease(struct input *in, struct peer *peer)
{
	const struct table *table = peer_table(peer);
	uint32_t n = table ? table->header->n_storages : 0;
	uint8_t which;
	uint64_t word;

	if (!input_take(in, &which, 1) || !n || peer->n_slots == PEER_SLOTS)
		return;
	word = atomic_load(&table->storages[which % n].word);
	if (lease_acquire(peer->page, table, which % n,
		    storage_word_generation(word), peer->n_slots) < 0)
		return;
	/* A load that fails leaves nothing to be held. */
	if (storage_word_state(word) != STORAGE_FILLING)
		peer->honest[peer->n_slots] =
			atomic_load(&peer->page->slots[peer->n_slots]);
	peer->n_slots++;
}

static void release(struct peer *peer)
{
	const struct table *table = peer_table(peer);
	uint64_t word;

	if (!table || !peer->n_slots)
		return;
	word = atomic_load(&peer->page->slots[--peer->n_slots]);
	peer->honest[peer->n_slots] = 0;
	/* What was poked may mean no storage at all. */
	if (lease_index(word) >= table->header->n_storages)
		return atomic_store(&peer->page->slots[peer->n_slots], 0);
	if (lease_release(peer->page, table, peer->n_slots))
		peer_send_released(peer, word);
}

static void poke(struct input *in, struct peer *peer)
{
	uint64_t word;

	if (!input_take(in, &word, sizeof(word)) || !peer_table(peer) ||
		peer->n_slots == PEER_SLOTS)
		return;
	atomic_store(&peer->page->used, peer->n_slots + 1);
	atomic_store(&peer->page->slots[peer->n_slots++], word);
}

static bool do_act(struct input *in)
{
	struct peer *peer;
	enum act act;
	uint8_t byte;

	if (!input_take(in, &byte, 1))
		return false;
	peer = &peers[byte >> 3 & 1];
	act = byte & 7;
	switch (act) {
	case LEASE:
		lease(in, peer);
		break;
	case RELEASE:
		release(peer);
		break;
	case POKE:
		if (byte >> 4 == CALL_CHANNEL)
			peer_channel_call(in, peer);
		else if (byte >> 4 >= POKE_CHANNEL)
			peer_channel_poke(in, (byte >> 4) - POKE_CHANNEL);
		else
			poke(in, peer);
		break;
	case HANG_UP:
		if (byte >> 4 >= 16 - EVENTS)
			server_suffer(15 - (byte >> 4));
		else
			peer_hang_up(peer);
		break;
	default:
		send_frame(in, peer, act, byte >> 4);
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = {bytes, bytes + size};

	server_begin();
	while (do_act(&in))
		;
	server_end();
	return 0;
}
