/* SPDX-License-Identifier: MIT */
/*
 * Channels: tensors handed from process to process without copying them.
 *
 * A channel is a named ring of slots in shared memory. A producer acquires a
 * slot, makes tensors in it, fills them and publishes; a consumer receives the
 * item, reads in place, and gives the slot back by dropping its references.
 * None of these steps sends a message to the daemon, and a hand-over without
 * waiting needs no system call.
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
 *		r = tarn_slot_new_tensor(slot, TARN_F32, 2, shape, &t);
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
 * A channel has one of two modes:
 *
 *	queue:      each item goes to exactly one consumer
 *	broadcast:  each item goes to every consumer that had joined (up to 64)
 *
 * A channel is bounded: where no slot is free, producers wait. If a participant
 * dies, at any instruction, the channel takes back what it held. The slot that
 * it was filling is free, and what it had published is delivered. The item that
 * it was reading is delivered again (queue: tarn_item_redelivered; if all
 * others have seen the end, the item waits for the next consumer, and
 * tarn_channel_info counts it as ready) or counts as seen (broadcast).
 *
 * Every participant can write all of a channel's memory, so trust a channel
 * only as far as you trust the users that may use its pool. The
 * library checks what they write there before it uses it: a malicious
 * participant can corrupt data, but cannot crash other processes.
 *
 * Threads: every call may be made from any thread. A handle is at most one
 * producer and one consumer of its channel, and threads that share the handle
 * share these; two consumers of a broadcast need two handles. Fork: a child's
 * handle becomes a participant of its own with its first call; slots and items
 * from before the fork belong to the parent alone, and the child's references
 * to them do nothing.
 *
 * timeout_ms, in every function that waits: 0 only tries, a negative value
 * waits for ever. Errors of these functions: -ETIMEDOUT; -EINTR: a signal was
 * handled meanwhile, call again; -EPIPE: the channel is closed (for a consumer:
 * and no item is left); -ESTALE: this participant was taken for dead, or has
 * left meanwhile, and the next call joins anew; -EBADMSG: a peer wrote invalid
 * data; -ECONNRESET: the daemon is gone, so no process can join (participants
 * go on).
 */
#pragma once

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_channel tarn_channel;
typedef struct tarn_slot tarn_slot; /* being filled, by one thread at a time */
typedef struct tarn_item tarn_item; /* a received item */

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
/* The channel's name is removed when the last participant has left or died,
 * once there was one, even if the channel was not closed, and whatever items
 * are left in it. */
#define TARN_CHANNEL_EPHEMERAL 1u
/* Slots of 64 KiB and more are not allocated in advance: memory for all of them
 * must be available when the channel is created, but is taken only when a slot
 * is first filled, and as far as it is. */
#define TARN_CHANNEL_SPARSE 2u

struct tarn_channel_options {
	enum tarn_channel_mode mode; /* 0: that of the existing channel, or
				      * queue */
	uint32_t slots;		     /* 0: 8; at most TARN_CHANNEL_SLOTS_MAX */
	uint64_t slot_bytes;	     /* 0: 4 MiB; rounded up to pages */
	uint32_t tensors;	     /* in one item at most; 0: 16 */
	uint32_t flags;		     /* TARN_CHANNEL_* */
	uint64_t reserved[8]; /* 0 */
};

/* ---- opening and taking part ---------------------------------------- */

/*
 * Opens the channel of that name. With options the channel is created if there
 * is none, or only a closed one whose items were all received. A closed one
 * that still has items, which only its name leads to, is -EEXIST. Options that
 * are all 0 are the defaults. Without options (NULL) it is never created:
 * -ENOENT; and a closed one is opened to receive from it.
 *
 * An existing channel keeps its geometry, which tarn_channel_info returns; a
 * mode other than that in options is -EEXIST. All memory of a new channel is
 * taken when it is created, unless it is sparse: -ENOMEM. -EINVAL: the name is
 * a tensor's. -EBUSY: creating it is a publication, and this user has as many
 * under way as the daemon's descriptors allow (publish.h). *ret is the caller's
 * reference, and keeps the store alive as long as needed.
 */
TARN_PUBLIC int tarn_channel_open(tarn_store *store, const char *name,
	const struct tarn_channel_options *options, tarn_channel **ret)
	TARN_NONNULL(1, 2, 4) TARN_MUST_CHECK;

/* One more reference, for the caller. Takes NULL, returns its argument. */
TARN_PUBLIC tarn_channel *tarn_channel_ref(tarn_channel *channel);
/* Drops a reference. The last one leaves the channel; slots, items and tensors
 * over them stay valid until they are dropped. Takes NULL, returns NULL. */
