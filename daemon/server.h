/* SPDX-License-Identifier: MIT */
/*
 * The server: one thread, one loop, all the answers.
 *
 * It alone writes the control regions and decides who gets which bytes. Of the
 * bytes themselves it writes only what clients publish in a message or a
 * memfd. It never touches a client's file: of a descriptor
 * that a client sent it asks only F_GETFL, and closing it is left to a thread
 * (closer.h), because even that may block.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "daemon/alloc.h"
#include "daemon/closer.h"
#include "daemon/conf.h"
#include "daemon/internal.h"
#include "daemon/kept.h"
#include "daemon/loop.h"
#include "daemon/options.h"
#include "daemon/server_names.h"
#include "daemon/server_quota.h"
#include "daemon/worker.h"
#include "shm/lease.h"
#include "shm/table.h"

struct server_start {
	struct options options;
	struct config *config; /* the server's own, from the fork on */
	uint64_t instance;
	uint64_t budget;
	uint64_t reach;
	int32_t keeper_pid;
	uint32_t restarts; /* servers that died before this one */
	uint32_t ended;	   /* and that were ended for an upgrade */
	bool upgraded;	   /* the last one was */
	uint32_t upgrades; /* of the keeper, that came about */
	uint64_t began_at; /* the keeper: loop_now() */
	int sock;	   /* to the keeper */
	/* Mapped writable when this process was forked. */
	const struct mapped_segment *segments;
	uint32_t n_segments;
	const struct table *tables; /* by rule */
	uint32_t n_tables;
};

/* From the fork to the end; the exit status. */
int server_run(const struct server_start *start);

#define CLIENT_QUEUE_MAX (4u << 20) /* replies that a client did not read */
#define CLIENT_LEASES_MAX 64u	    /* pages: 8 million leases; picked */
#define CLIENT_LOADS_MAX 64u	    /* at once, for one connection */
#define SERVER_LOADS_MAX 65536u	    /* of all; fewer with few descriptors */

struct server;
struct rule;
struct client;
struct load;
struct publish;
struct faults;
struct server_channel;

/* What a storage is counted as: one of these. */
enum storage_kind {
	KIND_FREE,
	KIND_FILLING,	  /* a load is under way */
	KIND_NAMED,	  /* names lead to it */
	KIND_CACHED,	  /* no name: kept for whoever proves the same file */
	KIND_UNNAMED,	  /* only leases hold it, as far as is known */
	KIND_LET_GO,	  /* it may be that nothing does: see reap() */
	KIND_QUARANTINED, /* a dead loader's ring may still write it */
	STORAGE_KINDS
};

struct storage_sum {
	uint64_t n;
	uint64_t bytes;	 /* their sizes */
	uint64_t memory; /* what was taken for them, whole pages */
};

/* What a rule's storages are, kept up to date by storage_recount. */
struct rule_counts {
	struct storage_sum kinds[STORAGE_KINDS]; /* KIND_FREE: nothing */
	struct storage_sum created; /* of all kinds: by clients */
	struct storage_sum own;	    /* of all kinds: not in the pool */
	uint64_t n_evicted;	    /* since the server began */
	uint64_t bytes_evicted;
};

/* The storages of a kind, the one used longest ago first; index + 1, 0 is
 * none. */
struct storage_list {
	uint32_t first, last;
};

/* Loaded files by what file it was: chains of index + 1. */
struct file_cache {
	uint32_t *buckets;
	uint32_t n_buckets; /* a power of two, or 0 */
	uint32_t n;	    /* storages in all chains */
};

/* What the server knows of a storage beyond the table's entry. */
struct storage_info {
	uint32_t names;	   /* names that lead to it */
	uint32_t flags;	   /* LOADED_*: how it was read */
	uint64_t last_use; /* or when it became what it is: loop_now() */
	struct load *filling;
	uint32_t before, after; /* in the list of its kind: index + 1 */
	uint32_t same;		/* in its chain of the cache: index + 1 */
	uint8_t kind;		/* enum storage_kind: where it is counted */
	bool cached;		/* kept for whoever proves the same file */
	bool findable;		/* in a chain of the cache */
	bool let_go;		/* leases on it are to be looked for */
	bool frozen;		/* it lies where nobody writes any more */
};

