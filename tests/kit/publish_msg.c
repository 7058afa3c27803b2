/* SPDX-License-Identifier: MIT */
/* See publish_msg.h. */
#include "tests/kit/publish_msg.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/tap.h"

#define MIB (1ull << 20)

void publish_msg_source(
	struct publish_msg *p, enum source_kind kind, uint64_t size)
{
	p->sources[p->n_sources++] =
		(struct msg_source) {.kind = kind, .size = size};
	p->head.n_sources++;
}

void publish_msg_name(struct publish_msg *p, const char *name, uint32_t source,
	uint64_t base, int64_t size, int64_t stride)
{
	struct msg_name message = {
		.name_size = (uint16_t)strlen(name),
		.dtype = TARN_U8,
		.ndim = 1,
		.storage = source,
		.base = base,
	};
	unsigned char *at = p->names + p->names_size;

	memcpy(at, &message, sizeof(message));
	memcpy(at + sizeof(message), &size, 8);
	memcpy(at + sizeof(message) + 8, &stride, 8);
	memcpy(at + sizeof(message) + 16, name, strlen(name));
	p->names_size += sizeof(message) + 16 + ((strlen(name) + 7) & ~7ul);
	p->head.n_names++;
}

void publish_msg_fd(struct publish_msg *p, int fd)
{
	p->fds[p->n_fds++] = fd;
}

struct publish_msg publish_msg_of(
	enum source_kind kind, uint64_t size, int fd, const char *name)
{
	struct publish_msg p = {0};

	publish_msg_source(&p, kind, size);
	publish_msg_name(&p, name, 0, 0, (int64_t)size, 1);
	publish_msg_fd(&p, fd);
	return p;
}

size_t publish_msg_write(const struct publish_msg *p, unsigned char *body)
{
	size_t n = 0;

	memcpy(body, &p->head, sizeof(p->head));
	n += sizeof(p->head);
	memcpy(body + n, p->sources, p->n_sources * sizeof(*p->sources));
	n += p->n_sources * sizeof(*p->sources);
	memcpy(body + n, p->names, p->names_size);
	n += p->names_size;
	memcpy(body + n, p->prefix, p->prefix_size);
	n += p->prefix_size;
	memcpy(body + n, p->bytes, p->n_bytes);
	return n + p->n_bytes;
}

void publish_msg_send(const struct publish_msg *p, struct raw *raw)
{
	static unsigned char body[PUBLISH_MSG_MAX];

	raw_send(raw, WIRE_PUBLISH, body, publish_msg_write(p, body), p->fds,
		p->n_fds);
}

int publish_msg_answer(const struct publish_msg *p, struct raw *raw)
{
	raw->error = 0;
	raw->text[0] = '\0';
	publish_msg_send(p, raw);
	return raw_answer(raw);
}

void publish_msg_seal(int fd, enum source_kind kind)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	if (kind == SOURCE_ADOPT)
		seals |= F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
	if (fcntl(fd, F_ADD_SEALS, seals) < 0)
		bail("sealing a memfd: %m");
}

void publish_msg_send_many(struct raw *raw, int number)
{
	static unsigned char body[PUBLISH_MSG_MAX];
	struct publish_msg p = {.n_sources = 0};

	for (uint32_t i = 0; i < WIRE_FDS_MAX; i++) {
		int fd = memfd_create("one", MFD_CLOEXEC);
		char name[32];

		snprintf(name, sizeof(name), "many/%d/%u", number, i);
		if (fd < 0 || ftruncate(fd, MIB) < 0)
			bail("a memfd: %m");
		publish_msg_source(&p, SOURCE_COPY, MIB);
		publish_msg_name(&p, name, i, 0, MIB, 1);
		publish_msg_fd(&p, fd);
	}
	raw_send(raw, WIRE_PUBLISH, body, publish_msg_write(&p, body), p.fds,
		p.n_fds);
	for (int i = 0; i < p.n_fds; i++)
		close(p.fds[i]);
}

static unsigned char *put(unsigned char *at, const void *p, size_t size)
{
	memcpy(at, p, size);
	return at + size;
}

void publish_msg_send_waiting(struct raw *raw, size_t bytes)
{
	enum { EACH = sizeof(struct msg_name) + 16 + 16 };
	const struct msg_source source = {.kind = SOURCE_COPY, .size = 2 * MIB};
	const struct msg_publish head = {.n_sources = WIRE_FDS_MAX,
		.n_names = (uint32_t)(bytes - WIRE_FDS_MAX * sizeof(source) -
				      sizeof(head)) /
			   EACH};
	const int64_t shape_and_stride[2] = {8, 1};
	unsigned char *body = malloc(bytes + 4096), *at = body;
	int fds[WIRE_FDS_MAX], fd = memfd_create("waiting", MFD_CLOEXEC);

	if (!body || fd < 0 || ftruncate(fd, 2 * MIB) < 0)
		bail("a memfd: %m");
	at = put(at, &head, sizeof(head));
	for (int i = 0; i < WIRE_FDS_MAX; i++) {
		at = put(at, &source, sizeof(source));
		fds[i] = fd;
	}
	for (uint32_t i = 0; i < head.n_names; i++) {
		const struct msg_name name = {.name_size = 16,
			.dtype = TARN_U8,
			.ndim = 1,
			.storage = i % WIRE_FDS_MAX};
		char text[17];

		snprintf(text, sizeof(text), "waiting/%08u", i % 100000000);
		at = put(at, &name, sizeof(name));
		at = put(at, shape_and_stride, sizeof(shape_and_stride));
		at = put(at, text, 16);
	}
	if (raw_send(raw, WIRE_PUBLISH, body, (size_t)(at - body), fds,
		    WIRE_FDS_MAX) < 0)
		bail("a publication cannot be sent");
	close(fd);
	free(body);
}
