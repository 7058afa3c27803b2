/* SPDX-License-Identifier: MIT */
/*
 * A channel from the inside.
 *
 * A handle is an object that is counted twice: by its users (handles), the last
 * of which leaves the ring, and by all that needs its memory (refs): the
 * handle itself, members, slots and items whose tensors outlive them.
 *
 * It has two sides, a producer's and a consumer's, each with a lock and, once
 * it has joined, a member: one life as a participant. What was acquired or
 * received belongs to the member that did it, so that a handle may leave, and
 * join again as somebody else, while its items are still read. All that is done
 * with a member's struct ring is done with the lock of its side; nobody sleeps
 * with it, or takes another lock.
 *
 * Forks. A member is of the process that it joined in. The child counts a life
 * more than its parent (store_fork.c holds both locks meanwhile), and what is
 * of an earlier life it leaves alone: its parent has it.
 */
#pragma once

#include <tarn/channel.h>

#include "lib/channel/brief.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"
#include "shm/channel.h"
#include "shm/ring.h"

/* Slots, or items, of a side that wait to be used again. Picked: who has more
 * in hand at once does more with them than that memory costs. */
#define KEPT_MAX 16
/* Else who uses what has ended would not be found out. */
#ifdef __SANITIZE_ADDRESS__
#define KEEPS 0
#else
#define KEEPS 1
#endif

/* Words of a record before its sizes. */
#define RECORD_HEADER (offsetof(struct tarn_descriptor, shape) / 8)

/* A reference to the channel each. */
struct member {
	struct ring ring;
	unsigned life; /* of the channel, when it joined */
	/* All with the side's lock. */
	uint32_t refs; /* its side, what it has in hand, who waits */
	uint32_t out;  /* slots or items in hand */
	bool left;
};

struct side {
	struct brief lock;
	unsigned kind;             /* RING_PRODUCER or RING_CONSUMER */
	struct member *member;     /* NULL: has not joined */
	tarn_slot *slots;          /* producer: those being filled */
	struct bell *_Atomic bell; /* NULL: nobody polls */
	void *kept[KEPT_MAX];      /* tarn_slot or tarn_item, free */
	unsigned n_kept;
};

struct tarn_channel {
	atomic_uint handles, refs;
	tarn_store *store; /* a reference */
	char *name;
	uint32_t index; /* the storage, held */
	uint64_t generation;
	struct channel_map map;
	struct ring ring; /* attached; joins nothing */
	unsigned life;
	struct side producer, consumer;
	/* Of each slot, how many bytes this process has surely mapped; NULL:
	 * small ones. Its producer's who has the slot, one after the other. */
	uint64_t *mapped;
	/* The header of nearly every record, as words; but for usual_free. */
	uint64_t usual[RECORD_HEADER], usual_free;
	bool sparse; /* not all of its slots were there when it was mapped */
	_Atomic int fd; /* of its memory, once somebody wants it privately; -1 */
	pthread_mutex_t mapping; /* guards what follows */
	bool bytes_writable;
	struct store_rider rider;
};

struct tarn_slot {
	tarn_storage storage;  /* part: of the whole slot */
	tarn_channel *channel; /* a reference once it has ended */
	struct member *member; /* NULL: it has ended */
	tarn_slot *next, **previous;
	uint32_t slot;
	bool holds;  /* storages of the pool */
	bool lodged; /* else the reference of first is the slot's */
	uint64_t used;
	struct ring_note note;
	tarn_tensor first; /* where it lies once lodged */
	/* Of a handle that is used again its layout is nearly always right: its
	 * bytes in C order; 0: it is to be made. */
	uint64_t first_size;
};

struct tarn_item {
	tarn_storage storage; /* as above */
	tarn_channel *channel;
	struct member *member;
	struct ring_item item;
	atomic_bool lodged; /* by whoever asks first, in any thread */
	tarn_tensor first;
	uint64_t first_size; /* as above */
};

/* ---- channel.c -------------------------------------------------------- */

tarn_channel *channel_hold(tarn_channel *channel);
void channel_release(tarn_channel *channel);
/* "channel 'x': " in front of the sentence. */
int channel_fail(const tarn_channel *channel, int r);

/* A ring's positions begin somewhere, and are numbers of 48 bits; ours are how
 * many were published before. */
static inline uint64_t channel_position(
	const tarn_channel *channel, uint64_t position)
{
	return (position - channel->ring.order_size) & ((1ull << 48) - 1);
}

/* ---- channel_map.c ---------------------------------------------------- */

/* What is less than that is faulted in no slower than asked for. */
#define CHANNEL_MAP_MIN (64ull << 10)

/* Maps the storage, which is held; *ret_closed: nothing will come any more. */
int channel_map_storage(tarn_channel *channel, bool *ret_closed);
void channel_unmap(tarn_channel *channel);
/* The bytes of a slot copy-on-write; whatever it returns, the caller ends map.
 */
int channel_map_private(tarn_channel *channel, uint32_t slot,
	struct private_map *map, void **ret);
/* The bytes of slots may be written from here on. */
int channel_map_writable(tarn_channel *channel);
/* Who fills a slot will write its first bytes, up to end: maps them in one go
 * where each page would be a fault of its own. -ENOMEM. For who has found that
 * there is channel->mapped. */
int channel_map_slot(tarn_channel *channel, uint32_t slot, uint64_t end);
/* In the child of a fork, which has none of those pages. */
void channel_map_forget(tarn_channel *channel);

/* ---- channel_info.c --------------------------------------------------- */

/* Was its last name removed? */
bool channel_is_nameless(const tarn_channel *channel);

/* ---- channel_create.c ------------------------------------------------- */