struct loader {
	struct rule *rule; /* whose pool it fills */
	struct rule *home; /* of the uid whose files it reads */
	struct loader *next;
	int32_t pid;
	uint32_t number;     /* of all loaders: table_storage.filler */
	uint32_t n_segments; /* it has those numbered below */
	uint32_t n_jobs;
	bool retired; /* a newer one takes the new jobs */
	bool hung;    /* retired for not answering */
	bool busy;    /* inside its callback: not to be freed */
	int sock, pipe_fd;
	uint32_t *forgetting; /* segments that it was told to unmap */
	uint32_t n_forgetting;
	struct loop_watch *watch, *pipe_watch;
	struct wire_reader *reader;
	struct wire_writer *writer;
};

enum segment_life {
	SEGMENT_HERE,
	SEGMENT_LEAVING, /* nothing lies in it; loaders are told */
	SEGMENT_LEFT,	 /* and have it no more; the keeper is told */
	SEGMENT_GONE,
};

/* A segment of a pool as the server has it. */
struct segment {
	struct mapped_segment mapped; /* its number is the keeper's */
	int fd;			      /* O_RDONLY, for clients; -1 when left */
	enum segment_life state;
};

/* When memory was last taken or given back, and what was done since. */
struct shrink {
	uint64_t used, total; /* as they were then */
	uint64_t moved_at;
	int stage; /* 1: trimmed to what stays warm, 2: to nothing */
};

/* An access rule: who may see what lies under it. One for each uid, and one
 * for each pool that has a name. */
struct rule {
	struct server *server;
	struct rule *next;
	uint32_t number;
	struct pool_spec spec;
	/* The account of its user, if it is one's own: server_quota.c. */
	struct quota quota;
	uint64_t used[QUOTA_KINDS];
	struct table table;
	struct table_writer *writer;
	struct alloc *alloc;
	/* Of segments that nobody can write any more: server_frozen.c. */
	struct alloc *frozen;
	uint64_t frozen_seen; /* bytes used there when it was last looked at */
	struct storage_info *infos;
	uint32_t n_infos;
	struct rule_counts counts;
	struct storage_list lists[STORAGE_KINDS];
	struct file_cache cache;
	struct lease_batch batch;
	uint32_t nothing; /* the storage of all that is empty, if cached */
	uint64_t nothing_generation;
	int table_fd;	/* O_RDONLY, for clients; -1 until it is sealed */
	struct segment *segments; /* by the table's number */
	uint32_t n_segments;
	struct msg_grow asked; /* of the keeper, if growing */
	uint64_t coming_until; /* then it is asked again; 0: not */
	uint64_t own_until; /* publications wait for what leaves; 0: none */
	uint32_t n_found; /* of those that a dead server had in the table */
	struct shrink shrink;
	struct client *clients;
	struct load *loads;
	struct publish *publishes; /* that wait, the oldest first */
	struct loader *loaders;
	struct server_channel *channels;
	uint32_t n_channels, n_ephemeral;
	uint64_t channel_words; /* of all of them, that a pass may read */
	bool channels_left;	/* somebody may have left one, or died */
	uint64_t next_channels; /* they are not looked at before */
	struct closer *closer;
	struct worker *worker;
	bool memory_freed;   /* loads that wait may look again */
	uint64_t next_reap;  /* not before, unless memory is needed */
	uint64_t next_check; /* of its user: none before; loop_now() */
	uint32_t n_connected; /* clients of its user, in whatever pool */
	uint64_t round, spent; /* of the server's time: server_share.c */
	bool growing;	     /* the keeper was asked for memory */
	bool loader_wanted;  /* the keeper was asked for a loader */
};

struct client {
	struct rule *rule; /* which it may use, and no other */
	struct rule *home; /* of its uid: whose closer closes its descriptors */
	struct client *next, **here; /* of its rule; what leads to it */
	uint64_t number;
	uint32_t uid;
	uint32_t gid;
	int32_t pid;
	uint32_t version; /* of the protocol; 0 before its hello */
	bool may_write;	  /* load, publish, remove */
	uint64_t held;	  /* bytes of messages, as last counted */
	bool welcome; /* said hello */
	bool seen;    /* a server before this one may have heard it */
	bool resuming; /* not heard before it says WIRE_RESUME */
	bool left_behind; /* it cannot follow: whatever it asks is refused */
	uint64_t came_at, heard_at; /* loop_now() */
	bool gone;    /* to be freed when the loop is back */
	int sock;
	int pid_fd; /* of its process; -1: it cannot be watched */
	struct loop_watch *pid_watch;
	int lease_fd;
	struct lease_page **leases; /* the first is of lease_fd */
	uint32_t n_leases;
	struct loop_watch *watch;
	struct wire_reader *reader;
	struct wire_writer *writer;
	uint32_t n_loads;
	uint32_t n_publishes;   /* that wait */
	uint64_t publish_bytes; /* of their messages */
};

