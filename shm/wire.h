/* SPDX-License-Identifier: MIT */
/*
 * Messages: what clients and the daemon say to each other on the socket.
 *
 * A SOCK_SEQPACKET socket keeps frames whole: a header of 16 bytes, then the
 * body, at most WIRE_FRAME_MAX in all, with at most WIRE_FDS_MAX descriptors.
 * A message longer than a frame is sent as several of the same type and
 * serial, all but the last flagged WIRE_MORE; descriptors travel with the
 * first. A reply carries the serial of its request. Numbers are little-endian
 * and of fixed width; nothing is trusted before it was checked, and it is
 * checked in private memory.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define WIRE_MAGIC 0x6e54 /* "Tn" */
#define WIRE_FRAME_MAX 65536u /* fits any default socket buffer */
#define WIRE_FDS_MAX 64 /* below the kernel's 253; segments come in batches */
#define WIRE_MESSAGE_MAX (64u << 20) /* a load that names 500,000 tensors */
#define WIRE_REQUEST_MAX 8192u /* every other request */
/* So much room has a reader of one's own before it takes a frame: a message
 * that is no longer is never lost for want of memory. */
#define WIRE_RESERVE 2048u

#define PROTOCOL_VERSION 2 /* the newest that this build speaks */
#define PROTOCOL_OLDEST 1  /* the oldest that it still does */

struct wire_header {
	uint16_t magic;
	uint16_t type; /* enum wire_type */
	uint32_t flags;
	uint32_t serial;
	uint32_t size; /* of this frame's body */
};
#define WIRE_MORE 1u
/* A request that was sent before, under this serial, to a server that died:
 * what it asks for may have happened already. */
#define WIRE_AGAIN 2u

enum wire_type {
	/* requests */
	WIRE_HELLO = 1,	     /* msg_hello -> msg_welcome, fds: table, lease */
	WIRE_SEGMENTS = 2,   /* msg_segments -> msg_segments, fds */
	WIRE_LOAD = 3,	     /* msg_load ..., fds: file [, direct] */
	WIRE_CANCEL = 4,     /* msg_cancel; the load answers */
	WIRE_REMOVE = 5,     /* the name [, since] -> WIRE_DONE */
	WIRE_RELEASED = 6,   /* msg_released; no answer */
	WIRE_STATUS = 7,     /* -> struct tarn_store_status, STATUS_SIZE */
	WIRE_STOP = 8,	     /* -> WIRE_DONE */
	/* requests, from protocol 2 on */
	WIRE_RESUME = 9,   /* msg_restarted, as it was told -> WIRE_WELCOME */
	WIRE_LEASES = 10,  /* one more lease memfd -> WIRE_LEASE_PAGE, fd */
	WIRE_PUBLISH = 11, /* msg_publish ..., fds -> WIRE_PUBLISHED */
	WIRE_STORAGE = 12, /* msg_storage -> WIRE_STORAGE_FD, fd */
	WIRE_REPORT = 13,  /* msg_report -> WIRE_REPORT_IS */
	WIRE_CHECK = 14,   /* -> WIRE_CHECKED */
	WIRE_CHANNEL = 16, /* -> WIRE_CHANNEL_IS */
	/* replies */
	WIRE_WELCOME = 101,
	WIRE_SEGMENT_FDS = 102,
	WIRE_LOADING = 103, /* msg_loading: more will follow */
	WIRE_LOADED = 104,  /* msg_loaded */
	WIRE_STATUS_IS = 107,
	WIRE_DONE = 108,
	WIRE_ERROR = 109, /* msg_error */
	/* replies, from protocol 2 on */
	WIRE_RESTARTED = 110, /* msg_restarted; serial 0, unasked */
	WIRE_LEASE_PAGE = 111,
	WIRE_PUBLISHED = 112, /* msg_published ... */
	WIRE_STORAGE_FD = 113,
	WIRE_REPORT_IS = 114, /* msg_report_is ... */
	WIRE_CHECKED = 115, /* msg_checked ... */
	WIRE_CHANNEL_IS = 116, /* msg_channel */
	/* from 1000: inside the daemon, daemon/internal.h */
};

