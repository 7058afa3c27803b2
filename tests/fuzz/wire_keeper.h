/* SPDX-License-Identifier: MIT */
/*
 * The keeper of a server inside the test, and the loaders: they do what they
 * are asked, one message at a time, and remember what the next server needs.
 */
#pragma once

#include "tests/fuzz/wire_server.h"

#define SEGMENT (1u << 20)
#define REACH (64ull << 20)

/* It answers on this socket. */
void keeper_begin(int sock);
void keeper_end(void);
/* False: there was no message for it. */
bool keeper_receive(void);

/* What a server is begun with. */
void keeper_make_domain(uint32_t number, const char *name);
void keeper_make_segment(uint32_t domain);
void keeper_make_client(uint32_t number, int sock, int lease);

/* The server is about to be no more: what it had said is heard, and what it
 * has written so far is what the next one finds. */
void keeper_bury(void);
/* The next one, which has this socket now, is told all there is. */
void keeper_bring_all(int sock);

void keeper_suffer(enum event event);

/* ---- wire_loader.c ---------------------------------------------------- */

void loaders_begin(void);
void loaders_end(void);
bool loaders_receive(void);
void loaders_suffer(enum event event);
/* The server, which hears the keeper on that socket, has asked for one. */
void loader_fork(
	int keeper, const struct msg_loader *asked, uint32_t n_segments);
/* It has seen the end of its pipe. */
void loader_forget(uint32_t number);
/* The next server is told of those that may still write. */
void loaders_bring(void);

/* A message, of the keeper's or a loader's. */
void post_message(int sock, uint16_t type, const void *body, size_t size,
	const int *fds, int n_fds);
int copy_of(int fd);