enum load_state {
	LOAD_NEW,	  /* waits for a loader */
	LOAD_IDENTIFYING, /* the loader stats the file */
	LOAD_WAITING,	  /* for memory */
	LOAD_FILLING,	  /* the loader reads */
	LOAD_SHARING,	  /* another load reads the same bytes */
	LOAD_DROPPING,	  /* cancelled: the loader may still write */
};

/* One WIRE_LOAD on its way. */
struct load {
	struct rule *rule;
	struct rule *home; /* of the uid that loads */
	struct load *next;
	struct client *client; /* NULL: it left */
	uint32_t serial;
	uint64_t token; /* of what it publishes */
	uint64_t job;
	enum load_state state;
	struct loader *loader;
	int fds[2]; /* buffered, direct; -1 when there is none */
	uint32_t n_fds; /* that it was charged for */
	struct wire_message message; /* the names are read from it */
	uint32_t n_ranges;
	const struct msg_range *ranges;
	struct name_list names;
	char *label; /* printable */
	uint64_t size; /* of the storage */
	struct msg_identity identity;
	/* from LOAD_FILLING on */
	uint32_t index;
	uint64_t generation;
	uint64_t alloc_offset, alloc_size;
	bool asked_to_grow;
	bool parked; /* waits for memory to come back, asks for none */
	bool told; /* WIRE_LOADING was sent */
	uint64_t asked_at; /* L_FILE is not answered since then; 0: it is */
	uint64_t heard_at; /* when the loader last spoke of it; 0: not yet */
	uint64_t began_at;
	bool moved;	   /* away from a loader that hung */
	bool retried;	   /* after a loader that died */
	struct load *with; /* LOAD_SHARING: whose bytes */
	uint64_t cpu_start; /* of the server */
};

struct server {
	struct server_start start;
	struct loop *loop;
	struct loop_watch *keeper_watch;
	struct wire_reader *reader;
	struct wire_writer *writer;
	struct rule *rules;
	struct expiry *expiry;
	/* Mapped, not yet sealed; the keeper makes one at a time. */
	struct mapped_segment offered;
	struct kept_table kept;
	bool serving; /* it was told all that there is */
	uint32_t n_inherited; /* of start.segments, that were taken over */
	uint64_t next_job;
	uint64_t started_at;
	uint64_t idle_since; /* 0: not idle */
	uint64_t timer_at;   /* 0: it is not set */
	uint64_t sweep_at;   /* see frozen_look */
	bool draining;
	uint64_t drain_until; /* then it ends with loads under way */
	bool asked_to_drain; /* accepts */
	uint64_t n_loads, n_cached, n_failed, bytes_loaded;
	uint64_t allocated;
	uint32_t n_leaving; /* segments on their way to the keeper */
	struct pressure *pressure; /* NULL: the kernel tells nothing */
	uint64_t pressure_at;	   /* when to look at the headroom; 0: never */
	uint32_t n_clients;
	uint32_t n_users; /* that are connected */
	uint64_t round;	  /* server_share.c */
	uint64_t round_events; /* that it had room for so far */
	uint32_t n_left_behind;
	uint32_t n_active; /* loads, those that are being dropped too */
	uint32_t n_publishes; /* that wait */
	uint32_t loads_max;
	uint32_t n_more_leases; /* pages beside the first of each client */
	uint32_t more_leases_max;
};

/* server_keeper.c */
/* Copies of the descriptors go; the caller keeps its own. */
int server_tell_keeper(struct server *server, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);
/* It is readable or writable. */
void server_hear_keeper(void *server, unsigned ready);

/* server_idle.c: between events */
/* Something ended or began: is the daemon idle, drained, in need of a timer? */
void server_look_around(struct server *server);
/* Before each wait of the loop. */
void server_between_turns(void *server);
/* The keeper's answer to being asked to accept nobody. */
void server_drained(struct server *server, const struct msg_drained *message);

