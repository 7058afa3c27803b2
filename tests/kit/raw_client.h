/* SPDX-License-Identifier: MIT */
/*
 * A client that sends anything: datagrams and messages of shm/wire.h, right or
 * wrong, to a running daemon; and WIRE_LOAD, field by field.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/messages.h"

#define RAW_PATIENCE_MS 60000 /* for a reply, on a loaded machine */

struct raw {
	int fd;
	int table, lease;  /* from the welcome; -1 before */
	uint32_t serial;   /* of the last request */
	bool again;        /* requests are sent again, under that serial */
	uint32_t answered; /* the serial of the last reply */
	uint32_t n_held;   /* signs of a server that does not read */
	/* The contents of the last replies. */
	struct msg_welcome welcome;
	struct msg_loading loading;
	struct msg_loaded loaded;
	struct msg_restarted restarted;
	struct msg_checked checked;
	struct {
		struct msg_published head;
		struct msg_stored stored; /* of one source */
		uint64_t version;         /* of one name */
	} published;
	int error;
	char text[1100];
	struct wire_partial partial; /* of a reply in parts */
	int fds[WIRE_FDS_MAX];       /* of the last reply that had any; ours */
	int n_fds;
};

/* Connects, and sends nothing. */
void raw_connect(struct raw *raw, const char *socket);
/* Connects and is welcome. */
void raw_open(struct raw *raw, const char *socket);
/* The same, in a pool that has a name. */
void raw_open_pool(struct raw *raw, const char *socket, const char *pool);
void raw_close(struct raw *raw);

/* One datagram as it is; the return of sendmsg. */
long raw_frame(struct raw *raw, const void *bytes, size_t size, const int *fds,
	int n_fds);
/* A whole message under a new serial; 0, or the error of wire_send. */
int raw_send(struct raw *raw, uint16_t type, const void *body, size_t size,
	const int *fds, int n_fds);
/* The type of the next reply, but for notices of memory that is taken, and signs
 * of a server that does not read; 0: closed by the daemon; -1: nothing came. */
int raw_receive(struct raw *raw, int patience_ms);
/* The same, but for WIRE_LOADING, which is passed over. */
int raw_answer(struct raw *raw);
/* Until the daemon closes the connection: true if it did. */
bool raw_is_closed(struct raw *raw);

/* ---- a load ----------------------------------------------------------- */

struct order {
	struct msg_load head; /* counts itself; may be made to lie */
	uint32_t n_ranges;    /* that are there */
	struct msg_range ranges[80];
	unsigned char *names;
	size_t names_size;
	char label[2048];
};

void order_range(struct order *order, uint64_t file_offset, uint64_t size,
	uint64_t storage_offset);
void order_name(struct order *order, const char *name, size_t name_size,
	uint8_t dtype, uint8_t ndim, const int64_t *shape,
	const int64_t *stride, uint64_t base, int64_t offset);
/* U8 of that many bytes, from the beginning. */
void order_bytes(struct order *order, const char *name, int64_t size);
/* Sends it, and forgets it. */
int order_send(struct order *order, struct raw *raw, int fd, int direct);
/* The same, then the answer: WIRE_LOADED, WIRE_ERROR, 0. */
int order_load(struct order *order, struct raw *raw, int fd, int direct);
