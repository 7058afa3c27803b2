/* SPDX-License-Identifier: MIT */
/*
 * Channels: tensors handed from process to process without copying them.
 *
 * A channel is a named ring of slots in shared memory. A producer acquires a
 * slot, makes tensors in it, fills them and publishes; a consumer receives the
 * item, reads in place, and gives the slot back by dropping its references.
 * Nothing of that is a message to the daemon, and a hand-over for which nobody
 * has to wait is no system call.
 *
 *	tarn_channel *c = NULL;
 *	tarn_slot *slot;
 *	tarn_tensor *t;
 *	const struct tarn_channel_options options = {.slots = 4};
 *
 *	r = tarn_channel_open(store, "decoded", &options, &c);
 *	if (r >= 0)
 *		r = tarn_channel_acquire(c, -1, &slot);
 *	if (r >= 0)
 *		r = tarn_slot_empty(slot, TARN_F32, 2, shape, &t);
 *	... fill tarn_tensor_data(t), drop t ...
 *	if (r >= 0)
 *		r = tarn_slot_publish(slot);
 *
 * and at the other end
 *
 *	r = tarn_channel_receive(c, -1, &item);
 *	if (r >= 0)
 *		r = tarn_item_tensor(item, 0, &t);
 *	... read, drop t ...
 *	tarn_item_unref(item);
 *
 *	queue:      each item goes to exactly one consumer
 *	broadcast:  each item goes to every consumer that had joined (up to 64)
 *
 * A channel is bounded: where no slot is free, producers wait. Whoever dies,
 * at any instruction, gives back what he held: what he was filling is free,
 * what he had published is delivered, what he was reading is delivered again
 * (queue: tarn_item_redelivered; where all others have seen the end it is there
 * for who comes, and ready in tarn_channel_get_info) or counts as seen
 * (broadcast).
 *
 * All who take part may write all of a channel's memory: a channel is as good
 * as those whom the rule of its pool lets in. What they write there is checked
 * before it is believed, so that one who lies does harm to bytes, not to
 * processes.
 *
 * Threads: every call may be made from any thread. A handle is at most one
 * producer and one consumer of its channel, and threads that share it share
 * these; two consumers of a broadcast need two handles. Fork: a child's handle
 * is a participant of its own from its first call on; slots and items of before
 * the fork are the parent's alone, and the child's references to them do
 * nothing.
 *
 * timeout_ms is everywhere: 0 only tries, a negative one waits for ever.
 * Errors of all that waits: -ETIMEDOUT; -EINTR: a signal was handled meanwhile,
 * call again; -EPIPE: it is closed (to a consumer: and nothing is left);
 * -ESTALE: this participant was taken for dead, or has left meanwhile: the next
 * call joins anew; -EBADMSG: what a peer wrote makes no sense; -ECONNRESET: the
 * daemon is gone, so nobody can join (who has joined goes on).
 */
#pragma once

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_channel tarn_channel;
typedef struct tarn_slot tarn_slot; /* being filled: of one thread at a time */
typedef struct tarn_item tarn_item; /* received */

enum tarn_channel_mode {
	TARN_CHANNEL_QUEUE = 1,
	TARN_CHANNEL_BROADCAST = 2,
};

enum tarn_channel_role {
	TARN_CHANNEL_PRODUCER = 1,
	TARN_CHANNEL_CONSUMER = 2,
};

#define TARN_CHANNEL_SLOTS_MAX 65536u
#define TARN_CHANNEL_TAG_MAX 64u /* bytes: a number, a key, a short name */
#define TARN_CHANNEL_TENSORS_MAX 1024u /* picked; of one item */
/* Its name goes when the last participant has left or died, once there was one,
 * also if it was not closed, and whatever is left in it. */
#define TARN_CHANNEL_EPHEMERAL 1u
/* Slots of 64 KiB and more are not there from the start: memory for all of
 * them is asked for when it is created, but taken when a slot is first filled,
 * and as far as it is. */
#define TARN_CHANNEL_SPARSE 2u

struct tarn_channel_options {
	enum tarn_channel_mode mode; /* 0: as it is, or queue */
	uint32_t slots;		     /* 0: 8; at most TARN_CHANNEL_SLOTS_MAX */
	uint64_t slot_bytes;	     /* 0: 4 MiB; rounded up to pages */
	uint32_t tensors;	     /* of one item at most; 0: 16 */
	uint32_t flags;		     /* TARN_CHANNEL_* */
};