/* server_rules.c */
struct rule *rule_find(struct server *server, uint32_t number);
int rule_come(struct server *server, const struct msg_rule *from,
	struct wire_message *m);
/* Its region is sealed: who came before that is served from now on. */
int rule_ready(struct server *server, const struct msg_rule *from,
	struct wire_message *m);
/* Its clients and loaders go; then, when those of all rules have gone, it. */
void rule_leave(struct rule *rule);
void rule_free(struct rule *rule);

/* server_segments.c: the pool's memory */
/* D_SEGMENT_MAP: maps one before it is sealed, and says so. */
int segment_offered(struct server *server, const struct msg_segment *from,
	struct wire_message *m);
/* D_SEGMENT: it is sealed, and ours to give out. */
int segment_come(struct server *server, const struct msg_segment *from,
	struct wire_message *m);
/* Nothing will come of the one that was offered. */
void segment_forget(struct server *server);
/* The keeper has told of all that there are: others went. */
int segments_rebuild(struct rule *rule);
void segments_free(struct rule *rule);
/* Copies size bytes to a place in the pool that was taken (alloc.h), across
 * the borders of segments; from NULL writes zeroes. */
/* The same place as pieces of our memory, malloc'ed. It stays where it is as
 * long as it is taken. */
int pool_pieces(struct rule *rule, uint64_t offset, uint64_t size,
	struct iovec **ret, uint32_t *ret_n);
void pool_write(struct rule *rule, uint64_t offset, const void *from,
	uint64_t size);

/* server_frozen.c: segments of before an upgrade */
/* Takes what a storage has, when rebuilding; and gives it back. */
int memory_retake(struct rule *rule, uint32_t index);
void memory_give(struct rule *rule, uint32_t index);
/* Bytes of segments, and of these taken, frozen ones too. */
uint64_t memory_total(const struct rule *rule);
uint64_t memory_used(const struct rule *rule);
/* Can it be written, of those that are here? */
bool segment_is_frozen(const struct segment *segment);
/* Gives back frozen ones in which nothing lies: how much is going. */
uint64_t frozen_trim(struct rule *rule);
/* Looks for what is held by nobody, where some cannot ring any more; when to
 * look next, 0: never. */
uint64_t frozen_look(struct server *server, uint64_t now);

/* server_shrink.c: segments in which nothing lies */
/* Drops empty ones as long as keep bytes stay free: how much is going. */
uint64_t segments_trim(struct rule *rule, uint64_t keep);
/* One that is here and empty: does it go? */
bool segment_leave(struct rule *rule, struct segment *segment);
/* Trims what has been empty for a while; when to look again, 0: never. */
uint64_t segments_look(struct rule *rule, uint64_t now);
/* A loader has answered, or is new, or is no more. */
void segments_forgotten(struct loader *loader, uint32_t number);
void segments_tell_loader(struct loader *loader);
void segments_settle(struct rule *rule);
int segment_dropped(struct server *server, const struct msg_segment *which);

/* server_kept.c: descriptors that must outlive the server */
/* Takes fd, also when it fails, and gives the keeper a copy: to be called
 * before a table leads to it. */
int server_keep(struct server *server, const struct msg_keep *key, int fd);
/* Borrowed; -1: there is none. */
int server_kept(const struct server *server, const struct msg_keep *key);
void server_forget(struct server *server, const struct msg_keep *key);
/* D_KEPT: what the last server had kept. */
int server_take_kept(struct server *server, struct wire_message *m);

/* server_memory.c: memory of the pool */
/*
 * Takes size bytes, whole pages. 1: *ret_offset is where; 0: wait, the keeper
 * was asked for more, *ret_asked tells if it was now. -ENOSPC, without a
 * sentence: there is none, even where it could not grow (may_grow false) and
 * everything was evicted.
 */
int memory_take(struct rule *rule, uint64_t size, bool may_grow,
	bool *ret_asked, uint64_t *ret_offset);
/* Asks the keeper for memory that takes size bytes in one piece. */
int memory_ask(struct rule *rule, uint64_t size);

/* server_pressure.c: when memory is short */
/* When all was told: triggers of another server may be among it. */
void server_pressure_begin(struct server *server);
/* Looks at the headroom where it is time; when to look next, 0: never. */
uint64_t server_pressure_look(struct server *server, uint64_t now);

/* server_room.c: room where the keeper has none */
/* It refused what the rule had asked for. 1: there is room now; 0: memory is
 * on its way to the keeper, who will be asked again; -ENOSPC: there is none. */
