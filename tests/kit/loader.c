/* SPDX-License-Identifier: MIT */
/* The loader's keeper and server, as far as tests need them. */
#include "tests/kit/loader.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/io/io.h"
#include "tests/kit/tap.h"

static const uint64_t sizes[KIT_SEGMENTS] = {2 << 20, 1 << 20, 48 << 20};

bool kit_loader_engine(const char *kind)
{
	struct tarn_io *io = NULL;
	int r;

	setenv("TARN_ENGINE", kind, 1);
	r = tarn_io_new(-1, &io);
	tarn_io_free(io);
	return r >= 0;
}

static void map_segments(struct kit *kit)
{
	uint64_t offset = KIT_FIRST;

	for (int i = 0; i < KIT_SEGMENTS; i++) {
		int fd = memfd_create("tarn-test", MFD_CLOEXEC);
		void *addr;

		if (fd < 0 || ftruncate(fd, (off_t)sizes[i]) < 0)
			bail("memfd: %m");
		addr = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE, MAP_SHARED,
			fd, 0);
		if (addr == MAP_FAILED)
			bail("mmap: %m");
		close(fd);
		kit->segments[i] = (struct mapped_segment) {
			.number = (uint32_t)i,
			.offset = offset,
			.size = sizes[i],
			.addr = addr,
		};
		offset += sizes[i];
	}
}

void kit_loader_start(struct kit *kit)
{
	int socks[2], pipes[2];

	memset(kit, 0, sizeof(*kit));
	map_segments(kit);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0 ||
		pipe2(pipes, O_CLOEXEC) < 0)
		bail("socketpair, pipe: %m");
	fflush(stdout);
	kit->pid = fork();
	if (kit->pid < 0)
		bail("fork: %m");
	if (kit->pid == 0) {
		close(socks[0]);
		close(pipes[0]);
		_exit(loader_run(
			socks[1], pipes[1], kit->segments, KIT_SEGMENTS));
	}
	close(socks[1]);
	close(pipes[1]);
	kit->sock = socks[0];
	kit->pipe = pipes[0];
}