/* The name of a pool may follow, from protocol 2 on: 1 to WIRE_POOL_MAX bytes,
 * no NUL. Without one it is the pool that is this user's alone. */
struct msg_hello {
	uint32_t version;     /* newest that the client speaks */
	uint32_t version_min; /* oldest */
	uint32_t flags;	      /* HELLO_*; 0 before protocol 2 */
	uint32_t pad;
};
/* Made at fork() for a child: who connected is not whose it will be. */
#define HELLO_CHILD 1u
#define WIRE_POOL_MAX 32u /* picked: a word or two */

/*
 * The answer to WIRE_HELLO brings the table and the lease memfd; that to
 * WIRE_RESUME brings the table only if it may be another one (WELCOME_MOVED: of
 * the same geometry, to be mapped over the old one if it is a later one).
 *
 * Resuming. A server that takes over says WIRE_RESTARTED to each client that
 * speaks protocol 2 and throws away what it reads from it, WIRE_RELEASED
 * excepted, until WIRE_RESUME: so both know where a message begins, whatever
 * the dead one had read half. One that answers another restart, whose server
 * is dead as well, is thrown away with the rest. The client then sends its requests under way
 * once more, each with its old serial and WIRE_AGAIN.
 */
struct msg_welcome {
	uint32_t version; /* what both will speak */
	uint32_t flags;	  /* WELCOME_*; 0 before protocol 2 */
	uint64_t instance;
	int32_t keeper_pid;
	int32_t server_pid;
};

#define WELCOME_MOVED 1u
#define WELCOME_SINCE 2u /* WIRE_REMOVE may say it */
#define WELCOME_LOAD_SINCE 4u /* and WIRE_LOAD */

struct msg_restarted {
	uint32_t restarts; /* servers before this one */
	uint32_t flags;	   /* RESTARTED_*; in WIRE_RESUME as it was told */
};
/* The last one did not die, it was ended: what it was asked is not to blame. */
#define RESTARTED_UPGRADE 1u

/* Descriptors of the segments numbered first, first + 1, ... */
struct msg_segments {
	uint32_t first;
	uint32_t count; /* 0 in the reply: there are none from first on */
};

struct msg_cancel {
	uint32_t serial; /* of the load */
	uint32_t pad;
};

struct msg_released {
	uint32_t index;
	uint32_t pad;
	uint64_t generation;
};

/*
 * WIRE_LOAD: msg_load, n_ranges x msg_range, n_names x msg_name each followed
 * by its shape, strides and name padded to 8 bytes, then the label, and, to
 * whom has said WELCOME_LOAD_SINCE, since may follow, as in msg_publish: said
 * again, it is refused where others have published something else since under
 * a name that stands. Descriptors: the file opened for buffered reading, and,
 * if there are two, the same file opened O_DIRECT.
 */
struct msg_load {
	uint32_t n_ranges; /* to LOAD_RANGES_MAX; 0: a file without data */
	uint32_t n_names;
	uint32_t label_size; /* what people see in a listing; <= 1024 */
	uint32_t flags;	     /* 0 */
};
#define LOAD_SINCE_SIZE 8u
#define LOAD_RANGES_MAX 64u   /* picked; a file has one */
#define LOAD_NAMES_MAX 500000u /* some 64 MiB of message */

struct msg_range {
	uint64_t file_offset;
	uint64_t size;
	uint64_t storage_offset; /* where in the storage it lands */
};

struct msg_name {
	uint16_t name_size;
	uint8_t dtype;
	uint8_t ndim;
	uint32_t storage; /* WIRE_PUBLISH: which of its sources; else 0 */
	uint64_t base;	/* byte of the storage from which the layout counts */
	int64_t offset; /* elements */
	/* int64_t shape[ndim], stride[ndim]; char name[], to 8 bytes */
};

/* The load has its memory: progress can be read in the table. */
struct msg_loading {
	uint32_t index;
	uint32_t pad;
	uint64_t generation;
	uint64_t total;
};