int room_wanted(struct rule *rule);
/* For what is not in a pool: the same, and files that nobody holds are given
 * up for it. 0: publications of the rule will be gone on with; -ENOSPC is
 * without a sentence. */
int room_for_own(struct rule *rule, uint64_t size, bool may_wait);
/* Asks again where it is time; when to look next, 0: never. */
uint64_t room_look(struct server *server, uint64_t now);
/* Gives the system back at least so many bytes, if there are so many that
 * nobody holds; how many. */
uint64_t room_give(struct server *server, uint64_t bytes);
/* What that could be at best. */
uint64_t room_givable(const struct server *server);

/* server_client.c */
int client_new(struct rule *rule, const struct msg_client *from, int sock,
	int lease_fd);
void client_drop(struct client *client, const char *why);
/* It is heard from now on. */
void client_listen(struct client *client);
void client_reply(struct client *client, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds);
/* The sentence of this thread's last failure, as an answer. */
void client_refuse(struct client *client, uint32_t serial, int error);
void client_free(struct client *client);
/* Into a rule's list, and out of it. */
void client_join(struct client *client, struct rule *rule);
void client_leave(struct client *client);

/* server_request.c: what clients ask */
/* The most that the body of such a message may have. */
uint32_t request_largest(uint16_t type);
/* Takes what it needs of the message; 0, or an error with its sentence. */
int request_take(struct client *client, struct wire_message *m);

/* server_pool.c: who may use which pool */
#define POOL_READ 4u
#define POOL_WRITE 2u
struct rule *rule_of_user(struct server *server, uint32_t uid);
/* From now on it belongs to the pool of that name: -EACCES. */
int client_enter(struct client *client, const char *name, size_t size);
/* Sets may_write by the rule that it is under. */
void client_judge(struct client *client);
/* Before whatever changes a pool: -EPERM with a sentence. */
int client_check_write(const struct client *client);

/* server_report.c: what people ask */
void report_status(struct client *client, uint32_t serial);
int report_send(struct client *client, uint32_t serial);

/* server_check.c: WIRE_CHECK */
int check_send(struct client *client, uint32_t serial);
/* Adds what is wrong with one rule, and what was looked at. -ENOMEM. */
int check_rule(struct rule *rule, struct faults *faults,
	struct msg_checked *sum);

/* server_share.c: the server's time, among users */
void share_join(struct client *client);
void share_leave(struct client *client);
/* A turn of the loop begins. */
void share_turn(struct server *server);
/* Is it another user's turn? It is heard in a later one. */
bool share_is_spent(const struct client *client);
void share_spend(struct client *client, uint64_t began);

/* server_process.c: whose end is the client's, too */
void process_watch(struct client *client);
void process_unwatch(struct client *client);

/* server_leases.c: a client's lease pages */
/* Maps them all: more than one after a server has died. */
int leases_open(struct client *client);
void leases_close(struct client *client);
/* The answer to WIRE_LEASES. */
int leases_more(struct client *client, uint32_t serial);
uint32_t leases_count(const struct client *client);
void leases_search(const struct client *client, struct lease_batch *batch);
/* When did it last give one back on that storage, as it says? loop_now(), but
 * not exactly; 0: it does not say. */
uint64_t leases_noted(const struct client *client, uint32_t index,
	uint64_t generation);

/* server_storage.c: who holds what */
struct storage_info *storage_info(struct rule *rule, uint32_t index);
/* Room for what is known of storages up to index. */
int storage_reserve(struct rule *rule, uint32_t index);
int storage_new(struct rule *rule, const struct table_storage *entry,
	enum storage_state state, uint32_t *ret_index, uint64_t *ret_generation);
/* The one way to another state; STORAGE_FREE begins the next generation. */
void storage_set(struct rule *rule, uint32_t index, enum storage_state state);
/* So many names more lead to it; it may have been let go of before. */
void storage_name(struct rule *rule, uint32_t index, uint32_t names);
/* One name fewer leads to it. */
void storage_unname(struct rule *rule, uint32_t index, uint64_t generation);
/* To be freed after this turn of the loop, if no name, no cache and no lease
 * holds it. */
void storage_release(struct rule *rule, uint32_t index);
void storage_released_by_client(struct rule *rule, uint32_t index,
	uint64_t generation);
