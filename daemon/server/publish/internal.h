/* SPDX-License-Identifier: MIT */
/* Declarations that the files about publishing share. */
#pragma once

#include <sys/uio.h>

#include "daemon/loop/worker.h"
#include "daemon/server/server.h"

/* The storage in which one new name, or several, will lie. */
struct source {
	enum source_kind kind;
	uint64_t size;
	const unsigned char *bytes; /* SOURCE_BYTES: in the message */
	int fd;                     /* that came with it, -1: none */
	uint8_t device[16];         /* SOURCE_DEVICE: its UUID */
	uint32_t of;                /* SOURCE_PATCH: what it is over, */
	uint64_t of_generation;
	uint64_t own_size; /* and the bytes of its memfd */
	bool made;    /* it has an entry in the table, FILLING, that is ours */
	bool awaited; /* it has none yet, and counts as awaited */
	bool awaited_own; /* behind a descriptor of its own */
	bool ready;       /* and its bytes are there */
	uint32_t index;
	uint64_t generation;
	/* While the worker has it, no other thread touches it. */
	struct publish *publish;
	struct work work;
	bool working;
	bool worked;          /* the worker is done with what it was given */
	struct iovec *pieces; /* where a copy goes */
	uint32_t n_pieces;
	int64_t copied; /* bytes, or a negative errno */
	bool holes;     /* a memfd that was to be adopted has some */
};

/* One WIRE_PUBLISH on its way. */
struct publish {
	struct domain *domain;
	struct publish *next;
	struct client *client; /* NULL: it left, or was refused */
	struct domain *user;   /* of the uid that publishes */
	struct closer *closer; /* the same */
	uint32_t n_fds;        /* that it has brought */
	bool joined;           /* in its domain's list, and charged for */
	bool fits;             /* its quota was looked at, and it is awaited */
	uint32_t uid;
	uint32_t serial;
	struct wire_message message;
	struct source *sources;
	uint32_t n_sources;
	struct name_list names;
	const char *prefix;
	uint32_t prefix_size;
	uint32_t flags; /* PUBLISH_* */
	uint64_t ttl_ns;
	uint32_t n_working; /* sources that the worker has */
	struct admission admission;
	struct memory_wait wait; /* of the first source that has none */
};

/* publish/publish.c, for sources */
/* It has its entry, or will have none. */
void publish_awaited(struct publish *publish, struct source *source);
/* 1: it has memory in the pool; 0: wait; or an error. */
int publish_take_memory(struct publish *publish, struct source *source);
/* To the worker; 0, or an error. When it is done, worked is set and the source
 * is looked at again. */
int publish_give_work(struct publish *publish, struct source *source,
	void (*run)(struct work *work));

/* What its sources await, for inspect/audit.c. */
void publish_add_awaited(const struct publish *publish, uint64_t *sum);

/* publish/fd.c: those that come as a memfd. 1: its bytes are where they
 * will stay; 0: wait; or an error. */
int publish_from_fd(struct publish *publish, struct source *source);
/* As far as can be known yet: it stays behind its descriptor, with such an
 * entry. */
bool publish_is_own(const struct publish *publish, const struct source *source);
struct table_storage publish_own_entry(
	const struct publish *publish, const struct source *source);

/* publish/device.c: those in memory of a device */
/* Its size and its descriptor; what the message says of it besides. */
int publish_check_device(const struct source *source, uint32_t i);
int publish_read_device(
	struct source *source, const struct msg_device *message, uint32_t i);
/* As publish_from_fd. */
int publish_from_device(struct publish *publish, struct source *source);

/* publish/patch.c: pages over another storage */
int publish_check_patch(struct source *source, uint32_t i);
void publish_describe_patch(
	const struct source *source, struct table_storage *entry);
/* May it have an entry, in this event? */
int publish_check_base(const struct publish *publish, const struct source *s);

/* publish/parse.c: all that can be wrong with the message. Takes the
 * descriptors out of it. */
int publish_parse(struct publish *publish);

/* publish/commit.c: the names, when all sources are ready. */
/* May they be published over what stands there now? -EEXIST, -EBUSY. */
int publish_check_names(const struct publish *publish);
int publish_commit(struct publish *publish);
/* Is that a storage with all its bytes, of that size, which this client holds?
 * held: by its leases. */
int publish_check_existing(const struct publish *p, uint32_t index,
	uint64_t generation, uint64_t size, bool held);
/* publish/answer.c: the body of the answer, in one piece, from head. */
struct publish_answer {
	struct msg_published *head;
	struct msg_stored *stored; /* one a source */
	uint64_t *versions;        /* one a name */
	size_t size;
};
int publish_answer_new(const struct publish *p, struct publish_answer *ret);
void publish_send_answer(
	struct publish *p, const struct publish_answer *answer);
/* 1: a server before this one has done it, and it is answered; 0: it was not
 * done; or an error. */
int publish_answer_again(struct publish *publish);
