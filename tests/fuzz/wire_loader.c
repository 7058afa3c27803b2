/* SPDX-License-Identifier: MIT */
/*
 * A loader is a socket's end and an answer to each message, in one of a few
 * moods. It never reads the bytes: no check looks at them.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/fuzz/wire_keeper.h"
#include "tests/kit/tap.h"

#define LOADERS_MAX 8u

static enum event mood;

static struct {
	struct msg_loader is;
	int sock, pipe; /* its ends */
	int left;       /* the other end of the pipe; -1: it is gone */
} loaders[LOADERS_MAX];
static uint32_t n_loaders;

void post_message(int sock, uint16_t type, const void *body, size_t size,
	const int *fds, int n_fds)
{
	int r = wire_send(sock, WIRE_OUT_FDS(type, 0, body, size, fds, n_fds));

	if (r != -EPIPE) /* who ends a loader does not wait for its answers */
		must(r, "a message");
}

int copy_of(int fd)
{
	int copy = fd_dup(fd);

	if (copy < 0)
		bail("a descriptor: %s", strerror(-copy));
	return copy;
}

void loader_fork(
	int keeper, const struct msg_loader *asked, uint32_t n_segments)
{
	struct msg_loader is = *asked;
	int fds[2] = {-1, -1}, pipe[2];
	uint32_t i = n_loaders;

	if (i == LOADERS_MAX) { /* pid 0: there is none to be had */
		post_message(keeper, D_LOADER_IS, &is, sizeof(is), NULL, 0);
		return;
	}
	make_pair(&fds[0], &loaders[i].sock);
	if (pipe2(pipe, O_CLOEXEC) < 0)
		bail("a pipe: %m");
	fds[1] = loaders[i].left = pipe[0];
	loaders[i].pipe = pipe[1];
	n_loaders++;
	is.pid = getpid();
	is.number = n_loaders;
	is.n_segments = n_segments;
	loaders[i].is = is;
	post_message(keeper, D_LOADER_IS, &is, sizeof(is), fds, 2);
	close(fds[0]);
}

static void fill(int sock, const struct msg_fill *fill)
{
	const struct msg_fill_range *range = (const void *)(fill + 1);
	struct msg_filled filled = {.job = fill->job};

	for (uint32_t i = 0; i < fill->n_ranges; i++)
		filled.bytes += range[i].size;
	post_message(sock, L_DONE, &filled, sizeof(filled), NULL, 0);
}

static void fail(int sock, uint64_t job)
{
	static const char why[] = "the disk is broken";
	union {
		struct msg_failed head;
		char space[sizeof(struct msg_failed) + sizeof(why)];
	} failed = {.head = {.job = job, .error = EIO}};

	memcpy(failed.head.text, why, strlen(why));
	post_message(sock, L_FAILED, &failed, sizeof(failed.head) + strlen(why),
		NULL, 0);
}

static void identify(int sock, uint64_t job)
{
	struct msg_identity identity = {.job = job,
		.file = {.dev = 1,
			.ino = 2,
			.size = 1 << 20,
			.mtime = 3,
			.ctime = 4,
			.fs = 0xef53}};

	post_message(sock, L_IDENTITY, &identity, sizeof(identity), NULL, 0);
}

static void answer_as_loader(int sock, const struct wire_message *m)
{
	const struct msg_job *job = (const struct msg_job *)m->body;

	if (m->type == L_DROP || m->type == L_FORGET)
		post_message(sock, m->type == L_DROP ? L_DROPPED : L_FORGOTTEN,
			m->body, m->size, NULL, 0);
	else if (mood == LOADERS_FAIL)
		fail(sock, job->job);
	else if (mood == LOADERS_READ && m->type == L_FILE)
		identify(sock, job->job);
	else if (mood == LOADERS_READ)
		fill(sock, (const struct msg_fill *)m->body);
}

static void loader_end(uint32_t i)
{
	loaders[i].sock = fd_close(loaders[i].sock);
	loaders[i].pipe = fd_close(loaders[i].pipe);
}

void loader_forget(uint32_t number)
{
	if (number >= 1 && number <= n_loaders)
		loaders[number - 1].left = fd_close(loaders[number - 1].left);
}

static bool receive_as_loader(uint32_t i)
{
	struct wire_message m = {0};
	int r;

	if (loaders[i].sock < 0)
		return false;
	r = wire_receive(loaders[i].sock, NULL, &m);
	if (r == -EAGAIN)
		return false;
	if (r == 1)
		answer_as_loader(loaders[i].sock, &m);
	else /* it was told to go */
		loader_end(i);
	wire_message_clear(&m);
	return true;
}

bool loaders_receive(void)
{
	bool moved = false;

	for (uint32_t i = 0; i < n_loaders; i++)
		moved |= receive_as_loader(i);
	return moved;
}

void loaders_suffer(enum event event)
{
	if (event != LOADERS_DIE)
		mood = event;
	else
		for (uint32_t i = 0; i < n_loaders; i++)
			loader_end(i);
}

void loaders_bring(void)
{
	for (uint32_t i = 0; i < n_loaders; i++)
		if (loaders[i].left >= 0)
			must(loader_left(
				     domain_find(&server, loaders[i].is.domain),
				     &loaders[i].is, copy_of(loaders[i].left)),
				"a loader");
}

void loaders_begin(void)
{
	mood = LOADERS_READ;
}

void loaders_end(void)
{
	for (; n_loaders > 0; n_loaders--) {
		loader_end(n_loaders - 1);
		fd_close(loaders[n_loaders - 1].left);
	}
}
