/* SPDX-License-Identifier: MIT */
/*
 * Reports: what a daemon holds and does, for people on call and monitoring.
 *
 *	struct tarn_report *report = NULL;
 *
 *	if (tarn_store_report(store, &report) >= 0)
 *		printf("%u pools\n", report->n_pools);
 *	report = tarn_report_free(report);
 *
 * A report is a copy, made at one moment. It has sums for the whole daemon, and
 * one record for each pool, client and load that the caller may know of: those
 * of its own user; for root and the daemon's own user, all.
 *
 * Times are in milliseconds, sizes in bytes, counters count since the server
 * began. Bytes of storages are the bytes of their content; memory is what was
 * allocated for them, in whole pages. Memory of devices is counted apart.
 */
#pragma once

#include <stdint.h>

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Storages by their holders; the first five make up all of them. */
struct tarn_report_sums {
	uint64_t named;	      /* held by names */
	uint64_t cached;      /* loaded files without a name: evictable */
	uint64_t unnamed;     /* held only by leases */
	uint64_t filling;     /* of loads under way */
	uint64_t quarantined; /* a dead loader's ring may still write them */
	uint64_t created;     /* of all the above: by clients, never evicted */
};

struct tarn_report_daemon {
	uint64_t instance;
	int32_t keeper_pid; /* this and all pids are 0 for a process of */
	int32_t server_pid; /* another pid namespace, where the number means
			     * another process */
	uint32_t protocol; /* the newest that it supports */
	uint32_t restarts; /* servers that died since the keeper began */
	uint64_t uptime_ms;
	uint64_t server_uptime_ms;
	uint64_t budget;    /* bytes that it may take: allocated + own_memory */
	uint64_t allocated; /* bytes of segments */
	uint64_t used;	    /* memory of storages: own_memory, else segments */
	uint64_t names;
	uint64_t storages;
	struct tarn_report_sums bytes;
	uint64_t evictions;
	uint64_t evicted_bytes;
	uint64_t loads; /* that succeeded */
	uint64_t loads_cached; /* of these: no process had to read */
	uint64_t loads_failed;
	uint64_t loads_active;
	uint64_t bytes_loaded;
	uint32_t clients;
	uint32_t loaders; /* processes that read files */
	uint32_t pools;
	uint32_t draining; /* 1: it takes no new loads, and ends */
	/* The I/O engine of its loaders: "io_uring", "threads", or "both" if
	 * they differ; "" if the server has read none yet. */
	char engine[16];
	char version[16];
	uint32_t upgrades; /* of the keeper to another program, by SIGUSR2 */
	uint32_t pad;	   /* 0 */
	uint64_t own_memory; /* of used: memfds, one a storage; 0: unknown */
	uint64_t pid_namespace; /* inode of its pid namespace; 0: unknown */
	char loop[16];	     /* its server's event loop: "io_uring", "epoll" */
	/* Settings inherited from the process that started it that could not be
	 * undone: "nice 10; CPU time 3 s"; "" is usual. See tarnd(8). */
	char inherited[120];
	/* Storages in memory of devices, and bytes there: in storages, and in
	 * none of the other numbers of bytes. */
	uint64_t device_storages;
	uint64_t device_memory;
	uint64_t reserved[6]; /* 0 */
};

#define TARN_REPORT_NODES 64

/* The key node of tarnd.conf. */
enum tarn_report_node_policy {
	TARN_REPORT_NODE_AUTO = 0,
	TARN_REPORT_NODE_LOCAL = 1,
	TARN_REPORT_NODE_INTERLEAVE = 2,
	TARN_REPORT_NODE_ONE = 3,
};

struct tarn_report_pool {
	char name[48]; /* "uid:1000": that user's own */
	uint32_t domain; /* the number of its access domain */
	uint32_t uid;
	uint32_t gid;
	uint32_t mode; /* of a file: who may publish (w) and look up (r) */
	uint64_t size; /* bytes of segments that it may have */
	uint64_t allocated;
	uint64_t used;
	uint64_t page_size; /* the least: that of the reserve, or 4 KiB */
	uint64_t names;
	uint64_t storages;
	struct tarn_report_sums bytes;
	uint64_t own_memory; /* of used: memfds, one a storage */
	uint64_t evictions;
	uint64_t evicted_bytes;
	uint32_t segments;
	uint32_t clients;
	uint32_t channels;
	uint32_t channels_idle; /* of them: without participants */
	/* Of allocated: in huge pages, reserved or transparent, when they were
	 * taken; by the kernel's figures. */
	uint64_t huge;
	char pages[8]; /* as in tarnd.conf(5): "auto", "2m" */
	uint64_t device_memory; /* as the daemon's, of this pool */
};

