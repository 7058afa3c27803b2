/* SPDX-License-Identifier: MIT */
/*
 * How messages travel on a socket; what they say is in shm/messages.h, and
 * inside the daemon in daemon/messages.h.
 *
 * One message is one datagram of a SOCK_SEQPACKET socket: a header of 16 bytes,
 * at most WIRE_FDS_MAX descriptors, and the body. A body longer than
 * WIRE_INLINE_MAX lies in a sealed memfd, which travels as one more descriptor,
 * the last, and the header is all of the datagram (WIRE_LONG). So a message is
 * sent whole or not at all, and received whole or not at all. A reply carries
 * the serial of its request. Numbers are little-endian and of fixed width; no
 * field is trusted before it was checked, and checks run on a copy in private
 * memory.
 *
 * A long answer of the daemon's travels in parts instead, one datagram each
 * (WIRE_PART). A memfd would be the daemon's memory, and the client could keep
 * it: by its descriptor, or, if the daemon emptied the memfd afterwards, by
 * pages of it that the client has spliced into a pipe or pinned. What a socket
 * takes is copied, the kernel bounds how much of it lies there unread
 * (SO_SNDBUF), and it is gone when the client has read it or has ended. The
 * daemon keeps the rest in private memory, which it charges to the client's
 * user, and which goes with a server that dies.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define WIRE_MAGIC 0x6e54 /* "Tn" */
/* Three datagrams of this size fit any default socket buffer. A shorter body is
 * cheaper to copy through the socket than to put into a memfd; and the bytes of
 * a small publication fit (PUBLISH_INLINE_MAX). */
#define WIRE_FRAME_MAX 65536u
#define WIRE_INLINE_MAX (WIRE_FRAME_MAX - (uint32_t)sizeof(struct wire_header))
#define WIRE_FDS_MAX 64 /* below the kernel's 253; segments come in batches */
#define WIRE_MESSAGE_MAX (64u << 20) /* a load that names 500,000 tensors */
#define WIRE_ERROR_MAX 8192u         /* a sentence */
#define WIRE_REPLY_MAX 2048u         /* every other reply of a fixed size */

struct wire_header {
	uint16_t magic;
	uint16_t type; /* enum wire_type: shm/messages.h */
	uint32_t flags;
	uint32_t serial;
	uint32_t size; /* of the body */
};
/* The body is the content of the last descriptor: a memfd of that size, sealed
 * against writing, growing and shrinking by its sender (wire_body.c). */
#define WIRE_LONG 1u
/* A request that was sent before, under this serial, to a server that died:
 * what it asks for may have happened already. */
#define WIRE_AGAIN 2u
/* The datagram has a part of the body, which is longer than WIRE_INLINE_MAX:
 * that many bytes, or as many as are left. Datagrams with the same header and
 * the next parts follow, and no other before the last one, unless the sender
 * dies and another takes its place: then what came so far counts for nothing. A
 * message in parts brings no descriptors. */
#define WIRE_PART 4u

static_assert(sizeof(struct wire_header) == 16, "fixed");

/* ---- messages out ---------------------------------------------------- */

/* A message to send. body and fds are borrowed. */
struct wire_out {
	uint16_t type;
	bool again; /* WIRE_AGAIN */
	uint32_t serial;
	const void *body;
	size_t size;
	const int *fds;
	int n_fds;
	/* wire_out_prepare(): the body lies in this memfd. */
	bool is_long;
	int long_fd;
};

/* An unnamed wire_out, which lives until the end of the enclosing block. */
#define WIRE_OUT(type_, serial_, body_, size_)                                 \
	WIRE_OUT_FDS(type_, serial_, body_, size_, NULL, 0)
#define WIRE_OUT_FDS(type_, serial_, body_, size_, fds_, n_fds_)               \
	(&(const struct wire_out) {.type = (type_),                            \
		.serial = (serial_),                                           \
		.body = (body_),                                               \
		.size = (size_),                                               \
		.fds = (fds_),                                                 \
		.n_fds = (n_fds_)})

/*
 * Puts a body longer than WIRE_INLINE_MAX into a memfd, for a message that may
 * have to be sent more than once before the socket takes it; shorter bodies are
 * left as they are. The functions below do the same for a message that was not
 * prepared, and drop the memfd when they return. -EMFILE, -ENFILE, -ENOMEM,
 * -EFBIG (RLIMIT_FSIZE), -EMSGSIZE, -EINVAL for a message that cannot be sent
 * at all; with a sentence.
 */
int wire_out_prepare(struct wire_out *out);
void wire_out_done(struct wire_out *out);

/* Sends a message and blocks until the socket has taken it; -EPIPE without
 * SIGPIPE. Not for the server, which queues (wire_writer). */
int wire_send(int fd, const struct wire_out *out);

/* A queue of messages for a non-blocking socket. push copies the body and
 * duplicates fds; -ENOBUFS beyond limit bytes (a peer that does not read).
 * flush: 1: all were sent; 0: the socket is full; or an error. In each case the
 * messages that were not sent stay queued. */