int storage_remove_name(struct rule *rule, const char *name, size_t size);

/* Nobody's until the pipe of its filler ends. */
void storage_quarantine(struct rule *rule, uint32_t index);
/* That pipe has ended: what it may have written is free. */
void storage_end_quarantine(struct rule *rule, uint32_t filler);

/* server_rebuild.c: after another server */
/* A name that the table has, when it is taken over: counts it. -ENOMEM. */
int rebuild_name(void *rule, const struct tarn_descriptor *descriptor);
/* Everything was told: makes its own books from the tables. Must not be
 * survived when it fails. */
int server_rebuild(struct server *server);

/* server_resume.c: clients of another server */
void client_resume(struct client *client);
int client_resumes(struct client *client, const struct wire_message *m);
/* Why it is not served: -ESTALE. */
int client_left_behind(const struct client *client);

/* server_count.c: storages by what holds them */
/* After its state, its names, its flags or info->cached have changed. Its
 * size never does. */
/* What is taken for it, in whole pages. */
uint64_t storage_memory(const struct table_storage *entry);
void storage_recount(struct rule *rule, uint32_t index);
/* What it is now, by what holds it. */
enum storage_kind storage_kind(const struct rule *rule, uint32_t index);
/* It was used just now: the last of its kind to go. */
void storage_used(struct rule *rule, uint32_t index);
/* Storages that are KIND_CACHED, each once, were used at such times: they take
 * their places among the others. Changes the order of uses. */
struct storage_use {
	uint32_t index;
	uint64_t at; /* loop_now() */
};
void storages_used(struct rule *rule, struct storage_use *uses, uint32_t n);
/* The one used longest ago, and the next; UINT32_MAX: there is none. */
uint32_t storage_first(const struct rule *rule, enum storage_kind kind);
uint32_t storage_after(const struct rule *rule, uint32_t index);
uint64_t storage_count_all(const struct rule *rule);

/* server_reap.c: what nobody holds goes back */
/* Frees what was let go of and is not leased. True: memory came back. */
bool reap(struct rule *rule);
/* The same after a turn of the loop, if it is not too soon after a long one:
 * then *ret_at is when to look again. */
bool reap_in_turn(struct rule *rule, uint64_t *ret_at);
/* A client left: what only leases hold may be held by nobody now. */
void reap_unnamed(struct rule *rule);
/* Which of n storages are leased at this moment: one pass over all pages. As
 * none is marked FREEING, it is only a guess at what reap() would find. */
void reap_find_leased(struct rule *rule, const uint32_t *indices, uint32_t n,
	bool *ret_leased);
/* Which of n storages does this client hold, at this moment? One pass over its
 * pages. Without memory: none. */
void client_find_held(struct client *client, const uint32_t *indices,
	const uint64_t *generations, uint32_t n, bool *ret_held);

/* server_channel.c: rings between processes */
/* The storage is a channel that is published now; fd is borrowed. -EPROTO: it
 * makes no sense; -ENOSPC: there are too many. */
int channel_open(
	struct rule *rule, uint32_t index, uint64_t generation, int fd);
/* It was published before. -ENOMEM. */
int channel_rebuild(
	struct rule *rule, uint32_t index, uint64_t generation, int fd);
/* Its storage is free, if it was one. */
void channel_drop(struct rule *rule, uint32_t index, uint64_t generation);
void channels_free(struct rule *rule);
/* Which of the batch do items keep? Before other places are searched. */
void channels_search(const struct rule *rule, struct lease_batch *batch);
bool channel_is(const struct rule *rule, uint32_t index, uint64_t generation);
/* Is it a channel that is closed? Another may take its name. */
bool channel_gives_way(
	const struct rule *rule, uint32_t index, uint64_t generation);
/* Before d's name is taken by something else: -EBUSY, if it is an open
 * channel's, since its users would be left with nobody to meet. */
int channel_check_taken(const struct rule *rule, const char *verb,
	const char *name, size_t size, const struct tarn_descriptor *d);
void channel_named(struct rule *rule, uint32_t index, uint64_t generation,
	const char *name, size_t size);
/* WIRE_CHANNEL */
void channel_who(struct client *client, uint32_t serial);

/* server_channel_look.c: what the dead held in them */
/* After a turn of the loop in which channels_left was set, if it is not too
 * soon after a long look: then *ret_at is when to look again. */