TARN_PUBLIC tarn_channel *tarn_channel_unref(tarn_channel *channel);

/* The name of the channel; borrowed. */
TARN_PUBLIC const char *tarn_channel_name(const tarn_channel *channel)
	TARN_NONNULL(1) TARN_NOT_NULL;

/* Becomes a participant, in one or more roles (ored); the first acquire or
 * receive does it implicitly. A consumer of a broadcast gets the items that are
 * published from then on. -EUSERS: there are 64 consumers of a broadcast, or
 * 1024 participants. */
TARN_PUBLIC int tarn_channel_join(tarn_channel *channel, unsigned roles)
	TARN_NONNULL(1) TARN_MUST_CHECK;
/* Gives up these roles (ored). Slots that were being filled are abandoned;
 * items stay valid until the caller drops them. Waits of other threads end with
 * -ESTALE. The result may be ignored where roles is right: the only error is
 * -EINVAL, for roles that do not exist. */
TARN_PUBLIC int tarn_channel_leave(tarn_channel *channel, unsigned roles)
	TARN_NONNULL(1);

/* Ends the channel: no producer can publish any more, and consumers get the
 * published items, then -EPIPE. Any process that has it open may call it, more
 * than once. When there are no participants and no items left, the name becomes
 * free: tarn_channel_close and tarn_channel_leave ask the daemon to check that,
 * and wait for its answer, whose failure is not an error of theirs. Dropping
 * the last item does not wait for the daemon; the process's next
 * tarn_channel_open does. */
TARN_PUBLIC int tarn_channel_close(tarn_channel *channel)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* ---- the producer --------------------------------------------------- */

/* Waits for a free slot, which no other participant touches until
 * tarn_slot_publish or tarn_slot_abandon ends it. Joins as a producer if
 * necessary. */