int kit_loader_stop(struct kit *kit)
{
	struct pollfd wait = {.fd = kit->pipe, .events = POLLIN};
	int status = 0;
	char c;

	kit->sock = fd_close(kit->sock);
	waitpid(kit->pid, &status, 0);
	if (poll(&wait, 1, 60000) != 1 || read(kit->pipe, &c, 1) != 0)
		ok(false, "the pipe ends with the loader");
	close(kit->pipe);
	for (int i = 0; i < KIT_SEGMENTS; i++)
		munmap(kit->segments[i].addr, kit->segments[i].size);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- memory ---------------------------------------------------------- */

/* The byte of a file at that place: no period that a page or a request has. */
static unsigned char byte_of(uint64_t at)
{
	return (unsigned char)((at * 0x9e3779b97f4a7c15ull) >> 56);
}

void kit_loader_wipe(struct kit *kit)
{
	for (int i = 0; i < KIT_SEGMENTS; i++)
		memset(kit->segments[i].addr, KIT_CANARY,
			kit->segments[i].size);
}

unsigned char kit_loader_byte(const struct kit *kit, uint64_t pool_offset)
{
	for (int i = 0; i < KIT_SEGMENTS; i++) {
		const struct mapped_segment *s = &kit->segments[i];

		if (pool_offset - s->offset < s->size)
			return ((unsigned char *)
					s->addr)[pool_offset - s->offset];
	}
	bail("pool offset %llu", (unsigned long long)pool_offset);
}

bool kit_loader_untouched_outside(
	const struct kit *kit, uint64_t from, uint64_t to)
{
	for (uint64_t at = KIT_FIRST; at < KIT_FIRST + KIT_SIZE; at++) {
		if (at == from && from < to)
			at = to;
		if (at < KIT_FIRST + KIT_SIZE &&
			kit_loader_byte(kit, at) != KIT_CANARY) {
			diag("byte %llu of the pool was written",
				(unsigned long long)at);
			return false;
		}
	}
	return true;
}

bool kit_loader_holds(const struct kit *kit, uint64_t pool_offset,
	uint64_t size, uint64_t file_offset)
{
	for (uint64_t i = 0; i < size; i++)
		if (kit_loader_byte(kit, pool_offset + i) !=
			byte_of(file_offset + i)) {
			diag("byte %llu of %llu is wrong",
				(unsigned long long)i,
				(unsigned long long)size);
			return false;
		}
	return true;
}

uint64_t kit_loader_hash(const struct kit *kit)
{
	uint64_t hash = 0, word;

	for (int i = 0; i < KIT_SEGMENTS; i++)
		for (uint64_t at = 0; at < sizes[i]; at += sizeof(word)) {
			memcpy(&word, (char *)kit->segments[i].addr + at,
				sizeof(word));
			hash = (hash ^ word) * 0x100000001b3ull;
		}
	return hash;
}

/* ---- files ----------------------------------------------------------- */

const char *kit_loader_file(const char *name, uint64_t size)
{
	static char path[4200];
	unsigned char *bytes = malloc(size + 1);
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (!bytes || fd < 0)
		bail("%s: %m", path);
	for (uint64_t i = 0; i < size; i++)
		bytes[i] = byte_of(i);
	if (fd_write_all(fd, bytes, size) < 0)
		bail("%s: write", path);
	/* Direct reads find what was written. */
	fsync(fd);
	close(fd);
	free(bytes);
	return path;
}

int kit_loader_open_direct(const char *path)
{
	return open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
}

void kit_loader_clean(void)
{
	char command[4300];

	snprintf(command, sizeof(command), "rm -rf '%s'", test_tmpdir());
	if (system(command))
		diag("%s is left behind", test_tmpdir());
}

/* ---- questions ------------------------------------------------------- */

static void must_send(struct kit *kit, int type, const void *body, size_t size,
	const int *fds, int n_fds)
{
	if (wire_send(kit->sock, WIRE_OUT_FDS((uint16_t)type, 0, body, size,
					 fds, n_fds)) < 0)
		bail("send: %s", tarn_fail_message());
}

static void keep_failed(struct kit *kit, const struct wire_message *message)
{
	struct msg_failed head;

	memcpy(&head, message->body, sizeof(head));
	kit->error = head.error;
	snprintf(kit->text, sizeof(kit->text), "%.*s",
		(int)(message->size - sizeof(head)),
		(const char *)message->body + sizeof(head));
}

int kit_loader_answer(struct kit *kit, uint64_t *ret_job)
{
	struct pollfd wait = {.fd = kit->sock, .events = POLLIN};
	struct wire_message message;
	struct msg_progress progress;
	int type, r;

	kit->n_progress = 0;
	for (;;) {
		if (poll(&wait, 1, 60000) != 1)
			bail("the loader does not answer");
		r = wire_receive(kit->sock, NULL, &message);
		if (r != 1)
			return r;
		type = message.type;
		memcpy(ret_job, message.body, sizeof(*ret_job));
		if (type == L_PROGRESS) {
			memcpy(&progress, message.body, sizeof(progress));
			kit->progress = progress.bytes;
			kit->n_progress++;
		} else if (type == L_FAILED) {
			keep_failed(kit, &message);
		} else if (type == L_DONE) {
			memcpy(&kit->filled, message.body, sizeof(kit->filled));
		} else if (type == L_IDENTITY) {
			memcpy(&kit->identity, message.body,
				sizeof(kit->identity));
		}
		wire_message_clear(&message);
		if (type != L_PROGRESS)
			return type;
	}
}

static int answer_about(struct kit *kit, uint64_t job)
{
	uint64_t of = 0;
	int type = kit_loader_answer(kit, &of);

	if (of != job)
		bail("job %llu was asked for, %llu answered",
			(unsigned long long)job, (unsigned long long)of);
	return type;
}

int kit_loader_identify(struct kit *kit, uint64_t job, int fd, int direct)
{
	struct msg_file body = {.job = job, .seen = kit->seen};
	int fds[2] = {fd, direct}, n = (fd >= 0) + (fd >= 0 && direct >= 0);

	must_send(kit, L_FILE, &body, sizeof(body), fds, n);
	return answer_about(kit, job);
}

int kit_loader_identify_copy(
	struct kit *kit, uint64_t job, uint64_t offset, uint64_t size)
{
	struct msg_file body = {
		.job = job, .copy_offset = offset, .copy_size = size};

	must_send(kit, L_FILE, &body, sizeof(body), NULL, 0);
	return answer_about(kit, job);
}

void kit_loader_send_fill(struct kit *kit, uint64_t job, uint64_t alloc_offset,
	uint64_t alloc_size, const struct msg_fill_range *ranges, uint32_t n)
{
	struct {
		struct msg_fill head;
		struct msg_fill_range ranges[LOAD_RANGES_MAX + 1];
	} body = {.head = {.job = job,
			  .alloc_offset = alloc_offset,
			  .alloc_size = alloc_size,
			  .n_ranges = n}};

	if (n)
		memcpy(body.ranges, ranges, n * sizeof(*ranges));
	must_send(kit, L_FILL, &body, sizeof(body.head) + n * sizeof(*ranges),
		NULL, 0);
}

void kit_loader_send_drop(struct kit *kit, uint64_t job)
{
	struct msg_job body = {.job = job};

	must_send(kit, L_DROP, &body, sizeof(body), NULL, 0);
}

int kit_loader_forget(struct kit *kit, uint32_t segment)
{
	struct msg_forget body = {.number = segment};
	uint64_t of = 0;

	must_send(kit, L_FORGET, &body, sizeof(body), NULL, 0);
	return kit_loader_answer(kit, &of);
}

int kit_loader_fill(struct kit *kit, uint64_t job, uint64_t alloc_offset,
	uint64_t alloc_size, const struct msg_fill_range *ranges, uint32_t n)
{
	uint64_t of = 0;
	int type;

	kit_loader_send_fill(kit, job, alloc_offset, alloc_size, ranges, n);
	type = kit_loader_answer(kit, &of);
	if (type > 0 && of != job)
		bail("job %llu was to be filled, %llu answered",
			(unsigned long long)job, (unsigned long long)of);
	return type;
}
