/* SPDX-License-Identifier: MIT */
/*
 * A client that says what it likes: frames and messages of shm/wire.h, right
 * or wrong, to a running daemon; and WIRE_LOAD, field by field.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/wire.h"

#define RAW_PATIENCE_MS 20000 /* for a reply, on a loaded machine */
#define RAW_HALF 60000        /* nearly WIRE_FRAME_MAX */

struct raw {
	int fd;
	int table, lease; /* from the welcome; -1 before */
	uint32_t serial;  /* of the last request */
	bool again;	  /* requests are said again, under that serial */
	struct wire_reader *reader;
	/* What the last replies said. */
	struct msg_welcome welcome;
	struct msg_loading loading;
	struct msg_loaded loaded;
	int error;
	char text[1100];
	int fds[WIRE_FDS_MAX]; /* of the last reply that had any; ours */
	int n_fds;
};

/* Connects, and says nothing. */
void raw_connect(struct raw *raw, const char *socket);
/* Connects and is welcome. */
void raw_open(struct raw *raw, const char *socket);
/* The same, in a pool that has a name. */
void raw_open_pool(struct raw *raw, const char *socket, const char *pool);
void raw_close(struct raw *raw);

/* One frame as it is; the return of sendmsg. */
long raw_frame(struct raw *raw, const void *bytes, size_t size, const int *fds,
	int n_fds);
/* A whole message under a new serial; 0, or what wire_send says. */
int raw_say(struct raw *raw, uint16_t type, const void *body, size_t size,
	const int *fds, int n_fds);
/* Is welcome, and says so many frames of a message that is longer, a part of
 * RAW_HALF bytes each. How many it could say. */
int raw_open_half(struct raw *raw, const char *socket, int frames);
/* The type of the next reply; 0: closed by the daemon; -1: nothing came. */
int raw_hear(struct raw *raw, int patience_ms);
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
	uint64_t since; /* 0: it is not said */
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
