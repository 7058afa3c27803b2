/* SPDX-License-Identifier: MIT */
/*
 * Reports: what a daemon holds and does, for people on call and monitoring.
 *
 *	struct tarn_report *report = NULL;
 *
 *	if (tarn_store_get_report(store, &report) >= 0)
 *		printf("%u pools\n", report->n_pools);
 *	report = tarn_report_free(report);
 *
 * A report is a copy, made at one moment. It tells the whole of the daemon in
 * sums, and one by one the pools, clients and loads that the caller may know
 * of: those of its own user; for root and the daemon's own user, all.
 *
 * Times are in milliseconds, sizes in bytes, counters count since the server
 * began. Bytes of storages are what people put in; memory is what was taken
 * for them, in whole pages.
 */
#pragma once

#include <stdint.h>

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Storages by what holds them; the first five make up all of them. */
struct tarn_report_sums {
	uint64_t named;	      /* names lead to them */
	uint64_t cached;      /* loaded files without a name: go when need be */
	uint64_t unnamed;     /* only leases hold them */
	uint64_t filling;     /* loads under way */
	uint64_t quarantined; /* a dead loader's ring may still write them */
	uint64_t created;     /* of all the above: by clients, never evicted */
};

struct tarn_report_daemon {
	uint64_t instance;
	int32_t keeper_pid;
	int32_t server_pid;
	uint32_t protocol; /* the newest that it speaks */
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
	uint64_t loads_cached; /* of these: nobody had to read */
	uint64_t loads_failed;
	uint64_t loads_active;
	uint64_t bytes_loaded;
	uint32_t clients;
	uint32_t loaders; /* processes that read files */
	uint32_t pools;
	uint32_t draining; /* 1: it takes no new loads, and ends */
	char engine[16]; /* of its event loop: "io_uring", "epoll" */
	char version[16];
	uint32_t upgrades; /* of the keeper to another program, by SIGUSR2 */
	uint32_t pad;	   /* 0 */
	uint64_t own_memory; /* of used: memfds, one a storage; 0: not told */
	uint64_t reserved[4]; /* 0 */
};

struct tarn_report_pool {
	char name[48]; /* "uid:1000": that user's own */
	uint32_t rule; /* the number of its access rule */
	uint32_t uid;
	uint32_t gid;
	uint32_t mode; /* of a file: who publishes (w) and looks up (r) */
	uint64_t size; /* bytes of segments that it may have */
	uint64_t allocated;
	uint64_t used;
	uint64_t page_size;
	uint64_t names;
	uint64_t storages;
	struct tarn_report_sums bytes;
	uint64_t own_memory; /* of used: memfds, one a storage */
	uint64_t evictions;
	uint64_t evicted_bytes;
	uint32_t segments;
	uint32_t clients;
	uint32_t channels;
	uint32_t pad;	      /* 0 */
	uint64_t reserved[3]; /* 0 */
};

struct tarn_report_client {
	uint64_t number; /* of the connection */
	int32_t pid;	 /* 0: of a pid namespace that we do not see; of a
			  * forked child that was not heard yet: its parent's */
	uint32_t uid;
	uint32_t rule; /* its pool's */
	uint32_t protocol;
	uint32_t leases; /* storages that it holds; UINT32_MAX: not counted */
	uint32_t loads;	 /* under way */
	uint64_t leased_bytes;
	uint64_t idle_ms; /* since its last message */
	uint64_t connected_ms;
	uint64_t reserved[2]; /* 0 */
};

enum tarn_report_load_state {
	TARN_LOAD_QUEUED = 1,	   /* waits for a loader, or is identified */
	TARN_LOAD_WAITING = 2,	   /* for memory */
	TARN_LOAD_READING = 3,
	TARN_LOAD_SHARING = 4,	   /* another load reads the same bytes */
	TARN_LOAD_STOPPING = 5,	   /* nobody waits for it any more */
};

struct tarn_report_load {
	char label[192]; /* as its client calls the file; cut */
	uint64_t client; /* the number of the connection; 0: it has left */
	uint32_t rule;
	uint32_t state; /* enum tarn_report_load_state */
	uint64_t done;
	uint64_t total;
	uint64_t running_ms;
	uint64_t reserved[3]; /* 0 */
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
};

/* Asks for a report, which is the caller's, to be given to tarn_report_free.
 * -ENOTSUP: the daemon is older, and has tarn_store_get_status only. Any
 * thread. */
TARN_PUBLIC int tarn_store_get_report(tarn_store *store,
	struct tarn_report **ret);

/* Frees a report, or nothing. Returns NULL. */
TARN_PUBLIC struct tarn_report *tarn_report_free(struct tarn_report *report);

/* ---- checks ---------------------------------------------------------- */

/* What was found; no fault is what there should be. */
struct tarn_check {
	uint64_t names; /* that were looked at */
	uint64_t storages;
	uint64_t bytes;		   /* of storages */
	uint32_t n_faults;	   /* one sentence each */
	uint32_t n_more;	   /* faults beside these */
	const char *const *faults;
};

/*
 * Verifies all that must be true of a store, also after a crash: from outside
 * the tables that this process maps, and from inside the books of the server,
 * for this pool; for root and the daemon's own user, for all. Nobody is
 * stopped, but everybody waits a moment while the server looks. What changes
 * meanwhile is looked at again, and is no fault. The result is the caller's,
 * to be given to tarn_check_free. -ENOTSUP: the daemon is older. -EBUSY:
 * others check all the time. Any thread.
 */
TARN_PUBLIC int tarn_store_check(tarn_store *store, struct tarn_check **ret);

/* Frees a result, or nothing. Returns NULL. */
TARN_PUBLIC struct tarn_check *tarn_check_free(struct tarn_check *check);

#ifdef __cplusplus
}
#endif