struct msg_loaded {
	uint32_t index;
	uint32_t pool;
	uint64_t generation;
	uint64_t base;
	uint64_t size;
	uint64_t cpu_ns; /* of the daemon, for this load */
	uint32_t flags;
	uint32_t pad;
};
#define LOADED_CACHED 1u     /* nobody had to read */
#define LOADED_DIRECT 2u     /* past the page cache */
#define LOADED_REGISTERED 4u /* into registered buffers */
#define LOADED_URING 8u	     /* by io_uring; else by threads */

/*
 * WIRE_PUBLISH: msg_publish, n_sources x msg_source, n_names x msg_name each
 * followed by its shape, strides and name padded to 8 bytes, the prefix padded
 * to 8 bytes, then the bytes of the SOURCE_BYTES in order, each padded to 8.
 * Descriptors: one for each source of another kind but SOURCE_EXISTING, in
 * order. All names appear at once, or none. No source and no name but a
 * prefix to replace: what lies below it is removed.
 */
struct msg_publish {
	uint32_t n_sources; /* to PUBLISH_SOURCES_MAX */
	uint32_t n_names;
	uint32_t prefix_size; /* with PUBLISH_REPLACE */
	uint32_t flags;	      /* PUBLISH_* */
	uint64_t life_ns;     /* from now on; 0: without end */
	/* header.committed + 1 before it was first sent; 0: not known. Said
	 * again it is refused if it cannot be told whether it was done: if
	 * others have published or removed a name since. */
	uint64_t since;
};
#define PUBLISH_SOURCES_MAX 64u /* WIRE_FDS_MAX */
#define PUBLISH_INLINE_MAX 49152u /* of all sources; fits a frame with names */
#define PUBLISH_REPLACE 1u /* other names that begin with prefix are removed */
#define PUBLISH_NEW 2u	   /* -EEXIST if one of the names is there */
/* A channel is the one source of its publication, under one name, whose layout
 * is U8 [size]. With PUBLISH_NEW it takes the place of one that is closed. */

/*
 * WIRE_REMOVE: the name. A NUL, which is in no name, and since may follow, as
 * in msg_publish, to whom has said WELCOME_SINCE: said again, it is refused
 * where the name was published since.
 */
#define REMOVE_SINCE_SIZE 9u

enum source_kind {
	SOURCE_BYTES = 1,    /* they are in the message */
	SOURCE_COPY = 2,     /* a memfd whose bytes are copied into the pool */
	SOURCE_ADOPT = 3,    /* a memfd that is sealed and kept, or copied */
	SOURCE_MUTABLE = 4,  /* a memfd that stays writable */
	SOURCE_EXISTING = 5, /* a storage that the client leases */
	SOURCE_CHANNEL = 6,  /* a memfd as SOURCE_MUTABLE: channel.h */
};

struct msg_source {
	uint32_t kind;	     /* enum source_kind */
	uint32_t index;	     /* SOURCE_EXISTING */
	uint64_t generation; /* SOURCE_EXISTING */
	uint64_t size;	     /* bytes; a memfd has at least as many */
};

/* Then n_sources x msg_stored, n_names x uint64_t version. */
struct msg_published {
	uint64_t commit;
	uint32_t n_sources;
	uint32_t n_names;
};

struct msg_stored {
	uint32_t index;
	uint32_t pool;
	uint64_t generation;
	uint64_t base;
	uint64_t size;
};

/* The memfd of a storage that has one of its own (STORAGE_OWN). */
struct msg_storage {
	uint32_t index;
	uint32_t flags; /* STORAGE_ALONE */
	uint64_t generation;
};
/* With an open file description that nobody else has, or not at all. */
#define STORAGE_ALONE 1u

/*
 * What this connection is called in rings (ring_join): the same as long as it
 * lasts, whichever server answers. Who has left a channel that is ephemeral, or
 * as a consumer of a broadcast, asks once more: the daemon looks whether its
 * name shall go, and what was kept by items that were for nobody else.
 */
struct msg_channel {
	uint32_t owner;
	uint32_t pad; /* 0 */
};

