/* SPDX-License-Identifier: MIT */
/*
 * The messages between keeper, server and loaders: shm/wire.h frames over
 * socketpairs that no client ever sees.
 *
 *	keeper  accepts, creates, holds, forks; parses nothing of a client's
 *	server  answers clients; writes the control regions; allocates
 *	loader  one per uid with loads; the only one to touch clients' files
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/messages.h"
#include "shm/place.h"

#define DOMAINS_MAX 256u /* users and pools; picked, each costs a region */

enum daemon_message {
	/* keeper -> server */
	D_DOMAIN = 1000,   /* msg_domain, fds: its region, O_RDWR, O_RDONLY */
	D_CLIENT,          /* msg_client, fds: its socket, its lease memfd */
	D_SEGMENT,         /* msg_segment, fd: O_RDONLY; offered before by
			    * D_SEGMENT_MAP, or inherited */
	D_GROWN,           /* msg_grown: the answer to D_GROW */
	D_LOADER_IS,       /* msg_loader, fds: socket, pipe's read end */
	D_ACCEPTS_DRAINED, /* msg_drained */
	D_TERMINATE,       /* no body: finish loads, then D_BYE; it may
			    * overtake others */
	D_SEGMENT_MAP,     /* msg_segment, fd: not sealed yet, to be mapped */
	D_LOADER_LEFT, /* msg_loader, fd: pipe of one that may still write */
	D_STORED_FD,   /* msg_fd_key, fd: what the last server had kept */
	D_TAKEN_OVER,  /* no body: that is all; serve */
	D_SETTINGS,    /* msg_settings of config.h: it was read again */
	D_SEGMENT_DROPPED, /* msg_segment: no process forked later has it */
	/* server -> keeper */
	/* msg_domain: it is not known here; tell it again when the next client
	 * comes */
	D_DOMAIN_FAILED = 1100,
	D_GROW,           /* msg_grow */
	D_LOADER,         /* msg_loader: fork one */
	D_DRAIN_ACCEPTS,  /* msg_drain: is any client waiting? */
	D_CLIENT_GONE,    /* msg_client: the keeper may forget it */
	D_BYE,            /* no body: nothing is left to do */
	D_SEGMENT_MAPPED, /* msg_segment: seal it; size 0: it failed */
	D_LOADER_GONE,    /* msg_loader: its pipe has ended */
	/* msg_fd_key, fd: hold it for the next server */
	D_STORE_FD,
	D_DROP_FD,       /* msg_fd_key */
	D_CLIENT_DOMAIN, /* msg_client: it is under another domain now */
	D_STOPPED,       /* no body: a client has asked it to end */
	D_CLIENT_SPEAKS, /* msg_client: what version, before welcome; of a
			       * child, once more, who it is */
	D_DROP_SEGMENT,  /* msg_segment: nothing lies in it any more */
	D_LOADER_KILL,   /* msg_loader: it does not answer */
	D_DOMAIN_EMPTY,  /* msg_domain: nothing is left under it */
	/* server -> loader */
	L_FILE = 1200, /* msg_file, fds: [buffered [, direct]]: identify it */
	L_FILL,        /* msg_fill, n_ranges x msg_fill_range */
	L_DROP,        /* msg_job: stop and forget it; answered by L_DROPPED */
	L_FORGET,      /* msg_forget: nothing lies in that segment any more */
	/* loader -> server */
	L_IDENTITY = 1300, /* msg_identity */
	L_PROGRESS,        /* msg_progress */
	L_DONE,            /* msg_filled */
	L_FAILED,          /* msg_failed, text */
	L_DROPPED,         /* msg_job: no request of it is in flight any more */
	L_FORGOTTEN,       /* msg_forget: it is mapped here no more */
};

/* What pages a pool gets: of the reserve by their shift, or those that the
 * kernel gives. A user's own pool has the first. */
enum pool_pages {
	PAGES_AUTO = 0, /* transparent huge ones where they can be had */
	PAGES_THP = 1,  /* the same, and effort and words where they cannot */
	PAGES_4K = 12,
	PAGES_2M = 21,
	PAGES_1G = 30,
};

/* The pool of an access domain. */
struct pool_spec {
	char name[WIRE_POOL_MAX + 1]; /* "": what is uid's alone */
	uint8_t pages;                /* enum pool_pages */
	uint16_t mode; /* rw for owner, group, others; as of a file */
	uint32_t uid;
	uint32_t gid;
	struct placement placement;
	uint16_t flags;       /* POOL_*; of older programs 0 */
	uint64_t limit;       /* bytes of segments; 0: the daemon's budget */
	uint64_t segment_max; /* bytes of one segment */
};

/* Its segments are sealed in their size alone: clients of the daemon's uid can
 * have them for writing, to register them with a device's driver. */
#define POOL_REGISTER 1u

/* Are its pages those of the reserve? */
static inline bool pool_is_reserved(const struct pool_spec *spec)
{
	return spec->pages == PAGES_2M || spec->pages == PAGES_1G;
}

/* Of the pages that all of its memory consists of. */
static inline unsigned pool_page_shift(const struct pool_spec *spec)
{
	return pool_is_reserved(spec) ? spec->pages : PAGES_4K;
}

/* As in tarnd.conf. */
static inline const char *pool_pages_name(const struct pool_spec *spec)
{
	switch (spec->pages) {
	case PAGES_THP:
		return "thp";
	case PAGES_4K:
		return "4k";
	case PAGES_2M:
		return "2m";
	case PAGES_1G:
		return "1g";
	default:
		return "auto";
	}
}

struct msg_domain {
	uint32_t domain;
	uint32_t pad;
	struct pool_spec spec;
};