/* Where the segments of a pool lie, and how they are sealed. */
struct tarn_report_nodes {
	uint32_t n; /* NUMA nodes with memory; 0: the daemon is older */
	uint32_t policy; /* enum tarn_report_node_policy */
	uint32_t node; /* of TARN_REPORT_NODE_ONE */
	uint32_t registers; /* 1: register = yes, see tarnd.conf(5) */
	/* Of the pool's allocated: on each node, every page looked up; page by
	 * page on several; not looked up. */
	uint64_t on_node[TARN_REPORT_NODES];
	uint64_t on_several;
	uint64_t on_unknown;
	uint64_t reserved[4]; /* 0 */
};

struct tarn_report_client {
	uint64_t number; /* of the connection */
	int32_t pid;	 /* 0: of a pid namespace that the caller or the daemon
			  * does not see; of a forked child that has not sent a
			  * message yet: its parent's */
	uint32_t uid;
	uint32_t domain; /* its pool's */
	uint32_t protocol;
	uint32_t leases; /* storages that it holds; UINT32_MAX: not counted */
	uint32_t loads;	 /* under way */
	uint64_t leased_bytes;
	uint64_t idle_ms; /* since its last message */
	uint64_t connected_ms;
	uint64_t reserved[2]; /* 0 */
};

enum tarn_report_load_state {
	TARN_REPORT_LOAD_QUEUED = 1,  /* for its turn, a loader, or to be
				      * identified */
	TARN_REPORT_LOAD_WAITING = 2, /* for memory */
	TARN_REPORT_LOAD_READING = 3,
	TARN_REPORT_LOAD_SHARING = 4,  /* another load reads the same bytes */
	TARN_REPORT_LOAD_STOPPING = 5, /* no client waits for it any more */
};

struct tarn_report_load {
	char label[192]; /* the file's name as its client gave it; cut */
	uint64_t client; /* the number of the connection; 0: it has left */
	uint32_t domain;
	uint32_t state; /* enum tarn_report_load_state */
	uint64_t done;
	uint64_t total;
	uint64_t running_ms;
	/* While it waits for its pool to grow: bytes that have been taken from
	 * the system, of those that are wanted. Else both are 0. */
	uint64_t memory_ready;
	uint64_t memory_wanted;
	uint64_t reserved[8]; /* 0 */
};

struct tarn_report {
	struct tarn_report_daemon daemon;
	const struct tarn_report_pool *pools;
	const struct tarn_report_client *clients;
	const struct tarn_report_load *loads;
	uint32_t n_pools;
	uint32_t n_clients;
	uint32_t n_loads;
	uint32_t cut; /* 1: there are more loads than were sent */
	const struct tarn_report_nodes *nodes; /* one for each of the pools */
};

/* Gets a report, which the caller gives back with tarn_report_free. Any
 * thread. */
TARN_PUBLIC int tarn_store_report(tarn_store *store, struct tarn_report **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Frees a report. Takes NULL and returns NULL. */
TARN_PUBLIC struct tarn_report *tarn_report_free(struct tarn_report *report);

/* ---- checks ---------------------------------------------------------- */

/* The result of a check; n_faults 0 is a good one. */
struct tarn_check {
	uint64_t names; /* that were checked */
	uint64_t storages;
	uint64_t bytes;		   /* of storages */
	uint32_t n_faults;	   /* one sentence each */
	uint32_t n_more;	   /* faults beyond these */
	const char *const *faults;
};

/*
 * Makes the server verify the invariants of its tables and its accounts, which
 * hold even after a crash: for this pool, or for all pools if the caller is
 * root or the daemon's own user. Other clients wait a moment meanwhile. The
 * caller owns the result and frees it with tarn_check_free. -EBUSY: other
 * clients check all the time. Any thread.
 */
TARN_PUBLIC int tarn_store_check(tarn_store *store, struct tarn_check **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Frees a result. Takes NULL and returns NULL. */
TARN_PUBLIC struct tarn_check *tarn_check_free(struct tarn_check *check);

#ifdef __cplusplus
}
#endif