/* Makes one and publishes it. -EEXIST: somebody else was faster. */
int channel_create(tarn_store *store, const char *name,
	const struct tarn_channel_options *options);

/* ---- left.c ----------------------------------------------------------- */

/* Somebody of ours has left: the daemon may have to be told. */
void channel_left(tarn_channel *channel);
/* The same, of who drops his last item or slot, and may do so where nobody
 * expects a wait, as in a destructor: the daemon looks when it comes to it. */
void channel_left_in_passing(tarn_channel *channel);
/* But before this returns, unless it hangs: for who looks for a name, since
 * one that he has ended himself is not to be found. */
void channel_see_to_passed(struct tarn_store *store);
/* Asked again who we are, the daemon looks who is left and what has ended; it
 * has done so when this returns, unless it is too busy with that. */
void channel_have_looked_at(tarn_channel *channel);

/* ---- member.c --------------------------------------------------------- */

void side_init(struct side *side, unsigned kind);
void side_done(struct side *side);
int side_join(tarn_channel *channel, struct side *side);
/* at_once: slots that are being filled are taken away; else, and for items, it
 * leaves with the last of them. */
void side_leave(tarn_channel *channel, struct side *side, bool at_once);
/* With the lock, and a reference to the channel, since it may drop one. */
void member_unref(tarn_channel *channel, struct member *member);
/* The same. One thing less in hand, which may be the last: then true, and
 * channel_left_in_passing() is to be called without the lock. */
bool member_give(tarn_channel *channel, struct member *member);

/* With the lock. One more thing in hand. */
static inline void member_take(struct member *member)
{
	member->refs++;
	member->out++;
}

/* Is it of this process? */
static inline bool member_is_ours(
	const tarn_channel *channel, const struct member *member)
{
	return member->life == channel->life;
}

/*
 * Calls look until it says something else than 0, with the lock and a member of
 * ours, which is joined first if need be. what: what was waited for.
 */
typedef int (*side_look)(struct member *member, void *arg);

/* What it does after the first look, which said r (0 also if nobody was there
 * to look). With the lock, which it lets go. */
int side_wait_on(tarn_channel *channel, struct side *side, int r,
	int timeout_ms, side_look look, void *arg, const char *what);

/* The first look is all that nearly every call comes to; it is inline, so that
 * it is one piece with what it is asked to do. */
static inline int side_wait(tarn_channel *channel, struct side *side,
	int timeout_ms, side_look look, void *arg, const char *what)
{
	struct member *member;
	int r = 0;

	brief_lock(&side->lock);
	member = side->member;
	if (__builtin_expect(member != NULL, 1))
		r = look(member, arg);
	if (__builtin_expect(r <= 0, 0))
		return side_wait_on(
			channel, side, r, timeout_ms, look, arg, what);
	brief_unlock(&side->lock);
	return 0;
}

struct side *channel_side(tarn_channel *channel, unsigned role);
/* For ring_wait.deadline_ns; and what is said when it has passed. */
uint64_t wait_until(int timeout_ms);
int wait_timed_out(
	const tarn_channel *channel, int timeout_ms, const char *what);

/* ---- kept handles, with the lock --------------------------------------- */

/* One that may be used again, or NULL. It stays kept until
 * kept_take(). */
static inline void *kept_top(const struct side *side)
{
	return side->n_kept ? side->kept[side->n_kept - 1] : NULL;
}

/* There was none: a new one. */
static inline void kept_add(struct side *side, void *handle)
{
	side->kept[side->n_kept++] = handle;
}

static inline void kept_take(struct side *side)
{
	side->n_kept--;
}

/* It has ended. False: it is the caller's to free. */
static inline bool kept_put(struct side *side, void *handle)
{
	if (!KEEPS || side->n_kept == KEPT_MAX)
		return false;
	side->kept[side->n_kept++] = handle;
	return true;
}

/* ---- channel_fd.c ------------------------------------------------------- */

/* Nothing was there: the descriptor says so again when there is. */
void bell_arm(struct bell *bell);
/* Both take NULL. forget: in the child of a fork. */
void bell_stop(struct bell *bell);
void bell_forget(struct bell *bell);

/* ---- record.c --------------------------------------------------------- */

/* The channel is mapped: what its records say nearly always. */
void record_begin(tarn_channel *channel);

/* The i-th tensor of an item is what this descriptor says. */
void record_put(tarn_channel *channel, uint32_t slot, uint32_t i,
	const struct tarn_descriptor *descriptor);
/* It lies in the slot. c_order: the layout is that of its sizes in C order. */
void record_put_in_slot(tarn_channel *channel, uint32_t slot, uint32_t i,
	uint64_t base, const struct tarn_layout *layout, bool c_order);
/* 1: it lies in the slot, from *ret_base on, all that *ret_layout reaches; 0:
 * it is what *ret says, which is not checked. Both are copies. -EBADMSG.
 * *known_size: 0, or of what *ret_layout already was, as layout_stands(). */
int record_get(const tarn_channel *channel, uint32_t slot, uint32_t i,
	struct tarn_descriptor *ret, uint64_t *ret_base,
	struct tarn_layout *ret_layout, uint64_t *known_size);

/* ---- held.c ----------------------------------------------------------- */

/* The i-th tensor of an item will be that storage, which the caller holds; the
 * item keeps it from here on. */
int held_install(tarn_channel *channel, uint32_t slot, uint32_t i,
	uint32_t index, uint64_t generation);
/* A slot was acquired: what its last item kept is kept no more. */
void held_clear(tarn_channel *channel, uint32_t slot);
/* A slot was given back, with so many tensors. */
void held_left(tarn_channel *channel, uint32_t slot, uint32_t n);