struct msg_client {
	uint64_t number; /* the keeper's, for D_CLIENT_GONE */
	uint32_t domain;
	uint32_t uid;
	uint32_t gid;
	int32_t pid;      /* of the client; 0: of a foreign namespace */
	uint32_t version; /* of the protocol; 0: no hello received yet */
	uint32_t flags;   /* CLIENT_* */
};

#define CLIENT_SEEN 1u  /* by a server that is dead: it may have read */
#define CLIENT_CHILD 2u /* HELLO_CHILD: pid is not its own, but for */
#define CLIENT_MET 4u   /* one that has spoken since: it is */

struct msg_segment {
	uint32_t domain;
	uint32_t number; /* counts the keeper's segments of all domains */
	uint64_t offset; /* in the domain's pool */
	uint64_t size;
	uint64_t huge;  /* of size, in huge pages; in D_SEGMENT alone */
	uint32_t place; /* place.h: where its pages were found to lie */
	uint32_t pad;
};

/*
 * Lanes: the parts of a pool's addresses, all of one size. The memory of lane
 * n + 1 lies on node n, page by page; that of lane 0 on several nodes or,
 * where the machine has no more than one, on that one. So a storage, which is a
 * range of addresses, lies on one node from end to end, and the node of an
 * address is known without a table.
 */
#define LANES_MAX 128u /* a power of two above NODES_MAX */

static inline uint32_t lane_of_node(int node)
{
	return (uint32_t)node + 1;
}

/* -1: of lane 0. */
static inline int node_of_lane(uint32_t lane)
{
	return (int)lane - 1;
}

struct msg_grow {
	uint32_t domain;
	uint16_t lane;   /* where the memory is wanted */
	uint16_t strict; /* 1: there or nowhere; 0: or in another */
	uint64_t bytes;  /* at least so many more at the lane's end, or */
	uint64_t whole;  /* so many anywhere, in one piece; 0: as bytes */
	uint64_t own;    /* what storages have now beside all pools */
};

struct msg_grown {
	uint32_t domain;
	int32_t error;  /* 0, or an errno with text behind */
	uint32_t lane;  /* that has grown, or could not */
	uint32_t flags; /* GROWN_* */
	char text[];
};
/* It is the node that is the limit: other memory does not help. */
#define GROWN_NODE 1u

struct msg_loader {
	uint32_t domain;
	uint32_t uid;
	int32_t pid;         /* 0 in the request */
	uint32_t n_segments; /* it has mapped those numbered below */
	uint32_t number;     /* of all loaders, from 1: table_storage.loader */
	uint32_t pad;
};

/*
 * Descriptors that must outlive the server are held by the keeper too, from
 * before anything in a table leads to them: a message in the socket survives
 * its sender.
 */
enum fd_kind {
	FD_OF_STORAGE = 1,  /* the memfd of storage a, generation b */
	FD_OF_LEASES = 2,   /* one more lease memfd of client number b */
	FD_OF_PRESSURE = 3, /* trigger a of pressure.h: of no domain */
	FD_OF_DEVICE = 4,   /* of storage a, generation b: a device's memory, by
			     * the client's word; its close() may block */
};

struct msg_fd_key {
	uint32_t domain;
	uint32_t kind; /* enum fd_kind */
	uint64_t a;
	uint64_t b;
};

struct msg_drain {
	/* Clients that are gone, of which the keeper has not been told, as
	 * descriptors in their sockets are unread. */
	uint32_t n_gone;
};

struct msg_drained {
	uint32_t waiting; /* 1: a client came; serve on. 0: no listener */
};

struct msg_job {
	uint64_t job;
};

struct msg_forget {
	uint32_t number; /* of the segment */
	uint32_t pad;
};

/* L_FILE */
struct msg_file {
	uint64_t job;
	struct file_version seen; /* as in msg_load */
	/* Not 0: it is no file, but so many bytes of the pool, or, with a
	 * descriptor, those of a sealed memfd. */
	uint64_t copy_size;
	uint64_t copy_offset;
};

struct msg_identity {
	uint64_t job;
	struct file_identity file;
	uint32_t not_kept; /* enum not_kept */
	uint32_t pad;
};

struct msg_fill {
	uint64_t job;
	uint64_t alloc_offset; /* pool bytes that it may write, and no other */
	uint64_t alloc_size;
	uint32_t n_ranges;
	uint32_t pad;
};

struct msg_fill_range {
	uint64_t file_offset;
	uint64_t size;
	uint64_t pool_offset; /* where byte file_offset lands */
};

struct msg_progress {
	uint64_t job;
	uint64_t bytes;
};

struct msg_filled {
	uint64_t job;
	uint64_t bytes;
	uint64_t cpu_ns;
	uint32_t flags; /* LOADED_DIRECT | LOADED_REGISTERED | LOADED_URING */
	uint32_t pad;
};

struct msg_failed {
	uint64_t job;
	int32_t error;
	uint32_t pad;
	char text[];
};

/* A segment as the keeper maps it and its children inherit it. */
struct mapped_segment {
	uint32_t domain;
	uint32_t number;
	uint64_t offset; /* in the pool */
	uint64_t size;
	void *addr; /* writable */
	uint32_t place;
};

/*
 * The loader's life: from the fork to _exit. sock is its end of the
 * socketpair; pipe_fd the only write end of the keeper's pipe, which must stay
 * open as long as the kernel may still write for this process; segments are
 * those of its domain, sorted by offset, which it unmaps on request. When the
 * socket ends it finishes what is in flight and returns the exit status.
 */
int loader_run(int sock, int pipe_fd, struct mapped_segment *segments,
	uint32_t n_segments);