struct msg_error {
	int32_t error;	/* errno, positive */
	uint32_t flags; /* ERROR_*; who does not know one passes it over */
	char text[];	/* one sentence, no NUL; the rest of the body */
};
/* Nothing of it was begun with, and what others have under way is all that is
 * in its way: it may be asked again in a moment. */
#define ERROR_FOR_NOW 1u

/* All that the asker may know. */
struct msg_report {
	uint32_t flags; /* 0 */
	uint32_t pad;
};

/* Then the records of tarn/report.h: one daemon, pools, clients, loads. Each
 * is of the size that its sender says, so that a later one may append. */
struct msg_report_is {
	uint32_t daemon_size;
	uint32_t pool_size;
	uint32_t client_size;
	uint32_t load_size;
	uint32_t n_pools;
	uint32_t n_clients;
	uint32_t n_loads;
	uint32_t flags; /* REPORT_* */
};
#define REPORT_CUT 1u		   /* there are more loads */
#define WIRE_REPORT_MAX (4u << 20) /* some 50,000 clients */

/* Then n_faults lines, each ended by a newline. */
struct msg_checked {
	uint64_t names; /* what was looked at */
	uint64_t storages;
	uint64_t bytes;
	uint32_t n_faults;
	uint32_t n_more; /* faults that are not told */
};
#define WIRE_CHECKED_MAX (1u << 20) /* FAULTS_MAX sentences with names */

/* The public struct travels as it is; both sides assert that it is so large,
 * since this room does not know it. */
#define STATUS_SIZE 152

static_assert(sizeof(struct wire_header) == 16, "fixed");
static_assert(sizeof(struct msg_hello) == 16, "fixed");
static_assert(sizeof(struct msg_segments) == 8, "fixed");
static_assert(sizeof(struct msg_cancel) == 8, "fixed");
static_assert(sizeof(struct msg_released) == 16, "fixed");
static_assert(sizeof(struct msg_loading) == 24, "fixed");
static_assert(sizeof(struct msg_error) == 8, "fixed");
static_assert(sizeof(struct msg_welcome) == 24, "fixed");
static_assert(sizeof(struct msg_restarted) == 8, "fixed");
static_assert(sizeof(struct msg_load) == 16, "fixed");
static_assert(sizeof(struct msg_range) == 24, "fixed");
static_assert(sizeof(struct msg_name) == 24, "fixed");
static_assert(sizeof(struct msg_loaded) == 48, "fixed");
static_assert(sizeof(struct msg_publish) == 32, "fixed");
static_assert(sizeof(struct msg_source) == 24, "fixed");
static_assert(sizeof(struct msg_published) == 16, "fixed");
static_assert(sizeof(struct msg_stored) == 32, "fixed");
static_assert(sizeof(struct msg_storage) == 16, "fixed");
static_assert(sizeof(struct msg_report) == 8, "fixed");
static_assert(sizeof(struct msg_report_is) == 32, "fixed");
static_assert(sizeof(struct msg_checked) == 32, "fixed");
static_assert(sizeof(struct msg_channel) == 8, "fixed");

/* ---- frames ---------------------------------------------------------- */

/* One received message, whole. Its descriptors belong to it until taken. */
struct wire_message {
	uint16_t type;
	bool again; /* WIRE_AGAIN */
	uint32_t serial;
	uint32_t size;
	/* Who sent its first frame, as the kernel says, if the socket asks
	 * (SO_PASSCRED); else, or where he is out of sight, 0. */
	int32_t pid;
	unsigned char *body; /* malloc'ed, at least one byte; 8-aligned */
	int fds[WIRE_FDS_MAX];
	int n_fds;
};

void wire_message_clear(struct wire_message *message);
/* Takes descriptor i out of the message; -1 when there is none. */
int wire_take_fd(struct wire_message *message, int i);

/* Collects frames into messages. One per connection; with it goes room for a
 * frame. One that is made beside another borrows the room of that one, which
 * must outlive it and be used by the same thread: for who has a thousand. */
