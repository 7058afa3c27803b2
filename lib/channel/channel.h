/* SPDX-License-Identifier: MIT */
/*
 * The internals of a channel.
 *
 * A handle is an object that is counted twice: by its users (handles), the last
 * of which leaves the ring, and by all that needs its memory (refs): the handle
 * itself, members, slots and items whose tensors outlive them.
 *
 * It has two sides, a producer's and a consumer's, each with a lock and, once
 * it has joined, a member: one participation in the ring. A slot or item
 * belongs to the member that acquired or received it, so a handle may leave,
 * and join again as another participant, while its items are still read. A
 * thread uses a member's struct ring only with the lock of its side, and does
 * not sleep or take another lock while it holds that.
 *
 * Forks. A member belongs to the process that it joined in. The child's count
 * of lives is one more than its parent's (store_fork.c holds both locks
 * meanwhile), and it leaves objects of an earlier life alone: they belong to
 * its parent.
 */
#pragma once

#include <tarn/channel.h>

#include "lib/channel/adaptive_lock.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"
#include "shm/channel.h"
#include "shm/ring.h"

/* Freed slots, or items, of a side that are kept for reuse. Picked: a caller
 * with more of them in use at once does more work with each than an allocation
 * costs. */
#define CACHED_MAX 16
/* With reuse the sanitizer would not find a use of a slot or item that has
 * ended. */
#ifdef __SANITIZE_ADDRESS__
#define CACHES 0
#else
#define CACHES 1
#endif

/* The words of a record before its sizes. */
#define RECORD_HEADER (offsetof(struct tarn_descriptor, shape) / 8)

/* Each member has a reference to the channel. */
struct member {
	struct ring ring;
	unsigned life; /* the channel's, when it joined */
	/* All with the side's lock. */
	uint32_t refs; /* its side, its slots and items, waiting threads */
	uint32_t out;  /* slots or items that it holds */
	bool left;
};

struct side {
	struct adaptive_lock lock;
	unsigned kind;                     /* RING_PRODUCER or RING_CONSUMER */
	struct member *member;             /* NULL: has not joined */
	tarn_slot *slots;                  /* producer: those being filled */
	struct notifier *_Atomic notifier; /* NULL: no one polls */
	void *cached[CACHED_MAX];          /* tarn_slot or tarn_item, free */
	unsigned n_cached;
};

struct tarn_channel {
	atomic_uint handles, refs;
	tarn_store *store; /* a reference */
	char *name;
	uint32_t index; /* the storage, leased */
	uint64_t generation;
	struct channel_map map;
	struct ring ring; /* attached; has not joined */
	unsigned life;
	struct side producer, consumer;
	/* For each slot, how many of its bytes this process has certainly
	 * mapped; NULL for small slots. The producer that has the slot owns its
	 * entry. */
	uint64_t *mapped;
	/* The header of nearly every record, as words, but for the bits of
	 * template_free. */
	uint64_t template[RECORD_HEADER], template_free;
	bool sparse;    /* not all of its slots were there when it was mapped */
	_Atomic int fd; /* of its memory, after the first request; -1 */
	/* Of map.bytes, copy-on-write; NULL: none yet. */
	_Atomic(unsigned char *) twin;
	pthread_mutex_t mapping; /* guards what follows */
	bool bytes_writable;
	struct fork_hook fork_hook;
};

struct tarn_slot {
	tarn_storage storage;  /* its part: the whole slot */
	tarn_channel *channel; /* a reference once it has ended */
	struct member *member; /* NULL: it has ended */
	tarn_slot *next, **previous;
	uint32_t slot;
	bool holds;    /* storages of the pool */
	bool attached; /* otherwise the slot has the reference of first */
	uint64_t used;
	struct ring_note note;
	tarn_tensor first; /* memory of the first tensor, once attached */
	/* When a handle is reused, the layout of first is nearly always right
	 * already: this many bytes in C order; 0: not made yet. */
	uint64_t first_size;
};

