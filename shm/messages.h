/* SPDX-License-Identifier: MIT */
/*
 * The messages between clients and the daemon: requests and replies.
 *
 * Numbers are little-endian and of fixed width; no field is trusted before it
 * was checked, and checks run on a copy in private memory.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "base/identity.h"
#include "shm/wire.h"

#define PROTOCOL_VERSION 7 /* the newest that this build speaks */
#define PROTOCOL_OLDEST 5  /* the oldest that it still does */

enum wire_type {
	/* requests */
	WIRE_HELLO = 1,    /* msg_hello -> msg_welcome, fds: table, lease */
	WIRE_SEGMENTS = 2, /* msg_segments -> msg_segments, serials, fds */
	WIRE_LOAD = 3,     /* msg_load ..., fds: file [, direct] */
	WIRE_CANCEL = 4,   /* msg_cancel; the load answers */
	WIRE_REMOVE = 5,   /* the name -> WIRE_DONE */
	WIRE_RELEASED = 6, /* msg_released; no answer */
	WIRE_PING = 7,     /* -> WIRE_PONG: the server is at work */
	WIRE_STOP = 8,     /* -> WIRE_DONE */
	WIRE_RESUME = 9,   /* msg_restarted, as received -> WIRE_WELCOME */
	WIRE_LEASES = 10,  /* one more lease memfd -> WIRE_LEASE_PAGE, fd */
	WIRE_PUBLISH = 11, /* msg_publish ..., fds -> WIRE_PUBLISHED */
	WIRE_STORAGE = 12, /* msg_storage -> WIRE_STORAGE_FD, fd */
	WIRE_REPORT = 13,  /* msg_report -> WIRE_REPORT_IS */
	WIRE_CHECK = 14,   /* -> WIRE_CHECKED */
	WIRE_CHANNEL = 16, /* -> WIRE_CHANNEL_IS */
	WIRE_RESENT = 17,  /* no answer; see "Resuming" */
	WIRE_DROP_REPLICAS = 18, /* msg_drop_replicas -> WIRE_DONE */
	/* replies */
	WIRE_WELCOME = 101,
	WIRE_SEGMENT_FDS = 102,
	WIRE_LOADING = 103, /* msg_loading: more will follow */
	WIRE_LOADED = 104,  /* msg_loaded */
	WIRE_PONG = 107,    /* with serial 0: see "Back-pressure" */
	WIRE_DONE = 108,
	WIRE_ERROR = 109,     /* msg_error */
	WIRE_RESTARTED = 110, /* msg_restarted; serial 0, unsolicited */
	WIRE_LEASE_PAGE = 111,
	WIRE_PUBLISHED = 112, /* msg_published ... */
	WIRE_STORAGE_FD = 113,
	WIRE_REPORT_IS = 114,  /* msg_report_is ... */
	WIRE_CHECKED = 115,    /* msg_checked ... */
	WIRE_CHANNEL_IS = 116, /* msg_channel */
	/* from 1000: inside the daemon, daemon/messages.h */
};

/* The name of a pool may follow: 1 to WIRE_POOL_MAX bytes, no NUL. Without one
 * it is the pool that is this user's alone. */
struct msg_hello {
	uint32_t version;     /* newest that the client speaks */
	uint32_t version_min; /* oldest */
	uint32_t flags;       /* HELLO_* */
	uint32_t pad;
};
/* Sent at fork() for a child: the process that connects is not the one that
 * will own the connection. */
#define HELLO_CHILD 1u
#define WIRE_POOL_MAX 32u /* picked: a word or two */

/*
 * The answer to WIRE_HELLO brings the table and the lease memfd; that to
 * WIRE_RESUME brings no descriptor, since the next server goes on in both.
 *
 * Resuming. A server that takes over sends WIRE_RESTARTED to each client and
 * discards what it reads from that client, except WIRE_RELEASED, until
 * WIRE_RESUME: so both sides know which requests the dead server may have
 * received, and which it cannot have. A WIRE_RESUME that answers an earlier
 * restart, whose server is dead as well, is discarded with the rest. The client
 * then sends its pending requests once more, each with its old serial and
 * WIRE_AGAIN, and then WIRE_RESENT. It means that the client has received the
 * answers to all its other requests, or does not wait for them any more. A
 * request with WIRE_AGAIN that was done, and has changed something, is answered
 * as it was or would have been; all others are done now.
 *
 * Back-pressure. A request for which there is no room yet stays in its socket,
 * with what lies behind it. Every second or so the server then sends a WIRE_PONG
 * with serial 0: it is at work, and the client goes on waiting. A load or a
 * publication that is answered with ETOOMANYREFS was not done: the descriptors
 * in the sockets are too many for the kernel, and the client sends it again in a
 * moment.
 */