TARN_PUBLIC int tarn_channel_acquire(tarn_channel *channel, int timeout_ms,
	tarn_slot **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Makes a writable tensor inside the slot, in C order, aligned to 64 bytes,
 * with the bytes that the slot's last item left; it becomes the next tensor of
 * the item. -ENOSPC: the sentence says how many bytes are left; -E2BIG: the
 * item has its maximum of tensors; -ENOMEM: memory that a sparse channel has
 * not taken yet is not available. */
TARN_PUBLIC int tarn_slot_new_tensor(tarn_slot *slot, enum tarn_dtype dtype,
	int ndim, const int64_t *shape, tarn_tensor **ret)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/*
 * Adds a tensor without a copy: one in this slot, or one that the store keeps,
 * in this channel's pool (loaded, looked up, published). The item keeps the
 * latter until it is released, whatever becomes of its name and of the sender.
 * -ENOTSUP: the tensor is elsewhere; publish it first, or copy it into the
 * slot.
 */
TARN_PUBLIC int tarn_slot_add(tarn_slot *slot, tarn_tensor *tensor)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Replaces the layout of the i-th tensor, which tarn_slot_new_tensor made, by
 * that of a view of it. -ERANGE: the layout reaches outside of the slot. */
TARN_PUBLIC int tarn_slot_set_layout(tarn_slot *slot, size_t i,
	const struct tarn_layout *layout) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Sets up to TARN_CHANNEL_TAG_MAX bytes that travel with the item; they are
 * copied. -EMSGSIZE. */
TARN_PUBLIC int tarn_slot_set_tag(tarn_slot *slot, const void *tag, size_t size)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* The bytes left for tensors. */
TARN_PUBLIC uint64_t tarn_slot_room(const tarn_slot *slot)
	TARN_NONNULL(1);

/* Publishes the slot's tensors as an item, or frees the slot without one. Both
 * end the slot, also on failure; tensors over it become read-only, and their
 * content is undefined. Do not write through addresses taken before: such a
 * write changes the bytes that the consumer reads, or that another producer
 * fills. tarn_slot_abandon takes NULL and returns NULL. */
TARN_PUBLIC int tarn_slot_publish(tarn_slot *slot)
	TARN_NONNULL(1) TARN_MUST_CHECK;
TARN_PUBLIC tarn_slot *tarn_slot_abandon(tarn_slot *slot);

/* ---- the consumer --------------------------------------------------- */

/* Receives the next item; joins as a consumer if necessary. Its slot is given
 * back when it and all tensors over the slot are dropped, in any order, in any
 * thread. tarn_item_count returns the number of its tensors. */
TARN_PUBLIC int tarn_channel_receive(tarn_channel *channel, int timeout_ms,
	tarn_item **ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* The number of the item's tensors. */
TARN_PUBLIC size_t tarn_item_count(const tarn_item *item)
	TARN_NONNULL(1);
/* The i-th tensor of an item, as a reference of the caller's. A tensor in the
 * slot is writable in a queue and read-only in a broadcast. A tensor of the
 * store is as tarn_store_import makes it, and outlives the item. -EBADMSG: the
 * producer did not describe a valid one. */
TARN_PUBLIC int tarn_item_tensor(tarn_item *item, size_t i, tarn_tensor **ret)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;
/* Does the item have tensors of the store? For those tarn_item_tensor may have
 * to send a request to the daemon, and wait; for the others it never does. */
TARN_PUBLIC bool tarn_item_has_stored(const tarn_item *item)
	TARN_NONNULL(1);
/* The bytes that the producer set with tarn_slot_set_tag. Borrowed, until the
 * item is dropped. */
TARN_PUBLIC const void *tarn_item_tag(const tarn_item *item, size_t *ret_size)
	TARN_NONNULL(1, 2) TARN_NOT_NULL;
/* How many items were published in this channel before it. */
TARN_PUBLIC uint64_t tarn_item_position(const tarn_item *item)
	TARN_NONNULL(1);
/* Was the item delivered before, to a consumer that died or left (queue)? It
 * contains whatever that consumer wrote into it. */
TARN_PUBLIC bool tarn_item_redelivered(const tarn_item *item)
	TARN_NONNULL(1);
/* Are there tensors over the item's slot, so that it stays in use when the item is
 * dropped? Those of the store do not count. */
TARN_PUBLIC bool tarn_item_has_tensors(const tarn_item *item)
	TARN_NONNULL(1);
/* One more reference, for the caller. Takes NULL, returns its argument. */
TARN_PUBLIC tarn_item *tarn_item_ref(tarn_item *item);
/* Drops a reference. Takes NULL, returns NULL. */
TARN_PUBLIC tarn_item *tarn_item_unref(tarn_item *item);

/* ---- event loops ---------------------------------------------------- */

/*
 * A descriptor that polls readable while an item may be received (role
 * CONSUMER) or a slot acquired (PRODUCER), or the end has come; it may be
 * readable once too often. A call that finds nothing arms it again: so call
 * with a timeout of 0 until -ETIMEDOUT, then poll. The descriptor belongs to
 * the channel until its last reference is dropped: do not read or close it. A
 * child of fork() must ask for its own. It costs a thread, which sleeps.
 * -EAGAIN, -EMFILE.
 */
TARN_PUBLIC int tarn_channel_fd(tarn_channel *channel,
	enum tarn_channel_role role) TARN_NONNULL(1) TARN_MUST_CHECK;

/* ---- looking on ----------------------------------------------------- */

struct tarn_channel_info {
	enum tarn_channel_mode mode;
	uint32_t slots, tensors;
	uint64_t slot_bytes;
	/* Slots by state; ready: published and not received (of a broadcast:
	 * not by all). */
	uint32_t free, filling, ready, reading;
	uint32_t producers, consumers;
	uint32_t closed;
	/* Its name is removed: only processes that have it open can join. */
	uint32_t unlinked;
	/* Since the channel was made, by live and dead participants. */
	uint64_t published, received, bytes_published;
	/* Items that this process has received and not dropped. */
	uint64_t held;
	uint64_t reserved[7]; /* 0 */
};

/* Reads the state while others go on: each number was true at some time. */
TARN_PUBLIC int tarn_channel_info(tarn_channel *channel,
	struct tarn_channel_info *ret) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

struct tarn_channel_seen {
	uint64_t position, bytes;
	uint32_t tensors, tag_size;
	unsigned char tag[TARN_CHANNEL_TAG_MAX];
	uint64_t reserved[8]; /* 0 */
};

/*
 * Watches items as any producer publishes them, without taking part: no
 * participant waits for a watcher, and it gets no tensors. *cursor must be 0 at
 * first, which means from now on; one thread at a time uses it. Returns 1 with
 * the next item in *ret; items that went by too fast are skipped, which shows
 * in ret->position. -ETIMEDOUT, -EINTR, -EPIPE: the end.
 */
TARN_PUBLIC int tarn_channel_watch(tarn_channel *channel, uint64_t *cursor,
	int timeout_ms, struct tarn_channel_seen *ret)
	TARN_NONNULL(1, 2, 4) TARN_MUST_CHECK;

/* Calls fn for each channel whose name begins with prefix (NULL: all), in no
 * order, as tarn_store_list does; stops when fn returns non-zero, and returns
 * that. */
TARN_PUBLIC int tarn_channel_list(tarn_store *store, const char *prefix,
	int (*fn)(void *arg, const char *name), void *arg)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
