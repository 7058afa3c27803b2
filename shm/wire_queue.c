/* SPDX-License-Identifier: MIT */
/*
 * Frames that wait until a socket takes them, for who must not block.
 *
 * The idea: push cuts a message into frames and copies everything, so that
 * the caller keeps nothing alive; either all frames of a message are queued
 * or none is. A peer that does not read fills its own queue and no other.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/wire_frame.h"

struct queued {
	struct queued *next;
	bool first;  /* of its message */
	bool answer; /* counted by itself */
	int fds[WIRE_FDS_MAX];
	int n_fds;
	struct wire_header header;
	unsigned char body[];
};

struct wire_writer {
	struct queued *first;
	struct queued **end;
	size_t bytes; /* of headers and bodies queued */
	size_t limit;
	size_t answer_bytes; /* not among those */
	size_t answer_limit; /* 0: they are */
	size_t n_fds;        /* that are queued */
	size_t fds_limit;
	wire_close_fn close;
	void *close_arg;
};

static void close_plainly(void *arg, int fd)
{
	fd_close(fd);
}

int wire_writer_new(size_t limit, struct wire_writer **ret)
{
	struct wire_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return tarn_fail(ENOMEM, "no memory for a message queue");
	writer->end = &writer->first;
	writer->limit = limit;
	writer->fds_limit = SIZE_MAX;
	writer->close = close_plainly;
	*ret = writer;
	return 0;
}

void wire_writer_set_close(
	struct wire_writer *writer, wire_close_fn fn, void *arg)
{
	writer->close = fn;
	writer->close_arg = arg;
}

void wire_writer_limit_answers(struct wire_writer *writer, size_t n)
{
	writer->answer_limit = n;
}

void wire_writer_limit_fds(struct wire_writer *writer, size_t n)
{
	writer->fds_limit = n;
}

static void queued_free(const struct wire_writer *writer, struct queued *frame)
{
	while (frame) {
		struct queued *next = frame->next;

		for (int i = 0; i < frame->n_fds; i++)
			writer->close(writer->close_arg, frame->fds[i]);
		free(frame);
		frame = next;
	}
}

struct wire_writer *wire_writer_free(struct wire_writer *writer)
{
	if (writer)
		queued_free(writer, writer->first);
	free(writer);
	return NULL;
}

static int queued_new(const struct wire_writer *writer,
	const struct wire_header *header, const void *body, const int *fds,
	int n_fds, struct queued **ret)
{
	struct queued *frame = malloc(sizeof(*frame) + header->size);

	if (!frame)
		return tarn_fail(ENOMEM, "no memory for a frame of %u bytes",
			header->size);
	frame->next = NULL;
	frame->first = frame->answer = false;
	frame->n_fds = 0;
	frame->header = *header;
	if (header->size)
		memcpy(frame->body, body, header->size);
	for (int i = 0; i < n_fds; i++) {
		int copy = fd_dup(fds[i]);

		if (copy < 0) {
			queued_free(writer, frame);
			return tarn_fail(-copy,
				"duplicating descriptor %d for a message: %s",
				fds[i], tarn_errno_text(copy));
		}
		frame->fds[frame->n_fds++] = copy;
	}
	*ret = frame;
	return 0;
}

/* What a message of that kind is counted in, and its limit. */
static size_t *account(struct wire_writer *writer, bool answer, size_t *limit)
{
	*limit = answer ? writer->answer_limit : writer->limit;
	return answer ? &writer->answer_bytes : &writer->bytes;
}

/* What a message takes of the queue: its body, and a header for each frame. */
static size_t size_of(size_t body)
{
	size_t n = body ? (body - 1) / FRAME_BODY_MAX + 1 : 1;

	return body + n * sizeof(struct wire_header);
}

/* Before anything is copied: who is refused may ask again, and again. */
static int check_room(
	struct wire_writer *writer, bool answer, size_t bytes, size_t n_fds)
{
	size_t limit, queued = *account(writer, answer, &limit);