struct wire_reader;
int wire_reader_new(struct wire_reader **ret);
int wire_reader_new_beside(const struct wire_reader *other,
	struct wire_reader **ret);
struct wire_reader *wire_reader_free(struct wire_reader *reader);

/* Bytes of memory that it has taken for a message that is not whole yet. */
size_t wire_reader_held(const struct wire_reader *reader);
/* Descriptors that came with it. */
uint32_t wire_reader_held_fds(const struct wire_reader *reader);

/* How descriptors are closed that nobody took: fd_close without this. For who
 * must not call close() on a stranger's file, since its file system may
 * block in it. */
typedef void (*wire_close_fn)(void *arg, int fd);
void wire_reader_set_close(struct wire_reader *reader, wire_close_fn fn,
	void *arg);

/*
 * Receives one frame. 1: *ret is a whole message; 0: more frames are to come;
 * -EAGAIN: nothing there (non-blocking socket); -ENOBUFS: no memory, and
 * nothing was taken, so it can be tried again; -ENOMEM: none for a message that
 * was passed over, all of it, so that others can follow: *ret has its type and
 * serial, and a sentence says how long it was; -EMFILE: the same, because not
 * all of its descriptors could be had, and those that came are closed; -EPIPE:
 * the peer closed; -EPROTO, -EMSGSIZE, -ETOOMANYREFS: garbage, with a sentence,
 * after which the connection should be dropped. limit(type) gives the largest
 * body for a type, 0 for one that is not expected (NULL: WIRE_MESSAGE_MAX for
 * all). All descriptors of a refused frame are closed; all are CLOEXEC.
 */
int wire_receive(struct wire_reader *reader, int fd,
	uint32_t (*limit)(uint16_t type), struct wire_message *ret);

/* Sends a whole message, in frames, blocking until it is away; -EPIPE without
 * SIGPIPE. Not for the server, which queues (wire_writer). */
int wire_send(int fd, uint16_t type, uint32_t serial, const void *body,
	size_t size, const int *fds, int n_fds);

/* A queue of frames for a non-blocking socket. push copies body and
 * duplicates fds; -ENOBUFS beyond limit bytes (a peer that does not read).
 * flush: 1 all away, 0 the socket is full, or an error; whatever it was, what
 * is not away is queued still, from a frame's beginning. */
struct wire_writer;
int wire_writer_new(size_t limit, struct wire_writer **ret);
struct wire_writer *wire_writer_free(struct wire_writer *writer);
void wire_writer_set_close(struct wire_writer *writer, wire_close_fn fn,
	void *arg);
/* -ENOBUFS beyond n queued descriptors, too; without this there is no limit to
 * them but that of bytes. */
void wire_writer_limit_fds(struct wire_writer *writer, size_t n);
int wire_push(struct wire_writer *writer, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds);
/* The same, flagged WIRE_AGAIN. */
int wire_push_again(struct wire_writer *writer, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds);
/* The same, under a limit of n bytes of its own, without which it is the other:
 * for answers that are as long as what was asked. */
int wire_push_answer(struct wire_writer *writer, uint16_t type, uint32_t serial,
	const void *body, size_t size);
void wire_writer_limit_answers(struct wire_writer *writer, size_t n);
int wire_flush(struct wire_writer *writer, int fd);
/* Sends a message of one frame at once, if nothing is queued before it and the
 * socket takes it: for this neither memory nor descriptors are needed, which
 * may be what it tells the lack of. False: it was not sent; push it. */
bool wire_try(const struct wire_writer *writer, int fd, uint16_t type,
	uint32_t serial, const void *body, size_t size, const int *fds,
	int n_fds);
/* After a push: the message leaves the queue, if none of it is away. False: it
 * has begun, and must be ended, or what follows would be taken for it. */
bool wire_take_back(struct wire_writer *writer);
/* Of wire_flush: the system is out of something, for a moment. Too many
 * descriptors are on their way, of this user's other processes, too. */
bool wire_is_short(int r);
bool wire_writer_empty(const struct wire_writer *writer);
/* Bytes that are queued. */
size_t wire_writer_held(const struct wire_writer *writer);