/* ---- opening and taking part ---------------------------------------- */

/*
 * Opens the channel of that name. With options it is created if there is none,
 * or only one that was closed and all of which was received; as long as there
 * are items in that, which only its name leads to: -EEXIST. options all 0 are
 * the defaults. Without (NULL) it is never created, -ENOENT, and one that was
 * closed is opened to be received from.
 * All its memory is taken when it is created, unless it is sparse: -ENOMEM. One
 * that is there keeps its geometry, which tarn_channel_get_info tells; another
 * mode than options ask for is -EEXIST. -EINVAL: the name is a tensor's.
 * -EBUSY: to create it is a publication, and as many of this user's are under
 * way as the daemon's descriptors allow (publish.h). *ret is the caller's
 * reference, which keeps what it needs of the store.
 */
TARN_PUBLIC int tarn_channel_open(tarn_store *store, const char *name,
	const struct tarn_channel_options *options, tarn_channel **ret);

TARN_PUBLIC tarn_channel *tarn_channel_ref(tarn_channel *channel);
/* The last reference leaves the channel; slots, items and tensors over them
 * stay valid until they are dropped. Takes NULL, returns NULL. */
TARN_PUBLIC tarn_channel *tarn_channel_unref(tarn_channel *channel);

/* Borrowed. */
TARN_PUBLIC const char *tarn_channel_name(const tarn_channel *channel);

/* Becomes a participant, of roles ored; the first acquire or receive does it
 * unasked. A broadcast is received from here on. -EUSERS: there are 64
 * consumers of a broadcast, or 1024 participants. */
TARN_PUBLIC int tarn_channel_join(tarn_channel *channel, unsigned roles);
/* Is one no more: slots that were being filled are abandoned; items stay the
 * caller's until he drops them. Waits of other threads end with -ESTALE. */
TARN_PUBLIC int tarn_channel_leave(tarn_channel *channel, unsigned roles);

/* Nothing is published any more, by anybody; consumers get what was, then
 * -EPIPE. May be said by anybody, again too. When nobody takes part any more
 * and nothing is left to be received, the name is free: the daemon is asked to
 * look, after the end has been said, and waited for, but is no error. So it is
 * by who leaves; not by who drops the last of what he had in hand, unless he
 * opens a channel next. */
TARN_PUBLIC int tarn_channel_close(tarn_channel *channel);

/* ---- the producer --------------------------------------------------- */

/* A slot that nobody else touches. It is ended by publish or abandon. */
TARN_PUBLIC int tarn_channel_acquire(
	tarn_channel *channel, int timeout_ms, tarn_slot **ret);

/* A writable tensor inside the slot, C order, aligned to 64 bytes, its bytes as
 * they were left; it becomes the next tensor of the item. -ENOSPC says how
 * many bytes are left; -E2BIG: the item has as many tensors as it may; -ENOMEM:
 * what a sparse channel has not taken yet is not to be had. */
TARN_PUBLIC int tarn_slot_empty(tarn_slot *slot, int dtype, int ndim,
	const int64_t *shape, tarn_tensor **ret);

/*
 * Sends a tensor as it is, without a copy: one that lies in this slot, or one
 * that the store keeps, of this channel's pool (loaded, looked up, published).
 * Such a one is kept by the item until that is released, whatever becomes of
 * its name and of who sent it. -ENOTSUP: it lies elsewhere; publish it first,
 * or copy it into the slot.
 */
TARN_PUBLIC int tarn_slot_add(tarn_slot *slot, tarn_tensor *tensor);

/* Has the i-th tensor, which tarn_slot_empty gave, seen in another way: by the
 * layout of a view of it. -ERANGE: it reaches outside of the slot. */
TARN_PUBLIC int tarn_slot_set(
	tarn_slot *slot, uint32_t i, const struct tarn_layout *layout);

/* Up to TARN_CHANNEL_TAG_MAX bytes that go with the item. -EMSGSIZE. */
TARN_PUBLIC int tarn_slot_tag(tarn_slot *slot, const void *tag, size_t size);

/* Bytes left for tensors. */
TARN_PUBLIC uint64_t tarn_slot_room(const tarn_slot *slot);