	if (n_fds && writer->n_fds + n_fds > writer->fds_limit)
		return tarn_fail(ENOBUFS,
			"%zu descriptors are queued for a peer that does not "
			"read; %zu are allowed",
			writer->n_fds + n_fds, writer->fds_limit);
	if (bytes > limit || queued > limit - bytes)
		return tarn_fail(ENOBUFS,
			"%zu bytes are queued for a peer that does not "
			"read; %zu are allowed",
			queued + bytes, limit);
	return 0;
}

static int push(struct wire_writer *writer, uint32_t flags, bool answer,
	uint16_t type, uint32_t serial, const void *body, size_t size,
	const int *fds, int n_fds)
{
	const unsigned char *p = size ? body : (const void *)"";
	struct queued *first = NULL, **end = &first;
	size_t bytes = size_of(size), all_fds = (size_t)MAX(n_fds, 0), limit;
	int r = frame_check_message(size, n_fds);

	if (r == 0)
		r = check_room(writer, answer, bytes, all_fds);
	if (r < 0)
		return r;
	do {
		struct wire_header header = frame_header(type, serial, size);

		header.flags |= flags;
		r = queued_new(writer, &header, p, fds, n_fds, end);
		if (r < 0) {
			queued_free(writer, first);
			return r;
		}
		(*end)->first = end == &first;
		(*end)->answer = answer;
		end = &(*end)->next;
		p += header.size;
		size -= header.size;
		n_fds = 0;
	} while (size > 0);
	*writer->end = first;
	writer->end = end;
	*account(writer, answer, &limit) += bytes;
	writer->n_fds += all_fds;
	return 0;
}

int wire_push(struct wire_writer *writer, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds)
{
	return push(writer, 0, false, type, serial, body, size, fds, n_fds);
}

int wire_push_again(struct wire_writer *writer, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds)
{
	return push(writer, WIRE_AGAIN, false, type, serial, body, size, fds,
		n_fds);
}

int wire_push_answer(struct wire_writer *writer, uint16_t type, uint32_t serial,
	const void *body, size_t size)
{
	return push(writer, 0, writer->answer_limit > 0, type, serial, body,
		size, NULL, 0);
}

/* It is out of the queue. */
static void uncount(struct wire_writer *writer, const struct queued *frame)
{
	size_t limit;

	*account(writer, frame->answer, &limit) -=
		sizeof(frame->header) + frame->header.size;
	writer->n_fds -= (size_t)frame->n_fds;
}

bool wire_take_back(struct wire_writer *writer)
{
	struct queued **from = NULL;

	for (struct queued **p = &writer->first; *p; p = &(*p)->next)
		if ((*p)->first)
			from = p;
	/* Where the last one has begun, those before it are away. */
	if (!from)
		return false;
	for (const struct queued *f = *from; f; f = f->next)
		uncount(writer, f);
	queued_free(writer, *from);
	*from = NULL;
	writer->end = from;
	return true;
}

bool wire_is_short(int r)
{
	return r == -ETOOMANYREFS || r == -ENOBUFS || r == -ENOMEM;
}

int wire_flush(struct wire_writer *writer, int fd)
{
	while (writer->first) {
		struct queued *frame = writer->first;
		int r = frame_send(fd, &frame->header, frame->body, frame->fds,
			frame->n_fds, MSG_DONTWAIT);

		if (r == -EAGAIN)
			return 0;
		if (r < 0)
			return r;
		uncount(writer, frame);
		writer->first = frame->next;
		if (!writer->first)
			writer->end = &writer->first;
		frame->next = NULL;
		queued_free(writer, frame);
	}
	return 1;
}

bool wire_try(const struct wire_writer *writer, int fd, uint16_t type,
	uint32_t serial, const void *body, size_t size, const int *fds,
	int n_fds)
{
	struct wire_header header = frame_header(type, serial, size);

	return !writer->first && header.size == size &&
	       frame_check_message(size, n_fds) == 0 &&
	       frame_send(fd, &header, size ? body : (const void *)"", fds,
		       n_fds, MSG_DONTWAIT) == 0;
}

bool wire_writer_empty(const struct wire_writer *writer)
{
	return !writer->first;
}

size_t wire_writer_held(const struct wire_writer *writer)
{
	return writer->bytes + writer->answer_bytes;
}