struct msg_welcome {
	uint32_t version; /* the version that both sides use */
	uint32_t pad;
	uint64_t instance;
	int32_t keeper_pid;
	int32_t server_pid;
};

struct msg_restarted {
	uint32_t restarts; /* servers before this one */
	uint32_t flags;    /* RESTARTED_*; in WIRE_RESUME as received */
};
/* The last server did not die, it was ended: the requests that it was given are
 * not to blame. */
#define RESTARTED_UPGRADE 1u

/* The descriptors of the segments numbered first, first + 1, ... In the reply,
 * count x uint64_t follow, the serials of these segments (table_segments.c): a
 * number may belong to another segment by now than the client saw in the
 * table. */
struct msg_segments {
	uint32_t first;
	uint16_t count; /* 0 in the reply: there are none from first on */
	uint16_t flags; /* SEGMENTS_*; 0 in the reply */
};
/* Open for writing, one at most: in pools of kind register alone, and for
 * clients of the daemon's own uid; -EPERM for others. */
#define SEGMENTS_WRITABLE 1u

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
 * by its shape, strides and name padded to 8 bytes, then the label.
 * Descriptors: the file opened for buffered reading, and, if there are two, the
 * same file opened O_DIRECT.
 */
struct msg_load {
	uint32_t n_ranges; /* to LOAD_RANGES_MAX; 0: a file without data */
	uint32_t n_names;
	uint32_t label_size; /* shown to people in a listing; <= 1024 bytes */
	uint32_t flags;      /* LOAD_*; above them the node: place.h */
	/* The version of the file that the client has parsed. The loader
	 * compares it with the file: -ESTALE if it is another version. All
	 * zero: nothing is compared. */
	struct file_version seen;
};
#define LOAD_FRESH 1u /* read the file even if its bytes are kept */
/* There is no file, and no descriptor: a msg_copied follows msg_load, and the
 * one range is of all bytes of that storage. A replica of it is made on the node
 * that the flags name. */
#define LOAD_COPY 2u
/* LOAD_COPY: no replica, but a storage to which each of the names then leads as
 * a new version, if it still leads to the old one. */
#define LOAD_MOVE 4u
/* Above the longest header that the library parses, which is safetensors' own
 * limit of 100,000,008 bytes. */
#define LOAD_HEADER_MAX (128u << 20)
#define LOAD_RANGES_MAX 64u    /* picked; a file has one */
#define LOAD_NAMES_MAX 500000u /* some 64 MiB of message */

/* Of a storage that is live, or of the one that it is a replica of. None is
 * left on that node, or on all of them (-1); a client that holds one keeps
 * it. */
struct msg_drop_replicas {
	uint32_t index;
	int32_t node;
	uint64_t generation;
};

/* A storage that the client holds. */
struct msg_copied {
	uint32_t index;
	uint32_t pad;
	uint64_t generation;
};

struct msg_range {
	uint64_t file_offset;
	uint64_t size;
	uint64_t storage_offset; /* where it lands in the storage */
};

struct msg_name {
	uint16_t name_size;
	uint8_t dtype;
	uint8_t ndim;
	uint32_t storage; /* WIRE_PUBLISH: index of its source; else 0 */
	uint64_t base;    /* byte of the storage from which the layout counts */
	int64_t offset;   /* elements */
	/* int64_t shape[ndim], stride[ndim]; char name[], to 8 bytes */
};

/*
 * The progress of a load. LOADING_MEMORY: its pool grows, and ready of wanted
 * bytes have been taken from the system; index and generation are 0.
 * LOADING_BYTES: it has its memory, and the table says how many bytes have
 * landed in storage index. The last of several messages counts.
 */