struct tarn_item {
	tarn_storage storage; /* as above */
	tarn_channel *channel;
	struct member *member;
	struct ring_item item;
	atomic_uint handles;  /* the callers'; together one of storage.refs */
	atomic_bool attached; /* set by the first thread that asks */
	tarn_tensor first;
	uint64_t first_size; /* as above */
	struct storage_guard guard;
};

/* ---- channel.c -------------------------------------------------------- */

tarn_channel *channel_hold(tarn_channel *channel);
void channel_release(tarn_channel *channel);
/* Puts "channel 'x': " in front of the sentence. */
int channel_fail(const tarn_channel *channel, int r);

/* A ring's positions start at some number, and have 48 bits; those of the API
 * count the publications before. */
static inline uint64_t channel_position(
	const tarn_channel *channel, uint64_t position)
{
	return (position - channel->ring.order_size) & ((1ull << 48) - 1);
}

/* ---- channel_map.c ---------------------------------------------------- */

/* Smaller slots are faulted in as fast as with a call. */
#define CHANNEL_MAP_MIN (64ull << 10)

/* Maps the leased storage; *ret_closed: no item will come any more. */
int channel_map_storage(tarn_channel *channel, bool *ret_closed);
void channel_unmap(tarn_channel *channel);
/* Maps the bytes of a slot copy-on-write; whatever the result, the caller ends
 * map. */
int channel_map_cow(
	tarn_channel *channel, uint32_t slot, struct cow_map *map, void **ret);
/* The bytes of a slot in the channel's twin: another mapping of all slots,
 * copy-on-write, made at the first request. -ENOTSUP: that is not possible. */
int channel_map_twin(tarn_channel *channel, uint32_t slot, void **ret);
/* Makes the bytes of the slots writable from here on. */
int channel_map_writable(tarn_channel *channel);
/* Maps the first bytes of a slot, up to end, which a producer is about to
 * write, in one call where each page would otherwise be a fault. -ENOMEM. The
 * caller has checked channel->mapped. */
int channel_map_slot(tarn_channel *channel, uint32_t slot, uint64_t end);
/* For the child of a fork, which has none of those pages mapped. */
void channel_map_forget(tarn_channel *channel);

/* ---- channel_info.c --------------------------------------------------- */

/* Was its last name removed? */
bool channel_is_unlinked(const tarn_channel *channel);

/* ---- channel_create.c ------------------------------------------------- */

/* Makes a channel and publishes it. -EEXIST: another process was faster. */
int channel_create(tarn_store *store, const char *name,
	const struct tarn_channel_options *options);

/* ---- leave.c ----------------------------------------------------------- */

/* A participant of this process has left: the daemon may have to be
 * notified. */
void channel_leave(tarn_channel *channel);
/* The same for a caller that drops its last item or slot where no wait is
 * expected, such as in a destructor: it does not wait for the daemon. */
void channel_leave_async(tarn_channel *channel);
/* Waits until the daemon has done so, unless the daemon hangs. For a caller
 * that looks a name up: it must not find one whose channel it has ended
 * itself. */
void channel_await_leaves(struct tarn_store *store);
/* Asks for this connection's ring owner once more, which makes the daemon check
 * who is left and which channels have ended. The daemon has done so on return,
 * unless it is too busy. */
void channel_sync(tarn_channel *channel);

/* ---- member.c --------------------------------------------------------- */

void side_init(struct side *side, unsigned kind);
void side_done(struct side *side);
int side_join(tarn_channel *channel, struct side *side);
/* at_once: slots that are being filled are taken away; otherwise, and for
 * items, the member leaves with the last of them. */
void side_leave(tarn_channel *channel, struct side *side, bool at_once);
/* With the lock, and with a reference to the channel, since it may drop one. */
void member_unref(tarn_channel *channel, struct member *member);
/* As member_unref. The member holds one slot or item less. True: it was the
 * last, so call channel_leave_async() without the lock. */
bool member_give(tarn_channel *channel, struct member *member);

/* With the lock. The member holds one slot or item more. */
static inline void member_take(struct member *member)
{
	member->refs++;
	member->out++;
}

/* Did it join in this process? */
static inline bool member_is_ours(
	const tarn_channel *channel, const struct member *member)
{
	return member->life == channel->life;
}