/* Both end the slot, also where they fail; tensors over it become read-only,
 * and what is read there is anybody's. Addresses that were taken of them cannot
 * be: who writes there changes what the consumer reads, or what another
 * producer fills. abandon takes NULL, returns NULL. */
TARN_PUBLIC int tarn_slot_publish(tarn_slot *slot);
TARN_PUBLIC tarn_slot *tarn_slot_abandon(tarn_slot *slot);

/* ---- the consumer --------------------------------------------------- */

/* The next item. Its slot is given back when it and all tensors over the slot
 * are dropped, in any order, in any thread. */
TARN_PUBLIC int tarn_channel_receive(
	tarn_channel *channel, int timeout_ms, tarn_item **ret);

TARN_PUBLIC uint32_t tarn_item_count(const tarn_item *item);
/* A reference of the caller's. In the slot: writable in a queue, read-only in a
 * broadcast. One of the store's is as tarn_store_import makes it, and outlives
 * the item. -EBADMSG: the producer has described none. */
TARN_PUBLIC int tarn_item_tensor(
	tarn_item *item, uint32_t i, tarn_tensor **ret);
/* Are there any of the store's among them? Those tarn_item_tensor may have to
 * ask the daemon for, and wait; the others it never does. */
TARN_PUBLIC bool tarn_item_holds(const tarn_item *item);
/* Borrowed, until the item is dropped. */
TARN_PUBLIC const void *tarn_item_tag(const tarn_item *item, size_t *ret_size);
/* How many items were published in this channel before it. */
TARN_PUBLIC uint64_t tarn_item_position(const tarn_item *item);
/* Queue: it was delivered before, to one who died or left with it. What he
 * wrote into it is there. */
TARN_PUBLIC bool tarn_item_redelivered(const tarn_item *item);
/* Takes NULL, returns NULL. */
TARN_PUBLIC tarn_item *tarn_item_unref(tarn_item *item);

/* ---- event loops ---------------------------------------------------- */

/*
 * A descriptor that polls readable while something may be received (role
 * CONSUMER) or acquired (PRODUCER), or the end has come; it may say so once too
 * often. It is armed again by a call that finds nothing: so call with a timeout
 * of 0 until -ETIMEDOUT, then poll. The channel's, until its last reference
 * goes: not to be read or closed. A child of fork() asks for its own. It costs
 * a thread, which sleeps. -EAGAIN, -EMFILE.
 */
TARN_PUBLIC int tarn_channel_fd(
	tarn_channel *channel, enum tarn_channel_role role);

/* ---- looking on ----------------------------------------------------- */

struct tarn_channel_info {
	enum tarn_channel_mode mode;
	uint32_t slots, tensors;
	uint64_t slot_bytes;
	/* Slots by what is done with them; ready: published and not received,
	 * of a broadcast: not by all. */
	uint32_t free, filling, ready, reading;
	uint32_t producers, consumers;
	uint32_t closed;
	/* It has no name any more, so that only who has it open can come. */
	uint32_t nameless;
	/* Since it was made, by the living and the dead. */
	uint64_t published, received, bytes_published;
};

/* A look while others go on: each number was true at some time. */
TARN_PUBLIC int tarn_channel_get_info(
	tarn_channel *channel, struct tarn_channel_info *ret);

struct tarn_channel_seen {
	uint64_t position, bytes;
	uint32_t tensors, tag_size;
	unsigned char tag[TARN_CHANNEL_TAG_MAX];
};

/*
 * Watches items as they are published, by whomever, without taking part:
 * nobody waits for who watches, and he has not the tensors. A cursor begins
 * with 0: from now on. 1: *ret is the next; what went by too fast is skipped,
 * as ret->position tells. -ETIMEDOUT, -EINTR, -EPIPE: the end. A cursor is one
 * thread's.
 */
TARN_PUBLIC int tarn_channel_watch(tarn_channel *channel, uint64_t *cursor,
	int timeout_ms, struct tarn_channel_seen *ret);

/* Calls fn for each channel whose name begins with prefix (NULL: all), in no
 * order, as tarn_store_list does; stops when fn returns non-zero, and returns
 * that. */
TARN_PUBLIC int tarn_channel_list(tarn_store *store, const char *prefix,
	int (*fn)(void *arg, const char *name), void *arg);

#ifdef __cplusplus
}
#endif