struct msg_loading {
	uint32_t index;
	uint32_t phase; /* LOADING_* */
	uint64_t generation;
	uint64_t total;
	uint64_t ready;
	uint64_t wanted;
};
#define LOADING_BYTES 0u
#define LOADING_MEMORY 1u

struct msg_loaded {
	uint32_t index;
	uint32_t pool;
	uint64_t generation;
	uint64_t base;
	uint64_t size;
	uint64_t cpu_ns; /* of the daemon, for this load */
	uint32_t flags;
	uint32_t not_kept; /* enum not_kept */
};
#define LOADED_CACHED 1u     /* no process had to read the file */
#define LOADED_DIRECT 2u     /* past the page cache */
#define LOADED_REGISTERED 4u /* into registered buffers */
#define LOADED_URING 8u      /* by io_uring; else by threads */

/* Why later loads of the file do not find what was loaded. It is then freed
 * with its last holder. */
enum not_kept {
	NOT_KEPT_KEPT = 0,    /* they do find it */
	NOT_KEPT_WRITERS = 1, /* the file is open for writing */
	/* its stamps are coarse, and it changed lately */
	NOT_KEPT_RACY = 2,
	NOT_KEPT_AHEAD = 3,       /* its stamps lie in the future */
	NOT_KEPT_FILE_SYSTEM = 4, /* the file system's stamps do not reveal all
				   * changes */
	NOT_KEPT_RANGES = 5,      /* it is not one range of the file */
};

/*
 * WIRE_PUBLISH: msg_publish, n_sources x msg_source, n_names x msg_name each
 * followed by its shape, strides and name padded to 8 bytes, the prefix padded
 * to 8 bytes, then the bytes of each SOURCE_BYTES, padded to 8, and the
 * msg_device of each SOURCE_DEVICE, in the order of the sources. Descriptors: one
 * for each source of another kind but SOURCE_BYTES and SOURCE_EXISTING, in
 * order. All names appear at once, or none. Without a source and a name, and
 * with a prefix to replace, all names below the prefix are removed.
 */
struct msg_publish {
	uint32_t n_sources; /* to PUBLISH_SOURCES_MAX */
	uint32_t n_names;
	uint32_t prefix_size; /* with PUBLISH_REPLACE */
	uint32_t flags;       /* PUBLISH_*; above them the node: place.h */
	uint64_t ttl_ns;      /* from now on; 0: without end */
};
#define PUBLISH_SOURCES_MAX 64u /* WIRE_FDS_MAX */
/* Of all sources: the server copies them between two turns of its loop. With
 * names they fit WIRE_INLINE_MAX. */
#define PUBLISH_INLINE_MAX 49152u
#define PUBLISH_REPLACE 1u /* other names that begin with prefix are removed */
#define PUBLISH_NEW 2u     /* -EEXIST if one of the names is there */
/* A channel is the one source of its publication, under one name, whose layout
 * is U8 [size]. With PUBLISH_NEW it takes the place of one that is closed. */

enum source_kind {
	SOURCE_BYTES = 1,    /* they are in the message */
	SOURCE_COPY = 2,     /* a memfd whose bytes are copied into the pool */
	SOURCE_ADOPT = 3,    /* a memfd: kept if it is sealed, else copied */
	SOURCE_MUTABLE = 4,  /* a memfd that stays writable; sealed in size */
	SOURCE_EXISTING = 5, /* a storage that the client leases */
	SOURCE_CHANNEL = 6,  /* a memfd as SOURCE_MUTABLE: channel.h */
	SOURCE_DEVICE = 7,   /* memory of a device: msg_device */
	SOURCE_PATCH = 8,    /* a sealed memfd: patch.h */
};

struct msg_source {
	uint32_t kind; /* enum source_kind */
	/* SOURCE_EXISTING; of a SOURCE_PATCH the storage that it is over, of
	 * the same size, which the client leases too. */
	uint32_t index;
	uint64_t generation;
	/* bytes; a memfd has at least as many, and that of a patch fewer */
	uint64_t size;
};

/*
 * Of a SOURCE_DEVICE. Its descriptor is what the device's driver exports for one
 * allocation: a device file or an anonymous inode, or a memfd, which a stand-in
 * for a driver exports. The daemon holds it, returns it for WIRE_STORAGE, and
 * does nothing else with it.
 */