struct wire_writer;
int wire_writer_new(size_t limit, struct wire_writer **ret);
struct wire_writer *wire_writer_free(struct wire_writer *writer);
/* How to close descriptors that no caller took; fd_close without this. For
 * processes that must not call close() on a foreign file, since its file system
 * may block in it. */
typedef void (*wire_close_fn)(void *arg, int fd);
void wire_writer_set_close(
	struct wire_writer *writer, wire_close_fn fn, void *arg);
/* From now on long bodies travel in parts, as the daemon's answers do. One call
 * of flush sends no more than a few of them, so that a peer that reads as fast
 * as they are sent does not keep the sender. */
void wire_writer_in_parts(struct wire_writer *writer);
int wire_push(struct wire_writer *writer, const struct wire_out *out);
int wire_flush(struct wire_writer *writer, int fd);
/* Sends a message at once, if the queue is empty and the socket takes it. For
 * this a message without a long body needs neither memory nor descriptors, so
 * it can report the lack of them. 1: it was sent; 0: it was not, so push it; or
 * an error, as of flush. Without a queue (NULL) the message goes ahead of all
 * that is in one. */
int wire_try(
	const struct wire_writer *writer, int fd, const struct wire_out *out);
/* Of an error of wire_flush: the system is out of some resource for a moment.
 * Too many descriptors may be in flight, those of this user's other processes
 * included. */
bool wire_is_short(int r);
/* NULL is empty. */
bool wire_writer_empty(const struct wire_writer *writer);
/* Bytes that are queued: of a message in parts all, until the last part was
 * sent. */
size_t wire_writer_held(const struct wire_writer *writer);

/* ---- messages in ----------------------------------------------------- */

/* One received message. Its descriptors belong to it until taken. */
struct wire_message {
	uint16_t type;
	bool again; /* WIRE_AGAIN */
	uint32_t serial;
	uint32_t size;
	/* The sender's pid, from the kernel, if the socket has SO_PASSCRED;
	 * otherwise, or where the sender's pid is not visible here, 0. */
	int32_t pid;
	unsigned char *body; /* malloc'ed, at least one byte; 8-aligned */
	int fds[WIRE_FDS_MAX];
	int n_fds;
	/* With leaves_long: the memfd of a long body, which belongs to the
	 * message, and how many of its bytes are still to be read. */
	bool is_long;
	int long_fd;
	uint32_t unread;
};

void wire_message_clear(struct wire_message *message);
/* Takes descriptor i out of the message; -1 when there is none. */
int wire_take_fd(struct wire_message *message, int i);
/* The memfd of its long body; -1 when there is none. */
int wire_take_long(struct wire_message *message);
/* Reads at most so many of the bytes that are unread. 1: the body is there; 0:
 * there is more to read; -ENOMEM, -EPROTO as wire_receive. */
int wire_read_on(struct wire_message *message, uint32_t most);

/* A message of which parts have come. Zeros: there is none. */
struct wire_partial {
	unsigned char *body; /* NULL: no memory; the parts are passed over */
	uint16_t type;
	uint32_t serial;
	uint32_t size;
	uint32_t got; /* bytes; 0: there is none */
};
void wire_partial_clear(struct wire_partial *partial);

/* What is taken from a peer. NULL or zeros: all up to WIRE_MESSAGE_MAX, but
 * nothing in parts. */
struct wire_reader {
	/* The largest body for a type, 0 for one that is not expected. */
	uint32_t (*limit)(uint16_t type);
	/* May a long body of that many bytes be accepted? again: the message
	 * has WIRE_AGAIN. 0, or an error with its sentence, which wire_receive
	 * returns. */
	int (*admit)(void *arg, uint32_t size, bool again);
	wire_close_fn close; /* of descriptors that are refused */
	void *arg;           /* of both */
	/* A long body is left in its memfd, which was checked, for
	 * wire_read_on(): nothing else waits until it is read. */
	bool leaves_long;
	/* Keeps the parts that have come between two calls; NULL: a message in
	 * parts is refused. */
	struct wire_partial *partial;
	/* Keeps the memory for the longest datagram between two calls, for free()
	 * at the end; NULL: it is allocated for each. */
	unsigned char **spare;
};

/* As wire_message_clear, but that the reader closes the descriptors. */
void wire_message_close(
	const struct wire_reader *reader, struct wire_message *message);

/*
 * Receives one message. 1: *ret has it. Two errors leave the message, or the
 * rest of its parts, in the socket, and the caller can try again: -EAGAIN,
 * there is no message (non-blocking socket); -ENOBUFS, out of memory. Other
 * errors lose only this message; *ret has its type and serial, and there is a
 * sentence: -ENOMEM, no memory for its long body; -EMFILE, not all of its
 * descriptors could be received; and the error of admit(). -EPIPE: the peer
 * closed. -EPROTO, -EMSGSIZE, -ETOOMANYREFS: an invalid message, with a
 * sentence; the caller should drop the connection. All descriptors of a
 * refused message are closed; all are CLOEXEC.
 */
int wire_receive(
	int fd, const struct wire_reader *reader, struct wire_message *ret);
/* Of the next message in the socket, as its sender wrote it; takes nothing out
 * of the socket. Type 0: there is none. */
struct wire_header wire_next_header(int fd);