void channels_in_turn(struct rule *rule, uint64_t *ret_at);

/* server_cache.c: loaded files */
/* Keeps a storage until room is needed or time has passed, and finds it for
 * who proves the file that its entry names, if it names one. */
void cache_keep(struct rule *rule, uint32_t index);
/* Keeps it no longer, and releases it. */
void cache_drop(struct rule *rule, uint32_t index);
/* Is it that generation still, and kept? */
bool cache_has(const struct rule *rule, uint32_t index, uint64_t generation);
bool cache_find(const struct rule *rule, const struct msg_identity *id,
	uint64_t file_offset, uint64_t size, uint32_t *ret);
void cache_free(struct rule *rule);

/* server_evict.c: which loaded file goes */
/* The least recently used that nobody holds, of that uid's, or of all;
 * UINT32_MAX: there is none. */
#define OWNER_ANY UINT32_MAX /* nobody's */
uint32_t cache_oldest(struct rule *rule, uint32_t owner);
/* This one, which is cached and not leased. */
void cache_evict(struct rule *rule, uint32_t index, const char *why);
/* The oldest of all: true if there was one. */
bool cache_evict_one(struct rule *rule);
void cache_evict_idle(struct rule *rule, uint64_t older_than);
/* What it holds it has used until now, and what it has noted goes with it. */
void cache_hear_last(struct client *client);

/* server_expiry.c: names that were published for a time */
int expiry_new(struct server *server);
void expiry_free(struct server *server);
/* Sets the timer to what ends first; before each wait of the loop. */
void expiry_set(struct server *server);

/* server_own.c: storages with a memfd of their own */
/* Are there descriptors for one more? */
bool own_has_room(const struct server *server);
uint64_t own_memory(const struct server *server); /* of all of them */
/* For one more: 1; 0: wait, as for memory; -ENOSPC. */
int own_find_room(struct rule *rule, uint64_t size, bool may_wait);
/* An entry that is FILLING, and its descriptor, which is kept. Takes fd. */
int own_add(struct rule *rule, const struct table_storage *entry, int fd,
	uint32_t *ret_index, uint64_t *ret_generation);
/* It is free now. */
void own_drop(struct rule *rule, uint32_t index, uint64_t generation);
int own_send(struct client *client, const struct wire_message *m);
/* It is a channel: as the two of server_channel.c. */
int own_open_channel(struct rule *rule, uint32_t index, uint64_t generation);
int own_rebuild_channel(struct rule *rule, uint32_t index);

/* server_load.c and its like: the life of a load */
void load_start(struct client *client, struct wire_message *message);
void load_cancel(struct client *client, uint32_t serial);
void load_orphan(struct client *client); /* its client left */
void load_have_memory(struct rule *rule);
void load_no_memory(struct rule *rule, int error);
void load_identified(struct load *load, const struct msg_identity *identity);
void load_filled(struct load *load, const struct msg_filled *filled);
void load_failed(struct load *load, int error);
void load_dropped(struct load *load);
void load_lost(struct load *load); /* its loader died */
void load_progress(struct load *load, uint64_t bytes);
void load_go_on(struct rule *rule); /* a loader came, or memory */
void load_move(struct load *load); /* to another loader: this one hangs */
struct load *load_by_job(struct rule *rule, uint64_t job);

/* server_load_parse.c */
int load_parse(struct load *load);

/* server_publish.c: what clients publish */
void publish_start(struct client *client, struct wire_message *message);
void publish_orphan(struct client *client); /* its client left */
/* Those that wait for memory; freed: some came back. */
void publish_go_on(struct rule *rule, bool freed);
void publish_have_memory(struct rule *rule);
void publish_no_memory(struct rule *rule, int error);

/* server_loader.c: the server's end of loaders */
struct loader *loader_for(
	struct rule *rule, struct rule *home, uint32_t n_segments);
int loader_come(struct rule *rule, const struct msg_loader *from, int sock,
	int pipe_fd);
int loader_tell(struct loader *loader, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds);
/* D_LOADER_LEFT: one of a server before this one. */
int loader_left(struct rule *rule, const struct msg_loader *from, int pipe_fd);
bool loader_writes(const struct rule *rule, uint32_t number); /* may it? */
void loader_job_done(struct loader *loader);
/* Replaces the loader that a dead file system holds. */
void loader_check(struct rule *rule, uint64_t now);
void loader_free_all(struct rule *rule);