struct msg_device {
	uint8_t uuid[16]; /* of the device; not all 0 */
	uint32_t flags;   /* 0 */
	uint32_t pad;     /* 0 */
};
#define SOURCE_DEVICE_SINCE 6u /* the protocol version that has them */
#define SOURCE_PATCH_SINCE 7u
/* Of one: 16 TiB, a hundred times what a device has. */
#define DEVICE_SIZE_MAX (1ull << 44)

/* Then n_sources x msg_stored, n_names x uint64_t version. In an answer to
 * WIRE_AGAIN they are 0 where other requests have displaced every record of
 * them. */
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

/* Asks for the descriptor of a storage that has its own (STORAGE_OWN). */
struct msg_storage {
	uint32_t index;
	uint32_t flags; /* STORAGE_ALONE */
	uint64_t generation;
};
/* Requires an open file description that no other process has; an error where
 * that is not possible. */
#define STORAGE_ALONE 1u

/*
 * owner identifies this connection in rings (ring_join). It stays the same for
 * the life of the connection, whichever server answers. A client that has left
 * an ephemeral channel, or has left as a consumer of a broadcast, sends this
 * request once more: the daemon then checks whether the channel's name is to
 * go, and looks for storages kept by items that no other consumer will receive.
 */
struct msg_channel {
	uint32_t owner;
	uint32_t pad; /* 0 */
};

struct msg_error {
	int32_t error;  /* errno, positive */
	uint32_t flags; /* 0; a receiver ignores flags that it does not know */
	char text[];    /* one sentence, no NUL; the rest of the body */
};

/* Asks for all that this client may know. */
struct msg_report {
	uint32_t flags; /* 0 */
	uint32_t pad;
};

/* Then the records of tarn/report.h: one daemon, pools, clients, loads. Each
 * record has the size that its sender states, so that a later version may
 * append fields. */
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
#define REPORT_CUT 1u              /* there are more loads */
#define WIRE_REPORT_MAX (4u << 20) /* some 50,000 clients */

/* Then n_faults lines, each ended by a newline. */
struct msg_checked {
	uint64_t names; /* that were checked */
	uint64_t storages;
	uint64_t bytes;
	uint32_t n_faults;
	uint32_t n_more; /* faults that are not listed */
};
#define WIRE_CHECKED_MAX (1u << 20) /* FAULTS_MAX sentences with names */

static_assert(sizeof(struct msg_hello) == 16, "fixed");
static_assert(sizeof(struct msg_segments) == 8, "fixed");
static_assert(sizeof(struct msg_cancel) == 8, "fixed");
static_assert(sizeof(struct msg_released) == 16, "fixed");
static_assert(sizeof(struct msg_loading) == 40, "fixed");
static_assert(sizeof(struct msg_error) == 8, "fixed");
static_assert(sizeof(struct msg_welcome) == 24, "fixed");
static_assert(sizeof(struct msg_restarted) == 8, "fixed");
static_assert(sizeof(struct file_version) == 88, "fixed");
static_assert(sizeof(struct msg_load) == 104, "fixed");
static_assert(sizeof(struct msg_copied) == 16, "fixed");
static_assert(sizeof(struct msg_drop_replicas) == 16, "fixed");
static_assert(sizeof(struct msg_range) == 24, "fixed");
static_assert(sizeof(struct msg_name) == 24, "fixed");
static_assert(sizeof(struct msg_loaded) == 48, "fixed");
static_assert(sizeof(struct msg_publish) == 24, "fixed");
static_assert(sizeof(struct msg_source) == 24, "fixed");
static_assert(sizeof(struct msg_device) == 24, "fixed");
static_assert(sizeof(struct msg_published) == 16, "fixed");
static_assert(sizeof(struct msg_stored) == 32, "fixed");
static_assert(sizeof(struct msg_storage) == 16, "fixed");
static_assert(sizeof(struct msg_report) == 8, "fixed");
static_assert(sizeof(struct msg_report_is) == 32, "fixed");
static_assert(sizeof(struct msg_checked) == 32, "fixed");
static_assert(sizeof(struct msg_channel) == 8, "fixed");
