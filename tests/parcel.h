/* SPDX-License-Identifier: MIT */
/* A WIRE_PUBLISH, field by field: each may be made to lie. */
#pragma once

#include "tests/raw_client.h"

struct parcel {
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

#define PARCEL_MAX (1u << 16) /* bytes of one as a message */

void parcel_source(struct parcel *p, enum source_kind kind, uint64_t size);
/* U8 of that many bytes in a source. */
void parcel_name(struct parcel *p, const char *name, uint32_t source,
	uint64_t base, int64_t size, int64_t stride);
/* It stays the caller's. */
void parcel_fd(struct parcel *p, int fd);
/* One descriptor, said to be of that kind, under one name. */
struct parcel parcel_of(
	enum source_kind kind, uint64_t size, int fd, const char *name);
/* As a message; its size. */
size_t parcel_write(const struct parcel *p, unsigned char *body);
/* The answer to it: its type, with raw->error and raw->text. */
int parcel_answer(const struct parcel *p, struct raw *raw);
/* Says one of as many tensors as a message can have, many/NUMBER/0 and so on, a
 * mebibyte each in a memfd of its own, and awaits nothing. */
void parcel_say_many(struct raw *raw, int number);
