/* SPDX-License-Identifier: MIT */
/* See parcel.h. */
#include "tests/parcel.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/tap.h"

#define MIB (1ull << 20)

void parcel_source(struct parcel *p, enum source_kind kind, uint64_t size)
{
	p->sources[p->n_sources++] =
		(struct msg_source) {.kind = kind, .size = size};
	p->head.n_sources++;
}

void parcel_name(struct parcel *p, const char *name, uint32_t source,
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

void parcel_fd(struct parcel *p, int fd)
{
	p->fds[p->n_fds++] = fd;
}

struct parcel parcel_of(
	enum source_kind kind, uint64_t size, int fd, const char *name)
{
	struct parcel p = {0};

	parcel_source(&p, kind, size);
	parcel_name(&p, name, 0, 0, (int64_t)size, 1);
	parcel_fd(&p, fd);
	return p;
}

size_t parcel_write(const struct parcel *p, unsigned char *body)
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

int parcel_answer(const struct parcel *p, struct raw *raw)
{
	static unsigned char body[PARCEL_MAX];

	raw->error = 0;
	raw->text[0] = '\0';
	raw_say(raw, WIRE_PUBLISH, body, parcel_write(p, body), p->fds,
		p->n_fds);
	return raw_answer(raw);
}

void parcel_say_many(struct raw *raw, int number)
{
	static unsigned char body[PARCEL_MAX];
	struct parcel p = {.n_sources = 0};

	for (uint32_t i = 0; i < WIRE_FDS_MAX; i++) {
		int fd = memfd_create("one", MFD_CLOEXEC);
		char name[32];

		snprintf(name, sizeof(name), "many/%d/%u", number, i);
		if (fd < 0 || ftruncate(fd, MIB) < 0)
			bail("a memfd: %m");
		parcel_source(&p, SOURCE_COPY, MIB);
		parcel_name(&p, name, i, 0, MIB, 1);
		parcel_fd(&p, fd);
	}
	raw_say(raw, WIRE_PUBLISH, body, parcel_write(&p, body), p.fds,
		p.n_fds);
	for (int i = 0; i < p.n_fds; i++)
		close(p.fds[i]);
}