/*
 * Calls look until it returns something else than 0, with the lock and a member
 * of this process, which joins first if necessary. what: the sentence for a
 * timeout.
 */
typedef int (*side_look)(struct member *member, void *arg);

/* The part of side_wait after the first look, which returned r (0 also if there
 * was no member). With the lock, which it releases. */
int side_wait_on(tarn_channel *channel, struct side *side, int r,
	int timeout_ms, side_look look, void *arg, const char *what);

/* In nearly every call the first look is all; it is inline, so that the
 * compiler can merge it with the look. */
static inline int side_wait(tarn_channel *channel, struct side *side,
	int timeout_ms, side_look look, void *arg, const char *what)
{
	struct member *member;
	int r = 0;

	adaptive_lock_take(&side->lock);
	member = side->member;
	if (__builtin_expect(member != NULL, 1))
		r = look(member, arg);
	if (__builtin_expect(r <= 0, 0))
		return side_wait_on(
			channel, side, r, timeout_ms, look, arg, what);
	adaptive_lock_give(&side->lock);
	return 0;
}

struct side *channel_side(tarn_channel *channel, unsigned role);
/* The value for ring_wait.deadline_ns; and the error after it has passed. */
uint64_t wait_until(int timeout_ms);
int wait_timed_out(
	const tarn_channel *channel, int timeout_ms, const char *what);

/* ---- kept handles, with the lock --------------------------------------- */

/* A handle for reuse, or NULL. It stays in the list until cache_take(). */
static inline void *cache_top(const struct side *side)
{
	return side->n_cached ? side->cached[side->n_cached - 1] : NULL;
}

/* Adds a new handle, since there was none. */
static inline void cache_add(struct side *side, void *handle)
{
	side->cached[side->n_cached++] = handle;
}

static inline void cache_take(struct side *side)
{
	side->n_cached--;
}

/* Puts back a handle that has ended. False: the caller must free it. */
static inline bool cache_put(struct side *side, void *handle)
{
	if (!CACHES || side->n_cached == CACHED_MAX)
		return false;
	side->cached[side->n_cached++] = handle;
	return true;
}

/* ---- channel_fd.c ------------------------------------------------------- */

/* Nothing was there: makes the descriptor readable when there is something
 * again. */
void notifier_arm(struct notifier *notifier);
/* Both take NULL. notifier_forget: for the child of a fork. */
void notifier_stop(struct notifier *notifier);
void notifier_forget(struct notifier *notifier);

/* ---- record.c --------------------------------------------------------- */

/* After mapping: computes the usual header of the channel's records. */
void record_begin(tarn_channel *channel);

/* Writes this descriptor as the record of the i-th tensor of an item. */
void record_put(tarn_channel *channel, uint32_t slot, uint32_t i,
	const struct tarn_descriptor *descriptor);
/* The same for a tensor in the slot. c_order: its layout is in C order for its
 * sizes. */
void record_put_in_slot(tarn_channel *channel, uint32_t slot, uint32_t i,
	uint64_t base, const struct tarn_layout *layout, bool c_order);
/* 1: the tensor lies in the slot, from *ret_base on, with all that *ret_layout
 * reaches; 0: it is described by *ret, which is not checked. Both are copies.
 * -EBADMSG. *known_size: 0, or the size for which *ret_layout was made before,
 * as in layout_stands(). */
int record_get(const tarn_channel *channel, uint32_t slot, uint32_t i,
	struct tarn_descriptor *ret, uint64_t *ret_base,
	struct tarn_layout *ret_layout, uint64_t *known_size);

/* ---- item_leases.c ------------------------------------------------- */

/* Makes that storage, which the caller holds, the i-th tensor of an item; the
 * item keeps it from here on. */
int item_leases_install(tarn_channel *channel, uint32_t slot, uint32_t i,
	uint32_t index, uint64_t generation);
/* After a slot was acquired: releases the storages that its last item kept. */
void item_leases_clear(tarn_channel *channel, uint32_t slot);
/* After a slot with that many tensors was given back. */
void item_leases_left(tarn_channel *channel, uint32_t slot, uint32_t n);
