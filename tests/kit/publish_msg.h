/* SPDX-License-Identifier: MIT */
/* A WIRE_PUBLISH, field by field: each may be made to lie. */
#pragma once

#include "tests/kit/raw_client.h"

struct publish_msg {
	struct msg_publish head; /* counts itself; may be made to lie */
	struct msg_source sources[80];
	uint32_t n_sources; /* that are there */
	unsigned char names[4096];
	size_t names_size;
	char prefix[2048];
	size_t prefix_size;
	unsigned char bytes[4096];
	size_t n_bytes;
	int fds[WIRE_FDS_MAX];
	int n_fds;
};

/* As a client seals what it publishes so. */
void publish_msg_seal(int fd, enum source_kind kind);

/* Sends one whose message has about so many bytes, and which waits for memory
 * as long as the keeper is stopped: more than a segment of 64 MiB. */
void publish_msg_send_waiting(struct raw *raw, size_t bytes);

#define PUBLISH_MSG_MAX (1u << 16) /* bytes of one as a message */

void publish_msg_source(
	struct publish_msg *p, enum source_kind kind, uint64_t size);
/* U8 of that many bytes in a source. */
void publish_msg_name(struct publish_msg *p, const char *name, uint32_t source,
	uint64_t base, int64_t size, int64_t stride);
/* It stays the caller's. */
void publish_msg_fd(struct publish_msg *p, int fd);
/* One descriptor, said to be of that kind, under one name. */
struct publish_msg publish_msg_of(
	enum source_kind kind, uint64_t size, int fd, const char *name);
/* As a message; its size. */
size_t publish_msg_write(const struct publish_msg *p, unsigned char *body);
/* Sends it, and awaits nothing. */
void publish_msg_send(const struct publish_msg *p, struct raw *raw);
/* The answer to it: its type, with raw->error and raw->text. */
int publish_msg_answer(const struct publish_msg *p, struct raw *raw);
/* Sends one of as many tensors as a message can have, many/NUMBER/0 and so on,
 * a mebibyte each in a memfd of its own, and awaits nothing. */
void publish_msg_send_many(struct raw *raw, int number);
